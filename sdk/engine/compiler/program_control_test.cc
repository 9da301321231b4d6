// Loops, branches and what they share through the whole plugin and through the evaluator.
#include "sdk/engine/compiler/program_testing.h"

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

namespace backplane::engine {
namespace {

struct Case {
  const char* name;
  const char* hlo;
  double tolerance = 2e-5;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr Case kCases[] = {
    {"count", R"(
cond { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(10) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (s32[]) tuple(j) }
ENTRY e { z = s32[] parameter(0) s = (s32[]) tuple(z) w = (s32[]) while(s), condition=cond, body=body ROOT r = s32[] get-tuple-element(w), index=0 })"},
    {"no_turn", R"(
cond { s = (s32[], f32[4]) parameter(0) ROOT r = pred[] constant(false) }
body { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[4] get-tuple-element(s), index=1 y = f32[4] negate(x) ROOT r = (s32[], f32[4]) tuple(i, y) }
ENTRY e { z = s32[] parameter(0) x = f32[4] parameter(1) s = (s32[], f32[4]) tuple(z, x) ROOT w = (s32[], f32[4]) while(s), condition=cond, body=body })"},
    {"no_turn_dynamic", R"(
cond { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(-100) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[4] get-tuple-element(s), index=1 y = f32[4] negate(x) ROOT r = (s32[], f32[4]) tuple(i, y) }
ENTRY e { z = s32[] parameter(0) x = f32[4] parameter(1) s = (s32[], f32[4]) tuple(z, x) ROOT w = (s32[], f32[4]) while(s), condition=cond, body=body })"},
    {"fibonacci_exchange", R"(
cond { s = (s32[], f32[3], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[3], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 a = f32[3] get-tuple-element(s), index=1 b = f32[3] get-tuple-element(s), index=2
  one = s32[] constant(1) j = s32[] add(i, one) c = f32[3] add(a, b) ROOT r = (s32[], f32[3], f32[3]) tuple(j, b, c) }
ENTRY e { z = s32[] constant(0) a = f32[3] parameter(0) b = f32[3] parameter(1) s = (s32[], f32[3], f32[3]) tuple(z, a, b) ROOT w = (s32[], f32[3], f32[3]) while(s), condition=cond, body=body })"},
    {"rotation_of_three", R"(
cond { s = (s32[], f32[3], f32[3], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(4) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[3], f32[3], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 a = f32[3] get-tuple-element(s), index=1 b = f32[3] get-tuple-element(s), index=2 c = f32[3] get-tuple-element(s), index=3
  one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (s32[], f32[3], f32[3], f32[3]) tuple(j, c, a, b) }
ENTRY e { z = s32[] constant(0) a = f32[3] parameter(0) b = f32[3] parameter(1) c = f32[3] negate(a) s = (s32[], f32[3], f32[3], f32[3]) tuple(z, a, b, c) w = (s32[], f32[3], f32[3], f32[3]) while(s), condition=cond, body=body
  x = f32[3] get-tuple-element(w), index=1 y = f32[3] get-tuple-element(w), index=3 ROOT r = (f32[3], f32[3], f32[3]) tuple(x, a, y) })"},
    {"same_initial_value_twice", R"(
cond { s = (s32[], f32[3], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[3], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 a = f32[3] get-tuple-element(s), index=1 b = f32[3] get-tuple-element(s), index=2
  one = s32[] constant(1) j = s32[] add(i, one) c = f32[3] negate(a) d = f32[3] multiply(b, a) ROOT r = (s32[], f32[3], f32[3]) tuple(j, c, d) }
ENTRY e { z = s32[] constant(0) p = f32[3] parameter(0) a = f32[3] tanh(p) s = (s32[], f32[3], f32[3]) tuple(z, a, a) w = (s32[], f32[3], f32[3]) while(s), condition=cond, body=body
  x = f32[3] get-tuple-element(w), index=1 y = f32[3] get-tuple-element(w), index=2 ROOT r = (f32[3], f32[3], f32[3]) tuple(x, y, a) })"},
    {"same_result_twice", R"(
cond { s = (s32[], f32[3], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[3], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 a = f32[3] get-tuple-element(s), index=1 b = f32[3] get-tuple-element(s), index=2
  one = s32[] constant(1) j = s32[] add(i, one) c = f32[3] subtract(a, b) ROOT r = (s32[], f32[3], f32[3]) tuple(j, c, c) }
ENTRY e { z = s32[] constant(0) a = f32[3] parameter(0) b = f32[3] parameter(1) s = (s32[], f32[3], f32[3]) tuple(z, a, b) ROOT w = (s32[], f32[3], f32[3]) while(s), condition=cond, body=body })"},
    {"constant_state", R"(
cond { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) j = s32[] add(i, one) c = f32[3] constant({1, 2, 3}) ROOT r = (s32[], f32[3]) tuple(j, c) }
ENTRY e { z = s32[] constant(0) c = f32[3] constant({7, 8, 9}) s = (s32[], f32[3]) tuple(z, c) ROOT w = (s32[], f32[3]) while(s), condition=cond, body=body })"},
    {"scan_stacks", R"(
cond { s = (s32[], f32[6], f32[12,6], f32[12,6]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(12) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[6], f32[12,6], f32[12,6]) parameter(0) i = s32[] get-tuple-element(s), index=0 c = f32[6] get-tuple-element(s), index=1 xs = f32[12,6] get-tuple-element(s), index=2 ys = f32[12,6] get-tuple-element(s), index=3
  z = s32[] constant(0) one = s32[] constant(1) x = f32[1,6] dynamic-slice(xs, i, z), dynamic_slice_sizes={1,6} xr = f32[6] reshape(x) d = f32[6] add(c, xr) t = f32[6] tanh(d) tr = f32[1,6] reshape(t) zs = f32[12,6] dynamic-update-slice(ys, tr, i, z) j = s32[] add(i, one)
  ROOT r = (s32[], f32[6], f32[12,6], f32[12,6]) tuple(j, t, xs, zs) }
ENTRY e { z = s32[] constant(0) c = f32[6] parameter(0) xs = f32[12,6] parameter(1) zero = f32[] constant(0) ys = f32[12,6] broadcast(zero), dimensions={} s = (s32[], f32[6], f32[12,6], f32[12,6]) tuple(z, c, xs, ys) w = (s32[], f32[6], f32[12,6], f32[12,6]) while(s), condition=cond, body=body
  a = f32[6] get-tuple-element(w), index=1 b = f32[12,6] get-tuple-element(w), index=3 ROOT r = (f32[6], f32[12,6]) tuple(a, b) })"},
    {"update_reads_itself", R"(
cond { s = (s32[], f32[12]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(10) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[12]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[12] get-tuple-element(s), index=1 one = s32[] constant(1) two = s32[] constant(2) j = s32[] add(i, one) k = s32[] add(i, two)
  a = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1} b = f32[1] dynamic-slice(x, j), dynamic_slice_sizes={1} c = f32[1] add(a, b) y = f32[12] dynamic-update-slice(x, c, k) ROOT r = (s32[], f32[12]) tuple(j, y) }
ENTRY e { z = s32[] constant(0) x = f32[12] parameter(0) s = (s32[], f32[12]) tuple(z, x) w = (s32[], f32[12]) while(s), condition=cond, body=body ROOT r = f32[12] get-tuple-element(w), index=1 })"},
    {"update_and_old_value", R"(
cond { s = (s32[], f32[12], f32[12]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(10) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[12], f32[12]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[12] get-tuple-element(s), index=1 y = f32[12] get-tuple-element(s), index=2 one = s32[] constant(1) j = s32[] add(i, one)
  u = f32[1] constant({0.5}) z = f32[12] dynamic-update-slice(x, u, i) v = f32[12] add(x, y) q = f32[12] tanh(v) ROOT r = (s32[], f32[12], f32[12]) tuple(j, z, q) }
ENTRY e { z = s32[] constant(0) x = f32[12] parameter(0) y = f32[12] parameter(1) s = (s32[], f32[12], f32[12]) tuple(z, x, y) w = (s32[], f32[12], f32[12]) while(s), condition=cond, body=body ROOT r = (s32[], f32[12], f32[12]) copy(w) })"},
    {"nested_loops", R"(
icond { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
ibody { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[5] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) y = f32[5] sine(x) ROOT r = (s32[], f32[5]) tuple(j, y) }
cond { s = (s32[], f32[5], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(4) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[5], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[5] get-tuple-element(s), index=1 a = f32[5] get-tuple-element(s), index=2 z = s32[] constant(0) t = (s32[], f32[5]) tuple(z, x)
  w = (s32[], f32[5]) while(t), condition=icond, body=ibody y = f32[5] get-tuple-element(w), index=1 b = f32[5] add(y, a) c = f32[5] subtract(b, x) one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (s32[], f32[5], f32[5]) tuple(j, y, c) }
ENTRY e { z = s32[] constant(0) x = f32[5] parameter(0) s = (s32[], f32[5], f32[5]) tuple(z, x, x) w = (s32[], f32[5], f32[5]) while(s), condition=cond, body=body
  a = f32[5] get-tuple-element(w), index=1 b = f32[5] get-tuple-element(w), index=2 ROOT r = (f32[5], f32[5], f32[5]) tuple(b, a, x) })"},
    {"two_loops_share_bodies", R"(
cond { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[5] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) y = f32[5] sine(x) ROOT r = (s32[], f32[5]) tuple(j, y) }
ENTRY e { z = s32[] constant(0) x = f32[5] parameter(0) s = (s32[], f32[5]) tuple(z, x) w = (s32[], f32[5]) while(s), condition=cond, body=body a = f32[5] get-tuple-element(w), index=1
  y = f32[5] negate(x) t = (s32[], f32[5]) tuple(z, y) v = (s32[], f32[5]) while(t), condition=cond, body=body b = f32[5] get-tuple-element(v), index=1 ROOT r = (f32[5], f32[5]) tuple(a, b) })"},
    {"conditional", R"(
t { p = (f32[5], f32[]) parameter(0) x = f32[5] get-tuple-element(p), index=0 y = f32[] get-tuple-element(p), index=1 b = f32[5] broadcast(y), dimensions={} r1 = f32[5] add(x, b) ROOT r = (f32[5], f32[5]) tuple(r1, x) }
f { x = f32[5] parameter(0) n = f32[5] negate(x) ROOT r = (f32[5], f32[5]) tuple(x, n) }
ENTRY e { c = pred[] parameter(0) x = f32[5] parameter(1) y = f32[] parameter(2) p = (f32[5], f32[]) tuple(x, y) ROOT r = (f32[5], f32[5]) conditional(c, p, x), true_computation=t, false_computation=f })"},
    {"switch", R"(
b0 { x = f32[5] parameter(0) ROOT r = f32[5] sine(x) }
b1 { ROOT x = f32[5] parameter(0) }
b2 { x = f32[5] parameter(0) ROOT r = f32[5] constant({1, 2, 3, 4, 5}) }
ENTRY e { i = s32[] parameter(0) x = f32[5] parameter(1) y = f32[5] negate(x) a = f32[5] conditional(i, x, y, x), branch_computations={b0, b1, b2} ROOT r = (f32[5], f32[5]) tuple(a, y) })"},
    {"conditional_in_loop", R"(
t { x = f32[5] parameter(0) ROOT r = f32[5] sine(x) }
f { x = f32[5] parameter(0) ROOT r = f32[5] negate(x) }
cond { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(6) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[5] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) q = s32[] and(i, one) z = s32[] constant(0) p = pred[] compare(q, z), direction=EQ
  y = f32[5] conditional(p, x, x), true_computation=t, false_computation=f w = f32[5] add(y, x) ROOT r = (s32[], f32[5]) tuple(j, w) }
ENTRY e { z = s32[] constant(0) x = f32[5] parameter(0) s = (s32[], f32[5]) tuple(z, x) w = (s32[], f32[5]) while(s), condition=cond, body=body ROOT r = f32[5] get-tuple-element(w), index=1 })"},
    {"loop_in_conditional", R"(
cond { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(6) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[5] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) y = f32[5] cosine(x) ROOT r = (s32[], f32[5]) tuple(j, y) }
t { x = f32[5] parameter(0) z = s32[] constant(0) s = (s32[], f32[5]) tuple(z, x) w = (s32[], f32[5]) while(s), condition=cond, body=body ROOT r = f32[5] get-tuple-element(w), index=1 }
f { x = f32[5] parameter(0) ROOT r = f32[5] negate(x) }
ENTRY e { c = pred[] parameter(0) x = f32[5] parameter(1) y = f32[5] abs(x) a = f32[5] conditional(c, y, x), true_computation=t, false_computation=f ROOT r = (f32[5], f32[5]) tuple(a, y) })"},
    {"dot_in_loop", R"(
cond { s = (s32[], f32[8,8], f32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[8,8], f32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[8,8] get-tuple-element(s), index=1 a = f32[8,8] get-tuple-element(s), index=2 one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[8,8] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0} z = f32[8,8] tanh(y) ROOT r = (s32[], f32[8,8], f32[8,8]) tuple(j, z, a) }
ENTRY e { z = s32[] constant(0) x = f32[8,8] parameter(0) a = f32[8,8] parameter(1) s = (s32[], f32[8,8], f32[8,8]) tuple(z, x, a) w = (s32[], f32[8,8], f32[8,8]) while(s), condition=cond, body=body ROOT r = f32[8,8] get-tuple-element(w), index=1 })"},
    {"plain_dot_is_the_next_state", R"(
cond { s = (s32[], f32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[8,8] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT r = (s32[], f32[8,8]) tuple(j, y) }
ENTRY e { z = s32[] constant(0) p = f32[8,8] parameter(0) h = f32[] constant(0.25) hb = f32[8,8] broadcast(h), dimensions={} x = f32[8,8] multiply(p, hb) s = (s32[], f32[8,8]) tuple(z, x) w = (s32[], f32[8,8]) while(s), condition=cond, body=body ROOT r = f32[8,8] get-tuple-element(w), index=1 })"},
    {"transpose_is_the_next_state", R"(
cond { s = (s32[], f32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[8,8] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) y = f32[8,8] transpose(x), dimensions={1,0} ROOT r = (s32[], f32[8,8]) tuple(j, y) }
ENTRY e { z = s32[] constant(0) x = f32[8,8] parameter(0) s = (s32[], f32[8,8]) tuple(z, x) w = (s32[], f32[8,8]) while(s), condition=cond, body=body ROOT r = f32[8,8] get-tuple-element(w), index=1 })"},
    {"condition_reads_arrays", R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
cond { s = (f32[40]) parameter(0) x = f32[40] get-tuple-element(s), index=0 y = f32[40] multiply(x, x) z = f32[] constant(0) t = f32[] reduce(y, z), dimensions={0}, to_apply=add n = f32[] constant(0.5) ROOT r = pred[] compare(t, n), direction=GT }
body { s = (f32[40]) parameter(0) x = f32[40] get-tuple-element(s), index=0 h = f32[] constant(0.5) b = f32[40] broadcast(h), dimensions={} y = f32[40] multiply(x, b) ROOT r = (f32[40]) tuple(y) }
ENTRY e { x = f32[40] parameter(0) s = (f32[40]) tuple(x) w = (f32[40]) while(s), condition=cond, body=body ROOT r = f32[40] get-tuple-element(w), index=0 })"},
    {"condition_is_state", R"(
cond { s = (pred[], s32[]) parameter(0) ROOT p = pred[] get-tuple-element(s), index=0 }
body { s = (pred[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) n = s32[] constant(9) p = pred[] compare(j, n), direction=LT ROOT r = (pred[], s32[]) tuple(p, j) }
ENTRY e { t = pred[] constant(true) z = s32[] parameter(0) s = (pred[], s32[]) tuple(t, z) ROOT w = (pred[], s32[]) while(s), condition=cond, body=body })"},
    {"array_state_without_tuple", R"(
cond { i = s32[] parameter(0) n = s32[] constant(40) ROOT r = pred[] compare(i, n), direction=LT }
body { i = s32[] parameter(0) one = s32[] constant(7) ROOT j = s32[] add(i, one) }
ENTRY e { z = s32[] parameter(0) ROOT w = s32[] while(z), condition=cond, body=body })"},
    {"call_of_call", R"(
inner { x = f32[5] parameter(0) ROOT r = f32[5] sine(x) }
outer { x = f32[5] parameter(0) y = f32[5] call(x), to_apply=inner ROOT r = (f32[5], f32[5]) tuple(y, x) }
ENTRY e { x = f32[5] parameter(0) a = (f32[5], f32[5]) call(x), to_apply=outer y = f32[5] get-tuple-element(a), index=0 ROOT b = (f32[5], f32[5]) call(y), to_apply=outer })"},
    {"donated_state", R"(
HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
cond { s = (s32[], f32[20], f32[20]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[20], f32[20]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[20] get-tuple-element(s), index=1 y = f32[20] get-tuple-element(s), index=2 one = s32[] constant(1) j = s32[] add(i, one) c = f32[20] tanh(y) d = f32[20] subtract(x, y) ROOT r = (s32[], f32[20], f32[20]) tuple(j, c, d) }
ENTRY e { x = f32[20] parameter(0) y = f32[20] parameter(1) z = s32[] constant(0) s = (s32[], f32[20], f32[20]) tuple(z, x, y) w = (s32[], f32[20], f32[20]) while(s), condition=cond, body=body a = f32[20] get-tuple-element(w), index=1 b = f32[20] get-tuple-element(w), index=2 ROOT r = (f32[20], f32[20]) tuple(a, b) })"},
    {"barrier", R"(
ENTRY e { a = f32[5] parameter(0) b = f32[5] negate(a) t = (f32[5], f32[5]) tuple(a, b) o = (f32[5], f32[5]) opt-barrier(t) x = f32[5] get-tuple-element(o), index=0 y = f32[5] get-tuple-element(o), index=1 ROOT r = f32[5] multiply(x, y) })"},
    {"sort_in_loop", R"(
lt { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
cond { s = (s32[], s32[30]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], s32[30]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = s32[30] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) y = s32[30] sort(x), dimensions={0}, to_apply=lt k = s32[30] iota(), iota_dimension=0 q = s32[30] xor(y, k) ROOT r = (s32[], s32[30]) tuple(j, q) }
ENTRY e { z = s32[] constant(0) x = s32[30] parameter(0) s = (s32[], s32[30]) tuple(z, x) w = (s32[], s32[30]) while(s), condition=cond, body=body ROOT r = s32[30] get-tuple-element(w), index=1 })"},
    {"empty_arrays", R"(
cond { s = (s32[], f32[0,3], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[0,3], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[0,3] get-tuple-element(s), index=1 y = f32[4] get-tuple-element(s), index=2 one = s32[] constant(1) j = s32[] add(i, one) a = f32[0,3] negate(x) b = f32[4] negate(y) ROOT r = (s32[], f32[0,3], f32[4]) tuple(j, a, b) }
ENTRY e { z = s32[] constant(0) x = f32[0,3] parameter(0) y = f32[4] parameter(1) s = (s32[], f32[0,3], f32[4]) tuple(z, x, y) ROOT w = (s32[], f32[0,3], f32[4]) while(s), condition=cond, body=body })"},
    // One function with a loop, called with different limits: inlining leaves two loops with one body.
    {"function_with_a_loop_called_twice", R"(
cond { s = (s32[], s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1 ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1 x = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1) j = s32[] add(i, one) h = f32[] constant(1.5) b = f32[4] broadcast(h), dimensions={} y = f32[4] multiply(x, b) ROOT r = (s32[], s32[], f32[4]) tuple(j, n, y) }
power { x = f32[4] parameter(0) n = s32[] parameter(1) z = s32[] constant(0) s = (s32[], s32[], f32[4]) tuple(z, n, x) w = (s32[], s32[], f32[4]) while(s), condition=cond, body=body ROOT r = f32[4] get-tuple-element(w), index=2 }
ENTRY e { x = f32[4] parameter(0) n = s32[] parameter(1) three = s32[] constant(3) five = s32[] constant(50) a = f32[4] call(x, three), to_apply=power b = f32[4] call(x, five), to_apply=power c = f32[4] call(x, n), to_apply=power
  ab = f32[4] add(a, b) ROOT r = f32[4] add(ab, c) })"},
    // A flag that only the condition reads, which works its negation out.
    {"condition_alone_reads_a_flag", R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
cond { s = (f32[8], pred[]) parameter(0) f = pred[] get-tuple-element(s), index=1 ROOT r = pred[] not(f) }
body { s = (f32[8], pred[]) parameter(0) x = f32[8] get-tuple-element(s), index=0 h = f32[] constant(0.5) b = f32[8] broadcast(h), dimensions={} y = f32[8] multiply(x, b)
  z = f32[] constant(0) t = f32[] reduce(x, z), dimensions={0}, to_apply=add l = f32[] constant(100) f = pred[] compare(t, l), direction=LT ROOT r = (f32[8], pred[]) tuple(y, f) }
ENTRY e { x = f32[8] parameter(0) f = pred[] constant(false) s = (f32[8], pred[]) tuple(x, f) ROOT w = (f32[8], pred[]) while(s), condition=cond, body=body })"},
    // An array that only the condition reads, which counts down in it.
    {"condition_alone_reads_an_array", R"(
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
cond { s = (s32[6], s32[6]) parameter(0) x = s32[6] get-tuple-element(s), index=0 n = s32[6] negate(x) q = s32[6] multiply(n, n) z = s32[] constant(0) t = s32[] reduce(q, z), dimensions={0}, to_apply=add l = s32[] constant(5000) ROOT r = pred[] compare(t, l), direction=LT }
body { s = (s32[6], s32[6]) parameter(0) y = s32[6] get-tuple-element(s), index=1 k = s32[6] constant({1, 3, 5, 7, 9, 11}) d = s32[6] add(y, k) ROOT r = (s32[6], s32[6]) tuple(y, d) }
ENTRY e { x = s32[6] parameter(0) y = s32[6] negate(x) s = (s32[6], s32[6]) tuple(y, x) ROOT w = (s32[6], s32[6]) while(s), condition=cond, body=body })"},
    // Counters that pass their limit by and wrap around: 55 turns, not 2; and ten, which a second counter ends.
    {"counter_wraps_around", R"(
cond { s = (s8[], s32[]) parameter(0) i = s8[] get-tuple-element(s), index=0 n = s8[] constant(127) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s8[], s32[]) parameter(0) i = s8[] get-tuple-element(s), index=0 x = s32[] get-tuple-element(s), index=1 k = s8[] constant(100) one = s32[] constant(1) j = s8[] add(i, k) y = s32[] add(x, one) ROOT r = (s8[], s32[]) tuple(j, y) }
ENTRY e { z = s8[] constant(3) x = s32[] parameter(0) s = (s8[], s32[]) tuple(z, x) ROOT w = (s8[], s32[]) while(s), condition=cond, body=body })"},
    {"counter_wraps_around_with_an_array", R"(
cond { s = (u8[], f32[40]) parameter(0) i = u8[] get-tuple-element(s), index=0 n = u8[] constant(255) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (u8[], f32[40]) parameter(0) i = u8[] get-tuple-element(s), index=0 x = f32[40] get-tuple-element(s), index=1 k = u8[] constant(100) j = u8[] add(i, k) y = f32[40] negate(x) ROOT r = (u8[], f32[40]) tuple(j, y) }
ENTRY e { z = u8[] constant(55) x = f32[40] parameter(0) s = (u8[], f32[40]) tuple(z, x) ROOT w = (u8[], f32[40]) while(s), condition=cond, body=body })"},
    {"counter_wraps_around_until_another_ends_it", R"(
cond { s = (s8[], s32[]) parameter(0) i = s8[] get-tuple-element(s), index=0 n = s8[] constant(127) a = pred[] compare(i, n), direction=LT x = s32[] get-tuple-element(s), index=1 m = s32[] constant(10) b = pred[] compare(x, m), direction=LT ROOT r = pred[] and(a, b) }
body { s = (s8[], s32[]) parameter(0) i = s8[] get-tuple-element(s), index=0 x = s32[] get-tuple-element(s), index=1 k = s8[] constant(100) one = s32[] constant(1) j = s8[] add(i, k) y = s32[] add(x, one) ROOT r = (s8[], s32[]) tuple(j, y) }
ENTRY e { z = s8[] constant(0) x = s32[] constant(0) s = (s8[], s32[]) tuple(z, x) ROOT w = (s8[], s32[]) while(s), condition=cond, body=body })"},
    // Calls that ask to stay: twice the same body, one that hands its argument through, one in a loop, one as the root.
    {"calls_that_stay", R"(
twice { x = f32[6] parameter(0) y = f32[6] tanh(x) d = f32[6] add(y, x) ROOT r = (f32[6], f32[6]) tuple(d, x) }
ENTRY e { p = f32[6] parameter(0) q = f32[6] negate(p)
  a = (f32[6], f32[6]) call(q), to_apply=twice, frontend_attributes={inlineable="false"}
  a0 = f32[6] get-tuple-element(a), index=0
  b = (f32[6], f32[6]) call(a0), to_apply=twice, frontend_attributes={inlineable="false"}
  b0 = f32[6] get-tuple-element(b), index=0 b1 = f32[6] get-tuple-element(b), index=1 a1 = f32[6] get-tuple-element(a), index=1
  ROOT r = (f32[6], f32[6], f32[6], f32[6]) tuple(b0, b1, a1, p) })"},
    {"call_that_stays_in_a_loop", R"(
step { x = f32[3,3] parameter(0) y = f32[3,3] parameter(1) ROOT d = f32[3,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
cond { s = (s32[], f32[3,3], f32[3,3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[3,3], f32[3,3]) parameter(0) i = s32[] get-tuple-element(s), index=0 a = f32[3,3] get-tuple-element(s), index=1 b = f32[3,3] get-tuple-element(s), index=2
  one = s32[] constant(1) j = s32[] add(i, one) c = f32[3,3] call(a, b), to_apply=step, frontend_attributes={inlineable="false"} t = f32[3,3] tanh(c) ROOT r = (s32[], f32[3,3], f32[3,3]) tuple(j, b, t) }
ENTRY e { z = s32[] constant(0) a = f32[3,3] parameter(0) b = f32[3,3] parameter(1) s = (s32[], f32[3,3], f32[3,3]) tuple(z, a, b) ROOT w = (s32[], f32[3,3], f32[3,3]) while(s), condition=cond, body=body })"},
    {"call_that_stays_as_root", R"(
inner { x = f32[4] parameter(0) ROOT c = f32[4] cosine(x) }
outer { x = f32[4] parameter(0) y = f32[4] parameter(1) c = f32[4] call(y), to_apply=inner, frontend_attributes={inlineable="false"} ROOT r = (f32[4], f32[4]) tuple(c, x) }
ENTRY e { p = f32[4] parameter(0) q = f32[4] parameter(1) ROOT r = (f32[4], f32[4]) call(p, q), to_apply=outer, frontend_attributes={inlineable="false"} })"},
    {"points_in_a_loop", R"(
cond { s = (s32[], f32[70,3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[70,3]) parameter(0) i = s32[] get-tuple-element(s), index=0 v = f32[70,3] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one)
  a = f32[70,1] slice(v), slice={[0:70],[0:1]} b = f32[70,1] slice(v), slice={[0:70],[1:2]} c = f32[70,1] slice(v), slice={[0:70],[2:3]}
  d = f32[70,1] subtract(b, a) e = f32[70,1] multiply(a, c) f = f32[70,1] multiply(a, b)
  h = f32[] constant(0.01) hh = f32[70,3] broadcast(h), dimensions={} k = f32[70,3] concatenate(d, e, f), dimensions={1} m = f32[70,3] multiply(hh, k)
  t = f32[3,70] transpose(m), dimensions={1,0} q = f32[1,70] slice(t), slice={[2:3],[0:70]} p = f32[2,70] slice(t), slice={[0:2],[0:70]}
  u = f32[3,70] concatenate(q, p), dimensions={0} y = f32[70,3] transpose(u), dimensions={1,0}
  w = f32[70,3] add(v, y) ROOT r = (s32[], f32[70,3]) tuple(j, w) }
ENTRY e { z = s32[] constant(0) x = f32[70,3] parameter(0) s = (s32[], f32[70,3]) tuple(z, x) w = (s32[], f32[70,3]) while(s), condition=cond, body=body ROOT r = f32[70,3] get-tuple-element(w), index=1 })"},
    {"branch_by_an_element_of_the_state", R"(
t { x = f32[2000] parameter(0) k = f32[] constant(0.75) kk = f32[2000] broadcast(k), dimensions={} m = f32[2000] multiply(x, kk) ROOT r = f32[2000] subtract(m, kk) }
f { x = f32[2000] parameter(0) k = f32[] constant(0.5) kk = f32[2000] broadcast(k), dimensions={} ROOT r = f32[2000] add(x, kk) }
cond { s = (s32[], f32[2000]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(9) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[2000]) parameter(0) i = s32[] get-tuple-element(s), index=0 v = f32[2000] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one)
  a = f32[1] slice(v), slice={[0:1]} b = f32[] reshape(a) zero = f32[] constant(0) p = pred[] compare(b, zero), direction=GT
  w = f32[2000] conditional(p, v, v), branch_computations={t, f} ROOT r = (s32[], f32[2000]) tuple(j, w) }
ENTRY e { z = s32[] constant(0) x = f32[2000] parameter(0) s = (s32[], f32[2000]) tuple(z, x) w = (s32[], f32[2000]) while(s), condition=cond, body=body ROOT r = f32[2000] get-tuple-element(w), index=1 })"},
    // Loops that become one function: arrays read and written element by element, small arrays as variables.
    {"elements_of_arrays", R"(
cond { s = (s32[], f32[], f32[], f32[20], f32[20], f32[20], f32[20]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(20) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[], f32[], f32[20], f32[20], f32[20], f32[20]) parameter(0) i = s32[] get-tuple-element(s), index=0 c = f32[] get-tuple-element(s), index=1 d = f32[] get-tuple-element(s), index=2
  a = f32[20] get-tuple-element(s), index=3 b = f32[20] get-tuple-element(s), index=4 x = f32[20] get-tuple-element(s), index=5 y = f32[20] get-tuple-element(s), index=6 one = s32[] constant(1) j = s32[] add(i, one)
  ai = f32[1] dynamic-slice(a, i), dynamic_slice_sizes={1} ar = f32[] reshape(ai) last = s32[] constant(19) k = s32[] subtract(last, i) bi = f32[1] dynamic-slice(b, k), dynamic_slice_sizes={1} br = f32[] reshape(bi)
  ac = f32[] multiply(ar, c) ten = f32[] constant(10) m = f32[] subtract(ten, ac) c2 = f32[] divide(br, m) e = f32[] multiply(ar, d) f = f32[] subtract(br, e) d2 = f32[] divide(f, m)
  cr = f32[1] reshape(c2) dr = f32[1] reshape(d2) x2 = f32[20] dynamic-update-slice(x, cr, i) y2 = f32[20] dynamic-update-slice(y, dr, k) ROOT r = (s32[], f32[], f32[], f32[20], f32[20], f32[20], f32[20]) tuple(j, c2, d2, a, b, x2, y2) }
ENTRY e { z = s32[] constant(0) c = f32[] parameter(0) d = f32[] constant(0) a = f32[20] parameter(1) b = f32[20] parameter(2) zz = f32[20] broadcast(d), dimensions={} s = (s32[], f32[], f32[], f32[20], f32[20], f32[20], f32[20]) tuple(z, c, d, a, b, zz, zz)
  w = (s32[], f32[], f32[], f32[20], f32[20], f32[20], f32[20]) while(s), condition=cond, body=body x = f32[20] get-tuple-element(w), index=5 y = f32[20] get-tuple-element(w), index=6 v = f32[] get-tuple-element(w), index=1 ROOT r = (f32[20], f32[20], f32[]) tuple(x, y, v) })"},
    {"index_out_of_range", R"(
cond { s = (s32[], f32[7,2]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(12) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[7,2]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[7,2] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) z = s32[] constant(0)
  three = s32[] constant(3) k = s32[] subtract(i, three) a = f32[1,2] dynamic-slice(x, k, z), dynamic_slice_sizes={1,2} h = f32[] constant(0.5) hb = f32[1,2] broadcast(h), dimensions={} b = f32[1,2] multiply(a, hb) c = f32[1,2] add(b, hb) y = f32[7,2] dynamic-update-slice(x, c, i, k) ROOT r = (s32[], f32[7,2]) tuple(j, y) }
ENTRY e { z = s32[] constant(0) x = f32[7,2] parameter(0) s = (s32[], f32[7,2]) tuple(z, x) w = (s32[], f32[7,2]) while(s), condition=cond, body=body ROOT r = f32[7,2] get-tuple-element(w), index=1 })"},
    {"small_matrices", R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
cond { s = (s32[], f32[3,3], f32[2,3], f32[6]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(9) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[3,3], f32[2,3], f32[6]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[3,3] get-tuple-element(s), index=1 y = f32[2,3] get-tuple-element(s), index=2 v = f32[6] get-tuple-element(s), index=3 one = s32[] constant(1) j = s32[] add(i, one)
  d = f32[3,3] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} a = f32[3,3] abs(d) z = f32[] constant(0.125) m = f32[] reduce(a, z), dimensions={0,1}, to_apply=max mb = f32[3,3] broadcast(m), dimensions={} x2 = f32[3,3] divide(d, mb)
  e = f32[2,3] dot(y, x2), lhs_contracting_dims={1}, rhs_contracting_dims={0} t = f32[3,2] transpose(e), dimensions={1,0} q = f32[6] reshape(t) u = f32[6] add(q, v) w = f32[6] tanh(u) zero = f32[] constant(0) sum = f32[] reduce(w, zero), dimensions={0}, to_apply=add sb = f32[2,3] broadcast(sum), dimensions={} f = f32[2,3] subtract(e, sb) y2 = f32[2,3] sine(f)
  ROOT r = (s32[], f32[3,3], f32[2,3], f32[6]) tuple(j, x2, y2, w) }
ENTRY e { z = s32[] constant(0) x = f32[3,3] parameter(0) y = f32[2,3] parameter(1) v = f32[6] parameter(2) s = (s32[], f32[3,3], f32[2,3], f32[6]) tuple(z, x, y, v) ROOT w = (s32[], f32[3,3], f32[2,3], f32[6]) while(s), condition=cond, body=body })",
     2e-4},
    {"state_of_many_types", R"(
cond { s = (s32[], c64[3], bf16[5], f16[], pred[6], s8[3], f64[2]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(40) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], c64[3], bf16[5], f16[], pred[6], s8[3], f64[2]) parameter(0) i = s32[] get-tuple-element(s), index=0 c = c64[3] get-tuple-element(s), index=1 b = bf16[5] get-tuple-element(s), index=2 h = f16[] get-tuple-element(s), index=3 p = pred[6] get-tuple-element(s), index=4 k = s8[3] get-tuple-element(s), index=5 d = f64[2] get-tuple-element(s), index=6
  one = s32[] constant(1) j = s32[] add(i, one) half = c64[] constant((0.5, 0.25)) hc = c64[3] broadcast(half), dimensions={} c2 = c64[3] multiply(c, hc) r1 = c64[3] reverse(c2), dimensions={0} b2 = bf16[5] negate(b) b3 = bf16[5] cosine(b2) h2 = f16[] constant(0.75) h3 = f16[] multiply(h, h2) p2 = pred[6] reverse(p), dimensions={0} p3 = pred[6] not(p2)
  q = s8[] constant(50) qb = s8[3] broadcast(q), dimensions={} k2 = s8[3] add(k, qb) dd = f64[2] multiply(d, d) e = f64[] constant(0.3) eb = f64[2] broadcast(e), dimensions={} d2 = f64[2] subtract(dd, eb) d3 = f64[2] sine(d2) ROOT r = (s32[], c64[3], bf16[5], f16[], pred[6], s8[3], f64[2]) tuple(j, r1, b3, h3, p3, k2, d3) }
ENTRY e { z = s32[] constant(0) c = c64[3] parameter(0) b = bf16[5] parameter(1) h = f16[] parameter(2) p = pred[6] parameter(3) k = s8[3] parameter(4) d = f64[2] parameter(5) s = (s32[], c64[3], bf16[5], f16[], pred[6], s8[3], f64[2]) tuple(z, c, b, h, p, k, d) ROOT w = (s32[], c64[3], bf16[5], f16[], pred[6], s8[3], f64[2]) while(s), condition=cond, body=body })"},
    {"switch_in_loop", R"(
b0 { x = f32[5] parameter(0) ROOT r = f32[5] sine(x) }
b1 { x = f32[5] parameter(0) ROOT r = f32[5] reverse(x), dimensions={0} }
b2 { x = f32[5] parameter(0) y = f32[5] cosine(x) ROOT r = f32[5] add(x, y) }
cond { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(8) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[5] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) two = s32[] constant(2) k = s32[] subtract(i, two)
  y = f32[5] conditional(k, x, x, x), branch_computations={b0, b1, b2} ROOT r = (s32[], f32[5]) tuple(j, y) }
ENTRY e { z = s32[] constant(0) x = f32[5] parameter(0) s = (s32[], f32[5]) tuple(z, x) w = (s32[], f32[5]) while(s), condition=cond, body=body ROOT r = f32[5] get-tuple-element(w), index=1 })"},
    {"inner_loop_of_unknown_length", R"(
icond { s = (s32[], s32[], f32[5], f32[30]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1 ROOT r = pred[] compare(i, n), direction=LT }
ibody { s = (s32[], s32[], f32[5], f32[30]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1 x = f32[5] get-tuple-element(s), index=2 t = f32[30] get-tuple-element(s), index=3 one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[5] sine(x) a = f32[1] slice(y), slice={[3:4]} u = f32[30] dynamic-update-slice(t, a, i) ROOT r = (s32[], s32[], f32[5], f32[30]) tuple(j, n, y, u) }
cond { s = (s32[], f32[5], f32[30]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(6) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[5], f32[30]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[5] get-tuple-element(s), index=1 t = f32[30] get-tuple-element(s), index=2 one = s32[] constant(1) j = s32[] add(i, one) two = s32[] constant(2) q = s32[] multiply(i, i) start = s32[] constant(4)
  v = (s32[], s32[], f32[5], f32[30]) tuple(start, q, x, t) w = (s32[], s32[], f32[5], f32[30]) while(v), condition=icond, body=ibody y = f32[5] get-tuple-element(w), index=2 u = f32[30] get-tuple-element(w), index=3 z = f32[5] add(y, x) ROOT r = (s32[], f32[5], f32[30]) tuple(j, z, u) }
ENTRY e { z = s32[] parameter(2) x = f32[5] parameter(0) t = f32[30] parameter(1) s = (s32[], f32[5], f32[30]) tuple(z, x, t) ROOT w = (s32[], f32[5], f32[30]) while(s), condition=cond, body=body })",
     1e-4},
    {"arrays_about_the_size_of_a_variable", R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
cond { s = (s32[], f32[128], f32[129], f32[300]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(4) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[128], f32[129], f32[300]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[128] get-tuple-element(s), index=1 y = f32[129] get-tuple-element(s), index=2 v = f32[300] get-tuple-element(s), index=3 one = s32[] constant(1) j = s32[] add(i, one)
  x1 = f32[128] reverse(x), dimensions={0} y1 = f32[128] slice(y), slice={[1:129]} x2 = f32[128] add(x1, y1) h = f32[] constant(0.5) hb = f32[128] broadcast(h), dimensions={} x3 = f32[128] multiply(x2, hb) y2 = f32[129] sine(y)
  z = f32[] constant(0) m = f32[] reduce(v, z), dimensions={0}, to_apply=add k = f32[] constant(300) mean = f32[] divide(m, k) mb = f32[300] broadcast(mean), dimensions={} d = f32[300] subtract(v, mb) dd = f32[300] multiply(d, d) var = f32[] reduce(dd, z), dimensions={0}, to_apply=add vb = f32[300] broadcast(var), dimensions={} q = f32[300] divide(d, vb)
  ROOT r = (s32[], f32[128], f32[129], f32[300]) tuple(j, x3, y2, q) }
ENTRY e { z = s32[] constant(0) x = f32[128] parameter(0) y = f32[129] parameter(1) v = f32[300] parameter(2) s = (s32[], f32[128], f32[129], f32[300]) tuple(z, x, y, v) ROOT w = (s32[], f32[128], f32[129], f32[300]) while(s), condition=cond, body=body })",
     2e-4},
    {"loops_one_after_another", R"(
cond { s = (s32[], f32[5], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(40) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[5], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[5] get-tuple-element(s), index=1 y = f32[5] get-tuple-element(s), index=2 one = s32[] constant(1) j = s32[] add(i, one) a = f32[5] sine(x) b = f32[5] multiply(a, y) ROOT r = (s32[], f32[5], f32[5]) tuple(j, y, b) }
body2 { s = (s32[], f32[5], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[5] get-tuple-element(s), index=1 y = f32[5] get-tuple-element(s), index=2 one = s32[] constant(1) j = s32[] add(i, one) a = f32[5] cosine(x) b = f32[5] reverse(a), dimensions={0} ROOT r = (s32[], f32[5], f32[5]) tuple(j, b, x) }
ENTRY e { z = s32[] constant(0) x = f32[5] parameter(0) y = f32[5] parameter(1) s = (s32[], f32[5], f32[5]) tuple(z, x, y) w = (s32[], f32[5], f32[5]) while(s), condition=cond, body=body a = f32[5] get-tuple-element(w), index=1 b = f32[5] get-tuple-element(w), index=2
  c = f32[5] add(a, x) t = (s32[], f32[5], f32[5]) tuple(z, c, b) v = (s32[], f32[5], f32[5]) while(t), condition=cond, body=body2 d = f32[5] get-tuple-element(v), index=1 f = f32[5] get-tuple-element(v), index=2 ROOT r = (f32[5], f32[5], f32[5]) tuple(d, f, b) })"},
    // Updates that are made of other elements of the array.
    {"row_of_the_row_before", R"(
cond { s = (s32[], f32[30,40]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(30) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[30,40]) parameter(0) i = s32[] get-tuple-element(s), index=0 t = f32[30,40] get-tuple-element(s), index=1 one = s32[] constant(1) z = s32[] constant(0) j = s32[] add(i, one) k = s32[] subtract(i, one)
  a = f32[1,40] dynamic-slice(t, k, z), dynamic_slice_sizes={1,40} b = f32[1,40] dynamic-slice(t, i, z), dynamic_slice_sizes={1,40} v = f32[1,40] reverse(a), dimensions={1} h = f32[] constant(0.5) hb = f32[1,40] broadcast(h), dimensions={} c = f32[1,40] multiply(v, hb) d = f32[1,40] add(b, c)
  u = f32[30,40] dynamic-update-slice(t, d, i, z) ROOT r = (s32[], f32[30,40]) tuple(j, u) }
ENTRY e { z = s32[] constant(1) t = f32[30,40] parameter(0) s = (s32[], f32[30,40]) tuple(z, t) w = (s32[], f32[30,40]) while(s), condition=cond, body=body ROOT r = f32[30,40] get-tuple-element(w), index=1 })"},
    {"rows_that_overlap", R"(
cond { s = (s32[], f32[60,9]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(50) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[60,9]) parameter(0) i = s32[] get-tuple-element(s), index=0 t = f32[60,9] get-tuple-element(s), index=1 one = s32[] constant(1) z = s32[] constant(0) j = s32[] add(i, one)
  a = f32[4,9] dynamic-slice(t, j, z), dynamic_slice_sizes={4,9} n = f32[4,9] negate(a) u = f32[60,9] dynamic-update-slice(t, n, i, z) ROOT r = (s32[], f32[60,9]) tuple(j, u) }
ENTRY e { z = s32[] constant(0) t = f32[60,9] parameter(0) s = (s32[], f32[60,9]) tuple(z, t) w = (s32[], f32[60,9]) while(s), condition=cond, body=body ROOT r = f32[60,9] get-tuple-element(w), index=1 })"},
    {"vector_that_overlaps", R"(
cond { s = (s32[], f32[70]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(60) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[70]) parameter(0) i = s32[] get-tuple-element(s), index=0 t = f32[70] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  a = f32[7] dynamic-slice(t, j), dynamic_slice_sizes={7} b = f32[7] dynamic-slice(t, i), dynamic_slice_sizes={7} c = f32[7] subtract(a, b) u = f32[70] dynamic-update-slice(t, c, j) ROOT r = (s32[], f32[70]) tuple(j, u) }
ENTRY e { z = s32[] constant(0) t = f32[70] parameter(0) s = (s32[], f32[70]) tuple(z, t) w = (s32[], f32[70]) while(s), condition=cond, body=body ROOT r = f32[70] get-tuple-element(w), index=1 })",
     1e-3},
    {"scatter_of_elements_nearby", R"(
set { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(b, a) }
cond { s = (s32[], s32[500]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(510) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], s32[500]) parameter(0) i = s32[] get-tuple-element(s), index=0 t = s32[500] get-tuple-element(s), index=1 one = s32[] constant(1) two = s32[] constant(2) j = s32[] add(i, one) k = s32[] subtract(i, two) l = s32[] subtract(i, one)
  a = s32[1] dynamic-slice(t, k), dynamic_slice_sizes={1} b = s32[1] dynamic-slice(t, l), dynamic_slice_sizes={1} c = s32[1] multiply(a, b) d = s32[1] not(c) e = s32[] reshape(d) q = s32[1] reshape(i)
  u = s32[500] scatter(t, q, e), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=set ROOT r = (s32[], s32[500]) tuple(j, u) }
ENTRY e { z = s32[] constant(0) t = s32[500] parameter(0) s = (s32[], s32[500]) tuple(z, t) w = (s32[], s32[500]) while(s), condition=cond, body=body ROOT r = s32[500] get-tuple-element(w), index=1 })",
     1e-3},
    {"column_of_a_product", R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
set { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
cond { s = (s32[], f32[6,6]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(20) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[6,6]) parameter(0) i = s32[] get-tuple-element(s), index=0 t = f32[6,6] get-tuple-element(s), index=1 one = s32[] constant(1) z = s32[] constant(0) six = s32[] constant(6) j = s32[] add(i, one) k = s32[] remainder(i, six)
  a = f32[1,6] dynamic-slice(t, k, z), dynamic_slice_sizes={1,6} v = f32[6] reshape(a) vb = f32[6,6] broadcast(v), dimensions={1} m = f32[6,6] multiply(t, vb) zero = f32[] constant(0) p = f32[6] reduce(m, zero), dimensions={1}, to_apply=add q = f32[6] tanh(p) ki = s32[1] reshape(k)
  u = f32[6,6] scatter(t, ki, q), update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=0, to_apply=set ROOT r = (s32[], f32[6,6]) tuple(j, u) }
ENTRY e { z = s32[] constant(0) t = f32[6,6] parameter(0) s = (s32[], f32[6,6]) tuple(z, t) w = (s32[], f32[6,6]) while(s), condition=cond, body=body ROOT r = f32[6,6] get-tuple-element(w), index=1 })",
     1e-3},
    // In the function of a loop they are computed row by row, or element by element.
    {"products_of_small_matrices", R"(
cond { s = (s32[], f32[6,6], f32[2,2], f32[5,5], f32[5,12], f32[3,3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(11) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[6,6], f32[2,2], f32[5,5], f32[5,12], f32[3,3]) parameter(0) i = s32[] get-tuple-element(s), index=0 a = f32[6,6] get-tuple-element(s), index=1 b = f32[2,2] get-tuple-element(s), index=2 c = f32[5,5] get-tuple-element(s), index=3 d = f32[5,12] get-tuple-element(s), index=4 e = f32[3,3] get-tuple-element(s), index=5
  one = s32[] constant(1) j = s32[] add(i, one)
  p = f32[6,6] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0} a2 = f32[6,6] tanh(p) q = f32[2,2] dot(b, b), lhs_contracting_dims={0}, rhs_contracting_dims={1} b2 = f32[2,2] sine(q)
  u = f32[5,5] dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={1} c2 = f32[5,5] sine(u) v = f32[5,5] negate(c2) w = f32[5,12] dot(v, d), lhs_contracting_dims={1}, rhs_contracting_dims={0} d2 = f32[5,12] cosine(w)
  x = f32[3,3] dot(e, e), lhs_contracting_dims={1}, rhs_contracting_dims={0} t = f32[3,3] transpose(x), dimensions={1,0} e2 = f32[3,3] tanh(t) ROOT r = (s32[], f32[6,6], f32[2,2], f32[5,5], f32[5,12], f32[3,3]) tuple(j, a2, b2, c2, d2, e2) }
ENTRY e { z = s32[] constant(0) a = f32[6,6] parameter(0) b = f32[2,2] parameter(1) c = f32[5,5] parameter(2) d = f32[5,12] parameter(3) e = f32[3,3] parameter(4) s = (s32[], f32[6,6], f32[2,2], f32[5,5], f32[5,12], f32[3,3]) tuple(z, a, b, c, d, e) ROOT w = (s32[], f32[6,6], f32[2,2], f32[5,5], f32[5,12], f32[3,3]) while(s), condition=cond, body=body })",
     2e-3},
};

std::string ModuleOf(const Case& c) {
  return absl::StrContains(c.hlo, "HloModule") ? c.hlo : absl::StrCat("HloModule m\n", c.hlo);
}

class ControlFlow : public ::testing::TestWithParam<Case> {};

TEST_P(ControlFlow, LikeTheEvaluator) {
  const std::string hlo = ModuleOf(GetParam());
  for (uint32_t seed : {1u, 2u, 3u}) {
    ProgramRunOptions options;
    options.tolerance = GetParam().tolerance;
    options.seed = seed;
    EXPECT_EQ(ProgramDifference(hlo, options), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ControlFlow, ::testing::ValuesIn(kCases), [](const auto& i) { return i.param.name; });

// Returns how many loops of the case are compiled to one function each.
int CountLoopFunctions(const std::string& hlo) {
  std::string error;
  int count = 0;
  for (const std::string& line : GetCompileLog(hlo, &error))
    count += line.find(": one function l") != std::string::npos;
  EXPECT_EQ(error, "");
  return count;
}

TEST(LoopFunctions, HaveAllLoopsAndBranchesInside) {
  std::map<std::string, int> functions;
  for (const Case& c : kCases) functions[c.name] = CountLoopFunctions(ModuleOf(c));
  for (const char* name : {"scan_stacks", "conditional_in_loop", "elements_of_arrays", "small_matrices",
                           "state_of_many_types", "switch_in_loop", "inner_loop_of_unknown_length",
                           "arrays_about_the_size_of_a_variable", "products_of_small_matrices"}) {
    EXPECT_EQ(functions[name], 1) << name;
  }
  EXPECT_EQ(functions["loops_one_after_another"], 2);
  // The library sorts. A loop over scalars alone is a kernel already.
  EXPECT_EQ(functions["sort_in_loop"], 0);
  EXPECT_EQ(functions["count"], 0);
}

TEST(Updates, OfOtherElementsWorkInPlace) {
  for (const Case& c : kCases) {
    const std::string name = c.name;
    const char* whole_array = name == "row_of_the_row_before"        ? "flat: 1200 elements"
                              : name == "rows_that_overlap"          ? "flat: 540 elements"
                              : name == "vector_that_overlaps"       ? "flat: 70 elements"
                              : name == "scatter_of_elements_nearby" ? "flat: 500 elements"
                              : name == "column_of_a_product"        ? "flat: 36 elements"
                                                                     : nullptr;
    if (whole_array == nullptr) continue;
    std::string error;
    for (const std::string& line : GetCompileLog(ModuleOf(c), &error)) {
      EXPECT_FALSE(absl::StrContains(line, whole_array)) << name << ": copies in each iteration: " << line;
    }
    EXPECT_EQ(error, "");
  }
}

TEST(LoopFunctions, NotWhereKernelsWorkForLong) {
  auto loop_over = [](const char* shape) {
    return absl::StrReplaceAll(R"(HloModule m
cond { s = (s32[], SHAPE) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(50) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], SHAPE) parameter(0) i = s32[] get-tuple-element(s), index=0 x = SHAPE get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) y = SHAPE sine(x) ROOT r = (s32[], SHAPE) tuple(j, y) }
ENTRY e { z = s32[] constant(0) x = SHAPE parameter(0) s = (s32[], SHAPE) tuple(z, x) ROOT w = (s32[], SHAPE) while(s), condition=cond, body=body })",
                               {{"SHAPE", shape}});
  };
  EXPECT_EQ(CountLoopFunctions(loop_over("f32[100]")), 1);
  EXPECT_EQ(CountLoopFunctions(loop_over("f32[100000]")), 0);
}

}  // namespace
}  // namespace backplane::engine
