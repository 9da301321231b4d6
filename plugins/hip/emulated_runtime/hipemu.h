// What libhipemu exports besides HIP's functions, for tests: look the functions up by dlsym.
//
// libhipemu.so runs HIP's functions (plugins/hip/runtime/hip_api.h) on the CPU, over emulated devices that the
// environment describes (settings.h). It is strict: it returns errors and writes a report where a GPU would go on with
// wrong data. It never prints and never aborts.
//
// It can stand in for libamdhip64.so in other programs: give it that name by a link in a folder of LD_LIBRARY_PATH.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_HIPEMU_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_HIPEMU_H_

#include <cstddef>
#include <cstdint>

#include "plugins/hip/runtime/hip_types.h"

namespace backplane::hip {

// size_t hipemuReport(char* text, size_t bytes): writes the report, ended by a null, as far as it fits, and returns the
// length of all of it. A line is a misuse that was found since the last hipemuClearReport; the last lines name what is
// not freed now. The environment variable HIPEMU_REPORT names a file that gets the report when the library is unloaded.
using HipemuReport = size_t (*)(char* text, size_t bytes);
// void hipemuClearReport().
using HipemuClearReport = void (*)();
// hipError_t hipemuSetFault(const char* function, int64_t n, int error): the n-th call of the function from now on
// fails, with its usual error if `error` is 0; n = 0 withdraws the function's faults. Sticky errors (700, 702, 710,
// 719) of copies, fills, kernels and graphs come later, as on a GPU: the call succeeds, its work fails.
using HipemuSetFault = hipError_t (*)(const char* function, int64_t n, int error);
// int64_t hipemuCallCount(const char* function): how often the function was called.
using HipemuCallCount = int64_t (*)(const char* function);
// void hipemuShutdown(): ends all streams, forgets all handles and memory. The next call reads the environment again.
// No other call may be under way.
using HipemuShutdown = void (*)();

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_HIPEMU_H_
