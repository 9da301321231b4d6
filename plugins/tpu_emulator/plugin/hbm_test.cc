#include "plugins/tpu_emulator/plugin/hbm.h"

#include <unistd.h>

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace backplane::tpu {
namespace {

// Allocates more than `capacity` in one thread while another one allocates a little. Only the first one may fail.
void FailBesideAllocations(int64_t capacity, size_t too_much) {
  Hbm hbm(1, capacity, Poison::kNone);
  std::atomic<bool> stop{false};
  std::atomic<int64_t> attempts{0};
  std::thread greedy([&] {
    for (; !stop; ++attempts)
      EXPECT_EQ(hbm.Allocate(0, too_much).status().code(), absl::StatusCode::kResourceExhausted);
  });
  while (attempts == 0) {
  }
  int64_t failed = 0;
  for (int k = 0; k < 10'000 || attempts < 10'000; ++k) {
    const absl::StatusOr<void*> small = hbm.Allocate(0, 1024);
    if (small.ok()) {
      hbm.Free(0, *small, 1024);
    } else {
      ++failed;
    }
  }
  stop = true;
  greedy.join();
  EXPECT_EQ(failed, 0);
}

TEST(Hbm, FailsOnlyTheRequestThatIsTooLarge) { FailBesideAllocations(1 << 20, (1 << 20) + 1); }

// The emulated device has more memory than the host. The host's memory is almost enough for the request, but some of it
// is always in use.
TEST(Hbm, FailsOnlyTheRequestThatIsTooLargeForTheHost) {
  const size_t host_bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  FailBesideAllocations(int64_t{1} << 60, host_bytes - 512);
}

TEST(Hbm, CountsWhatIsInUse) {
  Hbm hbm(2, 4096, Poison::kNone);
  const absl::StatusOr<void*> first = hbm.Allocate(0, 3000);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(hbm.Allocate(0, 1097).ok());
  const absl::StatusOr<void*> second = hbm.Allocate(0, 1096), other = hbm.Allocate(1, 4096);
  ASSERT_TRUE(second.ok() && other.ok()) << second.status() << other.status();
  hbm.Free(0, *second, 1096);
  hbm.Free(1, *other, 4096);
  hbm.Free(0, *first, 3000);
  const absl::StatusOr<void*> all = hbm.Allocate(0, 4096);
  ASSERT_TRUE(all.ok()) << all.status();
  hbm.Free(0, *all, 4096);
}

}  // namespace
}  // namespace backplane::tpu
