#include "plugins/hip/emulated_runtime/module.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/copies.h"
#include "plugins/hip/emulated_runtime/launch_guard.h"
#include "plugins/hip/emulated_runtime/report.h"
#include "plugins/hip/emulated_runtime/runtime.h"

namespace backplane::hip::emulated {
namespace {

constexpr uint32_t kMaxBlockThreads = 1024, kMaxGridYZ = 65536, kMaxSharedBytes = 65536;

// Empty if the launch is within the limits of the device and the kernel.
std::string FindProblemOfLaunch(const KernelFacts& kernel, const LaunchRequest& request) {
  const hipDim3& blocks = request.blocks;
  const hipDim3& threads = request.threads;
  const uint64_t block_threads = uint64_t{threads.x} * threads.y * threads.z;
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || threads.x == 0 || threads.y == 0 || threads.z == 0) {
    return "a dimension of the grid or the block is 0";
  }
  if (threads.x > kMaxBlockThreads || threads.y > kMaxBlockThreads || threads.z > kMaxBlockThreads ||
      block_threads > kMaxBlockThreads) {
    return absl::StrCat("a block of ", threads.x, " x ", threads.y, " x ", threads.z, " threads is larger than ",
                        kMaxBlockThreads);
  }
  if (block_threads > kernel.max_threads) {
    return absl::StrCat("a block of ", block_threads, " threads is larger than the ", kernel.max_threads,
                        " that the kernel was compiled for");
  }
  if (kernel.threads != 0 && block_threads != kernel.threads) {
    return absl::StrCat("a block of ", block_threads, " threads is not the one of ", kernel.threads,
                        " that the kernel was compiled for");
  }
  constexpr uint64_t kMaxThreads = std::numeric_limits<uint32_t>::max();
  if (uint64_t{blocks.x} * threads.x > kMaxThreads || blocks.y > kMaxGridYZ || blocks.z > kMaxGridYZ ||
      uint64_t{blocks.x} * blocks.y > kMaxThreads || uint64_t{blocks.x} * blocks.y * blocks.z > kMaxThreads) {
    return absl::StrCat("a grid of ", blocks.x, " x ", blocks.y, " x ", blocks.z, " blocks is too large");
  }
  if (uint64_t{kernel.shared_bytes} + request.dynamic_shared_bytes > kMaxSharedBytes) {
    return absl::StrCat(kernel.shared_bytes, " static and ", request.dynamic_shared_bytes,
                        " dynamic bytes of shared memory are more than ", kMaxSharedBytes);
  }
  return "";
}

// Copies the arguments. Returns the problem, or an empty text.
std::string CopyArguments(const KernelFacts& kernel, const LaunchRequest& request, std::vector<uint8_t>& arguments) {
  if (request.extra != nullptr) {
    const void* buffer = nullptr;
    const size_t* bytes = nullptr;
    for (void** item = request.extra; *item != kLaunchParamEnd; item += 2) {
      if (item[0] == kLaunchParamBufferPointer) {
        buffer = item[1];
      } else if (item[0] == kLaunchParamBufferSize) {
        bytes = static_cast<const size_t*>(item[1]);
      } else {
        return "the extra form has an item that is neither a buffer nor a size";
      }
    }
    if (bytes == nullptr || (buffer == nullptr && *bytes != 0)) return "the extra form lacks the buffer or its size";
    if (*bytes < kernel.argument_bytes) {
      return absl::StrCat("the buffer has ", *bytes, " bytes of arguments and the kernel takes ",
                          kernel.argument_bytes);
    }
    const uint8_t* first = static_cast<const uint8_t*>(buffer);
    arguments.assign(first, first + kernel.argument_bytes);
    return "";
  }
  if (kernel.argument_bytes == 0) return "";
  if (request.parameters == nullptr) return "the launch has no arguments and the kernel takes some";
  if (!kernel.has_parameters) {
    return "the sizes of the arguments are not known, so that they must be passed in a buffer (the extra form)";
  }
  arguments.assign(kernel.argument_bytes, 0);
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (request.parameters[i] == nullptr) return absl::StrCat("argument ", i, " is null");
    std::memcpy(arguments.data() + kernel.parameters[i].offset, request.parameters[i], kernel.parameters[i].bytes);
  }
  return "";
}

struct PreparedKernel {
  std::shared_ptr<Function> function;
  hipDim3 blocks, threads;
  uint32_t dynamic_shared_bytes = 0;
  std::vector<uint8_t> arguments;
};

hipError_t RunKernel(const PreparedKernel& launch, const OperationPtr& operation) {
  Device& device = *launch.function->device;
  const KernelImage& image = *launch.function->image;
  LaunchGuard guard(device, image.traces_accesses());
  if (!image.traces_accesses()) {
    if (hipError_t error = guard.BeginByArguments(operation, launch.arguments); error != hipSuccess) return error;
  }
  KernelLaunch request;
  request.blocks = launch.blocks;
  request.threads = launch.threads;
  request.dynamic_shared_bytes = launch.dynamic_shared_bytes;
  request.arguments = launch.arguments;
  request.guard = &guard;
  request.second = device.runtime().settings().threads > 1 ? &device.second_thread() : nullptr;
  const absl::Status status = image.Run(*launch.function->kernel, request);
  if (!status.ok()) {
    Report().Add(absl::StrCat(operation->text, ": ", std::string(status.message()),
                              guard.problem().empty() ? "" : absl::StrCat("; ", guard.problem())));
    return absl::IsOutOfRange(status) ? hipErrorIllegalAddress : hipErrorLaunchFailure;
  }
  return guard.End(operation);
}

}  // namespace

Module::~Module() {
  MutexLock lock(mu);
  device_.RemoveGlobals(variables);
}

Prepared PrepareLaunch(const std::shared_ptr<Function>& function, const LaunchRequest& request) {
  Prepared prepared;
  const KernelFacts& kernel = *function->kernel;
  const auto refuse = [&](hipError_t error, const std::string& problem) {
    Report().Add(absl::StrCat("launch of ", kernel.name, ": ", problem));
    prepared.error = error;
    return prepared;
  };
  if (std::string problem = FindProblemOfLaunch(kernel, request); !problem.empty()) {
    return refuse(hipErrorInvalidConfiguration, problem);
  }
  auto launch = std::make_shared<PreparedKernel>();
  if (std::string problem = CopyArguments(kernel, request, launch->arguments); !problem.empty()) {
    return refuse(hipErrorInvalidValue, problem);
  }
  launch->function = function;
  launch->blocks = request.blocks;
  launch->threads = request.threads;
  launch->dynamic_shared_bytes = request.dynamic_shared_bytes;
  prepared.text = absl::StrCat("kernel ", kernel.name);
  prepared.action = [launch](const OperationPtr& operation) { return RunKernel(*launch, operation); };
  return prepared;
}

}  // namespace backplane::hip::emulated
