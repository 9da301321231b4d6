// LLVM's disassembler for one machine.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_CODE_DISASSEMBLER_H_
#define BACKPLANE_PLUGINS_HIP_ISA_CODE_DISASSEMBLER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::hip::isa {

struct DisassembledInstruction {
  uint32_t bytes = 0;
  std::string text;  // "v_add_f32_e32 v0, v1, v2"; empty if the bytes are no instruction
};

// Serves one thread at a time.
class Disassembler {
 public:
  ~Disassembler();
  // `machine` is LLVM's name: "gfx1100". Names with feature suffixes are given without them.
  static absl::StatusOr<std::unique_ptr<Disassembler>> Create(absl::string_view machine);
  DisassembledInstruction At(absl::Span<const uint8_t> code, uint64_t address);

 private:
  struct Parts;
  Disassembler();
  std::unique_ptr<Parts> parts_;
};

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_CODE_DISASSEMBLER_H_
