#include "core/passes/expand_factorizations.h"

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/passes/rewrite.h"
#include "core/text/hlo_parser.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// Each method is a program over one matrix, as HLO text with placeholders: T is the element type, %m, %n and %k are
// sizes. Sums of absolute values are computed on elements scaled by the largest one, so that they do not overflow.
constexpr char kReducers[] = R"(
add { a = T[] parameter(0) b = T[] parameter(1) ROOT r = T[] add(a, b) }
max { a = T[] parameter(0) b = T[] parameter(1) ROOT r = T[] maximum(a, b) }
)";

// Computes column j: the reflector that zeroes it below the diagonal, and its application to the columns to the right.
constexpr char kQr[] = R"(
qr_condition {
  s = (s32[], T[%m,%n], T[%k]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  k = s32[] constant(%k)
  ROOT more = pred[] compare(j, k), direction=LT
}
qr_body {
  s = (s32[], T[%m,%n], T[%k]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  a = T[%m,%n] get-tuple-element(s), index=1
  taus = T[%k] get-tuple-element(s), index=2
  first = s32[] constant(0)
  zero = T[] constant(0)
  one = T[] constant(1)
  zeros = T[%m] broadcast(zero), dimensions={}
  ones = T[%m] broadcast(one), dimensions={}
  column = T[%m,1] dynamic-slice(a, first, j), dynamic_slice_sizes={%m,1}
  x = T[%m] reshape(column)
  row = s32[%m] iota(), iota_dimension=0
  at_j = s32[%m] broadcast(j), dimensions={}
  below = pred[%m] compare(row, at_j), direction=GT
  here = pred[%m] compare(row, at_j), direction=EQ
  from = pred[%m] compare(row, at_j), direction=GE
  lower = T[%m] select(from, x, zeros)
  sizes = T[%m] abs(lower)
  largest = T[] reduce(sizes, zero), dimensions={0}, to_apply=max
  none = pred[] compare(largest, zero), direction=EQ
  scale = T[] select(none, one, largest)
  scales = T[%m] broadcast(scale), dimensions={}
  y = T[%m] divide(lower, scales)
  tail = T[%m] select(below, y, zeros)
  head = T[%m] select(here, y, zeros)
  alpha = T[] reduce(head, zero), dimensions={0}, to_apply=add
  squares = T[%m] multiply(tail, tail)
  sigma = T[] reduce(squares, zero), dimensions={0}, to_apply=add
  done = pred[] compare(sigma, zero), direction=EQ
  alpha2 = T[] multiply(alpha, alpha)
  sum = T[] add(alpha2, sigma)
  norm = T[] sqrt(sum)
  minus = T[] negate(norm)
  positive = pred[] compare(alpha, zero), direction=GE
  signed = T[] select(positive, minus, norm)
  beta = T[] select(done, alpha, signed)
  safe_beta = T[] select(done, one, beta)
  difference = T[] subtract(safe_beta, alpha)
  quotient = T[] divide(difference, safe_beta)
  tau = T[] select(done, zero, quotient)
  pivot = T[] negate(difference)
  safe_pivot = T[] select(done, one, pivot)
  pivots = T[%m] broadcast(safe_pivot), dimensions={}
  v_tail = T[%m] divide(tail, pivots)
  v_head = T[%m] select(here, ones, zeros)
  v = T[%m] select(below, v_tail, v_head)
  w = T[%n] dot(v, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  tau_n = T[%n] broadcast(tau), dimensions={}
  tau_w = T[%n] multiply(tau_n, w)
  v_mn = T[%m,%n] broadcast(v), dimensions={0}
  w_mn = T[%m,%n] broadcast(tau_w), dimensions={1}
  outer = T[%m,%n] multiply(v_mn, w_mn)
  reflected = T[%m,%n] subtract(a, outer)
  diagonal = T[] multiply(beta, scale)
  diagonals = T[%m] broadcast(diagonal), dimensions={}
  stored = T[%m] select(here, diagonals, x)
  written = T[%m] select(below, v_tail, stored)
  written_mn = T[%m,%n] broadcast(written), dimensions={0}
  place = s32[%m,%n] iota(), iota_dimension=1
  at_mn = s32[%m,%n] broadcast(j), dimensions={}
  behind = pred[%m,%n] compare(place, at_mn), direction=GT
  current = pred[%m,%n] compare(place, at_mn), direction=EQ
  kept = T[%m,%n] select(behind, reflected, a)
  next_a = T[%m,%n] select(current, written_mn, kept)
  tau_1 = T[1] reshape(tau)
  next_taus = T[%k] dynamic-update-slice(taus, tau_1, j)
  step = s32[] constant(1)
  next_j = s32[] add(j, step)
  ROOT r = (s32[], T[%m,%n], T[%k]) tuple(next_j, next_a, next_taus)
}
ENTRY qr {
  a = T[%m,%n] parameter(0)
  j = s32[] constant(0)
  zero = T[] constant(0)
  taus = T[%k] broadcast(zero), dimensions={}
  s = (s32[], T[%m,%n], T[%k]) tuple(j, a, taus)
  l = (s32[], T[%m,%n], T[%k]) while(s), condition=qr_condition, body=qr_body
  x = T[%m,%n] get-tuple-element(l), index=1
  y = T[%k] get-tuple-element(l), index=2
  ROOT r = (T[%m,%n], T[%k]) tuple(x, y)
}
)";

// Applies the reflectors to the identity matrix, from the last to the first.
constexpr char kHouseholderProduct[] = R"(
product_condition {
  s = (s32[], T[%m,%n], T[%k], T[%m,%n]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  first = s32[] constant(0)
  ROOT more = pred[] compare(j, first), direction=GE
}
product_body {
  s = (s32[], T[%m,%n], T[%k], T[%m,%n]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  a = T[%m,%n] get-tuple-element(s), index=1
  taus = T[%k] get-tuple-element(s), index=2
  q = T[%m,%n] get-tuple-element(s), index=3
  first = s32[] constant(0)
  zero = T[] constant(0)
  one = T[] constant(1)
  zeros = T[%m] broadcast(zero), dimensions={}
  ones = T[%m] broadcast(one), dimensions={}
  column = T[%m,1] dynamic-slice(a, first, j), dynamic_slice_sizes={%m,1}
  x = T[%m] reshape(column)
  tau_1 = T[1] dynamic-slice(taus, j), dynamic_slice_sizes={1}
  tau = T[] reshape(tau_1)
  row = s32[%m] iota(), iota_dimension=0
  at_j = s32[%m] broadcast(j), dimensions={}
  below = pred[%m] compare(row, at_j), direction=GT
  here = pred[%m] compare(row, at_j), direction=EQ
  head = T[%m] select(here, ones, zeros)
  v = T[%m] select(below, x, head)
  w = T[%n] dot(v, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  tau_n = T[%n] broadcast(tau), dimensions={}
  tau_w = T[%n] multiply(tau_n, w)
  v_mn = T[%m,%n] broadcast(v), dimensions={0}
  w_mn = T[%m,%n] broadcast(tau_w), dimensions={1}
  outer = T[%m,%n] multiply(v_mn, w_mn)
  next_q = T[%m,%n] subtract(q, outer)
  step = s32[] constant(1)
  next_j = s32[] subtract(j, step)
  ROOT r = (s32[], T[%m,%n], T[%k], T[%m,%n]) tuple(next_j, a, taus, next_q)
}
ENTRY product {
  a = T[%m,%n] parameter(0)
  taus = T[%k] parameter(1)
  last = s32[] constant(%last)
  row = s32[%m,%n] iota(), iota_dimension=0
  column = s32[%m,%n] iota(), iota_dimension=1
  on_diagonal = pred[%m,%n] compare(row, column), direction=EQ
  unit = T[%m,%n] convert(on_diagonal)
  s = (s32[], T[%m,%n], T[%k], T[%m,%n]) tuple(last, a, taus, unit)
  l = (s32[], T[%m,%n], T[%k], T[%m,%n]) while(s), condition=product_condition, body=product_body
  q = T[%m,%n] get-tuple-element(l), index=3
  ROOT r = (T[%m,%n]) tuple(q)
}
)";

// Without reflectors the product is the identity matrix.
constexpr char kIdentityMatrix[] = R"(
ENTRY unit {
  a = T[%m,%n] parameter(0)
  taus = T[%k] parameter(1)
  row = s32[%m,%n] iota(), iota_dimension=0
  column = s32[%m,%n] iota(), iota_dimension=1
  on_diagonal = pred[%m,%n] compare(row, column), direction=EQ
  q = T[%m,%n] convert(on_diagonal)
  ROOT r = (T[%m,%n]) tuple(q)
}
)";

// Rows and columns are paired: p with p + h, where %h is half of %n, which is even. A round rotates all pairs at once
// to zero the element of each pair. Then all positions but the first move by one (the round-robin schedule of a
// tournament). After a sweep of %n - 1 rounds each index has been paired with every other one and is in its original
// position. Squares of the elements must not overflow or vanish, so matrices of very large or very small numbers are
// scaled by a power of two. A matrix with NaN or infinities has no decomposition: all results are NaN, as LAPACK's.
constexpr char kEigh[] = R"(
round_condition {
  s = (s32[], T[%n,%n], T[%n,%n]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(%rounds)
  ROOT more = pred[] compare(i, n), direction=LT
}
round_body {
  s = (s32[], T[%n,%n], T[%n,%n]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = T[%n,%n] get-tuple-element(s), index=1
  v = T[%n,%n] get-tuple-element(s), index=2
  zero = T[] constant(0)
  zeros = T[%h] broadcast(zero), dimensions={}
  ones_1 = T[] constant(1)
  ones = T[%h] broadcast(ones_1), dimensions={}
  twos_1 = T[] constant(2)
  twos = T[%h] broadcast(twos_1), dimensions={}
  hrow = s32[%h,%h] iota(), iota_dimension=0
  hcolumn = s32[%h,%h] iota(), iota_dimension=1
  on_hdiagonal = pred[%h,%h] compare(hrow, hcolumn), direction=EQ
  hzeros = T[%h,%h] broadcast(zero), dimensions={}
  tl = T[%h,%h] slice(a), slice={[0:%h], [0:%h]}
  tr = T[%h,%h] slice(a), slice={[0:%h], [%h:%n]}
  br = T[%h,%h] slice(a), slice={[%h:%n], [%h:%n]}
  tl_d = T[%h,%h] select(on_hdiagonal, tl, hzeros)
  tr_d = T[%h,%h] select(on_hdiagonal, tr, hzeros)
  br_d = T[%h,%h] select(on_hdiagonal, br, hzeros)
  app = T[%h] reduce(tl_d, zero), dimensions={1}, to_apply=add
  apq = T[%h] reduce(tr_d, zero), dimensions={1}, to_apply=add
  aqq = T[%h] reduce(br_d, zero), dimensions={1}, to_apply=add
  flat = pred[%h] compare(apq, zeros), direction=EQ
  difference = T[%h] subtract(aqq, app)
  twice = T[%h] multiply(twos, apq)
  safe = T[%h] select(flat, ones, twice)
  tau = T[%h] divide(difference, safe)
  tau2 = T[%h] multiply(tau, tau)
  one_tau2 = T[%h] add(ones, tau2)
  root = T[%h] sqrt(one_tau2)
  positive = pred[%h] compare(tau, zeros), direction=GE
  minus_root = T[%h] negate(root)
  signed_root = T[%h] select(positive, root, minus_root)
  denominator = T[%h] add(tau, signed_root)
  tangent = T[%h] divide(ones, denominator)
  t = T[%h] select(flat, zeros, tangent)
  t2 = T[%h] multiply(t, t)
  one_t2 = T[%h] add(ones, t2)
  c = T[%h] rsqrt(one_t2)
  s_ = T[%h] multiply(t, c)
  c_mm = T[%h,%h] broadcast(c), dimensions={1}
  s_mm = T[%h,%h] broadcast(s_), dimensions={1}
  c_d = T[%h,%h] select(on_hdiagonal, c_mm, hzeros)
  s_d = T[%h,%h] select(on_hdiagonal, s_mm, hzeros)
  minus_s = T[%h,%h] negate(s_d)
  top = T[%h,%n] concatenate(c_d, s_d), dimensions={1}
  bottom = T[%h,%n] concatenate(minus_s, c_d), dimensions={1}
  rotation = T[%n,%n] concatenate(top, bottom), dimensions={0}
%permute
  am = T[%n,%n] dot(a, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  next_a = T[%n,%n] dot(m, am), lhs_contracting_dims={0}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  next_v = T[%n,%n] dot(v, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  step = s32[] constant(1)
  next_i = s32[] add(i, step)
  ROOT r = (s32[], T[%n,%n], T[%n,%n]) tuple(next_i, next_a, next_v)
}
sweep_condition {
  s = (s32[], T[%n,%n], T[%n,%n]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = T[%n,%n] get-tuple-element(s), index=1
  limit = s32[] constant(%sweeps)
  few = pred[] compare(i, limit), direction=LT
  zero = T[] constant(0)
  zeros = T[%n,%n] broadcast(zero), dimensions={}
  row = s32[%n,%n] iota(), iota_dimension=0
  column = s32[%n,%n] iota(), iota_dimension=1
  on_diagonal = pred[%n,%n] compare(row, column), direction=EQ
  one = T[] constant(1)
  sizes = T[%n,%n] abs(a)
  largest = T[] reduce(sizes, zero), dimensions={0,1}, to_apply=max
  none = pred[] compare(largest, zero), direction=EQ
  scale = T[] select(none, one, largest)
  scales = T[%n,%n] broadcast(scale), dimensions={}
  b = T[%n,%n] divide(a, scales)
  squares = T[%n,%n] multiply(b, b)
  outside = T[%n,%n] select(on_diagonal, zeros, squares)
  whole = T[] reduce(squares, zero), dimensions={0,1}, to_apply=add
  off = T[] reduce(outside, zero), dimensions={0,1}, to_apply=add
  tol2 = T[] constant(%tol2)
  allowed = T[] multiply(whole, tol2)
  far = pred[] compare(off, allowed), direction=GT
  ROOT more = pred[] and(few, far)
}
sweep_body {
  s = (s32[], T[%n,%n], T[%n,%n]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = T[%n,%n] get-tuple-element(s), index=1
  v = T[%n,%n] get-tuple-element(s), index=2
  first = s32[] constant(0)
  t = (s32[], T[%n,%n], T[%n,%n]) tuple(first, a, v)
  l = (s32[], T[%n,%n], T[%n,%n]) while(t), condition=round_condition, body=round_body
  next_a = T[%n,%n] get-tuple-element(l), index=1
  next_v = T[%n,%n] get-tuple-element(l), index=2
  step = s32[] constant(1)
  next_i = s32[] add(i, step)
  ROOT r = (s32[], T[%n,%n], T[%n,%n]) tuple(next_i, next_a, next_v)
}
less {
  a = T[] parameter(0)
  b = T[] parameter(1)
  x = T[] parameter(2)
  y = T[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY eigh {
  a = T[%m,%m] parameter(0)
  zero = T[] constant(0)
  mzeros = T[%m,%m] broadcast(zero), dimensions={}
  mrow = s32[%m,%m] iota(), iota_dimension=0
  mcolumn = s32[%m,%m] iota(), iota_dimension=1
  named = pred[%m,%m] compare(mrow, mcolumn), direction=%side
  transposed = T[%m,%m] transpose(a), dimensions={1,0}
  symmetric = T[%m,%m] select(named, a, transposed)
  magnitudes = T[%m,%m] abs(symmetric)
  largest = T[] reduce(magnitudes, zero), dimensions={0,1}, to_apply=max
  unscaled = T[] constant(1)
  great = T[] constant(%great)
  little = T[] constant(%little)
  is_great = pred[] compare(largest, great), direction=GT
  is_little = pred[] compare(largest, little), direction=LT
  for_little = T[] select(is_little, great, unscaled)
  factor = T[] select(is_great, little, for_little)
  back_for_little = T[] select(is_little, little, unscaled)
  back = T[] select(is_great, great, back_for_little)
  factors = T[%m,%m] broadcast(factor), dimensions={}
  scaled = T[%m,%m] multiply(symmetric, factors)
  padded = T[%n,%n] pad(scaled, zero), padding=0_%padx0_%pad
  row = s32[%n,%n] iota(), iota_dimension=0
  column = s32[%n,%n] iota(), iota_dimension=1
  on_diagonal = pred[%n,%n] compare(row, column), direction=EQ
  unit = T[%n,%n] convert(on_diagonal)
  i = s32[] constant(0)
  s = (s32[], T[%n,%n], T[%n,%n]) tuple(i, padded, unit)
  l = (s32[], T[%n,%n], T[%n,%n]) while(s), condition=sweep_condition, body=sweep_body
  aa = T[%n,%n] get-tuple-element(l), index=1
  vv = T[%n,%n] get-tuple-element(l), index=2
  d = T[%m,%m] slice(aa), slice={[0:%m], [0:%m]}
  v_finite = T[%m,%m] slice(vv), slice={[0:%m], [0:%m]}
  on_mdiagonal = pred[%m,%m] compare(mrow, mcolumn), direction=EQ
  dd = T[%m,%m] select(on_mdiagonal, d, mzeros)
  w_scaled = T[%m] reduce(dd, zero), dimensions={1}, to_apply=add
  backs = T[%m] broadcast(back), dimensions={}
  w_finite = T[%m] multiply(w_scaled, backs)
  finite = pred[] is-finite(largest)
  nan = T[] constant(nan)
  finite_vectors = pred[%m,%m] broadcast(finite), dimensions={}
  nan_vectors = T[%m,%m] broadcast(nan), dimensions={}
  v = T[%m,%m] select(finite_vectors, v_finite, nan_vectors)
  finite_values = pred[%m] broadcast(finite), dimensions={}
  nan_values = T[%m] broadcast(nan), dimensions={}
  w = T[%m] select(finite_values, w_finite, nan_values)
%order
}
)";

// Permutes the columns after a round: the first stays, the others move by one.
std::string PermuteColumns(int64_t n) {
  const int64_t h = n / 2;
  if (h == 1) return "  m = T[%n,%n] copy(rotation)\n";
  std::vector<std::string> pieces;
  std::string text;
  auto piece = [&](int64_t from, int64_t to) {
    if (from == to) return;
    pieces.push_back(absl::StrCat("piece", pieces.size()));
    absl::StrAppend(&text, "  ", pieces.back(), " = T[%n,", to - from, "] slice(rotation), slice={[0:%n], [", from, ":",
                    to, "]}\n");
  };
  piece(0, 1);
  piece(h, h + 1);
  piece(1, h - 1);
  piece(h + 1, n);
  piece(h - 1, h);
  absl::StrAppend(&text, "  m = T[%n,%n] concatenate(", absl::StrJoin(pieces, ", "), "), dimensions={1}\n");
  return text;
}

// The sort keys, broadcast to every row, and the columns of the vectors as further operands of the sort.
constexpr char kSorted[] = R"(
  keys = T[%m,%m] broadcast(w), dimensions={1}
  sorted = (T[%m,%m], T[%m,%m]) sort(keys, v), dimensions={1}, is_stable=true, to_apply=less
  sorted_keys = T[%m,%m] get-tuple-element(sorted), index=0
  vectors = T[%m,%m] get-tuple-element(sorted), index=1
  key_row = T[1,%m] slice(sorted_keys), slice={[0:1], [0:%m]}
  values = T[%m] reshape(key_row)
  ROOT r = (T[%m,%m], T[%m]) tuple(vectors, values)
)";
constexpr char kUnsorted[] = "  ROOT r = (T[%m,%m], T[%m]) tuple(v, w)\n";

absl::Status InvalidCallError(const Instruction* i, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(i->name(), ": custom call '", i->custom_call_target(), "': ", what));
}

// Flattens the batch dimensions of an operand: [..., m, n] to [count, m, n].
Instruction* FlattenBatch(Computation* c, Instruction* x, int64_t rank, PrimitiveType type) {
  const Shape& s = x->shape();
  int64_t count = 1;
  std::vector<int64_t> dims = {0};
  for (int64_t d = 0; d < s.rank(); ++d) {
    if (d < s.rank() - rank) {
      count *= s.dimensions(d);
    } else {
      dims.push_back(s.dimensions(d));
    }
  }
  dims[0] = count;
  if (s.element_type() != type) x = Make(c, x, Opcode::kConvert, s.WithElementType(type), {x});
  return Make(c, x, Opcode::kReshape, Shape(type, dims), {x});
}

// Adds a loop over the batch that calls `one`, a computation from one matrix per operand to a tuple of results.
Instruction* ForEachMatrix(Computation* c, const std::vector<Instruction*>& lists, Computation* one) {
  Module* module = c->parent();
  const Shape results = one->root()->shape();
  std::vector<Shape> state = {Shape::Scalar(PrimitiveType::kS32)};
  for (Instruction* list : lists) state.push_back(list->shape());
  const int64_t count = lists[0]->shape().dimensions(0);
  for (const Shape& r : results.tuple_shapes()) {
    std::vector<int64_t> dims = {count};
    dims.insert(dims.end(), r.dimensions().begin(), r.dimensions().end());
    state.push_back(Shape(r.element_type(), dims));
  }
  const Shape tuple = Shape::Tuple(state);
  auto parameter = [&](Computation* into) {
    Attributes attrs;
    attrs.Set(AttrId::kParameterNumber, int64_t{0});
    return Make(into, nullptr, Opcode::kParameter, tuple, {}, std::move(attrs));
  };
  auto number = [&](Computation* into, int64_t v) {
    return MakeConstant(into, nullptr, Literal::Scalar(PrimitiveType::kS32, v));
  };

  Computation* condition = module->AddComputation("for_each_matrix_condition");
  Attributes less;
  less.Set(AttrId::kDirection, EnumValue{static_cast<int>(ComparisonDirection::kLt)});
  condition->set_root(Make(condition, nullptr, Opcode::kCompare, Shape::Scalar(PrimitiveType::kPred),
                           {MakeElement(condition, parameter(condition), 0), number(condition, count)}, less));

  Computation* body = module->AddComputation("for_each_matrix");
  Instruction* s = parameter(body);
  Instruction* at = MakeElement(body, s, 0);
  std::vector<Instruction*> next = {
      Make(body, nullptr, Opcode::kAdd, Shape::Scalar(PrimitiveType::kS32), {at, number(body, 1)})};
  std::vector<Instruction*> arguments;
  auto starts = [&](Instruction* first, int64_t rank) {
    std::vector<Instruction*> all = {first, at};
    for (int64_t d = 1; d < rank; ++d) all.push_back(number(body, 0));
    return all;
  };
  for (size_t k = 0; k < lists.size(); ++k) {
    Instruction* list = MakeElement(body, s, static_cast<int64_t>(k) + 1);
    next.push_back(list);
    std::vector<int64_t> sizes(list->shape().dimensions().begin(), list->shape().dimensions().end());
    sizes[0] = 1;
    Attributes attrs;
    attrs.Set(AttrId::kDynamicSliceSizes, Ints(sizes.begin(), sizes.end()));
    Instruction* slice = Make(body, nullptr, Opcode::kDynamicSlice, Shape(list->shape().element_type(), sizes),
                              starts(list, list->shape().rank()), std::move(attrs));
    arguments.push_back(Make(body, nullptr, Opcode::kReshape,
                             Shape(list->shape().element_type(), absl::MakeConstSpan(sizes).subspan(1)), {slice}));
  }
  Instruction* made = Inline(body, one, arguments);
  for (int64_t k = 0; k < results.tuple_size(); ++k) {
    Instruction* whole = MakeElement(body, s, static_cast<int64_t>(lists.size()) + 1 + k);
    std::vector<int64_t> dims(whole->shape().dimensions().begin(), whole->shape().dimensions().end());
    dims[0] = 1;
    Instruction* item =
        Make(body, nullptr, Opcode::kReshape, Shape(whole->shape().element_type(), dims), {MakeElement(body, made, k)});
    std::vector<Instruction*> operands = starts(whole, whole->shape().rank());
    operands.insert(operands.begin() + 1, item);
    next.push_back(Make(body, nullptr, Opcode::kDynamicUpdateSlice, whole->shape(), std::move(operands)));
  }
  body->set_root(Make(body, nullptr, Opcode::kTuple, tuple, next));

  std::vector<Instruction*> start = {number(c, 0)};
  start.insert(start.end(), lists.begin(), lists.end());
  for (size_t k = lists.size() + 1; k < state.size(); ++k) {
    start.push_back(
        MakeBroadcast(c, nullptr, MakeConstant(c, nullptr, Literal::Scalar(state[k].element_type(), 0)), state[k], {}));
  }
  Instruction* init = Make(c, nullptr, Opcode::kTuple, tuple, start);
  Instruction* loop = Make(c, nullptr, Opcode::kWhile, tuple, {init}, {}, {condition, body});
  std::vector<Instruction*> out;
  for (int64_t k = 0; k < results.tuple_size(); ++k) {
    out.push_back(MakeElement(c, loop, static_cast<int64_t>(lists.size()) + 1 + k));
  }
  std::vector<Shape> shapes;
  for (Instruction* o : out) shapes.push_back(o->shape());
  return Make(c, nullptr, Opcode::kTuple, Shape::Tuple(shapes), out);
}

// The program for one matrix that implements the call, and its sizes.
struct Method {
  std::string text;
  std::vector<std::pair<std::string, std::string>> sizes;
  std::vector<int64_t> operand_ranks;  // of one matrix's operands
  bool empty = false;                  // the matrix has no elements, so there is nothing to compute
};

absl::Status ReadEighOptions(const Instruction* i, bool* lower, bool* sort, int64_t* sweeps, double* tolerance) {
  const std::vector<std::string> fields = absl::StrSplit(
      i->attrs().Has(AttrId::kOpaque) ? i->attrs().GetString(AttrId::kOpaque) : i->backend_config(), ',');
  int64_t low = 0, sorted = 0;
  if (fields.size() != 4 || !absl::SimpleAtoi(fields[0], &low) || !absl::SimpleAtoi(fields[1], &sorted) ||
      !absl::SimpleAtoi(fields[2], sweeps) || !absl::SimpleAtod(fields[3], tolerance) || *sweeps < 0 ||
      !(*tolerance >= 0)) {
    return InvalidCallError(i, "the options are not \"lower,sort,max_iter,tol\"");
  }
  *lower = low != 0;
  *sort = sorted != 0;
  *sweeps = std::min<int64_t>(*sweeps, 1000);
  return absl::OkStatus();
}

absl::StatusOr<Method> ChooseMethod(const Instruction* i, PrimitiveType type) {
  const std::string& target = i->custom_call_target();
  const Shape& a = i->operand(0)->shape();
  const int64_t m = a.dimensions(a.rank() - 2), n = a.dimensions(a.rank() - 1);
  Method method;
  auto set = [&](absl::string_view name, int64_t v) {
    method.sizes.emplace_back(absl::StrCat("%", name), absl::StrCat(v));
  };
  method.operand_ranks = {2};
  if (target == "Eigh") {
    bool lower = false, sort = false;
    int64_t sweeps = 0;
    double tolerance = 0;
    RETURN_IF_ERROR(ReadEighOptions(i, &lower, &sort, &sweeps, &tolerance));
    if (m != n) return InvalidCallError(i, absl::StrCat("the matrix is ", m, " by ", n));
    if (type == PrimitiveType::kF64) tolerance = std::min(tolerance, 1e-12);  // callers pass the tolerance for f32
    const int64_t even = std::max<int64_t>(2, n + n % 2);
    method.text = kEigh;
    method.empty = n == 0;
    method.sizes.emplace_back("%permute\n", PermuteColumns(even));
    method.sizes.emplace_back("%order\n", sort ? kSorted : kUnsorted);
    method.sizes.emplace_back("%side", lower ? "GE" : "LE");
    const double great = type == PrimitiveType::kF64 ? 0x1p400 : 0x1p50;
    method.sizes.emplace_back("%great", absl::StrFormat("%.17g", great));
    method.sizes.emplace_back("%little", absl::StrFormat("%.17g", 1 / great));
    method.sizes.emplace_back("%tol2", absl::StrCat(tolerance * tolerance));
    set("rounds", even - 1);
    set("sweeps", sweeps);
    set("pad", even - n);
    set("m", n);
    set("n", even);
    set("h", even / 2);
    return method;
  }
  int64_t k = std::min(m, n);
  method.text = kQr;
  if (target != "Qr") {
    const Shape& taus = i->operand(1)->shape();
    method.text = kHouseholderProduct;
    method.operand_ranks = {2, 1};
    k = taus.rank() == 0 ? 0 : taus.dimensions(taus.rank() - 1);
    if (m < n || k > n) {
      return InvalidCallError(i, absl::StrCat(k, " reflectors for a product of ", m, " by ", n));
    }
    if (k == 0) method.text = kIdentityMatrix;
    set("last", k - 1);
  }
  method.empty = m == 0 || n == 0;
  set("m", m);
  set("n", n);
  set("k", k);
  return method;
}

// Returns the result shape that the call must have.
Shape ExpectedResult(const Instruction* i) {
  const Shape& a = i->operand(0)->shape();
  if (i->custom_call_target() == "ProductOfElementaryHouseholderReflectors") return a.WithoutLayout();
  std::vector<int64_t> dims(a.dimensions().begin(), a.dimensions().end() - 1);
  dims.back() = std::min(dims.back(), a.dimensions(a.rank() - 1));
  return Shape::Tuple({a.WithoutLayout(), Shape(a.element_type(), dims)});
}

}  // namespace

absl::StatusOr<Instruction*> ExpandFactorization(Computation* c, Instruction* i) {
  if (!i->Is(Opcode::kCustomCall)) return nullptr;
  const std::string& target = i->custom_call_target();
  const bool product = target == "ProductOfElementaryHouseholderReflectors";
  if (target != "Qr" && target != "Eigh" && !product) return nullptr;
  if (i->operand_count() != (product ? 2 : 1))
    return InvalidCallError(i, absl::StrCat(i->operand_count(), " operands"));
  const Shape& a = i->operand(0)->shape();
  if (!a.IsArray() || a.rank() < 2) return InvalidCallError(i, absl::StrCat("the operand is ", a.ToString()));
  const PrimitiveType type = a.element_type();
  const bool wide = type == PrimitiveType::kF32 || type == PrimitiveType::kF64;
  if (!wide && type != PrimitiveType::kF16 && type != PrimitiveType::kBF16) return nullptr;
  const Shape expected = ExpectedResult(i);
  if (!(i->shape() == expected)) {
    return InvalidCallError(i,
                            absl::StrCat("the result is ", i->shape().ToString(), ", expected ", expected.ToString()));
  }
  if (product) {
    const Shape& taus = i->operand(1)->shape();
    if (!taus.IsArray() || taus.element_type() != type || taus.rank() != a.rank() - 1 ||
        !std::equal(taus.dimensions().begin(), taus.dimensions().end() - 1, a.dimensions().begin())) {
      return InvalidCallError(i, absl::StrCat("the reflectors' factors are ", taus.ToString(), " for ", a.ToString()));
    }
  }
  const PrimitiveType compute = wide ? type : PrimitiveType::kF32;
  ASSIGN_OR_RETURN(Method method, ChooseMethod(i, compute));
  std::vector<Instruction*> out;
  std::vector<Shape> shapes = expected.IsTuple() ? expected.tuple_shapes() : std::vector<Shape>{expected};
  if (method.empty || shapes[0].num_elements() == 0) {
    for (const Shape& s : shapes)
      out.push_back(MakeBroadcast(c, i, MakeConstant(c, i, Literal::Scalar(type, 0)), s, {}));
  } else {
    // Replaces longer names first, because a name may be a prefix of another one.
    std::string text = absl::StrCat("HloModule factorization\n", kReducers, method.text);
    for (int round = 0; round < 2; ++round) {  // the replacement texts contain placeholders too
      for (const auto& [name, value] : method.sizes) text = absl::StrReplaceAll(text, {{name, value}});
    }
    text = absl::StrReplaceAll(text, {{"T[", absl::StrCat(Name(compute), "[")}});
    ASSIGN_OR_RETURN(std::unique_ptr<Module> program, ParseHloModule(text));
    Computation* one = c->parent()->CloneComputation(program->entry());
    std::vector<Instruction*> lists;
    for (int64_t k = 0; k < i->operand_count(); ++k) {
      lists.push_back(FlattenBatch(c, i->operand(k), method.operand_ranks[static_cast<size_t>(k)], compute));
    }
    Instruction* results = nullptr;
    if (lists[0]->shape().dimensions(0) == 1) {
      std::vector<Instruction*> matrices;
      for (size_t k = 0; k < lists.size(); ++k) {
        matrices.push_back(Make(c, i, Opcode::kReshape, one->parameter(static_cast<int64_t>(k))->shape(), {lists[k]}));
      }
      results = Inline(c, one, matrices);
    } else if (lists[0]->shape().dimensions(0) > std::numeric_limits<int32_t>::max()) {
      return absl::UnimplementedError(
          absl::StrCat(i->name(), ": ", lists[0]->shape().dimensions(0), " matrices are more than a loop counts"));
    } else {
      results = ForEachMatrix(c, lists, one);
    }
    c->parent()->RemoveComputation(one);
    for (size_t k = 0; k < shapes.size(); ++k) {
      Instruction* r = MakeElement(c, results, static_cast<int64_t>(k));
      r = Make(c, i, Opcode::kReshape, shapes[k].WithElementType(compute), {r});
      if (compute != type) r = Make(c, i, Opcode::kConvert, shapes[k], {r});
      out.push_back(r);
    }
  }
  return expected.IsTuple() ? Make(c, i, Opcode::kTuple, expected, out) : out[0];
}

}  // namespace backplane
