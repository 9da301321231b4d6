// Compares the sizes that are passed to older plugins with the snapshots of the published layouts, and tests the list
// of slots.
#include "sdk/host/struct_sizes.h"

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "sdk/host/loader.h"

namespace backplane::host {
namespace {

struct Snapshot {
  std::map<std::string, size_t> sizes;  // STRUCT_SIZE by struct
  std::map<std::string, int> slots;
};

Snapshot Read(int minor) {
  Snapshot snapshot;
  std::ifstream file(std::string(BACKPLANE_SOURCE_DIR) + "/api/abi/pjrt_0_" + std::to_string(minor) + ".txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, a, b, c;
    words >> kind >> a >> b >> c;
    if (kind == "struct" && !c.empty() && isdigit(c[0]))
      snapshot.sizes[a] = std::stoul(c);  // some have no published size
    if (kind == "slot") snapshot.slots[b] = std::stoi(a);
  }
  return snapshot;
}

constexpr int kMinors[] = {54, 60, 68, 90, 97, 98, 103, 106, 110, 113, 114, 116, 117};

TEST(StructSizes, AgreeWithEverySnapshot) {
  for (int minor : kMinors) {
    const Snapshot snapshot = Read(minor);
    ASSERT_GT(snapshot.sizes.size(), 100u) << minor;
    int compared = 0;
#define BP_COMPARE(type)                                                                              \
  if (auto it = snapshot.sizes.find(#type); it != snapshot.sizes.end()) {                             \
    EXPECT_EQ(StructSizeAt(minor, static_cast<const type*>(nullptr), type##_STRUCT_SIZE), it->second) \
        << #type << " at 0." << minor;                                                                \
    ++compared;                                                                                       \
  }
    BP_COMPARE(PJRT_ExecuteOptions)
#define BP_SLOT(name, since) BP_COMPARE(name##_Args)
#include "sdk/host/slots.def"
#undef BP_SLOT
    EXPECT_GT(compared, 90) << minor;
  }
}

TEST(StructSizes, SlotsAgreeWithEverySnapshot) {
  for (int minor : kMinors) {
    const Snapshot snapshot = Read(minor);
    int index = 0;
    for (const Slot& slot : AllSlots()) {
      auto it = snapshot.slots.find(slot.name);
      EXPECT_EQ(it != snapshot.slots.end(), slot.since <= minor) << slot.name << " at 0." << minor;
      if (it != snapshot.slots.end()) {
        EXPECT_EQ(it->second, index) << slot.name;
      }
      EXPECT_EQ(slot.offset, offsetof(PJRT_Api, PJRT_Error_Destroy) + index * sizeof(void*)) << slot.name;
      ++index;
    }
    EXPECT_EQ(index, 138);
  }
}

}  // namespace
}  // namespace backplane::host
