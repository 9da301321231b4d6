// Machine code of AMD GPUs in libhipemu, run by the interpreter: what a GPU would load, made by LLVM in this process.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/testing/emulated_testing.h"
#include "plugins/hip/isa/test_support/kernels.h"

namespace backplane::hip {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// add: o[i] = a[i] + 1 for i < n, in blocks of 64. far: o[i + shift] = 7 for one thread.
constexpr char kIr[] = R"(
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
@table = addrspace(4) constant [4 x i32] [i32 2, i32 7, i32 1, i32 8]

define amdgpu_kernel void @add(ptr addrspace(1) %o, i32 %n, ptr addrspace(1) %a) {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %g, 64
  %i = add i32 %base, %t
  %in = icmp slt i32 %i, %n
  br i1 %in, label %work, label %done
work:
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %po = getelementptr float, ptr addrspace(1) %o, i32 %i
  %x = load float, ptr addrspace(1) %pa
  %s = fadd float %x, 1.0
  store float %s, ptr addrspace(1) %po
  br label %done
done:
  ret void
}

define amdgpu_kernel void @far(ptr addrspace(1) %o, i32 %shift) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %i = add i32 %shift, %t
  %p = getelementptr float, ptr addrspace(1) %o, i32 %i
  store float 7.0, ptr addrspace(1) %p
  ret void
}
)";

class EmulatedCodeObjectTest : public EmulatedTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Start({{"HIPEMU_ARCH", GetParam()}});
    const absl::StatusOr<std::string> image = isa::CompileIr(GetParam(), kIr);
    ASSERT_TRUE(image.ok()) << image.status();
    image_ = *image;
    ASSERT_HIP(api_.hipModuleLoadData(&module_, image_.data()));
    ASSERT_HIP(api_.hipModuleGetFunction(&add_, module_, "add"));
    ASSERT_HIP(api_.hipModuleGetFunction(&far_, module_, "far"));
  }
  hipError_t LaunchAdd(void* to, int count, void* from, hipStream_t stream) {
    void* parameters[] = {&to, &count, &from};
    return api_.hipModuleLaunchKernel(add_, static_cast<unsigned>(count + 63) / 64, 1, 1, 64, 1, 1, 0, stream,
                                      parameters, nullptr);
  }
  hipError_t LaunchFar(void* to, int shift, hipStream_t stream) {
    struct {
      void* to;
      int shift;
    } arguments{to, shift};
    return Launch(far_, 1, 1, stream, arguments);
  }
  std::string image_;
  hipModule_t module_ = nullptr;
  hipFunction_t add_ = nullptr, far_ = nullptr;
};

TEST_P(EmulatedCodeObjectTest, RunsWithBothFormsOfArguments) {
  std::vector<float> values(1000), result(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  void* a = Allocate(4000);
  void* b = Allocate(4000);
  EXPECT_HIP(api_.hipMemcpyHtoDAsync(a, values.data(), 4000, nullptr));
  EXPECT_HIP(LaunchAdd(b, 1000, a, nullptr));
  EXPECT_HIP(LaunchFar(b, 999, nullptr));
  EXPECT_HIP(api_.hipMemcpyDtoHAsync(result.data(), b, 4000, nullptr));
  for (float& value : values) value += 1;
  values[999] = 7;
  EXPECT_EQ(result, values);
  EXPECT_EQ(FormatReport(), "");
}

TEST_P(EmulatedCodeObjectTest, FindsAccessesBehindTheEnd) {
  void* memory = Allocate(64);
  EXPECT_HIP(LaunchFar(memory, 15, nullptr));
  EXPECT_HIP(api_.hipDeviceSynchronize());
  EXPECT_HIP(LaunchFar(memory, 16, nullptr));
  EXPECT_HIP_ERROR(api_.hipDeviceSynchronize(), hipErrorIllegalAddress);
  EXPECT_THAT(FormatReport(), HasSubstr("kernel far on the null stream of device 0"));
  EXPECT_THAT(FormatReport(), HasSubstr("ends 4 bytes behind allocation 1 of 64 bytes"));
}

TEST_P(EmulatedCodeObjectTest, KnowsEachAccessForTheOrderOfStreams) {
  char* memory = static_cast<char*>(Allocate(8192));
  hipStream_t first = NewStream(), second = NewStream();
  EXPECT_HIP(api_.hipMemsetD8Async(memory, 0, 8192, first));
  EXPECT_HIP(api_.hipDeviceSynchronize());
  // The kernel's pointer is the beginning, the other stream's half is the second: no conflict.
  EXPECT_HIP(LaunchAdd(memory, 1024, memory, first));
  EXPECT_HIP(api_.hipMemsetD8Async(memory + 4096, 1, 4096, second));
  EXPECT_HIP(api_.hipDeviceSynchronize());
  // An element of the second half: a conflict, far from the pointer.
  EXPECT_HIP(LaunchFar(memory, 2000, first));
  EXPECT_HIP(api_.hipMemsetD8Async(memory + 4096, 1, 4096, second));
  EXPECT_HIP_ERROR(api_.hipDeviceSynchronize(), hipErrorLaunchFailure);
  EXPECT_THAT(FormatReport(), HasSubstr("no order between streams"));
}

TEST_P(EmulatedCodeObjectTest, FindsVariables) {
  hipDeviceptr_t address = nullptr;
  size_t bytes = 0;
  ASSERT_HIP(api_.hipModuleGetGlobal(&address, &bytes, module_, "table"));
  EXPECT_EQ(bytes, 16u);
  std::vector<int> values(4);
  EXPECT_HIP(api_.hipMemcpyDtoHAsync(values.data(), address, 16, nullptr));
  EXPECT_THAT(values, ElementsAre(2, 7, 1, 8));
}

TEST_P(EmulatedCodeObjectTest, TellsRegisters) {
  int registers = 0, threads = 0;
  EXPECT_HIP(api_.hipFuncGetAttribute(&registers, HIP_FUNC_ATTRIBUTE_NUM_REGS, add_));
  EXPECT_GT(registers, 0);
  EXPECT_HIP(api_.hipFuncGetAttribute(&threads, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add_));
  EXPECT_EQ(threads, 1024);
}

TEST_P(EmulatedCodeObjectTest, RefusesOtherMachines) {
  const std::string other = std::string(GetParam()) == "gfx942" ? "gfx1100" : "gfx942";
  const absl::StatusOr<std::string> image = isa::CompileIr(other, kIr);
  ASSERT_TRUE(image.ok());
  hipModule_t module = nullptr;
  EXPECT_HIP_ERROR(api_.hipModuleLoadData(&module, image->data()), hipErrorNoBinaryForGpu);
  EXPECT_THAT(FormatReport(), HasSubstr(absl::StrCat("the code object is for ", other)));
}

INSTANTIATE_TEST_SUITE_P(Machines, EmulatedCodeObjectTest, ::testing::ValuesIn(isa::kMachines));

}  // namespace
}  // namespace backplane::hip
