#include "sdk/cli/run_processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/cli/execution.h"
#include "sdk/cli/npy.h"
#include "sdk/cli/temporary_folder.h"
#include "sdk/host/folder_store.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

constexpr char kDevicesFile[] = "devices";  // has the number of devices of all processes

std::string ResultFile(int64_t device) { return absl::StrCat("device.", device, ".npz"); }
std::string ErrorFile(const std::string& process) { return absl::StrCat("error.", process); }

host::CompileOptions OptionsFor(const SeveralProcesses& run, int64_t devices) {
  host::CompileOptions options;
  options.num_partitions = static_cast<int>(run.num_partitions);
  options.num_replicas =
      static_cast<int>(run.num_replicas > 0 ? run.num_replicas : std::max<int64_t>(devices / run.num_partitions, 1));
  return options;
}

// Runs the program on the devices of this process and writes a file for each of them.
absl::Status RunOnDevices(const SeveralProcesses& run, const Session& session, const std::filesystem::path& folder) {
  BP_ASSIGN_OR_RETURN(const std::vector<host::Device> all, session.client.Devices());
  const host::CompileOptions options = OptionsFor(run, static_cast<int64_t>(all.size()));
  const int64_t needed = int64_t{options.num_replicas} * options.num_partitions;
  if (needed > static_cast<int64_t>(all.size())) {
    return absl::FailedPreconditionError(
        absl::StrCat("the program needs ", needed, " devices, there are ", all.size()));
  }
  BP_ASSIGN_OR_RETURN(const host::LoadedExecutable executable, CompileOn(session, run.program, options));
  BP_ASSIGN_OR_RETURN(const std::vector<host::Device> devices, executable.AddressableDevices());
  BP_ASSIGN_OR_RETURN(const std::vector<host::LoadedExecutable::LogicalId> ids,
                      executable.AddressableDeviceLogicalIds());
  if (ids.size() != devices.size()) return FromPlugin(absl::InternalError("it has a device without a logical id"));
  std::vector<std::vector<host::Buffer>> buffers(devices.size());
  std::vector<std::vector<const host::Buffer*>> arguments(devices.size());
  std::vector<int64_t> numbers;
  for (size_t d = 0; d < devices.size(); ++d) {
    numbers.push_back(int64_t{ids[d].replica} * options.num_partitions + ids[d].partition);
    BP_ASSIGN_OR_RETURN(const std::vector<host::HostArray> inputs, run.inputs(numbers.back()));
    for (const host::HostArray& input : inputs) {
      absl::StatusOr<host::Buffer> buffer = session.client.ToDevice(input, devices[d]);
      if (!buffer.ok()) return FromPlugin(buffer.status());
      buffers[d].push_back(*std::move(buffer));
    }
    for (const host::Buffer& buffer : buffers[d]) arguments[d].push_back(&buffer);
  }
  if (devices.empty()) return absl::OkStatus();  // a program on devices of other processes only
  host::ExecuteOptions execute;
  execute.launch_id = 1;
  absl::StatusOr<host::ExecuteResult> results = executable.Execute(arguments, execute);
  if (!results.ok()) return FromPlugin(host::AddContext(results.status(), "execute"));
  for (size_t d = 0; d < devices.size(); ++d) {
    std::vector<std::pair<std::string, std::string>> members;
    for (const host::Buffer& result : results->outputs[d]) {
      absl::StatusOr<host::HostArray> array = result.ToHost();
      if (!array.ok()) return FromPlugin(host::AddContext(array.status(), absl::StrCat("result ", members.size())));
      // The element type is a part of the name, because the format lacks some types.
      BP_ASSIGN_OR_RETURN(std::string bytes, FormatNpy(*array));
      members.emplace_back(absl::StrCat(members.size(), ".", static_cast<int>(array->type)), std::move(bytes));
    }
    BP_ASSIGN_OR_RETURN(const std::string archive, FormatZip(members));
    BP_RETURN_IF_ERROR(WriteFile(folder / ResultFile(numbers[d]), archive));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<host::HostArray>> ReadResults(const std::filesystem::path& file) {
  BP_ASSIGN_OR_RETURN(const std::string archive, ReadFile(file));
  BP_ASSIGN_OR_RETURN(const auto members, ParseZip(archive));
  std::vector<host::HostArray> arrays;
  for (const auto& [name, bytes] : members) {
    int type = 0;
    if (!absl::SimpleAtoi(name.substr(name.find('.') + 1), &type))
      return absl::InternalError(absl::StrCat(file.string(), ": ", name));
    BP_ASSIGN_OR_RETURN(host::HostArray array, ParseNpy(bytes, static_cast<PJRT_Buffer_Type>(type)));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

// The work of one of several processes.
absl::Status RunOneOfSeveral(const SeveralProcesses& run, int64_t process, const std::filesystem::path& folder) {
  BP_ASSIGN_OR_RETURN(host::FoundPlugin found, Locate(run.plugin, run.options));
  found.create_options.emplace_back("node_id", process);
  found.create_options.emplace_back("num_nodes", run.count);
  const auto store = std::make_shared<host::FolderKeyValueStore>((folder / "store").string());
  BP_ASSIGN_OR_RETURN(const Session session, OpenFound(std::move(found), store));
  BP_ASSIGN_OR_RETURN(const std::vector<host::Device> all, session.client.Devices());
  BP_ASSIGN_OR_RETURN(const int index, session.client.ProcessIndex());
  if (index != process) return FromPlugin(absl::InternalError(absl::StrCat("it says that it is process ", index)));
  if (process == 0) BP_RETURN_IF_ERROR(WriteFile(folder / kDevicesFile, absl::StrCat(all.size())));
  return RunOnDevices(run, session, folder);
}

// Opens the plugin with at least `devices` devices in this process.
absl::StatusOr<Session> OpenWithDevices(const SeveralProcesses& run, int64_t devices) {
  std::vector<std::vector<std::string>> tries;
  if (!run.single_options.empty()) {
    tries.push_back(run.single_options);
  } else {
    tries = {{absl::StrCat("cpu_device_count=", devices)}, {absl::StrCat("topology=\"", devices, "\"")}};
  }
  std::string why;
  for (const std::vector<std::string>& own : tries) {
    PluginOptions options = run.options;
    // Options that are given again take the place of those of the several processes.
    auto name = [](const std::string& option) { return option.substr(0, option.find('=')); };
    options.options.erase(std::remove_if(options.options.begin(), options.options.end(),
                                         [&](const std::string& o) {
                                           return std::any_of(own.begin(), own.end(),
                                                              [&](const std::string& s) { return name(s) == name(o); });
                                         }),
                          options.options.end());
    options.options.insert(options.options.end(), own.begin(), own.end());
    BP_ASSIGN_OR_RETURN(host::FoundPlugin found, Locate(run.plugin, options));
    absl::StatusOr<Session> session = OpenFound(std::move(found), nullptr);
    if (session.ok()) {
      BP_ASSIGN_OR_RETURN(const std::vector<host::Device> all, session->client.Devices());
      if (static_cast<int64_t>(all.size()) >= devices) return session;
      why = absl::StrCat(absl::StrJoin(own, " "), " gives ", all.size(), " devices");
    } else if (why.empty()) {
      why = std::string(session.status().message());
    }
  }
  return absl::FailedPreconditionError(absl::StrCat("not compared, since one process has no ", devices,
                                                    " devices; say --single-option or --no-compare: ", why));
}

absl::Status RunInOneProcess(const SeveralProcesses& run, const std::filesystem::path& folder) {
  BP_ASSIGN_OR_RETURN(const std::string text, ReadFile(folder / kDevicesFile));
  int64_t devices = 0;
  if (!absl::SimpleAtoi(text, &devices)) return absl::InternalError("the number of devices is lost");
  SeveralProcesses same = run;
  same.num_replicas = OptionsFor(run, devices).num_replicas;
  BP_ASSIGN_OR_RETURN(const Session session, OpenWithDevices(run, devices));
  return RunOnDevices(same, session, folder / "one");
}

// Starts a process that does the work and reports an error, or how it was ended, in a file.
absl::StatusOr<pid_t> Start(const SeveralProcesses& run, const std::string& name, const std::filesystem::path& folder,
                            const std::function<absl::Status()>& work) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "no child process");
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kPluginFailed);
  const auto report = [&](const absl::Status& error) {
    if (!error.ok())
      (void)WriteFile(folder / ErrorFile(name), absl::StrCat(static_cast<int>(error.code()), " ", error.message()));
    return error.ok() ? kOk : kPluginFailed;
  };
  int code = kOk;
  const absl::Status supervised = Supervise(
      run.options.limits, [&]() -> int { return report(work()); }, &code);
  if (!supervised.ok()) code = report(supervised);
  _exit(code);
}

// Waits for processes and returns the errors of those that failed.
absl::Status Join(const std::vector<std::pair<std::string, pid_t>>& children, const std::filesystem::path& folder) {
  std::vector<std::string> errors;
  absl::StatusCode code = absl::StatusCode::kOk;
  for (const auto& [name, child] : children) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == kOk) continue;
    std::string text = absl::StrCat(static_cast<int>(absl::StatusCode::kAborted), " ended without a word");
    if (absl::StatusOr<std::string> told = ReadFile(folder / ErrorFile(name)); told.ok()) text = *std::move(told);
    const size_t space = text.find(' ');
    int number = 0;
    (void)absl::SimpleAtoi(text.substr(0, space), &number);
    if (code == absl::StatusCode::kOk) code = static_cast<absl::StatusCode>(number);
    errors.push_back(absl::StrCat(name, ": ", text.substr(space + 1)));
  }
  if (errors.empty()) return absl::OkStatus();
  return FromPlugin(absl::Status(code, absl::StrJoin(errors, "\n")));
}

}  // namespace

absl::StatusOr<std::vector<DeviceResults>> RunInProcesses(const SeveralProcesses& run) {
  BP_ASSIGN_OR_RETURN(const TemporaryFolder temporary, TemporaryFolder::Make("run"));
  const std::filesystem::path folder = temporary.path();
  std::error_code error;
  std::filesystem::create_directory(folder / "store", error);
  std::filesystem::create_directory(folder / "one", error);
  if (error) return absl::UnavailableError(absl::StrCat(folder.string(), ": ", error.message()));
  std::vector<std::pair<std::string, pid_t>> children;
  for (int64_t process = 0; process < run.count; ++process) {
    const std::string name = absl::StrCat("process ", process);
    BP_ASSIGN_OR_RETURN(const pid_t child,
                        Start(run, name, folder, [&] { return RunOneOfSeveral(run, process, folder); }));
    children.emplace_back(name, child);
  }
  BP_RETURN_IF_ERROR(Join(children, folder));
  if (run.compare) {
    const std::string name = "one process";
    BP_ASSIGN_OR_RETURN(const pid_t child, Start(run, name, folder, [&] { return RunInOneProcess(run, folder); }));
    BP_RETURN_IF_ERROR(Join({{name, child}}, folder));
  }
  std::vector<DeviceResults> out;
  while (std::filesystem::exists(folder / ResultFile(static_cast<int64_t>(out.size())), error)) {
    const std::string file = ResultFile(static_cast<int64_t>(out.size()));
    DeviceResults& device = out.emplace_back();
    BP_ASSIGN_OR_RETURN(device.arrays, ReadResults(folder / file));
    if (!run.compare) continue;
    BP_ASSIGN_OR_RETURN(const std::vector<host::HostArray> expected, ReadResults(folder / "one" / file));
    if (expected.size() != device.arrays.size())
      return absl::InternalError(absl::StrCat("device ", out.size() - 1, ": one process gives ", expected.size(),
                                              " results, several give ", device.arrays.size()));
    for (size_t i = 0; i < expected.size(); ++i) {
      const host::HostArray &a = device.arrays[i], &b = expected[i];
      if (a.type != b.type || a.dims != b.dims || a.data != b.data) device.differing.push_back(i);
    }
  }
  return out;
}

}  // namespace backplane::cli
