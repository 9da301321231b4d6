// The settings of the emulated devices, from environment variables.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_SETTINGS_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_SETTINGS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane::hip::emulated {

struct Settings {
  int devices = 2;                      // HIPEMU_DEVICES, 0 to 64
  std::string architecture = "gfx942";  // HIPEMU_ARCH: gfx942 (waves of 64 lanes) or gfx1100 (32)
  size_t memory = size_t{1} << 30;      // HIPEMU_MEMORY: bytes of each device
  int64_t latency_us = 0;               // HIPEMU_LATENCY_US: how long each copy, fill and kernel waits before it starts
  bool strict_order = true;             // HIPEMU_STRICT_ORDER=0: no check of the order between streams
  int threads = 2;                      // HIPEMU_THREADS: host threads of a launch, 1 or 2
  size_t poison = size_t{16} << 20;  // HIPEMU_POISON: bytes at the start of an allocation that are filled with poison
  std::string faults;                // HIPEMU_FAIL, see faults.h
  std::string report_path;           // HIPEMU_REPORT: the file that gets the report when the process ends

  int wave_size() const { return architecture == "gfx942" ? 64 : 32; }
  int compute_units() const { return architecture == "gfx942" ? 304 : 96; }
};

// Reads the environment. The InvalidArgument error names the variable, its value and the permitted values.
absl::StatusOr<Settings> ReadSettings();

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_SETTINGS_H_
