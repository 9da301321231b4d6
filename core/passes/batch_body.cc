#include "core/passes/batch_body.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/passes/batcher.h"
#include "core/passes/loop_builder.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 24;  // of one array that only batching makes so large
constexpr int64_t kManyElements = int64_t{1} << 50;

bool HoldsSideEffect(const Computation& c) {
  return std::any_of(c.instructions().begin(), c.instructions().end(),
                     [](const auto& i) { return i->HasSideEffect(); });
}

// Elements of the largest value that one call makes.
int64_t WidthOf(const Computation& c) {
  int64_t width = 1;
  for (const auto& i : c.instructions()) {
    int64_t n = 0;
    ForEachLeaf(i->shape(), [&](const Shape& s, const std::vector<int64_t>&) {
      if (s.IsArray()) n += std::min(s.num_elements(), kManyElements);
    });
    for (const Computation* called : i->called()) {
      // A map calls its body for each element.
      const int64_t inner = WidthOf(*called), times = i->Is(Opcode::kMap) ? std::max<int64_t>(n, 1) : 1;
      n = std::max(n, inner > kManyElements / times ? kManyElements : inner * times);
    }
    width = std::max(width, n);
  }
  return width;
}

absl::StatusOr<std::vector<Value>> Once(Builder& b, Computation* body, std::vector<Value> arguments, Value active) {
  for (Value& v : arguments) {
    ASSIGN_OR_RETURN(v, b.Reshape(v, {}));
  }
  Value made = nullptr;
  if (active != nullptr) {
    ASSIGN_OR_RETURN(active, b.Reshape(active, {}));
    ASSIGN_OR_RETURN(made, CallWhere(b, active, body, arguments));
  } else {
    ASSIGN_OR_RETURN(made, b.Call(body, arguments));
  }
  std::vector<Value> results = {made};
  if (made->shape().IsTuple()) {
    results.clear();
    for (int64_t k = 0; k < made->shape().tuple_size(); ++k) {
      ASSIGN_OR_RETURN(Value e, b.GetTupleElement(made, k));
      results.push_back(e);
    }
  }
  for (Value& v : results) {
    ASSIGN_OR_RETURN(v, b.Reshape(v, {1}));
  }
  return results;
}

absl::StatusOr<std::vector<Value>> Batched(Builder& b, Computation* body, std::vector<Value> arguments, int64_t n,
                                           Value active) {
  if (n == 1) return Once(b, body, std::move(arguments), active);
  std::vector<Lanes> parameters;
  for (Value v : arguments) {
    parameters.emplace_back();
    parameters.back().value = v;
    parameters.back().each = true;
  }
  Batcher batcher(b, n, active);
  ASSIGN_OR_RETURN(Lanes result, batcher.Run(*body, parameters));
  std::vector<Value> leaves;
  RETURN_IF_ERROR(batcher.SpreadLeaves(result, leaves));
  return leaves;
}

}  // namespace

absl::StatusOr<std::vector<Value>> PlacesOf(Builder& b, Value place, const DimVector& sizes) {
  std::vector<Value> r(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    Value v = place;
    if (stride != 1) {
      ASSIGN_OR_RETURN(Value k, IndexConstant(b, stride));
      ASSIGN_OR_RETURN(v, b.Binary(Opcode::kDivide, v, k));
    }
    stride *= sizes[d];
    if (d > 0) {
      ASSIGN_OR_RETURN(Value k, IndexConstant(b, sizes[d]));
      ASSIGN_OR_RETURN(v, b.Binary(Opcode::kRemainder, v, k));
    }
    r[d] = v;
  }
  return r;
}

absl::StatusOr<std::vector<Value>> ReduceInTurns(Builder& b, Computation* body, const std::vector<Value>& inputs,
                                                 const std::vector<Value>& starts, absl::Span<const int64_t> dims) {
  const Shape& shape = inputs[0]->shape();
  DimVector kept, sizes = shape.dimensions(), reduced;
  Ints reduced_dims(dims.begin(), dims.end());
  std::sort(reduced_dims.begin(), reduced_dims.end());
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (!std::binary_search(reduced_dims.begin(), reduced_dims.end(), d)) kept.push_back(shape.dimensions(d));
  }
  for (int64_t d : reduced_dims) {
    reduced.push_back(shape.dimensions(d));
    sizes[d] = 1;
  }
  const int64_t turns = Shape(PrimitiveType::kPred, reduced).num_elements();
  const int64_t count = Shape(PrimitiveType::kPred, kept).num_elements();
  if (turns > std::numeric_limits<int32_t>::max())
    return absl::UnimplementedError(absl::StrCat("a reduction of ", turns, " elements in turns"));
  std::vector<Value> state;
  for (size_t k = 0; k < starts.size(); ++k) {
    ASSIGN_OR_RETURN(Value v, AsType(b, starts[k], body->parameter(static_cast<int64_t>(k))->shape().element_type()));
    ASSIGN_OR_RETURN(v, b.Reshape(v, {count}));
    state.push_back(v);
  }
  if (turns > 0 && count > 0) {
    ASSIGN_OR_RETURN(Value limit, IndexConstant(b, turns));
    auto turn = [&](LoopTurn& t) -> absl::StatusOr<Value> {
      ASSIGN_OR_RETURN(Value zero, IndexConstant(t.b, 0));
      ASSIGN_OR_RETURN(Value one, IndexConstant(t.b, 1));
      ASSIGN_OR_RETURN(std::vector<Value> places, PlacesOf(t.b, t.count, reduced));
      std::vector<Value> at(static_cast<size_t>(shape.rank()), zero), arguments = t.state;
      for (size_t k = 0; k < places.size(); ++k) at[static_cast<size_t>(reduced_dims[k])] = places[k];
      for (size_t k = 0; k < t.constants.size(); ++k) {
        Value v = t.constants[k];
        if (!at.empty()) {
          ASSIGN_OR_RETURN(v, SliceAt(t.b, v, at, sizes));
        }
        ASSIGN_OR_RETURN(v, t.b.Reshape(v, {count}));
        const Instruction* p = body->parameter(static_cast<int64_t>(starts.size() + k));
        ASSIGN_OR_RETURN(v, AsType(t.b, v, p->shape().element_type()));
        arguments.push_back(v);
      }
      ASSIGN_OR_RETURN(t.state, CallForEach(t.b, body, std::move(arguments), count));
      return t.b.Binary(Opcode::kAdd, t.count, one);
    };
    ASSIGN_OR_RETURN(state, MakeLoop(b, "reduction", limit, inputs, state, turn));
  }
  for (size_t k = 0; k < state.size(); ++k) {
    ASSIGN_OR_RETURN(state[k], b.Reshape(state[k], kept));
  }
  return state;
}

absl::StatusOr<Value> AsType(Builder& b, Value x, PrimitiveType t) {
  if (x->shape().element_type() == t) return x;
  return b.Convert(x, t);
}

absl::StatusOr<std::vector<Value>> CallForEach(Builder& b, Computation* body, std::vector<Value> arguments, int64_t n,
                                               Value active) {
  if (active != nullptr && !HoldsLoop(*body)) active = nullptr;
  std::vector<Value> results;
  if (n == 0) {
    const Shape& root = body->root()->shape();
    for (const Shape& s : root.IsTuple() ? root.tuple_shapes() : std::vector<Shape>{root}) {
      ASSIGN_OR_RETURN(Value none, Fill(b, s.element_type(), 0, {0}));
      results.push_back(none);
    }
    return results;
  }
  const int64_t width = WidthOf(*body), block = std::max<int64_t>(1, kMaxElements / width);
  // What a block computes for a second time must not be seen.
  if (n <= block || width == 1 || HoldsSideEffect(*body)) return Batched(b, body, std::move(arguments), n, active);
  const Shape& root = body->root()->shape();
  for (const Shape& s : root.IsTuple() ? root.tuple_shapes() : std::vector<Shape>{root}) {
    ASSIGN_OR_RETURN(Value empty, Fill(b, s.element_type(), 0, {n}));
    results.push_back(empty);
  }
  if (active != nullptr) arguments.push_back(active);
  ASSIGN_OR_RETURN(Value limit, IndexConstant(b, n));
  if (n > std::numeric_limits<int32_t>::max() - block)  // the count ends past the last block
    return absl::UnimplementedError(absl::StrCat(n, " calls in blocks of ", block));
  return MakeLoop(b, "blocks", limit, std::move(arguments), std::move(results),
                  [&](LoopTurn& t) -> absl::StatusOr<Value> {
                    // The last block begins early enough to be whole.
                    ASSIGN_OR_RETURN(Value last, IndexConstant(t.b, n - block));
                    ASSIGN_OR_RETURN(Value step, IndexConstant(t.b, block));
                    ASSIGN_OR_RETURN(Value start, t.b.Binary(Opcode::kMinimum, t.count, last));
                    std::vector<Value> parts;
                    for (Value v : t.constants) {
                      ASSIGN_OR_RETURN(Value part, SliceAt(t.b, v, {start}, {block}));
                      parts.push_back(part);
                    }
                    Value mine = nullptr;
                    if (active != nullptr) {
                      mine = parts.back();
                      parts.pop_back();
                    }
                    ASSIGN_OR_RETURN(std::vector<Value> made, Batched(t.b, body, std::move(parts), block, mine));
                    for (size_t k = 0; k < made.size(); ++k) {
                      ASSIGN_OR_RETURN(t.state[k], UpdateAt(t.b, t.state[k], made[k], {start}));
                    }
                    return t.b.Binary(Opcode::kAdd, t.count, step);
                  });
}

}  // namespace backplane
