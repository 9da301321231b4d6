#include "sdk/cli/replay_compare.h"

#include <chrono>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "sdk/cli/arrays.h"
#include "sdk/host/loader.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

using record::Kind;
using record::Operation;
using record::Outcome;

int64_t Nanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string StatusText(int code, absl::string_view message) {
  return code == 0 ? std::string("OK")
                   : absl::StrCat(absl::StatusCodeToString(static_cast<absl::StatusCode>(code)), ": ", message);
}

absl::StatusOr<Tolerance> ToleranceFor(const host::HostArray& expected, const CompareOptions& options) {
  Tolerance tolerance = options.tolerance;
  if (options.relative > 0) {
    BP_ASSIGN_OR_RETURN(const Statistics statistics, ComputeStatistics(expected));
    const double largest = std::max(std::abs(statistics.min), std::abs(statistics.max));
    tolerance.absolute = std::max(tolerance.absolute, options.relative * largest);
  }
  return tolerance;
}

// The expected result of one operation.
struct Expected {
  int code = 0;
  std::string message;
  bool reads = false;
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dims;
  const host::HostArray* array = nullptr;  // of the other plugin
  const record::BlobRef* blob = nullptr;   // of the session
};

absl::Status CompareRead(const record::SessionReader& session, const Expected& expected, const host::HostArray& found,
                         const CompareOptions& options, ReadRow* row) {
  row->shape = host::FormatShape(found.type, found.dims);
  if (expected.type != found.type || expected.dims != found.dims) {
    row->shape = absl::StrCat(row->shape, ", expected ", host::FormatShape(expected.type, expected.dims));
    row->agrees = row->measured = false;
    return absl::OkStatus();
  }
  host::HostArray theirs;
  const host::HostArray* want = expected.array;
  if (want != nullptr) {
    row->identical = want->data == found.data;
  } else {
    row->identical = record::Sha256::Of(absl::MakeConstSpan(found.data)) == expected.blob->digest;
  }
  if (row->identical) return absl::OkStatus();
  if (want == nullptr) {
    if (!session.HasBlob(*expected.blob)) {
      row->agrees = row->measured = false;
      return absl::OkStatus();
    }
    BP_ASSIGN_OR_RETURN(const size_t size, host::HostByteSize(expected.type, expected.dims));
    if (size != expected.blob->size) {
      return absl::InvalidArgumentError(
          absl::StrCat("operation ", row->number, ": ", expected.blob->size, " bytes for ", row->shape));
    }
    BP_ASSIGN_OR_RETURN(const std::string bytes, session.ReadBlob(*expected.blob, uint64_t{1} << 36));
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    theirs = host::HostArray{expected.type, expected.dims, {data, data + bytes.size()}};
    want = &theirs;
  }
  BP_ASSIGN_OR_RETURN(const Tolerance tolerance, ToleranceFor(*want, options));
  BP_ASSIGN_OR_RETURN(row->difference, Compare(*want, found, tolerance));
  row->agrees = row->difference.agrees();
  return absl::OkStatus();
}

}  // namespace

bool ReplayReport::agrees() const { return First().first == 0 && missing_reads == 0; }

std::pair<uint64_t, bool> ReplayReport::First() const {
  uint64_t read = 0, error = 0;
  for (const ReadRow& row : reads) {
    if (!row.agrees) {
      read = row.number;
      break;
    }
  }
  if (!errors.empty()) error = errors[0].first;
  if (read != 0 && (error == 0 || read < error)) return {read, false};
  return {error, error != 0};
}

void ObjectNames::AddNames(const Operation& op) {
  switch (op.kind) {
    case Kind::kCompile:
    case Kind::kCompileAhead:
    case Kind::kLoad:
    case Kind::kDeserialize:
      if (!op.makes.empty()) programs_[op.makes[0]] = op.name.empty() ? absl::StrCat("program ", op.makes[0]) : op.name;
      break;
    case Kind::kExecute: {
      if (op.uses.empty() || op.numbers.size() < record::kExecuteNumbers) break;
      const int64_t outputs = op.numbers[record::kNumOutputs], devices = op.numbers[record::kNumDevices];
      for (size_t i = 0; i < op.makes.size() && outputs > 0 && static_cast<int64_t>(i) < outputs * devices; ++i) {
        std::string name = absl::StrCat("output ", static_cast<int64_t>(i) % outputs, " of ", Program(op.uses[0]));
        if (devices > 1) absl::StrAppend(&name, " on device ", static_cast<int64_t>(i) / outputs);
        names_[op.makes[i]] = std::move(name);
      }
      break;
    }
    case Kind::kFromHost:
      if (!op.makes.empty())
        names_[op.makes[0]] = absl::StrCat("an array of the host, ", host::FormatShape(op.type, op.dims));
      break;
    case Kind::kCopyToDevice:
    case Kind::kCopyToMemory:
    case Kind::kBitcast:
    case Kind::kDonate:
      if (!op.makes.empty() && !op.uses.empty()) names_[op.makes[0]] = Of(op.uses[0]);
      break;
    case Kind::kRead:
    case Kind::kReadRaw:
    case Kind::kReadyEvent:
      if (!op.makes.empty() && !op.uses.empty()) names_[op.makes[0]] = Of(op.uses[0]);
      break;
    case Kind::kDestroy:
    case Kind::kEventDestroy:
      if (!op.uses.empty()) names_.erase(op.uses[0]);
      break;
    default:
      for (uint64_t id : op.makes) names_[id] = absl::StrCat(absl::string_view(KindName(op.kind)), " ", op.number);
  }
}

std::string ObjectNames::Of(uint64_t id) const {
  const auto found = names_.find(id);
  return found == names_.end() ? absl::StrCat("object ", id) : found->second;
}
std::string ObjectNames::Program(uint64_t id) const {
  const auto found = programs_.find(id);
  return found == programs_.end() ? std::string() : found->second;
}

absl::StatusOr<const host::Plugin*> OpenForReplay(const std::string& what, const PluginOptions& options,
                                                  std::vector<host::NamedValue>* create_options) {
  BP_ASSIGN_OR_RETURN(const host::FoundPlugin found, Locate(what, options));
  const PluginStartup starting_up(found.library);
  absl::StatusOr<const host::Plugin*> plugin = host::Plugin::Load(found.library);
  BP_RETURN_IF_ERROR(FromPlugin(plugin.status()));
  BP_RETURN_IF_ERROR(FromPlugin((*plugin)->Initialize()));
  *create_options = found.create_options;
  return *plugin;
}

absl::StatusOr<ReplayReport> ReplayAndCompare(const record::SessionReader& session,
                                              const std::vector<std::string>& plugins,
                                              const PluginOptions& plugin_options, const CompareOptions& options,
                                              Terminal* terminal) {
  std::vector<std::unique_ptr<record::Replayer>> replayers;
  for (const std::string& what : plugins) {
    record::ReplayOptions replay;
    replay.session_options = options.session_options;
    replay.wait_for_results = options.timing;
    BP_ASSIGN_OR_RETURN(const host::Plugin* plugin, OpenForReplay(what, plugin_options, &replay.create_options));
    replayers.push_back(std::make_unique<record::Replayer>(session, *plugin, std::move(replay)));
  }
  ReplayReport report;
  ObjectNames names;
  const int64_t start = Nanos();
  for (size_t i = 0; i < session.size(); ++i) {
    BP_ASSIGN_OR_RETURN(const Operation op, session.At(i));
    if (options.until != 0 && op.number > options.until) break;
    names.AddNames(op);
    if (options.keep != nullptr && options.keep->count(i) == 0) continue;
    if (terminal != nullptr) terminal->ShowProgress("replay", i, session.size());
    const Outcome found = replayers[0]->Step(op);
    Outcome other;
    if (replayers.size() > 1) other = replayers[1]->Step(op);
    ++report.done;
    report.last = op.number;
    report.recorded_wall_ns = std::max(report.recorded_wall_ns, op.start_ns + op.duration_ns);
    for (auto* times : {&report.kinds, &report.programs}) {
      const std::string name = times == &report.kinds                          ? std::string(KindName(op.kind))
                               : op.kind == Kind::kExecute && !op.uses.empty() ? names.Program(op.uses[0])
                                                                               : "";
      if (name.empty() || !found.skipped.empty()) continue;
      ReplayReport::Time& time = (*times)[name];
      ++time.count;
      time.recorded_ns += op.duration_ns;
      time.replayed_ns += found.duration_ns;
      time.other_ns += other.duration_ns;
    }
    for (const Outcome* outcome : {const_cast<const Outcome*>(&found), const_cast<const Outcome*>(&other)}) {
      if (op.kind == Kind::kClient && op.code == 0 && !outcome->status.ok()) return FromPlugin(outcome->status);
    }
    const bool host_read = (op.kind == Kind::kWait || op.kind == Kind::kPointer) && !op.blobs.empty();
    if (!found.skipped.empty()) {
      auto& [count, first] = report.skipped.try_emplace(found.skipped, 0, op.number).first->second;
      ++count;
      if (host_read) ++report.missing_reads;
      continue;
    }

    Expected expected;
    if (replayers.size() > 1) {
      if (!other.skipped.empty()) continue;
      expected.code = static_cast<int>(other.status.code());
      expected.message = std::string(other.status.message());
      expected.reads = other.read.has_value();
      if (expected.reads) {
        expected.type = other.read->type;
        expected.dims = other.read->dims;
        expected.array = &*other.read;
      }
    } else {
      expected.code = op.code;
      expected.message = op.message;
      expected.reads = host_read;
      expected.type = op.type;
      expected.dims = op.dims;
      if (host_read) expected.blob = &op.blobs[0];
    }
    if (static_cast<int>(found.status.code()) != expected.code) {
      std::string subject(KindName(op.kind));
      if (op.kind == Kind::kCompile) absl::StrAppend(&subject, " ", op.name);
      if (op.kind == Kind::kExecute && !op.uses.empty()) absl::StrAppend(&subject, " ", names.Program(op.uses[0]));
      if (op.kind == Kind::kWait && !op.uses.empty()) absl::StrAppend(&subject, " for ", names.Of(op.uses[0]));
      report.errors.emplace_back(
          op.number,
          absl::StrCat(subject, ": ", StatusText(static_cast<int>(found.status.code()), found.status.message()),
                       "; expected ", StatusText(expected.code, expected.message)));
      if (expected.reads) ++report.missing_reads;
    } else if (expected.reads && found.read.has_value()) {
      ReadRow row;
      row.number = op.number;
      row.what = op.uses.empty() ? "" : names.Of(op.uses[0]);
      BP_RETURN_IF_ERROR(CompareRead(session, expected, *found.read, options, &row));
      report.reads.push_back(std::move(row));
    } else if (expected.reads) {
      ++report.missing_reads;
    }
    if (options.stop_at_first && report.First().first != 0) break;
  }
  if (terminal != nullptr) terminal->ShowProgress("replay", session.size(), session.size());
  report.wall_ns = Nanos() - start;
  return report;
}

absl::StatusOr<record::Selection> ParseNumbers(const std::string& text, const std::vector<record::Link>& links) {
  record::Selection keep;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
    uint64_t first = 0, last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends[0], &first) || !absl::SimpleAtoi(ends.back(), &last) || last < first)
      return absl::InvalidArgumentError(absl::StrCat("replay: '", part, "', expected numbers of operations as 3,7-9"));
    for (size_t i = 0; i < links.size(); ++i)
      if (links[i].number >= first && links[i].number <= last) keep.insert(i);
  }
  return keep;
}

}  // namespace backplane::cli
