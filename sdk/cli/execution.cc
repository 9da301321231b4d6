#include "sdk/cli/execution.h"

#include <memory>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "api/backplane_c_api.h"
#include "core/import/compile_options.h"
#include "core/import/import.h"
#include "core/types/status_macros.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

bool IsReordered(const Shape& shape) {
  bool found = false;
  ForEachLeaf(shape,
              [&](const Shape& leaf, const std::vector<int64_t>&) { found |= leaf.IsArray() && !leaf.IsRowMajor(); });
  return found;
}

// A plugin uses the layouts in the entry of an HLO proto only if the options request it. Returns options that do, or
// nothing if all layouts are the default or if the program cannot be read.
std::optional<std::string> OptionsWithLayouts(const host::Program& program, const host::CompileOptions& options,
                                              Layouts layouts) {
  if (program.format != "hlo") return std::nullopt;
  const absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram(program.format, program.code);
  if (!module.ok()) return std::nullopt;
  const ModuleConfig& config = (*module)->config();
  const bool all = layouts == Layouts::kAll;
  const bool arguments =
      all ? !config.parameter_layouts.empty() : absl::c_any_of(config.parameter_layouts, IsReordered);
  const bool result =
      config.result_layout.element_type() != PrimitiveType::kInvalid && (all || IsReordered(config.result_layout));
  if (!arguments && !result) return std::nullopt;
  absl::StatusOr<CompileOptions> asked = ParseCompileOptions(options.Serialize());
  if (!asked.ok()) return std::nullopt;
  if (arguments) asked->argument_layouts = config.parameter_layouts;
  if (result) asked->result_layout = config.result_layout;
  asked->serialized.clear();
  return SerializeCompileOptions(*asked);
}

}  // namespace

absl::StatusOr<host::LoadedExecutable> CompileOn(const Session& session, const host::Program& program,
                                                 const host::CompileOptions& options, Layouts layouts) {
  const std::optional<std::string> with_layouts = OptionsWithLayouts(program, options, layouts);
  absl::StatusOr<host::LoadedExecutable> executable =
      with_layouts ? session.client.CompileWithBytes(program, *with_layouts) : session.client.Compile(program, options);
  if (!executable.ok())
    return FromPlugin(host::AddContext(executable.status(), absl::StrCat(session.found.name, ": compile")));
  return executable;
}

absl::StatusOr<std::vector<host::Buffer>> ToDevice(const Session& session, const std::vector<host::HostArray>& arrays) {
  std::vector<host::Buffer> buffers;
  for (const host::HostArray& array : arrays) {
    absl::StatusOr<host::Buffer> buffer = session.client.ToDevice(array);
    if (!buffer.ok())
      return FromPlugin(
          host::AddContext(buffer.status(), absl::StrCat(session.found.name, ": input ", buffers.size())));
    buffers.push_back(*std::move(buffer));
  }
  return buffers;
}

absl::StatusOr<std::vector<host::HostArray>> RunOnce(const Session& session, const host::LoadedExecutable& executable,
                                                     const std::vector<host::HostArray>& inputs) {
  BP_ASSIGN_OR_RETURN(const std::vector<host::Buffer> buffers, ToDevice(session, inputs));
  return RunOnBuffers(session, executable, buffers);
}

absl::StatusOr<std::vector<host::HostArray>> RunOnBuffers(const Session& session,
                                                          const host::LoadedExecutable& executable,
                                                          const std::vector<host::Buffer>& buffers) {
  std::vector<const host::Buffer*> arguments;
  for (const host::Buffer& buffer : buffers) arguments.push_back(&buffer);
  absl::StatusOr<std::vector<host::Buffer>> results = executable.Execute(arguments);
  if (!results.ok())
    return FromPlugin(host::AddContext(results.status(), absl::StrCat(session.found.name, ": execute")));
  std::vector<host::HostArray> arrays;
  for (const host::Buffer& result : *results) {
    absl::StatusOr<host::HostArray> array = result.ToHost();
    if (!array.ok())
      return FromPlugin(host::AddContext(array.status(), absl::StrCat(session.found.name, ": result ", arrays.size())));
    arrays.push_back(*std::move(array));
  }
  return arrays;
}

absl::Status RunToCompletion(const host::LoadedExecutable& executable,
                             const std::vector<const host::Buffer*>& arguments) {
  host::ExecuteOptions options;
  for (size_t i = 0; i < arguments.size(); ++i) options.non_donatable.push_back(static_cast<int64_t>(i));
  BP_ASSIGN_OR_RETURN(const std::vector<host::Buffer> results, executable.Execute(arguments, options));
  for (const host::Buffer& result : results) BP_RETURN_IF_ERROR(result.Await());
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadCompileLog(const Session& session, const host::LoadedExecutable& executable) {
  constexpr size_t kNeeded = offsetof(Backplane_Extension, loaded_executable_compile_log) + sizeof(void*);
  const auto* extension = session.plugin->Extension<Backplane_Extension>(BACKPLANE_EXTENSION_TYPE, kNeeded);
  if (extension == nullptr || extension->loaded_executable_compile_log == nullptr) {
    return absl::UnimplementedError(absl::StrCat(session.found.name, ": keeps no compile log"));
  }
  Backplane_LoadedExecutable_CompileLog_Args a{};
  a.struct_size = Backplane_LoadedExecutable_CompileLog_Args_STRUCT_SIZE;
  a.executable = executable.raw();
  BP_RETURN_IF_ERROR(session.plugin->TakeError(extension->loaded_executable_compile_log(&a)));
  return std::string(a.log, a.log_size);
}

absl::StatusOr<std::vector<host::HostArray>> CompileAndRun(const Session& session, const host::Program& program,
                                                           const std::vector<host::HostArray>& inputs) {
  BP_ASSIGN_OR_RETURN(const host::LoadedExecutable executable, CompileOn(session, program));
  return RunOnce(session, executable, inputs);
}

}  // namespace backplane::cli
