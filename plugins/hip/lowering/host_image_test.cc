// Kernels run as host images, against the same computed in C++.
#include "plugins/hip/lowering/host_image.h"

#include <bit>
#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/hip/lowering/host_testing.h"
#include "plugins/hip/lowering/lowering_testing.h"

namespace backplane::hip {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class HostImage : public ::testing::Test {
 protected:
  // The kernel `name` of a module with `text`.
  const HostKernel* Kernel(absl::string_view text, absl::string_view name) {
    auto target = FindGpuTarget("host");
    EXPECT_TRUE(target.ok()) << target.status();
    auto image = LowerKernels(*target, text);
    EXPECT_TRUE(image.ok()) << image.status();
    if (!image.ok()) return nullptr;
    auto loaded = LoadedImage::Load(image->bytes);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return nullptr;
    images_.push_back(std::move(*loaded));
    const HostKernel* kernel = images_.back().Find(name);
    EXPECT_NE(kernel, nullptr);
    return kernel;
  }

 private:
  std::vector<LoadedImage> images_;
};

TEST_F(HostImage, RunsElementwise) {
  const HostKernel* kernel = Kernel(kElementwise, "elementwise");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->threads, 256u);
  EXPECT_EQ(kernel->kernarg_bytes, 28u);
  EXPECT_EQ(kernel->shared_bytes, 0u);
  EXPECT_EQ(kernel->frame_bytes, 0u);
  constexpr uint32_t kN = 1000;  // the fourth block has threads without an element
  std::vector<float> a(1024), b(1024), y(1024, -1), expected(1024, -1);
  for (uint32_t i = 0; i < 1024; ++i) a[i] = 0.5f * static_cast<float>(i), b[i] = 3 - static_cast<float>(i % 7);
  for (uint32_t i = 0; i < kN; ++i) expected[i] = a[i] * b[i] + 1;
  struct {
    float *a, *b, *y;
    uint32_t n;
  } arguments{a.data(), b.data(), y.data(), kN};
  EXPECT_EQ(RunBlocks(*kernel, arguments, 4), 0);
  EXPECT_EQ(y, expected);
}

TEST_F(HostImage, NumbersBlocksAndThreads) {
  const HostKernel* kernel = Kernel(kNumbers, "numbers");
  ASSERT_NE(kernel, nullptr);
  std::vector<uint32_t> y(5 * 64);
  struct {
    uint32_t* y;
  } arguments{y.data()};
  EXPECT_EQ(RunBlocks(*kernel, arguments, 5), 0);
  for (uint32_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 5000000 + i / 64 * 1000 + i % 64);
}

TEST_F(HostImage, WaitsAtBarriersInLoops) {
  const HostKernel* kernel = Kernel(kMatmul, "matmul");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->shared_bytes, 2048u);
  EXPECT_GT(kernel->frame_bytes, 256u * 16);
  EXPECT_LT(kernel->frame_bytes, 256u * 512);
  std::vector<float> a(64 * 64), b(64 * 64), c(64 * 64, -1), expected(64 * 64);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6, b[i] = static_cast<float>(i % 17) - 8;
  for (size_t i = 0; i < 64; ++i) {
    for (size_t j = 0; j < 64; ++j) {
      for (size_t k = 0; k < 64; ++k) expected[i * 64 + j] += a[i * 64 + k] * b[k * 64 + j];
    }
  }
  struct {
    float *a, *b, *c;
  } arguments{a.data(), b.data(), c.data()};
  EXPECT_EQ(RunBlocks(*kernel, arguments, 16), 0);
  EXPECT_EQ(c, expected);
}

TEST_F(HostImage, SumsBlocksByShuffles) {
  const HostKernel* kernel = Kernel(kBlockSum, "block_sum");
  ASSERT_NE(kernel, nullptr);
  std::vector<uint32_t> x(3 * 256), y(3), expected(3);
  for (uint32_t i = 0; i < x.size(); ++i) x[i] = i * 2654435761u, expected[i / 256] += x[i];
  struct {
    uint32_t *x, *y;
  } arguments{x.data(), y.data()};
  EXPECT_EQ(RunBlocks(*kernel, arguments, 3), 0);
  EXPECT_EQ(y, expected);
}

TEST_F(HostImage, ShufflesLanes) {
  const HostKernel* kernel = Kernel(kLanes, "lanes");
  ASSERT_NE(kernel, nullptr);
  std::vector<uint32_t> x(64), y(64);
  for (uint32_t i = 0; i < 64; ++i) x[i] = i * i + 1;
  for (uint32_t mask : {1, 2, 4, 8, 16}) {
    struct {
      uint32_t *x, *y, mask;
    } arguments{x.data(), y.data(), mask};
    EXPECT_EQ(RunBlocks(*kernel, arguments, 1), 0);
    for (uint32_t i = 0; i < 64; ++i) {
      ASSERT_EQ(y[i], x[(i & 32) | ((7 * i + 3) & 31)] + x[i ^ mask]) << i << ", mask " << mask;
    }
  }
}

TEST_F(HostImage, UpdatesAtomically) {
  const HostKernel* kernel = Kernel(kAtomics, "atomics");
  ASSERT_NE(kernel, nullptr);
  std::vector<uint32_t> x(4 * 64), counts(8), expected(8);
  uint32_t largest = 0, tickets = 0;
  float sum = 0, expected_sum = 0;
  for (uint32_t i = 0; i < x.size(); ++i) {
    x[i] = i * 37 % 101;
    ++expected[x[i] % 8];
    expected_sum += static_cast<float>(x[i]);  // whole numbers below 2^24: exact in any order
  }
  struct {
    uint32_t *x, *counts;
    float* sum;
    uint32_t *largest, *tickets;
  } arguments{x.data(), counts.data(), &sum, &largest, &tickets};
  EXPECT_EQ(RunBlocks(*kernel, arguments, 4), 0);
  EXPECT_EQ(counts, expected);
  EXPECT_EQ(sum, expected_sum);
  EXPECT_EQ(largest, 100u);
  EXPECT_EQ(tickets, 256u);
}

TEST_F(HostImage, OrdersBlocks) {
  const HostKernel* kernel = Kernel(kLastBlock, "last_block");
  ASSERT_NE(kernel, nullptr);
  std::vector<uint32_t> y(10);
  uint32_t tickets = 0, sum = 0;
  struct {
    uint32_t *y, *tickets, *sum;
  } arguments{y.data(), &tickets, &sum};
  EXPECT_EQ(RunBlocks(*kernel, arguments, 10), 0);
  EXPECT_EQ(sum, 7u * 45);
}

TEST_F(HostImage, DividesIntegers) {
  const HostKernel* kernel = Kernel(kDivision, "division");
  ASSERT_NE(kernel, nullptr);
  std::vector<int32_t> x(64), q(64), r(64);
  std::vector<int64_t> w(64);
  for (int i = 0; i < 64; ++i) x[static_cast<size_t>(i)] = (i - 32) * 67108837;
  for (int32_t d : {1, -1, 3, -7, 1000003, INT32_MAX}) {
    struct {
      int32_t *x, d, *q, *r;
      int64_t* w;
    } arguments{x.data(), d, q.data(), r.data(), w.data()};
    EXPECT_EQ(RunBlocks(*kernel, arguments, 1), 0);
    for (int64_t i = 0; i < 64; ++i) {
      const size_t at = static_cast<size_t>(i);
      ASSERT_EQ(q[at], x[at] / d);
      ASSERT_EQ(r[at], x[at] % d);
      ASSERT_EQ(w[at], (int64_t{x[at]} * (1 << 20) + i) / (int64_t{d} * 128 + 1));
    }
  }
}

TEST_F(HostImage, ComputesWithWideAndNarrowFloats) {
  const HostKernel* kernel = Kernel(kFloats, "floats");
  ASSERT_NE(kernel, nullptr);
  std::vector<double> x(64), y(64);
  std::vector<uint16_t> h(64), b(64);
  for (uint16_t i = 0; i < 64; ++i) {
    x[i] = 0.25 * i;
    h[i] = static_cast<uint16_t>(i << 10 | (i * 17 & 1023));  // exponents 0 to 31 and negative ones
    if ((h[i] & 0x7c00) >= 0x7800) h[i] &= 0x83ff;            // whose doubles are finite
    b[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(i) - 20.0f) >> 16);
  }
  const std::vector<uint16_t> h_before = h, b_before = b;
  struct {
    double *x, *y;
    uint16_t *h, *b;
  } arguments{x.data(), y.data(), h.data(), b.data()};
  EXPECT_EQ(RunBlocks(*kernel, arguments, 1), 0);
  for (size_t i = 0; i < 64; ++i) {
    ASSERT_EQ(y[i], std::sqrt(x[i]) / (x[i] + 3)) << i;
    const uint16_t exponent = h_before[i] & 0x7c00, mantissa = h_before[i] & 0x3ff, sign = h_before[i] & 0x8000;
    const uint16_t twice =
        exponent == 0 ? static_cast<uint16_t>(sign | (mantissa << 1)) : static_cast<uint16_t>(h_before[i] + 0x400);
    ASSERT_EQ(h[i], twice) << i;
    const float f = std::bit_cast<float>(static_cast<uint32_t>(b_before[i]) << 16) + 1.0f;
    ASSERT_EQ(b[i], std::bit_cast<uint32_t>(f) >> 16) << i;
  }
}

TEST_F(HostImage, KeepsPrivateArraysOverBarriers) {
  const HostKernel* kernel = Kernel(kPrivate, "private_array");
  ASSERT_NE(kernel, nullptr);
  std::vector<uint32_t> x(64), y(64);
  for (uint32_t i = 0; i < 64; ++i) x[i] = i * 5 + 2;
  struct {
    uint32_t *x, *y;
  } arguments{x.data(), y.data()};
  EXPECT_EQ(RunBlocks(*kernel, arguments, 1), 0);
  for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(y[i], x[7 - x[i] % 8] + i);
}

TEST_F(HostImage, HasAllKernelsOfAModule) {
  const HostKernel* kernel = Kernel(AllKernels(), "elementwise");
  ASSERT_NE(kernel, nullptr);
  size_t count = 0;
  while (kernel[count].name != nullptr) ++count;
  EXPECT_EQ(count, kAllKernels);
}

// A loop over threads with a private array that stays in memory: threads must not see each other's.
TEST_F(HostImage, KeepsPrivateArraysApartInLoops) {
  std::string text = kPrivate;
  text = absl::StrReplaceAll(text, {{"call void @gpu.barrier()", ""}});
  const HostKernel* kernel = Kernel(text, "private_array");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->frame_bytes, 0u);
  std::vector<uint32_t> x(64), y(64);
  for (uint32_t i = 0; i < 64; ++i) x[i] = i * 11 + 4;
  struct {
    uint32_t *x, *y;
  } arguments{x.data(), y.data()};
  EXPECT_EQ(RunBlocks(*kernel, arguments, 1), 0);
  for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(y[i], x[7 - x[i] % 8] + i);
}

// Large copies and fills become calls, and the image has no other library to call.
TEST_F(HostImage, CopiesAndFillsMemory) {
  const HostKernel* kernel = Kernel(R"(
declare void @llvm.memcpy.p1.p1.i64(ptr addrspace(1), ptr addrspace(1), i64, i1)
declare void @llvm.memmove.p1.p1.i64(ptr addrspace(1), ptr addrspace(1), i64, i1)
declare void @llvm.memset.p1.i64(ptr addrspace(1), i8, i64, i1)
define void @copies(ptr addrspace(1) %x, ptr addrspace(1) %y, i64 %n) "backplane-kernel"="1" {
  call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) %y, ptr addrspace(1) %x, i64 %n, i1 false)
  %y3 = getelementptr i8, ptr addrspace(1) %y, i64 3
  call void @llvm.memmove.p1.p1.i64(ptr addrspace(1) %y3, ptr addrspace(1) %y, i64 %n, i1 false)
  %x5 = getelementptr i8, ptr addrspace(1) %x, i64 5
  call void @llvm.memmove.p1.p1.i64(ptr addrspace(1) %x, ptr addrspace(1) %x5, i64 %n, i1 false)
  call void @llvm.memset.p1.i64(ptr addrspace(1) %x5, i8 -7, i64 %n, i1 false)
  ret void
})",
                                    "copies");
  ASSERT_NE(kernel, nullptr);
  for (uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{1000}}) {
    std::vector<uint8_t> x(1100), y(1100, 9);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 7);
    std::vector<uint8_t> expected_x = x, expected_y = y;
    std::memcpy(expected_y.data(), expected_x.data(), n);
    std::memmove(expected_y.data() + 3, expected_y.data(), n);
    std::memmove(expected_x.data(), expected_x.data() + 5, n);
    std::memset(expected_x.data() + 5, -7, n);
    struct {
      uint8_t *x, *y;
      uint64_t n;
    } arguments{x.data(), y.data(), n};
    EXPECT_EQ(RunBlocks(*kernel, arguments, 1), 0);
    EXPECT_EQ(x, expected_x) << n;
    EXPECT_EQ(y, expected_y) << n;
  }
}

// One thread of the block does something else than the others, if %odd is its number.
constexpr char kDisagreement[] = R"(
define void @disagree(i32 %odd, ptr addrspace(1) %y) "backplane-kernel"="64" {
  %t = call i32 @gpu.thread()
  %is.odd = icmp eq i32 %t, %odd
  br i1 %is.odd, label %other, label %barrier
barrier:
  call void @gpu.barrier()
  br label %end
other:
  OTHER
  br label %end
end:
  %p = getelementptr inbounds i32, ptr addrspace(1) %y, i32 %t
  store i32 1, ptr addrspace(1) %p, align 4
  ret void
})";

TEST_F(HostImage, SeesThatThreadsDisagree) {
  for (const char* other : {"", "call void @gpu.barrier()", "%v = call i32 @gpu.shuffle.xor(i32 %t, i32 1)"}) {
    const HostKernel* kernel = Kernel(absl::StrReplaceAll(kDisagreement, {{"OTHER", other}}), "disagree");
    ASSERT_NE(kernel, nullptr);
    std::vector<uint32_t> y(64);
    struct Arguments {
      uint32_t odd;
      uint32_t* y;
    };
    for (uint32_t odd : {0u, 5u, 31u, 32u, 63u}) {
      EXPECT_EQ(RunBlocks(*kernel, Arguments{odd, y.data()}, 1), 1) << other << ", thread " << odd;
    }
    EXPECT_EQ(RunBlocks(*kernel, Arguments{64, y.data()}, 1), 0) << other;
    EXPECT_THAT(y, Each(1u));
  }
}

// Threads that are as many as their number loop around a barrier.
TEST_F(HostImage, SeesThatThreadsLoopDifferently) {
  const HostKernel* kernel = Kernel(R"(
define void @loops(i32 %a, i32 %b) "backplane-kernel"="96" {
entry:
  %t = call i32 @gpu.thread()
  %low = icmp ult i32 %t, 40
  %n = select i1 %low, i32 %a, i32 %b
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  call void @gpu.barrier()
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
})",
                                    "loops");
  ASSERT_NE(kernel, nullptr);
  struct Arguments {
    uint32_t a, b;
  };
  EXPECT_EQ(RunBlocks(*kernel, Arguments{3, 3}, 2), 0);
  EXPECT_EQ(RunBlocks(*kernel, Arguments{3, 4}, 2), 1);
  EXPECT_EQ(RunBlocks(*kernel, Arguments{7, 1}, 2), 1);
}

TEST_F(HostImage, NamesWhatItCannotLink) {
  auto target = FindGpuTarget("host");
  ASSERT_TRUE(target.ok());
  auto image = LowerKernels(*target, R"(
define void @rest(ptr addrspace(1) %x) "backplane-kernel"="1" {
  %v = load float, ptr addrspace(1) %x, align 4
  %s = frem float %v, 3.0
  store float %s, ptr addrspace(1) %x, align 4
  ret void
})");
  EXPECT_EQ(image.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(image.status().message()), HasSubstr("fmodf"));
  EXPECT_TRUE(LowerKernels(*target, kElementwise).ok());  // the linker goes on after an error
}

}  // namespace
}  // namespace backplane::hip
