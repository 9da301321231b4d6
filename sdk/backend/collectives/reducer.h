// The reduction of an all-reduce or reduce-scatter, compiled to run on whole arrays.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_REDUCER_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_REDUCER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ir/computation.h"

namespace backplane {

class ScalarProgram;

// Applies a computation of two scalars elementwise to arrays. Sums and products of native types run as vectorized
// loops. Other elementwise computations run as scalar programs (core/eval/scalar_compiler.h). All others run through
// the evaluator, element by element. Thread-safe. The computation must outlive the reducer.
class Reducer {
 public:
  // `type` is the element type of the arrays. A computation of one binary operation may be declared for another type.
  // Returns InvalidArgument if any other computation does not reduce values of `type`.
  static absl::StatusOr<Reducer> Make(const Computation& computation, PrimitiveType type);
  ~Reducer();
  Reducer(Reducer&&);
  Reducer& operator=(Reducer&&);

  // Reduces `arrays`, each of `n` elements, from left to right into `out`:
  //   out[i] = computation(... computation(arrays[0][i], arrays[1][i]) ..., arrays.back()[i])
  // `arrays` must not be empty. `out` may be arrays[0] and must overlap no other array. Sums and products of
  // floats narrower than f32 accumulate in f32 and round once. Returns the errors of the evaluator.
  absl::Status Reduce(void* out, absl::Span<const void* const> arrays, int64_t n) const;

 private:
  Reducer() = default;
  // acc[i] = computation(acc[i], x[i])
  absl::Status Accumulate(void* acc, const void* x, int64_t n) const;

  using Loop = void (*)(void* out, absl::Span<const void* const> arrays, int64_t n);
  Loop loop_ = nullptr;
  std::unique_ptr<ScalarProgram> program_;
  const Computation* computation_ = nullptr;
  PrimitiveType type_ = PrimitiveType::kInvalid;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_REDUCER_H_
