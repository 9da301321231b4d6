// Memory spaces and their kinds.
#include <algorithm>
#include <map>
#include <set>

#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

std::vector<PJRT_Memory*> OfClient(Kit& k) {
  KIT_ARGS(k, a, PJRT_Client_AddressableMemories);
  a.client = k.client();
  KIT_OK(k, PJRT_Client_AddressableMemories, a);
  return {a.addressable_memories, a.addressable_memories + a.num_addressable_memories};
}

int MemoryId(Kit& k, PJRT_Memory* memory) {
  KIT_ARGS(k, a, PJRT_Memory_Id);
  a.memory = memory;
  KIT_OK(k, PJRT_Memory_Id, a);
  return a.id;
}

void Lists(Kit& k) {
  const std::vector<PJRT_Memory*> all = OfClient(k);
  k.Require(!all.empty(), "the client has no memories");
  for (PJRT_Device* d : k.devices()) {
    const std::vector<PJRT_Memory*> mine = GetMemories(k, d);
    k.Require(!mine.empty(), "device ", GetId(k, d), " has no memories");
    for (PJRT_Memory* m : mine)
      k.Require(std::count(all.begin(), all.end(), m) == 1, "a memory of device ", GetId(k, d),
                " stands not once in the client's list");
  }
}

void DefaultIsListed(Kit& k) {
  for (PJRT_Device* d : k.devices()) {
    const std::vector<PJRT_Memory*> mine = GetMemories(k, d);
    k.Require(std::count(mine.begin(), mine.end(), DefaultMemory(k, d)) == 1, "the default memory of device ",
              GetId(k, d), " is none of its memories");
  }
}

void Ids(Kit& k) {
  std::set<int> ids;
  for (PJRT_Memory* m : OfClient(k))
    k.Require(ids.insert(MemoryId(k, m)).second, "two memories have the id ", MemoryId(k, m));
}

void Kinds(Kit& k) {
  for (PJRT_Device* d : k.devices()) {
    std::set<std::string> kinds;
    for (PJRT_Memory* m : GetMemories(k, d)) {
      const std::string kind = GetKind(k, m);
      k.Require(!kind.empty() && kind.size() < 128, "a memory has no kind");
      k.Require(kinds.insert(kind).second, "device ", GetId(k, d), " has two memories of the kind ", kind,
                ": a host chooses by kind");
    }
  }
}

void KnownKinds(Kit& k) {
  for (PJRT_Memory* m : OfClient(k)) {
    const std::string kind = GetKind(k, m);
    k.Require(kind == "device" || kind == "pinned_host" || kind == "unpinned_host", "the kind '", kind,
              "' is none of device, pinned_host, unpinned_host; zml ends there");
  }
}

void KindIds(Kit& k) {
  std::map<int, std::string> kinds;
  std::map<std::string, int> ids;
  for (PJRT_Memory* m : OfClient(k)) {
    KIT_ARGS(k, a, PJRT_Memory_Kind_Id);
    a.memory = m;
    KIT_OK(k, PJRT_Memory_Kind_Id, a);
    const std::string kind = GetKind(k, m);
    const auto [id, new_kind] = ids.emplace(kind, a.kind_id);
    k.Require(id->second == a.kind_id, "the kind ", kind, " has the numbers ", id->second, " and ", a.kind_id);
    const auto [name, new_id] = kinds.emplace(a.kind_id, kind);
    k.Require(name->second == kind, "the number ", a.kind_id, " stands for ", name->second, " and ", kind);
  }
}

void Texts(Kit& k) {
  for (PJRT_Memory* m : OfClient(k)) {
    KIT_ARGS(k, a, PJRT_Memory_DebugString);
    a.memory = m;
    KIT_OK(k, PJRT_Memory_DebugString, a);
    k.Require(a.debug_string != nullptr && a.debug_string_size > 0, "PJRT_Memory_DebugString: no text");
    KIT_ARGS(k, b, PJRT_Memory_ToString);
    b.memory = m;
    KIT_OK(k, PJRT_Memory_ToString, b);
    k.Require(b.to_string != nullptr && b.to_string_size > 0, "PJRT_Memory_ToString: no text");
  }
}

void ByDevices(Kit& k) {
  for (PJRT_Device* d : k.devices()) {
    for (PJRT_Memory* m : GetMemories(k, d)) {
      KIT_ARGS(k, a, PJRT_Memory_AddressableByDevices);
      a.memory = m;
      KIT_OK(k, PJRT_Memory_AddressableByDevices, a);
      k.Require(std::count(a.devices, a.devices + a.num_devices, d) == 1, "memory ", MemoryId(k, m),
                " does not list device ", GetId(k, d), ", which lists it");
    }
  }
}

int freed = 0;

void UserData(Kit& k) {
  if (k.minor() < 105) k.Unsupported("memories carry functions since minor 0.105, this is 0.", k.minor());
  PJRT_Memory* memory = DefaultMemory(k, k.device());
  const PJRT_Memory_FunctionTable* table = memory->vtable;
  k.Require(table != nullptr && table->struct_size >= PJRT_Memory_FunctionTable_STRUCT_SIZE,
            "the memory has no table of functions of the published size");
  k.Require(table->get_user_data != nullptr && table->set_user_data != nullptr,
            "a function of the memory's table is null");
  static int first_key, second_key, a, b, c;
  const auto free_one = [](void* data) { freed += data == &a ? 1 : 100; };
  k.Require(table->get_user_data(memory, &first_key) == nullptr, "there is data for a key that was never set");
  table->set_user_data(memory, &first_key, &a, free_one);
  table->set_user_data(memory, &second_key, &b, nullptr);
  k.Require(table->get_user_data(memory, &first_key) == &a, "the data of the first key is lost");
  k.Require(table->get_user_data(memory, &second_key) == &b, "the data of the second key is lost");
  k.Require(freed == 0, "data was freed that is still set");
  table->set_user_data(memory, &first_key, &c, nullptr);
  k.Require(freed == 1, "the destructor of data that was replaced ran ", freed, " times");
  k.Require(table->get_user_data(memory, &first_key) == &c, "the data that replaced the first is not there");
}

// Every memory of the first device must accept a buffer and return its contents.
void EachHoldsData(Kit& k) {
  const Dims dims = {3};
  const std::vector<float> data = {1, 2, 3};
  std::string refused;
  for (PJRT_Memory* m : GetMemories(k, k.device())) {
    PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, data.data());
    a.device = nullptr;
    a.memory = m;
    const Err e = KIT_TRY(k, PJRT_Client_BufferFromHostBuffer, a);
    if (e.code == PJRT_Error_Code_UNIMPLEMENTED) {
      absl::StrAppend(&refused, refused.empty() ? "" : "; ", GetKind(k, m), ": ", e.message);
      continue;
    }
    k.Require(e.ok(), "memory ", GetKind(k, m), ": ", FormatError(e));
    Await(k, a.done_with_host_buffer, "done_with_host_buffer");
    k.Require(GetMemory(k, a.buffer) == m, "a buffer made in ", GetKind(k, m), " says it is in ",
              GetKind(k, GetMemory(k, a.buffer)));
    k.Require(GetAs<float>(k, a.buffer) == data, "memory ", GetKind(k, m), " gives other contents back");
    Destroy(k, a.buffer);
  }
  if (!refused.empty()) k.Unsupported(refused);
}

constexpr Check kChecks[] = {
    {"memories.lists", "PJRT_Client_AddressableMemories PJRT_Device_AddressableMemories",
     "memories of devices are memories of the client", Lists},
    {"memories.default", "PJRT_Device_DefaultMemory", "the default memory is one of the device's", DefaultIsListed},
    {"memories.ids", "PJRT_Memory_Id", "no two memories have one id", Ids},
    {"memories.kinds", "PJRT_Memory_Kind", "a device has one memory of each kind", Kinds},
    {"memories.known_kinds", "PJRT_Memory_Kind", "the kinds are those that every host knows", KnownKinds},
    {"memories.kind_ids", "PJRT_Memory_Kind_Id", "each kind has one number", KindIds},
    {"memories.texts", "PJRT_Memory_DebugString PJRT_Memory_ToString", "memories have descriptions", Texts},
    {"memories.by_devices", "PJRT_Memory_AddressableByDevices", "a memory lists the devices that list it", ByDevices},
    {"memories.user_data", "", "a host keeps data at a memory", UserData},
    {"memories.hold_data", "", "each memory of a device holds a buffer", EachHoldsData},
};

}  // namespace

absl::Span<const Check> MemoriesSuite() { return kChecks; }

}  // namespace backplane::conformance
