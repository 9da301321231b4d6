#include "plugins/hip/compiler/dot_problem.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/ir/computation.h"
#include "core/types/integer_division.h"
#include "plugins/hip/compiler/convolution_problem.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/compiler/dot_strides.h"

namespace backplane::hip {

int64_t DotProblem::batch_size() const {
  int64_t size = 1;
  for (const BatchDim& d : batch) size *= d.size;
  return size;
}

PrimitiveType DotProblem::sum_type() const { return codegen::IsNarrowFloat(out_type) ? PrimitiveType::kF32 : out_type; }

std::optional<DotSite> FindDot(const Instruction& instruction) {
  const std::optional<compiler::DotCall> call = compiler::AsDotCall(instruction);
  // The second product of an attention is no site: its operand is computed in the kernel.
  if (call && (call->dot == &instruction ||
               (call->dot->operand(0)->Is(Opcode::kParameter) && call->dot->operand(1)->Is(Opcode::kParameter))))
    return DotSite{call->dot, call->dot, call->permutation};
  auto identity = [](const Instruction& i) {
    Ints permutation(static_cast<size_t>(i.shape().rank()));
    std::iota(permutation.begin(), permutation.end(), 0);
    return permutation;
  };
  if (instruction.Is(Opcode::kConvolution)) {
    if (!IsConvolutionProduct(instruction)) return std::nullopt;
    return DotSite{&instruction, &instruction, identity(instruction)};
  }
  if (!instruction.Is(Opcode::kFusion)) return std::nullopt;
  DotSite site;
  site.body = instruction.called(0);
  for (const auto& i : site.body->instructions()) {
    if (!i->Is(Opcode::kDot) && !i->Is(Opcode::kConvolution)) continue;
    if (site.dot != nullptr || !i->operand(0)->Is(Opcode::kParameter) || !i->operand(1)->Is(Opcode::kParameter))
      return std::nullopt;
    site.dot = site.value = i.get();
  }
  if (site.dot == nullptr) return std::nullopt;
  site.lhs = site.dot->operand(0)->parameter_number(), site.rhs = site.dot->operand(1)->parameter_number();
  if (site.dot->Is(Opcode::kConvolution)) {
    site.permutation = identity(*site.dot);
    // As SplitContractions divides a sum: the body's result stands first, and zeros behind it.
    const Instruction* root = site.body->root();
    const Instruction* first = root->Is(Opcode::kPad) ? root->operand(0) : nullptr;
    if (first != nullptr && first->Is(Opcode::kReshape) && first->operand(0) == site.dot &&
        first->shape().rank() == site.dot->shape().rank() + 1 && first->shape().dimensions(0) == 1) {
      site.parts = root->shape().dimensions(0);
      site.body = nullptr;
    }
    return site;
  }
  if (site.dot->users().size() == 1 && (*site.dot->users().begin())->Is(Opcode::kTranspose)) {
    site.value = *site.dot->users().begin();
    site.permutation = site.value->dimensions();
  } else {
    site.permutation = identity(*site.dot);
  }
  return site;
}

absl::StatusOr<DotProblem> MakeDotProblem(const DotSite& site) {
  const Instruction& dot = *site.dot;
  if (dot.Is(Opcode::kConvolution)) return MakeConvolutionProblem(dot, site.parts);
  const compiler::DotOperandRuns runs = compiler::GetDotOperandRuns(dot);
  const compiler::DotResultRuns out = compiler::GetDotResultRuns(dot, site.permutation);
  if (!runs.lhs_ok() || !runs.rhs_ok() || !out.m || !out.n)
    return absl::InvalidArgumentError(absl::StrCat(dot.name(), ": an operand's dimensions are no single run"));
  DotProblem p;
  p.lhs_type = dot.operand(0)->shape().element_type();
  p.rhs_type = dot.operand(1)->shape().element_type();
  p.out_type = dot.shape().element_type();
  p.m = runs.m->size, p.n = runs.n->size, p.k = runs.lhs_k->size;
  p.lhs_m_stride = runs.m->stride, p.lhs_k_stride = runs.lhs_k->stride;
  p.rhs_k_stride = runs.rhs_k->stride, p.rhs_n_stride = runs.n->stride;
  p.out_m_stride = out.m->stride, p.out_n_stride = out.n->stride;
  const DotDimensions& d = dot.dot_dims();
  const DimVector lhs = RowMajorStrides(dot.operand(0)->shape().dimensions());
  const DimVector rhs = RowMajorStrides(dot.operand(1)->shape().dimensions());
  for (size_t i = 0; i < d.lhs_batch.size(); ++i) {
    p.batch.push_back({dot.operand(0)->shape().dimensions(d.lhs_batch[i]), lhs[static_cast<size_t>(d.lhs_batch[i])],
                       rhs[static_cast<size_t>(d.rhs_batch[i])], out.strides[i]});
  }
  return p;
}

ProductTile ChooseProductTile(const DotProblem& p) {
  constexpr int64_t kSmall = 64, kLarge = 128;
  constexpr int64_t kManyTiles = 120;  // about the compute units of a large GPU
  // A thread keeps up to 64 sums in registers, more of which it has no room for.
  if (IsComplex(p.sum_type()) || ByteWidth(p.sum_type()) > 4) return {kSmall, kSmall};
  for (const ProductTile tile : {ProductTile{kLarge, kLarge}, {kLarge, kSmall}, {kSmall, kLarge}}) {
    const bool wastes = (tile.rows == kLarge && p.m <= kSmall) || (tile.columns == kLarge && p.n <= kSmall);
    if (!wastes && p.batch_size() * CeilDiv(p.m, tile.rows) * CeilDiv(p.n, tile.columns) >= kManyTiles) return tile;
  }
  return {kSmall, kSmall};
}

}  // namespace backplane::hip
