// Index arithmetic: sums of variables with constant coefficients, and the variables themselves.
//
// The index of an array element is one Affine per dimension. Variables are loop counters, integer quotients and
// remainders of other sums, clamped sums, and values that are known only at run time, such as the start of a dynamic
// slice. The range of every variable is known. Therefore most quotients and remainders of a sum, which reshapes need,
// are plain sums again. No LLVM is needed. A VarTable is not thread-safe.
#ifndef BACKPLANE_SDK_COMPILER_AFFINE_H_
#define BACKPLANE_SDK_COMPILER_AFFINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace backplane {
class Instruction;
}

namespace backplane::compiler {

using VarId = int32_t;

struct Term {
  VarId var;
  int64_t coef;
  auto operator<=>(const Term&) const = default;
};

struct Affine {
  int64_t constant = 0;
  absl::InlinedVector<Term, 4> terms;  // sorted by variable, no zero coefficient

  static Affine Const(int64_t c) { return {c, {}}; }
  static Affine Var(VarId v) { return {0, {{v, 1}}}; }

  bool IsConst() const { return terms.empty(); }
  bool IsSingleVar() const { return constant == 0 && terms.size() == 1 && terms[0].coef == 1; }
  int64_t GetCoef(VarId v) const;
  Affine& Add(const Affine& other, int64_t scale = 1);
  Affine Plus(const Affine& other, int64_t scale = 1) const { return Affine(*this).Add(other, scale); }
  Affine Plus(int64_t c) const {
    Affine r = *this;
    r.constant += c;
    return r;
  }
  Affine Times(int64_t scale) const { return Affine{}.Add(*this, scale); }

  bool operator==(const Affine&) const = default;
  bool operator<(const Affine& o) const;
};

using Index = absl::InlinedVector<Affine, 6>;

bool IndexLess(const Index& a, const Index& b);
struct IndexOrder {
  bool operator()(const Index& a, const Index& b) const { return IndexLess(a, b); }
};

enum class VarKind : uint8_t { kLoop, kFloorDiv, kMod, kClamp, kRuntime };

struct VarDef {
  VarKind kind = VarKind::kLoop;
  int64_t lo = 0, hi = 0;  // inclusive
  Affine expr;             // the argument of a quotient, remainder or clamp
  int64_t divisor = 1;
  const Instruction* source = nullptr;  // kRuntime: the element of this integer array, clamped to [lo, hi] unless `raw`
  Index source_index;
  bool raw = false;  // kRuntime: not clamped; guards check that the value is in the range
};

class VarTable {
 public:
  VarId Loop(int64_t extent);
  Affine FloorDiv(const Affine& e, int64_t c);
  Affine Mod(const Affine& e, int64_t c);
  Affine Clamp(const Affine& e, int64_t lo, int64_t hi);
  Affine Runtime(const Instruction* source, const Index& index, int64_t lo, int64_t hi, bool raw = false);

  const VarDef& def(VarId v) const { return defs_[v]; }
  int64_t extent(VarId v) const { return defs_[v].hi - defs_[v].lo + 1; }
  int size() const { return static_cast<int>(defs_.size()); }
  std::pair<int64_t, int64_t> Range(const Affine& e) const;

  // Calls fn(VarId) for every loop variable that the sum depends on, through derived and run-time variables.
  template <typename Fn>
  void ForEachLoopVar(const Affine& e, Fn&& fn) const {
    for (const Term& t : e.terms) {
      const VarDef& d = defs_[t.var];
      if (d.kind == VarKind::kLoop) {
        fn(t.var);
      } else if (d.kind == VarKind::kRuntime) {
        for (const Affine& a : d.source_index) ForEachLoopVar(a, fn);
      } else {
        ForEachLoopVar(d.expr, fn);
      }
    }
  }

  // A loop variable for which a quotient or remainder was needed. If its loop is split into two with the inner extent
  // `inner`, the result becomes a plain sum.
  struct Split {
    VarId var;
    int64_t inner;
  };
  const std::vector<Split>& splits() const { return splits_; }

 private:
  VarId AddDerived(VarKind kind, const Affine& e, int64_t c, int64_t lo, int64_t hi);
  void RecordSplit(const Affine& rest, int64_t c);
  std::vector<VarDef> defs_;
  std::map<std::tuple<VarKind, Affine, int64_t, int64_t>, VarId> derived_;
  std::map<std::tuple<const Instruction*, bool, int64_t, int64_t, std::vector<Affine>>, VarId> runtime_;
  std::vector<Split> splits_;
};

// Convert an index to the row-major position of the element, and back.
Affine Linearize(const Index& index, absl::Span<const int64_t> dims);
Index Delinearize(VarTable& vars, const Affine& position, absl::Span<const int64_t> dims);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_AFFINE_H_
