#include "plugins/hip/backend/residence.h"

#include "core/types/status_macros.h"

namespace backplane::hip {

absl::StatusOr<std::unique_ptr<Residence>> Residence::Make(Runtime& runtime, int32_t device,
                                                           const HipExecutable& executable, ProductChoices& chosen) {
  auto made = std::make_unique<Residence>();
  Devices& devices = *runtime.devices;
  const GpuProgram& program = executable.program();
  ASSIGN_OR_RETURN(made->kernels_,
                   LoadedKernels::Load(devices.api(), device, program.image().bytes, program.kernels()));
  const int32_t memory = runtime.memories->topology().devices[static_cast<size_t>(device)].memories.front();
  for (const Instruction* c : program.assignment().constants) {
    const Literal& literal = c->literal();
    const size_t bytes = static_cast<size_t>(literal.byte_size());
    ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, runtime.memories->Allocate(memory, bytes));
    if (bytes > 0) RETURN_IF_ERROR(devices.CopyIn(device, literal.bytes(), storage->data(), bytes));
    made->addresses_.push_back(storage->data());
    made->constants_.push_back(std::move(storage));
  }
  std::vector<std::string> notes;
  runtime.products.ReplaceKernels(devices, device, program.library_products(), *made->kernels_, chosen, &notes);
  executable.AddToLog(notes);
  if (runtime.graph_mode != GraphMode::kOff) {
    GraphCache::Options options;
    options.mode = runtime.graph_mode;
    options.nodes = &devices.graph_nodes(device);
    options.log = [&executable](std::string note) { executable.AddToLog({std::move(note)}); };
    made->graphs_ = std::make_unique<GraphCache>(devices.api(), device, *made->kernels_, std::move(options));
  }
  return made;
}

absl::StatusOr<const Residence*> Residences::Find(Runtime& runtime, int32_t device, const HipExecutable& executable) {
  const size_t index = static_cast<size_t>(device);
  {
    MutexLock lock(mu_);
    if (index < by_device_.size() && by_device_[index] != nullptr) return by_device_[index].get();
  }
  // It is made without the lock, because an allocation may wait for the device's work. If two threads make one, the
  // first is kept.
  ASSIGN_OR_RETURN(std::unique_ptr<Residence> made, Residence::Make(runtime, device, executable, chosen_));
  MutexLock lock(mu_);
  if (index >= by_device_.size()) by_device_.resize(index + 1);
  if (by_device_[index] == nullptr) by_device_[index] = std::move(made);
  return by_device_[index].get();
}

}  // namespace backplane::hip
