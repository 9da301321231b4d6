#include "sdk/layers/trace/write.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "sdk/host/json.h"
#include "sdk/layers/trace/page.h"

namespace backplane::layers {
namespace {

// Returns a JSON string that is also safe inside a script element.
std::string Quoted(absl::string_view text) {
  return absl::StrReplaceAll(host::Json(text).Text(), {{"<", "\\u003c"}, {">", "\\u003e"}});
}

const char* KindName(EventKind kind) {
  switch (kind) {
    case EventKind::kCall:
      return "call";
    case EventKind::kExecution:
      return "execution";
    case EventKind::kCopyToDevice:
      return "copy to device";
    case EventKind::kCopyToHost:
      return "copy to host";
    case EventKind::kCopyOnDevice:
      return "copy on device";
  }
  return "";
}

constexpr const char* kErrorNames[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

const char* ErrorName(uint8_t code) { return code < std::size(kErrorNames) ? kErrorNames[code] : "UNKNOWN"; }

// Returns "Client_Compile" for PJRT_Client_Compile.
absl::string_view ShortName(Fn fn) {
  if (fn == Fn::kCount) return "none";  // no function
  absl::string_view name = GetInfo(fn).name;
  if (name.substr(0, 5) == "PJRT_") name.remove_prefix(5);
  return name;
}

std::string SpanName(const Event& e, const std::vector<std::string>& texts) {
  if (e.kind == EventKind::kExecution && e.name != 0 && e.name < texts.size()) return texts[e.name];
  return KindName(e.kind);
}

}  // namespace

std::string TraceJson(const EventLog& log, const TraceHead& head) {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  const int64_t pid = head.process_id;
  absl::StrAppendFormat(&out, R"({"ph":"M","pid":%d,"tid":0,"name":"process_name","args":{"name":%s}})", pid,
                        Quoted(head.title));
  const std::vector<std::string> texts = log.Texts();
  const TickScale scale;
  int64_t tid = 0;
  uint64_t span = 0;
  log.ForEachThread(
      [&](const EventLog::Thread& thread) {
        tid = thread.id;
        absl::StrAppendFormat(&out,
                              ",\n"
                              R"({"ph":"M","pid":%d,"tid":%d,"name":"thread_name","args":{"name":%s}})",
                              pid, tid, Quoted(thread.name.empty() ? absl::StrCat("thread ", tid) : thread.name));
      },
      [&](const Event& e) {
        std::string args = absl::StrFormat(R"("object":"0x%x")", e.object);
        if (e.bytes != 0) absl::StrAppend(&args, ",\"bytes\":", e.bytes);
        if (e.count != 0) absl::StrAppend(&args, ",\"arguments\":", e.count);
        if (e.name != 0 && e.name < texts.size()) absl::StrAppend(&args, ",\"program\":", Quoted(texts[e.name]));
        if (e.device >= 0) absl::StrAppend(&args, ",\"device\":", e.device);
        if (e.error != 0) absl::StrAppend(&args, ",\"error\":\"", ErrorName(e.error), "\"");
        const double start = static_cast<double>(scale.ToNanos(e.start) - head.start_ns) / 1e3;
        const double end = static_cast<double>(scale.ToNanos(e.end) - head.start_ns) / 1e3;
        if (e.kind == EventKind::kCall) {
          absl::StrAppendFormat(
              &out,
              ",\n"
              R"({"ph":"X","cat":"call","name":"%s","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{%s}})",
              ShortName(e.fn), pid, tid, start, end - start, args);
          return;
        }
        const std::string name = Quoted(SpanName(e, texts));
        ++span;
        absl::StrAppendFormat(&out,
                              ",\n"
                              R"({"ph":"b","cat":"%s","name":%s,"id":%d,"pid":%d,"tid":%d,"ts":%.3f,"args":{%s}})",
                              KindName(e.kind), name, span, pid, tid, start, args);
        absl::StrAppendFormat(&out,
                              ",\n"
                              R"({"ph":"e","cat":"%s","name":%s,"id":%d,"pid":%d,"tid":%d,"ts":%.3f})",
                              KindName(e.kind), name, span, pid, tid, end);
      });
  absl::StrAppend(&out, "\n],\"otherData\":{\"dropped\":\"", log.dropped(), "\"}}\n");
  return out;
}

// The data consists of lists of numbers, which are short, and tables of names to which they refer.
std::string TraceHtml(const EventLog& log, const TraceHead& head) {
  const std::vector<std::string> texts = log.Texts();
  const TickScale scale;
  std::string threads = "[", events = "[";
  int64_t thread_count = 0;
  log.ForEachThread(
      [&](const EventLog::Thread& thread) {
        const std::string name = thread.name.empty() ? "thread" : thread.name;
        absl::StrAppend(&threads, thread_count == 0 ? "" : ",", Quoted(absl::StrCat(name, " ", thread.id)));
        ++thread_count;
      },
      [&](const Event& e) {
        absl::StrAppendFormat(&events, "%s[%d,%d,%d,%d,%d,%d,%d,%d,%d,%d]", events.size() == 1 ? "" : ",",
                              thread_count - 1, static_cast<int>(e.kind), Index(e.fn),
                              scale.ToNanos(e.start) - head.start_ns, scale.ToNanos(e.end) - scale.ToNanos(e.start),
                              e.bytes, e.name, e.count, e.device, e.error);
      });
  std::string functions = "[", names = "[", errors = "[";
  for (size_t i = 0; i < kNumFunctions; ++i) {
    absl::StrAppend(&functions, i == 0 ? "" : ",", "\"", ShortName(static_cast<Fn>(i)), "\"");
  }
  for (size_t i = 0; i < texts.size(); ++i) absl::StrAppend(&names, i == 0 ? "" : ",", Quoted(texts[i]));
  for (size_t i = 0; i < std::size(kErrorNames); ++i)
    absl::StrAppend(&errors, i == 0 ? "" : ",", "\"", kErrorNames[i], "\"");
  const std::string data = absl::StrCat("{title:", Quoted(head.title), ",pid:", head.process_id,
                                        ",dropped:", log.dropped(), ",threads:", threads, "],functions:", functions,
                                        "],names:", names, "],errors:", errors, "],events:", events, "]}");
  const absl::string_view page = TracePage();
  constexpr absl::string_view kMark = "/*DATA*/";
  const size_t at = page.find(kMark);
  return absl::StrCat(page.substr(0, at), data, page.substr(at + kMark.size()));
}

absl::Status WriteFileAtomically(const std::string& path, const std::string& contents) {
  auto fail = [&](const char* what) {
    return absl::UnavailableError(absl::StrCat(path, ": ", what, ": ", strerror(errno)));
  };
  const std::string half = absl::StrCat(path, ".", getpid(), ".part");
  const int fd = open(half.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return fail("cannot be made");
  size_t done = 0;
  while (done < contents.size()) {
    const ssize_t n = write(fd, contents.data() + done, contents.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      absl::Status status = fail("cannot be written");
      close(fd);
      unlink(half.c_str());
      return status;
    }
    done += static_cast<size_t>(n);
  }
  if (close(fd) != 0 || rename(half.c_str(), path.c_str()) != 0) {
    absl::Status status = fail("cannot be written");
    unlink(half.c_str());
    return status;
  }
  return absl::OkStatus();
}

}  // namespace backplane::layers
