// Computes many calls of a computation at once (batch_body.h). Internal to the files that implement it.
#ifndef BACKPLANE_CORE_PASSES_BATCHER_H_
#define BACKPLANE_CORE_PASSES_BATCHER_H_

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/ir/builder.h"
#include "core/passes/loop_builder.h"

namespace backplane {

// A value of the body. An array is either the same in all calls, or batched: it has the calls as its leading dimension.
// A tuple is held as its elements.
struct BatchedValue {
  Value value = nullptr;
  bool is_batched = false;
  bool is_tuple = false;
  std::vector<BatchedValue> elements;

  bool AnyBatched() const {
    return is_batched ||
           std::any_of(elements.begin(), elements.end(), [](const BatchedValue& p) { return p.AnyBatched(); });
  }
};

class Batcher {
 public:
  Batcher(Builder& b, int64_t n, Value active = nullptr) : b_(b), n_(n), active_(active) {}
  absl::StatusOr<BatchedValue> Run(const Computation& c, const std::vector<BatchedValue>& arguments);
  absl::StatusOr<Value> BroadcastOverBatch(const BatchedValue& x);
  // Appends all leaves in order, each batched.
  absl::Status BroadcastLeaves(const BatchedValue& x, std::vector<Value>& leaves);

 private:
  // ---- values
  Ints WithBatchDimension(const DimVector& dims) const;
  Shape WithBatchDimension(const Shape& s) const { return Shape(s.element_type(), WithBatchDimension(s.dimensions())); }
  static std::vector<Computation*> CalledBy(const Instruction& i) { return {i.called().begin(), i.called().end()}; }
  static BatchedValue MakeBatched(Value v);
  // Splits a tuple into its elements.
  static absl::StatusOr<BatchedValue> UnpackTuple(Builder& b, Value v, bool is_batched);
  static absl::StatusOr<Value> PackTuple(Builder& b, const BatchedValue& x);
  // Adds a copy of the instruction to the computation of `b`, unbatched.
  static absl::StatusOr<Value> CloneUnbatched(Builder& b, const Instruction& i, const std::vector<BatchedValue>& x);
  static Shape DeclaredShape(const Instruction& i, const Shape& s) {
    return i.info().Has(kDeclared) ? s.WithoutLayout() : Shape();
  }

  // ---- one instruction for the whole batch
  absl::StatusOr<BatchedValue> BatchInstruction(const Instruction& i, const std::vector<BatchedValue>& x);
  absl::StatusOr<BatchedValue> AddBatched(const Instruction& i, std::vector<Value> operands, Attributes attrs,
                                          Shape declared);
  absl::StatusOr<BatchedValue> AddWithBatchedOperands(const Instruction& i, const std::vector<BatchedValue>& x,
                                                      Attributes attrs, Shape declared);
  absl::StatusOr<BatchedValue> AddWithDimensions(const Instruction& i, const std::vector<BatchedValue>& x, Ints dims);
  absl::StatusOr<BatchedValue> Elementwise(const Instruction& i, const std::vector<BatchedValue>& x);
  absl::StatusOr<BatchedValue> Map(const Instruction& i, const std::vector<BatchedValue>& x);
  absl::StatusOr<BatchedValue> Pad(const Instruction& i, const std::vector<BatchedValue>& x);
  // The first `count` operands are batched, the others are the same in all calls.
  absl::StatusOr<BatchedValue> AddReduction(const Instruction& i, const std::vector<BatchedValue>& x, size_t count,
                                            Attributes attrs);
  // A reduction whose initial value differs between calls, which no reduce instruction expresses.
  absl::StatusOr<BatchedValue> ReduceFromBatchedInit(const Instruction& i, const std::vector<BatchedValue>& x);
  static Attributes PrependWindowDimension(const Instruction& i);
  // Stacks scalar start indices into an array s64[n, rank].
  absl::StatusOr<Value> StackStartIndices(const std::vector<BatchedValue>& x, size_t first);
  static bool AnyBatchedFrom(const std::vector<BatchedValue>& x, size_t first) {
    return std::any_of(x.begin() + static_cast<int64_t>(first), x.end(),
                       [](const BatchedValue& o) { return o.is_batched; });
  }
  absl::StatusOr<Value> ZeroLike(Value start) { return Fill(b_, start->shape().element_type(), 0, {}); }
  absl::StatusOr<BatchedValue> DynamicSlice(const Instruction& i, const std::vector<BatchedValue>& x);
  absl::StatusOr<BatchedValue> AddGather(Value x, Value rows, GatherDimensions g, Ints sizes);
  absl::StatusOr<BatchedValue> DynamicUpdateSlice(const Instruction& i, const std::vector<BatchedValue>& x);
  absl::StatusOr<BatchedValue> Gather(const Instruction& i, const std::vector<BatchedValue>& x);
  absl::StatusOr<BatchedValue> Scatter(const Instruction& i, const std::vector<BatchedValue>& x);

  // ---- control flow: batcher_control.cc
  absl::StatusOr<Value> SelectByCall(Value mask, Value yes, Value no);
  absl::StatusOr<BatchedValue> SelectTree(Value mask, const BatchedValue& yes, const BatchedValue& no);
  absl::StatusOr<BatchedValue> Conditional(const Instruction& i, const std::vector<BatchedValue>& x);
  // Builds a tree shaped like `like` from `leaves`, beginning at index `next`.
  static BatchedValue RebuildTree(const BatchedValue& like, const std::vector<Value>& leaves, size_t& next,
                                  bool is_batched);
  // Iterates while any call of the batch continues. A call that has finished keeps its state.
  absl::StatusOr<BatchedValue> While(const Instruction& i, const BatchedValue& initial);
  // Adds a loop over the batch that runs the instruction unbatched.
  absl::StatusOr<BatchedValue> LoopOverBatch(const Instruction& i, const std::vector<BatchedValue>& x);

  Builder& b_;
  int64_t n_;
  Value active_;  // pred[n] or null
};

bool ContainsLoop(const Computation& c);

// Calls `c` if `active` (pred[]) is true, and returns zeros otherwise.
absl::StatusOr<Value> CallIf(Builder& b, Value active, Computation* c, std::vector<Value> arguments);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_BATCHER_H_
