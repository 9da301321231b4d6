#include "sdk/cli/execution.h"

#include "absl/strings/str_cat.h"
#include "sdk/host/status.h"

namespace backplane::cli {

absl::StatusOr<host::LoadedExecutable> CompileOn(const Session& session, const host::Program& program,
                                                 const host::CompileOptions& options) {
  absl::StatusOr<host::LoadedExecutable> executable = session.client.Compile(program, options);
  if (!executable.ok())
    return FromPlugin(host::WithContext(executable.status(), absl::StrCat(session.found.name, ": compile")));
  return executable;
}

absl::StatusOr<std::vector<host::Buffer>> ToDevice(const Session& session, const std::vector<host::HostArray>& arrays) {
  std::vector<host::Buffer> buffers;
  for (const host::HostArray& array : arrays) {
    absl::StatusOr<host::Buffer> buffer = session.client.ToDevice(array);
    if (!buffer.ok())
      return FromPlugin(
          host::WithContext(buffer.status(), absl::StrCat(session.found.name, ": input ", buffers.size())));
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
    return FromPlugin(host::WithContext(results.status(), absl::StrCat(session.found.name, ": execute")));
  std::vector<host::HostArray> arrays;
  for (const host::Buffer& result : *results) {
    absl::StatusOr<host::HostArray> array = result.ToHost();
    if (!array.ok())
      return FromPlugin(
          host::WithContext(array.status(), absl::StrCat(session.found.name, ": result ", arrays.size())));
    arrays.push_back(*std::move(array));
  }
  return arrays;
}

absl::StatusOr<std::vector<host::HostArray>> CompileAndRun(const Session& session, const host::Program& program,
                                                           const std::vector<host::HostArray>& inputs) {
  BP_ASSIGN_OR_RETURN(const host::LoadedExecutable executable, CompileOn(session, program));
  return RunOnce(session, executable, inputs);
}

}  // namespace backplane::cli
