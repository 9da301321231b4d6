// Reads and writes HLO modules as protobuf bytes, with the fields of OpenXLA's HloModuleProto (hlo.proto).
//
// Writing and reading preserve everything that the text form holds. The published messages have no fields for partition
// counts, partitioner choices, memory kinds, and attributes whose value equals that of an absent field; these are in
// fields of our own, which other readers skip. Bytes are deterministic: the same module gives the same bytes.
#ifndef BACKPLANE_CORE_IMPORT_PROTO_HLO_PROTO_H_
#define BACKPLANE_CORE_IMPORT_PROTO_HLO_PROTO_H_

#include <memory>
#include <string>

#include "core/ir/module.h"

namespace backplane {

// Parses a module. Any bytes are safe. The module is built with all checks of each operation and verified. Returns
// InvalidArgument if the bytes are no such message, or ids or shapes do not match; Unimplemented for an operation or
// field that the IR does not have.
absl::StatusOr<std::unique_ptr<Module>> ParseHloModuleProto(absl::string_view bytes);
absl::StatusOr<std::unique_ptr<Module>> ParseHloModuleProtoWithConfig(absl::string_view bytes);

// Serializes a module. Returns an error only for a module of more than 2 GiB, which the wire format cannot hold.
absl::StatusOr<std::string> SerializeHloModule(const Module& module);
absl::StatusOr<std::string> SerializeHloModuleWithConfig(const Module& module);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_PROTO_HLO_PROTO_H_
