#include "sdk/compiler/affine.h"

#include <algorithm>
#include <numeric>

namespace backplane::compiler {

int64_t Affine::GetCoef(VarId v) const {
  for (const Term& t : terms) {
    if (t.var == v) return t.coef;
  }
  return 0;
}

Affine& Affine::Add(const Affine& other, int64_t scale) {
  if (scale == 0) return *this;
  constant += other.constant * scale;
  if (other.terms.empty()) return *this;
  absl::InlinedVector<Term, 4> merged;
  size_t i = 0, j = 0;
  while (i < terms.size() || j < other.terms.size()) {
    if (j == other.terms.size() || (i < terms.size() && terms[i].var < other.terms[j].var)) {
      merged.push_back(terms[i++]);
    } else if (i == terms.size() || other.terms[j].var < terms[i].var) {
      merged.push_back({other.terms[j].var, other.terms[j].coef * scale});
      ++j;
    } else {
      int64_t coef = terms[i].coef + other.terms[j].coef * scale;
      if (coef != 0) merged.push_back({terms[i].var, coef});
      ++i, ++j;
    }
  }
  terms = std::move(merged);
  return *this;
}

bool Affine::operator<(const Affine& o) const {
  if (constant != o.constant) return constant < o.constant;
  return std::lexicographical_compare(terms.begin(), terms.end(), o.terms.begin(), o.terms.end());
}

bool IndexLess(const Index& a, const Index& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

VarId VarTable::Loop(int64_t extent) {
  VarDef d;
  d.hi = extent - 1;
  defs_.push_back(std::move(d));
  return static_cast<VarId>(defs_.size()) - 1;
}

std::pair<int64_t, int64_t> VarTable::Range(const Affine& e) const {
  int64_t lo = e.constant, hi = e.constant;
  for (const Term& t : e.terms) {
    const VarDef& d = defs_[t.var];
    lo += t.coef * (t.coef > 0 ? d.lo : d.hi);
    hi += t.coef * (t.coef > 0 ? d.hi : d.lo);
  }
  return {lo, hi};
}

VarId VarTable::AddDerived(VarKind kind, const Affine& e, int64_t c, int64_t lo, int64_t hi) {
  auto key = std::make_tuple(kind, e, c, kind == VarKind::kClamp ? lo : 0);
  auto it = derived_.find(key);
  if (it != derived_.end()) return it->second;
  VarDef d;
  d.kind = kind;
  d.expr = e;
  d.divisor = c;
  d.lo = lo;
  d.hi = hi;
  defs_.push_back(std::move(d));
  VarId id = static_cast<VarId>(defs_.size()) - 1;
  derived_.emplace(std::move(key), id);
  return id;
}

namespace {

int64_t FloorDivInt(int64_t a, int64_t c) { return a >= 0 ? a / c : -((-a + c - 1) / c); }

// e = c * quotient + rest, where rest keeps the terms that c does not divide.
void SplitByDivisor(const Affine& e, int64_t c, Affine& quotient, Affine& rest) {
  quotient.constant = FloorDivInt(e.constant, c);
  rest.constant = e.constant - quotient.constant * c;
  for (const Term& t : e.terms) {
    if (t.coef % c == 0) {
      quotient.terms.push_back({t.var, t.coef / c});
    } else {
      rest.terms.push_back(t);
    }
  }
}

}  // namespace

void VarTable::RecordSplit(const Affine& rest, int64_t c) {
  for (const Term& t : rest.terms) {
    const VarDef& d = defs_[t.var];
    if (d.kind != VarKind::kLoop || t.coef <= 0 || c % t.coef != 0) continue;
    int64_t inner = c / t.coef, n = d.hi - d.lo + 1;
    if (inner > 1 && inner < n && n % inner == 0) splits_.push_back({t.var, inner});
  }
}

Affine VarTable::FloorDiv(const Affine& e, int64_t c) {
  if (c == 1) return e;
  Affine quotient, rest;
  SplitByDivisor(e, c, quotient, rest);
  auto [lo, hi] = Range(rest);
  if (lo >= 0 && hi < c) return quotient;
  RecordSplit(rest, c);
  // A factor common to all terms and the divisor goes out: floor((g x + k) / (g c)) = floor(x / c) for 0 <= k < g.
  int64_t g = c;
  for (const Term& t : rest.terms) g = std::gcd(g, t.coef);
  if (g > 1) {
    for (Term& t : rest.terms) t.coef /= g;
    rest.constant = FloorDivInt(rest.constant, g);
    c /= g;
    std::tie(lo, hi) = Range(rest);
    if (lo >= 0 && hi < c) return quotient;
  }
  return quotient.Plus(Affine::Var(AddDerived(VarKind::kFloorDiv, rest, c, FloorDivInt(lo, c), FloorDivInt(hi, c))));
}

Affine VarTable::Mod(const Affine& e, int64_t c) {
  if (c == 1) return Affine::Const(0);
  Affine quotient, rest;
  SplitByDivisor(e, c, quotient, rest);
  auto [lo, hi] = Range(rest);
  if (lo >= 0 && hi < c) return rest;
  RecordSplit(rest, c);
  return Affine::Var(AddDerived(VarKind::kMod, rest, c, 0, c - 1));
}

Affine VarTable::Clamp(const Affine& e, int64_t lo, int64_t hi) {
  auto [from, to] = Range(e);
  if (from >= lo && to <= hi) return e;
  if (lo == hi) return Affine::Const(lo);
  return Affine::Var(AddDerived(VarKind::kClamp, e, hi, lo, hi));
}

Affine VarTable::Runtime(const Instruction* source, const Index& index, int64_t lo, int64_t hi, bool raw) {
  if (lo == hi && !raw) return Affine::Const(lo);
  auto key = std::make_tuple(source, raw, lo, hi, std::vector<Affine>(index.begin(), index.end()));
  auto it = runtime_.find(key);
  if (it != runtime_.end()) return Affine::Var(it->second);
  VarDef d;
  d.kind = VarKind::kRuntime;
  d.source = source;
  d.source_index = index;
  d.lo = lo;
  d.hi = hi;
  d.raw = raw;
  defs_.push_back(std::move(d));
  VarId id = static_cast<VarId>(defs_.size()) - 1;
  runtime_.emplace(std::move(key), id);
  return Affine::Var(id);
}

Affine Linearize(const Index& index, absl::Span<const int64_t> dims) {
  Affine r;
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    r.Add(index[i], stride);
    stride *= dims[i];
  }
  return r;
}

Index Delinearize(VarTable& vars, const Affine& position, absl::Span<const int64_t> dims) {
  Index r(dims.size());
  Affine rest = position;
  for (size_t i = dims.size(); i-- > 0;) {
    bool first = true;
    for (size_t j = 0; j < i; ++j) first = first && dims[j] == 1;
    if (dims[i] <= 1) {  // an array without elements has no index
      r[i] = Affine::Const(0);
      continue;
    }
    if (first) {
      r[i] = rest;
      for (size_t j = 0; j < i; ++j) r[j] = Affine::Const(0);
      break;
    }
    r[i] = vars.Mod(rest, dims[i]);
    rest = vars.FloorDiv(rest, dims[i]);
  }
  return r;
}

}  // namespace backplane::compiler
