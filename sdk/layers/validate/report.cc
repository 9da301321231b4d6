#include "sdk/layers/validate/report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/mutex.h"
#include "sdk/host/json.h"
#include "sdk/layers/trace/write.h"

namespace backplane::layers {
namespace {

const char* GetName(Fn fn) { return fn == Fn::kCount ? "the end" : GetInfo(fn).name; }

host::Json Frames(const std::string& text) {
  host::Json frames = host::Json::MakeArray();
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
    frames.Push(absl::StripAsciiWhitespace(line));
  return frames;
}

}  // namespace

std::string Report::Text(const Finding& f, const Stacks& stacks) {
  std::string out = absl::StrCat("validate: ", f.kind, ": ", f.message, "\n");
  if (f.fn != Fn::kCount) absl::StrAppend(&out, "    in ", GetName(f.fn), "\n", stacks.Text(f.stack));
  for (const auto& [what, stack] : f.others) absl::StrAppend(&out, "    ", what, "\n", stacks.Text(stack));
  return out;
}

void Report::Add(Finding finding, const Stacks& stacks) {
  const uint32_t site = finding.fn == Fn::kCount && !finding.others.empty() ? finding.others[0].second : finding.stack;
  MutexLock lock(mutex_);
  auto [it, added] = seen_.try_emplace(Key(finding.kind, Index(finding.fn), finding.key, site), findings_.size());
  if (!added) {
    ++findings_[it->second].count;
    return;
  }
  if (out_ != nullptr) {
    const std::string text = Text(finding, stacks);
    fwrite(text.data(), 1, text.size(), out_);
    fflush(out_);
  }
  findings_.push_back(std::move(finding));
}

size_t Report::size() const {
  MutexLock lock(mutex_);
  return findings_.size();
}

uint64_t Report::GetCount(absl::string_view kind) const {
  MutexLock lock(mutex_);
  uint64_t count = 0;
  for (const Finding& f : findings_) count += f.kind == kind ? f.count : 0;
  return count;
}

void Report::Finish(const Stacks& stacks, bool always) {
  MutexLock lock(mutex_);
  uint64_t times = 0;
  for (const Finding& f : findings_) times += f.count;
  if (out_ != nullptr && (always || !findings_.empty())) {
    fprintf(out_, "validate: %zu findings, met %llu times\n", findings_.size(), static_cast<unsigned long long>(times));
    fflush(out_);
  }
  if (json_.empty()) return;
  host::Json list = host::Json::MakeArray();
  for (const Finding& f : findings_) {
    host::Json one = host::Json::MakeObject();
    one.Set("kind", f.kind).Set("function", GetName(f.fn)).Set("message", f.message);
    one.Set("count", static_cast<int64_t>(f.count)).Set("stack", Frames(stacks.Text(f.stack)));
    host::Json others = host::Json::MakeArray();
    for (const auto& [what, stack] : f.others) {
      others.Push(host::Json::MakeObject().Set("what", what).Set("stack", Frames(stacks.Text(stack))));
    }
    one.Set("before", std::move(others));
    list.Push(std::move(one));
  }
  WriteFileAtomically(json_, host::Json::MakeObject().Set("findings", std::move(list)).Text(2) + "\n").IgnoreError();
}

}  // namespace backplane::layers
