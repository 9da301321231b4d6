// Defects planted into real code, each of which the interpreter names: waits and barriers that are removed, memory that
// does not exist, code that is unknown. The same code without the defect runs.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/hip/isa/test_support/kernels.h"

namespace backplane::hip::isa {
namespace {

using testing::HasSubstr;

// Encodings of s_waitcnt (any count) and s_barrier.
struct Encodings {
  uint32_t wait, barrier;
};
constexpr uint32_t kUpperHalf = 0xffff0000;

class Defects : public testing::TestWithParam<const char*> {
 protected:
  bool IsGfx1100() const { return std::string(GetParam()) == "gfx1100"; }
  Encodings Words() const {
    return IsGfx1100() ? Encodings{0xbf890000, 0xbfbd0000} : Encodings{0xbf8c0000, 0xbf8a0000};
  }
  std::string CompileOk(absl::string_view ir) {
    auto elf = CompileIr(GetParam(), ir);
    EXPECT_TRUE(elf.ok()) << elf.status();
    return elf.ok() ? *elf : "";
  }
  std::string AssembleOk(absl::string_view body, int pointers, int lds_bytes = 0) {
    auto elf = Assemble(GetParam(), KernelAssembly(GetParam(), body, pointers, lds_bytes));
    EXPECT_TRUE(elf.ok()) << elf.status();
    return elf.ok() ? *elf : "";
  }
};

// Threads of a group reverse an array through LDS.
constexpr char kReverse[] = R"(
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
@l = internal addrspace(3) global [256 x float] undef
define amdgpu_kernel void @reverse(ptr addrspace(1) %in, ptr addrspace(1) %o) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %pi = getelementptr float, ptr addrspace(1) %in, i32 %t
  %v = load float, ptr addrspace(1) %pi
  %p = getelementptr float, ptr addrspace(3) @l, i32 %t
  store float %v, ptr addrspace(3) %p
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %x = xor i32 %t, 255
  %q = getelementptr float, ptr addrspace(3) @l, i32 %x
  %w = load float, ptr addrspace(3) %q
  %po = getelementptr float, ptr addrspace(1) %o, i32 %t
  store float %w, ptr addrspace(1) %po
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
)";

TEST_P(Defects, RemovedWaitsAndBarriersAreSeen) {
  const std::string good = CompileOk(kReverse);
  std::vector<float> in(256), o(256);
  for (int i = 0; i < 256; ++i) in[i] = static_cast<float>(i);
  const Arguments arguments = Arguments().Add(in.data()).Add(o.data());
  auto s = RunKernel(good, "reverse", {1}, {256}, arguments);
  ASSERT_TRUE(s.ok()) << s.status();
  for (int i = 0; i < 256; ++i) ASSERT_EQ(o[i], static_cast<float>(255 - i));

  // Every wait of the kernel is needed.
  int waits = 0;
  for (;; ++waits) {
    std::string bad = good;
    if (!ReplaceByNop(bad, Words().wait, kUpperHalf, waits)) break;
    const absl::Status status = RunKernel(bad, "reverse", {1}, {256}, arguments).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << waits << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr("reverse")) << waits;
    EXPECT_THAT(status.message(),
                testing::AnyOf(HasSubstr("s_waitcnt is missing or too weak"), HasSubstr("with no barrier between")))
        << waits;
  }
  EXPECT_GE(waits, 3);
  std::string bad = good;
  ASSERT_TRUE(ReplaceByNop(bad, Words().barrier, ~0u, 0));
  const absl::Status status = RunKernel(bad, "reverse", {1}, {256}, arguments).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), testing::AllOf(HasSubstr("LDS"), HasSubstr("with no barrier between"),
                                               HasSubstr("wave"), HasSubstr("lane")));
}

// A wait for all but the last loads guarantees the first ones only.
TEST_P(Defects, WeakWaitsAreSeen) {
  const bool gfx11 = IsGfx1100();
  const std::string load = gfx11 ? "global_load_b32" : "global_load_dword";
  const std::string store = gfx11 ? "global_store_b32" : "global_store_dword";
  auto kernel = [&](int wait, int use) {
    return AssembleOk(absl::StrCat(gfx11 ? "s_load_b64 s[4:5], s[0:1], 0\n" : "s_load_dwordx2 s[4:5], s[0:1], 0\n",
                                   "v_mov_b32 v0, 0\ns_waitcnt lgkmcnt(0)\n", load, " v1, v0, s[4:5]\n", load,
                                   " v2, v0, s[4:5] offset:4\n", load, " v3, v0, s[4:5] offset:8\n", "s_waitcnt vmcnt(",
                                   wait, ")\n", store, " v0, v", use, ", s[4:5] offset:12\ns_endpgm\n"),
                      1);
  };
  int32_t data[4] = {11, 22, 33, 0};
  for (int use = 1; use <= 3; ++use) {
    for (int wait = 0; wait <= 3; ++wait) {
      data[3] = 0;
      const std::string elf = kernel(wait, use);
      const absl::Status status = RunKernel(elf, "k", {1}, {1}, Arguments().Add(&data[0])).status();
      if (wait <= 3 - use) {
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_EQ(data[3], 11 * use);
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << "wait " << wait << " use " << use;
        EXPECT_THAT(status.message(), HasSubstr(load));
      }
    }
  }
}

// Loads of one order complete as they were issued, so a later one may write what an earlier one writes. One of another
// order may not, and arithmetic may not.
TEST_P(Defects, LoadsOverwriteLoadsOfTheirOrder) {
  const bool gfx11 = IsGfx1100();
  const std::string pointer = gfx11 ? "s_load_b64 s[4:5], s[0:1], 0\n" : "s_load_dwordx2 s[4:5], s[0:1], 0\n";
  const std::string load = gfx11 ? "global_load_b32" : "global_load_dword",
                    store = gfx11 ? "global_store_b32" : "global_store_dword";
  const std::string lds = gfx11 ? "ds_load_b32" : "ds_read_b32";
  int32_t data[3] = {11, 22, 0};
  auto run = [&](const std::string& second) {
    data[2] = 0;
    const std::string elf =
        AssembleOk(absl::StrCat(pointer, "v_mov_b32 v0, 0\ns_waitcnt lgkmcnt(0)\n", load, " v1, v0, s[4:5]\n", second,
                                "\ns_waitcnt vmcnt(0) lgkmcnt(0)\n", store, " v0, v1, s[4:5] offset:8\ns_endpgm\n"),
                   1, 64);
    return RunKernel(elf, "k", {1}, {1}, Arguments().Add(&data[0])).status();
  };
  EXPECT_TRUE(run(load + " v1, v0, s[4:5] offset:4").ok());
  EXPECT_EQ(data[2], 22);
  EXPECT_EQ(run(lds + " v1, v0").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(run("v_mov_b32 v1, 0").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(run("v_mov_b32 v2, 0").ok());
}

// Scalar loads complete in any order: only a wait for all of them guarantees one. One is overwritten, too.
TEST_P(Defects, ScalarLoadsCompleteInAnyOrder) {
  const bool gfx11 = IsGfx1100();
  const std::string load = gfx11 ? "s_load_b64" : "s_load_dwordx2";
  auto run = [&](const std::string& wait, const std::string& use) {
    const std::string elf = AssembleOk(
        absl::StrCat(load, " s[4:5], s[0:1], 0\n", load, " s[6:7], s[0:1], 8\n", wait, "\n", use, "\ns_endpgm\n"), 2);
    int32_t data = 0;
    return RunKernel(elf, "k", {1}, {1}, Arguments().Add(&data).Add(&data)).status();
  };
  EXPECT_TRUE(run("s_waitcnt lgkmcnt(0)", "s_mov_b32 s8, s4").ok());
  EXPECT_EQ(run("s_waitcnt lgkmcnt(1)", "s_mov_b32 s8, s4").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(run("", "s_mov_b32 s7, 0").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(run("", "s_mov_b32 s8, 0").ok());
}

TEST_P(Defects, BarriersThatSomeWavesNeverReachAreSeen) {
  const std::string elf = CompileOk(R"(
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare void @llvm.amdgcn.s.barrier()
define amdgpu_kernel void @half(ptr addrspace(1) %o) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %f = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %t)
  %low = icmp ult i32 %f, 128
  br i1 %low, label %wait, label %end
wait:
  call void @llvm.amdgcn.s.barrier()
  store i32 1, ptr addrspace(1) %o
  br label %end
end:
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
)");
  int32_t o = 0;
  const absl::Status status = RunKernel(elf, "half", {1}, {256}, Arguments().Add(&o)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              testing::AllOf(HasSubstr("s_barrier"), HasSubstr("never reached by"), HasSubstr("half")));
}

class OneRange : public MemoryGuard {
 public:
  OneRange(const void* begin, uint64_t bytes, bool writable)
      : begin_(reinterpret_cast<uint64_t>(begin)), bytes_(bytes), writable_(writable) {}
  bool IsAccessible(uint64_t address, uint64_t bytes, bool write) const override {
    return address >= begin_ && address + bytes <= begin_ + bytes_ && (!write || writable_);
  }

 private:
  uint64_t begin_, bytes_;
  bool writable_;
};

TEST_P(Defects, AccessesOutsideOfMemoryAreSeen) {
  const std::string elf = CompileOk(R"(
declare i32 @llvm.amdgcn.workitem.id.x()
@table = internal addrspace(4) constant [64 x i32] zeroinitializer
define amdgpu_kernel void @increment(ptr addrspace(1) %p) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %m = and i32 %t, 63
  %tp = getelementptr i32, ptr addrspace(4) @table, i32 %m
  %z = load volatile i32, ptr addrspace(4) %tp
  %q = getelementptr i32, ptr addrspace(1) %p, i32 %t
  %v = load i32, ptr addrspace(1) %q
  %w = add i32 %v, 1
  %x = add i32 %w, %z
  store i32 %x, ptr addrspace(1) %q
  ret void
}
)");
  std::vector<int32_t> data(100);
  const Arguments arguments = Arguments().Add(data.data());
  const OneRange guard(data.data(), 400, true), read_only(data.data(), 400, false);
  ASSERT_TRUE(RunKernel(elf, "increment", {1}, {100}, arguments, &guard).ok());
  EXPECT_EQ(data[99], 1);
  absl::Status status = RunKernel(elf, "increment", {1}, {101}, arguments, &guard).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), testing::AllOf(HasSubstr("global_load"), HasSubstr("is read"),
                                               HasSubstr(IsGfx1100() ? "wave 3, lane 4" : "wave 1, lane 36")));
  status = RunKernel(elf, "increment", {1}, {100}, arguments, &read_only).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), testing::AllOf(HasSubstr("global_store"), HasSubstr("is written")));
}

// LLVM loads 16 bytes where a kernel needs 12 and the address is a multiple of 16.
TEST_P(Defects, AlignedScalarLoadsMayEndBehindTheMemory) {
  const bool gfx11 = IsGfx1100();
  alignas(16) const int32_t data[8] = {};
  const OneRange guard(data, 12, false);
  for (const int offset : {0, 4, 16}) {
    const std::string elf =
        AssembleOk(absl::StrCat(gfx11 ? "s_load_b64 s[2:3], s[0:1], 0\n" : "s_load_dwordx2 s[2:3], s[0:1], 0\n",
                                "s_waitcnt lgkmcnt(0)\n", gfx11 ? "s_load_b128" : "s_load_dwordx4", " s[4:7], s[2:3], ",
                                offset, "\ns_waitcnt lgkmcnt(0)\ns_endpgm\n"),
                   1);
    const absl::Status status = RunKernel(elf, "k", {1}, {1}, Arguments().Add(data), &guard).status();
    EXPECT_EQ(status.code(), offset == 0 ? absl::StatusCode::kOk : absl::StatusCode::kOutOfRange) << offset << status;
  }
}

TEST_P(Defects, AccessesOutsideOfLdsAreSeen) {
  const std::string store = IsGfx1100() ? "ds_store_b32" : "ds_write_b32";
  const std::string elf = AssembleOk(
      absl::StrCat("v_and_b32 v0, 0x3ff, v0\nv_lshlrev_b32 v1, 2, v0\n", store, " v1, v0 offset:4\ns_endpgm\n"), 0, 64);
  EXPECT_TRUE(RunKernel(elf, "k", {1}, {15}, Arguments()).ok());
  const absl::Status status = RunKernel(elf, "k", {1}, {16}, Arguments()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(),
              testing::AllOf(HasSubstr("LDS of 64 bytes"), HasSubstr("byte 64"), HasSubstr("lane 15")));
  EXPECT_TRUE(RunKernel(elf, "k", {1}, {16}, Arguments(), nullptr, /*dynamic_lds=*/4).ok());
}

// Two waves read what both may read, write neighbouring bytes, and update one word atomically; then one does it
// plainly.
TEST_P(Defects, RacesAreOfBytesAndAtomicsAreNone) {
  const std::string write8 = IsGfx1100() ? "ds_store_b8" : "ds_write_b8",
                    write32 = IsGfx1100() ? "ds_store_b32" : "ds_write_b32";
  const std::string id = "v_and_b32 v0, 0x3ff, v0\nv_mov_b32 v2, 0\n";
  auto run = [&](const std::string& body) {
    return RunKernel(AssembleOk(absl::StrCat(id, body, "s_endpgm\n"), 0, 256), "k", {1}, {128}, Arguments()).status();
  };
  EXPECT_TRUE(run(write8 + " v0, v0\n").ok());
  EXPECT_TRUE(run("ds_add_u32 v2, v0\n").ok());
  EXPECT_EQ(run(write32 + " v2, v0\n").code(), absl::StatusCode::kFailedPrecondition);
  // Even with a barrier, if the store is not waited for.
  const std::string shifted = "v_xor_b32 v1, 64, v0\n";
  const std::string wait = "s_waitcnt lgkmcnt(0)\n", barrier = "s_barrier\n";
  EXPECT_TRUE(run(absl::StrCat(shifted, write8, " v0, v0\n", wait, barrier, write8, " v1, v0\n")).ok());
  EXPECT_EQ(run(absl::StrCat(shifted, write8, " v0, v0\n", barrier, write8, " v1, v0\n")).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(Defects, ProgramCountersOutsideOfTheCodeAreSeen) {
  absl::Status status =
      RunKernel(AssembleOk("s_mov_b64 s[4:5], 64\ns_setpc_b64 s[4:5]\ns_endpgm\n", 0), "k", {1}, {1}, Arguments())
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("program counter"));
  status = RunKernel(AssembleOk("s_branch 1000\ns_endpgm\n", 0), "k", {1}, {1}, Arguments()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("leaves the kernel's code"));
  status = RunKernel(AssembleOk("s_nop 0\n", 0), "k", {1}, {1}, Arguments()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("leaves the function's code"));
}

TEST_P(Defects, UnknownInstructionsAreNamed) {
  absl::Status status =
      RunKernel(AssembleOk("s_nop 0\nv_cubeid_f32 v0, v1, v2, v3\ns_endpgm\n", 0), "k", {1}, {1}, Arguments()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), testing::AllOf(HasSubstr("v_cubeid_f32"), HasSubstr("k+0x4")));
  status =
      RunKernel(AssembleOk("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 1\ns_endpgm\n", 0), "k", {1}, {1}, Arguments())
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("rounding mode"));
}

TEST_P(Defects, EndlessLoopsEnd) {
  const absl::Status status =
      RunKernel(AssembleOk("loop:\ns_branch loop\ns_endpgm\n", 0), "k", {1}, {64}, Arguments()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(CodeObjects, BadFilesAreErrors) {
  EXPECT_EQ(LoadCodeObject("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadCodeObject(std::string(1000, 'x')).status().code(), absl::StatusCode::kInvalidArgument);
  auto elf = CompileIr("gfx1100", kReverse);
  ASSERT_TRUE(elf.ok()) << elf.status();
  // Cut anywhere, or with any byte of the headers changed: an error or a code object, never a crash.
  int errors = 0;
  for (size_t n = 0; n < elf->size(); n += 97) errors += !LoadCodeObject(elf->substr(0, n)).ok();
  EXPECT_GT(errors, 10);
  for (size_t at = 0; at < elf->size(); at += 13) {
    std::string bad = *elf;
    bad[at] = static_cast<char>(~bad[at]);
    LoadCodeObject(bad).status().IgnoreError();
  }
  std::string other = *elf;
  other[48] = 0x3f;  // e_flags: gfx90a
  EXPECT_EQ(LoadCodeObject(other).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(CodeObjects, KernelsAreDescribed) {
  auto elf = CompileIr("gfx1100", kReverse);
  ASSERT_TRUE(elf.ok()) << elf.status();
  auto code = LoadCodeObject(*elf);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ((*code)->target(), "gfx1100");
  ASSERT_EQ((*code)->kernels().size(), 1u);
  const KernelInfo& k = (*code)->kernels()[0];
  EXPECT_EQ(k.name, "reverse");
  EXPECT_EQ(k.lds_bytes, 1024u);
  EXPECT_EQ(k.wave_size, 32u);
  EXPECT_EQ(k.max_block_threads, 256u);
  EXPECT_GE(k.kernarg_bytes, 16u);
  ASSERT_GE(k.arguments.size(), 2u);
  EXPECT_EQ(k.arguments[1].value_kind, "global_buffer");
  EXPECT_EQ(k.arguments[1].offset, 8u);
  auto at = (*code)->FindSymbolAddress("reverse.kd");
  ASSERT_TRUE(at.ok());
  EXPECT_TRUE((*code)->Owns(*at, 64));
  EXPECT_FALSE((*code)->Owns(1, 1));
  EXPECT_EQ((*code)->FindSymbolAddress("nothing").status().code(), absl::StatusCode::kNotFound);
  Launch launch;
  launch.kernel = "nothing";
  EXPECT_EQ(Execute(**code, launch).status().code(), absl::StatusCode::kNotFound);
  launch.kernel = "reverse";
  EXPECT_EQ(Execute(**code, launch).status().code(), absl::StatusCode::kInvalidArgument);  // no arguments
  launch.threads.x = 512;
  EXPECT_EQ(Execute(**code, launch).status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Machines, Defects, testing::ValuesIn(kMachines), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace backplane::hip::isa
