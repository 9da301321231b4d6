#include "core/passes/expand_reductions.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/analysis/process_groups.h"
#include "core/passes/batch_body.h"
#include "core/passes/loop_builder.h"
#include "core/passes/order_effects.h"
#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// Saturates at the largest int64_t: a window may have any size.
int64_t CountElements(const DimVector& dims) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d == 0) return 0;
    n = n > kMax / d ? kMax : n * d;
  }
  return n;
}

absl::StatusOr<Value> MakeScalar(Builder& b, PrimitiveType t, int64_t value) {
  return t == PrimitiveType::kS32 ? IndexConstant(b, value) : b.Constant(Literal::ScalarInt(t, value));
}

absl::StatusOr<Value> MakeFilled(Builder& b, PrimitiveType t, int64_t value, absl::Span<const int64_t> dims) {
  ASSIGN_OR_RETURN(Value v, MakeScalar(b, t, value));
  return b.BroadcastInDim(v, dims, {});
}

// Expands one instruction whose operands have the values `x`.
class ReductionExpander {
 public:
  ReductionExpander(Builder& b, const Instruction& i, std::vector<Value> x) : b_(b), i_(i), x_(std::move(x)) {}

  absl::StatusOr<Value> Expand() {
    switch (i_.opcode()) {
      case Opcode::kReduce:
        return Reduce();
      case Opcode::kReduceWindow:
        return ReduceWindow();
      case Opcode::kSelectAndScatter:
        return SelectAndScatter();
      case Opcode::kScatter:
        return Scatter();
      case Opcode::kSort:
        return Sort();
      case Opcode::kAllReduce:
      case Opcode::kReduceScatter:
        return ReduceAllGathered();
      default:
        return Map();
    }
  }

 private:
  const Shape& ResultShape(size_t k) const {
    return i_.shape().IsTuple() ? i_.shape().tuple_shapes(static_cast<int64_t>(k)) : i_.shape();
  }

  PrimitiveType ParameterType(size_t k) const {
    return i_.called(0)->parameter(static_cast<int64_t>(k))->shape().element_type();
  }

  // Reshapes and converts the results to the shape of the instruction.
  absl::StatusOr<Value> PackResults(std::vector<Value> results) {
    for (size_t k = 0; k < results.size(); ++k) {
      ASSIGN_OR_RETURN(results[k], b_.Reshape(results[k], ResultShape(k).dimensions()));
      ASSIGN_OR_RETURN(results[k], AsType(b_, results[k], ResultShape(k).element_type()));
    }
    return i_.shape().IsTuple() ? b_.Tuple(std::move(results)) : results[0];
  }

  static absl::Status CheckTripCount(int64_t trip_count) {
    if (trip_count <= std::numeric_limits<int32_t>::max()) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat("a loop of ", trip_count, " iterations"));
  }

  absl::StatusOr<Value> Map() {
    const int64_t n = i_.operand_count() == 0 ? 1 : i_.operand(0)->shape().num_elements();
    for (Value& v : x_) {
      ASSIGN_OR_RETURN(v, b_.Reshape(v, {n}));
    }
    ASSIGN_OR_RETURN(std::vector<Value> r, CallForEach(b_, i_.called(0), x_, n));
    return PackResults(std::move(r));
  }

  absl::StatusOr<Value> Reduce() {
    const size_t n = x_.size() / 2;
    const std::vector<Value> inputs(x_.begin(), x_.begin() + static_cast<int64_t>(n));
    std::vector<Value> starts;
    for (size_t k = 0; k < n; ++k) {
      ASSIGN_OR_RETURN(Value v, b_.BroadcastInDim(x_[n + k], ResultShape(k).dimensions(), {}));
      starts.push_back(v);
    }
    ASSIGN_OR_RETURN(std::vector<Value> r, ReduceSequentially(b_, i_.called(0), inputs, starts, i_.dimensions()));
    return PackResults(std::move(r));
  }

  // ---- windows

  // Pads the operand with `fill`, including base dilation, so that every iteration reads a strided slice of one array.
  absl::StatusOr<Value> PadForWindows(Value x, Value fill) {
    PaddingConfig config;
    for (const WindowDimension& w : i_.window().dimensions)
      config.push_back({w.padding_low, w.padding_high, w.base_dilation - 1});
    return b_.Pad(x, fill, std::move(config));
  }

  bool HasPadding() const {
    const auto& dims = i_.window().dimensions;
    return std::any_of(dims.begin(), dims.end(), [](const WindowDimension& w) {
      return w.padding_low > 0 || w.padding_high > 0 || w.base_dilation > 1;
    });
  }

  // Returns the element at `position` in every window, as [number of windows].
  absl::StatusOr<Value> SliceWindows(Builder& b, Value padded, const std::vector<Value>& position,
                                     const DimVector& results) {
    if (results.empty()) return b.Reshape(padded, {1});
    std::vector<Value> starts;
    DimVector sizes;
    SliceConfig strides;
    for (size_t d = 0; d < results.size(); ++d) {
      const WindowDimension& w = i_.window().dimensions[d];
      Value at = position[d];
      if (w.window_dilation != 1) {
        ASSIGN_OR_RETURN(Value k, MakeScalar(b, PrimitiveType::kS32, w.window_dilation));
        RETURN_IF_ERROR(CheckTripCount((w.size - 1) * w.window_dilation));  // the largest index; both fit in 32 bits
        ASSIGN_OR_RETURN(at, b.Binary(Opcode::kMultiply, at, k));
      }
      starts.push_back(at);
      sizes.push_back((results[d] - 1) * w.stride + 1);
      strides.push_back({0, sizes.back(), w.stride});
    }
    ASSIGN_OR_RETURN(Value piece, SliceAt(b, padded, starts, sizes));
    ASSIGN_OR_RETURN(piece, b.Slice(piece, strides));
    return b.Reshape(piece, {CountElements(results)});
  }

  DimVector WindowSizes() const {
    DimVector sizes;
    for (const WindowDimension& w : i_.window().dimensions) sizes.push_back(w.size);
    return sizes;
  }

  absl::StatusOr<Value> ReduceWindow() {
    const size_t n = x_.size() / 2;
    const DimVector results = ResultShape(0).dimensions(), sizes = WindowSizes();
    const int64_t count = CountElements(results), trip_count = CountElements(sizes);
    RETURN_IF_ERROR(CheckTripCount(trip_count));
    std::vector<Value> constants, state;
    for (size_t k = 0; k < n; ++k) {
      const PrimitiveType in = ParameterType(n + k);
      ASSIGN_OR_RETURN(Value x, AsType(b_, x_[k], in));
      ASSIGN_OR_RETURN(Value fill, AsType(b_, x_[n + k], in));
      ASSIGN_OR_RETURN(x, PadForWindows(x, fill));
      constants.push_back(x);
      ASSIGN_OR_RETURN(Value start, AsType(b_, x_[n + k], ParameterType(k)));
      ASSIGN_OR_RETURN(start, b_.BroadcastInDim(start, {count}, {}));
      state.push_back(start);
    }
    const bool masked = HasPadding();
    if (masked) {
      ASSIGN_OR_RETURN(Value inside, Fill(b_, PrimitiveType::kPred, 1, i_.operand(0)->shape().dimensions()));
      ASSIGN_OR_RETURN(Value outside, Fill(b_, PrimitiveType::kPred, 0, {}));
      ASSIGN_OR_RETURN(inside, PadForWindows(inside, outside));
      constants.push_back(inside);
    }
    if (count == 0) return PackResults(std::move(state));
    ASSIGN_OR_RETURN(Value limit, MakeScalar(b_, PrimitiveType::kS32, trip_count));
    auto iterate = [&](LoopIteration& it) -> absl::StatusOr<Value> {
      ASSIGN_OR_RETURN(Value one, MakeScalar(it.b, PrimitiveType::kS32, 1));
      ASSIGN_OR_RETURN(std::vector<Value> position, DelinearizeIndex(it.b, it.count, sizes));
      std::vector<Value> arguments = it.state;
      for (size_t k = 0; k < n; ++k) {
        ASSIGN_OR_RETURN(Value v, SliceWindows(it.b, it.constants[k], position, results));
        arguments.push_back(v);
      }
      Value mask = nullptr;
      if (masked) {
        ASSIGN_OR_RETURN(mask, SliceWindows(it.b, it.constants[n], position, results));
      }
      ASSIGN_OR_RETURN(std::vector<Value> next, CallForEach(it.b, i_.called(0), std::move(arguments), count, mask));
      if (masked) {
        for (size_t k = 0; k < n; ++k) {
          ASSIGN_OR_RETURN(next[k], it.b.Select(mask, next[k], it.state[k]));
        }
      }
      it.state = std::move(next);
      return it.b.Binary(Opcode::kAdd, it.count, one);
    };
    ASSIGN_OR_RETURN(state, MakeLoop(b_, "windows", limit, constants, state, iterate));
    return PackResults(std::move(state));
  }

  // Finds the index that each window selects, then scatters to those indices.
  absl::StatusOr<Value> SelectAndScatter() {
    constexpr PrimitiveType kIndexType = PrimitiveType::kS64;
    const Shape& operand = i_.operand(0)->shape();
    const DimVector results = i_.operand(1)->shape().dimensions(), sizes = WindowSizes();
    const int64_t count = CountElements(results), trip_count = CountElements(sizes), all = operand.num_elements();
    RETURN_IF_ERROR(CheckTripCount(trip_count));
    ASSIGN_OR_RETURN(Value x, AsType(b_, x_[0], ParameterType(0)));
    ASSIGN_OR_RETURN(Value fill, Fill(b_, ParameterType(0), 0, {}));
    ASSIGN_OR_RETURN(x, PadForWindows(x, fill));
    ASSIGN_OR_RETURN(Value indices, b_.Iota(Shape(kIndexType, {all}), 0));
    ASSIGN_OR_RETURN(indices, b_.Reshape(indices, operand.dimensions()));
    ASSIGN_OR_RETURN(Value out_of_bounds, MakeScalar(b_, kIndexType, -1));
    ASSIGN_OR_RETURN(indices, PadForWindows(indices, out_of_bounds));
    ASSIGN_OR_RETURN(Value best, Fill(b_, ParameterType(0), 0, {count}));
    ASSIGN_OR_RETURN(Value chosen, b_.BroadcastInDim(out_of_bounds, {count}, {}));
    ASSIGN_OR_RETURN(Value limit, MakeScalar(b_, PrimitiveType::kS32, trip_count));
    auto iterate = [&](LoopIteration& it) -> absl::StatusOr<Value> {
      ASSIGN_OR_RETURN(Value one, MakeScalar(it.b, PrimitiveType::kS32, 1));
      ASSIGN_OR_RETURN(Value zeros, MakeFilled(it.b, kIndexType, 0, {count}));
      ASSIGN_OR_RETURN(std::vector<Value> position, DelinearizeIndex(it.b, it.count, sizes));
      ASSIGN_OR_RETURN(Value value, SliceWindows(it.b, it.constants[0], position, results));
      ASSIGN_OR_RETURN(Value index, SliceWindows(it.b, it.constants[1], position, results));
      ASSIGN_OR_RETURN(Value fresh, it.b.Compare(it.state[1], zeros, ComparisonDirection::kLt));
      ASSIGN_OR_RETURN(Value inside, it.b.Compare(index, zeros, ComparisonDirection::kGe));
      ASSIGN_OR_RETURN(Value against, it.b.Select(fresh, value, it.state[0]));
      ASSIGN_OR_RETURN(std::vector<Value> keep, CallForEach(it.b, i_.called(0), {against, value}, count, inside));
      ASSIGN_OR_RETURN(Value better, it.b.Unary(Opcode::kNot, keep[0]));
      ASSIGN_OR_RETURN(better, it.b.Binary(Opcode::kOr, better, fresh));
      ASSIGN_OR_RETURN(better, it.b.Binary(Opcode::kAnd, better, inside));
      ASSIGN_OR_RETURN(it.state[0], it.b.Select(better, value, it.state[0]));
      ASSIGN_OR_RETURN(it.state[1], it.b.Select(better, index, it.state[1]));
      return it.b.Binary(Opcode::kAdd, it.count, one);
    };
    if (count > 0) {
      ASSIGN_OR_RETURN(std::vector<Value> found,
                       MakeLoop(b_, "selection", limit, {x, indices}, {best, chosen}, iterate));
      chosen = found[1];
    }
    const PrimitiveType type = i_.called(1)->parameter(0)->shape().element_type();
    ASSIGN_OR_RETURN(Value into, AsType(b_, x_[2], type));
    ASSIGN_OR_RETURN(into, b_.BroadcastInDim(into, {all}, {}));
    ASSIGN_OR_RETURN(Value updates, AsType(b_, x_[1], type));
    ASSIGN_OR_RETURN(updates, b_.Reshape(updates, {count}));
    ASSIGN_OR_RETURN(Value rows, b_.Reshape(chosen, {count, 1}));
    ScatterDimensions s;
    s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
    s.index_vector_dim = 1;
    Attributes attrs;
    attrs.Set(AttrId::kScatterDims, std::move(s));
    ASSIGN_OR_RETURN(Value r, b_.Op(Opcode::kScatter, {into, rows, updates}, std::move(attrs), {i_.called(1)}));
    return PackResults({r});
  }

  // ---- scatter

  // One iteration per index vector: the elements of its window have different destinations, so they are combined
  // together.
  absl::StatusOr<Value> Scatter() {
    constexpr PrimitiveType kIndexType = PrimitiveType::kS64;
    const size_t n = (x_.size() - 1) / 2;
    const ScatterDimensions& s = i_.scatter_dims();
    const Shape &operand = i_.operand(0)->shape(), &updates = i_.operand(static_cast<int64_t>(n) + 1)->shape();
    auto in = [](const Ints& v, int64_t d) { return std::find(v.begin(), v.end(), d) - v.begin(); };
    auto has = [&](const Ints& v, int64_t d) { return in(v, d) < static_cast<int64_t>(v.size()); };
    // Moves the scatter dimensions of updates and indices to the front.
    Ints order, scatter_dims;
    DimVector batch, window;
    for (int64_t d = 0; d < updates.rank(); ++d) {
      if (!has(s.update_window_dims, d)) scatter_dims.push_back(d);
    }
    for (int64_t d : scatter_dims) {
      order.push_back(d);
      batch.push_back(updates.dimensions(d));
    }
    for (int64_t d : s.update_window_dims) {
      order.push_back(d);
      window.push_back(updates.dimensions(d));
    }
    const int64_t trip_count = CountElements(batch), count = CountElements(window), all = operand.num_elements();
    RETURN_IF_ERROR(CheckTripCount(trip_count));
    std::vector<Value> state, constants;
    for (size_t k = 0; k < n; ++k) {
      ASSIGN_OR_RETURN(Value v, AsType(b_, x_[k], ParameterType(k)));
      ASSIGN_OR_RETURN(v, b_.Reshape(v, {all}));
      state.push_back(v);
    }
    if (trip_count == 0 || count == 0 || all == 0) return PackResults(std::move(state));
    for (size_t k = 0; k < n; ++k) {
      ASSIGN_OR_RETURN(Value v, AsType(b_, x_[n + 1 + k], ParameterType(n + k)));
      ASSIGN_OR_RETURN(v, b_.Transpose(v, order));
      ASSIGN_OR_RETURN(v, b_.Reshape(v, {trip_count, count}));
      constants.push_back(v);
    }
    Value rows = x_[n];
    const int64_t vector = static_cast<int64_t>(s.scatter_dims_to_operand_dims.size());
    if (s.index_vector_dim < rows->shape().rank()) {
      Ints last;
      for (int64_t d = 0; d < rows->shape().rank(); ++d) {
        if (d != s.index_vector_dim) last.push_back(d);
      }
      last.push_back(s.index_vector_dim);
      ASSIGN_OR_RETURN(rows, b_.Transpose(rows, last));
    }
    ASSIGN_OR_RETURN(rows, b_.Reshape(rows, {trip_count, vector}));
    ASSIGN_OR_RETURN(rows, AsType(b_, rows, kIndexType));
    constants.push_back(rows);
    ASSIGN_OR_RETURN(Value limit, MakeScalar(b_, PrimitiveType::kS32, trip_count));

    auto iterate = [&](LoopIteration& it) -> absl::StatusOr<Value> {
      ASSIGN_OR_RETURN(Value zero, MakeScalar(it.b, PrimitiveType::kS32, 0));
      ASSIGN_OR_RETURN(Value one, MakeScalar(it.b, PrimitiveType::kS32, 1));
      ASSIGN_OR_RETURN(std::vector<Value> coordinates, DelinearizeIndex(it.b, it.count, batch));
      // Computes the destination of each element of the window, and whether the window lies inside the operand.
      ASSIGN_OR_RETURN(Value address, MakeFilled(it.b, kIndexType, 0, {count}));
      ASSIGN_OR_RETURN(Value inside, Fill(it.b, PrimitiveType::kPred, 1, {count}));
      int64_t stride = all, next = 0;
      for (int64_t d = 0; d < operand.rank(); ++d) {
        const int64_t extent = operand.dimensions(d);
        stride /= extent;
        int64_t last_start = extent - 1;
        Value at = nullptr;
        auto add = [&](Value v) -> absl::Status {
          if (at == nullptr) {
            at = v;
            return absl::OkStatus();
          }
          ASSIGN_OR_RETURN(at, it.b.Binary(Opcode::kAdd, at, v));
          return absl::OkStatus();
        };
        if (has(s.input_batching_dims, d)) {
          const int64_t k = s.scatter_indices_batching_dims[static_cast<size_t>(in(s.input_batching_dims, d))];
          Value v = coordinates[static_cast<size_t>(k - (k > s.index_vector_dim ? 1 : 0))];
          ASSIGN_OR_RETURN(v, it.b.Convert(v, kIndexType));
          ASSIGN_OR_RETURN(v, it.b.BroadcastInDim(v, {count}, {}));
          RETURN_IF_ERROR(add(v));
        } else if (!has(s.inserted_window_dims, d)) {
          last_start = extent - window[static_cast<size_t>(next)];
          ASSIGN_OR_RETURN(Value v, it.b.Iota(Shape(kIndexType, window), next++));
          ASSIGN_OR_RETURN(v, it.b.Reshape(v, {count}));
          RETURN_IF_ERROR(add(v));
        }
        if (has(s.scatter_dims_to_operand_dims, d)) {
          ASSIGN_OR_RETURN(Value column, MakeScalar(it.b, PrimitiveType::kS32, in(s.scatter_dims_to_operand_dims, d)));
          ASSIGN_OR_RETURN(Value v, SliceAt(it.b, it.constants[n], {it.count, column}, {1, 1}));
          ASSIGN_OR_RETURN(v, it.b.Reshape(v, {}));
          ASSIGN_OR_RETURN(v, it.b.BroadcastInDim(v, {count}, {}));
          ASSIGN_OR_RETURN(Value low, MakeFilled(it.b, kIndexType, 0, {count}));
          ASSIGN_OR_RETURN(Value high, MakeFilled(it.b, kIndexType, last_start, {count}));
          ASSIGN_OR_RETURN(low, it.b.Compare(v, low, ComparisonDirection::kGe));
          ASSIGN_OR_RETURN(high, it.b.Compare(v, high, ComparisonDirection::kLe));
          ASSIGN_OR_RETURN(inside, it.b.Binary(Opcode::kAnd, inside, low));
          ASSIGN_OR_RETURN(inside, it.b.Binary(Opcode::kAnd, inside, high));
          RETURN_IF_ERROR(add(v));
        }
        if (at == nullptr) continue;  // an inserted dimension without an index has start 0
        ASSIGN_OR_RETURN(Value step, MakeFilled(it.b, kIndexType, stride, {count}));
        ASSIGN_OR_RETURN(at, it.b.Binary(Opcode::kMultiply, at, step));
        ASSIGN_OR_RETURN(address, it.b.Binary(Opcode::kAdd, address, at));
      }
      ASSIGN_OR_RETURN(Value first, MakeFilled(it.b, kIndexType, 0, {count}));
      ASSIGN_OR_RETURN(Value out_of_bounds, MakeFilled(it.b, kIndexType, -1, {count}));
      ASSIGN_OR_RETURN(Value readable, it.b.Select(inside, address, first));
      ASSIGN_OR_RETURN(address, it.b.Select(inside, address, out_of_bounds));
      std::vector<Value> arguments;
      for (size_t k = 0; k < n; ++k) {
        ASSIGN_OR_RETURN(Value v, GatherElements(it.b, it.state[k], readable));
        arguments.push_back(v);
      }
      const std::vector<Value> before = arguments;
      for (size_t k = 0; k < n; ++k) {
        ASSIGN_OR_RETURN(Value v, SliceAt(it.b, it.constants[k], {it.count, zero}, {1, count}));
        ASSIGN_OR_RETURN(v, it.b.Reshape(v, {count}));
        arguments.push_back(v);
      }
      ASSIGN_OR_RETURN(std::vector<Value> made, CallForEach(it.b, i_.called(0), std::move(arguments), count, inside));
      for (size_t k = 0; k < n; ++k) {
        ASSIGN_OR_RETURN(it.state[k],
                         ScatterElements(it.b, it.state[k], made[k], before[k], inside, readable, address));
      }
      return it.b.Binary(Opcode::kAdd, it.count, one);
    };
    ASSIGN_OR_RETURN(state, MakeLoop(b_, "scatter", limit, constants, state, iterate));
    return PackResults(std::move(state));
  }

  // Returns x[indices]; all indices are in bounds.
  static absl::StatusOr<Value> GatherElements(Builder& b, Value x, Value indices) {
    const int64_t count = indices->shape().num_elements();
    if (count == 1) {
      ASSIGN_OR_RETURN(Value at, b.Reshape(indices, {}));
      return SliceAt(b, x, {at}, {1});
    }
    GatherDimensions g;
    g.collapsed_slice_dims = g.start_index_map = {0};
    g.index_vector_dim = 1;
    Attributes attrs;
    attrs.Set(AttrId::kGatherDims, std::move(g));
    attrs.Set(AttrId::kSliceSizes, Ints{1});
    ASSIGN_OR_RETURN(Value rows, b.Reshape(indices, {count, 1}));
    return b.Op(Opcode::kGather, {x, rows}, std::move(attrs));
  }

  static absl::StatusOr<Value> ScatterElements(Builder& b, Value x, Value values, Value before, Value inside,
                                               Value readable, Value indices) {
    const int64_t count = indices->shape().num_elements();
    if (count == 1) {
      ASSIGN_OR_RETURN(Value at, b.Reshape(readable, {}));
      ASSIGN_OR_RETURN(Value v, b.Select(inside, values, before));
      return UpdateAt(b, x, v, {at});
    }
    Builder second(b.module(), "second");
    const Shape scalar = Shape::Scalar(x->shape().element_type());
    RETURN_IF_ERROR(second.Parameter(0, scalar).status());
    ASSIGN_OR_RETURN(Value chosen, second.Parameter(1, scalar));
    ASSIGN_OR_RETURN(Computation * replace, second.Build(chosen));
    ScatterDimensions s;
    s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
    s.index_vector_dim = 1;
    Attributes attrs;
    attrs.Set(AttrId::kScatterDims, std::move(s));
    attrs.Set(AttrId::kUniqueIndices, true);
    ASSIGN_OR_RETURN(Value rows, b.Reshape(indices, {count, 1}));
    return b.Op(Opcode::kScatter, {x, rows, values}, std::move(attrs), {replace});
  }

  // ---- sort

  // Batcher's merge-exchange network for rows of any length: in each iteration every element is compared with one other
  // at distance k. If neither orders before the other, the element with the lower original index comes first, which
  // makes the sort stable.
  absl::StatusOr<Value> Sort() {
    constexpr PrimitiveType kIndexType = PrimitiveType::kS32;
    const Shape& shape = i_.operand(0)->shape();
    const int64_t rank = shape.rank(), d = i_.dimensions().empty() ? rank - 1 : i_.dimensions()[0];
    const int64_t n = rank == 0 ? 1 : shape.dimensions(d), count = shape.num_elements();
    if (n <= 1 || count == 0) return PackResults(x_);
    RETURN_IF_ERROR(CheckTripCount(n));
    RETURN_IF_ERROR(CheckTripCount(4 * n));  // distances are added to indices
    int64_t levels = 0;
    while ((int64_t{1} << levels) < n) ++levels;
    ASSIGN_OR_RETURN(Value from, b_.Iota(Shape(kIndexType, shape.dimensions()), d));
    ASSIGN_OR_RETURN(Value one, MakeScalar(b_, kIndexType, 1));
    std::vector<Value> state = x_;
    state.push_back(from);
    state.push_back(one);  // length of the sorted runs
    state.push_back(one);  // distance
    const size_t operands = x_.size();
    ASSIGN_OR_RETURN(Value limit, MakeScalar(b_, kIndexType, levels * (levels + 1) / 2));
    auto iterate = [&](LoopIteration& it) -> absl::StatusOr<Value> {
      Builder& b = it.b;
      const Value run = it.state[operands + 1], distance = it.state[operands + 2];
      auto broadcast = [&](Value scalar) { return b.BroadcastInDim(scalar, {n}, {}); };
      ASSIGN_OR_RETURN(Value zero, MakeScalar(b, kIndexType, 0));
      ASSIGN_OR_RETURN(Value unit, MakeScalar(b, kIndexType, 1));
      ASSIGN_OR_RETURN(Value two, MakeScalar(b, kIndexType, 2));
      ASSIGN_OR_RETURN(Value first, b.Binary(Opcode::kRemainder, distance, run));
      ASSIGN_OR_RETURN(Value pair, b.Binary(Opcode::kMultiply, run, two));
      ASSIGN_OR_RETURN(Value at, b.Iota(Shape(kIndexType, {n}), 0));
      ASSIGN_OR_RETURN(Value k, broadcast(distance));
      // Whether the element at index `a` is the lower one of a compared pair.
      auto is_low = [&](Value a) -> absl::StatusOr<Value> {
        ASSIGN_OR_RETURN(Value r, broadcast(first));
        ASSIGN_OR_RETURN(Value p, broadcast(pair));
        ASSIGN_OR_RETURN(Value length, MakeFilled(b, kIndexType, n, {n}));
        ASSIGN_OR_RETURN(Value ones, broadcast(unit));
        ASSIGN_OR_RETURN(Value zeros, broadcast(zero));
        ASSIGN_OR_RETURN(Value partner, b.Binary(Opcode::kAdd, a, k));
        ASSIGN_OR_RETURN(Value past, b.Binary(Opcode::kSubtract, a, r));
        ASSIGN_OR_RETURN(Value low, b.Compare(past, zeros, ComparisonDirection::kGe));
        ASSIGN_OR_RETURN(Value block, b.Binary(Opcode::kDivide, past, k));
        ASSIGN_OR_RETURN(block, b.Binary(Opcode::kAnd, block, ones));
        ASSIGN_OR_RETURN(Value even, b.Compare(block, zeros, ComparisonDirection::kEq));
        ASSIGN_OR_RETURN(Value there, b.Compare(partner, length, ComparisonDirection::kLt));
        ASSIGN_OR_RETURN(Value mine, b.Binary(Opcode::kDivide, a, p));
        ASSIGN_OR_RETURN(Value others, b.Binary(Opcode::kDivide, partner, p));
        ASSIGN_OR_RETURN(Value same, b.Compare(mine, others, ComparisonDirection::kEq));
        for (Value also : {even, there, same}) {
          ASSIGN_OR_RETURN(low, b.Binary(Opcode::kAnd, low, also));
        }
        return low;
      };
      ASSIGN_OR_RETURN(Value below, b.Binary(Opcode::kSubtract, at, k));
      ASSIGN_OR_RETURN(Value above, b.Binary(Opcode::kAdd, at, k));
      ASSIGN_OR_RETURN(Value low, is_low(at));
      ASSIGN_OR_RETURN(Value high, is_low(below));
      ASSIGN_OR_RETURN(Value partner, b.Select(high, below, at));
      ASSIGN_OR_RETURN(partner, b.Select(low, above, partner));
      auto broadcast_along = [&](Value v) { return b.BroadcastInDim(v, shape.dimensions(), {d}); };
      ASSIGN_OR_RETURN(Value all_low, broadcast_along(low));
      ASSIGN_OR_RETURN(Value has_partner, b.Binary(Opcode::kOr, low, high));
      ASSIGN_OR_RETURN(has_partner, broadcast_along(has_partner));
      std::vector<Value> partners, lows, highs;  // of each operand, and of the original indices
      for (size_t j = 0; j <= operands; ++j) {
        ASSIGN_OR_RETURN(Value y, GatherAlong(b, it.state[j], partner, d));
        partners.push_back(y);
        ASSIGN_OR_RETURN(Value l, b.Select(all_low, it.state[j], y));
        lows.push_back(l);
        ASSIGN_OR_RETURN(Value h, b.Select(all_low, y, it.state[j]));
        highs.push_back(h);
      }
      auto before = [&](const std::vector<Value>& x, const std::vector<Value>& y) -> absl::StatusOr<Value> {
        std::vector<Value> arguments;
        for (size_t j = 0; j < operands; ++j) {
          for (Value v : {x[j], y[j]}) {
            ASSIGN_OR_RETURN(v, b.Reshape(v, {count}));
            arguments.push_back(v);
          }
        }
        ASSIGN_OR_RETURN(std::vector<Value> r, CallForEach(b, i_.called(0), std::move(arguments), count));
        return b.Reshape(r[0], shape.dimensions());
      };
      ASSIGN_OR_RETURN(Value swap, before(highs, lows));
      ASSIGN_OR_RETURN(Value settled, before(lows, highs));
      ASSIGN_OR_RETURN(Value unsettled, b.Unary(Opcode::kNot, settled));
      ASSIGN_OR_RETURN(Value later, b.Compare(highs[operands], lows[operands], ComparisonDirection::kLt));
      ASSIGN_OR_RETURN(later, b.Binary(Opcode::kAnd, later, unsettled));
      ASSIGN_OR_RETURN(swap, b.Binary(Opcode::kOr, swap, later));
      ASSIGN_OR_RETURN(swap, b.Binary(Opcode::kAnd, swap, has_partner));
      for (size_t j = 0; j <= operands; ++j) {
        ASSIGN_OR_RETURN(it.state[j], b.Select(swap, partners[j], it.state[j]));
      }
      // Halves the distance, or continues with runs of twice the length.
      ASSIGN_OR_RETURN(Value half, b.Binary(Opcode::kDivide, distance, two));
      ASSIGN_OR_RETURN(Value done, b.Compare(half, zero, ComparisonDirection::kEq));
      ASSIGN_OR_RETURN(it.state[operands + 1], b.Select(done, pair, run));
      ASSIGN_OR_RETURN(it.state[operands + 2], b.Select(done, pair, half));
      return b.Binary(Opcode::kAdd, it.count, unit);
    };
    ASSIGN_OR_RETURN(state, MakeLoop(b_, "sort", limit, {}, state, iterate));
    state.resize(operands);
    return PackResults(std::move(state));
  }

  // Gathers elements of x along dimension d from `indices`.
  static absl::StatusOr<Value> GatherAlong(Builder& b, Value x, Value indices, int64_t d) {
    GatherDimensions g;
    Ints sizes(x->shape().dimensions().begin(), x->shape().dimensions().end());
    sizes[static_cast<size_t>(d)] = 1;
    for (int64_t k = 0; k < x->shape().rank(); ++k) {
      if (k != d) g.offset_dims.push_back(k);
    }
    g.collapsed_slice_dims = g.start_index_map = {d};
    g.index_vector_dim = 1;
    Attributes attrs;
    attrs.Set(AttrId::kGatherDims, std::move(g));
    attrs.Set(AttrId::kSliceSizes, std::move(sizes));
    ASSIGN_OR_RETURN(Value rows, b.Reshape(indices, {indices->shape().num_elements(), 1}));
    return b.Op(Opcode::kGather, {x, rows}, std::move(attrs));
  }

  // ---- collectives

  // All-gathers the operands of the group; each member reduces them in order.
  absl::StatusOr<Value> ReduceAllGathered() {
    const ModuleConfig& config = b_.module()->config();
    ASSIGN_OR_RETURN(ProcessGroups groups, GetProcessGroups(i_, config.num_replicas, config.num_partitions));
    const int64_t n = static_cast<int64_t>(groups.front().size());
    for (const auto& g : groups) {
      if (static_cast<int64_t>(g.size()) != n) return absl::UnimplementedError("groups of several sizes");
    }
    Attributes shared;
    for (AttrId id : {AttrId::kChannelId, AttrId::kReplicaGroups, AttrId::kUseGlobalDeviceIds}) {
      if (const AttrValue* v = i_.attrs().Find(id)) shared.Set(id, *v);
    }
    std::vector<Value> results;
    for (Value x : x_) {
      const PrimitiveType t = x->shape().element_type();
      DimVector dims = x->shape().dimensions();
      dims.insert(dims.begin(), 1);
      ASSIGN_OR_RETURN(Value all, b_.Reshape(x, dims));
      dims[0] = n;
      Attributes attrs = shared;
      attrs.Set(AttrId::kDimensions, Ints{0});
      ASSIGN_OR_RETURN(all, b_.Op(Opcode::kAllGather, {all}, std::move(attrs), {}, Shape(t, dims)));
      SliceConfig first, rest;
      for (int64_t d : dims) first.push_back({0, d, 1});
      rest = first;
      first[0].limit = 1;
      rest[0].start = 1;
      ASSIGN_OR_RETURN(Value start, b_.Slice(all, first));
      ASSIGN_OR_RETURN(start, b_.Reshape(start, x->shape().dimensions()));
      ASSIGN_OR_RETURN(Value others, b_.Slice(all, rest));
      const int64_t reduced[] = {0};
      ASSIGN_OR_RETURN(std::vector<Value> r, ReduceSequentially(b_, i_.called(0), {others}, {start}, reduced));
      ASSIGN_OR_RETURN(r[0], AsType(b_, r[0], t));
      results.push_back(r[0]);
    }
    if (i_.Is(Opcode::kReduceScatter)) {
      // Computes the position of this process in its group: a reduce-scatter of an iota leaves it here.
      Attributes attrs = shared;
      attrs.Set(AttrId::kDimensions, Ints{0});
      ASSIGN_OR_RETURN(Computation * larger,
                       MakeScalarBinaryComputation(b_.module(), Opcode::kMaximum, PrimitiveType::kS32));
      ASSIGN_OR_RETURN(Value numbers, b_.Iota(Shape(PrimitiveType::kS32, {n}), 0));
      ASSIGN_OR_RETURN(Value shard, b_.Op(Opcode::kReduceScatter, {numbers}, std::move(attrs), {larger},
                                          Shape(PrimitiveType::kS32, {1})));
      ASSIGN_OR_RETURN(shard, b_.Reshape(shard, {}));
      const int64_t d = i_.dimensions()[0];
      for (size_t k = 0; k < results.size(); ++k) {
        const DimVector& sizes = ResultShape(k).dimensions();
        ASSIGN_OR_RETURN(Value zero, MakeScalar(b_, PrimitiveType::kS32, 0));
        ASSIGN_OR_RETURN(Value length, MakeScalar(b_, PrimitiveType::kS32, sizes[d]));
        RETURN_IF_ERROR(CheckTripCount(results[k]->shape().dimensions(d)));  // the end of the last shard
        std::vector<Value> starts(sizes.size(), zero);
        ASSIGN_OR_RETURN(starts[static_cast<size_t>(d)], b_.Binary(Opcode::kMultiply, shard, length));
        ASSIGN_OR_RETURN(results[k], SliceAt(b_, results[k], starts, sizes));
      }
    }
    return PackResults(std::move(results));
  }

  Builder& b_;
  const Instruction& i_;
  std::vector<Value> x_;
};

// Whether every collectives runtime can apply the computation directly.
bool IsArithmetic(const Computation& c) {
  return std::all_of(c.instructions().begin(), c.instructions().end(), [](const auto& i) {
    return i->shape().IsScalar() &&
           (i->Is(Opcode::kParameter) || i->Is(Opcode::kConstant) || i->info().Has(kElementwise));
  });
}

bool IsExpandable(const Instruction& i) {
  if (i.Is(Opcode::kAllReduce) || i.Is(Opcode::kReduceScatter)) return !IsArithmetic(*i.called(0));
  return i.info().Has(kCallsPerElement);
}

bool HasDynamicSize(const Instruction& i) {
  return i.shape().HasDynamicDimensions() ||
         std::any_of(i.operands().begin(), i.operands().end(),
                     [](const Instruction* o) { return o->shape().HasDynamicDimensions(); });
}

absl::StatusOr<const Computation*> MakeLoopComputation(const Instruction& i) {
  Builder b(i.parent()->parent(), "reduction");
  b.set_metadata(i.metadata());
  std::vector<Value> x;
  for (int64_t k = 0; k < i.operand_count(); ++k) {
    ASSIGN_OR_RETURN(Value p, b.Parameter(k, i.operand(k)->shape().WithoutLayout()));
    x.push_back(p);
  }
  ASSIGN_OR_RETURN(Value r, ReductionExpander(b, i, std::move(x)).Expand());
  return b.Build(r);
}

}  // namespace

absl::StatusOr<bool> ExpandReductions::ExpandOne(Computation* c, Instruction* i) const {
  if (!IsExpandable(*i) || HasDynamicSize(*i) || (i->users().empty() && i != c->root() && !i->HasSideEffect())) {
    return false;
  }
  if (!i->info().Has(kCollective) &&
      std::all_of(i->called().begin(), i->called().end(),
                  [this](const Computation* called) { return is_supported_(*called); })) {
    return false;
  }
  absl::StatusOr<const Computation*> loops = MakeLoopComputation(*i);
  if (absl::IsUnimplemented(loops.status())) return false;  // the unfinished computation is unreachable
  if (!loops.ok()) {
    return absl::Status(loops.status().code(), absl::StrCat(i->name(), ": ", loops.status().message()));
  }
  ReplaceByInlined(i, *loops);
  if (i->HasSideEffect()) RETURN_IF_ERROR(c->Remove(i));
  return true;
}

int64_t CountInstructions(const Module& module) {
  int64_t count = 0;
  for (const auto& c : module.computations()) count += c->instruction_count();
  return count;
}

// A sort calls its comparator twice, so sorts within comparators of sorts double with each level.
absl::Status CheckGrowth(const Module& module, int64_t before) {
  const int64_t now = CountInstructions(module), limit = 16 * before + 200'000;
  if (now <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the computations of reductions and sorts grow from ", before,
                                                   " to ", now, " instructions, at most ", limit,
                                                   " are supported [call_budget]"));
}

absl::StatusOr<bool> ExpandReductions::Run(Module* module) {
  bool changed = false;
  const int64_t before = CountInstructions(*module);
  for (bool more = true; more;) {  // the computations that an expanded instruction calls may need expansion too
    RETURN_IF_ERROR(CheckGrowth(*module, before));
    ASSIGN_OR_RETURN(more, RewriteEach(module, [this](Computation* c, Instruction* i) { return ExpandOne(c, i); }));
    changed |= more;
  }
  return changed;
}

}  // namespace backplane
