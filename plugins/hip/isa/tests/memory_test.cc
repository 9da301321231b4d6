// Loads, stores, atomics, private memory, calls, tables and arguments.
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "plugins/hip/isa/test_support/kernels.h"

namespace backplane::hip::isa {
namespace {

constexpr char kDeclarations[] = R"(
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
)";

class Memory : public testing::TestWithParam<const char*> {
 protected:
  std::string Compile(absl::string_view ir) {
    auto elf = CompileIr(GetParam(), absl::StrCat(kDeclarations, ir));
    EXPECT_TRUE(elf.ok()) << elf.status();
    return elf.ok() ? *elf : "";
  }
};

TEST_P(Memory, AddsArrays) {
  const std::string elf = Compile(R"(
define amdgpu_kernel void @add(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %o, i32 %n) {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %g, 96
  %i = add i32 %base, %t
  %in = icmp slt i32 %i, %n
  br i1 %in, label %work, label %done
work:
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %i
  %po = getelementptr float, ptr addrspace(1) %o, i32 %i
  %x = load float, ptr addrspace(1) %pa
  %y = load float, ptr addrspace(1) %pb
  %s = fadd float %x, %y
  store float %s, ptr addrspace(1) %po
  br label %done
done:
  ret void
}
)");
  constexpr int kCount = 1000;
  std::vector<float> a(kCount), b(kCount), o(kCount + 8, -1.0f);
  for (int i = 0; i < kCount; ++i) a[i] = 0.25f * i, b[i] = 3.0f - i;
  auto s =
      RunKernel(elf, "add", {11}, {96}, Arguments().Add(a.data()).Add(b.data()).Add(o.data()).Add(int32_t{kCount}));
  ASSERT_TRUE(s.ok()) << s.status();
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(o[i], a[i] + b[i]) << i;
  EXPECT_EQ(o[kCount], -1.0f);
  EXPECT_EQ(s->global_load_bytes, 2 * 4 * kCount);
  EXPECT_EQ(s->global_store_bytes, 4 * kCount);
}

TEST_P(Memory, ReadsHiddenArgumentsAndIds) {
  const std::string elf = Compile(R"(
define amdgpu_kernel void @ids(ptr addrspace(1) %o) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %ty = call i32 @llvm.amdgcn.workitem.id.y()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %gy = call i32 @llvm.amdgcn.workgroup.id.y()
  %gz = call i32 @llvm.amdgcn.workgroup.id.z()
  %h = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %nx = load i32, ptr addrspace(4) %h
  %p = getelementptr i8, ptr addrspace(4) %h, i32 12
  %sx = load i16, ptr addrspace(4) %p
  %d = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %dp = getelementptr i8, ptr addrspace(4) %d, i32 16
  %gridy = load i32, ptr addrspace(4) %dp
  %s32 = zext i16 %sx to i32
  %g0 = mul i32 %gz, 2
  %g1 = add i32 %g0, %gy
  %g2 = mul i32 %g1, %nx
  %g3 = add i32 %g2, %g
  %b0 = mul i32 %ty, %s32
  %b1 = add i32 %b0, %t
  %i0 = mul i32 %g3, 40
  %i = add i32 %i0, %b1
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %i
  %v0 = mul i32 %gridy, 1000
  %v = add i32 %v0, %i
  store i32 %v, ptr addrspace(1) %q
  ret void
}
)");
  std::vector<int32_t> o(3 * 2 * 2 * 40, -1);
  auto s = RunKernel(elf, "ids", {3, 2, 2}, {8, 5}, Arguments().Add(o.data()));
  ASSERT_TRUE(s.ok()) << s.status();
  for (size_t i = 0; i < o.size(); ++i) ASSERT_EQ(o[i], 10000 + static_cast<int>(i)) << i;
}

TEST_P(Memory, CallsFunctionsAndReadsTables) {
  const std::string elf = Compile(R"(
@table = internal addrspace(4) constant [4 x i32] [i32 7, i32 -3, i32 100, i32 12345]
@pointers = internal addrspace(4) constant [2 x ptr] [ptr @twice, ptr @thrice]
define internal i32 @twice(i32 %x) noinline { %y = mul i32 %x, 2
  ret i32 %y }
define internal i32 @thrice(i32 %x) noinline { %y = mul i32 %x, 3
  ret i32 %y }
define amdgpu_kernel void @call(ptr addrspace(1) %o, i32 %which) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %m = and i32 %t, 3
  %tp = getelementptr i32, ptr addrspace(4) @table, i32 %m
  %v = load i32, ptr addrspace(4) %tp
  %a = call i32 @twice(i32 %v)
  %fp = getelementptr ptr, ptr addrspace(4) @pointers, i32 %which
  %f = load ptr, ptr addrspace(4) %fp
  %b = call i32 %f(i32 %a)
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %b, ptr addrspace(1) %q
  ret void
}
)");
  constexpr int kTable[] = {7, -3, 100, 12345};
  for (int which : {0, 1}) {
    std::vector<int32_t> o(64);
    auto s = RunKernel(elf, "call", {1}, {64}, Arguments().Add(o.data()).Add(which));
    ASSERT_TRUE(s.ok()) << s.status();
    for (int i = 0; i < 64; ++i) ASSERT_EQ(o[i], kTable[i & 3] * 2 * (which + 2)) << i;
  }
}

TEST_P(Memory, UsesPrivateMemory) {
  const std::string elf = Compile(R"(
define amdgpu_kernel void @scratch(ptr addrspace(1) %in, ptr addrspace(1) %o) {
entry:
  %a = alloca [16 x i32], addrspace(5)
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  br label %fill
fill:
  %i = phi i32 [0, %entry], [%i1, %fill]
  %v = mul i32 %i, %t
  %p = getelementptr [16 x i32], ptr addrspace(5) %a, i32 0, i32 %i
  store volatile i32 %v, ptr addrspace(5) %p
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, 16
  br i1 %more, label %fill, label %read
read:
  %ip = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %at = load i32, ptr addrspace(1) %ip
  %flat = addrspacecast ptr addrspace(5) %a to ptr
  %fp = getelementptr [16 x i32], ptr %flat, i32 0, i32 %at
  %w = load volatile i32, ptr %fp
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %w, ptr addrspace(1) %q
  ret void
}
)");
  std::vector<int32_t> in(128), o(128);
  for (int i = 0; i < 128; ++i) in[i] = i * 5 % 16;
  auto s = RunKernel(elf, "scratch", {1}, {128}, Arguments().Add(in.data()).Add(o.data()));
  ASSERT_TRUE(s.ok()) << s.status();
  for (int i = 0; i < 128; ++i) ASSERT_EQ(o[i], i * in[i]) << i;
}

TEST_P(Memory, MovesBytesAndHalves) {
  const std::string elf = Compile(R"(
define amdgpu_kernel void @narrow(ptr addrspace(1) %b, ptr addrspace(1) %h, ptr addrspace(1) %v, ptr addrspace(1) %o) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %pb = getelementptr i8, ptr addrspace(1) %b, i32 %t
  %ph = getelementptr i16, ptr addrspace(1) %h, i32 %t
  %x8 = load i8, ptr addrspace(1) %pb
  %x16 = load i16, ptr addrspace(1) %ph
  %x = sext i8 %x8 to i32
  %y = zext i16 %x16 to i32
  %s = sub i32 %y, %x
  %s8 = trunc i32 %s to i8
  %s16 = trunc i32 %s to i16
  store i8 %s8, ptr addrspace(1) %pb
  store i16 %s16, ptr addrspace(1) %ph
  %pv = getelementptr <4 x i32>, ptr addrspace(1) %v, i32 %t
  %po = getelementptr <3 x i64>, ptr addrspace(1) %o, i32 %t
  %w = load <4 x i32>, ptr addrspace(1) %pv
  %w3 = shufflevector <4 x i32> %w, <4 x i32> poison, <3 x i32> <i32 3, i32 0, i32 2>
  %z = sext <3 x i32> %w3 to <3 x i64>
  store <3 x i64> %z, ptr addrspace(1) %po, align 8
  ret void
}
)");
  constexpr int kCount = 64;
  std::vector<int8_t> b(kCount), b0;
  std::vector<uint16_t> h(kCount), h0;
  std::vector<int32_t> v(4 * kCount);
  std::vector<int64_t> o(4 * kCount);
  for (int i = 0; i < kCount; ++i) b[i] = static_cast<int8_t>(i * 37), h[i] = static_cast<uint16_t>(i * 9973);
  for (int i = 0; i < 4 * kCount; ++i) v[i] = i * -77777;
  b0 = b, h0 = h;
  auto s = RunKernel(elf, "narrow", {1}, {kCount}, Arguments().Add(b.data()).Add(h.data()).Add(v.data()).Add(o.data()));
  ASSERT_TRUE(s.ok()) << s.status();
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(b[i], static_cast<int8_t>(h0[i] - b0[i])) << i;
    EXPECT_EQ(h[i], static_cast<uint16_t>(h0[i] - b0[i])) << i;
    EXPECT_EQ(o[4 * i], v[4 * i + 3]) << i;
    EXPECT_EQ(o[4 * i + 1], v[4 * i]) << i;
    EXPECT_EQ(o[4 * i + 2], v[4 * i + 2]) << i;
  }
}

TEST_P(Memory, UpdatesAtomically) {
  const std::string elf = Compile(R"(
define amdgpu_kernel void @atomic(ptr addrspace(1) %c, ptr addrspace(1) %f, ptr addrspace(1) %old) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %a = atomicrmw add ptr addrspace(1) %c, i32 %t syncscope("agent") monotonic
  %p1 = getelementptr i32, ptr addrspace(1) %c, i32 1
  %m = atomicrmw umax ptr addrspace(1) %p1, i32 %t syncscope("agent") monotonic
  %p2 = getelementptr i32, ptr addrspace(1) %c, i32 2
  %mn = atomicrmw min ptr addrspace(1) %p2, i32 %t syncscope("agent") monotonic
  %p3 = getelementptr i32, ptr addrspace(1) %c, i32 3
  %x = atomicrmw xor ptr addrspace(1) %p3, i32 %t syncscope("agent") monotonic
  %p4 = getelementptr i32, ptr addrspace(1) %c, i32 4
  %pair = cmpxchg ptr addrspace(1) %p4, i32 5, i32 77 syncscope("agent") monotonic monotonic
  %p6 = getelementptr i32, ptr addrspace(1) %c, i32 6
  %w = atomicrmw add ptr addrspace(1) %p6, i64 4294967297 syncscope("agent") monotonic
  %tf = uitofp i32 %t to float
  %fa = atomicrmw fadd ptr addrspace(1) %f, float %tf syncscope("agent") monotonic
  %q = getelementptr i32, ptr addrspace(1) %old, i32 %t
  store i32 %a, ptr addrspace(1) %q
  ret void
}
)");
  constexpr int kCount = 100;
  alignas(8) int32_t c[8] = {0, 3, 9, 0, 5, 0, 0, 0};
  float f = 0;
  std::vector<int32_t> old(kCount);
  auto s = RunKernel(elf, "atomic", {1}, {kCount}, Arguments().Add(&c[0]).Add(&f).Add(old.data()));
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(c[0], 4950);
  EXPECT_EQ(c[1], 99);
  EXPECT_EQ(c[2], 0);
  int x = 0;
  for (int i = 0; i < kCount; ++i) x ^= i;
  EXPECT_EQ(c[3], x);
  EXPECT_EQ(c[4], 77);
  EXPECT_EQ(c[6], kCount);
  EXPECT_EQ(c[7], kCount);
  EXPECT_EQ(f, 4950.0f);
}

// Threads of the host divide one grid, and its atomics count all of it.
TEST_P(Memory, ExecutesInManyThreads) {
  const std::string elf = Compile(R"(
define amdgpu_kernel void @count(ptr addrspace(1) %c) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %a = atomicrmw add ptr addrspace(1) %c, i32 1 syncscope("agent") monotonic
  ret void
}
)");
  auto code = LoadCodeObject(elf);
  ASSERT_TRUE(code.ok()) << code.status();
  int32_t counter = 0;
  const Arguments arguments = Arguments().Add(&counter);
  constexpr int kThreads = 4, kBlocks = 50, kBlockThreads = 70;
  Launch launch;
  launch.kernel = "count";
  launch.blocks.x = kThreads;
  launch.blocks.y = kBlocks;
  launch.threads.x = kBlockThreads;
  launch.kernarg = arguments.bytes();
  std::vector<absl::StatusOr<Statistics>> results(kThreads);
  std::vector<std::thread> threads;
  for (int n = 0; n < kThreads; ++n) {
    threads.emplace_back([&, n] {
      Launch part = launch;
      part.first_block = static_cast<uint64_t>(n) * kBlocks;
      part.block_count = kBlocks;
      results[n] = Execute(**code, part);
    });
  }
  for (std::thread& t : threads) t.join();
  Statistics sum;
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    sum.Add(*result);
  }
  EXPECT_EQ(counter, kThreads * kBlocks * kBlockThreads);
  counter = 0;
  auto whole = Execute(**code, launch);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(counter, kThreads * kBlocks * kBlockThreads);
  EXPECT_EQ(sum.instructions, whole->instructions);
  EXPECT_EQ(sum.by_mnemonic, whole->by_mnemonic);
  launch.first_block = 1;
  launch.block_count = kThreads * kBlocks;
  EXPECT_EQ(Execute(**code, launch).status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Machines, Memory, testing::ValuesIn(kMachines), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace backplane::hip::isa
