#include "plugins/tpu_emulator/machine/capacity.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace backplane::tpu {
namespace {

std::string OperatorText(const Allocation& a) {
  std::string text;
  if (!a.operator_name.empty()) absl::StrAppend(&text, " op_name=\"", a.operator_name, "\"");
  if (!a.source_file.empty()) {
    absl::StrAppend(&text, " source_file=\"", a.source_file, "\" source_line=", a.source_line);
  }
  return text;
}

std::string Details(absl::string_view space, absl::Span<const Allocation> allocations) {
  if (allocations.empty()) return "";
  const std::string padding = DescribePadding(allocations);
  return absl::StrCat("\n\n", padding, padding.empty() ? "" : "\n\n", DescribeLargestAllocations(space, allocations));
}

}  // namespace

std::string FormatBytes(int64_t bytes) {
  const char* sign = bytes < 0 ? "-" : "";
  // Negate as unsigned: the most negative number has no positive counterpart.
  const uint64_t size = bytes < 0 ? ~static_cast<uint64_t>(bytes) + 1 : static_cast<uint64_t>(bytes);
  if (size < 1024) return absl::StrCat(sign, size, "B");
  double value = static_cast<double>(size) / 1024;
  const char* unit = "KMGTPE";
  while (value >= 1024 && unit[1] != 0) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%s%.*f%c", sign, *unit == 'K' ? 1 : 2, value, *unit);
}

std::string DescribeLargestAllocations(absl::string_view space, absl::Span<const Allocation> allocations, int most) {
  std::vector<const Allocation*> order;
  for (const Allocation& a : allocations) order.push_back(&a);
  std::stable_sort(order.begin(), order.end(),
                   [](const Allocation* a, const Allocation* b) { return a->padded_bytes > b->padded_bytes; });
  if (order.size() > static_cast<size_t>(std::max(most, 0))) order.resize(static_cast<size_t>(std::max(most, 0)));

  std::string text = absl::StrCat("Largest program allocations in ", space, ":\n");
  int number = 0;
  for (const Allocation* a : order) {
    absl::StrAppend(&text, "\n  ", ++number, ". Size: ", FormatBytes(a->padded_bytes), "\n");
    const auto line = [&text](absl::string_view label, absl::string_view value) {
      if (!value.empty()) absl::StrAppend(&text, "     ", label, ":", value.front() == ' ' ? "" : " ", value, "\n");
    };
    line("Operator", OperatorText(*a));
    line("Shape", a->shape);
    line("Unpadded size", FormatBytes(a->unpadded_bytes));
    if (const int64_t extra = a->padded_bytes - a->unpadded_bytes; extra > 0 && a->unpadded_bytes > 0) {
      line("Extra memory due to padding",
           absl::StrFormat("%s (%.1fx expansion)", FormatBytes(extra),
                           static_cast<double>(a->padded_bytes) / static_cast<double>(a->unpadded_bytes)));
    }
    if (!a->name.empty()) line("XLA label", absl::StrCat("%", absl::StripPrefix(a->name, "%")));
    line("Allocation type", a->kind);
    absl::StrAppend(&text, "     ==========================\n");
  }
  return text;
}

std::string DescribePadding(absl::Span<const Allocation> allocations) {
  // In floating point: the sums over the list of an invalid program may exceed 2^63.
  double padded = 0, unpadded = 0;
  for (const Allocation& a : allocations) {
    padded += static_cast<double>(a.padded_bytes);
    unpadded += static_cast<double>(a.unpadded_bytes);
  }
  if (padded <= unpadded) return "";
  return absl::StrFormat("Padding takes %s of %s (%.1f%%).", FormatBytes(static_cast<int64_t>(padded - unpadded)),
                         FormatBytes(static_cast<int64_t>(padded)), 100 * (padded - unpadded) / padded);
}

absl::Status CheckHbm(const Machine& machine, absl::string_view module_name, int64_t required_bytes,
                      absl::Span<const Allocation> allocations) {
  if (required_bytes <= machine.hbm_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries (",
      FormatBytes(required_bytes), ") exceeds available HBM (", FormatBytes(machine.hbm_bytes),
      "). HLO module: ", module_name, ".", Details("hbm", allocations)));
}

absl::Status CheckScopedVmem(const Machine& machine, absl::string_view instruction, int64_t scoped_bytes,
                             absl::Span<const Allocation> allocations) {
  const int64_t limit = machine.scoped_vmem_bytes;
  if (scoped_bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "E1001: CompileTimeScopedVmemOom: Ran out of memory in memory space vmem while allocating on stack for ",
      instruction, ". Scoped allocation with size ", FormatBytes(scoped_bytes), " and limit ", FormatBytes(limit),
      " exceeded scoped vmem limit by ", FormatBytes(scoped_bytes - limit), ".", Details("vmem", allocations)));
}

}  // namespace backplane::tpu
