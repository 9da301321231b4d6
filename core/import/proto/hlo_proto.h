// HLO modules as protobuf bytes, field for field those of OpenXLA's HloModuleProto (hlo.proto).
//
// Writing and reading preserve everything that the text form holds. The published messages lack fields for partition
// counts, partitioner choices, memory kinds, and attributes set to the value that an absent field means; these are in
// fields of our own, which other readers skip. Bytes are deterministic: the same module gives the same bytes.
#ifndef BACKPLANE_CORE_IMPORT_PROTO_HLO_PROTO_H_
#define BACKPLANE_CORE_IMPORT_PROTO_HLO_PROTO_H_

#include <memory>
#include <string>

#include "core/ir/module.h"

namespace backplane {

// Any bytes are safe. The module is built with every check of each operation and verified. InvalidArgument: no such
// message, ids that do not fit, shapes that do not agree; Unimplemented: an operation or field that the IR lacks.
absl::StatusOr<std::unique_ptr<Module>> ParseHloModuleProto(absl::string_view bytes);
absl::StatusOr<std::unique_ptr<Module>> ParseHloModuleProtoWithConfig(absl::string_view bytes);

// Error only for a module of more than 2 GiB, which the wire format cannot hold.
absl::StatusOr<std::string> SerializeHloModule(const Module& module);
absl::StatusOr<std::string> SerializeHloModuleWithConfig(const Module& module);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_PROTO_HLO_PROTO_H_
