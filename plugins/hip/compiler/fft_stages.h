// How a Fourier transform is divided into stages, each of which is a launch.
//
// A stage transforms lines: sequences of numbers that a block holds in shared memory. A transform of several dimensions
// has at least one stage for each. A line that is too long for a block has several: with n = L R E, the stage of length
// R reads element c + E (j + R k) of the line and writes element c + E (k + L j), for c < E and k < L. L is the product
// of the lengths before it and E that of those after it; between two stages the numbers are multiplied by
// exp(-+ 2 pi i c j / (R E)).
//
// Within a stage, the passes and the order of additions are those of the definition (core/ops/families/fft_passes.h),
// so transforms of one stage for each dimension have its bits where no operations are fused.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_FFT_STAGES_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_FFT_STAGES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"

namespace backplane::hip {

struct FftStage {
  enum class Kind : uint8_t { kComplex, kRealForward, kRealBackward };
  enum class Buffer : uint8_t { kOperand, kResult, kScratch, kSecondScratch };
  Kind kind = Kind::kComplex;
  bool forward = true;  // the sign of the exponent is negative
  int64_t length = 1;   // R, in the time domain
  int64_t before = 1;   // L
  int64_t after = 1;    // E
  int64_t stride = 1;   // between neighbours of the dimension, in elements
  int64_t lines = 1;    // of all
  double scale = 1;     // of the results
  Buffer from = Buffer::kOperand, to = Buffer::kResult;
  int64_t lines_of_block = 1;  // that a block transforms at a time

  // Whether the elements of a line are neighbours in what the stage reads, or in what it writes.
  bool reads_rows() const { return stride == 1 && after == 1; }
  bool writes_rows() const { return reads_rows() && before == 1; }
};

struct FftPass {
  int64_t radix = 2, ido = 1, l1 = 1;  // as the definition calls them
};

// Returns the passes of a stage in the order of the definition's forward transforms of complex numbers.
std::vector<FftPass> ListPasses(const FftStage& stage);
// Returns the slots of shared memory that a line of so many numbers takes: some stay empty, so that threads that step
// through the line meet few banks twice.
int64_t CountLineSlots(const FftStage& stage);
int64_t PadSlot(const FftStage& stage, int64_t position);

// The stages of a transform. Returns Unimplemented for lengths that LegalizeFfts replaces.
struct FftStages {
  std::vector<FftStage> stages;
  int64_t scratch_arrays = 0;  // of the size of the larger of operand and result
};
absl::StatusOr<FftStages> DivideIntoStages(const Instruction& fft);

// Whether a stage can have the prime factors of a length, and a real line fits into the shared memory of a block.
bool HasSmallFactors(int64_t length);
bool FitsAsRealLine(int64_t length, PrimitiveType type);

struct KernelPlan;  // of kernel_plan.h, which includes this header
absl::StatusOr<KernelPlan> PlanFft(const Instruction& fft);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_FFT_STAGES_H_
