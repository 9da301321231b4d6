#include "plugins/hip/compiler/select_and_scatter_kernel.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "sdk/codegen/body/can_evaluate.h"
#include "sdk/codegen/body/carried_values.h"

namespace backplane::hip {

using codegen::LoopScopes;
using llvm::Value;

namespace {

class SelectAndScatterEmitter {
 public:
  SelectAndScatterEmitter(KernelFrame& frame, const Instruction& op)
      : f_(frame),
        b_(frame.b),
        op_(op),
        window_(op.window().dimensions),
        shape_(op.shape()),
        source_(op.operand(1)->shape()),
        selected_type_(op.operand(0)->shape().element_type()) {
    // The positions of a window may be outside of the array.
    int64_t largest = 2 * std::max(shape_.num_elements(), source_.num_elements());
    for (size_t d = 0; d < window_.size(); ++d) {
      const int64_t n = static_cast<int64_t>(d);
      largest = std::max(largest, 2 * (shape_.dimensions(n) + window_[d].padding_low + window_[d].size) +
                                      source_.dimensions(n) * window_[d].stride);
    }
    type_ = f_.indices.CounterType(largest);
  }

  void Emit() {
    f_.ForEachInGrid(shape_.num_elements(), 0, [&](Value* at) {
      element_ = b_.CreateZExtOrTrunc(at, type_);
      own_ = Digits(element_, shape_);
      const Val initial = Load(2, source_type(), Number(0), 1);
      LoopScopes::Values carried = codegen::GetParts({initial});
      if (source_.num_elements() > 0) {
        windows_.assign(window_.size(), nullptr);
        ForEachWindow(0, initial, carried);
      }
      f_.memory.Store({f_.array(3), source_type()}, f_.AsIndex(element_, shape_.num_elements()),
                      codegen::FromParts({initial}, carried)[0], {});
    });
  }

 private:
  PrimitiveType source_type() const { return shape_.element_type(); }
  Value* Number(int64_t n) { return llvm::ConstantInt::get(type_, static_cast<uint64_t>(n), true); }

  Val Load(size_t operand, PrimitiveType type, Value* at, int64_t elements) {
    Val v = f_.memory.Load({f_.array(operand), type}, f_.AsIndex(at, elements), {});
    v.stored = nullptr;
    return v;
  }

  // The index of element `at` of an array.
  std::vector<Value*> Digits(Value* at, const Shape& shape) {
    std::vector<Value*> digits(static_cast<size_t>(shape.rank()));
    for (size_t d = digits.size(); d-- > 0;) {
      Value* size = Number(shape.dimensions(static_cast<int64_t>(d)));
      digits[d] = b_.CreateURem(at, size);
      at = b_.CreateUDiv(at, size);
    }
    return digits;
  }
  Value* Linear(absl::Span<Value* const> index, const Shape& shape) {
    Value* sum = Number(0);
    for (size_t d = 0; d < index.size(); ++d)
      sum = b_.CreateAdd(b_.CreateMul(sum, Number(shape.dimensions(static_cast<int64_t>(d)))), index[d]);
    return sum;
  }
  Value* IsBelow(Value* x, int64_t limit) { return b_.CreateICmpULT(x, Number(limit)); }  // and not negative

  void Repeat(int64_t count, LoopScopes::Values& carried,
              const std::function<void(Value*, LoopScopes::Values&)>& body) {
    if (count == 1) return body(Number(0), carried);
    f_.scopes.Loop(Number(0), Number(count), 1, carried, body);
  }

  // Loops over the windows that may contain the element, in the order of the source. The last along dimension d is
  // (own + padding) / stride.
  void ForEachWindow(size_t d, const Val& like, LoopScopes::Values& carried) {
    if (d == window_.size()) return AddWindow(like, carried);
    const WindowDimension& w = window_[d];
    const int64_t count = CeilDiv(w.size, w.stride);
    Repeat(count, carried, [&](Value* k, LoopScopes::Values& now) {
      Value* last = b_.CreateUDiv(b_.CreateAdd(own_[d], Number(w.padding_low)), Number(w.stride));
      windows_[d] = b_.CreateSub(b_.CreateAdd(last, k), Number(count - 1));
      ForEachWindow(d + 1, like, now);
    });
  }

  // Combines the value of the window at `windows_` with the element, if the window selects it.
  void AddWindow(const Val& like, LoopScopes::Values& carried) {
    Value* exists = b_.getTrue();
    std::vector<Value*> window, first;
    for (size_t d = 0; d < window_.size(); ++d) {
      const int64_t windows = source_.dimensions(static_cast<int64_t>(d));
      Value* inside = IsBelow(windows_[d], windows);
      window.push_back(b_.CreateSelect(inside, windows_[d], Number(0)));
      first.push_back(b_.CreateSub(b_.CreateMul(window[d], Number(window_[d].stride)), Number(window_[d].padding_low)));
      exists = b_.CreateAnd(exists, b_.CreateAnd(inside, IsBelow(b_.CreateSub(own_[d], first[d]), window_[d].size)));
    }
    // What the window selects: its position, or -1, and its value.
    const Val none = Load(0, selected_type_, Number(0), shape_.num_elements());
    LoopScopes::Values best = {Number(-1)};
    codegen::AppendParts({none}, best);
    std::vector<Value*> position(window_.size());
    Select(0, first, position, none, best);
    Value* chosen = b_.CreateAnd(exists, b_.CreateICmpEQ(best[0], element_));
    const Val sum = codegen::FromParts({like}, carried)[0];
    const Val value = Load(1, source_type(), Linear(window, source_), source_.num_elements());
    Val next = f_.body.caller().Call(*op_.called(1), {sum, value})[0];
    next.stored = nullptr;
    carried = codegen::GetParts({f_.elements.Select(chosen, next, sum)});
  }

  // Loops over the positions of a window that starts at `first`.
  void Select(size_t d, const std::vector<Value*>& first, std::vector<Value*>& position, const Val& like,
              LoopScopes::Values& best) {
    if (d == window_.size()) return SelectAt(position, like, best);
    Repeat(window_[d].size, best, [&](Value* k, LoopScopes::Values& now) {
      position[d] = b_.CreateAdd(first[d], k);
      Select(d + 1, first, position, like, now);
    });
  }

  void SelectAt(const std::vector<Value*>& position, const Val& like, LoopScopes::Values& best) {
    Value* inside = b_.getTrue();
    for (size_t d = 0; d < position.size(); ++d)
      inside = b_.CreateAnd(inside, IsBelow(position[d], shape_.dimensions(static_cast<int64_t>(d))));
    Value* at = b_.CreateSelect(inside, Linear(position, shape_), Number(0));
    const Val old = codegen::FromParts({like}, best, 1)[0];
    const Val value = Load(0, selected_type_, at, shape_.num_elements());
    Value* keeps = f_.body.caller().Call(*op_.called(0), {old, value})[0].v;
    keeps = b_.CreateAnd(keeps, b_.CreateICmpSGE(best[0], Number(0)));
    Value* takes = b_.CreateAnd(inside, b_.CreateNot(keeps));
    LoopScopes::Values next = {b_.CreateSelect(takes, at, best[0])};
    codegen::AppendParts({f_.elements.Select(takes, value, old)}, next);
    best = std::move(next);
  }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  const Instruction& op_;
  const std::vector<WindowDimension>& window_;
  const Shape &shape_, &source_;
  const PrimitiveType selected_type_;
  llvm::IntegerType* type_ = nullptr;  // of positions
  Value* element_ = nullptr;           // of the result
  std::vector<Value*> own_;            // its index
  std::vector<Value*> windows_;        // the index of the window
};

}  // namespace

absl::StatusOr<KernelPlan> PlanSelectAndScatter(const Instruction& op) {
  RETURN_IF_ERROR(codegen::CheckArrays(op));
  for (const Computation* c : op.called()) RETURN_IF_ERROR(codegen::CanCall(*c));
  KernelPlan plan;
  plan.kind = SelectAndScatterPlan{};
  plan.blocks = CountBlocks(op.shape().num_elements(), plan.threads);
  int64_t windows = 1, positions = 1;
  for (const WindowDimension& w : op.window().dimensions) windows *= CeilDiv(w.size, w.stride), positions *= w.size;
  plan.note = absl::StrCat("select-and-scatter: ", op.shape().num_elements(), " elements, each in up to ", windows,
                           " windows of ", positions);
  return plan;
}

void EmitBody(KernelFrame& frame, const Instruction& operation, const SelectAndScatterPlan&) {
  SelectAndScatterEmitter(frame, operation).Emit();
}

}  // namespace backplane::hip
