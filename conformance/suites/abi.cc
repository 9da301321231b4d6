// The function table: sizes, slots, the chain of extensions, and the size rules of structs in both directions.
#include <dlfcn.h>

#include <cstdio>
#include <set>
#include <thread>

#include "absl/strings/str_join.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"
#include "sdk/host/elf_file.h"
#include "sdk/host/loader.h"

namespace backplane::conformance {
namespace {

const void* SlotOf(const PJRT_Api& api, const host::Slot& slot) {
  return *reinterpret_cast<void* const*>(reinterpret_cast<const char*>(&api) + slot.offset);
}

void Version(Kit& k) {
  const PJRT_Api_Version& v = k.api().pjrt_api_version;
  k.Require(v.struct_size >= PJRT_STRUCT_SIZE(PJRT_Api_Version, minor_version), "the version's struct_size is ",
            v.struct_size, ", expected at least ", PJRT_STRUCT_SIZE(PJRT_Api_Version, minor_version));
  k.Require(v.minor_version >= host::kOldestMinor, "minor ", v.minor_version, " is older than what hosts accept, ",
            host::kOldestMinor);
  k.Require(v.minor_version < 100000, "minor ", v.minor_version, " cannot be meant");
  k.Note(absl::StrCat("0.", v.minor_version));
}

void TableSize(Kit& k) {
  const PJRT_Api& api = k.api();
  k.Require(api.struct_size % sizeof(void*) == 0, "the table's struct_size is ", api.struct_size, ", no multiple of ",
            sizeof(void*));
  k.Require(api.struct_size < 65536, "the table's struct_size is ", api.struct_size);
  for (const host::Slot& slot : host::AllSlots()) {
    const bool inside = slot.offset + sizeof(void*) <= api.struct_size;
    if (slot.since <= k.minor()) {
      k.Require(inside, "the table of ", api.struct_size, " bytes ends before ", slot.name, ", which minor ",
                slot.since, " added and this plugin of minor ", k.minor(), " says it has");
    } else {
      k.Require(!inside, "the table of ", api.struct_size, " bytes reaches to ", slot.name, " of minor ", slot.since,
                ", the plugin says minor ", k.minor());
    }
  }
}

void NoNullSlots(Kit& k) {
  std::vector<std::string> null;
  for (const host::Slot& slot : host::AllSlots()) {
    if (slot.offset + sizeof(void*) <= k.api().struct_size && SlotOf(k.api(), slot) == nullptr)
      null.push_back(slot.name);
  }
  k.Require(null.empty(), "null: ", absl::StrJoin(null, ", "), "; hosts call them and crash");
}

void SameTable(Kit& k) {
  const PJRT_Api* first = &k.api();
  void* library = dlopen(k.setup().plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  k.Require(library != nullptr, "a second dlopen fails");
  auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  std::vector<const PJRT_Api*> seen(8);
  std::vector<std::thread> threads;
  for (auto& place : seen) threads.emplace_back([&place, get] { place = get(); });
  for (auto& t : threads) t.join();
  for (const PJRT_Api* table : seen) k.Require(table == first, "GetPjrtApi returned another table in another call");
}

void TableStaysAsItIs(Kit& k) {
  const PJRT_Api& api = k.api();
  const std::string before(reinterpret_cast<const char*>(&api), std::min(api.struct_size, sizeof(PJRT_Api)));
  const PJRT_LoadedExecutable* keep = Compile(k, kAdd);
  k.Require(keep != nullptr, "");
  const std::string after(reinterpret_cast<const char*>(&api), before.size());
  k.Require(before == after, "the table changed after the plugin was used");
}

void ChainEnds(Kit& k) {
  std::set<const void*> seen;
  for (const PJRT_Extension_Base* e = k.api().extension_start; e != nullptr; e = e->next) {
    k.Require(seen.insert(e).second, "the chain of extensions comes back to ", host::ExtensionName(e->type), " after ",
              seen.size(), " elements: a host never ends reading it");
    k.Require(seen.size() <= 256, "the chain of extensions has more than 256 elements");
  }
}

void ChainElements(Kit& k) {
  std::set<int> types;
  std::vector<std::string> names;
  for (const PJRT_Extension_Base* e = k.api().extension_start; e != nullptr && names.size() < 256; e = e->next) {
    const std::string name = host::ExtensionName(e->type);
    k.Require(e->struct_size >= PJRT_Extension_Base_STRUCT_SIZE && e->struct_size < 65536, "extension ", name,
              " says a struct_size of ", e->struct_size);
    k.Require(e->type != PJRT_Extension_Type_Unknown && e->type >= 0, "extension of type ", static_cast<int>(e->type),
              " is never advertised");
    k.Require(types.insert(e->type).second, "extension ", name, " stands in the chain twice");
    names.push_back(name);
  }
  k.Note(names.empty() ? "none" : absl::StrJoin(names, ", "));
}

// ---- Struct sizes. These calls pass a struct of `size` bytes followed by guard bytes that must not change.
template <typename Args>
PJRT_Error* CallSized(Kit& k, PJRT_Error* (*PJRT_Api::*slot)(Args*), const char* name, Args* args, size_t size) {
  if (!k.Has(slot)) k.Unsupported("the table has no ", name);
  constexpr size_t kGuardBytes = 256;
  struct Block {
    alignas(16) unsigned char bytes[sizeof(Args) + kGuardBytes];
  } block;
  // The contents beyond the struct: for a newer host the fields of a later minor version, zeroed because they are
  // unset; for an older host other variables with any value.
  const bool larger = size > sizeof(Args);
  std::memset(block.bytes, 0, sizeof(block.bytes));
  const size_t known = std::min(size, sizeof(Args));
  std::memcpy(block.bytes, args, known);
  std::memset(block.bytes + (larger ? size : known), 0xD6, sizeof(block.bytes) - (larger ? size : known));
  std::memcpy(block.bytes, &size, sizeof(size));
  const std::string beyond(reinterpret_cast<char*>(block.bytes) + (larger ? sizeof(Args) : known),
                           sizeof(block.bytes) - (larger ? sizeof(Args) : known));
  if (k.setup().last_call != nullptr) k.setup().last_call->Enter(name);
  PJRT_Error* error = (k.api().*slot)(reinterpret_cast<Args*>(block.bytes));
  if (k.setup().last_call != nullptr) k.setup().last_call->Leave();
  const std::string after(reinterpret_cast<char*>(block.bytes) + (larger ? sizeof(Args) : known), beyond.size());
  if (beyond != after) {
    size_t at = 0;
    while (beyond[at] == after[at]) ++at;
    k.Fail(name, " with a struct_size of ", size, ": wrote byte ", (larger ? sizeof(Args) : known) + at,
           ", past what it may touch");
  }
  std::memcpy(args, block.bytes, known);
  return error;
}
#define CALL_SIZED(k, fn, a, size) CallSized(k, &PJRT_Api::fn, #fn, &(a), size)

void Accepts(Kit& k, PJRT_Error* error, const char* name, size_t size, const char* who) {
  const Err e = k.Take(error);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED) return;  // a separate ability, tested elsewhere
  k.Require(e.ok(), name, " refuses a struct_size of ", size, ", which is that of ", who, ": ", FormatError(e));
}

// A newer host has larger structs. The plugin must read the fields that it knows and ignore the others.
void LargerStructs(Kit& k) {
  k.Initialize();
  constexpr size_t kExtraBytes = 40;
#define LARGER(fn, fill)                                                 \
  {                                                                      \
    fn##_Args a{};                                                       \
    fill;                                                                \
    const size_t size = ((sizeof(fn##_Args) + 7) / 8) * 8 + kExtraBytes; \
    Accepts(k, CALL_SIZED(k, fn, a, size), #fn, size, "a newer host");   \
  }
  PJRT_Client* client = k.client();
  PJRT_Device* device = k.device();
  PJRT_Buffer* buffer = Put<float>(k, {4}, {1, 2, 3, 4});
  PJRT_LoadedExecutable* loaded = Compile(k, kAdd);
  PJRT_Executable* executable = GetExecutable(k, loaded);
  PJRT_Event* event = ReadyEvent(k, buffer);
  LARGER(PJRT_Plugin_Attributes, (void)0);
  LARGER(PJRT_Client_PlatformName, a.client = client);
  LARGER(PJRT_Client_Devices, a.client = client);
  LARGER(PJRT_Client_AddressableMemories, a.client = client);
  LARGER(PJRT_Device_GetDescription, a.device = device);
  LARGER(PJRT_Device_DefaultMemory, a.device = device);
  LARGER(PJRT_Device_MemoryStats, a.device = device);
  LARGER(PJRT_Buffer_Dimensions, a.buffer = buffer);
  LARGER(PJRT_Buffer_ElementType, a.buffer = buffer);
  LARGER(PJRT_Buffer_IsDeleted, a.buffer = buffer);
  LARGER(PJRT_Buffer_OnDeviceSizeInBytes, a.buffer = buffer);
  LARGER(PJRT_Event_Await, a.event = event);
  LARGER(PJRT_Event_IsReady, a.event = event);
  LARGER(PJRT_Executable_NumOutputs, a.executable = executable);
  LARGER(PJRT_Executable_GetCompiledMemoryStats, a.executable = executable);
  LARGER(PJRT_Executable_OutputDimensions, a.executable = executable);
  LARGER(PJRT_LoadedExecutable_AddressableDevices, a.executable = loaded);
#undef LARGER
}

// A host of minor version 0.29 to 0.54: structs that have grown since have their old size.
void OlderStructs(Kit& k) {
  k.Initialize();
  const std::vector<PJRT_NamedValue> options = host::BorrowNamedValues(k.setup().options);
  PJRT_Client_Create_Args create{};
  create.create_options = options.data();
  create.num_options = options.size();
  const size_t create_size = PJRT_STRUCT_SIZE(PJRT_Client_Create_Args, client);
  Accepts(k, CALL_SIZED(k, PJRT_Client_Create, create, create_size), "PJRT_Client_Create", create_size, "minor 0.54");
  k.Require(create.client != nullptr, "PJRT_Client_Create: no client for a host of minor 0.54");
  Destroy(k, create.client);

  PJRT_Device_MemoryStats_Args stats{};
  stats.device = k.device();
  const size_t stats_size = PJRT_STRUCT_SIZE(PJRT_Device_MemoryStats_Args, peak_pool_bytes_is_set);
  if (k.Has(&PJRT_Api::PJRT_Device_MemoryStats))
    Accepts(k, CALL_SIZED(k, PJRT_Device_MemoryStats, stats, stats_size), "PJRT_Device_MemoryStats", stats_size,
            "minor 0.112");

  PJRT_LoadedExecutable* loaded = Compile(k, kAdd);
  PJRT_Executable* executable = GetExecutable(k, loaded);
  PJRT_Executable_GetCompiledMemoryStats_Args memory{};
  memory.executable = executable;
  const size_t memory_size = PJRT_STRUCT_SIZE(PJRT_Executable_GetCompiledMemoryStats_Args, host_temp_size_in_bytes);
  if (k.Has(&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats)) {
    Accepts(k, CALL_SIZED(k, PJRT_Executable_GetCompiledMemoryStats, memory, memory_size),
            "PJRT_Executable_GetCompiledMemoryStats", memory_size, "minor 0.54");
  }
  // The options of an execution as of 0.54.
  PJRT_Buffer* x = Put<float>(k, {4}, {1, 2, 3, 4});
  PJRT_ExecuteOptions run{};
  run.struct_size = PJRT_STRUCT_SIZE(PJRT_ExecuteOptions, num_non_donatable_input_indices);
  PJRT_Buffer* arguments[] = {x, x};
  PJRT_Buffer* const* lists[] = {arguments};
  PJRT_Buffer* outputs[] = {nullptr};
  PJRT_Buffer** output_lists[] = {outputs};
  KIT_ARGS(k, execute, PJRT_LoadedExecutable_Execute);
  execute.executable = loaded;
  execute.options = &run;
  execute.argument_lists = lists;
  execute.num_devices = 1;
  execute.num_args = 2;
  execute.output_lists = output_lists;
  const Err e = KIT_TRY(k, PJRT_LoadedExecutable_Execute, execute);
  k.Require(e.ok(), "PJRT_LoadedExecutable_Execute refuses options of ", run.struct_size,
            " bytes, which is the size of minor 0.54: ", FormatError(e));
  k.Require(outputs[0] != nullptr && GetAs<float>(k, outputs[0]) == std::vector<float>({2, 4, 6, 8}),
            "wrong results for a host of minor 0.54");
}

// The plugin must not write past the caller's struct_size, whichever fields it knows.
void StaysInside(Kit& k) {
  k.Initialize();
  PJRT_Device_MemoryStats_Args stats{};
  stats.device = k.device();
  if (k.Has(&PJRT_Api::PJRT_Device_MemoryStats))
    k.Take(CALL_SIZED(k, PJRT_Device_MemoryStats, stats,
                      PJRT_STRUCT_SIZE(PJRT_Device_MemoryStats_Args, peak_pool_bytes_is_set)));
  PJRT_Executable_GetCompiledMemoryStats_Args memory{};
  PJRT_LoadedExecutable* loaded = Compile(k, kAdd);
  memory.executable = GetExecutable(k, loaded);
  if (k.Has(&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats)) {
    k.Take(CALL_SIZED(k, PJRT_Executable_GetCompiledMemoryStats, memory,
                      PJRT_STRUCT_SIZE(PJRT_Executable_GetCompiledMemoryStats_Args, host_temp_size_in_bytes)));
  }
#define EXACT(fn, fill)                                  \
  {                                                      \
    fn##_Args a{};                                       \
    fill;                                                \
    k.Take(CALL_SIZED(k, fn, a, fn##_Args_STRUCT_SIZE)); \
  }
  PJRT_Buffer* buffer = Put<float>(k, {4}, {1, 2, 3, 4});
  EXACT(PJRT_Client_PlatformName, a.client = k.client());
  EXACT(PJRT_Client_Devices, a.client = k.client());
  EXACT(PJRT_Client_ProcessIndex, a.client = k.client());
  EXACT(PJRT_Device_IsAddressable, a.device = k.device());
  EXACT(PJRT_Device_LocalHardwareId, a.device = k.device());
  EXACT(PJRT_Buffer_Dimensions, a.buffer = buffer);
  EXACT(PJRT_Buffer_GetMemoryLayout, a.buffer = buffer);
  EXACT(PJRT_Buffer_OnDeviceSizeInBytes, a.buffer = buffer);
  EXACT(PJRT_Executable_NumOutputs, a.executable = memory.executable);
#undef EXACT
}

// The plugin must skip an unknown element in a call's extension chain.
void UnknownCallExtension(Kit& k) {
  PJRT_Extension_Base strange{};
  strange.struct_size = PJRT_Extension_Base_STRUCT_SIZE;
  strange.type = static_cast<PJRT_Extension_Type>(0x5AFE0001);
  KIT_ARGS(k, a, PJRT_Client_PlatformName);
  a.client = k.client();
  a.extension_start = &strange;
  KIT_OK(k, PJRT_Client_PlatformName, a);
  const std::vector<float> data = {1, 2, 3, 4};
  const Dims dims = {4};
  PJRT_Client_BufferFromHostBuffer_Args put = PutArgs(k, PJRT_Buffer_Type_F32, dims, data.data());
  put.extension_start = &strange;
  KIT_OK(k, PJRT_Client_BufferFromHostBuffer, put);
  Await(k, put.done_with_host_buffer, "done_with_host_buffer");
  k.Require(GetAs<float>(k, put.buffer) == data, "wrong contents after a call with an unknown extension");
}

void DestroyNull(Kit& k) {
  k.client();
#define NULL_DESTROY(fn, field)                                                                         \
  if (k.Has(&PJRT_Api::fn)) {                                                                           \
    KIT_ARGS(k, a, fn);                                                                                 \
    a.field = nullptr;                                                                                  \
    const Err e = KIT_TRY(k, fn, a);                                                                    \
    k.Require(e.ok() || e.code == PJRT_Error_Code_UNIMPLEMENTED, #fn, " of nothing: ", FormatError(e)); \
  }
  NULL_DESTROY(PJRT_Buffer_Destroy, buffer);
  NULL_DESTROY(PJRT_Event_Destroy, event);
  NULL_DESTROY(PJRT_Executable_Destroy, executable);
  NULL_DESTROY(PJRT_LoadedExecutable_Destroy, executable);
  NULL_DESTROY(PJRT_Client_Destroy, client);
  NULL_DESTROY(PJRT_TopologyDescription_Destroy, topology);
  NULL_DESTROY(PJRT_ExecuteContext_Destroy, context);
  NULL_DESTROY(PJRT_AsyncHostToDeviceTransferManager_Destroy, transfer_manager);
#undef NULL_DESTROY
  PJRT_Error_Destroy_Args e{};
  e.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
  k.api().PJRT_Error_Destroy(&e);
}

void NullObjects(Kit& k) {
  k.client();
#define NULL_CALL(fn)                                \
  if (k.Has(&PJRT_Api::fn)) {                        \
    KIT_ARGS(k, a, fn);                              \
    const Err e = KIT_TRY(k, fn, a);                 \
    k.Require(!e.ok(), #fn, " of nothing succeeds"); \
  }
  NULL_CALL(PJRT_Client_PlatformName);
  NULL_CALL(PJRT_Client_Devices);
  NULL_CALL(PJRT_Client_Compile);
  NULL_CALL(PJRT_Client_BufferFromHostBuffer);
  NULL_CALL(PJRT_Device_GetDescription);
  NULL_CALL(PJRT_Buffer_Dimensions);
  NULL_CALL(PJRT_Buffer_ToHostBuffer);
  NULL_CALL(PJRT_Event_Await);
  NULL_CALL(PJRT_Event_OnReady);
  NULL_CALL(PJRT_LoadedExecutable_Execute);
  NULL_CALL(PJRT_Executable_Serialize);
  NULL_CALL(PJRT_Executable_DeserializeAndLoad);
#undef NULL_CALL
}

void TooSmallStructs(Kit& k) {
  for (size_t size : {size_t{0}, size_t{8}, size_t{16}}) {
    PJRT_Client_PlatformName_Args name{};
    name.client = k.client();
    const Err e = k.Take(CALL_SIZED(k, PJRT_Client_PlatformName, name, size));
    k.Require(!e.ok(), "PJRT_Client_PlatformName accepts a struct_size of ", size, ", in which there is no client");
  }
}

void ErrorFunctionTable(Kit& k) {
  if (k.minor() < 107) k.Unsupported("errors carry functions since minor 0.107, this is 0.", k.minor());
  KIT_ARGS(k, a, PJRT_Client_LookupDevice);
  a.client = k.client();
  a.id = 987654;
  PJRT_Error* error = k.Raw(&PJRT_Api::PJRT_Client_LookupDevice, "PJRT_Client_LookupDevice", &a);
  k.Require(error != nullptr, "device 987654 is found");
  const PJRT_Error_FunctionTable* table = error->vtable;
  k.Require(table != nullptr, "the error has no table of functions");
  k.Require(table->struct_size >= PJRT_Error_FunctionTable_STRUCT_SIZE, "the error's table says ", table->struct_size,
            " bytes, expected ", PJRT_Error_FunctionTable_STRUCT_SIZE);
  k.Require(table->destroy != nullptr && table->message != nullptr && table->get_code != nullptr &&
                table->for_each_payload != nullptr,
            "a function of the error's table is null");
  const char* message = nullptr;
  size_t size = 0;
  table->message(error, &message, &size);
  k.Require(message != nullptr && size > 0, "the error's own function gives no message");
  const std::string text(message, size);
  KIT_ARGS(k, m, PJRT_Error_Message);
  m.error = error;
  k.api().PJRT_Error_Message(&m);
  k.Require(text == std::string(m.message, m.message_size), "the message differs: '", text, "' and '",
            std::string(m.message, m.message_size), "'");
  KIT_ARGS(k, c, PJRT_Error_GetCode);
  c.error = error;
  k.Take(k.api().PJRT_Error_GetCode(&c));
  k.Require(table->get_code(error) == c.code, "the code differs: ", CodeName(table->get_code(error)), " and ",
            CodeName(c.code));
  table->for_each_payload(
      error, [](const char*, size_t, const char*, size_t, void*) {}, nullptr);
  table->destroy(error);
}

void ExportsOneSymbol(Kit& k) {
  const absl::StatusOr<host::ElfFile> elf = host::ReadElf(k.setup().plugin);
  if (!elf.ok()) k.Skip(elf.status().message());
  std::string others;
  size_t count = 0;
  for (const host::ElfSymbol& symbol : elf->exported) {
    if (symbol.name == "GetPjrtApi") continue;
    if (++count <= 5) absl::StrAppend(&others, others.empty() ? "" : ", ", symbol.name);
  }
  k.Require(count == 0, "exports ", count,
            " symbols besides GetPjrtApi, which other libraries of the process may meet: ", others,
            count > 5 ? ", ..." : "");
}

constexpr Check kChecks[] = {
    {"abi.version", "", "the table's version is one hosts accept", Version},
    {"abi.table_size", "", "the table is as long as its minor says", TableSize},
    {"abi.no_null_slots", "", "every function of the table can be called", NoNullSlots},
    {"abi.same_table", "", "GetPjrtApi gives the same table in each call and thread", SameTable},
    {"abi.table_stays", "", "the table does not change while the plugin is used", TableStaysAsItIs},
    {"abi.chain_ends", "", "the chain of extensions ends", ChainEnds},
    {"abi.chain_elements", "", "each extension says its size, and stands in the chain once", ChainElements},
    {"abi.larger_structs", "", "a newer host's larger structs are accepted, their new fields left alone",
     LargerStructs},
    {"abi.older_structs", "", "an older host's smaller structs are accepted", OlderStructs, 0, true},
    {"abi.stays_inside", "", "nothing past a struct's struct_size is written", StaysInside},
    {"abi.unknown_call_extension", "", "an unknown extension in a call's chain is skipped", UnknownCallExtension},
    {"abi.error_functions", "PJRT_Client_LookupDevice", "an error can be read and freed through its own functions",
     ErrorFunctionTable},
    {"abi.destroy_null", "", "destroying nothing is allowed", DestroyNull, 0, true},
    {"abi.null_objects", "", "a null object gives an error, not a crash", NullObjects, 0, true},
    {"abi.too_small_structs", "", "a struct_size too small for the object gives an error", TooSmallStructs, 0, true},
    {"abi.exports", "", "the library exports GetPjrtApi and nothing else", ExportsOneSymbol, 0, true},
};

}  // namespace

absl::Span<const Check> AbiSuite() { return kChecks; }

}  // namespace backplane::conformance
