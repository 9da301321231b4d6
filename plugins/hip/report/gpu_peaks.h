// The peaks of memory and arithmetic that the makers publish, for one GPU of each target.
#ifndef BACKPLANE_PLUGINS_HIP_REPORT_GPU_PEAKS_H_
#define BACKPLANE_PLUGINS_HIP_REPORT_GPU_PEAKS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/types/primitive_type.h"

namespace backplane::hip {

// Rates are per second. A multiply-add counts as two operations.
struct GpuPeaks {
  const char* target;
  const char* gpu;     // the product to which the numbers belong
  const char* source;  // where they are published
  double memory_bytes;
  double vector_f32, vector_f64;
  // The rates of matrix instructions, without structured sparsity; 0: not published, or the kernels of this plugin use
  // none for the type. The rate for f32 on NVIDIA's GPUs is that of tf32.
  double matrix_f32, matrix_f16, matrix_bf16, matrix_s8, matrix_f64 = 0;

  // Returns the peak of matrix instructions for operands of the type; 0 if it is not in the table.
  double MatrixPeak(PrimitiveType operand) const;
  // Returns the peak of vector instructions for the type. Types other than f64 count as f32.
  double VectorPeak(PrimitiveType type) const { return type == PrimitiveType::kF64 ? vector_f64 : vector_f32; }
};

absl::Span<const GpuPeaks> AllGpuPeaks();
// Null for targets that no single product stands for: the generic ones, the host, and GPUs that use a system's memory.
const GpuPeaks* FindGpuPeaks(absl::string_view target);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_REPORT_GPU_PEAKS_H_
