// backplane replay: repeats a recorded session on another plugin, without the host, and compares.
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "sdk/cli/command.h"
#include "sdk/cli/npy.h"
#include "sdk/cli/replay_compare.h"
#include "sdk/cli/shrink.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

using record::Kind;
using record::Operation;
using record::SessionReader;

struct ReplayCommandOptions {
  PluginOptions plugin;
  std::string file, extract, only, output;
  std::vector<std::string> plugins;
  CompareOptions compare;
  int64_t until = 0;
  bool list = false, timing = false, shrink = false, expect_difference = false, own_options = false;
};

std::string Milliseconds(int64_t ns) { return absl::StrFormat("%.3f", static_cast<double>(ns) * 1e-6); }

// Describes an operation in a few words.
std::string DescribeOperation(const Operation& op, const ObjectNames& names) {
  std::vector<std::string> words;
  switch (op.kind) {
    case Kind::kClient: {
      int64_t here = 0;
      for (const record::DeviceFact& device : op.devices) here += device.addressable ? 1 : 0;
      words.push_back(absl::StrCat("platform ", op.name, ", ", here, " of ", op.devices.size(), " devices"));
      for (const host::NamedValue& value : op.options)
        words.push_back(absl::StrCat(value.name, "=", value.FormatValue()));
      break;
    }
    case Kind::kCompile:
    case Kind::kCompileAhead:
    case Kind::kLoad:
    case Kind::kDeserialize: {
      words.push_back(op.name);
      if (!op.text.empty() && !op.blobs.empty())
        words.push_back(absl::StrCat(op.text, " of ", op.blobs[0].size, " bytes"));
      if (op.placement.size() > 1) words.push_back(absl::StrCat("on devices ", absl::StrJoin(op.placement, " ")));
      break;
    }
    case Kind::kExecute:
      words.push_back(op.uses.empty() ? "" : names.Program(op.uses[0]));
      if (op.numbers.size() >= record::kExecuteNumbers) {
        words.push_back(absl::StrCat(op.numbers[record::kNumArguments], " arguments, ", op.numbers[record::kNumOutputs],
                                     " outputs"));
        if (op.numbers[record::kNumDevices] > 1)
          words.push_back(absl::StrCat(op.numbers[record::kNumDevices], " devices"));
      }
      if (!op.donated.empty()) words.push_back(absl::StrCat(op.donated.size(), " donated"));
      break;
    case Kind::kFromHost:
    case Kind::kView:
    case Kind::kUninitialized:
    case Kind::kErrorBuffer:
    case Kind::kAlias:
      words.push_back(host::FormatShape(op.type, op.dims));
      if (!op.byte_strides.empty()) words.push_back(absl::StrCat("strides ", absl::StrJoin(op.byte_strides, " ")));
      break;
    case Kind::kWait:
      words.push_back(op.uses.empty() ? "" : names.Of(op.uses[0]));
      if (!op.blobs.empty()) words.push_back(absl::StrCat("read ", host::FormatShape(op.type, op.dims)));
      break;
    case Kind::kCall:
      words.push_back(op.name);
      break;
    case Kind::kObstacle:
      break;
    default:
      if (!op.uses.empty()) words.push_back(names.Of(op.uses[0]));
  }
  if (!op.obstacle.empty()) words.push_back(op.obstacle);
  if (op.data_left_out && !op.blobs.empty()) words.push_back("digest only");
  words.erase(std::remove(words.begin(), words.end(), ""), words.end());
  return absl::StrJoin(words, ", ");
}

host::Json InfoJson(const SessionReader& session) {
  const record::SessionInfo& info = session.info();
  return host::Json::MakeObject()
      .Set("file", session.path())
      .Set("plugin", info.plugin)
      .Set("api_version", absl::StrCat(info.api_major, ".", info.api_minor))
      .Set("host", info.host)
      .Set("process", info.process)
      .Set("unix_seconds", info.unix_seconds)
      .Set("made_from", info.made_from)
      .Set("operations", session.size())
      .Set("blobs", session.num_blobs())
      .Set("bytes", session.file_bytes())
      .Set("complete", session.complete())
      .Set("lost_bytes", session.lost_bytes());
}

std::string DescribeAbruptEnd(const SessionReader& session) {
  return absl::StrCat(
      "the host ended abruptly: the session is complete up to its last operation",
      session.lost_bytes() > 0 ? absl::StrCat(", ", session.lost_bytes(), " bytes behind it are not") : "");
}

absl::Status List(const ReplayCommandOptions& o, const SessionReader& session, const record::Selection* keep,
                  Terminal& terminal) {
  ObjectNames names;
  host::Json list = host::Json::MakeArray();
  std::vector<std::vector<std::string>> table = {{"", "thread", "at ms", "ms", "operation", "about", "ended"}};
  const record::SessionInfo& info = session.info();
  if (!terminal.json()) {
    terminal.Print(absl::StrCat("session of ", info.host, " (process ", info.process, ") with ", info.plugin,
                                ", PJRT C API ", info.api_major, ".", info.api_minor, ": ", session.size(),
                                " operations, ", Bytes(static_cast<double>(session.file_bytes())), "\n"));
    if (!info.made_from.empty()) terminal.Print(absl::StrCat("made from ", info.made_from, "\n"));
    if (!session.complete()) terminal.Print(DescribeAbruptEnd(session) + "\n");
  }
  for (size_t i = 0; i < session.size(); ++i) {
    BP_ASSIGN_OR_RETURN(const Operation op, session.At(i));
    if (o.until != 0 && op.number > static_cast<uint64_t>(o.until)) break;
    names.AddNames(op);
    if (keep != nullptr && keep->count(i) == 0) continue;
    const std::string code(absl::StatusCodeToString(static_cast<absl::StatusCode>(op.code)));
    if (terminal.json()) {
      host::Json uses = host::Json::MakeArray(), makes = host::Json::MakeArray();
      for (uint64_t id : op.uses) uses.Push(static_cast<int64_t>(id));
      for (uint64_t id : op.makes) makes.Push(static_cast<int64_t>(id));
      host::Json row = host::Json::MakeObject();
      row.Set("number", static_cast<int64_t>(op.number))
          .Set("thread", static_cast<int64_t>(op.thread))
          .Set("start_ns", op.start_ns)
          .Set("duration_ns", op.duration_ns)
          .Set("kind", KindName(op.kind))
          .Set("about", DescribeOperation(op, names))
          .Set("code", code)
          .Set("uses", std::move(uses))
          .Set("makes", std::move(makes));
      if (!op.message.empty()) row.Set("message", op.message);
      if (!op.obstacle.empty()) row.Set("obstacle", op.obstacle);
      if (!op.blobs.empty()) {
        host::Json blobs = host::Json::MakeArray();
        for (const record::BlobRef& blob : op.blobs)
          blobs.Push(host::Json::MakeObject()
                         .Set("sha256", record::FormatHex(blob.digest))
                         .Set("bytes", static_cast<int64_t>(blob.size)));
        row.Set("blobs", std::move(blobs));
      }
      list.Push(std::move(row));
    } else {
      table.push_back({absl::StrCat(op.number), absl::StrCat(op.thread), Milliseconds(op.start_ns),
                       Milliseconds(op.duration_ns), std::string(KindName(op.kind)), DescribeOperation(op, names),
                       op.code == 0 ? "" : absl::StrCat(code, ": ", op.message.substr(0, 120))});
    }
  }
  if (terminal.json()) {
    terminal.PrintJson(host::Json::MakeObject().Set("session", InfoJson(session)).Set("list", std::move(list)));
  } else {
    terminal.Print(FormatTable(table, {0, 1, 2, 3}));
  }
  return absl::OkStatus();
}

// Returns a name that is valid for a file.
std::string FileName(const std::string& text) {
  std::string name;
  for (char c : text.substr(0, 60))
    name.push_back(std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ? c : '_');
  return name.empty() ? "program" : name;
}

absl::Status Extract(const ReplayCommandOptions& o, const SessionReader& session, const record::Selection* keep,
                     Terminal& terminal) {
  if (mkdir(o.extract.c_str(), 0777) != 0 && errno != EEXIST)
    return absl::FailedPreconditionError(absl::StrCat(o.extract, ": ", std::strerror(errno)));
  host::Json files = host::Json::MakeArray();
  uint64_t left_out = 0;
  auto write = [&](const std::string& name, const std::string& bytes) -> absl::Status {
    const std::string path = absl::StrCat(o.extract, "/", name);
    BP_RETURN_IF_ERROR(WriteFile(path, bytes));
    files.Push(path);
    if (!terminal.json()) terminal.Print(path + "\n");
    return absl::OkStatus();
  };
  for (size_t i = 0; i < session.size(); ++i) {
    if (keep != nullptr && keep->count(i) == 0) continue;
    BP_ASSIGN_OR_RETURN(const Operation op, session.At(i));
    if (o.until != 0 && op.number > static_cast<uint64_t>(o.until)) break;
    if (op.blobs.empty()) continue;
    if (!session.HasBlob(op.blobs[0])) {
      ++left_out;
      continue;
    }
    const std::string number = absl::StrFormat("%06d", op.number);
    if (op.kind == Kind::kCompile || op.kind == Kind::kCompileAhead) {
      BP_ASSIGN_OR_RETURN(const std::string code, session.ReadBlob(op.blobs[0]));
      const bool bytecode = code.compare(0, 4, "ML\xefR") == 0;
      BP_RETURN_IF_ERROR(write(absl::StrCat(number, "_", FileName(op.name),
                                            op.text == "mlir" ? (bytecode ? ".mlirbc" : ".mlir") : ".hlo.pb"),
                               code));
      if (op.blobs.size() > 1) {
        BP_ASSIGN_OR_RETURN(const std::string options, session.ReadBlob(op.blobs[1]));
        BP_RETURN_IF_ERROR(write(absl::StrCat(number, "_", FileName(op.name), ".options.pb"), options));
      }
    } else if (op.type != PJRT_Buffer_Type_INVALID) {
      BP_ASSIGN_OR_RETURN(const size_t size, host::HostByteSize(op.type, op.dims));
      BP_ASSIGN_OR_RETURN(const std::string bytes, session.ReadBlob(op.blobs[0], uint64_t{1} << 36));
      if (bytes.size() != size)
        return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": ", bytes.size(), " bytes"));
      const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
      BP_ASSIGN_OR_RETURN(const std::string npy, FormatNpy({op.type, op.dims, {data, data + bytes.size()}}));
      BP_RETURN_IF_ERROR(write(absl::StrCat(number, "_", absl::string_view(KindName(op.kind)), ".npy"), npy));
    }
  }
  if (terminal.json())
    terminal.PrintJson(
        host::Json::MakeObject().Set("files", std::move(files)).Set("left_out", static_cast<int64_t>(left_out)));
  if (left_out > 0)
    terminal.Note(absl::StrCat(left_out, " arrays and programs are not in the file, only their digests\n"));
  return absl::OkStatus();
}

host::Json ReportJson(const ReplayReport& report, const SessionReader& session) {
  host::Json reads = host::Json::MakeArray(), errors = host::Json::MakeArray(), skipped = host::Json::MakeArray();
  for (const ReadRow& row : report.reads) {
    host::Json read = host::Json::MakeObject();
    read.Set("number", static_cast<int64_t>(row.number))
        .Set("what", row.what)
        .Set("shape", row.shape)
        .Set("agrees", row.agrees)
        .Set("identical", row.identical);
    if (!row.identical && row.measured) read.Set("difference", ToJson(row.difference));
    reads.Push(std::move(read));
  }
  for (const auto& [number, text] : report.errors)
    errors.Push(host::Json::MakeObject().Set("number", static_cast<int64_t>(number)).Set("message", text));
  for (const auto& [why, count] : report.skipped) {
    skipped.Push(host::Json::MakeObject()
                     .Set("why", why)
                     .Set("count", static_cast<int64_t>(count.first))
                     .Set("first", static_cast<int64_t>(count.second)));
  }
  return host::Json::MakeObject()
      .Set("session", InfoJson(session))
      .Set("done", static_cast<int64_t>(report.done))
      .Set("last", static_cast<int64_t>(report.last))
      .Set("agree", report.agrees())
      .Set("first_difference", static_cast<int64_t>(report.First().first))
      .Set("missing_reads", static_cast<int64_t>(report.missing_reads))
      .Set("reads", std::move(reads))
      .Set("errors", std::move(errors))
      .Set("not_done", std::move(skipped))
      .Set("seconds", static_cast<double>(report.wall_ns) * 1e-9)
      .Set("recorded_seconds", static_cast<double>(report.recorded_wall_ns) * 1e-9);
}

host::Json TimesJson(const std::map<std::string, ReplayReport::Time>& times, bool other) {
  host::Json list = host::Json::MakeArray();
  for (const auto& [name, time] : times) {
    host::Json row = host::Json::MakeObject();
    row.Set("name", name).Set("count", static_cast<int64_t>(time.count)).Set("recorded_ns", time.recorded_ns);
    row.Set("replayed_ns", time.replayed_ns);
    if (other) row.Set("compared_ns", time.other_ns);
    list.Push(std::move(row));
  }
  return list;
}

void PrintTimes(const char* what, const std::map<std::string, ReplayReport::Time>& times, bool other,
                Terminal& terminal) {
  std::vector<std::vector<std::string>> table = {{what, "count", "recorded ms", "replayed ms"}};
  if (other) table[0].push_back("compared ms");
  for (const auto& [name, time] : times) {
    table.push_back({name, absl::StrCat(time.count), Milliseconds(time.recorded_ns), Milliseconds(time.replayed_ns)});
    if (other) table.back().push_back(Milliseconds(time.other_ns));
  }
  terminal.Print("\n" + FormatTable(table, {1, 2, 3, 4}));
}

void PrintReport(const ReplayCommandOptions& o, const ReplayReport& report, const SessionReader& session,
                 Terminal& terminal) {
  std::vector<std::vector<std::string>> table = {{"", "read", "shape", "differing", "ulp", "abs", "worst"}};
  uint64_t identical = 0, within = 0, differing = 0;
  constexpr size_t kMaxRows = 40;
  for (const ReadRow& row : report.reads) {
    if (row.identical) {
      ++identical;
      continue;
    }
    ++(row.agrees ? within : differing);
    // First all reads that differ, then a few of the others.
    if (table.size() > kMaxRows) continue;
    const Difference& d = row.difference;
    table.push_back(
        {absl::StrCat(row.number), row.what, row.shape,
         row.measured ? absl::StrCat(d.differing, " of ", d.count) : terminal.ApplyStyle(Style::kBad, "other bytes"),
         row.measured ? FormatDistance(d.max_ulp) : "", row.measured ? absl::StrFormat("%.3g", d.max_absolute) : "",
         row.measured && d.worst >= 0 ? absl::StrCat("[", d.worst, "]: ", d.worst_a, ", ", d.worst_b) : ""});
  }
  if (table.size() > 1) terminal.Print(FormatTable(table, {0, 3, 4, 5}));
  if (within + differing > table.size() - 1)
    terminal.Print(absl::StrCat("and ", within + differing - (table.size() - 1), " more; --json has all\n"));
  size_t shown = 0;
  for (const auto& [number, text] : report.errors) {
    if (++shown > 20) {
      terminal.Print(absl::StrCat("and ", report.errors.size() - 20, " more errors\n"));
      break;
    }
    terminal.Print(
        absl::StrCat(terminal.ApplyStyle(Style::kBad, absl::StrCat("operation ", number)), ": ", text, "\n"));
  }
  for (const auto& [why, count] : report.skipped) {
    terminal.Print(absl::StrCat("not done, ", count.first, count.first == 1 ? " operation" : " operations", " from ",
                                count.second, " on: ", why, "\n"));
  }
  if (report.missing_reads > 0)
    terminal.Print(absl::StrCat(report.missing_reads, " reads of the host could not be repeated\n"));
  if (o.timing) {
    const bool other = o.plugins.size() > 1;
    PrintTimes("operation", report.kinds, other, terminal);
    if (!report.programs.empty()) PrintTimes("program", report.programs, other, terminal);
    terminal.Print(absl::StrCat("\nin all ", Milliseconds(report.wall_ns), " ms; the recorded session took ",
                                Milliseconds(report.recorded_wall_ns), " ms with its host\n\n"));
  }
  if (!session.complete()) terminal.Print(DescribeAbruptEnd(session) + "\n");
  terminal.Print(absl::StrCat(report.done, " operations, ", report.reads.size(), " reads: ", identical, " identical, ",
                              within, " within the tolerance, ", differing, " different\n"));
  terminal.Print(absl::StrCat(
      report.agrees() ? terminal.ApplyStyle(Style::kGood, "agrees") : terminal.ApplyStyle(Style::kBad, "differs"),
      " with ", o.plugins.size() > 1 ? o.plugins[1] : "what was recorded", "\n"));
}

absl::Status Replay(const ReplayCommandOptions& o, Terminal& terminal, int* exit_code) {
  BP_ASSIGN_OR_RETURN(const std::unique_ptr<SessionReader> session, SessionReader::Open(o.file));
  CompareOptions compare = o.compare;
  compare.until = static_cast<uint64_t>(std::max<int64_t>(o.until, 0));
  compare.timing = o.timing;
  compare.session_options = !o.own_options;
  record::Selection keep;
  if (!o.only.empty()) {
    BP_ASSIGN_OR_RETURN(const std::vector<record::Link> links, record::CollectLinks(*session));
    BP_ASSIGN_OR_RETURN(keep, ParseNumbers(o.only, links));
    compare.keep = &keep;
  }
  if (o.list) return List(o, *session, compare.keep, terminal);
  if (!o.extract.empty()) return Extract(o, *session, compare.keep, terminal);
  if (o.plugins.empty() || o.plugins.size() > 2)
    return MakeUsageError("replay: expected --plugin once, or twice to compare with a second one");
  if (o.shrink) {
    if (o.output.empty()) return MakeUsageError("replay: --shrink needs --output, where the smaller session goes");
    BP_ASSIGN_OR_RETURN(const ShrinkResult r, Shrink(*session, o.plugins, o.plugin, compare, o.output, terminal));
    if (terminal.json()) {
      terminal.PrintJson(host::Json::MakeObject()
                             .Set("file", o.output)
                             .Set("operations_before", static_cast<int64_t>(r.operations_before))
                             .Set("operations", static_cast<int64_t>(r.operations_after))
                             .Set("bytes_before", static_cast<int64_t>(r.bytes_before))
                             .Set("bytes", static_cast<int64_t>(r.bytes_after))
                             .Set("replays", static_cast<int64_t>(r.tried))
                             .Set("split", static_cast<int64_t>(r.split))
                             .Set("difference", r.how)
                             .Set("at", static_cast<int64_t>(r.target)));
      return absl::OkStatus();
    }
    terminal.Print(absl::StrCat(r.operations_before, " operations became ", r.operations_after, ", ",
                                Bytes(static_cast<double>(r.bytes_before)), " became ",
                                Bytes(static_cast<double>(r.bytes_after)), ", in ", r.tried, " replays\n"));
    terminal.Print(r.target == 0
                       ? absl::StrCat("what it shows: ", r.how, "\n")
                       : absl::StrCat("what it shows: a different ", r.how, " at operation ", r.target, "\n"));
    if (r.split != 0)
      terminal.Print(absl::StrCat("the operations before operation ", r.split, " are replaced by data that ",
                                  o.plugins[1], " computed\n"));
    terminal.Print(absl::StrCat(o.output, "\n"));
    return absl::OkStatus();
  }
  BP_ASSIGN_OR_RETURN(const ReplayReport report, ReplayAndCompare(*session, o.plugins, o.plugin, compare, &terminal));
  if (terminal.json()) {
    host::Json json = ReportJson(report, *session);
    if (o.timing) {
      json.Set("operations", TimesJson(report.kinds, o.plugins.size() > 1));
      json.Set("programs", TimesJson(report.programs, o.plugins.size() > 1));
    }
    terminal.PrintJson(json);
  } else {
    PrintReport(o, report, *session, terminal);
  }
  if (report.agrees() == o.expect_difference) *exit_code = kNo;
  return absl::OkStatus();
}

}  // namespace

Command ReplayCommand() {
  auto o = std::make_shared<ReplayCommandOptions>();
  Command command{"replay", "repeats a recorded session on a plugin and compares what the host read"};
  command.options.push_back({"file", &o->file, "the session (.bprec), of the layer `record`", "FILE", true, {}, true});
  command.options.push_back({"--plugin,-p",
                             &o->plugins,
                             "the plugin; a second one provides the expected results instead of the recording",
                             "PLUGIN",
                             false,
                             {},
                             true});
  command.options.push_back({"--list,-l", &o->list, "list the operations; needs no plugin"});
  command.options.push_back(
      {"--extract", &o->extract, "write programs and arrays to this folder; needs no plugin", "DIR", false, {}, true});
  command.options.push_back(AtLeast(0, {"--until", &o->until, "the last operation, by its number", "N"}));
  command.options.push_back({"--only", &o->only, "operations by number: 1-5,8", "LIST"});
  command.options.push_back({"--timing,-t", &o->timing, "print times; waits for the results of each execution"});
  command.options.push_back(AtLeast(0, {"--ulp", &o->compare.tolerance.ulp,
                                        "largest distance of elements that agree, in steps of the element type", "N"}));
  command.options.push_back(
      AtLeast(0, {"--abs", &o->compare.tolerance.absolute, "distance within which elements agree as well", "X"}));
  command.options.push_back(AtLeast(
      0, {"--relative", &o->compare.relative, "the same as a fraction of the largest magnitude of the array", "X"}));
  command.options.push_back(
      {"--expect-difference", &o->expect_difference, "exit code 0 when results differ, 1 when they agree"});
  command.options.push_back(
      {"--shrink", &o->shrink, "write the smallest session that still shows the first difference"});
  command.options.push_back({"--output,-O", &o->output, "where --shrink writes", "FILE", false, {}, true});
  command.options.push_back(
      {"--own-options", &o->own_options, "create clients without the create options of the session"});
  o->plugin.AddTo(&command);
  command.details =
      "Exit code 1 when a read or an error differs, or when something the host read could not be read again.\n"
      "  BACKPLANE_LAYERS=record BACKPLANE_RECORD_FILE=run.bprec ...   records; docs/record_replay.md\n"
      "  backplane replay run.bprec --list\n"
      "  backplane replay run.bprec -p other.so --relative 1e-4 --timing\n"
      "  backplane replay run.bprec -p mine.so -p reference --shrink -O small.bprec";
  command.state = o;
  command.run = [o](Terminal& terminal, int* exit_code) { return Replay(*o, terminal, exit_code); };
  return command;
}

}  // namespace backplane::cli
