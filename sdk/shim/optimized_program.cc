// The optimized program in XLA's form: a serialized HloModuleProtoWithConfig.
#include "absl/strings/str_cat.h"
#include "core/import/proto/hlo_proto.h"
#include "sdk/shim/objects.h"

absl::StatusOr<const std::string*> PJRT_Executable::optimized_program() {
  std::call_once(program_once_, [&] {
    const backplane::Module* module = executable->optimized_module();
    if (module == nullptr) {
      program_ =
          absl::UnimplementedError(absl::StrCat("optimized program: the backend keeps none of ", executable->name()));
    } else {
      program_ = backplane::SerializeHloModuleWithConfig(*module);
    }
  });
  if (!program_.ok()) return program_.status();
  return &*program_;
}
