// Programs of several processes: their meeting, collectives among them, and processes that fail or end.
#include <signal.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "conformance/kit/processes.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

template <void (*kBody)(Processes&), int kDying = -1>
void InProcesses(Kit& k) {
  Processes::Run(k, kBody, kDying);
}

std::vector<int> IdsOf(Kit& k, const std::vector<PJRT_Device*>& devices) {
  std::vector<int> ids;
  for (PJRT_Device* d : devices) ids.push_back(GetId(k, d));
  return ids;
}

// ---- Meeting -----------------------------------------------------------------------------------------------------

void Meeting(Processes& p) {
  Kit& k = p.kit();
  p.CreateClient();
  KIT_ARGS(k, a, PJRT_Client_ProcessIndex);
  a.client = k.client();
  KIT_OK(k, PJRT_Client_ProcessIndex, a);
  k.Require(a.process_index == p.self(), "process ", p.self(), " is told that it is process ", a.process_index);
  p.Leave();
}

void GlobalDevices(Processes& p) {
  Kit& k = p.kit();
  p.CreateClient();
  const std::vector<PJRT_Device*> all = p.AllDevices();
  std::vector<int> ids = IdsOf(k, all), own = IdsOf(k, k.devices()), of_self;
  std::vector<std::string> described;
  for (PJRT_Device* d : all) {
    described.push_back(absl::StrCat(GetId(k, d), "@", p.GetProcess(d)));
    if (p.GetProcess(d) == p.self()) of_self.push_back(GetId(k, d));
  }
  const std::string text = absl::StrJoin(described, " ");
  const std::vector<std::string> told = p.Gather(text);
  for (int other = 0; other < p.count(); ++other) {
    k.Require(told[static_cast<size_t>(other)] == text, "process ", other, " has the devices ",
              told[static_cast<size_t>(other)], ", process ", p.self(), " has ", text);
    const std::string at = absl::StrCat("@", other);
    k.Require(
        std::any_of(described.begin(), described.end(), [&](const std::string& d) { return absl::EndsWith(d, at); }),
        "no device belongs to process ", other, ": ", text);
  }
  std::sort(own.begin(), own.end());
  std::sort(of_self.begin(), of_self.end());
  k.Require(own == of_self, "addressable are ", absl::StrJoin(own, " "), ", of this process are ",
            absl::StrJoin(of_self, " "));
  std::sort(ids.begin(), ids.end());
  k.Require(std::unique(ids.begin(), ids.end()) == ids.end(), "two devices have one id: ", text);
  p.Leave();
}

// ---- Launches ----------------------------------------------------------------------------------------------------

using Groups = std::vector<std::vector<size_t>>;

// A program on one replica for each device of these processes, in the order of the devices.
struct Program {
  PJRT_LoadedExecutable* executable = nullptr;
  std::vector<size_t> replicas;  // of this process, in the order of the arguments
};

Program CompileForDevices(Kit& k, absl::string_view text, const std::vector<PJRT_Device*>& devices) {
  const std::vector<int> ids = IdsOf(k, devices);
  host::CompileOptions options = PlainOptions(k);
  options.num_replicas = static_cast<int>(ids.size());
  options.device_assignment = ids;
  Program out;
  out.executable = Compile(k, text, options);
  KIT_ARGS(k, a, PJRT_LoadedExecutable_AddressableDevices);
  a.executable = out.executable;
  KIT_OK(k, PJRT_LoadedExecutable_AddressableDevices, a);
  for (size_t i = 0; i < a.num_addressable_devices; ++i) {
    const auto at = std::find(ids.begin(), ids.end(), GetId(k, a.addressable_devices[i]));
    k.Require(at != ids.end(), "the program has a device that it was not compiled for");
    out.replicas.push_back(static_cast<size_t>(at - ids.begin()));
  }
  return out;
}

std::vector<float> InputOf(size_t replica, size_t size) {
  std::vector<float> x(size);
  for (size_t j = 0; j < size; ++j) x[j] = static_cast<float>(replica + 1) * 100 + static_cast<float>(j % 89);
  return x;
}

// Runs the program once. Returns the first error, of the call or of a result.
Err TryLaunch(Kit& k, const Program& program, const std::vector<PJRT_Device*>& devices, size_t size,
              std::vector<std::vector<float>>* results) {
  Launch launch;
  launch.executable = program.executable;
  for (size_t replica : program.replicas)
    launch.arguments.push_back({Put<float>(k, {static_cast<int64_t>(size)}, InputOf(replica, size), devices[replica])});
  const Err error = TryExecute(k, &launch);
  if (!error.ok()) return error;
  for (const auto& outputs : launch.outputs) {
    const Err outcome = Outcome(k, ReadyEvent(k, outputs[0]));
    if (!outcome.ok()) return outcome;
    results->push_back(GetAs<float>(k, outputs[0]));
  }
  return {};
}

// ---- Collectives -------------------------------------------------------------------------------------------------

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBroadcast, kPermute };
enum class Grouping { kAll, kWithin, kAcross, kOdd };

// Groups of replicas. `per` is the number of devices of a process.
Groups MakeGroups(Grouping grouping, size_t processes, size_t per) {
  const size_t all = processes * per;
  size_t count = 1;
  if (grouping == Grouping::kWithin) count = processes;
  if (grouping == Grouping::kAcross) count = per;
  if (grouping == Grouping::kOdd) count = 2;
  Groups groups(count);
  for (size_t r = 0; r < all; ++r)
    groups[grouping == Grouping::kAll ? 0 : grouping == Grouping::kWithin ? r / per : r % count].push_back(r);
  return groups;
}

std::string GroupsText(const Groups& groups) {
  std::vector<std::string> rows;
  for (const auto& group : groups) rows.push_back(absl::StrCat("[", absl::StrJoin(group, ","), "]"));
  return absl::StrCat("dense<[", absl::StrJoin(rows, ","), "]> : tensor<", groups.size(), "x", groups[0].size(),
                      "xi64>");
}

// In each group every member but the last sends to the next one; the first receives nothing.
std::string PairsText(const Groups& groups) {
  std::vector<std::string> rows;
  for (const auto& group : groups) {
    for (size_t i = 0; i + 1 < group.size(); ++i) rows.push_back(absl::StrCat("[", group[i], ",", group[i + 1], "]"));
    if (group.size() == 1) rows.push_back(absl::StrCat("[", group[0], ",", group[0], "]"));
  }
  return absl::StrCat("dense<[", absl::StrJoin(rows, ","), "]> : tensor<", rows.size(), "x2xi64>");
}

std::string CollectiveText(Kind kind, const Groups& groups, size_t size, absl::string_view reducer = "add") {
  const size_t members = groups[0].size();
  std::string name, attributes, body;
  size_t out = size;
  if (kind == Kind::kAllReduce || kind == Kind::kReduceScatter) {
    name = kind == Kind::kAllReduce ? "all_reduce" : "reduce_scatter";
    body = absl::StrCat("({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.", reducer,
                        " %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }) ");
    if (kind == Kind::kReduceScatter) attributes = "scatter_dimension = 0 : i64, ", out = size / members;
  } else if (kind == Kind::kAllGather) {
    name = "all_gather", attributes = "all_gather_dim = 0 : i64, ", out = size * members;
  } else if (kind == Kind::kAllToAll) {
    name = "all_to_all";
    attributes =
        absl::StrCat("split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = ", members, " : i64, ");
  } else {
    name = kind == Kind::kBroadcast ? "collective_broadcast" : "collective_permute";
  }
  absl::StrAppend(&attributes, kind == Kind::kPermute ? "source_target_pairs = " : "replica_groups = ",
                  kind == Kind::kPermute ? PairsText(groups) : GroupsText(groups));
  const std::string in_type = absl::StrCat("tensor<", size, "xf32>"), out_type = absl::StrCat("tensor<", out, "xf32>");
  return absl::StrCat("module @", name, " { func.func public @main(%x: ", in_type, ") -> ", out_type,
                      " { %0 = \"stablehlo.", name, "\"(%x) ", body, "{", attributes, "} : (", in_type, ") -> ",
                      out_type, " return %0 : ", out_type, " } }");
}

std::vector<float> Expected(Kind kind, const Groups& groups, size_t replica, size_t size) {
  for (const auto& group : groups) {
    const auto at = std::find(group.begin(), group.end(), replica);
    if (at == group.end()) continue;
    const size_t i = static_cast<size_t>(at - group.begin()), members = group.size(), block = size / members;
    std::vector<float> out;
    if (kind == Kind::kAllReduce || kind == Kind::kReduceScatter) {
      out.resize(size);
      for (size_t m : group) {
        const std::vector<float> x = InputOf(m, size);
        for (size_t j = 0; j < size; ++j) out[j] += x[j];
      }
      if (kind == Kind::kReduceScatter)
        out = std::vector<float>(out.begin() + static_cast<ptrdiff_t>(i * block),
                                 out.begin() + static_cast<ptrdiff_t>((i + 1) * block));
    } else if (kind == Kind::kAllGather || kind == Kind::kAllToAll) {
      for (size_t m : group) {
        const std::vector<float> x = InputOf(m, size);
        const size_t first = kind == Kind::kAllGather ? 0 : i * block;
        const size_t length = kind == Kind::kAllGather ? size : block;
        out.insert(out.end(), x.begin() + static_cast<ptrdiff_t>(first),
                   x.begin() + static_cast<ptrdiff_t>(first + length));
      }
    } else if (kind == Kind::kBroadcast) {
      out = InputOf(group[0], size);
    } else {
      out = i > 0 || members == 1 ? InputOf(group[members == 1 ? 0 : i - 1], size) : std::vector<float>(size, 0.0f);
    }
    return out;
  }
  return {};
}

// Runs a collective on all devices and checks every result of this process.
void CheckCollective(Processes& p, Kind kind, Grouping grouping, size_t elements_of_member) {
  Kit& k = p.kit();
  const std::vector<PJRT_Device*> devices = p.AllDevices();
  const size_t per = k.devices().size(), processes = static_cast<size_t>(p.count());
  if (devices.size() != per * processes) k.Skip("the processes have different numbers of devices");
  if (grouping == Grouping::kOdd && devices.size() % 2 != 0) k.Skip("needs an even number of devices");
  const Groups groups = MakeGroups(grouping, processes, per);
  const size_t size = elements_of_member * groups[0].size();
  const Program program = CompileForDevices(k, CollectiveText(kind, groups, size), devices);
  k.Require(program.replicas.size() == per, "the program runs on ", program.replicas.size(), " devices here, not ",
            per);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<float>> results;
    const Err error = TryLaunch(k, program, devices, size, &results);
    k.Require(error.ok(), FormatError(error));
    for (size_t d = 0; d < per; ++d) {
      const std::vector<float> want = Expected(kind, groups, program.replicas[d], size);
      k.Require(results[d].size() == want.size(), "replica ", program.replicas[d], ": ", results[d].size(),
                " elements, expected ", want.size());
      for (size_t j = 0; j < want.size(); ++j)
        k.Require(results[d][j] == want[j], "replica ", program.replicas[d], ", element ", j, ": ", results[d][j],
                  ", expected ", want[j]);
    }
  }
}

template <Kind kKind, Grouping kGrouping>
void Collective(Processes& p) {
  p.CreateClient();
  CheckCollective(p, kKind, kGrouping, 3);
  p.Leave();
}

void LargeArrays(Processes& p) {
  p.CreateClient();
  constexpr size_t kElements = 300007;
  CheckCollective(p, Kind::kAllReduce, Grouping::kAll, kElements);
  CheckCollective(p, Kind::kAllToAll, Grouping::kAll, kElements);
  CheckCollective(p, Kind::kPermute, Grouping::kAcross, kElements);
  p.Leave();
}

void Again(Processes& p) {
  for (int round = 0; round < 3; ++round) {
    p.CreateClient();
    CheckCollective(p, Kind::kAllReduce, Grouping::kAll, 3);
    p.Barrier();
    p.DestroyClient();
  }
  p.Barrier();
}

void OwnProgram(Processes& p) {
  Kit& k = p.kit();
  p.CreateClient();
  // Each process has as many launches of its own as its number, between two that all have.
  CheckCollective(p, Kind::kAllReduce, Grouping::kAll, 3);
  host::CompileOptions options = PlainOptions(k);
  options.device_assignment = {GetId(k, k.device())};
  PJRT_LoadedExecutable* add = Compile(k, kAdd, options);
  for (int i = 0; i <= p.self(); ++i)
    k.Require(RunF32(k, add, {{1, 2, 3, 4}, {1, 1, 1, 1}}) == std::vector<float>({2, 3, 4, 5}), "wrong results");
  CheckCollective(p, Kind::kAllReduce, Grouping::kAll, 3);
  p.Leave();
}

void SomeProcesses(Processes& p) {
  Kit& k = p.kit();
  if (p.count() < 3) k.Skip("needs --processes 3 or more");
  p.CreateClient();
  std::vector<PJRT_Device*> devices;
  for (PJRT_Device* d : p.AllDevices()) {
    if (p.GetProcess(d) < 2) devices.push_back(d);
  }
  if (p.self() < 2) {
    Groups groups(1, std::vector<size_t>(devices.size()));
    std::iota(groups[0].begin(), groups[0].end(), size_t{0});
    const Program program = CompileForDevices(k, CollectiveText(Kind::kAllReduce, groups, 6), devices);
    std::vector<std::vector<float>> results;
    const Err error = TryLaunch(k, program, devices, 6, &results);
    k.Require(error.ok(), FormatError(error));
    for (const std::vector<float>& result : results)
      k.Require(result == Expected(Kind::kAllReduce, groups, 0, 6), "wrong results");
  }
  CheckCollective(p, Kind::kAllReduce, Grouping::kAll, 3);
  p.Leave();
}

void RemoteDevice(Processes& p) {
  Kit& k = p.kit();
  p.CreateClient();
  const float x[4] = {1, 2, 3, 4};
  const Dims dims = {4};
  for (PJRT_Device* d : p.AllDevices()) {
    if (p.GetProcess(d) == p.self()) continue;
    PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, x, d);
    KIT_FAILS(k, PJRT_Client_BufferFromHostBuffer, a, "the device belongs to another process");
    break;
  }
  p.Leave();
}

// ---- What goes wrong ---------------------------------------------------------------------------------------------

// Whether a message says that it is about this process.
bool Names(const Err& error, int process) {
  const std::string text = absl::AsciiStrToLower(error.message);
  for (const char* word : {"process ", "process_index ", "node ", "task ", "rank "}) {
    if (absl::StrContains(text, absl::StrCat(word, process))) return true;
  }
  return false;
}

enum class Wrong { kOtherReducer, kOtherSize, kDies };

// Process 1 does something wrong after a good launch; process 0 must get an error.
template <Wrong kWrong, bool kMustName>
void GoesWrong(Processes& p) {
  Kit& k = p.kit();
  p.CreateClient();
  const std::vector<PJRT_Device*> devices = p.AllDevices();
  Groups groups(1, std::vector<size_t>(devices.size()));
  std::iota(groups[0].begin(), groups[0].end(), size_t{0});
  size_t size = 6;
  std::vector<std::vector<float>> results;
  const Program good = CompileForDevices(k, CollectiveText(Kind::kAllReduce, groups, size), devices);
  const Err first = TryLaunch(k, good, devices, size, &results);
  k.Require(first.ok(), "the launch before: ", FormatError(first));
  p.Barrier();
  Program program = good;
  if (p.self() == 1) {
    if (kWrong == Wrong::kDies) raise(SIGKILL);
    if (kWrong == Wrong::kOtherSize) size = 12;
    program = CompileForDevices(
        k, CollectiveText(Kind::kAllReduce, groups, size, kWrong == Wrong::kOtherReducer ? "maximum" : "add"), devices);
  }
  const Err error = TryLaunch(k, program, devices, size, &results);
  k.Require(!error.ok(), kWrong == Wrong::kDies ? "process 1 is dead, and the launch succeeds"
                                                : "process 1 launched another program, and the launch succeeds");
  k.Require(!error.message.empty(), CodeName(error.code), " without a message");
  if (kMustName) {
    bool named = false;
    for (int other = 0; other < p.count(); ++other)
      named |= other != p.self() && (other == 1 || p.self() == 1) && Names(error, other);
    k.Require(named, "the error does not name process ", p.self() == 1 ? "0 or another one" : "1", ": ",
              FormatError(error));
  } else {
    k.Note(FormatError(error).substr(0, 200));
  }
  if (kWrong != Wrong::kDies) p.Barrier();
}

void OtherCount(Processes& p) {
  Kit& k = p.kit();
  const Err error = p.TryClient(p.self(), p.count() + (p.self() == 1 ? 1 : 0));
  k.Require(!error.ok(), "process 1 was told of ", p.count() + 1, " processes, process ", p.self(), " meets it");
  k.Require(!error.message.empty(), CodeName(error.code), " without a message");
  p.Barrier();
}

void BadIndex(Processes& p) {
  const Err error = p.TryClient(p.count() + p.self(), p.count());
  p.kit().Require(!error.ok(), "node_id ", p.count(), " of ", p.count(), " is accepted");
  p.kit().Require(!error.message.empty(), CodeName(error.code), " without a message");
}

void NoStore(Processes& p) {
  const Err error = p.TryClient(p.self(), p.count(), false);
  p.kit().Require(!error.ok(), "several processes find one another without a key-value store");
  p.kit().Require(!error.message.empty(), CodeName(error.code), " without a message");
}

constexpr int kLimit = 60;
#define KIT_COLLECTIVE(name, kind)                                                                               \
  {"processes." name "_all", "", name " of all devices", InProcesses<Collective<kind, Grouping::kAll>>, kLimit}, \
      {"processes." name "_within", "", name " among the devices of each process",                               \
       InProcesses<Collective<kind, Grouping::kWithin>>, kLimit},                                                \
      {"processes." name "_across", "", name " among one device of each process",                                \
       InProcesses<Collective<kind, Grouping::kAcross>>, kLimit},                                                \
  {                                                                                                              \
    "processes." name "_odd", "", name " among the even and among the odd devices",                              \
        InProcesses<Collective<kind, Grouping::kOdd>>, kLimit                                                    \
  }

constexpr Check kChecks[] = {
    {"processes.meeting", "", "each process is told its number", InProcesses<Meeting>, kLimit},
    {"processes.devices", "", "all see the devices of all, each with its process; addressable are the own ones",
     InProcesses<GlobalDevices>, kLimit},
    KIT_COLLECTIVE("all_reduce", Kind::kAllReduce),
    KIT_COLLECTIVE("reduce_scatter", Kind::kReduceScatter),
    KIT_COLLECTIVE("all_gather", Kind::kAllGather),
    KIT_COLLECTIVE("all_to_all", Kind::kAllToAll),
    KIT_COLLECTIVE("collective_broadcast", Kind::kBroadcast),
    KIT_COLLECTIVE("collective_permute", Kind::kPermute),
    {"processes.large", "", "collectives of arrays of megabytes", InProcesses<LargeArrays>, kLimit},
    {"processes.again", "", "clients are created one after another over one store", InProcesses<Again>, kLimit},
    {"processes.own_program", "", "each process also runs programs on its own devices", InProcesses<OwnProgram>,
     kLimit},
    {"processes.some", "", "two of more processes run a program that the others do not", InProcesses<SomeProcesses>,
     kLimit},
    {"processes.remote_device", "", "an array for a device of another process is refused", InProcesses<RemoteDevice>,
     kLimit},
    {"processes.other_program", "", "another program in process 1 is an error of all",
     InProcesses<GoesWrong<Wrong::kOtherReducer, false>>, kLimit},
    {"processes.other_size", "", "another size in process 1 is an error of all",
     InProcesses<GoesWrong<Wrong::kOtherSize, false>>, kLimit},
    {"processes.dies", "", "a process that is killed is an error of the others",
     InProcesses<GoesWrong<Wrong::kDies, false>, 1>, kLimit},
    {"processes.other_program_named", "", "the error about another program names the process",
     InProcesses<GoesWrong<Wrong::kOtherReducer, true>>, kLimit, true},
    {"processes.dies_named", "", "the error about a process that is killed names it",
     InProcesses<GoesWrong<Wrong::kDies, true>, 1>, kLimit, true},
    {"processes.other_count", "", "processes that were told different numbers of processes do not start together",
     InProcesses<OtherCount>, kLimit},
    {"processes.bad_index", "", "a number of a process that is too large is refused", InProcesses<BadIndex>, kLimit},
    {"processes.no_store", "", "several processes without a key-value store are refused", InProcesses<NoStore>, kLimit},
};
#undef KIT_COLLECTIVE

}  // namespace

absl::Span<const Check> ProcessesSuite() { return kChecks; }

}  // namespace backplane::conformance
