// What the threads of a group do together: LDS, barriers, exchanges between lanes.
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "plugins/hip/isa/test_support/kernels.h"

namespace backplane::hip::isa {
namespace {

constexpr char kIntrinsics[] = R"(
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.ds.permute(i32, i32)
declare i32 @llvm.amdgcn.ds.swizzle(i32, i32 immarg)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32 immarg, i32 immarg, i32 immarg, i1 immarg)
declare i32 @llvm.amdgcn.mov.dpp8.i32(i32, i32 immarg)
declare i32 @llvm.amdgcn.permlane16.i32(i32, i32, i32, i32, i1 immarg, i1 immarg)
declare i32 @llvm.amdgcn.permlanex16.i32(i32, i32, i32, i32, i1 immarg, i1 immarg)
declare i32 @llvm.amdgcn.readlane.i32(i32, i32)
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare i32 @llvm.amdgcn.writelane.i32(i32, i32, i32)
declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)
declare i32 @llvm.amdgcn.mbcnt.hi(i32, i32)
)";

class Group : public testing::TestWithParam<const char*> {
 protected:
  int Lanes() const { return std::string(GetParam()) == "gfx1100" ? 32 : 64; }
  std::string Compile(absl::string_view ir) {
    auto elf = CompileIr(GetParam(), absl::StrCat(kIntrinsics, ir));
    EXPECT_TRUE(elf.ok()) << elf.status();
    return elf.ok() ? *elf : "";
  }
  // A kernel of one wave that stores `%r`, an i32 computed from %t, the thread's number, and %v, its input.
  std::vector<uint32_t> RunWave(const std::string& body, std::vector<uint32_t> in) {
    const std::string elf = Compile(absl::StrCat(
        "define amdgpu_kernel void @w(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {\n",
        "%t = call i32 @llvm.amdgcn.workitem.id.x()\n%pi = getelementptr i32, ptr addrspace(1) %in, i32 %t\n",
        "%v = load i32, ptr addrspace(1) %pi\n", body, "\n%po = getelementptr i32, ptr addrspace(1) %out, i32 %t\n",
        "store i32 %r, ptr addrspace(1) %po\nret void\n}\nattributes #0 = { \"amdgpu-flat-work-group-size\"=\"1,64\" "
        "}\n"));
    std::vector<uint32_t> out(in.size());
    auto s = RunKernel(elf, "w", {1}, {static_cast<uint32_t>(in.size())}, Arguments().Add(in.data()).Add(out.data()));
    EXPECT_TRUE(s.ok()) << s.status();
    return out;
  }
  std::vector<uint32_t> Values() const {
    std::vector<uint32_t> v(Lanes());
    for (int i = 0; i < Lanes(); ++i) v[i] = 1000 + i * i;
    return v;
  }
};

// A product of 64 x 64 matrices by tiles of 16 x 16 in LDS.
constexpr char kTiledProduct[] = R"(
@ta = internal addrspace(3) global [256 x float] undef
@tb = internal addrspace(3) global [256 x float] undef
define amdgpu_kernel void @product(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %ty = lshr i32 %t, 4
  %tx = and i32 %t, 15
  %gy = lshr i32 %g, 2
  %gx = and i32 %g, 3
  %row0 = mul i32 %gy, 16
  %row = add i32 %row0, %ty
  %col0 = mul i32 %gx, 16
  %col = add i32 %col0, %tx
  %la = getelementptr float, ptr addrspace(3) @ta, i32 %t
  %lb = getelementptr float, ptr addrspace(3) @tb, i32 %t
  br label %tile
tile:
  %k0 = phi i32 [0, %entry], [%k0n, %done]
  %sum0 = phi float [0.0, %entry], [%sum1, %done]
  %ra = mul i32 %row, 64
  %ka = add i32 %k0, %tx
  %ia = add i32 %ra, %ka
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %ia
  %va = load float, ptr addrspace(1) %pa
  %kb = add i32 %k0, %ty
  %rb = mul i32 %kb, 64
  %ib = add i32 %rb, %col
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %ib
  %vb = load float, ptr addrspace(1) %pb
  store float %va, ptr addrspace(3) %la
  store float %vb, ptr addrspace(3) %lb
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br label %inner
inner:
  %k = phi i32 [0, %tile], [%kn, %inner]
  %s = phi float [%sum0, %tile], [%sn, %inner]
  %xa0 = mul i32 %ty, 16
  %xa = add i32 %xa0, %k
  %qa = getelementptr float, ptr addrspace(3) @ta, i32 %xa
  %wa = load float, ptr addrspace(3) %qa
  %xb0 = mul i32 %k, 16
  %xb = add i32 %xb0, %tx
  %qb = getelementptr float, ptr addrspace(3) @tb, i32 %xb
  %wb = load float, ptr addrspace(3) %qb
  %p = fmul contract float %wa, %wb
  %sn = fadd contract float %s, %p
  %kn = add i32 %k, 1
  %in = icmp ult i32 %kn, 16
  br i1 %in, label %inner, label %done
done:
  %sum1 = phi float [%sn, %inner]
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %k0n = add i32 %k0, 16
  %more = icmp ult i32 %k0n, 64
  br i1 %more, label %tile, label %store
store:
  %rc = mul i32 %row, 64
  %ic = add i32 %rc, %col
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %ic
  store float %sum1, ptr addrspace(1) %pc
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
)";

TEST_P(Group, MultipliesByTilesInLds) {
  const std::string elf = Compile(kTiledProduct);
  std::vector<float> a(64 * 64), b(64 * 64), c(64 * 64, -1);
  for (int i = 0; i < 64 * 64; ++i)
    a[i] = static_cast<float>(i * 7 % 13 - 6), b[i] = static_cast<float>(i * 5 % 11 - 5);
  auto s = RunKernel(elf, "product", {16}, {256}, Arguments().Add(a.data()).Add(b.data()).Add(c.data()));
  ASSERT_TRUE(s.ok()) << s.status();
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) {
      float e = 0;
      for (int k = 0; k < 64; ++k) e += a[i * 64 + k] * b[k * 64 + j];
      ASSERT_EQ(c[i * 64 + j], e) << i << ", " << j;
    }
  }
  const int64_t waves = 16 * 256 / Lanes();
  EXPECT_EQ(s->barriers, waves * 8);
  EXPECT_EQ(s->global_store_bytes, 64 * 64 * 4);
  EXPECT_EQ(s->global_load_bytes, 2 * 4 * 64 * 64 * 4);
  EXPECT_GT(s->lds_accesses, 0);
}

TEST_P(Group, CountsBankConflicts) {
  // Lanes store words 1, 2 and 32 apart: no conflict; 2 lanes of 32 in each bank; all in one.
  for (const auto& [stride, passes] : {std::pair{1, 0}, {2, 1}, {32, 31}}) {
    const std::string elf = Compile(absl::StrCat(R"(
@l = internal addrspace(3) global [2048 x i32] undef
define amdgpu_kernel void @k(ptr addrspace(1) %o) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %i = mul i32 %t, )",
                                                 stride, R"(
  %p = getelementptr i32, ptr addrspace(3) @l, i32 %i
  store volatile i32 %t, ptr addrspace(3) %p
  %v = load volatile i32, ptr addrspace(3) %p
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %v, ptr addrspace(1) %q
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="32,32" }
)"));
    std::vector<int32_t> o(32);
    auto s = RunKernel(elf, "k", {1}, {32}, Arguments().Add(o.data()));
    ASSERT_TRUE(s.ok()) << s.status();
    for (int i = 0; i < 32; ++i) ASSERT_EQ(o[i], i);
    EXPECT_EQ(s->lds_bank_conflicts, 2 * passes) << stride;
    EXPECT_EQ(s->lds_accesses, 2);
  }
}

TEST_P(Group, ReducesInDynamicLds) {
  const std::string elf = Compile(R"(
@l = external addrspace(3) global [0 x i32]
define amdgpu_kernel void @sum(ptr addrspace(1) %in, ptr addrspace(1) %o) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %pi = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %v = load i32, ptr addrspace(1) %pi
  %p = getelementptr [0 x i32], ptr addrspace(3) @l, i32 0, i32 %t
  store i32 %v, ptr addrspace(3) %p
  br label %step
step:
  %d = phi i32 [128, %entry], [%dn, %next]
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %low = icmp ult i32 %t, %d
  br i1 %low, label %add, label %next
add:
  %j = add i32 %t, %d
  %q = getelementptr [0 x i32], ptr addrspace(3) @l, i32 0, i32 %j
  %a = load i32, ptr addrspace(3) %p
  %b = load i32, ptr addrspace(3) %q
  %c = add i32 %a, %b
  store i32 %c, ptr addrspace(3) %p
  br label %next
next:
  %dn = lshr i32 %d, 1
  %more = icmp ne i32 %dn, 0
  br i1 %more, label %step, label %out
out:
  %first = icmp eq i32 %t, 0
  br i1 %first, label %write, label %end
write:
  %r = load i32, ptr addrspace(3) %p
  store i32 %r, ptr addrspace(1) %o
  br label %end
end:
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
)");
  std::vector<int32_t> in(256);
  std::iota(in.begin(), in.end(), 5);
  int32_t o = 0;
  auto s = RunKernel(elf, "sum", {1}, {256}, Arguments().Add(in.data()).Add(&o), nullptr, 1024);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(o, std::accumulate(in.begin(), in.end(), 0));
}

TEST_P(Group, UpdatesLdsAtomically) {
  const std::string elf = Compile(R"(
@l = internal addrspace(3) global [4 x i32] undef
define amdgpu_kernel void @k(ptr addrspace(1) %o) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %small = icmp ult i32 %t, 4
  br i1 %small, label %clear, label %go
clear:
  %pc = getelementptr i32, ptr addrspace(3) @l, i32 %t
  store i32 0, ptr addrspace(3) %pc
  br label %go
go:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %a = atomicrmw add ptr addrspace(3) @l, i32 %t syncscope("workgroup") monotonic
  %p1 = getelementptr i32, ptr addrspace(3) @l, i32 1
  %b = atomicrmw umax ptr addrspace(3) %p1, i32 %t syncscope("workgroup") monotonic
  %p2 = getelementptr i32, ptr addrspace(3) @l, i32 2
  %f = uitofp i32 %t to float
  %c = atomicrmw fadd ptr addrspace(3) %p2, float %f syncscope("workgroup") monotonic
  %p3 = getelementptr i32, ptr addrspace(3) @l, i32 3
  %x = cmpxchg ptr addrspace(3) %p3, i32 0, i32 42 syncscope("workgroup") monotonic monotonic
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br i1 %small, label %write, label %end
write:
  %q = getelementptr i32, ptr addrspace(3) @l, i32 %t
  %v = load i32, ptr addrspace(3) %q
  %po = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %v, ptr addrspace(1) %po
  br label %end
end:
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="128,128" }
)");
  uint32_t o[4] = {};
  auto s = RunKernel(elf, "k", {1}, {128}, Arguments().Add(&o[0]));
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(o[0], 127u * 128 / 2);
  EXPECT_EQ(o[1], 127u);
  EXPECT_EQ(std::bit_cast<float>(o[2]), 127.0f * 64);
  EXPECT_EQ(o[3], 42u);
}

TEST_P(Group, PermutesLanes) {
  const std::vector<uint32_t> in = Values();
  const int n = Lanes();
  std::vector<uint32_t> out =
      RunWave("%x = xor i32 %t, 21\n%a = shl i32 %x, 2\n%r = call i32 @llvm.amdgcn.ds.bpermute(i32 %a, i32 %v)", in);
  for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], in[i ^ 21]) << i;
  out = RunWave("%x = add i32 %t, 5\n%a = shl i32 %x, 2\n%r = call i32 @llvm.amdgcn.ds.permute(i32 %a, i32 %v)", in);
  for (int i = 0; i < n; ++i) EXPECT_EQ(out[(i + 5) % n], in[i]) << i;
  // and 0x1f, or 0, xor 9; and a permutation of four: 3, 2, 1, 0.
  out = RunWave("%r = call i32 @llvm.amdgcn.ds.swizzle(i32 %v, i32 9247)", in);
  for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], in[i ^ 9]) << i;
  out = RunWave("%r = call i32 @llvm.amdgcn.ds.swizzle(i32 %v, i32 32795)", in);
  for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], in[i ^ 3]) << i;
  out = RunWave("%r = call i32 @llvm.amdgcn.readlane.i32(i32 %v, i32 13)", in);
  for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], in[13]) << i;
  out = RunWave("%r = call i32 @llvm.amdgcn.writelane.i32(i32 99, i32 7, i32 %v)", in);
  for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], i == 7 ? 99 : in[i]) << i;
  out = RunWave(
      "%l = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)\n%r = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %l)", in);
  for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], static_cast<uint32_t>(i)) << i;
}

struct Dpp {
  const char* name;
  int control, row_mask;
  bool bound_control;
  int (*source)(int lane);  // -1: none
};

TEST_P(Group, MovesByDpp) {
  const std::vector<uint32_t> in = Values();
  const Dpp cases[] = {
      {"quad_perm 1 0 3 2", 0xb1, 15, true, [](int l) { return l ^ 1; }},
      {"row_shl 3", 0x103, 15, true, [](int l) { return l % 16 + 3 < 16 ? l + 3 : -1; }},
      {"row_shr 5", 0x115, 15, false, [](int l) { return l % 16 >= 5 ? l - 5 : -1; }},
      {"row_ror 4", 0x124, 15, true, [](int l) { return (l & ~15) | ((l + 12) & 15); }},
      {"row_mirror", 0x140, 15, true, [](int l) { return l ^ 15; }},
      {"row_half_mirror", 0x141, 15, true, [](int l) { return l ^ 7; }},
      {"row mask", 0xb1, 2, true, [](int l) { return l / 16 == 1 ? l ^ 1 : -2; }},
  };
  for (const Dpp& c : cases) {
    const std::vector<uint32_t> out =
        RunWave(absl::StrCat("%r = call i32 @llvm.amdgcn.update.dpp.i32(i32 77, i32 %v, i32 ", c.control, ", i32 ",
                             c.row_mask, ", i32 15, i1 ", c.bound_control ? "1" : "0", ")"),
                in);
    for (int i = 0; i < Lanes(); ++i) {
      const int from = c.source(i);
      EXPECT_EQ(out[i], from >= 0 ? in[from] : from == -1 && c.bound_control ? 0u : 77u) << c.name << ", lane " << i;
    }
  }
  if (Lanes() == 32) {
    std::vector<uint32_t> out = RunWave("%r = call i32 @llvm.amdgcn.mov.dpp8.i32(i32 %v, i32 342391)", in);
    constexpr int kSelects[] = {342391 & 7,       342391 >> 3 & 7,  342391 >> 6 & 7,  342391 >> 9 & 7,
                                342391 >> 12 & 7, 342391 >> 15 & 7, 342391 >> 18 & 7, 342391 >> 21 & 7};
    for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], in[(i & ~7) | kSelects[i & 7]]) << i;
    out = RunWave(
        "%r = call i32 @llvm.amdgcn.permlanex16.i32(i32 %v, i32 %v, i32 1985229328, i32 -19088744, i1 0, i1 0)", in);
    for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], in[i ^ 16]) << i;
    out = RunWave("%r = call i32 @llvm.amdgcn.update.dpp.i32(i32 77, i32 %v, i32 357, i32 15, i32 15, i1 1)", in);
    for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], in[i ^ 5]) << i;  // row_xmask
  } else {
    const std::vector<uint32_t> out =
        RunWave("%r = call i32 @llvm.amdgcn.update.dpp.i32(i32 77, i32 %v, i32 322, i32 10, i32 15, i1 0)", in);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], i / 16 % 2 == 1 ? in[(i & ~15) - 1] : 77u) << i;  // row_bcast:15
  }
}

// A sum over a wave of halves of halves, in divergent code too.
TEST_P(Group, RunsDivergentLoops) {
  const std::vector<uint32_t> in = Values();
  const std::string elf = Compile(R"(
define amdgpu_kernel void @collatz(ptr addrspace(1) %in, ptr addrspace(1) %o) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %v = load i32, ptr addrspace(1) %p
  br label %loop
loop:
  %x = phi i32 [%v, %entry], [%n, %next]
  %c = phi i32 [0, %entry], [%cn, %next]
  %one = icmp eq i32 %x, 1
  br i1 %one, label %end, label %body
body:
  %bit = and i32 %x, 1
  %odd = icmp ne i32 %bit, 0
  br i1 %odd, label %up, label %down
up:
  %m = mul i32 %x, 3
  %a = add i32 %m, 1
  br label %next
down:
  %h = lshr i32 %x, 1
  br label %next
next:
  %n = phi i32 [%a, %up], [%h, %down]
  %cn = add i32 %c, 1
  br label %loop
end:
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %c, ptr addrspace(1) %q
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
)");
  std::vector<uint32_t> o(in.size());
  auto s = RunKernel(elf, "collatz", {1}, {static_cast<uint32_t>(in.size())}, Arguments().Add(in.data()).Add(o.data()));
  ASSERT_TRUE(s.ok()) << s.status();
  for (size_t i = 0; i < in.size(); ++i) {
    uint32_t steps = 0;
    for (uint32_t x = in[i]; x != 1; x = x % 2 == 1 ? 3 * x + 1 : x / 2) ++steps;
    EXPECT_EQ(o[i], steps) << in[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, Group, testing::ValuesIn(kMachines), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace backplane::hip::isa
