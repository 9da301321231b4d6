#include "sdk/backend/host_limits.h"

#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace backplane {
namespace {

// Creates files as the kernel would show them.
class HostLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "host_limits_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void Version2(const std::string& group, const std::string& mount_root = "/") {
    Write("/proc/self/cgroup", "0::" + group + "\n");
    Write("/proc/self/mountinfo", "22 20 0:5 / /proc rw - proc proc rw\n31 23 0:28 " + mount_root +
                                      " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  std::string root_;
};

TEST_F(HostLimitsTest, WithoutGroupsThereIsNoLimit) {
  EXPECT_EQ(ReadCpuQuota(root_), 0);
  EXPECT_EQ(GroupMemoryBytes(root_), 0);
  EXPECT_EQ(CountAvailableCpus(root_), CountAffinityCpus());
  EXPECT_FALSE(IsCpuTimeRationed(root_));
  EXPECT_GT(ReadHostMemoryBytes(root_), 0);
}

TEST_F(HostLimitsTest, Version2) {
  Version2("/");
  Write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
  Write("/sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_DOUBLE_EQ(ReadCpuQuota(root_), 1.5);
  EXPECT_EQ(GroupMemoryBytes(root_), 1048576);
  EXPECT_EQ(ReadHostMemoryBytes(root_), 1048576);
}

TEST_F(HostLimitsTest, TheWordMaxIsNoLimit) {
  Version2("/");
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(ReadCpuQuota(root_), 0);
  EXPECT_EQ(GroupMemoryBytes(root_), 0);
}

TEST_F(HostLimitsTest, TheSmallestLimitOfNestedGroupsCounts) {
  Version2("/slice/job/step");
  Write("/sys/fs/cgroup/slice/cpu.max", "400000 100000\n");
  Write("/sys/fs/cgroup/slice/job/cpu.max", "50000 100000\n");
  Write("/sys/fs/cgroup/slice/job/step/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/slice/memory.max", "4096000\n");
  Write("/sys/fs/cgroup/slice/job/step/memory.max", "8192000\n");
  EXPECT_DOUBLE_EQ(ReadCpuQuota(root_), 0.5);
  EXPECT_EQ(GroupMemoryBytes(root_), 4096000);
  EXPECT_EQ(CountAvailableCpus(root_), 1);
  EXPECT_TRUE(IsCpuTimeRationed(root_));
}

TEST_F(HostLimitsTest, OtherGroupsDoNotCount) {
  Version2("/mine");
  Write("/sys/fs/cgroup/other/cpu.max", "50000 100000\n");
  Write("/sys/fs/cgroup/mine/below/cpu.max", "50000 100000\n");
  EXPECT_EQ(ReadCpuQuota(root_), 0);
}

TEST_F(HostLimitsTest, Version1) {
  Write("/proc/self/cgroup", "4:memory:/box/a\n3:cpu,cpuacct:/box/a\n1:name=systemd:/box\n");
  Write("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "25000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "50000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/box/a/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/box/a/memory.limit_in_bytes", "777216\n");
  EXPECT_DOUBLE_EQ(ReadCpuQuota(root_), 0.5);
  EXPECT_EQ(GroupMemoryBytes(root_), 777216);
}

// Version 1 for processors and version 2 for memory, as on older systems.
TEST_F(HostLimitsTest, BothVersionsSideBySide) {
  Write("/proc/self/cgroup", "1:cpu:/a\n0::/b\n");
  Write("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  Write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000");
  Write("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000");
  Write("/sys/fs/cgroup/unified/b/cpu.max", "200000 100000");
  EXPECT_DOUBLE_EQ(ReadCpuQuota(root_), 2);
}

// A container sees its own group as the root of the mount.
TEST_F(HostLimitsTest, AMountOfAPartOfTheHierarchy) {
  Version2("/docker/abc/inner", "/docker/abc");
  Write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  Write("/sys/fs/cgroup/inner/cpu.max", "80000 100000\n");
  EXPECT_DOUBLE_EQ(ReadCpuQuota(root_), 0.8);
  Version2("/elsewhere", "/docker/abc");
  EXPECT_DOUBLE_EQ(ReadCpuQuota(root_), 1);
  Version2("/../outside");
  EXPECT_DOUBLE_EQ(ReadCpuQuota(root_), 1);
}

TEST_F(HostLimitsTest, NonsenseIsNoLimit) {
  Version2("/");
  for (const char* text : {"", "\n", "nonsense", "-5 100000", "0 0", "100000 x", "99999999999999999999 1"}) {
    Write("/sys/fs/cgroup/cpu.max", text);
    Write("/sys/fs/cgroup/memory.max", text);
    EXPECT_EQ(ReadCpuQuota(root_), 0) << text;
    EXPECT_EQ(GroupMemoryBytes(root_), 0) << text;
  }
  Write("/proc/self/mountinfo", "short line\n - \n1 2 3 4 5 - cgroup2\n");
  EXPECT_EQ(ReadCpuQuota(root_), 0);
}

TEST_F(HostLimitsTest, AQuotaBeyondTheCpusChangesNothing) {
  Version2("/");
  Write("/sys/fs/cgroup/cpu.max", "99999900000 100000\n");
  EXPECT_EQ(CountAvailableCpus(root_), CountAffinityCpus());
  EXPECT_FALSE(IsCpuTimeRationed(root_));
}

// In a separate thread, so that the mask of this one does not change.
TEST_F(HostLimitsTest, TheAffinityMaskCounts) {
  std::thread([&] {
    cpu_set_t all, one;
    CPU_ZERO(&all);
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &all)) continue;
      CPU_SET(cpu, &one);
      break;
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(CountAffinityCpus(), 1);
    EXPECT_EQ(CountAvailableCpus(root_), 1);
  }).join();
}

}  // namespace
}  // namespace backplane
