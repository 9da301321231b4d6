#include "sdk/cli/shrink.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

using record::Kind;
using record::Selection;
using record::SessionReader;

// The outcome of a replay, which the child writes to a shared page.
struct Verdict {
  enum How : uint32_t { kNone, kRead, kError, kCrash };
  uint64_t target = 0;
  How how = kNone;
};

class Shrinker {
 public:
  Shrinker(const std::vector<std::string>& plugins, const PluginOptions& plugin_options, const CompareOptions& options,
           Terminal& terminal)
      : plugins_(plugins), plugin_options_(plugin_options), options_(options), terminal_(terminal) {
    page_ = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }
  ~Shrinker() {
    if (page_ != MAP_FAILED) munmap(page_, sizeof(Page));
  }
  bool good() const { return page_ != MAP_FAILED; }

  // Replays the selection. Returns an error if the file or the opening of the plugin is at fault.
  absl::StatusOr<Verdict> Try(const SessionReader& session, const Selection& keep) {
    ++tried_;
    terminal_.ShowProgress(absl::StrCat("shrink: ", keep.size(), " operations"), tried_ % 50, 51);
    CompareOptions options = options_;
    options.keep = &keep;
    options.stop_at_first = true;
    Page* page = new (page_) Page();
    int code = 0;
    const absl::Status status = Supervise(
        plugin_options_.limits,
        [&] {
          absl::StatusOr<ReplayReport> report = ReplayAndCompare(session, plugins_, plugin_options_, options, nullptr);
          if (report.ok()) {
            const auto [number, error] = report->First();
            page->verdict = {number, number == 0 ? Verdict::kNone : error ? Verdict::kError : Verdict::kRead};
          } else {
            page->code = static_cast<int>(report.status().code());
            const std::string text(report.status().message());
            std::strncpy(page->message, text.c_str(), sizeof(page->message) - 1);
          }
          return 0;
        },
        &code);
    if (!status.ok()) {
      died_ = std::string(status.message());
      return Verdict{0, Verdict::kCrash};
    }
    if (page->code != 0) return absl::Status(static_cast<absl::StatusCode>(page->code), page->message);
    return page->verdict;
  }

  // Whether the selection still shows the difference.
  bool ReproducesDifference(const SessionReader& session, const Selection& keep, const Verdict& wanted) {
    const absl::StatusOr<Verdict> verdict = Try(session, keep);
    return verdict.ok() && verdict->how == wanted.how && verdict->target == wanted.target;
  }

  // Runs `work` in a child, with a replayer on the last plugin, which provides the expected results.
  absl::Status WithExpected(const SessionReader& session, const std::function<absl::Status(record::Replayer*)>& work) {
    Page* page = new (page_) Page();
    int code = 0;
    BP_RETURN_IF_ERROR(Supervise(
        plugin_options_.limits,
        [&] {
          record::ReplayOptions replay;
          replay.session_options = options_.session_options;
          absl::StatusOr<const host::Plugin*> plugin =
              OpenForReplay(plugins_.back(), plugin_options_, &replay.create_options);
          absl::Status status = plugin.status();
          if (status.ok()) {
            record::Replayer replayer(session, **plugin, replay);
            status = work(&replayer);
          }
          page->code = static_cast<int>(status.code());
          const std::string text(status.message());
          std::strncpy(page->message, text.c_str(), sizeof(page->message) - 1);
          return 0;
        },
        &code));
    if (page->code != 0) return absl::Status(static_cast<absl::StatusCode>(page->code), page->message);
    return absl::OkStatus();
  }

  // Removes groups of operations as long as the difference stays: halves, quarters and so on, each with all operations
  // that depend on it.
  Selection ReduceByTrial(const SessionReader& session, const std::vector<record::Link>& links, Selection keep,
                          const Verdict& wanted) {
    constexpr uint64_t kMaxTries = 400;
    const uint64_t limit = tried_ + kMaxTries;
    size_t parts = 2;
    while (tried_ < limit) {
      const std::vector<size_t> list(keep.begin(), keep.end());
      parts = std::min(parts, list.size());
      bool smaller = false;
      // From the end, where the operations are needed least.
      for (size_t p = parts; p-- > 0 && tried_ < limit;) {
        Selection removed(list.begin() + static_cast<int64_t>(list.size() * p / parts),
                          list.begin() + static_cast<int64_t>(list.size() * (p + 1) / parts));
        Selection left = record::RemoveOperations(links, keep, removed);
        const bool has_target = wanted.target == 0 || HasNumber(links, left, wanted.target);
        if (left.empty() || left.size() == keep.size() || !has_target || !ReproducesDifference(session, left, wanted))
          continue;
        keep = std::move(left);
        smaller = true;
        break;
      }
      if (smaller) {
        parts = std::max<size_t>(2, parts / 2);
      } else if (parts >= list.size()) {
        break;
      } else {
        parts *= 2;
      }
    }
    return keep;
  }

  static bool HasNumber(const std::vector<record::Link>& links, const Selection& keep, uint64_t number) {
    for (size_t i : keep)
      if (links[i].number == number) return true;
    return false;
  }

  uint64_t tried() const { return tried_; }
  const std::string& died() const { return died_; }

 private:
  struct Page {
    Verdict verdict;
    int code = 0;
    char message[4096] = {};
  };
  const std::vector<std::string>& plugins_;
  const PluginOptions& plugin_options_;
  const CompareOptions& options_;
  Terminal& terminal_;
  void* page_;
  uint64_t tried_ = 0;
  std::string died_;
};

// Returns the operations that create buffers. The session can be split before each of them.
bool CanSplitBefore(Kind kind) {
  return kind == Kind::kExecute || kind == Kind::kCopyToDevice || kind == Kind::kCopyToMemory || kind == Kind::kBitcast;
}

}  // namespace

absl::StatusOr<ShrinkResult> Shrink(const SessionReader& session, const std::vector<std::string>& plugins,
                                    const PluginOptions& plugin_options, const CompareOptions& options,
                                    const std::string& path, Terminal& terminal) {
  ShrinkResult result;
  result.operations_before = session.size();
  result.bytes_before = session.file_bytes();
  Shrinker shrinker(plugins, plugin_options, options, terminal);
  if (!shrinker.good()) return absl::ResourceExhaustedError("shrink: no memory to share with a child");
  BP_ASSIGN_OR_RETURN(std::vector<record::Link> links, record::CollectLinks(session));

  Selection keep;
  for (size_t i = 0; i < links.size(); ++i)
    if (options.until == 0 || links[i].number <= options.until) keep.insert(keep.end(), i);
  BP_ASSIGN_OR_RETURN(Verdict wanted, shrinker.Try(session, keep));
  if (wanted.how == Verdict::kNone) return absl::FailedPreconditionError("shrink: the session shows no difference");
  const bool located = wanted.how != Verdict::kCrash;
  if (located) {
    size_t target = 0;
    while (links[target].number != wanted.target) ++target;
    keep.erase(keep.upper_bound(target), keep.end());
    const Selection needed = record::CollectDependencies(links, target);
    if (shrinker.ReproducesDifference(session, needed, wanted)) keep = needed;
  }

  // The split: everything before it is replaced by data that the second plugin computed. The error is then after the
  // split, so the last position that still shows the difference is searched for.
  const SessionReader* current = &session;
  std::unique_ptr<SessionReader> split_session;
  const std::string split_path = absl::StrCat(path, ".split.", getpid());
  const std::string alone_path = split_path + ".alone";
  const absl::Cleanup remove = [&] {
    unlink(split_path.c_str());
    unlink(alone_path.c_str());
  };
  if (plugins.size() > 1 && wanted.how == Verdict::kRead) {
    std::vector<size_t> splits;
    for (size_t i : keep)
      if (CanSplitBefore(links[i].kind)) splits.push_back(i);
    auto shows_at = [&](size_t split) {
      const absl::Status written = shrinker.WithExpected(session, [&](record::Replayer* values) {
        return record::WriteSelection(session, keep, values, split, "a trial", split_path);
      });
      if (!written.ok()) return false;
      const absl::StatusOr<std::unique_ptr<SessionReader>> trial = SessionReader::Open(split_path);
      if (!trial.ok()) return false;
      Selection all;
      for (size_t i = 0; i < (*trial)->size(); ++i) all.insert(i);
      return shrinker.ReproducesDifference(**trial, all, wanted);
    };
    size_t low = 0, high = splits.size();  // splits[low - 1] shows it; splits[high] does not
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (shows_at(splits[middle])) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low > 0 && shows_at(splits[low - 1])) {
      BP_ASSIGN_OR_RETURN(split_session, SessionReader::Open(split_path));
      result.split = links[splits[low - 1]].number;
      current = split_session.get();
      BP_ASSIGN_OR_RETURN(links, record::CollectLinks(*current));
      keep.clear();
      size_t target = 0;
      for (size_t i = 0; i < links.size(); ++i) {
        keep.insert(i);
        if (links[i].number == wanted.target) target = i;
      }
      const Selection needed = record::CollectDependencies(links, target);
      if (shrinker.ReproducesDifference(*current, needed, wanted)) keep = needed;

      // The first operation that differs is the one after the split. If its own results show the difference, the
      // operations from there to what the host read are not needed.
      size_t first = 0;
      while (links[first].number != result.split) ++first;
      Selection alone = record::CollectDependencies(links, first);
      const absl::Status written = shrinker.WithExpected(*current, [&](record::Replayer* values) {
        return record::WriteSelection(*current, alone, values, 0, "a trial", alone_path, true);
      });
      absl::StatusOr<std::unique_ptr<SessionReader>> trial = SessionReader::Open(alone_path);
      if (written.ok() && trial.ok()) {
        Selection all;
        for (size_t i = 0; i < (*trial)->size(); ++i) all.insert(i);
        const absl::StatusOr<Verdict> verdict = shrinker.Try(**trial, all);
        if (verdict.ok() && verdict->how == Verdict::kRead) {
          wanted = *verdict;
          split_session = *std::move(trial);
          current = split_session.get();
          BP_ASSIGN_OR_RETURN(links, record::CollectLinks(*current));
          target = 0;
          while (links[target].number != wanted.target) ++target;
          keep = record::CollectDependencies(links, target);
          if (!shrinker.ReproducesDifference(*current, keep, wanted)) keep = all;
        }
      }
    }
  }

  keep = shrinker.ReduceByTrial(*current, links, std::move(keep), wanted);

  const std::string made_from = absl::StrCat("operations of ", session.path(), " by which ", plugins[0],
                                             " differs from ", plugins.size() > 1 ? plugins[1] : "what was recorded");
  if (plugins.size() > 1) {
    BP_RETURN_IF_ERROR(shrinker.WithExpected(*current, [&](record::Replayer* values) {
      return record::WriteSelection(*current, keep, values, 0, made_from, path);
    }));
  } else {
    BP_RETURN_IF_ERROR(record::WriteSelection(*current, keep, nullptr, 0, made_from, path));
  }
  BP_ASSIGN_OR_RETURN(const std::unique_ptr<SessionReader> made, SessionReader::Open(path));
  Selection all;
  for (size_t i = 0; i < made->size(); ++i) all.insert(i);
  if (!shrinker.ReproducesDifference(*made, all, wanted))
    return absl::InternalError(absl::StrCat("shrink: ", path, ": does not show the difference any more"));
  result.operations_after = made->size();
  result.bytes_after = made->file_bytes();
  result.target = wanted.target;
  result.how = wanted.how == Verdict::kRead ? "read" : wanted.how == Verdict::kError ? "error" : shrinker.died();
  result.tried = shrinker.tried();
  terminal.ShowProgress("shrink", 1, 1);
  return result;
}

}  // namespace backplane::cli
