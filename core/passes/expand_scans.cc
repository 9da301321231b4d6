// A scan becomes a loop over its steps. Each iteration takes a slice of every input, calls the body, and writes a slice
// of every output.
#include "core/passes/loop_builder.h"
#include "core/passes/order_effects.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// Returns the start indices of the slice at `step` along dimension d.
std::vector<Value> StartsOf(const Shape& shape, int64_t d, Value zero, Value step) {
  std::vector<Value> starts(static_cast<size_t>(shape.rank()), zero);
  starts[static_cast<size_t>(d)] = step;
  return starts;
}

absl::StatusOr<const Computation*> ExpandScan(Instruction* scan) {
  const int64_t carries = scan->attrs().GetInt(AttrId::kNumCarries), d = scan->dimensions()[0];
  const bool reverse = scan->attrs().GetBool(AttrId::kIsReverse);
  const size_t inputs = static_cast<size_t>(scan->operand_count() - carries);
  const std::vector<Shape> results =
      scan->shape().IsTuple() ? scan->shape().tuple_shapes() : std::vector<Shape>{scan->shape()};
  const size_t outputs = results.size() - static_cast<size_t>(carries);
  const int64_t length = inputs > 0    ? scan->operand(0)->shape().dimensions(d)
                         : outputs > 0 ? results[0].dimensions(d)
                                       : 0;

  Builder b(scan->parent()->parent(), "scan");
  b.set_metadata(scan->metadata());
  std::vector<Value> constants, state;
  for (size_t k = 0; k < static_cast<size_t>(scan->operand_count()); ++k) {
    ASSIGN_OR_RETURN(
        Value p, b.Parameter(static_cast<int64_t>(k), scan->operand(static_cast<int64_t>(k))->shape().WithoutLayout()));
    (k < inputs ? constants : state).push_back(p);
  }
  for (size_t k = 0; k < outputs; ++k) {
    ASSIGN_OR_RETURN(Value empty, Fill(b, results[k].element_type(), 0, results[k].dimensions()));
    state.push_back(empty);
  }
  ASSIGN_OR_RETURN(Value limit, IndexConstant(b, length));
  auto iterate = [&](LoopIteration& it) -> absl::StatusOr<Value> {
    ASSIGN_OR_RETURN(Value zero, IndexConstant(it.b, 0));
    ASSIGN_OR_RETURN(Value one, IndexConstant(it.b, 1));
    Value step = it.count;
    if (reverse) {
      ASSIGN_OR_RETURN(Value last, IndexConstant(it.b, length - 1));
      ASSIGN_OR_RETURN(step, it.b.Binary(Opcode::kSubtract, last, it.count));
    }
    std::vector<Value> arguments;
    for (Value x : it.constants) {
      DimVector sizes = x->shape().dimensions(), kept = sizes;
      sizes[d] = 1;
      kept.erase(kept.begin() + d);
      ASSIGN_OR_RETURN(Value slice, SliceAt(it.b, x, StartsOf(x->shape(), d, zero, step), sizes));
      ASSIGN_OR_RETURN(slice, it.b.Reshape(slice, kept));
      arguments.push_back(slice);
    }
    arguments.insert(arguments.end(), it.state.begin(), it.state.begin() + carries);
    ASSIGN_OR_RETURN(Value made, it.b.Call(scan->called(0), arguments));
    auto part = [&](size_t k) -> absl::StatusOr<Value> {
      if (!made->shape().IsTuple()) return made;
      return it.b.GetTupleElement(made, static_cast<int64_t>(k));
    };
    for (size_t k = 0; k < outputs; ++k) {
      Value& out = it.state[static_cast<size_t>(carries) + k];
      DimVector sizes = out->shape().dimensions();
      sizes[d] = 1;
      ASSIGN_OR_RETURN(Value slice, part(k));
      ASSIGN_OR_RETURN(slice, it.b.Reshape(slice, sizes));
      ASSIGN_OR_RETURN(out, UpdateAt(it.b, out, slice, StartsOf(out->shape(), d, zero, step)));
    }
    for (size_t k = 0; k < static_cast<size_t>(carries); ++k) {
      ASSIGN_OR_RETURN(it.state[k], part(outputs + k));
    }
    return it.b.Binary(Opcode::kAdd, it.count, one);
  };
  std::vector<Value> after = state;
  if (length > 0) {  // a scan of length 0 has nothing to slice
    ASSIGN_OR_RETURN(after, MakeLoop(b, "scan", limit, constants, state, iterate));
  }
  std::rotate(after.begin(), after.begin() + carries, after.end());  // outputs first
  if (!scan->shape().IsTuple()) return b.Build(after[0]);
  ASSIGN_OR_RETURN(Value root, b.Tuple(after));
  return b.Build(root);
}

}  // namespace

absl::StatusOr<bool> ExpandScans::Run(Module* module) {
  bool changed = false;
  for (bool more = true; more;) {  // the body of a scan may contain scans
    more = false;
    for (Computation* c : CollectControlFlowComputations(module)) {
      for (Instruction* i : c->Snapshot()) {
        if (!i->Is(Opcode::kScan)) continue;
        ASSIGN_OR_RETURN(const Computation* loop, ExpandScan(i));
        ReplaceByInlined(i, loop);
        if (i == c->root()) return absl::InternalError("expand-scans: the root was not replaced");
        RETURN_IF_ERROR(c->Remove(i));
        c->SortTopologically();
        more = true;
      }
    }
    changed |= more;
  }
  if (changed) module->RemoveUnreachableComputations();
  return changed;
}

}  // namespace backplane
