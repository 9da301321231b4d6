#include "sdk/compiler/dot_strides.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/ir/computation.h"

namespace backplane::compiler {
namespace {

// The dimensions, outermost first, as one run of equal steps; nullopt when they are not.
std::optional<StridedRun> Collapse(absl::Span<const int64_t> dims, absl::Span<const int64_t> sizes,
                                   absl::Span<const int64_t> strides) {
  StridedRun run;
  bool first = true;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    if (sizes[*d] == 1) continue;
    if (first) {
      run = {sizes[*d], strides[*d]};
      first = false;
    } else if (strides[*d] == run.stride * run.size) {
      run.size *= sizes[*d];
    } else {
      return std::nullopt;
    }
  }
  return run;
}

Ints FreeDims(const Shape& shape, const Ints& batch, const Ints& contracting) {
  Ints free;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
        std::find(contracting.begin(), contracting.end(), d) == contracting.end()) {
      free.push_back(d);
    }
  }
  return free;
}

// The contracting dimensions of both sides in one common order: ascending on the side named.
std::pair<Ints, Ints> ContractingInOrderOf(const DotDimensions& d, bool lhs) {
  std::vector<size_t> order(d.lhs_contracting.size());
  std::iota(order.begin(), order.end(), 0);
  const Ints& key = lhs ? d.lhs_contracting : d.rhs_contracting;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key[a] < key[b]; });
  Ints l, r;
  for (size_t i : order) {
    l.push_back(d.lhs_contracting[i]);
    r.push_back(d.rhs_contracting[i]);
  }
  return {l, r};
}

}  // namespace

DotOperandRuns GetDotOperandRuns(const Instruction& dot) {
  const DotDimensions& d = dot.dot_dims();
  const Shape& lhs = dot.operand(0)->shape();
  const Shape& rhs = dot.operand(1)->shape();
  const DimVector ls = RowMajorStrides(lhs.dimensions()), rs = RowMajorStrides(rhs.dimensions());
  DotOperandRuns r;
  r.m = Collapse(FreeDims(lhs, d.lhs_batch, d.lhs_contracting), lhs.dimensions(), ls);
  r.n = Collapse(FreeDims(rhs, d.rhs_batch, d.rhs_contracting), rhs.dimensions(), rs);
  for (bool by_lhs : {true, false}) {
    auto [lc, rc] = ContractingInOrderOf(d, by_lhs);
    r.lhs_k = Collapse(lc, lhs.dimensions(), ls);
    r.rhs_k = Collapse(rc, rhs.dimensions(), rs);
    if (r.lhs_k && r.rhs_k) break;
  }
  return r;
}

std::optional<DotCall> AsDotCall(const Instruction& instruction) {
  DotCall call;
  if (instruction.Is(Opcode::kDot)) {
    call.dot = &instruction;
    call.permutation.resize(static_cast<size_t>(instruction.shape().rank()));
    std::iota(call.permutation.begin(), call.permutation.end(), 0);
    return call;
  }
  if (!instruction.Is(Opcode::kFusion) ||
      instruction.attrs().GetEnum<FusionKind>(AttrId::kFusionKind) != FusionKind::kCustom)
    return std::nullopt;
  const Instruction* root = instruction.called(0)->root();
  if (!root->Is(Opcode::kTranspose) || !root->operand(0)->Is(Opcode::kDot)) return std::nullopt;
  call.dot = root->operand(0);
  call.permutation = root->dimensions();
  return call;
}

DotResultRuns GetDotResultRuns(const Instruction& dot, absl::Span<const int64_t> permutation) {
  const DotDimensions& d = dot.dot_dims();
  const Shape& shape = dot.shape();
  std::vector<int64_t> permuted;
  for (int64_t p : permutation) permuted.push_back(shape.dimensions(p));
  const DimVector physical = RowMajorStrides(permuted);
  DotResultRuns r;
  r.strides.resize(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) r.strides[permutation[i]] = physical[i];
  const int64_t batch = static_cast<int64_t>(d.lhs_batch.size());
  const int64_t lhs_free = dot.operand(0)->shape().rank() - batch - static_cast<int64_t>(d.lhs_contracting.size());
  Ints m, n;
  for (int64_t i = batch; i < shape.rank(); ++i) (i < batch + lhs_free ? m : n).push_back(i);
  r.m = Collapse(m, shape.dimensions(), r.strides);
  r.n = Collapse(n, shape.dimensions(), r.strides);
  return r;
}

bool CanWritePermuted(const Instruction& dot, absl::Span<const int64_t> permutation) {
  const DotResultRuns r = GetDotResultRuns(dot, permutation);
  return r.m && r.n && (r.n->size == 1 || r.n->stride == 1);
}

}  // namespace backplane::compiler
