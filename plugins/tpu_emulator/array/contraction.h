// Dots and convolutions on the matrix unit (array_product.h).
//
// A dot is one product of [batch, free, contracting] by [batch, contracting, free]. A convolution is one product of the
// matrix of windows by the filter. Its contracting dimension runs over the window positions, last dimension fastest,
// and within a position over the input features.
//
// The precision of f32 operands is the higher of the two `operand_precision` entries, or the one that a dot `algorithm`
// names. Narrower operands always take one pass. Sums are f32 and are rounded once to the result type.
//
// Operands and result may have tiled layouts. Padding is neither read nor written. The windows of a convolution are
// read from the operand itself; if the convolution pads or dilates its input, they are read from a zero-padded copy.
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

// Returns OK if the matrix unit supports this dot or convolution: operands and result are f32 or narrower
// floating-point types. Otherwise returns Unimplemented with the reason. Integer products are exact on any unit, and
// the matrix unit has neither f64 nor complex types.
absl::Status CheckArraySupports(const Instruction& op);

// Returns the number of passes that the operation asks for: 0 (no splitting), 1, 3 or 6. Requires CheckArraySupports.
int CountPasses(const Instruction& op);

// Whether the matrix unit can read operand 0 or 1 in `layout`, or write the result (`which` = 2) in it.
bool SupportsLayout(const Instruction& op, int which, const Layout& layout);

// A planned dot or convolution. Immutable and thread-safe.
class Contraction {
 public:
  // `lhs`, `rhs` and `out` are the layouts of operands and result; null means row-major. Each must satisfy
  // SupportsLayout. `side` is 128 or 256. All dimensions are static. Returns the errors of CheckArraySupports.
  static absl::StatusOr<std::unique_ptr<const Contraction>> Plan(const Instruction& op, const Layout* lhs,
                                                                 const Layout* rhs, const Layout* out, int64_t side);

  double multiply_adds() const;  // summed over all passes
  int64_t workspace_bytes(int threads) const;
  // `workspace` is aligned to 64 bytes and has workspace_bytes() bytes. `pool` may be null.
  void Run(const void* lhs, const void* rhs, void* out, void* workspace, engine::ThreadPool* pool) const;
  std::string ToString() const;  // one line for the compile log

 private:
  struct Side {
    Offsets batch, outer, k;
    int64_t base = 0;                                   // offset of the first element
    PrimitiveType type = PrimitiveType::kF32;           // the type that the product reads
    PrimitiveType converted = PrimitiveType::kInvalid;  // the operand's own type, if it must be converted first
    int64_t elements = 0;
    int64_t converted_bytes() const;
  };
  // A copy of the left operand with zeros for the padding and base dilation of a convolution.
  struct PaddedCopy {
    int64_t elements = 0;
    bool has_gaps = false;
    // Offsets for each index of every dimension but the innermost; -1: not copied.
    std::vector<std::vector<int64_t>> from, to;
    struct Run {
      int64_t from, from_step, to, to_step, count;
    };
    std::vector<Run> runs;  // of the innermost dimension
    int64_t outer = 1;      // number of indices of the other dimensions together
  };

  Contraction() = default;
  void PlanDot(const Instruction& op, const PhysicalLayout& lhs, const PhysicalLayout& rhs, const PhysicalLayout& out);
  void PlanConvolution(const Instruction& op, const PhysicalLayout& lhs, const PhysicalLayout& rhs,
                       const PhysicalLayout& out, const Layout* lhs_layout);
  int64_t padded_copy_bytes() const;
  void RunPaddedCopy(const void* from, void* to, engine::ThreadPool* pool) const;

  ArrayProductShape shape_;
  Side lhs_, rhs_;
  Offsets out_batch_, out_rows_, out_columns_;
  PrimitiveType out_type_ = PrimitiveType::kF32;
  std::unique_ptr<PaddedCopy> padded_copy_;
};

// Runs the operation on literals. For tests.
absl::StatusOr<Literal> RunOnArray(const Instruction& op, const Literal& lhs, const Literal& rhs, int64_t side,
                                   engine::ThreadPool* pool);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_CONTRACTION_H_
