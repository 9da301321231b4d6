#include "plugins/hip/report/gpu_peaks.h"

namespace backplane::hip {
namespace {

constexpr double kGiga = 1e9, kTera = 1e12;

// Rates of f64 that a data sheet does not state follow from that of f32 by the ratio of the architecture.
constexpr GpuPeaks kPeaks[] = {
    {"gfx906", "AMD Radeon Instinct MI60", "AMD, data sheet of Radeon Instinct MI60", 1024 * kGiga, 14.7 * kTera,
     7.4 * kTera, 0, 0, 0, 0},
    {"gfx908", "AMD Instinct MI100", "AMD, data sheet of Instinct MI100", 1228.8 * kGiga, 23.1 * kTera, 11.5 * kTera,
     46.1 * kTera, 184.6 * kTera, 92.3 * kTera, 184.6 * kTera},
    {"gfx90a", "AMD Instinct MI250X, one of its two dies", "AMD, data sheet of Instinct MI250X, halved", 1638.4 * kGiga,
     23.95 * kTera, 23.95 * kTera, 47.85 * kTera, 191.5 * kTera, 191.5 * kTera, 191.5 * kTera, 47.85 * kTera},
    {"gfx942", "AMD Instinct MI300X", "AMD, data sheet of Instinct MI300X", 5300 * kGiga, 163.4 * kTera, 81.7 * kTera,
     163.4 * kTera, 1307.4 * kTera, 1307.4 * kTera, 2614.9 * kTera, 163.4 * kTera},
    {"gfx1030", "AMD Radeon RX 6900 XT", "AMD, specifications of Radeon RX 6900 XT; f64 at 1/16 of f32", 512 * kGiga,
     23.04 * kTera, 1.44 * kTera, 0, 0, 0, 0},
    {"gfx1100", "AMD Radeon RX 7900 XTX", "AMD, specifications of Radeon RX 7900 XTX; f64 at 1/32 of f32", 960 * kGiga,
     61.4 * kTera, 1.92 * kTera, 0, 122.8 * kTera, 122.8 * kTera, 0},
    {"gfx1101", "AMD Radeon RX 7800 XT", "AMD, specifications of Radeon RX 7800 XT; f64 at 1/32 of f32", 624.1 * kGiga,
     37.3 * kTera, 1.17 * kTera, 0, 74.6 * kTera, 74.6 * kTera, 0},
    {"gfx1102", "AMD Radeon RX 7600", "AMD, specifications of Radeon RX 7600; f64 at 1/32 of f32", 288 * kGiga,
     21.75 * kTera, 0.68 * kTera, 0, 43.5 * kTera, 43.5 * kTera, 0},
    {"gfx1200", "AMD Radeon RX 9060 XT", "AMD, specifications of Radeon RX 9060 XT; f64 at 1/64 of f32", 320 * kGiga,
     25.6 * kTera, 0.4 * kTera, 0, 102.6 * kTera, 102.6 * kTera, 0},
    {"gfx1201", "AMD Radeon RX 9070 XT", "AMD, specifications of Radeon RX 9070 XT; f64 at 1/64 of f32", 640 * kGiga,
     48.7 * kTera, 0.76 * kTera, 0, 195 * kTera, 195 * kTera, 0},
    {"sm_80", "NVIDIA A100 40GB", "NVIDIA, data sheet of A100", 1555 * kGiga, 19.5 * kTera, 9.7 * kTera, 156 * kTera,
     312 * kTera, 312 * kTera, 624 * kTera, 19.5 * kTera},
    {"sm_86", "NVIDIA GeForce RTX 3090", "NVIDIA, Ampere GA102 white paper", 936 * kGiga, 35.6 * kTera, 0.56 * kTera,
     35.6 * kTera, 71 * kTera, 71 * kTera, 284 * kTera},
    {"sm_89", "NVIDIA GeForce RTX 4090", "NVIDIA, Ada white paper", 1008 * kGiga, 82.6 * kTera, 1.29 * kTera,
     82.6 * kTera, 165.2 * kTera, 165.2 * kTera, 660.6 * kTera},
    {"sm_90", "NVIDIA H100 SXM", "NVIDIA, data sheet of H100", 3350 * kGiga, 67 * kTera, 34 * kTera, 494.7 * kTera,
     989.4 * kTera, 989.4 * kTera, 1978.9 * kTera, 67 * kTera},
    {"sm_90a", "NVIDIA H100 SXM", "NVIDIA, data sheet of H100", 3350 * kGiga, 67 * kTera, 34 * kTera, 494.7 * kTera,
     989.4 * kTera, 989.4 * kTera, 1978.9 * kTera, 67 * kTera},
};

}  // namespace

absl::Span<const GpuPeaks> AllGpuPeaks() { return kPeaks; }

double GpuPeaks::MatrixPeak(PrimitiveType operand) const {
  switch (operand) {
    case PrimitiveType::kF32:
      return matrix_f32;
    case PrimitiveType::kF16:
      return matrix_f16;
    case PrimitiveType::kBF16:
      return matrix_bf16;
    case PrimitiveType::kS8:
      return matrix_s8;
    case PrimitiveType::kF64:
      return matrix_f64;
    default:
      return 0;
  }
}

const GpuPeaks* FindGpuPeaks(absl::string_view target) {
  for (const GpuPeaks& peaks : kPeaks) {
    if (target == peaks.target) return &peaks;
  }
  return nullptr;
}

}  // namespace backplane::hip
