// The tables of what mnemonics mean, by kind. A mnemonic stands without the suffixes of encodings (_e32, _e64, _dpp,
// _sdwa). Saturating variants of integer operations stand as "v_add_nc_u32 clamp".
#ifndef BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_OPERATIONS_H_
#define BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_OPERATIONS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "plugins/hip/isa/machine/instruction.h"

namespace backplane::hip::isa {

absl::Span<const Operation> ScalarArithmetic();
absl::Span<const Operation> ScalarLogic();
absl::Span<const Operation> ScalarControl();
absl::Span<const Operation> ScalarMemory();
absl::Span<const Operation> VectorInteger();
absl::Span<const Operation> VectorBits();
absl::Span<const Operation> VectorFloat();
absl::Span<const Operation> VectorDouble();
absl::Span<const Operation> VectorDivision();
absl::Span<const Operation> VectorConversions();
absl::Span<const Operation> VectorCompare();
absl::Span<const Operation> VectorPacked();
absl::Span<const Operation> CrossLane();
absl::Span<const Operation> LocalMemory();
absl::Span<const Operation> VectorMemory();
absl::Span<const Operation> MemoryAtomics();
absl::Span<const Operation> MatrixWmma();
absl::Span<const Operation> MatrixMfma();

// Null if the machine has no such operation here.
const Operation* FindOperation(Machine machine, absl::string_view mnemonic);

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_OPERATIONS_H_
