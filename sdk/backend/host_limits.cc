#include "sdk/backend/host_limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace backplane {
namespace {

// Version 1 writes the largest multiple of the page size for "no limit".
constexpr int64_t kNoMemoryLimit = int64_t{1} << 62;

// A mount of a hierarchy of control groups: the mount point, and the group that is the root of the mount.
struct Mount {
  std::string at, root;
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// `controller` is a controller of version 1, or empty for version 2.
std::vector<Mount> FindMounts(const std::string& root, const std::string& controller) {
  std::vector<Mount> found;
  const std::string lines = ReadFile(absl::StrCat(root, "/proc/self/mountinfo"));
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    // id parent major:minor root mount-point options [optional...] - type source super-options
    const std::pair<absl::string_view, absl::string_view> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const std::vector<absl::string_view> mount = absl::StrSplit(halves.first, ' ');
    const std::vector<absl::string_view> type = absl::StrSplit(halves.second, ' ');
    if (mount.size() < 5 || type.size() < 3) continue;
    const std::vector<absl::string_view> options = absl::StrSplit(type[2], ',');
    const bool wanted =
        controller.empty() ? type[0] == "cgroup2" : type[0] == "cgroup" && absl::c_linear_search(options, controller);
    if (wanted) found.push_back({std::string(mount[4]), std::string(mount[3])});
  }
  return found;
}

// Returns the group of this process in the hierarchy: the path after the second colon.
std::optional<std::string> FindGroup(const std::string& root, const std::string& controller) {
  const std::string lines = ReadFile(absl::StrCat(root, "/proc/self/cgroup"));
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    const bool wanted =
        controller.empty() ? parts[0] == "0" && parts[1].empty() : absl::c_linear_search(controllers, controller);
    if (wanted) return std::string(parts[2]);
  }
  return std::nullopt;
}

// Calls `visit` with the folder of this process's group and with those of all its ancestors that are visible here.
void ForEachGroup(const std::string& root, const std::string& controller,
                  const std::function<void(const std::string&)>& visit) {
  const std::optional<std::string> group = FindGroup(root, controller);
  if (!group.has_value()) return;
  for (const Mount& mount : FindMounts(root, controller)) {
    // The mount may show only a part of the hierarchy, as in a container. A group outside of it is seen as the root of
    // the mount.
    std::string below = *group;
    if (mount.root != "/") {
      if (below == mount.root || absl::StartsWith(below, absl::StrCat(mount.root, "/"))) {
        below = below.substr(mount.root.size());
      } else {
        below = "";
      }
    }
    if (absl::StrContains(absl::StrCat(below, "/"), "/../")) below = "";
    for (;;) {
      while (!below.empty() && below.back() == '/') below.pop_back();
      visit(absl::StrCat(root, mount.at, below));
      if (below.empty()) break;
      below.resize(below.rfind('/'));
    }
  }
}

// Reads a decimal number from the beginning of a file. Returns nullopt for the word "max" and for a missing file.
std::optional<int64_t> ReadNumber(const std::string& path) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadFile(path)), &value)) return std::nullopt;
  return value;
}

}  // namespace

double ReadCpuQuota(const std::string& root) {
  double smallest = 0;
  auto apply = [&](int64_t quota, int64_t period) {
    if (quota <= 0 || period <= 0) return;
    const double cpus = static_cast<double>(quota) / static_cast<double>(period);
    smallest = smallest == 0 ? cpus : std::min(smallest, cpus);
  };
  ForEachGroup(root, "", [&](const std::string& folder) {
    const std::string text = ReadFile(folder + "/cpu.max");  // "max 100000" or "150000 100000"
    const std::vector<absl::string_view> words = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
    int64_t quota = 0, period = 100000;
    if (words.empty() || !absl::SimpleAtoi(words[0], &quota)) return;
    if (words.size() > 1 && !absl::SimpleAtoi(words[1], &period)) return;
    apply(quota, period);
  });
  ForEachGroup(root, "cpu", [&](const std::string& folder) {
    apply(ReadNumber(folder + "/cpu.cfs_quota_us").value_or(-1), ReadNumber(folder + "/cpu.cfs_period_us").value_or(0));
  });
  return smallest;
}

int64_t GroupMemoryBytes(const std::string& root) {
  int64_t smallest = 0;
  auto apply = [&](const std::string& file) {
    const std::optional<int64_t> bytes = ReadNumber(file);
    if (!bytes.has_value() || *bytes <= 0 || *bytes >= kNoMemoryLimit) return;
    smallest = smallest == 0 ? *bytes : std::min(smallest, *bytes);
  };
  ForEachGroup(root, "", [&](const std::string& folder) { apply(folder + "/memory.max"); });
  ForEachGroup(root, "memory", [&](const std::string& folder) { apply(folder + "/memory.limit_in_bytes"); });
  return smallest;
}

int CountAffinityCpus() {
  // If the machine has more CPUs than fit in a cpu_set_t, the call returns EINVAL; try a larger set then.
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 20); cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpus));
    if (set == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    CPU_ZERO_S(size, set);
    const bool ok = sched_getaffinity(0, size, set) == 0;
    const bool too_small = !ok && errno == EINVAL;
    const int count = ok ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (ok) return std::max(1, count);
    if (!too_small) break;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int CountAvailableCpus(const std::string& root) {
  const int cpus = CountAffinityCpus();
  const double quota = ReadCpuQuota(root);
  if (quota <= 0 || quota >= cpus) return cpus;
  return std::max(1, static_cast<int>(std::ceil(quota)));
}

bool IsCpuTimeRationed(const std::string& root) {
  const double quota = ReadCpuQuota(root);
  return quota > 0 && quota < CountAffinityCpus();
}

int64_t ReadHostMemoryBytes(const std::string& root) {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  const int64_t bytes = pages > 0 && page > 0 ? pages * page : 0;
  const int64_t allowed = GroupMemoryBytes(root);
  return allowed == 0 ? bytes : bytes == 0 ? allowed : std::min(bytes, allowed);
}

}  // namespace backplane
