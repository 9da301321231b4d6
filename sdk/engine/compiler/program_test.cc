// Modules of a few instructions through the whole plugin and through the evaluator: operations, types and shapes.
#include "sdk/engine/compiler/program_testing.h"

#include <algorithm>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace backplane::engine {
namespace {

// The computations that the cases call, before a case's entry.
constexpr char kHelpers[] = R"(
HloModule m
add_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
mul_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] multiply(a, b) }
add_f64 { a = f64[] parameter(0) b = f64[] parameter(1) ROOT r = f64[] add(a, b) }
add_bf16 { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT r = bf16[] add(a, b) }
add_f16 { a = f16[] parameter(0) b = f16[] parameter(1) ROOT r = f16[] add(a, b) }
add_c64 { a = c64[] parameter(0) b = c64[] parameter(1) ROOT r = c64[] add(a, b) }
add_s32 { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
add_s8 { a = s8[] parameter(0) b = s8[] parameter(1) ROOT r = s8[] add(a, b) }
add_u8 { a = u8[] parameter(0) b = u8[] parameter(1) ROOT r = u8[] add(a, b) }
min_s64 { a = s64[] parameter(0) b = s64[] parameter(1) ROOT r = s64[] minimum(a, b) }
or_pred { a = pred[] parameter(0) b = pred[] parameter(1) ROOT r = pred[] or(a, b) }
keep_new_f32 { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
ge_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
lt_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }
lt_s32_2 { a = s32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3) ROOT r = pred[] compare(a, b), direction=LT }
argmax { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT eq = pred[] compare(a, b), direction=EQ lt = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lt) left = pred[] or(gt, tie) v = f32[] select(left, a, b) k = s32[] select(left, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k) }
largest_s8 { a = s32[] parameter(0) i = s8[] parameter(1) b = s32[] parameter(2) j = s8[] parameter(3)
  ge = pred[] compare(a, b), direction=GE v = s32[] select(ge, a, b) k = s8[] select(ge, i, j)
  ROOT r = (s32[], s8[]) tuple(v, k) }
first_nonzero { a = s32[] parameter(0) b = s32[] parameter(1) zero = s32[] constant(0)
  p = pred[] compare(a, zero), direction=NE ROOT r = s32[] select(p, a, b) }
)";

struct Case {
  const char* name;
  const char* entry;
  double tolerance = 4e-6;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Programs : public ::testing::TestWithParam<Case> {};

TEST_P(Programs, LikeTheEvaluator) {
  ProgramRunOptions options;
  options.tolerance = GetParam().tolerance;
  EXPECT_EQ(ProgramDifference(absl::StrCat(kHelpers, GetParam().entry), options), "");
}

constexpr Case kElementwise[] = {
    {"chain",
     "ENTRY e { a = f32[37] parameter(0) b = f32[37] parameter(1) c = f32[37] add(a, b) d = f32[37] tanh(c) ROOT r = "
     "f32[37] multiply(d, a) }"},
    {"scalar", "ENTRY e { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"},
    {"empty", "ENTRY e { a = f32[0,4] parameter(0) b = f32[0,4] parameter(1) ROOT c = f32[0,4] add(a, b) }"},
    {"nothing_to_do", "ENTRY e { ROOT a = f32[5] parameter(0) }"},
    {"same_argument_twice", "ENTRY e { a = f32[5] parameter(0) ROOT r = (f32[5], f32[5]) tuple(a, a) }"},
    {"same_value_twice",
     "ENTRY e { a = f32[5] parameter(0) b = f32[5] negate(a) ROOT r = (f32[5], f32[5], f32[5]) tuple(b, a, b) }"},
    {"constants",
     "ENTRY e { a = f32[3] constant({1, 2, 3}) b = s32[] constant(7) ROOT r = (f32[3], s32[], f32[3]) tuple(a, b, a) "
     "}"},
    {"no_results", "ENTRY e { a = f32[3] parameter(0) ROOT r = () tuple() }"},
    {"unused_argument", "ENTRY e { a = f32[3] parameter(0) b = f32[3] parameter(1) ROOT r = f32[3] negate(b) }"},
    {"nested_tuple",
     "ENTRY e { a = (f32[3], (s32[2], f32[])) parameter(0) b = (s32[2], f32[]) get-tuple-element(a), index=1 c = f32[] "
     "get-tuple-element(b), index=1 d = f32[3] get-tuple-element(a), index=0 f = f32[3] broadcast(c), dimensions={} g "
     "= f32[3] add(d, f) h = (f32[3], f32[]) tuple(g, c) ROOT r = ((f32[3], f32[]), (s32[2], f32[])) tuple(h, b) }"},
    {"integers",
     "ENTRY e { a = s32[19] parameter(0) b = s32[19] parameter(1) c = s32[19] divide(a, b) d = s32[19] remainder(a, b) "
     "f = s32[19] shift-left(a, b) g = s32[19] shift-right-arithmetic(a, b) h = s32[19] shift-right-logical(a, b) i = "
     "s32[19] xor(a, b) j = s32[19] popcnt(a) k = s32[19] count-leading-zeros(a) ROOT r = (s32[19], s32[19], s32[19], "
     "s32[19], s32[19], s32[19], s32[19], s32[19]) tuple(c, d, f, g, h, i, j, k) }"},
    {"bytes",
     "ENTRY e { a = s8[70] parameter(0) b = s8[70] parameter(1) c = s8[70] multiply(a, b) d = s8[70] divide(a, b) f = "
     "u8[70] convert(a) g = u8[70] remainder(f, f) ROOT r = (s8[70], s8[70], u8[70]) tuple(c, d, g) }"},
    {"wide",
     "ENTRY e { a = s64[9] parameter(0) b = u64[9] parameter(1) c = u64[9] convert(a) d = u64[9] multiply(b, c) f = "
     "f64[9] convert(d) g = f32[9] convert(a) ROOT r = (u64[9], f64[9], f32[9]) tuple(d, f, g) }"},
    {"predicates",
     "ENTRY e { a = pred[21] parameter(0) b = pred[21] parameter(1) c = pred[21] and(a, b) d = pred[21] not(a) f = "
     "pred[21] xor(c, d) g = s32[21] convert(f) h = f32[21] convert(d) ROOT r = (pred[21], s32[21], f32[21], pred[21]) "
     "tuple(f, g, h, c) }"},
    {"halves",
     "ENTRY e { a = bf16[33] parameter(0) b = f16[33] parameter(1) c = f32[33] convert(a) d = f32[33] convert(b) f = "
     "f32[33] multiply(c, d) g = bf16[33] convert(f) h = f16[33] exponential(b) i = bf16[33] add(a, g) ROOT r = "
     "(bf16[33], f16[33], bf16[33]) tuple(g, h, i) }"},
    {"complex",
     "ENTRY e { a = c64[17] parameter(0) b = c64[17] parameter(1) c = c64[17] multiply(a, b) d = c64[17] divide(a, b) "
     "f = f32[17] real(c) g = f32[17] abs(a) h = c64[17] exponential(a) i = c64[17] complex(f, g) ROOT r = (c64[17], "
     "c64[17], f32[17], c64[17], c64[17]) tuple(c, d, g, h, i) }",
     2e-5},
    {"complex_wide",
     "ENTRY e { a = c128[7] parameter(0) b = c128[7] parameter(1) c = c128[7] add(a, b) d = c128[7] sqrt(c) f = f64[7] "
     "imag(d) ROOT r = (c128[7], f64[7]) tuple(d, f) }",
     2e-5},
    {"clamp_select",
     "ENTRY e { a = f32[40] parameter(0) lo = f32[] constant(-1) hi = f32[] constant(1.5) p = pred[] parameter(1) c = "
     "f32[40] clamp(lo, a, hi) d = f32[40] negate(a) pp = pred[40] broadcast(p), dimensions={} ROOT r = f32[40] "
     "select(pp, c, d) }"},
    {"elementary",
     "ENTRY e { a = f32[50] parameter(0) b = f32[50] abs(a) c = f32[50] log(b) d = f32[50] rsqrt(b) f = f32[50] "
     "cosine(a) g = f32[50] atan2(a, b) h = f32[50] power(b, a) i2 = f32[50] exponential-minus-one(a) j = f32[50] "
     "log-plus-one(b) k = f32[50] cbrt(a) l = f32[50] erf(a) m = f32[50] tan(a) n = f32[50] logistic(a) ROOT r = "
     "(f32[50], f32[50], f32[50], f32[50], f32[50], f32[50], f32[50], f32[50], f32[50], f32[50], f32[50]) tuple(c, d, "
     "f, g, h, i2, j, k, l, m, n) }",
     2e-5},
    {"bitcast_convert",
     "ENTRY e { a = f32[6] parameter(0) b = s32[6] bitcast-convert(a) c = u8[6,4] bitcast-convert(a) d = s16[6,2] "
     "bitcast-convert(b) f = f32[6] bitcast-convert(d) ROOT r = (s32[6], u8[6,4], f32[6]) tuple(b, c, f) }"},
    {"small_types",
     "ENTRY e { a = s4[11] parameter(0) b = s32[11] convert(a) c = s4[11] add(a, a) d = f8e4m3fn[11] convert(b) f = "
     "f32[11] convert(d) ROOT r = (s32[11], s4[11], f32[11]) tuple(b, c, f) }"},
    {"bitcast_convert_complex",
     "ENTRY e { a = c128[5] parameter(0) b = c64[5,2] bitcast-convert(a) c = c128[5] bitcast-convert(b) ROOT r = "
     "(c64[5,2], c128[5]) tuple(b, c) }"},
    {"complex_to_real",
     "ENTRY e { a = c64[4] constant({(0, 1), (1, 0), (-2, 3), (0, 0)}) z = c64[4] parameter(0) y = c64[4] subtract(z, "
     "z) b = c64[4] add(a, y) c = pred[4] convert(b) d = s32[4] convert(b) f = bf16[4] convert(b) ROOT r = (pred[4], "
     "s32[4], bf16[4]) tuple(c, d, f) }"},
    {"reduce_precision_to_nothing",
     "ENTRY e { a = f64[3] constant({nan, -inf, 3.5}) z = f64[3] parameter(0) y = f64[3] subtract(z, z) b = f64[3] "
     "add(a, y) ROOT r = f64[3] reduce-precision(b), exponent_bits=5, mantissa_bits=0 }"},
    {"reduce_precision",
     "ENTRY e { a = f32[31] parameter(0) ROOT r = f32[31] reduce-precision(a), exponent_bits=5, mantissa_bits=3 }"},
    {"is_finite_sign_round",
     "ENTRY e { a = f32[31] parameter(0) b = pred[31] is-finite(a) c = f32[31] sign(a) d = f32[31] "
     "round-nearest-afz(a) f = f32[31] round-nearest-even(a) g = f32[31] ceil(a) ROOT r = (pred[31], f32[31], f32[31], "
     "f32[31], f32[31]) tuple(b, c, d, f, g) }"},
};
INSTANTIATE_TEST_SUITE_P(Elementwise, Programs, ::testing::ValuesIn(kElementwise),
                         [](const auto& i) { return i.param.name; });

constexpr Case kMovement[] = {
    {"transpose", "ENTRY e { a = f32[33,65] parameter(0) ROOT r = f32[65,33] transpose(a), dimensions={1,0} }"},
    {"transpose_large",
     "ENTRY e { a = f32[130,70] parameter(0) b = f32[130,70] sine(a) c = f32[70,130] transpose(b), dimensions={1,0} "
     "ROOT r = f32[70,130] add(c, c) }"},
    {"transpose_of_bytes",
     "ENTRY e { a = s8[3,17,5] parameter(0) ROOT r = s8[5,3,17] transpose(a), dimensions={2,0,1} }"},
    {"transpose_complex", "ENTRY e { a = c128[9,4] parameter(0) ROOT r = c128[4,9] transpose(a), dimensions={1,0} }"},
    {"broadcast",
     "ENTRY e { a = f32[5] parameter(0) b = f32[3,5,2] broadcast(a), dimensions={1} ROOT r = f32[3,5,2] negate(b) }"},
    {"reshape_through",
     "ENTRY e { a = f32[4,6] parameter(0) b = f32[24] reshape(a) c = f32[24] negate(b) ROOT d = f32[2,12] reshape(c) "
     "}"},
    {"reshape_of_argument", "ENTRY e { a = f32[4,6] parameter(0) ROOT d = f32[2,12] reshape(a) }"},
    {"slice_strided", "ENTRY e { a = f32[20,7] parameter(0) ROOT r = f32[6,3] slice(a), slice={[1:19:3], [0:6:2]} }"},
    {"pad_negative_interior",
     "ENTRY e { a = f32[5,6] parameter(0) z = f32[] parameter(1) ROOT r = f32[12,4] pad(a, z), padding=1_2_1x-1_-1_0 "
     "}"},
    {"concatenate_many",
     "ENTRY e { a = f32[3,2] parameter(0) b = f32[3,5] parameter(1) c = f32[3,1] parameter(2) d = f32[3,8] "
     "concatenate(a, b, c), dimensions={1} ROOT r = f32[3,8] negate(d) }"},
    {"concatenate_empty",
     "ENTRY e { a = f32[0,2] parameter(0) b = f32[3,2] parameter(1) ROOT d = f32[3,2] concatenate(a, b), "
     "dimensions={0} }"},
    {"reverse", "ENTRY e { a = s32[5,9] parameter(0) ROOT r = s32[5,9] reverse(a), dimensions={0,1} }"},
    {"iota",
     "ENTRY e { a = s32[4,5] iota(), iota_dimension=1 b = f32[4,5] iota(), iota_dimension=0 c = c64[6] iota(), "
     "iota_dimension=0 d = u8[300] iota(), iota_dimension=0 ROOT r = (s32[4,5], f32[4,5], c64[6], u8[300]) tuple(a, b, "
     "c, d) }"},
    {"dynamic_slice_clamps",
     "ENTRY e { a = f32[9,9] parameter(0) i = s32[] parameter(1) j = s32[] constant(-4) ROOT r = f32[4,4] "
     "dynamic-slice(a, i, j), dynamic_slice_sizes={4,4} }"},
    {"dynamic_slice_u8_index",
     "ENTRY e { a = f32[300] parameter(0) i = u8[] constant(200) ROOT r = f32[40] dynamic-slice(a, i), "
     "dynamic_slice_sizes={40} }"},
    {"dynamic_update_slice",
     "ENTRY e { a = f32[9,9] parameter(0) u = f32[2,3] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) ROOT "
     "r = f32[9,9] dynamic-update-slice(a, u, i, j) }"},
    {"dynamic_update_slice_of_value",
     "ENTRY e { a = f32[9] parameter(0) b = f32[9] negate(a) u = f32[2] parameter(1) i = s32[] parameter(2) c = f32[9] "
     "dynamic-update-slice(b, u, i) j = s32[] constant(1) d = f32[9] dynamic-update-slice(c, u, j) ROOT r = (f32[9], "
     "f32[9], f32[9]) tuple(c, d, b) }"},
    {"gather_rows",
     "ENTRY e { a = f32[10,6] parameter(0) i = s32[4,1] parameter(1) ROOT r = f32[4,6] gather(a, i), offset_dims={1}, "
     "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6} }"},
    {"gather_windows",
     "ENTRY e { a = f32[10,6] parameter(0) i = s64[4,2] parameter(1) ROOT r = f32[4,3,2] gather(a, i), "
     "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={3,2} }"},
    {"gather_batched",
     "ENTRY e { a = f32[3,8] parameter(0) i = s32[3,5,1] parameter(1) ROOT r = f32[3,5] gather(a, i), offset_dims={}, "
     "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
     "index_vector_dim=2, slice_sizes={1,1} }"},
    {"gather_empty",
     "ENTRY e { a = f32[10,6] parameter(0) i = s32[0,1] parameter(1) ROOT r = f32[0,6] gather(a, i), offset_dims={1}, "
     "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6} }"},
    {"scatter_add",
     "ENTRY e { a = f32[10,6] parameter(0) i = s32[7,1] parameter(1) u = f32[7,6] parameter(2) ROOT r = f32[10,6] "
     "scatter(a, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
     "index_vector_dim=1, to_apply=add_f32 }"},
    {"scatter_set_windows",
     "ENTRY e { a = f32[10,6] parameter(0) i = s32[3,2] parameter(1) u = f32[3,2,2] parameter(2) b = f32[10,6] "
     "negate(a) ROOT r = f32[10,6] scatter(b, i, u), update_window_dims={1,2}, inserted_window_dims={}, "
     "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=keep_new_f32 }"},
    {"scatter_into_used",
     "ENTRY e { a = f32[10] parameter(0) b = f32[10] negate(a) i = s32[3,1] parameter(1) u = f32[3] parameter(2) c = "
     "f32[10] scatter(b, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
     "index_vector_dim=1, to_apply=add_f32 ROOT r = f32[10] add(b, c) }"},
    {"scatter_bf16",
     "ENTRY e { a = bf16[10] parameter(0) i = s32[30,1] parameter(1) u = bf16[30] parameter(2) ROOT c = bf16[10] "
     "scatter(a, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
     "index_vector_dim=1, to_apply=add_bf16 }",
     0.05},
};
INSTANTIATE_TEST_SUITE_P(Movement, Programs, ::testing::ValuesIn(kMovement),
                         [](const auto& i) { return i.param.name; });

constexpr Case kReductions[] = {
    {"rows",
     "ENTRY e { a = f32[30,70] parameter(0) z = f32[] constant(0) ROOT r = f32[30] reduce(a, z), dimensions={1}, "
     "to_apply=add_f32 }",
     1e-5},
    {"columns",
     "ENTRY e { a = f32[30,70] parameter(0) z = f32[] constant(0) ROOT r = f32[70] reduce(a, z), dimensions={0}, "
     "to_apply=add_f32 }",
     1e-5},
    {"all",
     "ENTRY e { a = f32[30,70] parameter(0) z = f32[] parameter(1) ROOT r = f32[] reduce(a, z), dimensions={0,1}, "
     "to_apply=add_f32 }",
     1e-4},
    {"middle",
     "ENTRY e { a = f32[5,30,7] parameter(0) z = f32[] constant(-inf) ROOT r = f32[5,7] reduce(a, z), dimensions={1}, "
     "to_apply=max_f32 }"},
    {"empty",
     "ENTRY e { a = f32[5,0] parameter(0) z = f32[] parameter(1) ROOT r = f32[5] reduce(a, z), dimensions={1}, "
     "to_apply=add_f32 }"},
    {"bytes",
     "ENTRY e { a = s8[5,200] parameter(0) z = s8[] constant(0) f = s8[1,200] slice(a), slice={[1:2], [0:200]} d = "
     "s8[200] reshape(f) b = u8[200] convert(d) y = u8[] constant(3) g = u8[] reduce(b, y), dimensions={0}, "
     "to_apply=add_u8 h = s8[5] reduce(a, z), dimensions={1}, to_apply=add_s8 ROOT r = (s8[5], u8[]) tuple(h, g) }"},
    {"halves",
     "ENTRY e { a = bf16[8,33] parameter(0) z = bf16[] constant(0) b = f16[8,33] convert(a) y = f16[] constant(0) c = "
     "bf16[8] reduce(a, z), dimensions={1}, to_apply=add_bf16 d = f16[33] reduce(b, y), dimensions={0}, "
     "to_apply=add_f16 ROOT r = (bf16[8], f16[33]) tuple(c, d) }",
     0.1},
    {"complex",
     "ENTRY e { a = c64[8,33] parameter(0) z = c64[] constant((0, 0)) ROOT c = c64[8] reduce(a, z), dimensions={1}, "
     "to_apply=add_c64 }",
     2e-5},
    {"wide_min",
     "ENTRY e { a = s64[8,33] parameter(0) z = s64[] constant(9223372036854775807) ROOT c = s64[33] reduce(a, z), "
     "dimensions={0}, to_apply=min_s64 }"},
    {"any",
     "ENTRY e { a = f32[40,9] parameter(0) two = f32[] constant(2.5) b = f32[40,9] broadcast(two), dimensions={} p = "
     "pred[40,9] compare(a, b), direction=GT f = pred[] constant(false) ROOT r = pred[40] reduce(p, f), "
     "dimensions={1}, to_apply=or_pred }"},
    {"argmax",
     "ENTRY e { a = f32[20,50] parameter(0) i = s32[20,50] iota(), iota_dimension=1 z = f32[] constant(-inf) o = s32[] "
     "constant(0) ROOT r = (f32[20], s32[20]) reduce(a, i, z, o), dimensions={1}, to_apply=argmax }"},
    {"softmax",
     "ENTRY e { a = f32[16,100] parameter(0) ninf = f32[] constant(-inf) z = f32[] constant(0) m = f32[16] reduce(a, "
     "ninf), dimensions={1}, to_apply=max_f32 mb = f32[16,100] broadcast(m), dimensions={0} s = f32[16,100] "
     "subtract(a, mb) x = f32[16,100] exponential(s) t = f32[16] reduce(x, z), dimensions={1}, to_apply=add_f32 tb = "
     "f32[16,100] broadcast(t), dimensions={0} ROOT r = f32[16,100] divide(x, tb) }"},
    {"layer_norm",
     "ENTRY e { a = f32[16,48] parameter(0) g = f32[48] parameter(1) z = f32[] constant(0) n = f32[] "
     "constant(0.020833334) nb = f32[16] broadcast(n), dimensions={} s = f32[16] reduce(a, z), dimensions={1}, "
     "to_apply=add_f32 mean = f32[16] multiply(s, nb) mb = f32[16,48] broadcast(mean), dimensions={0} d = f32[16,48] "
     "subtract(a, mb) dd = f32[16,48] multiply(d, d) v = f32[16] reduce(dd, z), dimensions={1}, to_apply=add_f32 var = "
     "f32[16] multiply(v, nb) rs = f32[16] rsqrt(var) rb = f32[16,48] broadcast(rs), dimensions={0} x = f32[16,48] "
     "multiply(d, rb) gb = f32[16,48] broadcast(g), dimensions={1} y = f32[16,48] multiply(x, gb) ROOT r = "
     "(f32[16,48], f32[16], f32[16]) tuple(y, mean, rs) }",
     2e-5},
    {"multi_output",
     "ENTRY e { a = f32[64,32] parameter(0) z = f32[] constant(0) b = f32[64,32] tanh(a) s = f32[32] reduce(b, z), "
     "dimensions={0}, to_apply=add_f32 t = f32[64] reduce(b, z), dimensions={1}, to_apply=add_f32 c = f32[64,32] "
     "negate(b) ROOT r = (f32[64,32], f32[32], f32[64], f32[64,32]) tuple(b, s, t, c) }",
     1e-5},
    {"reduce_window_pool",
     "ENTRY e { a = f32[2,12,12,3] parameter(0) z = f32[] constant(-inf) ROOT r = f32[2,6,6,3] reduce-window(a, z), "
     "window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, to_apply=max_f32 }"},
    {"reduce_window_cumsum",
     "ENTRY e { a = f32[40] parameter(0) z = f32[] constant(0) ROOT r = f32[40] reduce-window(a, z), window={size=40 "
     "pad=39_0}, to_apply=add_f32 }",
     2e-5},
    {"reduce_window_dilated",
     "ENTRY e { a = f32[20] parameter(0) z = f32[] constant(1) ROOT r = f32[16] reduce-window(a, z), window={size=3 "
     "pad=1_1 rhs_dilate=3 lhs_dilate=1}, to_apply=mul_f32 }"},
    {"select_and_scatter",
     "ENTRY e { a = f32[8,8] parameter(0) s = f32[4,4] parameter(1) z = f32[] constant(0) ROOT r = f32[8,8] "
     "select-and-scatter(a, s, z), window={size=2x2 stride=2x2}, select=ge_f32, scatter=add_f32 }"},
    {"sort",
     "ENTRY e { a = f32[6,50] parameter(0) ROOT r = f32[6,50] sort(a), dimensions={1}, is_stable=true, to_apply=lt_f32 "
     "}"},
    {"sort_columns",
     "ENTRY e { a = f32[50,6] parameter(0) ROOT r = f32[50,6] sort(a), dimensions={0}, to_apply=lt_f32 }"},
    {"sort_pairs",
     "ENTRY e { k = s32[60] parameter(0) v = f32[60] parameter(1) s = (s32[60], f32[60]) sort(k, v), dimensions={0}, "
     "is_stable=true, to_apply=lt_s32_2 x = f32[60] get-tuple-element(s), index=1 y = f32[60] negate(x) ROOT r = "
     "(f32[60], (s32[60], f32[60])) tuple(y, s) }"},
    {"top_k", "ENTRY e { a = f32[5,40] parameter(0) ROOT r = (f32[5,4], s32[5,4]) topk(a), k=4, largest=true }"},
    {"rng_bit_generator",
     "ENTRY e { s = u64[2] parameter(0) ROOT r = (u64[2], u32[7,5]) rng-bit-generator(s), algorithm=rng_three_fry }"},
    {"fft",
     "ENTRY e { a = c64[3,24] parameter(0) b = c64[3,24] fft(a), fft_type=FFT, fft_length={24} d = c64[3,13] slice(b), "
     "slice={[0:3], [0:13]} c = f32[3,24] fft(d), fft_type=IRFFT, fft_length={24} f = f32[3,24] negate(c) ROOT r = "
     "(c64[3,24], f32[3,24]) tuple(b, f) }",
     2e-5},
};
INSTANTIATE_TEST_SUITE_P(Reductions, Programs, ::testing::ValuesIn(kReductions),
                         [](const auto& i) { return i.param.name; });

constexpr Case kContractions[] = {
    {"matmul",
     "ENTRY e { a = f32[17,33] parameter(0) b = f32[33,20] parameter(1) ROOT r = f32[17,20] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
     2e-5},
    {"free_dims_around",
     "ENTRY e { a = f32[3,4] parameter(0) b = f32[2,4,5] parameter(1) ROOT r = f32[3,2,5] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={1} }",
     2e-5},
    {"contracting_crossed",
     "ENTRY e { a = f32[3,4,5,2] parameter(0) b = f32[5,6,4,2] parameter(1) ROOT r = f32[2,3,6] dot(a, b), "
     "lhs_batch_dims={3}, rhs_batch_dims={3}, lhs_contracting_dims={1,2}, rhs_contracting_dims={2,0} }",
     2e-5},
    {"contracting_exchanged",
     "ENTRY e { a = f32[3,4,6,5] parameter(0) b = f32[3,4,5,7] parameter(1) ROOT r = f32[3,6,7] dot(a, b), "
     "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3,1}, rhs_contracting_dims={2,1} }",
     2e-5},
    {"attention",
     "ENTRY e { q = f32[2,9,4,8] parameter(0) k = f32[2,9,4,8] parameter(1) v = f32[2,9,4,8] parameter(2) s = "
     "f32[2,4,9,9] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, "
     "rhs_contracting_dims={3} t = f32[2,4,9,9] tanh(s) o = f32[2,4,9,8] dot(t, v), lhs_batch_dims={0,1}, "
     "rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={1} p = f32[2,9,4,8] transpose(o), "
     "dimensions={0,2,1,3} ROOT r = f32[2,9,32] reshape(p) }",
     2e-5},
    {"outer", "ENTRY e { a = f32[7] parameter(0) b = f32[5] parameter(1) ROOT r = f32[7,5] dot(a, b) }"},
    {"inner",
     "ENTRY e { a = f32[70] parameter(0) b = f32[70] parameter(1) ROOT r = f32[] dot(a, b), lhs_contracting_dims={0}, "
     "rhs_contracting_dims={0} }",
     2e-5},
    {"matrix_vector",
     "ENTRY e { a = f32[40,70] parameter(0) b = f32[70] parameter(1) c = f32[40] dot(a, b), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0} ROOT r = f32[40] negate(c) }",
     2e-5},
    {"nothing_contracted",
     "ENTRY e { a = f32[3,0] parameter(0) b = f32[0,4] parameter(1) ROOT r = f32[3,4] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} }"},
    {"empty_result",
     "ENTRY e { a = f32[0,3] parameter(0) b = f32[3,4] parameter(1) ROOT r = f32[0,4] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} }"},
    {"transposed_result",
     "ENTRY e { a = f32[17,33] parameter(0) b = f32[33,20] parameter(1) c = f32[17,20] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} d = f32[20,17] transpose(c), dimensions={1,0} ROOT r = "
     "f32[20,17] tanh(d) }",
     2e-5},
    {"integers",
     "ENTRY e { a = s8[17,33] parameter(0) b = s8[33,20] parameter(1) c = s32[17,20] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} d = s32[4,3] parameter(2) f = s32[3,4] parameter(3) g = "
     "s32[4,4] dot(d, f), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT r = (s32[17,20], s32[4,4]) tuple(c, "
     "g) }"},
    {"halves",
     "ENTRY e { a = bf16[17,32] parameter(0) b = bf16[32,20] parameter(1) c = bf16[17,20] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} d = f32[17,20] dot(a, b), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0} f = f16[17,32] convert(a) g = f16[32,20] convert(b) h = f16[17,20] dot(f, g), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT r = (bf16[17,20], f32[17,20], f16[17,20]) tuple(c, d, h) "
     "}",
     0.05},
    {"wide",
     "ENTRY e { a = f64[7,33] parameter(0) b = f64[33,5] parameter(1) ROOT r = f64[7,5] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
     2e-5},
    {"complex",
     "ENTRY e { a = c64[7,33] parameter(0) b = c64[33,5] parameter(1) c = c128[7,33] convert(a) d = c128[33,5] "
     "convert(b) f = c64[7,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} g = c128[7,5] dot(c, d), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT r = (c64[7,5], c128[7,5]) tuple(f, g) }",
     5e-5},
    {"predicates",
     "ENTRY e { a = pred[7,9] parameter(0) b = pred[9,5] parameter(1) ROOT r = pred[7,5] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} }"},
    {"constant_weights",
     "ENTRY e { a = f32[7,2] parameter(0) b = f32[2,3] constant({{1, 2, 3}, {4, 5, 6}}) c = f32[7,3] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT r = f32[7,3] negate(c) }"},
    // Kernels that would need one another through the second product, were the comparison and both selects joined.
    {"no_cycle_of_kernels",
     "ENTRY e { x = f32[8,8] parameter(0) n = f32[8] parameter(1) q = f32[8] parameter(2) d = f32[8,8] dot(x, x), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} s = f32[8,8] subtract(x, d) r = f32[8] dot(s, s), "
     "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1} a = f32[8] add(r, n) "
     "c = pred[8] compare(n, q), direction=GT b = pred[8,8] broadcast(c), dimensions={0} one = f32[8,8] select(b, s, "
     "x) two = f32[8] select(c, a, n) ROOT t = (f32[8,8], f32[8]) tuple(one, two) }",
     1e-4},
    {"in_chain",
     "ENTRY e { a = f32[24,24] parameter(0) b = f32[24,24] dot(a, a), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0} c = f32[24,24] tanh(b) d = f32[24,24] dot(c, a), lhs_contracting_dims={0}, "
     "rhs_contracting_dims={0} f = f32[24,24] add(d, c) ROOT r = f32[24,24] dot(f, c), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={1} }",
     1e-4},
    {"convolution",
     "ENTRY e { a = f32[2,9,9,3] parameter(0) k = f32[3,3,3,8] parameter(1) ROOT r = f32[2,9,9,8] convolution(a, k), "
     "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f }",
     2e-5},
    {"convolution_nchw_strided",
     "ENTRY e { a = f32[2,3,9,9] parameter(0) k = f32[8,3,3,3] parameter(1) ROOT r = f32[2,8,4,4] convolution(a, k), "
     "window={size=3x3 stride=2x2}, dim_labels=bf01_oi01->bf01 }",
     2e-5},
    {"convolution_grouped_dilated",
     "ENTRY e { a = f32[2,9,9,4] parameter(0) k = f32[3,3,1,8] parameter(1) ROOT r = f32[2,9,9,8] convolution(a, k), "
     "window={size=3x3 pad=2_2x2_2 rhs_dilate=2x2}, dim_labels=b01f_01io->b01f, feature_group_count=4 }",
     2e-5},
    {"convolution_transposed",
     "ENTRY e { a = f32[2,5,5,4] parameter(0) k = f32[3,3,4,6] parameter(1) ROOT r = f32[2,11,11,6] convolution(a, k), "
     "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f }",
     2e-5},
    {"convolution_of_weights",
     "ENTRY e { a = f32[2,9,9,3] parameter(0) k = f32[2,7,7,5] parameter(1) ROOT r = f32[3,3,3,5] convolution(a, k), "
     "window={size=7x7}, dim_labels=f01b_i01o->01bf }",
     2e-5},
    {"convolution_1d_3d",
     "ENTRY e { a = f32[2,19,3] parameter(0) k = f32[4,3,8] parameter(1) b = f32[1,5,5,5,2] parameter(2) l = "
     "f32[2,2,2,2,3] parameter(3) c = f32[2,16,8] convolution(a, k), window={size=4}, dim_labels=b0f_0io->b0f d = "
     "f32[1,4,4,4,3] convolution(b, l), window={size=2x2x2}, dim_labels=b012f_012io->b012f ROOT r = (f32[2,16,8], "
     "f32[1,4,4,4,3]) tuple(c, d) }",
     2e-5},
    {"convolution_types",
     "ENTRY e { a = bf16[2,9,9,3] parameter(0) k = bf16[3,3,3,8] parameter(1) b = f64[1,6,6,2] parameter(2) l = "
     "f64[3,3,2,2] parameter(3) c = bf16[2,7,7,8] convolution(a, k), window={size=3x3}, dim_labels=b01f_01io->b01f d = "
     "f64[1,4,4,2] convolution(b, l), window={size=3x3}, dim_labels=b01f_01io->b01f ROOT r = (bf16[2,7,7,8], "
     "f64[1,4,4,2]) tuple(c, d) }",
     0.05},
    // Equal problems have one plan; each instruction has its own operands.
    {"convolutions_with_one_plan",
     "ENTRY e { a = f32[2,9,9,8] parameter(0) k = f32[3,3,8,8] parameter(1) l = f32[3,3,8,8] parameter(2) b = "
     "f32[2,9,9,8] convolution(a, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f c = f32[2,9,9,8] "
     "convolution(b, l), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f d = f32[2,9,9,8] convolution(a, l), "
     "window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f ROOT r = (f32[2,9,9,8], f32[2,9,9,8]) "
     "tuple(c, d) }",
     1e-4},
    {"products_with_one_plan",
     "ENTRY e { a = f32[24,24] parameter(0) k = f32[24,24] parameter(1) l = f32[24,24] parameter(2) b = f32[24,24] "
     "dot(a, k), lhs_contracting_dims={1}, rhs_contracting_dims={0} c = f32[24,24] dot(b, l), "
     "lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0} d = f32[24,24] dot(a, l), lhs_contracting_dims={1}, rhs_contracting_dims={1} ROOT r = "
     "(f32[24,24], f32[24,24]) tuple(c, d) }",
     1e-4},
    {"triangular_solve",
     "ENTRY e { a = f32[4,4] parameter(0) i = s32[4] iota(), iota_dimension=0 r = s32[4,4] broadcast(i), "
     "dimensions={0} c = s32[4,4] broadcast(i), dimensions={1} d = pred[4,4] compare(r, c), direction=EQ n = f32[] "
     "constant(9) nb = f32[4,4] broadcast(n), dimensions={} l = f32[4,4] select(d, nb, a) b = f32[4,3] parameter(1) "
     "ROOT x = f32[4,3] triangular-solve(l, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE }",
     5e-5},
    {"cholesky",
     "ENTRY e { a = f32[5,5] parameter(0) s = f32[5,5] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1} i "
     "= s32[5] iota(), iota_dimension=0 r = s32[5,5] broadcast(i), dimensions={0} c = s32[5,5] broadcast(i), "
     "dimensions={1} d = pred[5,5] compare(r, c), direction=EQ n = f32[] constant(9) nb = f32[5,5] broadcast(n), "
     "dimensions={} m = f32[5,5] add(s, nb) p = f32[5,5] select(d, m, s) ROOT l = f32[5,5] cholesky(p), lower=true }",
     1e-4},
};
INSTANTIATE_TEST_SUITE_P(Contractions, Programs, ::testing::ValuesIn(kContractions),
                         [](const auto& i) { return i.param.name; });

// Batch, free and contracting dims in every order, some of size one.
constexpr Case kOrder[] = {
    {"scatter_of_windows_that_overlap",
     "ENTRY e { x = f32[400] parameter(0) i = s32[3,1] constant({{0},{100},{50}}) u = f32[3,200] parameter(1) ROOT s = "
     "f32[400] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
     "index_vector_dim=1, to_apply=keep_new_f32 }"},
    {"scan_backwards",
     "ENTRY e { x = s32[37] parameter(0) y = s32[3,19,5] parameter(1) z = s32[] constant(0) a = s32[37] "
     "reduce-window(x, z), window={size=37 pad=0_36}, to_apply=first_nonzero b = s32[3,19,5] reduce-window(y, z), "
     "window={size=1x19x1 pad=0_0x0_18x0_0}, to_apply=first_nonzero ROOT r = (s32[37], s32[3,19,5]) tuple(a, b) }"},
    {"largest_with_indices_that_wrap",
     "ENTRY e { x = s32[2,400] parameter(0) i = s8[2,400] iota(), iota_dimension=1 z = s32[] constant(-2147483648) k = "
     "s8[] constant(127) ROOT r = (s32[2], s8[2]) reduce(x, i, z, k), dimensions={1}, to_apply=largest_s8 }"},
    {"control_dependency_on_a_fusion",
     "f { p = f32[8,8] parameter(0) q = f32[8,8] multiply(p, p) ROOT d = f32[8,8] dot(q, p), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0} } ENTRY e { x = f32[8,8] parameter(0) y = f32[8,8] fusion(x), kind=kOutput, calls=f c = "
     "f32[8,8] copy(x), control-predecessors={y} ROOT z = (f32[8,8], f32[8,8]) tuple(c, y) }"},
    // Two reads of one array, of which only one is a transpose.
    {"transpose_beside_a_gather",
     "f { p = f32[64,4096] parameter(0) i = s32[64,1] parameter(1) g = f32[4000,64] gather(p, i), offset_dims={0}, "
     "collapsed_slice_dims={}, operand_batching_dims={0}, start_indices_batching_dims={0}, start_index_map={1}, "
     "index_vector_dim=1, slice_sizes={1,4000} t = f32[4096,64] transpose(p), dimensions={1,0} b = f32[4000,64] "
     "slice(t), slice={[0:4000],[0:64]} ROOT s = f32[4000,64] subtract(g, b) } ENTRY e { p = f32[64,4096] parameter(0) "
     "i = s32[64,1] iota(), iota_dimension=0 ROOT r = f32[4000,64] fusion(p, i), kind=kLoop, calls=f }"},
    {"transpose_beside_its_padded_self",
     "f { p = f32[64,4096] parameter(0) z = f32[] constant(3) t = f32[4096,64] transpose(p), dimensions={1,0} a = "
     "f32[4096,64] pad(t, z), padding=4000_-4000x0_0 ROOT s = f32[4096,64] subtract(a, t) } ENTRY e { p = "
     "f32[64,4096] parameter(0) ROOT r = f32[4096,64] fusion(p), kind=kLoop, calls=f }"},
};
INSTANTIATE_TEST_SUITE_P(Order, Programs, ::testing::ValuesIn(kOrder), [](const auto& i) { return i.param.name; });

TEST(Contractions, RandomDimensionNumbers) {
  std::mt19937 random(5);
  auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  for (int round = 0; round < 120; ++round) {
    // Kinds of dims: 0 batch, 1 contracting, 2 free.
    std::vector<int> batch(pick(3)), contracting(pick(4));
    for (int& e : batch) e = 1 + pick(4);
    for (int& e : contracting) e = 1 + pick(5);
    std::string text;
    std::vector<int> result = batch;
    std::string shapes[2], batch_dims[2], contracting_dims[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<std::pair<int, int>> dims;  // kind, number
      for (size_t k = 0; k < batch.size(); ++k) dims.emplace_back(0, k);
      for (size_t k = 0; k < contracting.size(); ++k) dims.emplace_back(1, k);
      const int free = pick(3);
      for (int k = 0; k < free; ++k) dims.emplace_back(2, k);
      std::shuffle(dims.begin(), dims.end(), random);
      std::vector<int> sizes, b(batch.size()), c(contracting.size());
      for (size_t at = 0; at < dims.size(); ++at) {
        auto [kind, number] = dims[at];
        if (kind == 0) b[number] = static_cast<int>(at), sizes.push_back(batch[number]);
        if (kind == 1) c[number] = static_cast<int>(at), sizes.push_back(contracting[number]);
        if (kind == 2) sizes.push_back(1 + pick(6)), result.push_back(sizes.back());
      }
      shapes[side] = absl::StrJoin(sizes, ",");
      batch_dims[side] = absl::StrJoin(b, ",");
      contracting_dims[side] = absl::StrJoin(c, ",");
    }
    ProgramRunOptions options;
    options.tolerance = 3e-5;
    options.stored = false;
    const std::string hlo =
        absl::StrCat("HloModule m ENTRY e { a = f32[", shapes[0], "] parameter(0) b = f32[", shapes[1],
                     "] parameter(1) ROOT r = f32[", absl::StrJoin(result, ","), "] dot(a, b), lhs_batch_dims={",
                     batch_dims[0], "}, rhs_batch_dims={", batch_dims[1], "}, lhs_contracting_dims={",
                     contracting_dims[0], "}, rhs_contracting_dims={", contracting_dims[1], "} }");
    EXPECT_EQ(ProgramDifference(hlo, options), "") << hlo;
  }
}

// Special values keep their meaning through fusion and simplification.
TEST(Specials, Elementwise) {
  ProgramRunOptions options;
  options.specials = true;
  for (const OpInfo& info : Operations()) {
    if (info.arity != 1 || !info.operand_types || !Includes(*info.operand_types, PrimitiveType::kF32)) continue;
    EXPECT_EQ(
        ProgramDifference(absl::StrCat("HloModule m ENTRY e { a = f32[200] parameter(0) ROOT r = ", info.text, "(a) }"),
                          options),
        "")
        << info.text;
  }
  for (const char* op : {"add", "multiply", "divide", "maximum", "minimum", "power", "atan2", "remainder"}) {
    EXPECT_EQ(
        ProgramDifference(
            absl::StrCat("HloModule m ENTRY e { a = f32[200] parameter(0) b = f32[200] parameter(1) ROOT r = f32[200] ",
                         op, "(a, b) }"),
            options),
        "")
        << op;
  }
}

TEST(Layouts, OfArgumentsAndResults) {
  EXPECT_EQ(ProgramDifference(
                "HloModule m, entry_computation_layout={(f32[5,7]{0,1}, f32[5,7]{1,0})->f32[5,7]{0,1}}\n"
                "ENTRY e { a = f32[5,7] parameter(0) b = f32[5,7] parameter(1) ROOT r = f32[5,7] subtract(a, b) }"),
            "");
  EXPECT_EQ(ProgramDifference(
                "HloModule m, entry_computation_layout={(f32[5,7,3]{0,2,1})->(f32[5,7,3]{1,0,2}, f32[5,7,3]{0,2,1})}\n"
                "ENTRY e { a = f32[5,7,3] parameter(0) b = f32[5,7,3] negate(a) ROOT r = (f32[5,7,3], f32[5,7,3]) "
                "tuple(b, a) }"),
            "");
  EXPECT_EQ(ProgramDifference("HloModule m, entry_computation_layout={(f32[5,7]{0,1})->f32[5,7]{0,1}}\nENTRY e { ROOT "
                              "a = f32[5,7] parameter(0) }"),
            "");
  EXPECT_EQ(ProgramDifference("HloModule m, entry_computation_layout={(f32[5,7]{0,1}, f32[7,4]{0,1})->f32[5,4]{0,1}}\n"
                              "ENTRY e { a = f32[5,7] parameter(0) b = f32[7,4] parameter(1) ROOT r = f32[5,4] dot(a, "
                              "b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"),
            "");
}

TEST(Aliases, DonatedArgumentsBecomeResults) {
  // In place, crossed, of an argument that is still read, of an argument that is a result as it stands, into a smaller
  // one.
  for (const char* text : {
           "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e { a = f32[50] parameter(0) b = f32[50] "
           "parameter(1) ROOT r = f32[50] add(a, b) }",
           "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }\nENTRY e { a = "
           "f32[50] parameter(0) b = f32[50] parameter(1) ROOT r = (f32[50], f32[50]) tuple(b, a) }",
           "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\nENTRY e { a = f32[50] parameter(0) b = "
           "f32[50] negate(a) c = f32[50] multiply(a, a) d = f32[5,10] reshape(c) f = f32[10,5] transpose(d), "
           "dimensions={1,0} ROOT r = (f32[50], f32[10,5], f32[50]) tuple(b, f, a) }",
           "HloModule m, input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, must-alias) }\nENTRY e { a = "
           "f32[6,6] parameter(0) b = f32[6,6] parameter(1) c = f32[6,6] transpose(a), dimensions={1,0} d = f32[6,6] "
           "add(b, c) f = f32[6,6] dot(d, a), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT r = (f32[6,6], "
           "f32[6,6]) tuple(f, d) }",
           "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e { a = f32[50] parameter(0) u = f32[3] "
           "parameter(1) i = s32[] parameter(2) s = f32[3] dynamic-slice(a, i), dynamic_slice_sizes={3} v = f32[3] "
           "add(s, u) ROOT r = f32[50] dynamic-update-slice(a, v, i) }",
           "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e { a = f32[50] parameter(0) ROOT r = "
           "f32[50] reverse(a), dimensions={0} }",
           "HloModule m, buffer_donor={ (0, {}), (1, {}) }\nENTRY e { a = f32[50] parameter(0) b = s32[50] "
           "parameter(1) c = f32[50] convert(b) d = f32[50] subtract(c, a) ROOT r = (f32[50], f32[50]) tuple(c, d) }",
       }) {
    EXPECT_EQ(ProgramDifference(text), "");
  }
}

TEST(Log, NamesWhatIsInterpreted) {
  std::string error;
  std::vector<std::string> log = GetCompileLog(
      "HloModule m g { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) } "
      "ENTRY e { a = f32[6] parameter(0) n = s32[] parameter(1) d = f32[<=6] set-dimension-size(a, n), dimensions={0} "
      "v = f32[<=6] reverse(d), dimensions={0} z = f32[] constant(0) x = f32[] reduce(v, z), dimensions={0}, "
      "to_apply=g "
      "ROOT y = f32[] negate(x) }",
      &error);
  EXPECT_EQ(error, "");
  std::vector<std::string> interpreted;
  for (const std::string& l : log) {
    if (absl::StartsWith(l, "interpreted: ")) interpreted.push_back(l);
  }
  ASSERT_EQ(interpreted.size(), 1u);
  EXPECT_TRUE(absl::StartsWith(interpreted[0], "interpreted: fusion f32[]: ")) << interpreted[0];
  EXPECT_TRUE(absl::StrContains(interpreted[0], "f32[<=6] is no dense array of static size")) << interpreted[0];
}

// Each group has its own mean, `run` elements of one position belong to a group. All vectors run across groups.
TEST(ProgramCode, ShortGroupsAreReadInVectors) {
  for (int run : {9, 17, 31}) {
    const std::string array = absl::StrCat("f32[2,128,16,", run, "]");
    const std::string program = absl::StrCat(
        kHelpers, "ENTRY e {\n  x = ", array, " parameter(0)\n  zero = f32[] constant(0)\n",
        "  s = f32[2,16] reduce(x, zero), dimensions={1,3}, to_apply=add_f32\n  n = f32[] constant(0.001)\n",
        "  nb = f32[2,16] broadcast(n), dimensions={}\n  m = f32[2,16] multiply(s, nb)\n  mb = ", array,
        " broadcast(m), dimensions={0,2}\n  d = ", array, " subtract(x, mb)\n  q = ", array,
        " multiply(d, d)\n  v = f32[2,16] reduce(q, zero), dimensions={1,3}, to_apply=add_f32\n",
        "  i = f32[2,16] rsqrt(v)\n  ib = ", array, " broadcast(i), dimensions={0,2}\n  ROOT r = ", array,
        " multiply(d, ib)\n}\n");
    ProgramRunOptions options;
    options.tolerance = 2e-5;
    EXPECT_EQ(ProgramDifference(program, options), "") << run;
    std::string error;
    const std::string log = absl::StrJoin(GetCompileLog(program, &error), "\n");
    EXPECT_EQ(error, "");
    EXPECT_TRUE(absl::StrContains(log, absl::StrCat("columns: ", 16 * run, " "))) << log;
    EXPECT_FALSE(absl::StrContains(log, "reductions: 32")) << log;
  }
}

// The mean is a sum with a kept dimension of one element, so that reshapes follow it.
TEST(ProgramCode, NormalizationOfRowsIsOneKernel) {
  const std::string program = absl::StrCat(kHelpers, R"(
ENTRY e {
  x = f32[300,128] parameter(0)
  g = f32[128] parameter(1)
  zero = f32[] constant(0)
  n = f32[] constant(0.0078125)
  nb = f32[300,1] broadcast(n), dimensions={}
  s = f32[300] reduce(x, zero), dimensions={1}, to_apply=add_f32
  kept = f32[300,1] reshape(s)
  mean = f32[300,1] multiply(kept, nb)
  row = f32[300] reshape(mean)
  mb = f32[300,128] broadcast(row), dimensions={0}
  d = f32[300,128] subtract(x, mb)
  q = f32[300,128] multiply(d, d)
  v = f32[300] reduce(q, zero), dimensions={1}, to_apply=add_f32
  r = f32[300] rsqrt(v)
  rb = f32[300,128] broadcast(r), dimensions={0}
  y = f32[300,128] multiply(d, rb)
  gb = f32[300,128] broadcast(g), dimensions={1}
  ROOT z = f32[300,128] multiply(y, gb)
}
)");
  ProgramRunOptions options;
  options.tolerance = 2e-5;
  EXPECT_EQ(ProgramDifference(program, options), "");
  std::string error;
  const std::string log = absl::StrJoin(GetCompileLog(program, &error), "\n");
  EXPECT_EQ(error, "");
  EXPECT_TRUE(absl::StrContains(log, "rows: 300 of 128")) << log;
  EXPECT_FALSE(absl::StrContains(log, "reductions:")) << log;
}

// Short groups whose broadcast is a transpose as well; HLO allows it, StableHLO does not.
TEST(ProgramCode, ShortGroupsInAnotherOrder) {
  ProgramRunOptions options;
  options.tolerance = 2e-5;
  EXPECT_EQ(ProgramDifference(R"(
HloModule m
ENTRY e {
  a = f32[17,16] parameter(0)
  b = f32[2048,16,17] parameter(1)
  x = f32[17,16] exponential(a)
  ab = f32[2048,16,17] broadcast(x), dimensions={2,1}
  s = f32[2048,16,17] subtract(b, ab)
  ROOT r = f32[2048,16,17] multiply(s, s)
}
)",
                              options),
            "");
}

// A large transpose is part of the kernel of its only reader, and a kernel of its own if there are two readers or a
// sum.
TEST(ProgramCode, TransposesOfOneReaderAreNotStored) {
  const std::string begin = absl::StrCat(kHelpers, "ENTRY e {\n  x = f32[130,70] parameter(0)\n",
                                         "  y = f32[70,130] parameter(1)\n  one = f32[] constant(1)\n",
                                         "  ob = f32[70,130] broadcast(one), dimensions={}\n",
                                         "  t = f32[70,130] transpose(x), dimensions={1,0}\n");
  struct {
    const char* end;
    bool is_part;
  } const cases[] = {
      {"  a = f32[70,130] add(t, ob)\n  ROOT r = f32[70,130] multiply(a, y)\n}\n", true},
      {"  a = f32[70,130] add(t, ob)\n  ROOT r = (f32[70,130], f32[70,130]) tuple(a, t)\n}\n", false},
      {"  a = f32[70,130] add(t, y)\n  z = f32[] constant(0)\n  ROOT r = f32[70] reduce(a, z), dimensions={1}, "
       "to_apply=add_f32\n}\n",
       false},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ProgramDifference(begin + c.end), "") << c.end;
    std::string error;
    const std::string log = absl::StrJoin(GetCompileLog(begin + c.end, &error), "\n");
    EXPECT_EQ(error, "");
    EXPECT_EQ(!absl::StrContains(log, "transpose_fusion: kernel"), c.is_part) << log;
    EXPECT_TRUE(absl::StrContains(log, "transpose: tiles")) << log;
  }
}

// A scan by halves as JAX writes it: each level slices, and pads, what the level below has made. Were all of it one
// kernel, its code would double twice with each level, and compiling this one would take hours.
std::string ScanByHalves(const std::string& x, int n, std::string& lines) {
  if (n < 2) return x;
  const int half = n / 2, evens = (n + 1) / 2;
  const std::string tag = absl::StrCat("n", n);
  auto line = [&](const std::string& name, int size, const std::string& operation) {
    absl::StrAppend(&lines, "  ", name, tag, " = f32[", size, "] ", operation, "\n");
    return name + tag;
  };
  const std::string a = line("a", half, absl::StrCat("slice(", x, "), slice={[0:", 2 * half, ":2]}"));
  const std::string b = line("b", half, absl::StrCat("slice(", x, "), slice={[1:", n, ":2]}"));
  const std::string odd = ScanByHalves(line("c", half, absl::StrCat("multiply(", a, ", ", b, ")")), half, lines);
  const std::string head = line("h", evens - 1, absl::StrCat("slice(", odd, "), slice={[0:", evens - 1, "]}"));
  const std::string rest = line("s", evens - 1, absl::StrCat("slice(", x, "), slice={[2:", n, ":2]}"));
  const std::string first = line("f", 1, absl::StrCat("slice(", x, "), slice={[0:1]}"));
  const std::string product = line("p", evens - 1, absl::StrCat("multiply(", head, ", ", rest, ")"));
  const std::string even = line("e", evens, absl::StrCat("concatenate(", first, ", ", product, "), dimensions={0}"));
  const std::string left = line("l", n, absl::StrCat("pad(", even, ", zero), padding=0_", n - 2 * evens + 1, "_1"));
  const std::string right = line("r", n, absl::StrCat("pad(", odd, ", zero), padding=1_", n - 2 * half, "_1"));
  return line("t", n, absl::StrCat("add(", left, ", ", right, ")"));
}

TEST(ProgramCode, ScanByHalvesStaysSmall) {
  for (int n : {30, 129}) {
    std::string lines;
    const std::string result = ScanByHalves("x", n, lines);
    EXPECT_EQ(ProgramDifference(absl::StrCat("HloModule m\nENTRY e {\n  x = f32[", n,
                                             "] parameter(0)\n  zero = f32[] constant(0)\n", lines,
                                             "  ROOT root = f32[", n, "] copy(", result, ")\n}\n")),
              "");
  }
}

// The code of a kernel contains an operand once for each time that it stands in the concatenation.
TEST(ProgramCode, RepeatedOperandsStaySmall) {
  std::string lines, x = "x";
  for (int level = 1, n = 3; level <= 11; ++level, n *= 2) {
    const std::string y = absl::StrCat("y", level), next = absl::StrCat("c", level);
    absl::StrAppend(&lines, "  ", y, " = f32[", n, "] add(", x, ", ", x, ")\n");
    absl::StrAppend(&lines, "  ", next, " = f32[", 2 * n, "] concatenate(", y, ", ", y, "), dimensions={0}\n");
    x = next;
  }
  EXPECT_EQ(ProgramDifference(absl::StrCat("HloModule m\nENTRY e {\n  x = f32[3] parameter(0)\n", lines,
                                           "  ROOT root = f32[6144] negate(", x, ")\n}\n")),
            "");
}

// A rotation along each of many short dimensions. A kernel has a copy of its code for each element of few of them only;
// along the others the code would have both operands of each concatenate, and double with each.
TEST(ProgramCode, RotationsOfManyDimensionsStaySmall) {
  constexpr int kRank = 16;
  const auto shape = [](int d, int extent) {
    std::vector<int> dims(kRank, 2);
    if (d >= 0) dims[static_cast<size_t>(d)] = extent;
    return absl::StrCat("f32[", absl::StrJoin(dims, ","), "]");
  };
  std::string lines, x = "x";
  for (int d = 0; d < kRank; ++d) {
    const auto slice = [&](const std::string& name, int from) {
      std::vector<std::string> ranges(kRank, "[0:2]");
      ranges[static_cast<size_t>(d)] = absl::StrCat("[", from, ":", from + 1, "]");
      absl::StrAppend(&lines, "  ", name, d, " = ", shape(d, 1), " slice(", x, "), slice={", absl::StrJoin(ranges, ","),
                      "}\n");
    };
    slice("a", 1);
    slice("b", 0);
    absl::StrAppend(&lines, "  c", d, " = ", shape(-1, 0), " concatenate(a", d, ", b", d, "), dimensions={", d, "}\n");
    x = absl::StrCat("c", d);
  }
  EXPECT_EQ(ProgramDifference(absl::StrCat("HloModule m\nENTRY e {\n  x = ", shape(-1, 0), " parameter(0)\n", lines,
                                           "  ROOT root = ", shape(-1, 0), " negate(", x, ")\n}\n")),
            "");
}

}  // namespace
}  // namespace backplane::engine
