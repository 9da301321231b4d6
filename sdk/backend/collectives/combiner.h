// The reduction of an all-reduce or reduce-scatter, made ready to run on arrays.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_COMBINER_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_COMBINER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ir/computation.h"

namespace backplane {

class ScalarProgram;

// Any computation of two scalars of one type. Sums, products and the like of native types run as plain loops, other
// elementwise bodies as programs over scalars, and what is left through the evaluator, element by element.
// Thread-safe. The computation must outlive it.
class Combiner {
 public:
  // `type` is that of the arrays; a computation that is one binary operation serves arrays of any type that has it.
  static absl::StatusOr<Combiner> Make(const Computation& computation, PrimitiveType type);
  ~Combiner();
  Combiner(Combiner&&);
  Combiner& operator=(Combiner&&);

  // out[i] = computation(... computation(arrays[0][i], arrays[1][i]) ..., arrays.back()[i]); `out` overlaps no array
  // but may be the first of them. Sums and products of bf16 and f16 are kept in f32 and rounded once.
  absl::Status Fold(void* out, absl::Span<const void* const> arrays, int64_t n) const;

 private:
  Combiner() = default;
  // acc[i] = computation(acc[i], x[i])
  absl::Status Run(void* acc, const void* x, int64_t n) const;

  using Loop = void (*)(void* out, absl::Span<const void* const> arrays, int64_t n);
  Loop loop_ = nullptr;
  std::unique_ptr<ScalarProgram> program_;
  const Computation* computation_ = nullptr;
  PrimitiveType type_ = PrimitiveType::kInvalid;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_COMBINER_H_
