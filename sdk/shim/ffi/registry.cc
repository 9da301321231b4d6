#include "sdk/shim/ffi/registry.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "core/types/status_macros.h"

namespace backplane::shim::ffi {
namespace {

// Ids that we assign have these high bits, so that they differ from small counters and from addresses.
constexpr int64_t kTypeIdTag = int64_t{0x42504C} << 40;

std::string Canonical(absl::string_view platform) {
  std::string lower = absl::AsciiStrToLower(platform);
  return lower == "host" ? "cpu" : lower;
}

bool IsLastStageOf(const Handler& part, const Handler& whole) {
  Handler last;
  last.bundle.execute = whole.bundle.execute;
  return part == last && last.bundle.execute != nullptr;
}

int EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

void Registry::SetPlatform(absl::string_view platform) {
  MutexLock lock(mu_);
  platform_ = Canonical(platform);
}

absl::Status Registry::Register(absl::string_view target, absl::string_view platform, const Handler& handler) {
  if (target.empty()) return absl::InvalidArgumentError("custom call: a handler needs a target name");
  if (handler.bundle.execute == nullptr && handler.untyped == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("custom call '", target, "': no function to execute"));
  }
  MutexLock lock(mu_);
  auto [it, inserted] = handlers_.try_emplace({Canonical(platform), std::string(target)}, handler);
  // The published call can register only the last stage, so a caller that knows more stages completes the handler
  // later.
  if (!inserted && IsLastStageOf(it->second, handler)) it->second = handler;
  if (!inserted && !(it->second == handler) && !IsLastStageOf(handler, it->second)) {
    return absl::AlreadyExistsError(
        absl::StrCat("custom call '", target, "': another handler is registered for platform ", Canonical(platform)));
  }
  return absl::OkStatus();
}

absl::Status Registry::RegisterForThisPlatform(absl::string_view target, const Handler& handler) {
  std::string platform;
  {
    MutexLock lock(mu_);
    platform = platform_;
  }
  return Register(target, platform, handler);
}

absl::Status Registry::RegisterType(absl::string_view name, int64_t* id, Deleter deleter) {
  if (name.empty()) return absl::InvalidArgumentError("ffi type: no name");
  MutexLock lock(mu_);
  auto named = type_ids_.find(std::string(name));
  if (*id == 0) {
    if (named != type_ids_.end()) {
      *id = named->second;
      return absl::OkStatus();
    }
    *id = kTypeIdTag + next_type_++;
  } else if (named != type_ids_.end()) {
    if (named->second == *id) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("ffi type '", name, "': has id ", named->second, ", asked for ", *id));
  } else if (deleters_.count(*id) != 0) {
    return absl::AlreadyExistsError(absl::StrCat("ffi type '", name, "': id ", *id, " belongs to another type"));
  }
  type_ids_.emplace(std::string(name), *id);
  deleters_.emplace(*id, deleter);
  return absl::OkStatus();
}

absl::StatusOr<Deleter> Registry::FindType(int64_t id) const {
  MutexLock lock(mu_);
  auto it = deleters_.find(id);
  if (it == deleters_.end()) return absl::NotFoundError(absl::StrCat("ffi type: id ", id, " is not registered"));
  return it->second;
}

void Registry::SetTrampoline(Backplane_Callback_Trampoline trampoline, int64_t type_id) {
  callback_type_id_.store(type_id, std::memory_order_release);
  trampoline_.store(trampoline, std::memory_order_release);
}

bool Registry::Has(const std::string& target) const {
  if (IsPythonTarget(target)) return true;
  MutexLock lock(mu_);
  return handlers_.count({platform_, target}) != 0;
}

absl::StatusOr<std::unique_ptr<CustomCallSite>> Registry::Instantiate(const CustomCallSpec& spec) {
  if (IsPythonTarget(spec.target)) return MakePythonSite(*this, spec);
  Handler handler;
  {
    MutexLock lock(mu_);
    auto it = handlers_.find({platform_, spec.target});
    if (it == handlers_.end()) {
      std::vector<std::pair<int, std::string>> near;
      for (const auto& [key, unused] : handlers_) {
        if (key.first == platform_) near.emplace_back(EditDistance(spec.target, key.second), key.second);
      }
      std::sort(near.begin(), near.end());
      if (near.size() > 3) near.resize(3);
      return absl::NotFoundError(absl::StrCat(
          "custom call '", spec.target, "': no handler for platform ", platform_,
          near.empty()
              ? "; none is registered"
              : "; nearest: " + absl::StrJoin(near, ", ", [](std::string* out, const auto& n) { *out += n.second; })));
    }
    handler = it->second;
  }
  switch (spec.api_version) {
    case CustomCallApiVersion::kTypedFfi:
      if (handler.bundle.execute == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("custom call '", spec.target, "': the program makes a typed call, the handler is untyped"));
      }
      return MakeTypedSite(*this, handler, spec);
    case CustomCallApiVersion::kUnspecified:
    case CustomCallApiVersion::kOriginal:
      if (handler.untyped == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("custom call '", spec.target, "': the program makes an untyped call, the handler is typed"));
      }
      return MakeUntypedSite(handler.untyped, spec.target);
    case CustomCallApiVersion::kStatusReturning:
      // Such a function returns its status in an object of the host's runtime. The host's package, which knows that
      // object, wraps such functions as typed handlers, which get the buffers and no attributes.
      if (handler.bundle.execute != nullptr) return MakeTypedSite(*this, handler, spec);
      break;
    case CustomCallApiVersion::kStatusReturningUnified:
      break;
  }
  return absl::UnimplementedError(
      absl::StrCat("custom call '", spec.target, "': api_version ", static_cast<int>(spec.api_version),
                   " returns its status in an object of another runtime; use the typed interface (4)"));
}

}  // namespace backplane::shim::ffi
