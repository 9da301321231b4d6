// gpu.multiply and gpu.group.multiply: on the host against NVIDIA's description of the fragments ("Matrix fragments for
// mma" in the PTX ISA, element by element), and as the instructions of PTX.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/hip/lowering/host_testing.h"
#include "plugins/hip/lowering/lowering_testing.h"

namespace backplane::hip {
namespace {

using ::testing::HasSubstr;

// A fragment in PTX's terms: elements are numbered from the first register's low bits on.
struct Fragments {
  const char* type;  // behind "gpu.multiply."
  int k, bytes;      // of an element

  int in_word() const { return bytes == 8 ? 1 : 4 / bytes; }
  int LeftCount() const { return 4 * in_word(); }
  int RightCount() const { return 2 * in_word(); }
  // Of element i of a thread, which is thread t of group g.
  int LeftRow(int g, int i) const {
    if (in_word() == 1) return g + i % 2 * 8;                           // tf32, f64: a0, a2 and a1, a3
    if (in_word() == 2) return i < 2 || (i >= 4 && i < 6) ? g : g + 8;  // 16 bits
    return i < 4 || (i >= 8 && i < 12) ? g : g + 8;                     // 8 bits
  }
  int LeftColumn(int t, int i) const {
    if (in_word() == 1) return t + (i >= 2 ? 4 : 0);
    if (in_word() == 2) return 2 * t + i % 2 + (i >= 4 ? 8 : 0);
    return 4 * t + i % 4 + (i >= 8 ? 16 : 0);
  }
  int RightRow(int t, int i) const {
    if (in_word() == 1) return t + 4 * i;
    if (in_word() == 2) return 2 * t + i % 2 + (i >= 2 ? 8 : 0);
    return 4 * t + i % 4 + (i >= 4 ? 16 : 0);
  }
};
int SumRow(int g, int i) { return i < 2 ? g : g + 8; }
int SumColumn(int t, int i) { return 2 * t + i % 2; }

constexpr Fragments kAll[] = {{"f16", 16, 2}, {"bf16", 16, 2}, {"tf32", 8, 4}, {"s8", 32, 1}, {"f64", 8, 8}};

// Small numbers and halves of them, which every type of floats has.
double Number(const Fragments& f, int i) {
  const int n = i * 7919 % 23 - 11;
  return f.bytes == 1 ? n * 11 : n / 2.0;
}

void Append(const Fragments& f, double value, std::vector<uint8_t>& bytes) {
  auto append = [&](auto v, size_t from = 0) {
    uint8_t raw[sizeof v];
    std::memcpy(raw, &v, sizeof v);
    bytes.insert(bytes.end(), raw + from, raw + sizeof v);
  };
  if (f.bytes == 8) return append(value);
  if (f.bytes == 1) return append(static_cast<int8_t>(value));
  const float x = static_cast<float>(value);
  if (std::string(f.type) == "bf16") return append(x, 2);
  if (f.bytes == 2) return append(static_cast<_Float16>(x));
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  append(bits | 0x1abc);  // what is below tf32's mantissa is not read
}

std::string KernelText(const Fragments& f) {
  const bool is_f64 = f.bytes == 8;
  return absl::StrReplaceAll(R"(
declare <4 x SUM> @gpu.multiply.TYPE(<4 x WORD>, <2 x WORD>, <4 x SUM>) convergent
define void @product(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) "backplane-kernel"="64" {
  %t = call i32 @gpu.thread()
  %pa = getelementptr <4 x WORD>, ptr addrspace(1) %a, i32 %t
  %pb = getelementptr <2 x WORD>, ptr addrspace(1) %b, i32 %t
  %pc = getelementptr <4 x SUM>, ptr addrspace(1) %c, i32 %t
  %left = load <4 x WORD>, ptr addrspace(1) %pa, align 8
  %right = load <2 x WORD>, ptr addrspace(1) %pb, align 8
  %sums = load <4 x SUM>, ptr addrspace(1) %pc, align 8
  %once = call <4 x SUM> @gpu.multiply.TYPE(<4 x WORD> %left, <2 x WORD> %right, <4 x SUM> %sums)
  %twice = call <4 x SUM> @gpu.multiply.TYPE(<4 x WORD> %left, <2 x WORD> %right, <4 x SUM> %once)
  store <4 x SUM> %twice, ptr addrspace(1) %pc, align 8
  ret void
})",
                             {{"TYPE", f.type},
                              {"WORD", is_f64 ? "double" : "i32"},
                              {"SUM", is_f64         ? "double"
                                      : f.bytes == 1 ? "i32"
                                                     : "float"}});
}

template <typename Sum>
void Compare(const Fragments& f) {
  SCOPED_TRACE(f.type);
  auto target = FindGpuTarget("host");
  ASSERT_TRUE(target.ok()) << target.status();
  target->multiplies_matrices = true;
  auto image = LowerKernels(*target, KernelText(f));
  ASSERT_TRUE(image.ok()) << image.status();
  auto loaded = LoadedImage::Load(image->bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const HostKernel* kernel = loaded->Find("product");
  ASSERT_NE(kernel, nullptr);

  // Each group of 32 threads has matrices of its own.
  auto left = [&](int group, int row, int k) { return Number(f, group * 1000 + row * f.k + k); };
  auto right = [&](int group, int k, int column) { return Number(f, group * 2000 + 555 + k * 8 + column); };
  std::vector<uint8_t> a, b;
  std::vector<Sum> c, expected;
  for (int thread = 0; thread < 64; ++thread) {
    const int group = thread / 32, g = thread % 32 / 4, t = thread % 4;
    for (int i = 0; i < f.LeftCount(); ++i) Append(f, left(group, f.LeftRow(g, i), f.LeftColumn(t, i)), a);
    for (int i = 0; i < f.RightCount(); ++i) Append(f, right(group, f.RightRow(t, i), g), b);
    for (int i = 0; i < 4; ++i) {
      const int row = SumRow(g, i), column = SumColumn(t, i);
      double sum = row - column;
      c.push_back(static_cast<Sum>(sum));
      for (int k = 0; k < f.k; ++k) sum += 2 * left(group, row, k) * right(group, k, column);
      expected.push_back(static_cast<Sum>(sum));
    }
  }
  struct {
    void *a, *b, *c;
  } arguments{a.data(), b.data(), c.data()};
  ASSERT_EQ(RunBlocks(*kernel, arguments, 1), 0);
  EXPECT_EQ(c, expected);
}

TEST(Multiply, OnTheHostIsWhatPtxDescribes) {
  for (const Fragments& f : kAll) {
    if (f.bytes == 8) {
      Compare<double>(f);
    } else if (f.bytes == 1) {
      Compare<int32_t>(f);
    } else {
      Compare<float>(f);
    }
  }
}

TEST(Multiply, IsAnInstructionOfPtx) {
  auto assembly = [](const Fragments& f, const char* target) {
    auto image = LowerKernels(*FindGpuTarget(target), KernelText(f));
    EXPECT_TRUE(image.ok()) << image.status();
    return image.ok() ? image->bytes : "";
  };
  for (const char* target : {"sm_80", "sm_90"}) {
    EXPECT_THAT(assembly(kAll[0], target), HasSubstr("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {"));
    EXPECT_THAT(assembly(kAll[1], target), HasSubstr("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {"));
    EXPECT_THAT(assembly(kAll[2], target), HasSubstr("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {"));
    EXPECT_THAT(assembly(kAll[3], target), HasSubstr("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {"));
  }
  EXPECT_THAT(assembly(kAll[4], "sm_80"), HasSubstr("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {"));
  EXPECT_THAT(assembly(kAll[4], "sm_90"), HasSubstr("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {"));
}

// ---- gpu.group.multiply: one slice of 64 rows by one of 64 columns.

struct Slices {
  const char* type;
  int bytes;  // of an element
  int along;  // as of the function

  int k() const { return 128 / bytes; }
  // Where PTX's 128-byte swizzle has the first byte of element k of a row: bits 4 to 6 of the address without the
  // swizzle are combined with bits 7 to 9.
  int IndexOf(int operand, int row, int element) const {
    const bool along_rows = (along >> operand & 1) != 0;
    const int at = along_rows ? element * 128 + row * bytes : row * 128 + element * bytes;
    return at ^ (at >> 7 & 7) << 4;
  }
};
constexpr Slices kAllSlices[] = {{"f16", 2, 0},  {"f16", 2, 1},  {"f16", 2, 2},  {"f16", 2, 3},
                                 {"bf16", 2, 0}, {"bf16", 2, 2}, {"tf32", 4, 0}, {"s8", 1, 0}};

std::string GroupKernelText(const Slices& s, int threads = 128) {
  return absl::StrReplaceAll(R"(
@left = internal addrspace(3) global [8192 x i8] undef, align 1024
@right = internal addrspace(3) global [8192 x i8] undef, align 1024
declare void @gpu.group.publish() convergent
declare <32 x SUM> @gpu.group.multiply.TYPE.64(ptr addrspace(3), ptr addrspace(3), i32, <32 x SUM>) convergent
declare <32 x SUM> @gpu.group.wait.TYPE.64(<32 x SUM>, i32) convergent
define void @product(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) "backplane-kernel"="THREADS" {
  %t = call i32 @gpu.thread()
  %pa = getelementptr <16 x i32>, ptr addrspace(1) %a, i32 %t
  %pb = getelementptr <16 x i32>, ptr addrspace(1) %b, i32 %t
  %pc = getelementptr <32 x SUM>, ptr addrspace(1) %c, i32 %t
  %sa = getelementptr <16 x i32>, ptr addrspace(3) @left, i32 %t
  %sb = getelementptr <16 x i32>, ptr addrspace(3) @right, i32 %t
  %va = load <16 x i32>, ptr addrspace(1) %pa, align 4
  %vb = load <16 x i32>, ptr addrspace(1) %pb, align 4
  store <16 x i32> %va, ptr addrspace(3) %sa, align 16
  store <16 x i32> %vb, ptr addrspace(3) %sb, align 16
  call void @gpu.group.publish()
  call void @gpu.barrier()
  %sums = load <32 x SUM>, ptr addrspace(1) %pc, align 4
  %once = call <32 x SUM> @gpu.group.multiply.TYPE.64(ptr addrspace(3) @left, ptr addrspace(3) @right, i32 ALONG, <32 x SUM> %sums)
  %twice = call <32 x SUM> @gpu.group.multiply.TYPE.64(ptr addrspace(3) @left, ptr addrspace(3) @right, i32 ALONG, <32 x SUM> %once)
  %ended = call <32 x SUM> @gpu.group.wait.TYPE.64(<32 x SUM> %twice, i32 0)
  store <32 x SUM> %ended, ptr addrspace(1) %pc, align 4
  ret void
})",
                             {{"TYPE", s.type},
                              {"ALONG", std::to_string(s.along)},
                              {"THREADS", std::to_string(threads)},
                              {"SUM", s.bytes == 1 ? "i32" : "float"}});
}

template <typename Sum>
void CompareGroup(const Slices& s) {
  SCOPED_TRACE(std::string(s.type) + " " + std::to_string(s.along));
  auto target = FindGpuTarget("host");
  ASSERT_TRUE(target.ok()) << target.status();
  target->multiplies_in_groups = true;
  auto image = LowerKernels(*target, GroupKernelText(s));
  ASSERT_TRUE(image.ok()) << image.status();
  auto loaded = LoadedImage::Load(image->bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const HostKernel* kernel = loaded->Find("product");
  ASSERT_NE(kernel, nullptr);
  const Fragments numbers{s.type, s.k(), s.bytes};
  auto element = [&](int operand, int row, int k) { return Number(numbers, operand * 555 + row * s.k() + k); };
  std::vector<uint8_t> slices[2];
  for (int operand = 0; operand < 2; ++operand) {
    slices[operand].resize(8192);
    for (int row = 0; row < 64; ++row) {
      for (int k = 0; k < s.k(); ++k) {
        std::vector<uint8_t> bytes;
        Append(numbers, element(operand, row, k), bytes);
        std::copy(bytes.begin(), bytes.end(), slices[operand].begin() + s.IndexOf(operand, row, k));
      }
    }
  }
  std::vector<Sum> c, expected;
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 32; ++i) {
      // "Matrix fragments for wgmma.mma_async.m64nNk16", accumulator D.
      const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
      double sum = row - column;
      c.push_back(static_cast<Sum>(sum));
      for (int k = 0; k < s.k(); ++k) sum += 2 * element(0, row, k) * element(1, column, k);
      expected.push_back(static_cast<Sum>(sum));
    }
  }
  struct {
    void *a, *b, *c;
  } arguments{slices[0].data(), slices[1].data(), c.data()};
  ASSERT_EQ(RunBlocks(*kernel, arguments, 1), 0);
  EXPECT_EQ(c, expected);
}

TEST(GroupMultiply, OnTheHostIsWhatPtxDescribes) {
  for (const Slices& s : kAllSlices) s.bytes == 1 ? CompareGroup<int32_t>(s) : CompareGroup<float>(s);
}

TEST(GroupMultiply, IsInstructionsOfPtx) {
  for (const Slices& s : kAllSlices) {
    auto image = LowerKernels(*FindGpuTarget("sm_90a"), GroupKernelText(s));
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_THAT(image->bytes, HasSubstr(".target sm_90a"));
    for (const char* line :
         {"fence.proxy.async.shared::cta;", "wgmma.fence.sync.aligned;", "wgmma.mma_async.sync.aligned.m64n64k",
          "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"})
      EXPECT_THAT(image->bytes, HasSubstr(line));
  }
}

TEST(GroupMultiply, IsRefusedWhereThereIsNone) {
  for (const char* target : {"sm_90", "gfx942", "host"}) {
    const absl::Status status = LowerKernels(*FindGpuTarget(target), GroupKernelText(kAllSlices[0])).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("has no such function")) << target;
  }
  const absl::Status status = LowerKernels(*FindGpuTarget("sm_90a"), GroupKernelText(kAllSlices[0], 96)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("no multiple of 128"));
}

TEST(Multiply, IsRefusedWhereThereIsNone) {
  for (const char* target : {"gfx942", "gfx1100", "host"}) {
    const absl::Status status = LowerKernels(*FindGpuTarget(target), KernelText(kAll[0])).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("has no such function")) << target;
  }
}

TEST(Multiply, IsExecutedByGroupsOfThreads) {
  const std::string text = absl::StrReplaceAll(KernelText(kAll[0]), {{"\"64\"", "\"48\""}});
  EXPECT_EQ(LowerKernels(*FindGpuTarget("sm_90"), text).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace backplane::hip
