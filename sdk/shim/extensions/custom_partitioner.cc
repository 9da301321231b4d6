// Hosts tell here how custom calls of theirs are split over devices.
#include "api/extensions/custom_partitioner.h"

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

struct Partitioners {
  std::mutex mu;
  std::map<std::string, JAX_CustomCallPartitioner_Callbacks*> callbacks;
  std::set<std::string> batch_partitionable;
};
Partitioners& All() {
  static auto* all = new Partitioners;
  return *all;
}

absl::Status RegisterPartitioner(PJRT_Register_Custom_Partitioner_Args& a) {
  BP_REQUIRE(a.name);
  BP_REQUIRE(a.callbacks);
  if (a.callbacks->version != 0) {
    return absl::UnimplementedError("custom partitioner: callbacks of a version other than 0");
  }
  // The callbacks are ours from here on; a later registration of the name takes the place of the earlier one.
  JAX_CustomCallPartitioner_Callbacks* old = a.callbacks;
  {
    std::lock_guard<std::mutex> lock(All().mu);
    std::swap(old, All().callbacks[std::string(a.name, a.name_size)]);
  }
  if (old != nullptr && old != a.callbacks && old->dtor != nullptr) old->dtor(old);
  return absl::OkStatus();
}

absl::Status RegisterBatchPartitionable(PJRT_Register_Batch_Partitionable_Args& a) {
  BP_REQUIRE(a.name);
  std::lock_guard<std::mutex> lock(All().mu);
  All().batch_partitionable.emplace(a.name, a.name_size);
  return absl::OkStatus();
}

}  // namespace

JAX_CustomCallPartitioner_Callbacks* FindCustomPartitioner(const std::string& name) {
  std::lock_guard<std::mutex> lock(All().mu);
  auto it = All().callbacks.find(name);
  return it == All().callbacks.end() ? nullptr : it->second;
}

bool IsBatchPartitionable(const std::string& name) {
  std::lock_guard<std::mutex> lock(All().mu);
  return All().batch_partitionable.count(name) != 0;
}

PJRT_Extension_Base* CustomPartitionerExtension() {
  static PJRT_Custom_Partitioner_Extension extension = [] {
    PJRT_Custom_Partitioner_Extension e{};
    e.base = {PJRT_Custom_Partitioner_Extension_STRUCT_SIZE, PJRT_Extension_Type_Custom_Partitioner, nullptr};
    e.register_custom_partitioner = BP_ENTRY(PJRT_Register_Custom_Partitioner, &RegisterPartitioner);
    e.register_batch_partitionable = BP_ENTRY(PJRT_Register_Batch_Partitionable, &RegisterBatchPartitionable);
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
