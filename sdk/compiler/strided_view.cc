#include "sdk/compiler/strided_view.h"

#include <utility>

namespace backplane::compiler {
namespace {

constexpr int64_t kLargestTable = 4096;
constexpr int kMostOperations = 16;

std::vector<int64_t> NonUnitSizes(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (int64_t d : shape.dimensions()) {
    if (d != 1) sizes.push_back(d);
  }
  return sizes;
}

// Several dimensions as one, outermost first.
std::optional<ViewDimension> Merge(std::vector<ViewDimension> dims) {
  ViewDimension merged = std::move(dims.back());
  for (size_t d = dims.size() - 1; d-- > 0;) {
    const ViewDimension& outer = dims[d];
    if (outer.table.empty() && merged.table.empty() && outer.stride == merged.stride * merged.size) {
      merged.size *= outer.size;
      continue;
    }
    ViewDimension table;
    table.size = outer.size * merged.size;
    if (table.size > kLargestTable) return std::nullopt;
    for (int64_t o = 0; o < outer.size; ++o) {
      for (int64_t i = 0; i < merged.size; ++i) table.table.push_back(outer.Offset(o) + merged.Offset(i));
    }
    merged = std::move(table);
  }
  return merged;
}

// The dimensions of a reshape to `shape`.
std::optional<std::vector<ViewDimension>> Reshape(const std::vector<ViewDimension>& from, const Shape& shape) {
  std::vector<ViewDimension> old;
  for (const ViewDimension& d : from) {
    if (d.size != 1) old.push_back(d);
  }
  const std::vector<int64_t> sizes = NonUnitSizes(shape);
  std::vector<ViewDimension> now;
  for (size_t i = 0, j = 0; i < old.size() || j < sizes.size();) {
    if (i == old.size() || j == sizes.size()) return std::nullopt;
    const size_t first_old = i, first_new = j;
    int64_t a = old[i++].size, b = sizes[j++];
    while (a != b) {
      if (a < b) {
        if (i == old.size()) return std::nullopt;
        a *= old[i++].size;
      } else {
        if (j == sizes.size()) return std::nullopt;
        b *= sizes[j++];
      }
    }
    std::optional<ViewDimension> merged = Merge(std::vector<ViewDimension>(
        old.begin() + static_cast<int64_t>(first_old), old.begin() + static_cast<int64_t>(i)));
    if (!merged) return std::nullopt;
    if (j - first_new == 1) {
      now.push_back(*std::move(merged));
      continue;
    }
    if (!merged->table.empty()) return std::nullopt;
    int64_t inner = 1;
    std::vector<ViewDimension> split(j - first_new);
    for (size_t k = j; k-- > first_new;) {
      split[k - first_new] = ViewDimension{sizes[k], merged->stride * inner, {}};
      inner *= sizes[k];
    }
    now.insert(now.end(), split.begin(), split.end());
  }
  std::vector<ViewDimension> all;
  size_t next = 0;
  for (int64_t d : shape.dimensions()) all.push_back(d == 1 ? ViewDimension{} : now[next++]);
  return all;
}

bool IsStoredAnyway(const Instruction& i) {
  switch (i.opcode()) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kGetTupleElement:
    case Opcode::kDot:
    case Opcode::kFusion:
      return true;
    default:
      return i.users().size() > 1 || i.IsRoot();
  }
}

// The instruction whose memory may be read instead of that of `i`.
Instruction* FindSource(Instruction* i) {
  switch (i->opcode()) {
    case Opcode::kTranspose:
    case Opcode::kReshape:
    case Opcode::kBroadcast:
      return i->operand(0);
    case Opcode::kSlice: {
      if (i->parent()->is_fusion()) return i->operand(0);  // only its parameters are stored
      Instruction* whole = i->operand(0);
      while (whole->Is(Opcode::kReshape) && whole->users().size() == 1) whole = whole->operand(0);
      return IsStoredAnyway(*whole) ? i->operand(0) : nullptr;
    }
    default:
      return nullptr;
  }
}

std::optional<StridedView> View(Instruction* array, int depth) {
  Instruction* source = depth < kMostOperations ? FindSource(array) : nullptr;
  if (source == nullptr) {
    StridedView view{array, 0, {}};
    const DimVector strides = RowMajorStrides(array->shape().dimensions());
    for (int64_t d = 0; d < array->shape().rank(); ++d)
      view.dimensions.push_back({array->shape().dimensions(d), strides[static_cast<size_t>(d)], {}});
    return view;
  }
  std::optional<StridedView> view = View(source, depth + 1);
  std::vector<ViewDimension> now;
  switch (array->opcode()) {
    case Opcode::kTranspose:
      for (int64_t d : array->dimensions()) now.push_back(view->dimensions[static_cast<size_t>(d)]);
      break;
    case Opcode::kBroadcast:
      for (int64_t d : array->shape().dimensions()) now.push_back({d, 0, {}});
      for (size_t k = 0; k < array->dimensions().size(); ++k)
        now[static_cast<size_t>(array->dimensions()[k])] = view->dimensions[k];
      break;
    case Opcode::kSlice:
      for (size_t d = 0; d < array->slices().size(); ++d) {
        const SliceDimension& s = array->slices()[d];
        ViewDimension dim = view->dimensions[d];
        dim.size = array->shape().dimensions(static_cast<int64_t>(d));
        if (dim.table.empty()) {
          view->offset += s.start * dim.stride;
          dim.stride *= s.stride;
        } else {
          std::vector<int64_t> table;
          for (int64_t k = 0; k < dim.size; ++k)
            table.push_back(dim.table[static_cast<size_t>(s.start + k * s.stride)]);
          dim.table = std::move(table);
          if (dim.size == 1) {  // a dimension of one element may be dropped later, but not its offset
            view->offset += dim.table[0];
            dim = ViewDimension{};
          }
        }
        now.push_back(std::move(dim));
      }
      break;
    default: {
      std::optional<std::vector<ViewDimension>> reshaped = Reshape(view->dimensions, array->shape());
      if (!reshaped) return View(array, kMostOperations);
      now = *std::move(reshaped);
    }
  }
  view->dimensions = std::move(now);
  return view;
}

}  // namespace

StridedView FindStridedView(Instruction* array) { return *View(array, 0); }

bool IsUnitReshape(const Instruction& reshape) {
  return NonUnitSizes(reshape.shape()) == NonUnitSizes(reshape.operand(0)->shape());
}

}  // namespace backplane::compiler
