// Exported functions of the emulation itself (hipemu.h), and what happens when the library is unloaded.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "plugins/hip/emulated_runtime/api.h"

namespace backplane::hip::emulated {
namespace {

std::string FullReport() {
  std::string text = Report().Text();
  if (Runtime* runtime = Runtime::Get(); runtime != nullptr) {
    for (int i = 0; i < runtime->device_count(); ++i) {
      for (const std::string& problem : runtime->device(i)->heap().CheckGuards()) Report().Add(problem);
    }
    text = Report().Text() + runtime->DescribeLeaks();
  }
  return text;
}

__attribute__((destructor)) void EndProcess() {
  try {
    Runtime* runtime = Runtime::GetExisting();
    if (runtime == nullptr) return;
    const std::string path = runtime->settings().report_path;
    if (!path.empty()) {
      const std::string text = FullReport();
      if (std::FILE* file = std::fopen(path.c_str(), "we"); file != nullptr) {
        std::fwrite(text.data(), 1, text.size(), file);
        std::fclose(file);
      }
    }
    Runtime::Shutdown();
  } catch (...) {  // the process ends anyway
  }
}

}  // namespace
}  // namespace backplane::hip::emulated

namespace backplane::hip {
using namespace emulated;  // NOLINT: the exported functions are thin

HIPEMU_EXPORT size_t hipemuReport(char* text, size_t bytes) noexcept {
  try {
    const std::string report = FullReport();
    if (text != nullptr && bytes > 0) {
      const size_t copied = std::min(bytes - 1, report.size());
      std::memcpy(text, report.data(), copied);
      text[copied] = '\0';
    }
    return report.size();
  } catch (...) {
    return 0;
  }
}

HIPEMU_EXPORT void hipemuClearReport() noexcept { Report().Clear(); }

HIPEMU_EXPORT hipError_t hipemuSetFault(const char* function, int64_t n, int error) noexcept {
  try {
    Runtime* runtime = Runtime::Get();
    if (runtime == nullptr) return hipErrorNotInitialized;
    if (function == nullptr || n < 0 || error < 0) return hipErrorInvalidValue;
    runtime->faults().Set(function, n, static_cast<hipError_t>(error));
    return hipSuccess;
  } catch (...) {
    return hipErrorOutOfMemory;
  }
}

HIPEMU_EXPORT int64_t hipemuCallCount(const char* function) noexcept {
  Runtime* runtime = Runtime::Get();
  return runtime == nullptr || function == nullptr ? 0 : runtime->faults().calls(function);
}

HIPEMU_EXPORT void hipemuShutdown() noexcept { Runtime::Shutdown(); }

}  // namespace backplane::hip
