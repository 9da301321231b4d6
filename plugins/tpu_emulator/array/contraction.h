// dot and convolution on the matrix unit (array_product.h).
//
// A dot is one product of [batch, free, contracting] by [batch, contracting, free]. A convolution is one of rows of
// windows by the kernel: contracting runs over the window's positions, the last one fastest, and within a position over
// the input features. Precision of f32 operands: the higher of the two `operand_precision` entries, or what a dot
// `algorithm` asks for; narrower operands take one pass whatever it says. Sums are f32, rounded once to the result.
//
// Operands and result may lie in tiles: they are read and written there, and padding is neither. Windows are read from
// the operand itself, from a copy with zeros around it where the convolution pads or dilates.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_CONTRACTION_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_CONTRACTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"
#include "core/types/literal.h"
#include "plugins/tpu_emulator/array/array_product.h"

namespace backplane::tpu {

// OK when the unit computes this dot or convolution: operands of f32 or narrower floating types, and a result of such
// a type. Unimplemented, with the reason, otherwise (integers are exact wherever they are computed; f64 and complex
// numbers are no type of the unit).
absl::Status TakenByArray(const Instruction& op);

// Passes that the operation asks for: 0 (as they are), 1, 3 or 6. Of an operation that TakenByArray accepts.
int PassesOf(const Instruction& op);

// Whether the unit can read operand 0 or 1 of this operation, or write its result (2), where it lies in this layout.
bool CanLieIn(const Instruction& op, int which, const Layout& layout);

// A dot or convolution with all that can be known before it runs. Immutable; any number of threads may run it.
class Contraction {
 public:
  // `lhs`, `rhs`, `out`: where they lie, null for row-major; CanLieIn has said that they can. `side` 128 or 256.
  // Dimensions are static. Errors: those of TakenByArray.
  static absl::StatusOr<std::unique_ptr<const Contraction>> Plan(const Instruction& op, const Layout* lhs,
                                                                 const Layout* rhs, const Layout* out, int64_t side);

  double multiply_adds() const;  // of all passes
  int64_t workspace_bytes(int threads) const;
  // `workspace` is aligned to 64 bytes. `pool` may be null.
  void Run(const void* lhs, const void* rhs, void* out, void* workspace, engine::ThreadPool* pool) const;
  std::string ToString() const;  // one line for a log

 private:
  struct Side {
    Offsets batch, outer, k;
    int64_t base = 0;                                   // of the first element
    PrimitiveType type = PrimitiveType::kF32;           // as it is read
    PrimitiveType converted = PrimitiveType::kInvalid;  // the operand's own, where that is another one
    int64_t elements = 0;
    int64_t converted_bytes() const;
  };
  // A copy of the left operand with room around and between its elements.
  struct Spread {
    int64_t elements = 0;
    bool has_holes = false;
    std::vector<std::vector<int64_t>> from, to;  // by dimension but the innermost: places; -1: not copied
    struct Run {
      int64_t from, from_step, to, to_step, count;
    };
    std::vector<Run> runs;  // of the innermost one
    int64_t outer = 1;      // indices of the others
  };

  Contraction() = default;
  void PlanDot(const Instruction& op, const PhysicalLayout& lhs, const PhysicalLayout& rhs, const PhysicalLayout& out);
  void PlanConvolution(const Instruction& op, const PhysicalLayout& lhs, const PhysicalLayout& rhs,
                       const PhysicalLayout& out, const Layout* lhs_layout);
  int64_t spread_bytes() const;
  void RunSpread(const void* from, void* to, engine::ThreadPool* pool) const;

  ArrayProductShape shape_;
  Side lhs_, rhs_;
  Offsets out_batch_, out_rows_, out_columns_;
  PrimitiveType out_type_ = PrimitiveType::kF32;
  std::unique_ptr<Spread> spread_;
};

// On literals, for tests and the like.
absl::StatusOr<Literal> RunOnArray(const Instruction& op, const Literal& lhs, const Literal& rhs, int64_t side,
                                   engine::ThreadPool* pool);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_CONTRACTION_H_
