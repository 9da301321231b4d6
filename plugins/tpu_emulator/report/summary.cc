#include "plugins/tpu_emulator/report/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plugins/tpu_emulator/machine/capacity.h"

namespace backplane::tpu {
namespace {

// Formats with three digits and a decimal prefix.
std::string FormatScaled(double value, absl::string_view unit) {
  static constexpr std::array<const char*, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) value /= 1000, ++prefix;
  return absl::StrFormat("%.3g %s%s", value, kPrefixes[prefix], std::string(unit));
}

std::string FormatPercent(double part, double whole) {
  return whole > 0 ? absl::StrFormat("%.1f %%", 100 * part / whole) : "0 %";
}

std::string FormatSource(const Origin& origin) {
  if (origin.source_file.empty()) return origin.op_name;
  return absl::StrCat(origin.source_file, ":", origin.source_line);
}

}  // namespace

std::string FormatSeconds(double seconds) {
  static constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  for (const auto& [size, name] : kUnits) {
    if (seconds >= size * 0.9995 || size == 1e-9) return absl::StrFormat("%.3g %s", seconds / size, name);
  }
  return "";
}

const ScheduledBuffer* FindWorstPadding(const Schedule& schedule) {
  const ScheduledBuffer* worst = nullptr;
  int64_t most = 0;
  for (const ScheduledBuffer& b : schedule.buffers) {
    if (b.space != Space::kHbm || b.padded_bytes - b.unpadded_bytes <= most) continue;
    most = b.padded_bytes - b.unpadded_bytes;
    worst = &b;
  }
  return worst;
}

std::string FormatSummary(const Schedule& schedule, const Machine& machine, const ReportFacts& facts) {
  std::string out = absl::StrCat(schedule.module_name, " on ", schedule.machine_name);
  if (facts.devices > 1) absl::StrAppend(&out, ", one of ", facts.devices, " devices");
  absl::StrAppend(&out, "\n");
  if (const std::optional<ScheduledRefusal>& refusal = schedule.refusal) {
    absl::StrAppend(&out, "  refused ", FormatBytes(refusal->required_bytes), " of ",
                    refusal->space == Space::kHbm ? "HBM" : "scoped VMEM", " needed, ",
                    FormatBytes(refusal->limit_bytes), " available; the rest shows how it would run if it fitted\n");
  }
  const double seconds = schedule.seconds;
  bool known = true;
  for (const ScheduledLoop& loop : schedule.loops) known = known && loop.known;
  absl::StrAppend(&out, "  time    ", known ? "" : "at least ", FormatSeconds(seconds), " in ", schedule.kernels.size(),
                  " kernels");
  const UnitSeconds by_bound = SumSecondsByBound(schedule);
  if (by_bound.Sum() > 0) {
    const Unit most = by_bound.Largest();
    const absl::string_view name = UnitName(most);
    absl::StrAppend(&out, ", ", FormatPercent(by_bound.Get(most), by_bound.Sum()), " of it bound by ",
                    most == Unit::kFixed ? std::string("the fixed cost of kernels")
                                         : absl::AsciiStrToUpper(std::string(name.data(), name.size())));
  }
  absl::StrAppend(&out, "\n");
  if (seconds > 0) {
    absl::StrAppend(&out, "  rates   ", FormatScaled(schedule.flops / seconds, "FLOP/s"), " (",
                    FormatPercent(schedule.flops / seconds, machine.PeakBf16Flops()), " of the bf16 peak), HBM ",
                    FormatScaled(schedule.hbm_bytes / seconds, "B/s"), " (",
                    FormatPercent(schedule.hbm_bytes / seconds, machine.hbm_gb_per_s * 1e9), ")\n");
  }
  absl::StrAppend(&out, "  HBM     ", FormatBytes(schedule.hbm_peak), " peak of ", FormatBytes(schedule.hbm_capacity),
                  "\n");
  if (const ScheduledBuffer* worst = FindWorstPadding(schedule)) {
    int64_t padded = 0, unpadded = 0;
    for (const ScheduledBuffer& b : schedule.buffers) {
      if (b.space != Space::kHbm) continue;
      padded += b.padded_bytes;
      unpadded += b.unpadded_bytes;
    }
    absl::StrAppend(&out, "  padding ",
                    FormatPercent(static_cast<double>(padded - unpadded), static_cast<double>(padded)),
                    " of all arrays' bytes; worst: ", worst->name, " ", worst->shape, " takes ",
                    FormatBytes(worst->padded_bytes), " for ", FormatBytes(worst->unpadded_bytes));
    const std::string source = FormatSource(worst->origin);
    absl::StrAppend(&out, source.empty() ? "" : ", ", source, "\n");
    if (!worst->remedy.empty()) absl::StrAppend(&out, "          ", worst->remedy, "\n");
  }
  std::vector<size_t> order(schedule.kernels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto total = [&](size_t i) {
    return schedule.kernels[i].time.seconds * static_cast<double>(schedule.kernels[i].executions);
  };
  const size_t shown = std::min<size_t>(5, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](size_t a, size_t b) { return total(a) != total(b) ? total(a) > total(b) : a < b; });
  if (shown > 0) absl::StrAppend(&out, "  most time in\n");
  for (size_t i = 0; i < shown; ++i) {
    const ScheduledKernel& k = schedule.kernels[order[i]];
    const absl::string_view bound = UnitName(k.time.bound);
    absl::StrAppendFormat(&out, "    %6s  %8s  %s (%s, %s)", FormatPercent(total(order[i]), seconds),
                          FormatSeconds(total(order[i])), k.name, k.category, std::string(bound.data(), bound.size()));
    if (k.executions != 1) absl::StrAppend(&out, " x ", k.executions);
    const std::string source = FormatSource(k.origin);
    absl::StrAppend(&out, source.empty() ? "" : "  ", source, "\n");
  }
  return out;
}

}  // namespace backplane::tpu
