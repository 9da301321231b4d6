#include "api/extensions/memory_descriptions.h"

#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

absl::Status Descriptions(PJRT_DeviceDescription_MemoryDescriptions_Args& a) {
  BP_REQUIRE(a.device_description);
  a.memory_descriptions = a.device_description->memory_pointers.data();
  a.num_memory_descriptions = a.device_description->memory_pointers.size();
  a.default_memory_index = a.device_description->memories.empty() ? static_cast<size_t>(-1) : 0;
  return absl::OkStatus();
}

absl::Status Kind(PJRT_MemoryDescription_Kind_Args& a) {
  BP_REQUIRE(a.memory_description);
  a.kind = a.memory_description->kind.c_str();
  a.kind_size = a.memory_description->kind.size();
  a.kind_id = a.memory_description->kind_id;
  return absl::OkStatus();
}

}  // namespace

PJRT_Extension_Base* MemoryDescriptionsExtension() {
  static PJRT_MemoryDescriptions_Extension extension = [] {
    PJRT_MemoryDescriptions_Extension e{};
    e.base = {PJRT_MemoryDescriptions_Extension_STRUCT_SIZE, PJRT_Extension_Type_MemoryDescriptions, nullptr};
    e.PJRT_DeviceDescription_MemoryDescriptions = BP_ENTRY(PJRT_DeviceDescription_MemoryDescriptions, &Descriptions);
    e.PJRT_MemoryDescription_Kind = BP_ENTRY(PJRT_MemoryDescription_Kind, &Kind);
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
