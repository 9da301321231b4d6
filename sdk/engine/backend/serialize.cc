// The stored form of an executable: fingerprint, options, costs, module, and one field for each object of machine code.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/build_id.h"
#include "sdk/backend/serialized_executable.h"
#include "sdk/engine/backend/executable.h"
#include "sdk/engine/backend/pipeline.h"

namespace backplane::engine {
namespace {

constexpr absl::string_view kStoredBy = "backplane engine";

}  // namespace

std::string DescribeCodeTarget() { return absl::StrCat(jit::ComputeHostFingerprint(), "; build ", BuildId()); }

absl::StatusOr<std::string> EngineExecutable::Serialize() const {
  ExecutableWriter writer(kStoredBy, DescribeCodeTarget());
  writer.AddBytes(fingerprint_);
  writer.AddOptions(options_);
  writer.AddCost(cost_);
  RETURN_IF_ERROR(writer.AddModule(program_->module()));
  for (const jit::ObjectCode& o : program_->objects()) writer.AddBytes(o.bytes);
  return std::move(writer).Take();
}

absl::StatusOr<std::shared_ptr<Executable>> DeserializeEngineExecutable(absl::string_view bytes,
                                                                        CustomCallRegistry* custom_calls) {
  ASSIGN_OR_RETURN(ExecutableReader reader, ExecutableReader::Open(bytes, kStoredBy, DescribeCodeTarget()));
  ASSIGN_OR_RETURN(absl::string_view fingerprint, reader.ReadBytes("fingerprint"));
  ASSIGN_OR_RETURN(CompileOptions options, reader.ReadOptions());
  ASSIGN_OR_RETURN(NamedValues cost, reader.ReadCost());
  ASSIGN_OR_RETURN(std::unique_ptr<Module> module, reader.ReadModule("program", options));
  std::vector<jit::ObjectCode> objects;
  while (!reader.AtEnd()) {
    ASSIGN_OR_RETURN(absl::string_view object, reader.ReadBytes("object code"));
    objects.push_back({std::string(object)});
  }
  ProgramOptions program_options = OptionsForRuntime(custom_calls);
  program_options.objects = &objects;
  std::vector<std::string> log = {"loaded from serialized form"};
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Program::Build(std::move(module), program_options, &log));
  return EngineExecutable::Create(std::move(program), std::move(options), std::move(cost), std::string(fingerprint),
                                  std::move(log));
}

}  // namespace backplane::engine
