#include "plugins/tpu_emulator/machine/capacity.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kGiB = int64_t{1} << 30;

Allocation Padded() {
  return {"fusion.3", "jit(f)/add", "f32[8388608,8,4]{2,1,0:T(8,128)}", "HLO temp", "f.py", 7, 32 * kGiB, kGiB};
}

TEST(Capacity, FormatsBytesAsTheCompilerDoes) {
  EXPECT_EQ(FormatBytes(0), "0B");
  EXPECT_EQ(FormatBytes(1023), "1023B");
  EXPECT_EQ(FormatBytes(4096), "4.0K");
  EXPECT_EQ(FormatBytes(30 * kMiB), "30.00M");
  EXPECT_EQ(FormatBytes(16 * kGiB), "16.00G");
  EXPECT_EQ(FormatBytes(FindMachine("v5e")->hbm_bytes), "15.75G");
  EXPECT_EQ(FormatBytes(FindMachine("v5p")->hbm_bytes), "95.73G");
  EXPECT_EQ(FormatBytes(FindMachine("tpu7x")->scoped_vmem_bytes), "63.94M");
  EXPECT_EQ(FormatBytes(-kMiB), "-1.00M");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::min()), "-8.00E");
}

TEST(Capacity, RefusesMoreThanTheHbmHolds) {
  const Machine& v5e = *FindMachine("v5e");
  EXPECT_TRUE(CheckHbm(v5e, "jit_f", v5e.hbm_bytes, {Padded()}).ok());
  const absl::Status refused = CheckHbm(v5e, "jit_f", 16 * kGiB, {});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      refused.message(),
      "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries (16.00G) "
      "exceeds available HBM (15.75G). HLO module: jit_f.");
  // The same program fits a machine with more memory.
  EXPECT_TRUE(CheckHbm(*FindMachine("v5p"), "jit_f", 16 * kGiB, {Padded()}).ok());
}

TEST(Capacity, RefusesMoreThanTheScopedVmemHolds) {
  const Machine& v5e = *FindMachine("v5e");
  EXPECT_TRUE(CheckScopedVmem(v5e, "%f.1", 16 * kMiB, {}).ok());
  EXPECT_TRUE(CheckScopedVmem(*FindMachine("v6e"), "%f.1", 30 * kMiB, {}).ok());
  const absl::Status refused = CheckScopedVmem(v5e, "%f.1 = f32[8]{0} fusion()", 30 * kMiB, {});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      refused.message(),
      "E1001: CompileTimeScopedVmemOom: Ran out of memory in memory space vmem while allocating on stack for %f.1 = "
      "f32[8]{0} fusion(). Scoped allocation with size 30.00M and limit 16.00M exceeded scoped vmem limit by 14.00M.");
}

TEST(Capacity, TableShowsNameLineAndPadding) {
  EXPECT_EQ(DescribeLargestAllocations("hbm", {Padded()}),
            "Largest program allocations in hbm:\n"
            "\n"
            "  1. Size: 32.00G\n"
            "     Operator: op_name=\"jit(f)/add\" source_file=\"f.py\" source_line=7\n"
            "     Shape: f32[8388608,8,4]{2,1,0:T(8,128)}\n"
            "     Unpadded size: 1.00G\n"
            "     Extra memory due to padding: 31.00G (32.0x expansion)\n"
            "     XLA label: %fusion.3\n"
            "     Allocation type: HLO temp\n"
            "     ==========================\n");
  const absl::Status refused = CheckHbm(*FindMachine("v5e"), "jit_f", 32 * kGiB, {Padded()});
  EXPECT_TRUE(absl::StrContains(refused.message(), "\n\nPadding takes 31.00G of 32.00G (96.9%).\n\nLargest program"));
  EXPECT_TRUE(absl::StrContains(refused.message(), "source_file=\"f.py\" source_line=7"));
}

TEST(Capacity, TableIsSortedAndLimited) {
  std::vector<Allocation> list;
  for (int i = 0; i < 30; ++i) {
    Allocation a;
    a.name = absl::StrCat("%a.", i);
    a.padded_bytes = a.unpadded_bytes = 1024 * (1 + i % 10);
    list.push_back(a);
  }
  const std::string table = DescribeLargestAllocations("vmem", list, 4);
  const size_t first = table.find("%a.9\n"), second = table.find("%a.19\n"), third = table.find("%a.29\n"),
               fourth = table.find("%a.8\n");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_LT(third, fourth);
  EXPECT_NE(fourth, std::string::npos);
  EXPECT_EQ(table.find("5. Size"), std::string::npos);
  // Without padding and operator those lines are omitted.
  EXPECT_FALSE(absl::StrContains(table, "padding"));
  EXPECT_FALSE(absl::StrContains(table, "Operator"));
  EXPECT_EQ(DescribePadding(list), "");
}

}  // namespace
}  // namespace backplane::tpu
