// Recipes: operations that move elements.
#include <algorithm>
#include <numeric>

#include "absl/algorithm/container.h"
#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {
namespace {

int64_t Product(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

std::vector<Generator::Recipe> Generator::MovementRecipes() {
  return {
      {8, {Opcode::kBroadcast}, &Generator::Broadcast, true},
      {8, {Opcode::kReshape}, &Generator::Reshape, true},
      {8, {Opcode::kTranspose}, &Generator::Transpose, true},
      {5, {Opcode::kReverse}, &Generator::Reverse, true},
      {7, {Opcode::kConcatenate}, &Generator::Concatenate, true},
      {7, {Opcode::kSlice}, &Generator::Slice, true},
      {8, {Opcode::kPad}, &Generator::Pad, true},
      {2, {Opcode::kCopy}, &Generator::Copy, true},
      {2, {Opcode::kBitcast}, &Generator::Bitcast, false, false},
      {4, {Opcode::kIota}, &Generator::Iota, true},
      {7, {Opcode::kDynamicSlice}, &Generator::DynamicSlice, true},
      {7, {Opcode::kDynamicUpdateSlice}, &Generator::DynamicUpdateSlice, true},
      {10, {Opcode::kGather}, &Generator::Gather},
      {7, {Opcode::kScatter}, &Generator::Scatter},
      {4, {Opcode::kScatter}, &Generator::ScatterSet},
      {3, {Opcode::kScatter}, &Generator::ScatterSeveral},
      {1, {Opcode::kGetDimensionSize}, &Generator::DimensionSize},
      {3, {Opcode::kSetDimensionSize}, &Generator::SetDimensionSize, false, false},
      {2, {Opcode::kDynamicReshape}, &Generator::DynamicReshape, false, false},
  };
}

Value Generator::Broadcast(Scope& s) {
  const Value x = Any(s, Kind::kAny, 0, 4);
  if (x == nullptr) return nullptr;
  const std::vector<int64_t> from = GetDims(x);
  std::vector<int64_t> dims = from, places;
  const int64_t more = random_.Between(from.empty() ? 1 : 0, 5 - static_cast<int64_t>(from.size()));
  for (int64_t k = 0; k < more; ++k) {
    const int64_t size = random_.Between(1, 6);
    dims.insert(dims.begin() + random_.Below(static_cast<int64_t>(dims.size()) + 1), -size);
  }
  for (size_t d = 0, at = 0; d < dims.size(); ++d) {
    if (dims[d] < 0) {
      dims[d] = -dims[d];
      continue;
    }
    places.push_back(static_cast<int64_t>(d));
    if (from[at] == 1 && random_.Chance(50)) dims[d] = random_.Between(1, 7);
    ++at;
  }
  if (Product(dims) > 20000) return nullptr;
  // Broadcasts dimensions of size 1, as StableHLO's broadcast_in_dim does; the builder writes what HLO needs.
  return Add(s, hlo::BroadcastInDim(s.b, x, dims, places));
}

Value Generator::Reshape(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  if (x == nullptr) return nullptr;
  std::vector<int64_t> dims = GetDims(x);
  const int64_t steps = random_.Between(1, 4);
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t n = static_cast<int64_t>(dims.size());
    switch (random_.Below(4)) {
      case 0:  // merges two neighbours
        if (n >= 2) {
          const int64_t d = random_.Below(n - 1);
          dims[static_cast<size_t>(d)] *= dims[static_cast<size_t>(d + 1)];
          dims.erase(dims.begin() + d + 1);
        }
        break;
      case 1:  // splits one
        if (n >= 1 && n < 5) {
          const size_t d = static_cast<size_t>(random_.Below(n));
          for (const int64_t f : {2, 3, 5, 7}) {
            if (dims[d] > f && dims[d] % f == 0) {
              dims[d] /= f;
              dims.insert(dims.begin() + static_cast<int64_t>(d) + random_.Below(2), f);
              break;
            }
          }
        }
        break;
      case 2:
        if (n < 5) dims.insert(dims.begin() + random_.Below(n + 1), 1);
        break;
      default:
        if (n > 0) {
          const int64_t d = random_.Below(n);
          if (dims[static_cast<size_t>(d)] == 1) dims.erase(dims.begin() + d);
        }
        break;
    }
  }
  return Add(s, s.b.Reshape(x, dims));
}

Value Generator::Transpose(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  return x == nullptr ? nullptr : Add(s, s.b.Transpose(x, random_.Permutation(x->shape().rank())));
}

Value Generator::Reverse(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  return x == nullptr ? nullptr : Add(s, hlo::Rev(s.b, x, ChooseSubset(x->shape().rank(), 60)));
}

Value Generator::Concatenate(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  const int64_t d = random_.Below(x->shape().rank()), count = random_.Between(1, 4);
  std::vector<Value> parts = {x};
  for (int64_t k = 1; k < count; ++k) {
    std::vector<int64_t> dims = GetDims(x);
    if (random_.Chance(60)) dims[static_cast<size_t>(d)] = random_.Between(0, 5);
    const Value y = Like(s, type, dims);
    if (y == nullptr) return nullptr;
    parts.insert(parts.begin() + random_.Below(static_cast<int64_t>(parts.size()) + 1), y);
  }
  return Add(s, s.b.Concatenate(parts, d));
}

Value Generator::Slice(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  if (x == nullptr) return nullptr;
  SliceConfig slices;
  for (const int64_t size : x->shape().dimensions()) {
    SliceDimension d{0, size, 1};
    if (random_.Chance(60)) {
      d.start = random_.Between(0, size / 2);
      d.limit = random_.Between(random_.Chance(5) ? d.start : std::min(size, d.start + 1), size);
      if (random_.Chance(40)) d.stride = random_.Between(1, 4);
    }
    slices.push_back(d);
  }
  return Add(s, s.b.Slice(x, slices));
}

Value Generator::Pad(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  if (x == nullptr) return nullptr;
  const Value with = MakeFreshValue(s, Shape(x->shape().element_type(), {}));
  if (with == nullptr) return nullptr;
  PaddingConfig config;
  for (const int64_t size : x->shape().dimensions()) {
    PaddingDimension d;
    if (random_.Chance(70)) {
      d.low = random_.Between(-2, 3);
      d.high = random_.Between(-2, 3);
      if (random_.Chance(35)) d.interior = random_.Between(1, 2);
    }
    if (size + (size > 0 ? (size - 1) * d.interior : 0) + d.low + d.high < 0) d.low = d.high = 1;
    config.push_back(d);
  }
  return Add(s, s.b.Pad(x, with, config));
}

Value Generator::Copy(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  const Value copy = x == nullptr ? nullptr : Add(s, hlo::Copy(s.b, x));
  // A copy to another order of dimensions in memory.
  if (copy != nullptr && copy->shape().rank() > 1 && !s.plain && !options_.portable && random_.Chance(40)) {
    copy->mutable_shape().set_layout(AnyLayout(copy->shape().rank()));
  }
  return copy;
}

Value Generator::Bitcast(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  if (x == nullptr) return nullptr;
  const std::vector<int64_t> flat = {x->shape().num_elements()};
  return Add(s, hlo::CreateBitcast(s.b, Shape(x->shape().element_type(), flat), x));
}

Value Generator::Iota(Scope& s) {
  const std::vector<int64_t> dims = AnyDims(1);
  const Shape shape(AnyType(Kind::kNumber), dims);
  // Does not count beyond the range of the type, except for integers, which wrap.
  const int64_t d = random_.Below(shape.rank());
  if (!IsIntegral(shape.element_type()) && BitWidth(shape.element_type()) < 32 && shape.dimensions(d) > 8)
    return nullptr;
  return Add(s, hlo::Iota(s.b, shape, d));
}

Value Generator::DynamicSlice(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = random_.Pick(std::vector<PrimitiveType>{
      PrimitiveType::kS32, PrimitiveType::kS32, PrimitiveType::kS64, PrimitiveType::kU32, PrimitiveType::kS8});
  std::vector<Value> starts;
  std::vector<int64_t> sizes;
  for (const int64_t size : x->shape().dimensions()) {
    // Starts may be negative or too large, because they are clamped.
    starts.push_back(Index(s, IsUnsigned(type) ? 0 : -2, std::min<int64_t>(size + 2, 100), type));
    if (starts.back() == nullptr) return nullptr;
    sizes.push_back(random_.Between(std::min<int64_t>(size, 1), size));
  }
  return Add(s, hlo::DynamicSlice(s.b, x, starts, sizes));
}

Value Generator::DynamicUpdateSlice(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  if (x == nullptr) return nullptr;
  std::vector<Value> starts;
  std::vector<int64_t> sizes;
  for (const int64_t size : x->shape().dimensions()) {
    starts.push_back(Index(s, -2, size + 2));
    if (starts.back() == nullptr) return nullptr;
    sizes.push_back(random_.Between(std::min<int64_t>(size, 1), size));
  }
  const Value update = Like(s, x->shape().element_type(), sizes);
  return update == nullptr ? nullptr : Add(s, hlo::DynamicUpdateSlice(s.b, x, update, starts));
}

Value Generator::Gather(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  if (x == nullptr) return nullptr;
  const std::vector<int64_t> dims = GetDims(x);
  const int64_t rank = x->shape().rank();
  GatherDimensions g;
  std::vector<int64_t> batch;  // of the indices, without the dimension of the index vector
  const int64_t batch_rank = random_.Between(0, 2);
  for (int64_t k = 0; k < batch_rank; ++k) batch.push_back(random_.Between(1, 5));
  if (random_.Chance(20) && batch_rank > 0) {
    const int64_t d = random_.Below(rank), of = random_.Below(batch_rank);
    g.operand_batching_dims = {d};
    g.start_indices_batching_dims = {of};
    batch[static_cast<size_t>(of)] = dims[static_cast<size_t>(d)];
  }
  for (int64_t d = 0; d < rank; ++d) {
    if (absl::c_linear_search(g.operand_batching_dims, d)) continue;
    if (random_.Chance(60)) g.start_index_map.push_back(d);
    if (dims[static_cast<size_t>(d)] > 0 && random_.Chance(40)) g.collapsed_slice_dims.push_back(d);
  }
  if (random_.Chance(40)) std::reverse(g.start_index_map.begin(), g.start_index_map.end());
  std::vector<int64_t> sizes, indices = batch;
  int64_t offsets = 0;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t size = dims[static_cast<size_t>(d)];
    if (absl::c_linear_search(g.collapsed_slice_dims, d) || absl::c_linear_search(g.operand_batching_dims, d)) {
      sizes.push_back(std::min<int64_t>(size, 1));
      continue;
    }
    sizes.push_back(random_.Chance(40) ? size : random_.Between(std::min<int64_t>(size, 1), size));
    ++offsets;
  }
  const int64_t k = static_cast<int64_t>(g.start_index_map.size());
  if (k == 1 && random_.Chance(40)) {
    g.index_vector_dim = batch_rank;  // no such dimension
  } else {
    g.index_vector_dim = random_.Chance(70) ? batch_rank : random_.Between(0, batch_rank);
    indices.insert(indices.begin() + g.index_vector_dim, k);
    for (int64_t& d : g.start_indices_batching_dims) d += d >= g.index_vector_dim;
  }
  const int64_t total = offsets + batch_rank;
  std::vector<int64_t> places = random_.Permutation(total);
  places.resize(static_cast<size_t>(offsets));
  std::sort(places.begin(), places.end());
  g.offset_dims = places;
  const PrimitiveType type = random_.Chance(75) ? PrimitiveType::kS32 : PrimitiveType::kS64;
  const Value at = random_.Chance(85) ? MakeFreshValue(s, Shape(type, indices), Fill::kPositive)
                                      : Like(s, PrimitiveType::kS32, indices);
  return at == nullptr ? nullptr : Add(s, hlo::Gather(s.b, x, at, g, sizes));
}

// Windows at any position, overlapping or out of bounds, with operations that do not depend on the order.
Value Generator::Scatter(Scope& s) {
  const Value x = Any(s, Kind::kReal, 1);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  std::optional<Opcode> op = AnyCombiner(type);
  if (!op.has_value() || (IsFloat(type) && op == Opcode::kMultiply)) op = Opcode::kAdd;
  const std::vector<int64_t> dims = GetDims(x);
  const int64_t rank = x->shape().rank();
  ScatterDimensions d;
  std::vector<int64_t> batch;
  const int64_t batch_rank = random_.Between(0, 2);
  for (int64_t k = 0; k < batch_rank; ++k) batch.push_back(random_.Between(1, 6));
  if (random_.Chance(20) && batch_rank > 0) {
    const int64_t k = random_.Below(rank), of = random_.Below(batch_rank);
    d.input_batching_dims = {k};
    d.scatter_indices_batching_dims = {of};
    batch[static_cast<size_t>(of)] = dims[static_cast<size_t>(k)];
  }
  for (int64_t k = 0; k < rank; ++k) {
    if (absl::c_linear_search(d.input_batching_dims, k)) continue;
    if (random_.Chance(60)) d.scatter_dims_to_operand_dims.push_back(k);
    if (dims[static_cast<size_t>(k)] > 0 && random_.Chance(45)) d.inserted_window_dims.push_back(k);
  }
  std::vector<int64_t> indices = batch, window;
  for (int64_t k = 0; k < rank; ++k) {
    const int64_t size = dims[static_cast<size_t>(k)];
    if (!absl::c_linear_search(d.inserted_window_dims, k) && !absl::c_linear_search(d.input_batching_dims, k)) {
      window.push_back(random_.Chance(50) ? size : random_.Between(std::min<int64_t>(size, 1), size));
    }
  }
  d.index_vector_dim = batch_rank;
  indices.push_back(static_cast<int64_t>(d.scatter_dims_to_operand_dims.size()));
  const int64_t total = batch_rank + static_cast<int64_t>(window.size());
  std::vector<int64_t> places = random_.Permutation(total);
  places.resize(window.size());
  std::sort(places.begin(), places.end());
  d.update_window_dims = places;
  std::vector<int64_t> updates;
  for (int64_t k = 0, w = 0, c = 0; k < total; ++k) {
    updates.push_back(absl::c_linear_search(places, k) ? window[static_cast<size_t>(w++)]
                                                       : batch[static_cast<size_t>(c++)]);
  }
  const Value at =
      MakeFreshValue(s, Shape(PrimitiveType::kS32, indices), random_.Chance(60) ? Fill::kPositive : Fill::kWhole);
  const Value update = Like(s, type, updates);
  Computation* body = Combiner(s, *op, type);
  if (at == nullptr || update == nullptr || body == nullptr) return nullptr;
  return Add(s, hlo::Scatter(s.b, {x}, at, {update}, body, d));
}

// Rows of two arrays at once, each with its own operation.
Value Generator::ScatterSeveral(Scope& s) {
  const Value x = Any(s, Kind::kInteger, 1);
  if (x == nullptr) return nullptr;
  const PrimitiveType a = x->shape().element_type(), c = AnyType(Kind::kInteger);
  const std::vector<int64_t> dims = GetDims(x);
  const Value y = Like(s, c, dims);
  if (y == nullptr) return nullptr;
  const Opcode ops[] = {PickOne({Opcode::kAdd, Opcode::kMaximum}),
                        PickOne({Opcode::kAdd, Opcode::kMinimum, Opcode::kXor})};
  Builder b(s.b.module(), "several");
  std::vector<Value> in, out;
  for (int64_t k = 0; k < 4; ++k) {
    hlo::Result p = b.Parameter(k, Shape(k % 2 == 0 ? a : c, {}));
    if (!p.ok()) return nullptr;
    in.push_back(*p);
  }
  for (size_t k = 0; k < 2; ++k) {
    hlo::Result v = b.Binary(ops[k], in[k], in[k + 2]);
    if (!v.ok()) return nullptr;
    out.push_back(*v);
  }
  hlo::Result root = b.Tuple(out);
  if (!root.ok()) return nullptr;
  absl::StatusOr<Computation*> body = b.Build(*root);
  const int64_t count = random_.Between(1, 8);
  ScatterDimensions d;
  d.inserted_window_dims = {0};
  d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  std::vector<int64_t> updates = dims;
  updates[0] = count;
  for (size_t k = 1; k < dims.size(); ++k) d.update_window_dims.push_back(static_cast<int64_t>(k));
  const Value at = MakeFreshValue(s, Shape(PrimitiveType::kS32, {count, 1}), Fill::kWhole);
  const Value u = Like(s, a, updates), v = Like(s, c, updates);
  if (!body.ok() || at == nullptr || u == nullptr || v == nullptr) return nullptr;
  return Add(s, hlo::Scatter(s.b, {x, y}, at, {u, v}, *body, d));
}

// Replaces rows, no row twice.
Value Generator::ScatterSet(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  const std::vector<int64_t> dims = GetDims(x);
  const int64_t rank = x->shape().rank(), at = random_.Below(rank), size = dims[static_cast<size_t>(at)];
  if (size == 0) return nullptr;
  const int64_t count = random_.Between(1, std::min<int64_t>(size, 40));
  Literal rows(Shape(PrimitiveType::kS32, {count, 1}));
  const std::vector<int64_t> order = random_.Permutation(size);
  for (int64_t k = 0; k < count; ++k) rows.SetFromInt(k, order[static_cast<size_t>(k)]);
  ScatterDimensions d;
  d.inserted_window_dims = {at};
  d.scatter_dims_to_operand_dims = {at};
  d.index_vector_dim = 1;
  std::vector<int64_t> updates = {count};
  for (int64_t k = 0; k < rank; ++k) {
    if (k == at) continue;
    d.update_window_dims.push_back(static_cast<int64_t>(updates.size()));
    updates.push_back(dims[static_cast<size_t>(k)]);
  }
  Builder b(s.b.module(), "replace");
  hlo::Result old = b.Parameter(0, Shape(type, {})), now = b.Parameter(1, Shape(type, {}));
  if (!old.ok() || !now.ok()) return nullptr;
  absl::StatusOr<Computation*> body = b.Build(*now);
  const Value places = Add(s, s.b.Constant(std::move(rows))), update = Like(s, type, updates);
  if (!body.ok() || places == nullptr || update == nullptr) return nullptr;
  return Add(s, hlo::Scatter(s.b, {x}, places, {update}, *body, d, false, random_.Chance(50)));
}

Value Generator::DimensionSize(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  return x == nullptr ? nullptr : Add(s, hlo::GetDimensionSize(s.b, x, random_.Below(x->shape().rank())));
}

// Elements beyond the size must not count: the dimension is reduced, or its size is returned, after operations on
// bounded shapes. Integers, because bounds do not depend on dynamic sizes.
Value Generator::SetDimensionSize(Scope& s) {
  const PrimitiveType type = random_.Chance(70)   ? AnyType(Kind::kInteger)
                             : random_.Chance(50) ? PrimitiveType::kF32
                                                  : PrimitiveType::kF64;
  const std::vector<int64_t> dims = AnyDims(1, 3);
  const int64_t d = random_.Below(static_cast<int64_t>(dims.size()));
  const Value x =
      MakeFreshValue(s, Shape(type, dims), IsFloat(type) ? std::optional<Fill>(Fill::kWhole) : std::nullopt);
  const Opcode op = PickOne({Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum});
  const Value n = Index(s, 0, dims[static_cast<size_t>(d)]), zero = Identity(s, op, type);
  Computation* add = Combiner(s, op, type);
  if (x == nullptr || n == nullptr || zero == nullptr || add == nullptr) return nullptr;
  Value bounded = Add(s, hlo::SetDimensionSize(s.b, x, n, d));
  if (bounded == nullptr) return nullptr;
  const int64_t steps = random_.Between(0, 3);
  for (int64_t k = 0; k < steps; ++k) {
    Value next = nullptr;
    switch (random_.Below(4)) {
      case 0:
        next = Add(s, s.b.Unary(Opcode::kNegate, bounded));
        break;
      case 1:
        next = Add(s, s.b.Binary(PickOne({Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum}), bounded, bounded));
        break;
      case 2: {
        const Value flags = Add(s, s.b.Compare(bounded, bounded, ComparisonDirection::kGe));
        const Value other = Add(s, s.b.Unary(Opcode::kAbs, bounded));
        if (flags != nullptr && other != nullptr) next = Add(s, s.b.Select(flags, other, bounded));
        break;
      }
      default:
        next = Add(s, hlo::Copy(s.b, bounded));
        break;
    }
    if (next != nullptr) bounded = next;
  }
  if (random_.Chance(40)) return Add(s, hlo::GetDimensionSize(s.b, bounded, d));
  std::vector<int64_t> reduced = {d};
  for (int64_t k = 0; k < static_cast<int64_t>(dims.size()); ++k) {
    if (k != d && random_.Chance(30)) reduced.push_back(k);
  }
  std::sort(reduced.begin(), reduced.end());
  return Add(s, s.b.Reduce({bounded}, {zero}, add, reduced));
}

Value Generator::DynamicReshape(Scope& s) {
  const PrimitiveType type = AnyType(Kind::kInteger);
  const int64_t rows = random_.Between(1, 6), columns = random_.Between(1, 5);
  const Value x = MakeFreshValue(s, Shape(type, {rows * columns}));
  const Value a = Add(s, s.b.Constant(Literal::ScalarInt(PrimitiveType::kS32, rows)));
  const Value c = Add(s, s.b.Constant(Literal::ScalarInt(PrimitiveType::kS32, columns)));
  if (x == nullptr || a == nullptr || c == nullptr) return nullptr;
  return Add(s, hlo::DynamicReshape(s.b, x, {a, c}, {rows, columns}, {false, false}));
}

}  // namespace backplane::cli::fuzz
