#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "sdk/host/status.h"
#include "sdk/layers/fault/fault.h"

namespace backplane::layers {
namespace {

struct Group {
  const char* name;
  std::vector<Fn> functions;
};

const std::vector<Group>& Groups() {
  static const auto* groups = new std::vector<Group>{
      {"alloc",
       {Fn::PJRT_Client_BufferFromHostBuffer, Fn::PJRT_Client_CreateUninitializedBuffer,
        Fn::PJRT_Client_CreateBuffersForAsyncHostToDevice, Fn::PJRT_Client_CreateAliasBuffer,
        Fn::PJRT_HostAllocator_Allocate, Fn::PJRT_HostMemoryAllocator_Allocate}},
      {"copy",
       {Fn::PJRT_Client_BufferFromHostBuffer, Fn::PJRT_Buffer_ToHostBuffer, Fn::PJRT_Buffer_CopyToDevice,
        Fn::PJRT_Buffer_CopyToMemory, Fn::PJRT_Buffer_CopyRawToHost, Fn::PJRT_Buffer_CopyRawToHostFuture,
        Fn::PJRT_AsyncHostToDeviceTransferManager_TransferData,
        Fn::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral, Fn::PJRT_RawBuffer_CopyRawHostToDevice,
        Fn::PJRT_RawBuffer_CopyRawDeviceToHost}},
      {"compile",
       {Fn::PJRT_Client_Compile, Fn::PJRT_Compile, Fn::PJRT_Client_Load, Fn::PJRT_Executable_DeserializeAndLoad,
        Fn::PJRT_PhaseCompile_Run_Phase}},
      {"execute", {Fn::PJRT_LoadedExecutable_Execute}},
      {"event", {Fn::PJRT_Event_OnReady, Fn::PJRT_Event_Await, Fn::PJRT_Event_Error}},
  };
  return *groups;
}

constexpr const char* kCodes[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

// Whether the layer can answer the call with an error: it returns errors and does not release anything.
bool CanFail(Fn fn) {
  const FunctionInfo& info = GetInfo(fn);
  if (info.returns != Returns::kError) return false;
  const absl::string_view name = info.name;
  for (absl::string_view part : {"_Destroy", "_Delete", "_Free", "_DecreaseExternal", "PJRT_Error_", "_DmaUnmap",
                                 "_FulfillAlias", "_AddChunk"}) {
    if (absl::StrContains(name, part)) return false;
  }
  return true;
}

absl::Status Functions(absl::string_view what, FaultRule* rule) {
  rule->functions.assign(kNumFunctions, false);
  if (what == "any") {
    for (size_t f = 0; f < kNumFunctions; ++f) rule->functions[f] = CanFail(static_cast<Fn>(f));
    return absl::OkStatus();
  }
  for (const Group& group : Groups()) {
    if (what != group.name) continue;
    for (Fn fn : group.functions) rule->functions[Index(fn)] = true;
    return absl::OkStatus();
  }
  Fn fn = FunctionByName(what);
  if (fn == Fn::kCount) fn = FunctionByName(absl::StrCat("PJRT_", what));
  if (fn == Fn::kCount) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", what, "' is no function, expected one or alloc, copy, compile, execute, event or any"));
  }
  if (!CanFail(fn)) return absl::InvalidArgumentError(absl::StrCat(GetInfo(fn).name, " cannot be made to fail"));
  rule->functions[Index(fn)] = true;
  return absl::OkStatus();
}

absl::Status Which(absl::string_view which, FaultRule* rule) {
  auto wrong = [written = which] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", written, "' does not say which calls, expected 2, 3-5, 4+, */10 or *"));
  };
  if (which == "*") return absl::OkStatus();
  if (absl::ConsumePrefix(&which, "*/")) {
    return absl::SimpleAtoi(which, &rule->every) && rule->every > 0 ? absl::OkStatus() : wrong();
  }
  if (absl::ConsumeSuffix(&which, "+")) {
    return absl::SimpleAtoi(which, &rule->first) && rule->first > 0 ? absl::OkStatus() : wrong();
  }
  const size_t dash = which.find('-');
  const absl::string_view first = which.substr(0, dash);
  const absl::string_view last = dash == absl::string_view::npos ? first : which.substr(dash + 1);
  if (!absl::SimpleAtoi(first, &rule->first) || !absl::SimpleAtoi(last, &rule->last) || rule->first == 0 ||
      rule->last < rule->first) {
    return wrong();
  }
  return absl::OkStatus();
}

absl::Status Action(absl::string_view action, FaultRule* rule) {
  const size_t colon = action.find(':');
  const absl::string_view word = absl::StripAsciiWhitespace(action.substr(0, colon));
  absl::string_view rest = colon == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(action.substr(colon + 1));
  if (word == "delay" || word == "late") {
    absl::Duration duration;
    if (!absl::ParseDuration(std::string(rest), &duration) || duration < absl::ZeroDuration() ||
        duration > absl::Hours(1)) {
      return absl::InvalidArgumentError(absl::StrCat("'", rest, "' is no duration up to 1h, expected one like 20ms"));
    }
    rule->action = word == "delay" ? FaultRule::Action::kDelay : FaultRule::Action::kLate;
    rule->delay_ns = absl::ToInt64Nanoseconds(duration);
    if (word == "late" && !rule->functions[Index(Fn::PJRT_Event_OnReady)]) {
      return absl::InvalidArgumentError("only events can be late");
    }
    return absl::OkStatus();
  }
  for (size_t code = 1; code < std::size(kCodes); ++code) {
    if (word != kCodes[code]) continue;
    rule->code = static_cast<PJRT_Error_Code>(code);
    if (rest.size() >= 2 && rest.front() == '"' && rest.back() == '"') rest = rest.substr(1, rest.size() - 2);
    rule->message = std::string(rest);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", word, "' is no action, expected an error code such as INTERNAL, or delay or late"));
}

absl::Status Rule(absl::string_view text, FaultRule* rule) {
  rule->text = std::string(text);
  const size_t equals = text.find('=');
  absl::string_view left = text.substr(0, equals);
  std::vector<absl::string_view> fields;
  while (true) {
    const size_t colon = left.find(':');
    fields.push_back(absl::StripAsciiWhitespace(left.substr(0, colon)));
    if (colon == absl::string_view::npos) break;
    left.remove_prefix(colon + 1);
  }
  if (fields.size() > 3) return absl::InvalidArgumentError("more than WHAT:WHICH:PROBABILITY before '='");
  BP_RETURN_IF_ERROR(Functions(fields[0], rule));
  if (fields.size() > 1) BP_RETURN_IF_ERROR(Which(fields[1], rule));
  if (fields.size() > 2 &&
      (!absl::SimpleAtod(fields[2], &rule->probability) || !(rule->probability >= 0 && rule->probability <= 1))) {
    return absl::InvalidArgumentError(absl::StrCat("'", fields[2], "' is not a probability between 0 and 1"));
  }
  return equals == absl::string_view::npos ? absl::OkStatus() : Action(text.substr(equals + 1), rule);
}

}  // namespace

bool FaultRule::Hits(uint64_t n, double draw) const {
  return n >= first && (last == 0 || n <= last) && n % every == 0 && draw < probability;
}

absl::StatusOr<std::vector<FaultRule>> ParseFaultSpec(absl::string_view spec) {
  std::vector<FaultRule> rules;
  while (!spec.empty()) {
    size_t end = 0;
    for (bool quoted = false; end < spec.size() && (quoted || spec[end] != ','); ++end) quoted ^= spec[end] == '"';
    const absl::string_view text = absl::StripAsciiWhitespace(spec.substr(0, end));
    FaultRule rule;
    if (absl::Status status = Rule(text, &rule); !status.ok()) {
      return host::AddContext(status, absl::StrCat("fault: rule '", text, "'"));
    }
    rules.push_back(std::move(rule));
    spec.remove_prefix(std::min(spec.size(), end + 1));
  }
  return rules;
}

}  // namespace backplane::layers
