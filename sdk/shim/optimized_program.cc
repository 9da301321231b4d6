// The optimized program as XLA hands it out: a serialized HloModuleProtoWithConfig.
#include "core/import/proto/hlo_proto.h"
#include "sdk/shim/objects.h"

absl::StatusOr<const std::string*> PJRT_Executable::optimized_program() {
  std::call_once(program_once_,
                 [&] { program_ = backplane::SerializeHloModuleWithConfig(executable->optimized_module()); });
  if (!program_.ok()) return program_.status();
  return &*program_;
}
