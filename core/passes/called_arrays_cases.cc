#include "core/passes/called_arrays_cases.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace backplane {
namespace {

// ---- Computations to call. Each computes one element of type $T from two, `x` and `y`; helper computations come
// first.

struct Body {
  const char* name;
  const char* helpers;
  const char* text;  // of the computation `f`, without its header
};

const Body kBodies[] = {
    {"broadcast_and_reduce", "sum { p = $T[] parameter(0) q = $T[] parameter(1) ROOT r = $T[] add(p, q) }",
     "b = $T[3] broadcast(x), dimensions={} c = $T[3] broadcast(y), dimensions={} i = $T[3] iota(), iota_dimension=0 "
     "m = $T[3] maximum(b, c) s = $T[3] add(m, i) z = $T[] constant(1) ROOT r = $T[] reduce(s, z), dimensions={0}, "
     "to_apply=sum"},
    {"reduce_from_argument", "top { p = $T[] parameter(0) q = $T[] parameter(1) ROOT r = $T[] maximum(p, q) }",
     "i = $T[2,3] iota(), iota_dimension=1 b = $T[2,3] broadcast(y), dimensions={} s = $T[2,3] subtract(b, i) "
     "ROOT r = $T[] reduce(s, x), dimensions={0,1}, to_apply=top"},
    {"dot", "",
     "b = $T[2,3] broadcast(x), dimensions={} c = $T[3,2] broadcast(y), dimensions={} i = $T[2,3] iota(), "
     "iota_dimension=1 k = $T[2,3] add(b, i) d = $T[2,2] dot(k, c), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0} s = $T[1,1] slice(d), slice={[0:1], [1:2]} t = $T[] reshape(s) h = $T[] constant(4) "
     "ROOT r = $T[] minimum(t, h)"},
    {"sort", "less { p = $T[] parameter(0) q = $T[] parameter(1) ROOT r = pred[] compare(p, q), direction=LT }",
     "a = $T[1] reshape(x) b = $T[1] reshape(y) h = $T[] constant(2) c = $T[1] reshape(h) w = $T[3] concatenate(a, b, "
     "c), dimensions={0} s = $T[3] sort(w), dimensions={0}, to_apply=less m = $T[1] slice(s), slice={[1:2]} ROOT r = "
     "$T[] reshape(m)"},
    {"gather", "",
     "i = $T[5] iota(), iota_dimension=0 b = $T[5] broadcast(x), dimensions={} t = $T[5] add(i, b) v = s32[] "
     "convert(y) n = s32[1] reshape(v) g = $T[] gather(t, n), offset_dims={}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=0, slice_sizes={1} h = $T[] constant(9) ROOT r = $T[] minimum(g, h)"},
    {"dynamic_slice", "",
     "i = $T[6] iota(), iota_dimension=0 v = s32[] convert(y) c = $T[2] broadcast(x), dimensions={} u = $T[6] "
     "dynamic-update-slice(i, c, v) d = $T[1] dynamic-slice(u, v), dynamic_slice_sizes={1} ROOT r = $T[] reshape(d)"},
    {"slices_of_a_scalar", "",
     "b = $T[2] broadcast(x), dimensions={} s = $T[1] slice(b), slice={[1:2]} t = $T[] reshape(s) d = $T[] "
     "dynamic-slice(t), dynamic_slice_sizes={} u = $T[] dynamic-update-slice(d, y) ROOT r = $T[] maximum(u, d)"},
    {"scatter", "put { p = $T[] parameter(0) q = $T[] parameter(1) ROOT r = $T[] add(p, q) }",
     "i = $T[4] iota(), iota_dimension=0 v = s32[] convert(y) n = s32[1,1] reshape(v) u = $T[1] reshape(x) s = $T[4] "
     "scatter(i, n, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
     "index_vector_dim=1, to_apply=put m = $T[1] slice(s), slice={[2:3]} ROOT r = $T[] reshape(m)"},
    {"window", "sum { p = $T[] parameter(0) q = $T[] parameter(1) ROOT r = $T[] add(p, q) }",
     "a = $T[1] reshape(x) b = $T[1] reshape(y) w = $T[2] concatenate(a, b), dimensions={0} p = $T[5] pad(w, x), "
     "padding=1_2 z = $T[] constant(0) s = $T[4] reduce-window(p, z), window={size=2}, to_apply=sum m = $T[1] "
     "slice(s), slice={[0:1]} q = $T[] reshape(m) h = $T[] constant(5) ROOT r = $T[] minimum(q, h)"},
    {"while_over_arrays",
     "more { s = (s32[], $T[2]) parameter(0) n = s32[] get-tuple-element(s), index=0 h = s32[] constant(3) ROOT r = "
     "pred[] compare(n, h), direction=LT }\n"
     "step { s = (s32[], $T[2]) parameter(0) n = s32[] get-tuple-element(s), index=0 a = $T[2] get-tuple-element(s), "
     "index=1 o = s32[] constant(1) m = s32[] add(n, o) t = $T[2] reverse(a), dimensions={0} k = $T[2] iota(), "
     "iota_dimension=0 u = $T[2] add(t, k) ROOT r = (s32[], $T[2]) tuple(m, u) }",
     "a = $T[1] reshape(x) b = $T[1] reshape(y) w = $T[2] concatenate(a, b), dimensions={0} n = s32[] convert(y) s = "
     "(s32[], $T[2]) tuple(n, w) l = (s32[], $T[2]) while(s), condition=more, body=step e = $T[2] "
     "get-tuple-element(l), index=1 m = $T[1] slice(e), slice={[0:1]} q = $T[] reshape(m) h = $T[] constant(7) ROOT r "
     "= $T[] minimum(q, h)"},
    {"branch_over_arrays",
     "sum { p = $T[] parameter(0) q = $T[] parameter(1) ROOT r = $T[] add(p, q) }\n"
     "left { w = $T[2] parameter(0) z = $T[] constant(0) ROOT r = $T[] reduce(w, z), dimensions={0}, to_apply=sum }\n"
     "right { w = $T[2] parameter(0) m = $T[1] slice(w), slice={[1:2]} ROOT r = $T[] reshape(m) }",
     "a = $T[1] reshape(x) b = $T[1] reshape(y) w = $T[2] concatenate(a, b), dimensions={0} c = pred[] compare(x, y), "
     "direction=LT v = $T[] conditional(c, w, w), true_computation=left, false_computation=right h = $T[] constant(6) "
     "ROOT r = $T[] minimum(v, h)"},
    {"loop_in_a_branch",
     "more { s = $T[] parameter(0) h = $T[] constant(3) ROOT r = pred[] compare(s, h), direction=LT }\n"
     "step { s = $T[] parameter(0) w = $T[2] broadcast(s), dimensions={} i = $T[2] iota(), iota_dimension=0 v = $T[2] "
     "add(w, i) m = $T[1] slice(v), slice={[1:2]} ROOT r = $T[] reshape(m) }\n"
     "left { s = $T[] parameter(0) ROOT r = $T[] while(s), condition=more, body=step }\n"
     "right { s = $T[] parameter(0) ROOT r = $T[] negate(s) }",
     "c = pred[] compare(x, y), direction=LT v = $T[] conditional(c, x, y), true_computation=left, "
     "false_computation=right h = $T[] constant(6) ROOT r = $T[] minimum(v, h)"},
    {"call_and_tuple",
     "pair { p = $T[] parameter(0) q = $T[] parameter(1) b = $T[4] broadcast(p), dimensions={} c = $T[4] "
     "broadcast(q), dimensions={} ROOT r = ($T[4], $T[4]) tuple(b, c) }",
     "t = ($T[4], $T[4]) call(x, y), to_apply=pair b = $T[4] get-tuple-element(t), index=0 c = $T[4] "
     "get-tuple-element(t), index=1 i = $T[4] iota(), iota_dimension=0 d = $T[4] maximum(b, i) e = $T[4] minimum(d, c) "
     "m = $T[1] slice(e), slice={[3:4]} ROOT r = $T[] reshape(m)"},
    {"map_and_nested_body",
     "twice { p = $T[] parameter(0) b = $T[2] broadcast(p), dimensions={} m = $T[1] slice(b), slice={[0:1]} q = $T[] "
     "reshape(m) ROOT r = $T[] add(q, q) }\n"
     "inner { p = $T[] parameter(0) q = $T[] parameter(1) b = $T[2] broadcast(q), dimensions={} i = $T[2] iota(), "
     "iota_dimension=0 s = $T[2] add(b, i) m = $T[1] slice(s), slice={[1:2]} n = $T[] reshape(m) ROOT r = $T[] "
     "maximum(p, n) }",
     "a = $T[1] reshape(x) b = $T[1] reshape(y) w = $T[2] concatenate(a, b), dimensions={0} t = $T[2] map(w), "
     "dimensions={0}, to_apply=twice z = $T[] constant(-3) v = $T[] reduce(t, z), dimensions={0}, to_apply=inner h = "
     "$T[] constant(8) ROOT r = $T[] minimum(v, h)"},
};

// ---- Callers. $F is the computation `f` of two scalars. $U and $V are its results for (x, y), for use elsewhere.

struct Caller {
  const char* name;
  const char* helpers;
  const char* text;  // of the entry
};

const Caller kCallers[] = {
    {"reduce_rows", "",
     "a = $T[5,7] parameter(0) z = $T[] parameter(1) ROOT r = $T[5] reduce(a, z), dimensions={1}, to_apply=f"},
    {"reduce_columns", "",
     "a = $T[3,4,5] parameter(0) z = $T[] parameter(1) ROOT r = $T[4] reduce(a, z), dimensions={2,0}, to_apply=f"},
    {"reduce_all", "",
     "a = $T[3,3] parameter(0) z = $T[] parameter(1) ROOT r = $T[] reduce(a, z), dimensions={0,1}, to_apply=f"},
    {"reduce_nothing", "",
     "a = $T[3,0] parameter(0) z = $T[] parameter(1) ROOT r = $T[3] reduce(a, z), dimensions={1}, to_apply=f"},
    {"reduce_pairs",
     "g { x = $T[] parameter(0) i = s32[] parameter(1) y = $T[] parameter(2) j = s32[] parameter(3) v = $T[] call(x, "
     "y), to_apply=f k = s32[] maximum(i, j) w = s32[2] broadcast(k), dimensions={} m = s32[1] slice(w), "
     "slice={[0:1]} n = s32[] reshape(m) ROOT r = ($T[], s32[]) tuple(v, n) }",
     "a = $T[4,6] parameter(0) i = s32[4,6] parameter(1) z = $T[] parameter(2) o = s32[] constant(0) ROOT r = ($T[6], "
     "s32[6]) reduce(a, i, z, o), dimensions={0}, to_apply=g"},
    {"window", "",
     "a = $T[6,7] parameter(0) z = $T[] parameter(1) ROOT r = $T[3,6] reduce-window(a, z), window={size=3x2 "
     "stride=2x1 pad=1_1x0_0 rhs_dilate=1x1}, to_apply=f"},
    {"dilated_window", "",
     "a = $T[4,5] parameter(0) z = $T[] parameter(1) ROOT r = $T[7,4] reduce-window(a, z), window={size=2x2 "
     "pad=1_0x-1_2 lhs_dilate=2x1 rhs_dilate=1x2}, to_apply=f"},
    {"select_and_scatter",
     "ge { x = $T[] parameter(0) y = $T[] parameter(1) b = $T[2] broadcast(x), dimensions={} c = $T[2] broadcast(y), "
     "dimensions={} p = pred[2] compare(b, c), direction=GE m = pred[1] slice(p), slice={[1:2]} ROOT r = pred[] "
     "reshape(m) }",
     "a = $T[6,6] parameter(0) s = $T[3,3] parameter(1) z = $T[] parameter(2) ROOT r = $T[6,6] "
     "select-and-scatter(a, s, z), window={size=3x2 stride=2x2 pad=1_0x0_0}, select=ge, scatter=f"},
    {"scatter", "",
     "a = $T[5,4] parameter(0) n = s32[6,1] parameter(1) u = $T[6,4] parameter(2) ROOT r = $T[5,4] scatter(a, n, u), "
     "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
     "to_apply=f"},
    {"scatter_points", "",
     "a = $T[3,5] parameter(0) n = s32[2,9] parameter(1) u = $T[9] parameter(2) ROOT r = $T[3,5] scatter(a, n, u), "
     "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, "
     "to_apply=f"},
    {"batched_scatter", "",
     "a = $T[3,7] parameter(0) n = s32[3,4] parameter(1) u = $T[3,4,2] parameter(2) ROOT r = $T[3,7] scatter(a, n, "
     "u), update_window_dims={2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
     "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=f"},
    {"sort",
     "before { x = $T[] parameter(0) y = $T[] parameter(1) u = s32[] parameter(2) v = s32[] parameter(3) o = $T[] "
     "constant(1) a = $T[] call(x, o), to_apply=f b = $T[] call(y, o), to_apply=f ROOT r = pred[] compare(a, b), "
     "direction=LT }",
     "a = $T[3,11] parameter(0) i = s32[3,11] iota(), iota_dimension=1 ROOT r = ($T[3,11], s32[3,11]) sort(a, i), "
     "dimensions={1}, to_apply=before"},
    {"sort_columns",
     "before { x = $T[] parameter(0) y = $T[] parameter(1) a = $T[] call(x, x), to_apply=f b = $T[] call(y, y), "
     "to_apply=f ROOT r = pred[] compare(a, b), direction=GT }",
     "a = $T[9,4] parameter(0) ROOT r = $T[9,4] sort(a), dimensions={0}, is_stable=true, to_apply=before"},
    {"map", "",
     "a = $T[5,3] parameter(0) b = $T[5,3] parameter(1) ROOT r = $T[5,3] map(a, b), dimensions={0,1}, to_apply=f"},
    {"in_a_loop",
     "until { s = (s32[], $T[4]) parameter(0) n = s32[] get-tuple-element(s), index=0 h = s32[] constant(5) ROOT r = "
     "pred[] compare(n, h), direction=LT }\n"
     "next { s = (s32[], $T[4]) parameter(0) n = s32[] get-tuple-element(s), index=0 a = $T[4] get-tuple-element(s), "
     "index=1 o = s32[] constant(1) m = s32[] add(n, o) b = $T[4,3] broadcast(a), dimensions={0} z = $T[] constant(1) "
     "v = $T[4] reduce(b, z), dimensions={1}, to_apply=f ROOT r = (s32[], $T[4]) tuple(m, v) }",
     "a = $T[4] parameter(0) n = s32[] constant(0) s = (s32[], $T[4]) tuple(n, a) ROOT r = (s32[], $T[4]) while(s), "
     "condition=until, body=next"},
};

}  // namespace

// Combines every body with every caller and alternates the element types.
std::vector<CalledArraysCase> CalledArraysCases() {
  const char* types[] = {"f32", "s32", "f64", "bf16"};
  std::vector<CalledArraysCase> cases;
  for (const Caller& caller : kCallers) {
    for (const Body& body : kBodies) {
      const std::string type = types[cases.size() % 4];
      const std::string text =
          absl::StrCat("HloModule m\n", body.helpers, "\nf { x = $T[] parameter(0) y = $T[] parameter(1) ", body.text,
                       " }\n", caller.helpers, "\nENTRY e { ", caller.text, " }\n");
      cases.push_back(
          {absl::StrCat(caller.name, "_of_", body.name, "_", type), type, absl::StrReplaceAll(text, {{"$T", type}})});
    }
  }
  return cases;
}

}  // namespace backplane
