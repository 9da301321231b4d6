#include "core/passes/batch_body.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/passes/batcher.h"
#include "core/passes/loop_builder.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 24;  // bound for one array that batching creates
constexpr int64_t kManyElements = int64_t{1} << 50;

bool ContainsSideEffect(const Computation& c) {
  return std::any_of(c.instructions().begin(), c.instructions().end(),
                     [](const auto& i) { return i->HasSideEffect(); });
}

// Returns the number of elements of the largest value that one call creates.
int64_t MaxElementsPerCall(const Computation& c) {
  int64_t elements_per_call = 1;
  for (const auto& i : c.instructions()) {
    int64_t n = 0;
    ForEachLeaf(i->shape(), [&](const Shape& s, const std::vector<int64_t>&) {
      if (s.IsArray()) n += std::min(s.num_elements(), kManyElements);
    });
    for (const Computation* called : i->called()) {
      // A map calls its computation once per element.
      const int64_t inner = MaxElementsPerCall(*called), times = i->Is(Opcode::kMap) ? std::max<int64_t>(n, 1) : 1;
      n = std::max(n, inner > kManyElements / times ? kManyElements : inner * times);
    }
    elements_per_call = std::max(elements_per_call, n);
  }
  return elements_per_call;
}

absl::StatusOr<std::vector<Value>> CallOnce(Builder& b, Computation* body, std::vector<Value> arguments, Value active) {
  for (Value& v : arguments) {
    ASSIGN_OR_RETURN(v, b.Reshape(v, {}));
  }
  Value result = nullptr;
  if (active != nullptr) {
    ASSIGN_OR_RETURN(active, b.Reshape(active, {}));
    ASSIGN_OR_RETURN(result, CallIf(b, active, body, arguments));
  } else {
    ASSIGN_OR_RETURN(result, b.Call(body, arguments));
  }
  std::vector<Value> results = {result};
  if (result->shape().IsTuple()) {
    results.clear();
    for (int64_t k = 0; k < result->shape().tuple_size(); ++k) {
      ASSIGN_OR_RETURN(Value e, b.GetTupleElement(result, k));
      results.push_back(e);
    }
  }
  for (Value& v : results) {
    ASSIGN_OR_RETURN(v, b.Reshape(v, {1}));
  }
  return results;
}

absl::StatusOr<std::vector<Value>> CallBatched(Builder& b, Computation* body, std::vector<Value> arguments, int64_t n,
                                               Value active) {
  if (n == 1) return CallOnce(b, body, std::move(arguments), active);
  std::vector<BatchedValue> parameters;
  for (Value v : arguments) {
    parameters.emplace_back();
    parameters.back().value = v;
    parameters.back().is_batched = true;
  }
  Batcher batcher(b, n, active);
  ASSIGN_OR_RETURN(BatchedValue result, batcher.Run(*body, parameters));
  std::vector<Value> leaves;
  RETURN_IF_ERROR(batcher.BroadcastLeaves(result, leaves));
  return leaves;
}

}  // namespace

absl::StatusOr<std::vector<Value>> DelinearizeIndex(Builder& b, Value linear_index, const DimVector& sizes) {
  std::vector<Value> r(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    Value v = linear_index;
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

absl::StatusOr<std::vector<Value>> ReduceSequentially(Builder& b, Computation* body, const std::vector<Value>& inputs,
                                                      const std::vector<Value>& initial_values,
                                                      absl::Span<const int64_t> dims) {
  const Shape& shape = inputs[0]->shape();
  DimVector remaining, sizes = shape.dimensions(), reduced;
  Ints reduced_dims(dims.begin(), dims.end());
  std::sort(reduced_dims.begin(), reduced_dims.end());
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (!std::binary_search(reduced_dims.begin(), reduced_dims.end(), d)) remaining.push_back(shape.dimensions(d));
  }
  for (int64_t d : reduced_dims) {
    reduced.push_back(shape.dimensions(d));
    sizes[d] = 1;
  }
  const int64_t trip_count = Shape(PrimitiveType::kPred, reduced).num_elements();
  const int64_t count = Shape(PrimitiveType::kPred, remaining).num_elements();
  if (trip_count > std::numeric_limits<int32_t>::max())
    return absl::UnimplementedError(absl::StrCat("a reduction of ", trip_count, " elements in a loop"));
  std::vector<Value> state;
  for (size_t k = 0; k < initial_values.size(); ++k) {
    ASSIGN_OR_RETURN(Value v,
                     AsType(b, initial_values[k], body->parameter(static_cast<int64_t>(k))->shape().element_type()));
    ASSIGN_OR_RETURN(v, b.Reshape(v, {count}));
    state.push_back(v);
  }
  if (trip_count > 0 && count > 0) {
    ASSIGN_OR_RETURN(Value limit, IndexConstant(b, trip_count));
    auto iterate = [&](LoopIteration& iteration) -> absl::StatusOr<Value> {
      ASSIGN_OR_RETURN(Value zero, IndexConstant(iteration.b, 0));
      ASSIGN_OR_RETURN(Value one, IndexConstant(iteration.b, 1));
      ASSIGN_OR_RETURN(std::vector<Value> indices, DelinearizeIndex(iteration.b, iteration.count, reduced));
      std::vector<Value> at(static_cast<size_t>(shape.rank()), zero), arguments = iteration.state;
      for (size_t k = 0; k < indices.size(); ++k) at[static_cast<size_t>(reduced_dims[k])] = indices[k];
      for (size_t k = 0; k < iteration.constants.size(); ++k) {
        Value v = iteration.constants[k];
        if (!at.empty()) {
          ASSIGN_OR_RETURN(v, SliceAt(iteration.b, v, at, sizes));
        }
        ASSIGN_OR_RETURN(v, iteration.b.Reshape(v, {count}));
        const Instruction* p = body->parameter(static_cast<int64_t>(initial_values.size() + k));
        ASSIGN_OR_RETURN(v, AsType(iteration.b, v, p->shape().element_type()));
        arguments.push_back(v);
      }
      ASSIGN_OR_RETURN(iteration.state, CallForEach(iteration.b, body, std::move(arguments), count));
      return iteration.b.Binary(Opcode::kAdd, iteration.count, one);
    };
    ASSIGN_OR_RETURN(state, MakeLoop(b, "reduction", limit, inputs, state, iterate));
  }
  for (size_t k = 0; k < state.size(); ++k) {
    ASSIGN_OR_RETURN(state[k], b.Reshape(state[k], remaining));
  }
  return state;
}

absl::StatusOr<Value> AsType(Builder& b, Value x, PrimitiveType type) {
  if (x->shape().element_type() == type) return x;
  return b.Convert(x, type);
}

absl::StatusOr<std::vector<Value>> CallForEach(Builder& b, Computation* body, std::vector<Value> arguments, int64_t n,
                                               Value active) {
  if (active != nullptr && !ContainsLoop(*body)) active = nullptr;
  std::vector<Value> results;
  if (n == 0) {
    const Shape& root = body->root()->shape();
    for (const Shape& s : root.IsTuple() ? root.tuple_shapes() : std::vector<Shape>{root}) {
      ASSIGN_OR_RETURN(Value none, Fill(b, s.element_type(), 0, {0}));
      results.push_back(none);
    }
    return results;
  }
  const int64_t elements_per_call = MaxElementsPerCall(*body),
                block = std::max<int64_t>(1, kMaxElements / elements_per_call);
  // Blocks may overlap, so a call may run twice. A side effect must not.
  if (n <= block || elements_per_call == 1 || ContainsSideEffect(*body))
    return CallBatched(b, body, std::move(arguments), n, active);
  const Shape& root = body->root()->shape();
  for (const Shape& s : root.IsTuple() ? root.tuple_shapes() : std::vector<Shape>{root}) {
    ASSIGN_OR_RETURN(Value empty, Fill(b, s.element_type(), 0, {n}));
    results.push_back(empty);
  }
  if (active != nullptr) arguments.push_back(active);
  ASSIGN_OR_RETURN(Value limit, IndexConstant(b, n));
  if (n > std::numeric_limits<int32_t>::max() - block)  // the index of the block after the last must not overflow
    return absl::UnimplementedError(absl::StrCat(n, " calls in blocks of ", block));
  return MakeLoop(
      b, "blocks", limit, std::move(arguments), std::move(results),
      [&](LoopIteration& iteration) -> absl::StatusOr<Value> {
        // The last block starts early enough to be complete, and repeats some calls of the block before it.
        ASSIGN_OR_RETURN(Value last, IndexConstant(iteration.b, n - block));
        ASSIGN_OR_RETURN(Value step, IndexConstant(iteration.b, block));
        ASSIGN_OR_RETURN(Value start, iteration.b.Binary(Opcode::kMinimum, iteration.count, last));
        std::vector<Value> parts;
        for (Value v : iteration.constants) {
          ASSIGN_OR_RETURN(Value part, SliceAt(iteration.b, v, {start}, {block}));
          parts.push_back(part);
        }
        Value mine = nullptr;
        if (active != nullptr) {
          mine = parts.back();
          parts.pop_back();
        }
        ASSIGN_OR_RETURN(std::vector<Value> result, CallBatched(iteration.b, body, std::move(parts), block, mine));
        for (size_t k = 0; k < result.size(); ++k) {
          ASSIGN_OR_RETURN(iteration.state[k], UpdateAt(iteration.b, iteration.state[k], result[k], {start}));
        }
        return iteration.b.Binary(Opcode::kAdd, iteration.count, step);
      });
}

}  // namespace backplane
