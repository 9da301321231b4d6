#include "base/mutex.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

void* GetUserData(PJRT_Memory* memory, const void* key) {
  MemoryObject* m = ToMemory(memory);
  MutexLock lock(m->mu);
  auto it = m->user_data.find(key);
  return it == m->user_data.end() ? nullptr : it->second.data;
}

void SetUserData(PJRT_Memory* memory, const void* key, void* data, void (*dtor)(void*)) {
  MemoryObject* m = ToMemory(memory);
  MemoryObject::UserData old{nullptr, nullptr};
  {
    MutexLock lock(m->mu);
    std::swap(old, m->user_data[key]);
    m->user_data[key] = {data, dtor};
  }
  if (old.dtor != nullptr) old.dtor(old.data);
}

constexpr PJRT_Memory_FunctionTable kMemoryTable = {
    PJRT_Memory_FunctionTable_STRUCT_SIZE, nullptr, PJRT_Memory_STRUCT_SIZE, &GetUserData, &SetUserData,
};

}  // namespace

const PJRT_Memory_FunctionTable* GetMemoryTable() { return &kMemoryTable; }

MemoryObject::~MemoryObject() {
  for (auto& [key, entry] : user_data) {
    if (entry.dtor != nullptr) entry.dtor(entry.data);
  }
}

absl::Status Memory_Id(PJRT_Memory_Id_Args& a) {
  BP_REQUIRE(a.memory);
  a.id = ToMemory(a.memory)->info->id;
  return absl::OkStatus();
}

absl::Status Memory_Kind(PJRT_Memory_Kind_Args& a) {
  BP_REQUIRE(a.memory);
  const std::string& kind = ToMemory(a.memory)->info->kind;
  a.kind = kind.c_str();
  a.kind_size = kind.size();
  return absl::OkStatus();
}

absl::Status Memory_Kind_Id(PJRT_Memory_Kind_Id_Args& a) {
  BP_REQUIRE(a.memory);
  a.kind_id = ToMemory(a.memory)->info->kind_id;
  return absl::OkStatus();
}

absl::Status Memory_DebugString(PJRT_Memory_DebugString_Args& a) {
  BP_REQUIRE(a.memory);
  const std::string& text = ToMemory(a.memory)->debug_string;
  a.debug_string = text.c_str();
  a.debug_string_size = text.size();
  return absl::OkStatus();
}

absl::Status Memory_ToString(PJRT_Memory_ToString_Args& a) {
  BP_REQUIRE(a.memory);
  const std::string& text = ToMemory(a.memory)->to_string;
  a.to_string = text.c_str();
  a.to_string_size = text.size();
  return absl::OkStatus();
}

absl::Status Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args& a) {
  BP_REQUIRE(a.memory);
  const MemoryObject* memory = ToMemory(a.memory);
  a.devices = memory->devices.data();
  a.num_devices = memory->devices.size();
  return absl::OkStatus();
}

}  // namespace backplane::shim
