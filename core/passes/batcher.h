// Evaluates a computation for many calls at once (batch_body.h). Internal to the two files that make it up.
#ifndef BACKPLANE_CORE_PASSES_BATCHER_H_
#define BACKPLANE_CORE_PASSES_BATCHER_H_

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/ir/builder.h"
#include "core/passes/loop_builder.h"

namespace backplane {

// A value of the body: the same for all calls, or with the calls as its first dimension. Tuples by their elements.
struct Lanes {
  Value value = nullptr;
  bool each = false;
  bool tuple = false;
  std::vector<Lanes> parts;

  bool AnyEach() const {
    return each || std::any_of(parts.begin(), parts.end(), [](const Lanes& p) { return p.AnyEach(); });
  }
};

class Batcher {
 public:
  Batcher(Builder& b, int64_t n, Value active = nullptr) : b_(b), n_(n), active_(active) {}
  absl::StatusOr<Lanes> Run(const Computation& c, const std::vector<Lanes>& arguments);
  absl::StatusOr<Value> Spread(const Lanes& x);
  // All leaves, in order, with the calls as first dimension.
  absl::Status SpreadLeaves(const Lanes& x, std::vector<Value>& leaves);

 private:
  // ---- values
  Ints WithN(const DimVector& dims) const;
  Shape WithN(const Shape& s) const { return Shape(s.element_type(), WithN(s.dimensions())); }
  static std::vector<Computation*> CalledBy(const Instruction& i) { return {i.called().begin(), i.called().end()}; }
  static Lanes Each(Value v);
  // The value's elements where it is a tuple.
  static absl::StatusOr<Lanes> Taken(Builder& b, Value v, bool each);
  static absl::StatusOr<Value> Whole(Builder& b, const Lanes& x);
  // The instruction as it stands, in another computation.
  static absl::StatusOr<Value> Again(Builder& b, const Instruction& i, const std::vector<Lanes>& x);
  static Shape Declared(const Instruction& i, const Shape& s) {
    return i.info().Has(kDeclared) ? s.WithoutLayout() : Shape();
  }

  // ---- one instruction for all calls
  absl::StatusOr<Lanes> Lift(const Instruction& i, const std::vector<Lanes>& x);
  absl::StatusOr<Lanes> Made(const Instruction& i, std::vector<Value> operands, Attributes attrs, Shape declared);
  absl::StatusOr<Lanes> Spreading(const Instruction& i, const std::vector<Lanes>& x, Attributes attrs, Shape declared);
  absl::StatusOr<Lanes> Moved(const Instruction& i, const std::vector<Lanes>& x, Ints dims);
  absl::StatusOr<Lanes> Elementwise(const Instruction& i, const std::vector<Lanes>& x);
  absl::StatusOr<Lanes> Map(const Instruction& i, const std::vector<Lanes>& x);
  absl::StatusOr<Lanes> Pad(const Instruction& i, const std::vector<Lanes>& x);
  // The first `count` operands per call, the others the same for all.
  absl::StatusOr<Lanes> Folded(const Instruction& i, const std::vector<Lanes>& x, size_t count, Attributes attrs);
  // Each call begins with a value of its own, which no reduce can.
  absl::StatusOr<Lanes> ReduceFromEach(const Instruction& i, const std::vector<Lanes>& x);
  static Attributes Windowed(const Instruction& i);
  // Start indices as rows of an array [n, rank], as s64.
  absl::StatusOr<Value> StartRows(const std::vector<Lanes>& x, size_t first);
  static bool AnyEachFrom(const std::vector<Lanes>& x, size_t first) {
    return std::any_of(x.begin() + static_cast<int64_t>(first), x.end(), [](const Lanes& o) { return o.each; });
  }
  absl::StatusOr<Value> ZeroLike(Value start) { return Fill(b_, start->shape().element_type(), 0, {}); }
  absl::StatusOr<Lanes> DynamicSlice(const Instruction& i, const std::vector<Lanes>& x);
  absl::StatusOr<Lanes> TakenBy(Value x, Value rows, GatherDimensions g, Ints sizes);
  absl::StatusOr<Lanes> DynamicUpdateSlice(const Instruction& i, const std::vector<Lanes>& x);
  absl::StatusOr<Lanes> Gather(const Instruction& i, const std::vector<Lanes>& x);
  absl::StatusOr<Lanes> Scatter(const Instruction& i, const std::vector<Lanes>& x);

  // ---- control: batcher_control.cc
  absl::StatusOr<Value> SelectEach(Value mask, Value yes, Value no);
  absl::StatusOr<Lanes> Choose(Value mask, const Lanes& yes, const Lanes& no);
  absl::StatusOr<Lanes> Conditional(const Instruction& i, const std::vector<Lanes>& x);
  // The value's tree with other leaves.
  static Lanes Rebuilt(const Lanes& like, const std::vector<Value>& leaves, size_t& next, bool each);
  // Runs until no call wants another turn; a call that has finished keeps its values.
  absl::StatusOr<Lanes> While(const Instruction& i, const Lanes& initial);
  // A loop over the calls, each with the instruction as it stands.
  absl::StatusOr<Lanes> OneByOne(const Instruction& i, const std::vector<Lanes>& x);

  Builder& b_;
  int64_t n_;
  Value active_;  // pred[n] or null
};

bool HoldsLoop(const Computation& c);

// The call where `active` (pred[]) holds, zeros elsewhere.
absl::StatusOr<Value> CallWhere(Builder& b, Value active, Computation* c, std::vector<Value> arguments);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_BATCHER_H_
