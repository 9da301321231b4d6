// Images for every target: complete, of the right machine and version, and described.
#include "plugins/hip/lowering/lowering.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"
#include "plugins/hip/lowering/lowering_testing.h"
#include "sdk/codegen/targets_testing.h"

namespace backplane::hip {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const GpuTarget& TargetOf(const std::string& name) {
  auto target = FindGpuTarget(name);
  EXPECT_TRUE(target.ok()) << target.status();
  static std::vector<std::unique_ptr<GpuTarget>> found;
  found.push_back(std::make_unique<GpuTarget>(target.value_or(GpuTarget())));
  return *found.back();
}

std::vector<std::string> NamesOf(const Image& image) {
  std::vector<std::string> names;
  for (const KernelResources& kernel : image.kernels) names.push_back(kernel.name);
  return names;
}

// A header and dynamic section as an image must have.
void CheckElf(const std::string& image, uint16_t machine, uint8_t os_abi, uint8_t abi_version) {
  auto elf = llvm::object::ELFFile<llvm::object::ELF64LE>::create(image);
  ASSERT_TRUE(static_cast<bool>(elf)) << llvm::toString(elf.takeError());
  const auto& header = elf->getHeader();
  EXPECT_EQ(header.e_type, llvm::ELF::ET_DYN);
  EXPECT_EQ(header.e_machine, machine);
  EXPECT_EQ(header.e_ident[llvm::ELF::EI_OSABI], os_abi);
  EXPECT_EQ(header.e_ident[llvm::ELF::EI_ABIVERSION], abi_version);
  auto entries = elf->dynamicEntries();
  ASSERT_TRUE(static_cast<bool>(entries)) << llvm::toString(entries.takeError());
  for (const auto& entry : *entries) EXPECT_NE(entry.getTag(), llvm::ELF::DT_NEEDED);
  EXPECT_THAT(codegen::UndefinedSymbols(image), IsEmpty());
}

uint8_t AbiVersion(int code_object_version) {
  return code_object_version == 4   ? llvm::ELF::ELFABIVERSION_AMDGPU_HSA_V4
         : code_object_version == 5 ? llvm::ELF::ELFABIVERSION_AMDGPU_HSA_V5
                                    : llvm::ELF::ELFABIVERSION_AMDGPU_HSA_V6;
}

// The numbers after "; Occupancy: " in assembly.
std::vector<int> OccupanciesIn(const std::string& text) {
  std::vector<int> found;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "; Occupancy: ")) found.push_back(std::atoi(line.data() + 13));
  }
  return found;
}

class AllTargets : public ::testing::TestWithParam<std::string> {};
class AmdTargets : public AllTargets {};
class NvidiaTargets : public AllTargets {};

std::vector<std::string> TargetsOfKind(ImageKind kind) {
  std::vector<std::string> names;
  for (const std::string& name : ListGpuTargets()) {
    if (FindGpuTarget(name)->kind == kind) names.push_back(name);
  }
  return names;
}

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

TEST_P(AllTargets, CompileKernels) {
  const GpuTarget& target = TargetOf(GetParam());
  EXPECT_EQ(target.name, GetParam());
  auto image = LowerKernels(target, AllKernels());
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(NamesOf(*image), ElementsAre("elementwise", "numbers", "matmul", "block_sum", "lanes", "atomics",
                                           "division", "floats", "private_array", "last_block"));
  for (const KernelResources& kernel : image->kernels) {
    EXPECT_EQ(kernel.shared_bytes, kernel.name == "matmul" ? 2048 : kernel.name == "block_sum" ? 32 : 0) << kernel.name;
    const bool is_large = kernel.name == "elementwise" || kernel.name == "matmul" || kernel.name == "block_sum";
    EXPECT_EQ(kernel.threads, is_large ? 256 : kernel.name == "last_block" ? 1 : 64) << kernel.name;
  }
  switch (target.kind) {
    case ImageKind::kHost:
      CheckElf(image->bytes, llvm::ELF::EM_X86_64, llvm::ELF::ELFOSABI_NONE, 0);
      break;
    case ImageKind::kPtx:
      EXPECT_THAT(image->bytes, HasSubstr(absl::StrCat(".target ", target.name)));
      EXPECT_EQ(codegen::CountOccurrences(image->bytes, ".visible .entry"), static_cast<int>(kAllKernels));
      EXPECT_EQ(codegen::CountOccurrences(image->bytes, ".maxntid"), static_cast<int>(kAllKernels));
      EXPECT_THAT(image->bytes, Not(HasSubstr(".extern")));
      break;
    case ImageKind::kAmdCodeObject:
      CheckElf(image->bytes, llvm::ELF::EM_AMDGPU, llvm::ELF::ELFOSABI_AMDGPU_HSA,
               AbiVersion(target.code_object_version));
      for (const KernelResources& kernel : image->kernels) {
        EXPECT_GT(kernel.vgprs, 0) << kernel.name;
        EXPECT_LE(kernel.vgprs, target.max_vgprs) << kernel.name;
        EXPECT_GT(kernel.sgprs, 0) << kernel.name;
        EXPECT_EQ(kernel.agprs, 0) << kernel.name;
        EXPECT_EQ(kernel.spilled_registers, 0) << kernel.name;
        EXPECT_EQ(kernel.scratch_bytes, 0) << kernel.name;
        EXPECT_GT(kernel.code_bytes, 16) << kernel.name;
      }
      break;
  }
}

// LLVM computes the same number from its own tables.
TEST_P(AmdTargets, KnowOccupancy) {
  const GpuTarget& target = TargetOf(GetParam());
  for (int bytes : {4, 9000, 20000, 40000, 65536}) {
    // A kernel with many registers and one with much shared memory.
    const std::string text =
        absl::StrCat(kMatmul, "@large = internal addrspace(3) global [", bytes, R"( x i8] undef, align 4
define void @shares(ptr addrspace(1) %y) "backplane-kernel"="256" {
  %t = call i32 @gpu.thread()
  %p = getelementptr inbounds i8, ptr addrspace(3) @large, i32 %t
  store volatile i8 1, ptr addrspace(3) %p, align 1
  ret void
})");
    auto image = LowerKernels(target, text);
    ASSERT_TRUE(image.ok()) << image.status();
    llvm::LLVMContext context;
    auto module = ParseKernels(context, target, text);
    ASSERT_TRUE(module.ok()) << module.status();
    auto assembly = LowerToText(**module, target);
    ASSERT_TRUE(assembly.ok()) << assembly.status();
    std::vector<int> occupancies;
    for (const KernelResources& kernel : image->kernels) occupancies.push_back(kernel.occupancy);
    EXPECT_EQ(occupancies, OccupanciesIn(*assembly)) << bytes << " bytes, registers " << image->kernels[0].vgprs;
  }
}

TEST_P(NvidiaTargets, AreAssembledByPtxas) {
  const GpuTarget& target = TargetOf(GetParam());
  if (std::system("ptxas --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no ptxas";
  auto image = LowerKernels(target, AllKernels());
  ASSERT_TRUE(image.ok()) << image.status();
  const std::string path = absl::StrCat(::testing::TempDir(), "/lowering_test_", getpid(), ".ptx");
  FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fwrite(image->bytes.data(), 1, image->bytes.size(), file);
  std::fclose(file);
  EXPECT_EQ(std::system(absl::StrCat("ptxas -v -arch=", target.name, " -o /dev/null ", path).c_str()), 0);
  std::remove(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(Lowering, AllTargets, ::testing::ValuesIn(ListGpuTargets()), TestName);
INSTANTIATE_TEST_SUITE_P(Lowering, AmdTargets, ::testing::ValuesIn(TargetsOfKind(ImageKind::kAmdCodeObject)), TestName);
INSTANTIATE_TEST_SUITE_P(Lowering, NvidiaTargets, ::testing::ValuesIn(TargetsOfKind(ImageKind::kPtx)), TestName);

TEST(Lowering, KnowsMachines) {
  EXPECT_EQ(TargetOf("gfx942").wave_size, 64);
  EXPECT_EQ(TargetOf("gfx942").max_vgprs, 512);
  EXPECT_EQ(TargetOf("gfx1100").wave_size, 32);
  EXPECT_EQ(TargetOf("gfx1100").max_vgprs, 256);
  EXPECT_EQ(TargetOf("gfx9-generic").code_object_version, 6);
  EXPECT_EQ(TargetOf("sm_90").shared_bytes, 227 * 1024);
  EXPECT_EQ(TargetOf("host").ir.buffer_address_space, 1u);
  const absl::Status none = FindGpuTarget("gfx9999").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("\"gfx9999\"; those known: gfx906, gfx908, gfx90a, gfx942"));
  EXPECT_THAT(std::string(none.message()), HasSubstr("sm_90, sm_90a, host"));
}

TEST(Lowering, UsesSingleInstructionsWhereMachinesHaveThem) {
  auto assembly = [](const char* name, absl::string_view kernels) {
    llvm::LLVMContext context;
    auto module = ParseKernels(context, TargetOf(name), kernels);
    EXPECT_TRUE(module.ok()) << module.status();
    return LowerToText(**module, TargetOf(name)).value_or("");
  };
  EXPECT_THAT(assembly("gfx942", kAtomics), HasSubstr("global_atomic_add_f32"));
  EXPECT_THAT(assembly("gfx1100", kAtomics), HasSubstr("global_atomic_add_f32"));
  EXPECT_THAT(assembly("gfx906", kAtomics), Not(HasSubstr("global_atomic_add_f32")));
  EXPECT_THAT(assembly("gfx942", kBlockSum), HasSubstr("ds_swizzle_b32"));
  EXPECT_THAT(assembly("gfx942", kBlockSum), HasSubstr("quad_perm:[1,0,3,2]"));
  EXPECT_THAT(assembly("gfx1100", kBlockSum), HasSubstr("v_permlanex16_b32"));
  EXPECT_THAT(assembly("gfx1100", kBlockSum), HasSubstr("row_xmask:8"));
  EXPECT_THAT(assembly("gfx942", kLanes), HasSubstr("ds_bpermute_b32"));
  EXPECT_THAT(assembly("sm_90", kBlockSum), HasSubstr("shfl.sync.bfly.b32"));
  EXPECT_THAT(assembly("sm_90", kLanes), HasSubstr("shfl.sync.idx.b32"));
  EXPECT_THAT(assembly("sm_90", kBlockSum), HasSubstr("bar.sync"));
  EXPECT_THAT(assembly("sm_90", kAtomics), HasSubstr("atom.global.add.f32"));
  EXPECT_THAT(assembly("sm_90", kLastBlock), HasSubstr("membar.gl"));
}

// Rows of bytes begin anywhere. LLVM 19 loads <16 x i8> by one instruction, which needs an address that is a multiple
// of 16, and passes turn other loads of 16 bytes into such ones.
TEST(Lowering, LoadsUnalignedBytesByInstructionsThatMayBeUnaligned) {
  constexpr char kBytes[] = R"(
define void @bytes(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %pitch) "backplane-kernel"="64" {
  %t = call i32 @gpu.thread()
  %row = mul i32 %t, %pitch
  %from = getelementptr i8, ptr addrspace(1) %x, i32 %row
  %words = load <4 x i32>, ptr addrspace(1) %from, align ALIGNMENT
  %bytes = bitcast <4 x i32> %words to <16 x i8>
  %reversed = shufflevector <16 x i8> %bytes, <16 x i8> %bytes, <16 x i32> <i32 15, i32 14, i32 13, i32 12, i32 11,
      i32 10, i32 9, i32 8, i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>
  %place = mul i32 %t, 16
  %to = getelementptr i8, ptr addrspace(1) %y, i32 %place
  store <16 x i8> %reversed, ptr addrspace(1) %to, align 16
  ret void
})";
  for (const auto& [alignment, instruction] :
       {std::pair{"1", "ld.global.u8"}, {"2", "ld.global.u16"}, {"4", "ld.global.u32"}, {"8", "ld.global.v2.u32"}}) {
    llvm::LLVMContext context;
    auto module = ParseKernels(context, TargetOf("sm_90"), absl::StrReplaceAll(kBytes, {{"ALIGNMENT", alignment}}));
    ASSERT_TRUE(module.ok()) << module.status();
    const std::string text = LowerToText(**module, TargetOf("sm_90")).value_or("");
    EXPECT_THAT(text, HasSubstr(instruction)) << alignment;
    EXPECT_THAT(text, Not(HasSubstr("ld.global.v4"))) << alignment;
  }
}

TEST(Lowering, MakesCodeObjectsOfVersion4) {
  GpuTarget target = TargetOf("gfx90a");
  target.code_object_version = 4;
  auto image = LowerKernels(target, kNumbers);
  ASSERT_TRUE(image.ok()) << image.status();
  CheckElf(image->bytes, llvm::ELF::EM_AMDGPU, llvm::ELF::ELFOSABI_AMDGPU_HSA, llvm::ELF::ELFABIVERSION_AMDGPU_HSA_V4);
}

TEST(Lowering, GivesTheSameImagesFromManyThreads) {
  std::vector<std::string> expected, found(8);
  const std::vector<std::string> names = {"gfx942", "gfx1100", "sm_90", "host"};
  for (const std::string& name : names) expected.push_back(LowerKernels(TargetOf(name), AllKernels())->bytes);
  std::vector<GpuTarget> targets;
  for (const std::string& name : names) targets.push_back(TargetOf(name));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 3; ++n) {
        auto image = LowerKernels(targets[i % 4], AllKernels());
        found[i] = image.ok() ? image->bytes : image.status().ToString();
        if (found[i] != expected[i % 4]) return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i] == expected[i % 4]) << found[i].substr(0, 300);
}

// The linker and LLVM could install handlers of signals or leave files open.
TEST(Lowering, LeavesTheProcessAlone) {
  auto handlers = [] {
    std::vector<void (*)(int)> found;
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGABRT, SIGPIPE, SIGUSR2}) {
      struct sigaction action;
      EXPECT_EQ(sigaction(signal, nullptr, &action), 0);
      found.push_back(action.sa_handler);
    }
    return found;
  };
  auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const auto handlers_before = handlers();
  const auto files_before = open_files();
  for (const char* name : {"gfx942", "sm_90", "host"}) {
    ASSERT_TRUE(LowerKernels(TargetOf(name), kMatmul).ok()) << name;
  }
  EXPECT_EQ(handlers(), handlers_before);
  EXPECT_EQ(open_files(), files_before);
}

TEST(Lowering, KnowsTargetsOfDevices) {
  EXPECT_EQ(FindTargetOfArchitecture("gfx942:sramecc+:xnack-"), "gfx942");
  EXPECT_EQ(FindTargetOfArchitecture("gfx1100"), "gfx1100");
  EXPECT_EQ(FindTargetOfArchitecture("sm_90"), "sm_90a");  // its code runs on no other GPU
  EXPECT_EQ(FindTargetOfArchitecture("sm_87"), "sm_86");
  EXPECT_EQ(FindTargetOfArchitecture("sm_100"), "sm_90");
  EXPECT_EQ(FindTargetOfArchitecture("sm_120"), "sm_90");
  EXPECT_EQ(FindTargetOfArchitecture("sm_75"), "sm_75");
  EXPECT_FALSE(FindGpuTarget("sm_75").ok());
}

TEST(Lowering, ProductsByTf32ArePartOfTheName) {
  auto target = FindGpuTarget("sm_90:tf32");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->name, "sm_90");
  EXPECT_TRUE(target->tf32_products);
  EXPECT_FALSE(TargetOf("sm_90").tf32_products);
  const absl::Status status = FindGpuTarget("gfx942:tf32").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("target \"gfx942\" has no products by tf32"));
}

// PTX converts every NaN to the positive one. An order of all numbers needs its sign, and a copy all of its bits.
TEST(Lowering, KeepsTheSignsOfNansOfHalf) {
  constexpr char kText[] = R"(define void @widen(ptr addrspace(1) %x, ptr addrspace(1) %y) "backplane-kernel"="32" {
  %h = load half, ptr addrspace(1) %x, align 2
  %f = fpext half %h to float
  store float %f, ptr addrspace(1) %y, align 4
  ret void
}
define void @narrow(ptr addrspace(1) %x, ptr addrspace(1) %y) "backplane-kernel"="32" {
  %f = load float, ptr addrspace(1) %x, align 4
  %h = fptrunc float %f to half
  store half %h, ptr addrspace(1) %y, align 2
  ret void
}
define void @copy(ptr addrspace(1) %x, ptr addrspace(1) %y) "backplane-kernel"="32" {
  %h = load half, ptr addrspace(1) %x, align 2
  %f = fpext half %h to float
  %g = fptrunc float %f to half
  store half %g, ptr addrspace(1) %y, align 2
  ret void
})";
  auto image = LowerKernels(TargetOf("sm_90"), kText);
  ASSERT_TRUE(image.ok()) << image.status();
  const std::string ptx = image->bytes;
  auto kernel = [&](const char* name) {
    const size_t begin = ptx.find(absl::StrCat(".entry ", name, "("));
    return begin == std::string::npos ? "" : ptx.substr(begin, ptx.find("// -- End function", begin) - begin);
  };
  EXPECT_THAT(kernel("widen"), HasSubstr("cvt.f32.f16"));
  EXPECT_THAT(kernel("widen"), HasSubstr("2147483647"));  // all bits but the sign
  EXPECT_THAT(kernel("narrow"), HasSubstr("cvt.rn.f16.f32"));
  EXPECT_THAT(kernel("narrow"), HasSubstr("32767"));
  EXPECT_THAT(kernel("copy"), Not(HasSubstr("cvt")));
}

// More shared memory than PTX can declare.
TEST(Lowering, LeavesMuchSharedMemoryToTheLaunch) {
  constexpr char kText[] = R"(@a = internal addrspace(3) global [40000 x i8] undef, align 16
@b = internal addrspace(3) global [40000 x i8] undef, align 16
@c = internal addrspace(3) global [64 x i8] undef, align 16
define void @large(ptr addrspace(1) %y) "backplane-kernel"="32" {
  %t = call i32 @gpu.thread()
  %p = getelementptr inbounds i8, ptr addrspace(3) @a, i32 %t
  %q = getelementptr inbounds i8, ptr addrspace(3) @b, i32 %t
  store volatile i8 1, ptr addrspace(3) %p, align 1
  store volatile i8 2, ptr addrspace(3) %q, align 1
  store volatile i8 3, ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @b, i32 77), align 1
  ret void
}
define void @small(ptr addrspace(1) %y) "backplane-kernel"="32" {
  %t = call i32 @gpu.thread()
  %p = getelementptr inbounds i8, ptr addrspace(3) @c, i32 %t
  store volatile i8 1, ptr addrspace(3) %p, align 1
  ret void
})";
  auto image = LowerKernels(TargetOf("sm_90"), kText);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->bytes, HasSubstr(".extern .shared .align 16 .b8 dynamic_shared[]"));
  EXPECT_THAT(image->bytes, HasSubstr("dynamic_shared+40077]"));
  EXPECT_EQ(ReadDynamicSharedBytes(image->bytes, "large"), 80000);
  EXPECT_EQ(ReadDynamicSharedBytes(image->bytes, "small"), 0);
  EXPECT_EQ(ReadDynamicSharedBytes(image->bytes, "larg"), 0);
  EXPECT_EQ(ReadDynamicSharedBytes(LowerKernels(TargetOf("sm_90"), kMatmul)->bytes, "matmul"), 0);
}

struct Mistake {
  const char* name;
  const char* text;
  absl::StatusCode code;
  const char* message;
};

constexpr Mistake kMistakes[] = {
    {"NoKernel", "define internal void @f() {\n ret void\n}", absl::StatusCode::kInvalidArgument, "no kernel"},
    {"NotInternal", R"(define void @f() { ret void }
                       define void @k() "backplane-kernel"="1" { ret void })",
     absl::StatusCode::kInvalidArgument, "f: neither internal nor a kernel"},
    {"UnknownFunction", R"(declare float @sinf(float)
                           define void @k() "backplane-kernel"="1" { %s = call float @sinf(float 0.0) ret void })",
     absl::StatusCode::kInvalidArgument, "sinf: a function without a body"},
    {"ElementaryFunction", R"(declare float @llvm.sin.f32(float)
                              define void @k() "backplane-kernel"="1" {
                                %s = call float @llvm.sin.f32(float 0.0)
                                ret void
                              })",
     absl::StatusCode::kInvalidArgument, "llvm.sin.f32: not an instruction of all targets"},
    {"Name", "define void @add.1() \"backplane-kernel\"=\"1\" { ret void }", absl::StatusCode::kInvalidArgument,
     "add.1: a kernel's name has letters"},
    {"NoNumber", "define void @k() \"backplane-kernel\"=\"many\" { ret void }", absl::StatusCode::kInvalidArgument,
     "k: attribute \"backplane-kernel\" is \"many\""},
    {"TooManyThreads", "define void @k() \"backplane-kernel\"=\"1025\" { ret void }",
     absl::StatusCode::kResourceExhausted, "k: 1025 threads"},
    {"ReturnsValue", "define i32 @k() \"backplane-kernel\"=\"1\" { ret i32 0 }", absl::StatusCode::kInvalidArgument,
     "k: a kernel returns void, not i32"},
    {"FloatParameter", "define void @k(i32 %a, float %x) \"backplane-kernel\"=\"1\" { ret void }",
     absl::StatusCode::kInvalidArgument, "k: parameter 1 is float"},
    {"GenericPointer", "define void @k(ptr %x) \"backplane-kernel\"=\"1\" { ret void }",
     absl::StatusCode::kInvalidArgument, "k: parameter 0 is ptr"},
    {"CalledKernel", R"(define void @k() "backplane-kernel"="1" { ret void }
                        define void @l() "backplane-kernel"="1" { call void @k() ret void })",
     absl::StatusCode::kInvalidArgument, "k: a kernel is called"},
    {"TooMuchShared", R"(@a = internal addrspace(3) global [40000 x i8] undef
                         @b = internal addrspace(3) global [400000 x i8] undef
                         define void @k() "backplane-kernel"="1" {
                           store volatile i8 0, ptr addrspace(3) @a
                           store volatile i8 0, ptr addrspace(3) @b
                           ret void
                         })",
     absl::StatusCode::kResourceExhausted, "k: variable b ends at 440"},
    {"InitializedShared", R"(@a = internal addrspace(3) global i32 7
                             define void @k() "backplane-kernel"="1" { ret void })",
     absl::StatusCode::kInvalidArgument, "a: shared memory has no initial value"},
    {"Variable", R"(@a = internal global i32 7
                    define void @k() "backplane-kernel"="1" { ret void })",
     absl::StatusCode::kInvalidArgument, "a: a global variable is constant"},
    {"Shuffle48", R"(define void @k() "backplane-kernel"="48" {
                       %v = call i32 @gpu.shuffle.xor(i32 1, i32 1)
                       ret void
                     })",
     absl::StatusCode::kInvalidArgument, "k: shuffles in a block of 48 threads"},
    {"Recursive", R"(define internal void @f() { call void @gpu.barrier() call void @f() ret void }
                     define void @k() "backplane-kernel"="1" { call void @f() ret void })",
     absl::StatusCode::kInvalidArgument, "f: a function that uses threads or shared memory calls itself"},
};

TEST(Lowering, NamesMistakes) {
  for (const char* name : {"gfx942", "sm_80", "host"}) {
    for (const Mistake& mistake : kMistakes) {
      const absl::Status status = LowerKernels(TargetOf(name), mistake.text).status();
      EXPECT_EQ(status.code(), mistake.code) << name << ", " << mistake.name << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(mistake.message)) << name << ", " << mistake.name;
    }
  }
}

TEST(Lowering, RefusesModulesOfOtherTargets) {
  llvm::LLVMContext context;
  auto module = ParseKernels(context, TargetOf("gfx942"), kElementwise);
  ASSERT_TRUE(module.ok()) << module.status();
  const absl::Status status = Lower(**module, TargetOf("sm_90")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"amdgcn-amd-amdhsa\", that of sm_90"));
}

}  // namespace
}  // namespace backplane::hip
