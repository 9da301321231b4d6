#include "sdk/layers/raw.h"

#include "sdk/host/struct_sizes.h"

namespace backplane::layers::raw {
namespace {

template <typename Args>
bool CallTarget(Stack& stack, PJRT_Error* (*PJRT_Api::*slot)(Args*), Args* args, size_t size) {
  if (!stack.TargetHas(slot)) return false;
  args->struct_size = host::StructSizeAt(stack.minor_version(), args, size);
  PJRT_Error* error = (stack.target().*slot)(args);
  DestroyError(stack, error);
  return error == nullptr;
}
#define BP_ASK(stack, fn, args) CallTarget(stack, &PJRT_Api::fn, &(args), fn##_Args_STRUCT_SIZE)

template <typename F>
void WithExecutable(Stack& stack, PJRT_LoadedExecutable* loaded, F use) {
  if (loaded == nullptr || !stack.TargetHas(&PJRT_Api::PJRT_Executable_Destroy)) return;
  PJRT_LoadedExecutable_GetExecutable_Args get{};
  get.loaded_executable = loaded;
  if (!BP_ASK(stack, PJRT_LoadedExecutable_GetExecutable, get) || get.executable == nullptr) return;
  use(get.executable);
  PJRT_Executable_Destroy_Args destroy{};
  destroy.executable = get.executable;
  BP_ASK(stack, PJRT_Executable_Destroy, destroy);
}

}  // namespace

std::string ProgramName(Stack& stack, PJRT_LoadedExecutable* executable) {
  std::string name;
  WithExecutable(stack, executable, [&](PJRT_Executable* e) {
    PJRT_Executable_Name_Args args{};
    args.executable = e;
    if (BP_ASK(stack, PJRT_Executable_Name, args) && args.executable_name != nullptr) {
      name.assign(args.executable_name, args.executable_name_size);
    }
  });
  return name;
}

size_t NumOutputs(Stack& stack, PJRT_LoadedExecutable* executable) {
  size_t count = 0;
  WithExecutable(stack, executable, [&](PJRT_Executable* e) {
    PJRT_Executable_NumOutputs_Args args{};
    args.executable = e;
    if (BP_ASK(stack, PJRT_Executable_NumOutputs, args)) count = args.num_outputs;
  });
  return count;
}

std::vector<PJRT_Device*> AddressableDevices(Stack& stack, PJRT_LoadedExecutable* executable) {
  PJRT_LoadedExecutable_AddressableDevices_Args args{};
  args.executable = executable;
  if (executable == nullptr || !BP_ASK(stack, PJRT_LoadedExecutable_AddressableDevices, args)) return {};
  return std::vector<PJRT_Device*>(args.addressable_devices, args.addressable_devices + args.num_addressable_devices);
}

int DeviceId(Stack& stack, PJRT_Device* device) {
  PJRT_Device_GetDescription_Args get{};
  get.device = device;
  if (device == nullptr || !BP_ASK(stack, PJRT_Device_GetDescription, get)) return -1;
  PJRT_DeviceDescription_Id_Args args{};
  args.device_description = get.device_description;
  return BP_ASK(stack, PJRT_DeviceDescription_Id, args) ? args.id : -1;
}

}  // namespace backplane::layers::raw
