#include "plugins/hip/backend/residence.h"

#include "core/types/status_macros.h"

namespace backplane::hip {

absl::StatusOr<std::unique_ptr<Residence>> Residence::Make(Runtime& runtime, int32_t device,
                                                           const HipExecutable& executable) {
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
  return made;
}

absl::StatusOr<const Residence*> Residences::Find(Runtime& runtime, int32_t device, const HipExecutable& executable) {
  MutexLock lock(mu_);
  if (by_device_.size() <= static_cast<size_t>(device)) by_device_.resize(static_cast<size_t>(device) + 1);
  std::unique_ptr<Residence>& found = by_device_[static_cast<size_t>(device)];
  if (found == nullptr) {
    ASSIGN_OR_RETURN(found, Residence::Make(runtime, device, executable));
  }
  return found.get();
}

}  // namespace backplane::hip
