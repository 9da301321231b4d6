#include <optional>

#include "absl/algorithm/container.h"
#include "core/passes/algebra/rules.h"
#include "core/passes/match.h"

namespace backplane::algebra {
namespace {

using namespace match;

// Returns the start of the only window that constant indices select, for each dimension of `shape`, or nullopt if they
// may select several. `fits` receives whether the window lies within the shape without clamping.
std::optional<Ints> FindOnlyStart(const Instruction* indices, const Ints& map, const Shape& shape, const Ints& sizes,
                                  bool* fits) {
  if (!indices->Is(Opcode::kConstant) || indices->shape().num_elements() != static_cast<int64_t>(map.size()))
    return std::nullopt;
  Ints starts(static_cast<size_t>(shape.rank()), 0);
  *fits = true;
  for (size_t k = 0; k < map.size(); ++k) {
    const size_t d = static_cast<size_t>(map[k]);
    const int64_t room = shape.dimensions(map[k]) - sizes[d];
    if (room < 0) return std::nullopt;
    starts[d] = ReadClampedStart(indices->literal(), static_cast<int64_t>(k), room);
    *fits &= starts[d] == indices->literal().GetAsInt(static_cast<int64_t>(k));
  }
  return starts;
}

// A gather of one window is a slice. The window and the result may differ in dimensions of size 1.
Instruction* GatherOne(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  const GatherDimensions& g = i->gather_dims();
  const Ints& sizes = i->attrs().GetInts(AttrId::kSliceSizes);
  if (!g.operand_batching_dims.empty() || i->shape().num_elements() == 0) return nullptr;
  int64_t window = 1;
  for (int64_t size : sizes) window *= size;
  if (window != i->shape().num_elements())
    return nullptr;  // indices with an empty index vector select any number of windows
  bool fits;
  const std::optional<Ints> starts = FindOnlyStart(i->operand(1), g.start_index_map, x->shape(), sizes, &fits);
  if (!starts) return nullptr;
  SliceConfig slices;
  for (size_t d = 0; d < sizes.size(); ++d) slices.push_back({(*starts)[d], (*starts)[d] + sizes[d], 1});
  return to.Reshape(to.Slice(x, std::move(slices)), i->shape());
}

// Whether the indices are 0, 1, 2, ...: an iota along the only dimension whose size is not 1.
bool AreRowNumbers(const Instruction* indices) {
  const Shape& s = indices->shape();
  if (!IsIntegral(s.element_type()) || BitWidth(s.element_type()) < 8 || s.rank() < 1 || s.rank() > 2) return false;
  if (s.rank() == 2 && s.dimensions(1) != 1) return false;
  const int64_t largest = GetLargest(s.element_type());
  if (largest >= 0 && s.dimensions(0) - 1 > largest) return false;
  if (indices->Is(Opcode::kReshape) || indices->Is(Opcode::kBroadcast)) {
    if (indices->Is(Opcode::kBroadcast) && indices->dimensions() != Ints{0}) return false;
    indices = indices->operand(0);
    if (indices->shape().rank() != 1) return false;
  }
  return indices->Is(Opcode::kIota) && indices->attrs().GetInt(AttrId::kIotaDimension) == 0;
}

Instruction* GatherOfRowNumbers(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  const Instruction* indices = i->operand(1);
  const GatherDimensions& g = i->gather_dims();
  const Ints& sizes = i->attrs().GetInts(AttrId::kSliceSizes);
  if (!g.operand_batching_dims.empty() || g.start_index_map.size() != 1 || g.index_vector_dim != 1) return nullptr;
  if (!AreRowNumbers(indices) || g.collapsed_slice_dims != g.start_index_map) return nullptr;
  const int64_t along = g.start_index_map[0], count = indices->shape().dimensions(0);
  if (count > x->shape().dimensions(along) || i->shape().num_elements() == 0) return nullptr;
  SliceConfig slices;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    if (d != along && sizes[static_cast<size_t>(d)] != x->shape().dimensions(d)) return nullptr;
    slices.push_back({0, d == along ? count : x->shape().dimensions(d), 1});
  }
  Ints permutation;
  for (int64_t r = 0, other = 0; r < i->shape().rank(); ++r) {
    if (!absl::c_linear_search(g.offset_dims, r)) {
      permutation.push_back(along);
      continue;
    }
    if (other == along) ++other;
    permutation.push_back(other++);
  }
  return to.Transpose(to.Slice(x, std::move(slices)), std::move(permutation));
}

Instruction* ScatterNothing(Instruction* i, Rewriter&) {
  return i->operand_count() == 3 && i->operand(2)->shape().num_elements() == 0 ? i->operand(0) : nullptr;
}

// A scatter of one window that overwrites the operand and lies within it. A scatter drops a window that does not.
Instruction* ScatterOne(Instruction* i, Rewriter& to) {
  const ScatterDimensions& s = i->scatter_dims();
  if (i->operand_count() != 3 || !s.input_batching_dims.empty()) return nullptr;
  const Computation* body = i->called(0);
  if (body->root() != body->parameter(1)) return nullptr;
  Instruction *x = i->operand(0), *indices = i->operand(1), *updates = i->operand(2);
  if (updates->shape().num_elements() == 0) return nullptr;
  Shape window = x->shape();
  Ints sizes;
  for (int64_t d = 0, k = 0; d < x->shape().rank(); ++d) {
    const bool inserted = absl::c_linear_search(s.inserted_window_dims, d);
    sizes.push_back(inserted ? 1 : updates->shape().dimensions(s.update_window_dims[static_cast<size_t>(k++)]));
    window.set_dimension(d, sizes.back());
  }
  bool fits;
  const std::optional<Ints> starts = FindOnlyStart(indices, s.scatter_dims_to_operand_dims, x->shape(), sizes, &fits);
  if (!starts || !fits || window.num_elements() != updates->shape().num_elements()) return nullptr;
  if (indices->shape().element_type() == PrimitiveType::kPred) return nullptr;
  std::vector<Instruction*> operands = {x, to.Reshape(updates, window)};
  for (int64_t start : *starts) {
    if (start > GetLargest(PrimitiveType::kS32)) return nullptr;
    operands.push_back(to.Constant(Literal::ScalarInt(PrimitiveType::kS32, start)));
  }
  return to.Make(Opcode::kDynamicUpdateSlice, i->shape(), std::move(operands));
}

}  // namespace

void AddIndexingRules(RuleSet* r) {
  r->Add({{Opcode::kGather}, "gather-one", "a gather of one window at a constant index is a slice", &GatherOne});
  r->Add({{Opcode::kGather}, "gather-of-row-numbers", "a gather by an iota is a slice", &GatherOfRowNumbers});
  r->Add({{Opcode::kScatter}, "scatter-nothing", "a scatter without updates", &ScatterNothing});
  r->Add({{Opcode::kScatter},
          "scatter-one",
          "a scatter of one window to a known place is an update in place",
          &ScatterOne});
}

}  // namespace backplane::algebra
