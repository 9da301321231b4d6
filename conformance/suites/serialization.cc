// Serialized executables, within one process and across processes.
#include "conformance/kit/child.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

Err TryLoad(Kit& k, absl::string_view bytes, PJRT_LoadedExecutable** out) {
  KIT_ARGS(k, a, PJRT_Executable_DeserializeAndLoad);
  a.client = k.client();
  a.serialized_executable = bytes.data();
  a.serialized_executable_size = bytes.size();
  const Err e = KIT_TRY(k, PJRT_Executable_DeserializeAndLoad, a);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED) k.Unsupported(FormatError(e));
  if (e.ok())
    k.Require(a.loaded_executable != nullptr, "PJRT_Executable_DeserializeAndLoad: succeeded without an executable");
  *out = e.ok() ? a.loaded_executable : nullptr;
  return e;
}

PJRT_LoadedExecutable* Load(Kit& k, absl::string_view bytes) {
  PJRT_LoadedExecutable* loaded = nullptr;
  const Err e = TryLoad(k, bytes, &loaded);
  k.Require(e.ok(), "PJRT_Executable_DeserializeAndLoad: ", FormatError(e));
  return loaded;
}

std::string BytesOf(Kit& k, const char* program) { return Serialize(k, GetExecutable(k, Compile(k, program))); }

void ExpectAdds(Kit& k, PJRT_LoadedExecutable* add) {
  k.Require(RunF32(k, add, {{1, 2, 3, 4}, {10, 20, 30, 40}}) == std::vector<float>({11, 22, 33, 44}),
            "the executable made again gives wrong results");
}

void RoundTrip(Kit& k) { ExpectAdds(k, Load(k, BytesOf(k, kAdd))); }

void RoundTripOthers(Kit& k) {
  PJRT_LoadedExecutable* two = Load(k, BytesOf(k, kTwoOutputs));
  const auto outputs = Execute(k, two, {Put<float>(k, {4}, {1, 2, 3, 4}), Put<int32_t>(k, {2}, {5, 6})});
  k.Require(outputs.size() == 2 && GetAs<int32_t>(k, outputs[0]) == std::vector<int32_t>({10, 12}) &&
                GetAs<float>(k, outputs[1]) == std::vector<float>({1, 4, 9, 16}),
            "wrong results");
  PJRT_LoadedExecutable* count = Load(k, BytesOf(k, kCount));
  k.Require(GetAs<int32_t>(k, Execute(k, count, {Put<int32_t>(k, {}, {50})})[0])[0] == CountResult(50),
            "wrong results of a loop");
}

void BytesAreCopied(Kit& k) {
  std::string bytes = BytesOf(k, kAdd);
  PJRT_LoadedExecutable* add = Load(k, bytes);
  bytes.assign(bytes.size(), '\0');
  ExpectAdds(k, add);
}

void KeepsDonation(Kit& k) {
  PJRT_LoadedExecutable* donate = Load(k, BytesOf(k, kDonate));
  PJRT_Buffer *x = Put<float>(k, {4}, {1, 2, 3, 4}), *y = Put<float>(k, {4}, {1, 1, 1, 1});
  k.Require(GetAs<float>(k, Execute(k, donate, {x, y})[0]) == std::vector<float>({2, 3, 4, 5}), "wrong results");
  k.Require(IsDeleted(k, x), "the executable made again does not take over the argument any more");
}

void KeepsFacts(Kit& k) {
  PJRT_LoadedExecutable* before = Compile(k, kTwoOutputs);
  PJRT_LoadedExecutable* after = Load(k, Serialize(k, GetExecutable(k, before)));
  k.Require(NumOutputs(k, after) == 2, "two outputs became ", NumOutputs(k, after));
  const auto name = [&](PJRT_LoadedExecutable* loaded) {
    KIT_ARGS(k, a, PJRT_Executable_Name);
    a.executable = GetExecutable(k, loaded);
    KIT_OK(k, PJRT_Executable_Name, a);
    return std::string(a.executable_name, a.executable_name_size);
  };
  k.Require(name(before) == name(after), "the name '", name(before), "' became '", name(after), "'");
  if (k.Has(&PJRT_Api::PJRT_Executable_OutputElementTypes)) {
    KIT_ARGS(k, t, PJRT_Executable_OutputElementTypes);
    t.executable = GetExecutable(k, after);
    if (KIT_TRY(k, PJRT_Executable_OutputElementTypes, t).ok()) {
      k.Require(t.num_output_types == 2 && t.output_types[0] == PJRT_Buffer_Type_S32 &&
                    t.output_types[1] == PJRT_Buffer_Type_F32,
                "the types of the outputs have changed");
    }
  }
}

void KeepsFingerprint(Kit& k) {
  PJRT_LoadedExecutable* before = Compile(k, kAdd);
  PJRT_LoadedExecutable* after = Load(k, Serialize(k, GetExecutable(k, before)));
  k.Require(GetFingerprint(k, before) == GetFingerprint(k, after), "the fingerprint has changed");
}

void AcrossProcesses(Kit& k) {
  const CheckOutcome there = RunInNewProcess(k, "serialization.receive", BytesOf(k, kAdd));
  k.Require(there.result == Result::kPass, "in another process: ", there.detail);
}

void Receive(Kit& k) {  // runs in the second process
  const std::string bytes = ReadChildInput();
  ExpectAdds(k, Load(k, bytes));
}

void Twice(Kit& k) {
  const std::string bytes = BytesOf(k, kAdd);
  PJRT_LoadedExecutable *one = Load(k, bytes), *two = Load(k, bytes);
  Destroy(k, one);
  ExpectAdds(k, two);
}

void ThroughTwo(Kit& k) {  // serializes an executable again after deserializing it
  PJRT_LoadedExecutable* first = Load(k, BytesOf(k, kAdd));
  ExpectAdds(k, Load(k, Serialize(k, GetExecutable(k, first))));
}

void Malformed(Kit& k) {
  const std::string good = BytesOf(k, kAdd);
  std::vector<std::string> bad = {
      "", "nonsense", std::string(1000, '\xff'), good.substr(0, good.size() / 2), good.substr(0, 16), good.substr(1)};
  for (size_t i = 0; i < bad.size(); ++i) {
    PJRT_LoadedExecutable* loaded = nullptr;
    const Err e = TryLoad(k, bad[i], &loaded);
    k.Require(!e.ok(), "bytes that are no whole executable (", bad[i].size(), " of ", good.size(), ") are accepted");
    k.Require(!e.message.empty(), "malformed bytes: ", CodeName(e.code), " without a message");
  }
  ExpectAdds(k, Load(k, good));
}

void Damaged(Kit& k) {  // corruption must be rejected or harmless, and must not end the process
  const std::string good = BytesOf(k, kAdd);
  uint32_t random = 1;
  for (int i = 0; i < 120; ++i) {
    std::string bad = good;
    random = random * 1664525u + 1013904223u;
    bad[(random >> 8) % bad.size()] ^= static_cast<char>(1 << (random >> 29));
    PJRT_LoadedExecutable* loaded = nullptr;
    if (TryLoad(k, bad, &loaded).ok()) Destroy(k, loaded);
  }
  ExpectAdds(k, Load(k, good));
}

// Loads with options of the host instead of those that the executable was compiled with.
Err TryLoadWith(Kit& k, absl::string_view bytes, const host::CompileOptions& options, PJRT_LoadedExecutable** out) {
  KIT_ARGS(k, a, PJRT_Executable_DeserializeAndLoad);
  if (a.struct_size < PJRT_Executable_DeserializeAndLoad_Args_STRUCT_SIZE)
    k.Unsupported("PJRT_Executable_DeserializeAndLoad takes no options at minor ", k.minor());
  const std::string serialized = options.Serialize();
  a.client = k.client();
  a.serialized_executable = bytes.data();
  a.serialized_executable_size = bytes.size();
  a.overridden_serialized_compile_options = serialized.data();
  a.overridden_serialized_compile_options_size = serialized.size();
  const Err e = KIT_TRY(k, PJRT_Executable_DeserializeAndLoad, a);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED) k.Unsupported(FormatError(e));
  *out = e.ok() ? a.loaded_executable : nullptr;
  return e;
}

void OtherDevice(Kit& k) {
  host::CompileOptions options = PlainOptions(k);
  options.device_assignment = {GetId(k, k.device(1))};
  PJRT_LoadedExecutable* loaded = nullptr;
  const Err e = TryLoadWith(k, BytesOf(k, kAdd), options, &loaded);
  k.Require(e.ok(), "an executable for one device, loaded for another one: ", FormatError(e));
  PJRT_Buffer* x = Put<float>(k, {4}, {1, 2, 3, 4}, k.device(1));
  Launch launch;
  launch.executable = loaded;
  launch.arguments = {{x, x}};
  const Err run = TryExecute(k, &launch);
  k.Require(run.ok(), "loaded for device 1, it refuses arguments there: ", FormatError(run));
  k.Require(GetDevice(k, launch.outputs[0][0]) == k.device(1), "loaded for device 1, it runs on another one");
  k.Require(GetAs<float>(k, launch.outputs[0][0]) == std::vector<float>({2, 4, 6, 8}), "wrong results");
}

void OtherCounts(Kit& k) {
  const struct {
    int compiled[2], loaded[2];
  } cases[] = {{{1, 1}, {2, 1}}, {{1, 1}, {1, 2}}, {{2, 1}, {1, 1}}, {{2, 1}, {1, 2}}};
  for (const auto& c : cases) {
    host::CompileOptions options = PlainOptions(k);
    options.num_replicas = c.compiled[0];
    options.num_partitions = c.compiled[1];
    const std::string bytes = Serialize(k, GetExecutable(k, Compile(k, kAdd, options)));
    options.num_replicas = c.loaded[0];
    options.num_partitions = c.loaded[1];
    PJRT_LoadedExecutable* loaded = nullptr;
    const Err e = TryLoadWith(k, bytes, options, &loaded);
    k.Require(!e.ok(), "compiled for ", c.compiled[0], " replicas of ", c.compiled[1], " partitions, loaded for ",
              c.loaded[0], " of ", c.loaded[1], ", it is accepted");
    k.Require(!e.message.empty(), CodeName(e.code), " without a message");
  }
}

constexpr char kRequiredFunctions[] = "PJRT_Executable_Serialize PJRT_Executable_DeserializeAndLoad";
constexpr Check kChecks[] = {
    {"serialization.round_trip", kRequiredFunctions, "an executable made again from its bytes runs", RoundTrip},
    {"serialization.others", kRequiredFunctions, "programs of several outputs and with loops too", RoundTripOthers},
    {"serialization.copies", kRequiredFunctions, "the bytes are the caller's again after the call", BytesAreCopied},
    {"serialization.donation", kRequiredFunctions, "what is taken over is still taken over", KeepsDonation},
    {"serialization.facts", kRequiredFunctions, "name, outputs and their types are the same", KeepsFacts},
    {"serialization.fingerprint",
     "PJRT_Executable_Serialize PJRT_Executable_DeserializeAndLoad PJRT_Executable_Fingerprint",
     "the fingerprint is the same", KeepsFingerprint},
    {"serialization.across_processes", kRequiredFunctions, "another process makes the executable from the bytes",
     AcrossProcesses, 60},
    {"serialization.twice", kRequiredFunctions, "two executables from the same bytes", Twice},
    {"serialization.again", kRequiredFunctions, "an executable made from bytes can be serialized again", ThroughTwo},
    {"serialization.other_device", "devices:2 PJRT_Executable_Serialize PJRT_Executable_DeserializeAndLoad",
     "options of the load choose another device", OtherDevice, 0, true},
    {"serialization.other_counts", "devices:2 PJRT_Executable_Serialize PJRT_Executable_DeserializeAndLoad",
     "options of the load with other numbers of replicas or partitions give an error", OtherCounts, 0, true},
    {"serialization.malformed", kRequiredFunctions, "bytes that are no executable give an error", Malformed},
    {"serialization.damaged", kRequiredFunctions, "a changed bit does not end the process", Damaged, 60, true},
};

// Not listed among the checks: RunInNewProcess runs it.
constexpr Check kReceive = {"serialization.receive", kRequiredFunctions, "the other process", Receive, 60};

}  // namespace

absl::Span<const Check> SerializationSuite() { return kChecks; }
const Check& SerializationReceiver() { return kReceive; }

}  // namespace backplane::conformance
