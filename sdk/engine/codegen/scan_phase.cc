// ScanPhase, a cumulative reduction. Along the last dimension a vector is scanned in registers and the total carried
// on; along another dimension the vector holds independent lines.
#include <vector>

#include "core/types/integer_division.h"
#include "sdk/codegen/body/carried_values.h"
#include "sdk/engine/codegen/phase_frame.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

class ScanLoops {
 public:
  ScanLoops(PhaseFrame& f, const ScanPhase& kind)
      : f_(f),
        op_(*kind.operation),
        type_(op_.shape().element_type()),
        lanes_(static_cast<int>(kind.lanes)),
        out_(f.GetBuffer(f.phase.outputs[0])) {
    const Shape& shape = op_.shape();
    int64_t dim = 0, outer = 1;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (op_.window().dimensions[d].size > 1) dim = d;
    }
    reverse_ = op_.window().dimensions[dim].padding_low == 0;
    length_ = shape.dimensions(dim);
    for (int64_t i = 0; i < dim; ++i) outer *= shape.dimensions(i);
    for (int64_t i = dim + 1; i < shape.rank(); ++i) inner_ *= shape.dimensions(i);
    outer_var_ = f_.vars.Loop(outer);
    step_ = f_.vars.Loop(length_);
    inner_var_ = f_.vars.Loop(inner_);
    // The scan's steps go along the line, backwards when it is reversed.
    Affine along = Affine::Var(step_);
    if (reverse_) along = along.Times(-1).Plus(length_ - 1);
    Affine position = Affine::Var(outer_var_).Times(length_ * inner_).Plus(along, inner_);
    if (inner_ > 1) position.Add(Affine::Var(inner_var_));
    index_ = Delinearize(f_.vars, position, shape.dimensions());
    address_ = Linearize(index_, shape.dimensions());
  }

  void Emit() {
    f_.ForEachItem([&](Value* item) { inner_ == 1 && lanes_ > 0 ? ScanInRegisters(item) : ScanLines(item); });
  }

 private:
  Val Rounded(const Val& v) { return IsNarrowFloat(type_) ? f_.e.Round(type_, v.v) : v; }

  // Each step is an element, or a vector of elements of neighbouring lines.
  void ScanLines(Value* item) {
    Guards tail;
    if (inner_ > 1 && lanes_ > 0) {
      Value* start = f_.b.CreateMul(f_.Take(item, CeilDiv(inner_, lanes_)), f_.Number(lanes_));
      if (inner_ >= lanes_ && inner_ % lanes_ != 0) start = f_.Min(start, f_.Number(inner_ - lanes_));
      f_.scopes.Bind({&inner_var_, 1}, start, lanes_);
      if (inner_ < lanes_) tail.push_back(f_.scopes.TailGuard({&inner_var_, 1}));
    } else if (inner_ > 1) {
      f_.scopes.Bind({&inner_var_, 1}, f_.Take(item, inner_));
    }
    f_.scopes.Bind({&outer_var_, 1}, item);
    const int width = inner_ > 1 ? lanes_ : 0;
    const Vals start = {f_.e.Splat(f_.body.InitialValues(op_, false)[0], width)};
    std::vector<Value*> carried = backplane::codegen::GetParts(start);
    f_.scopes.Loop(f_.Number(0), f_.Number(length_), 1, carried, [&](Value* iv, std::vector<Value*>& now) {
      f_.scopes.Bind({&step_, 1}, iv);
      const Vals inputs = {f_.body.Eval(op_.operand(0), index_, tail)};
      Value* active = f_.body.caller().ComputeActiveMask(*op_.called(0), tail);
      const Vals before = backplane::codegen::FromParts(start, now);
      // Backwards, what has been combined stands to the right of the next element.
      Val acc =
          f_.body.combiners().Combine(op_, reverse_ ? inputs : before, reverse_ ? before : inputs, false, active)[0];
      acc = f_.e.Splat(acc, width);
      f_.memory.Store(out_, address_, Rounded(acc), tail);
      now = backplane::codegen::GetParts({acc});
    });
  }

  // Each step is a vector along the line.
  void ScanInRegisters(Value* item) {
    f_.scopes.Bind({&outer_var_, 1}, item);
    Val identity;
    const Opcode combine = *f_.body.combiners().GetCombiner(op_).op;
    if (!f_.e.Identity(combine, type_, &identity)) f_.e.Fail(absl::InternalError("a scan without identity"));
    std::vector<Value*> carried = {f_.body.InitialValues(op_, false)[0].v};
    f_.scopes.Loop(f_.Number(0), f_.Number(RoundUp(length_, lanes_)), lanes_, carried,
                   [&](Value* iv, std::vector<Value*>& now) {
                     f_.scopes.Bind({&step_, 1}, iv, lanes_);
                     Guards tail;
                     if (length_ % lanes_ != 0) tail.push_back(f_.scopes.TailGuard({&step_, 1}));
                     Value* v = f_.e.Splat(f_.body.Eval(op_.operand(0), index_, tail), lanes_).v;
                     Value* fill = f_.e.Splat(identity.v, lanes_);
                     for (int shift = 1; shift < lanes_; shift *= 2) {
                       std::vector<int> pick(static_cast<size_t>(lanes_));
                       for (int i = 0; i < lanes_; ++i)
                         pick[static_cast<size_t>(i)] = i < shift ? lanes_ + i : i - shift;
                       v = f_.e.Binary(combine, type_, {f_.b.CreateShuffleVector(v, fill, pick)}, {v}, false).v;
                     }
                     v = f_.e.Binary(combine, type_, {f_.e.Splat(now[0], lanes_)}, {v}, false).v;
                     now[0] = f_.b.CreateExtractElement(v, static_cast<uint64_t>(lanes_ - 1));
                     f_.memory.Store(out_, address_, Rounded({v}), tail);
                   });
  }

  PhaseFrame& f_;
  const Instruction& op_;
  const PrimitiveType type_;
  const int lanes_;
  const ArrayRef out_;
  bool reverse_ = false;
  int64_t length_ = 0, inner_ = 1;  // elements of a line; lines side by side
  VarId outer_var_ = 0, step_ = 0, inner_var_ = 0;
  Index index_;
  Affine address_;
};

}  // namespace

void EmitPhaseBody(PhaseFrame& f, const ScanPhase& kind) { ScanLoops(f, kind).Emit(); }

}  // namespace backplane::engine::codegen
