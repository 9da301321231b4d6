#include "plugins/tpu_emulator/program/build_schedule.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/tpu_emulator/program/program_testing.h"
#include "plugins/tpu_emulator/program/schedule_cost.h"

namespace backplane::tpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Machine& V5e() { return *FindMachine("v5e"); }

constexpr char kProduct[] = R"(HloModule m
ENTRY e {
  a = bf16[4096,4096] parameter(0), metadata={op_name="x" source_file="f.py" source_line=3}
  w = bf16[4096,4096] parameter(1)
  ROOT d = bf16[4096,4096] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot" source_file="f.py" source_line=4}
})";

TEST(BuildSchedule, TimesAProduct) {
  const Schedule s = PrepareFromText(kProduct).schedule;
  ASSERT_EQ(s.kernels.size(), 1u);
  const ScheduledKernel& k = s.kernels[0];
  EXPECT_EQ(k.category, "matmul");
  EXPECT_EQ(k.origin.source_line, 4);
  EXPECT_EQ(k.flops, 2.0 * 4096 * 4096 * 4096);
  EXPECT_EQ(k.time.bound, Unit::kMxu);
  // A published wall clock: 827.3 microseconds with some 100 of dispatch.
  EXPECT_NEAR(s.seconds + V5e().dispatch_microseconds * 1e-6, 827.3e-6, 0.15 * 827.3e-6);
  EXPECT_EQ(k.hbm_bytes, 3.0 * 4096 * 4096 * 2);
  EXPECT_GE(s.seconds, k.time.roofline_seconds);
  EXPECT_EQ(s.hbm_peak, 3 * 4096 * 4096 * 2);
  EXPECT_THAT(s.hbm_in_use, ElementsAre(s.hbm_peak));
  EXPECT_EQ(s.buffers.size(), 3u);
  EXPECT_LE(k.scoped_vmem_bytes, V5e().scoped_vmem_bytes);
}

std::string LoopText(absl::string_view limit) {
  return absl::StrReplaceAll(R"(HloModule m
cond { s = (s32[], f32[1024,1024], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
       l = s32[] get-tuple-element(s), index=2 n = s32[] $limit ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[1024,1024], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
       x = f32[1024,1024] get-tuple-element(s), index=1 o = s32[] constant(1) j = s32[] add(i, o)
       l = s32[] get-tuple-element(s), index=2
       y = f32[1024,1024] sine(x) ROOT t = (s32[], f32[1024,1024], s32[]) tuple(j, y, l) }
ENTRY e { x = f32[1024,1024] parameter(0) l = s32[] parameter(1) o = s32[] constant(0)
          b = f32[1024,1024] cosine(x)
          t = (s32[], f32[1024,1024], s32[]) tuple(o, b, l)
          w = (s32[], f32[1024,1024], s32[]) while(t), condition=cond, body=body
          g = f32[1024,1024] get-tuple-element(w), index=1
          ROOT r = f32[1024,1024] exponential(g) })",
                             {{"$limit", limit}});
}

TEST(BuildSchedule, LoopsCountTripCountTimes) {
  const Schedule s = PrepareFromText(LoopText("constant(7)")).schedule;
  ASSERT_EQ(s.loops.size(), 1u);
  EXPECT_TRUE(s.loops[0].known);
  EXPECT_EQ(s.loops[0].trip_count, 7);
  ASSERT_EQ(s.kernels.size(), 3u);
  const ScheduledKernel &before = s.kernels[0], &inside = s.kernels[1], &after = s.kernels[2];
  EXPECT_EQ(inside.executions, 7);
  EXPECT_EQ(inside.loop, 0);
  EXPECT_EQ(after.executions, 1);
  EXPECT_DOUBLE_EQ(inside.start_seconds, before.time.seconds);
  EXPECT_DOUBLE_EQ(after.start_seconds, before.time.seconds + 7 * inside.time.seconds);
  EXPECT_DOUBLE_EQ(s.seconds, after.start_seconds + after.time.seconds);
  EXPECT_EQ(s.transcendentals, 9.0 * 1024 * 1024);
  EXPECT_THAT(s.notes, IsEmpty());
  const NamedValues cost = ScheduleCost(s);
  EXPECT_FLOAT_EQ(std::get<float>(cost.at("transcendentals")), 9.0f * 1024 * 1024);
  EXPECT_FLOAT_EQ(std::get<float>(cost.at("optimal_seconds")), static_cast<float>(s.seconds));
  EXPECT_FLOAT_EQ(std::get<float>(cost.at("kernels")), 9.0f);
}

TEST(BuildSchedule, LimitsTheExecutionsOfNestedLoops) {
  std::string text = "HloModule m\n";
  const std::string state = "(s32[], f32[8,128])";
  for (int k = 0; k < 3; ++k) {
    const std::string inner =
        absl::StrCat("it = ", state, " tuple(z, x)\nw = ", state, " while(it), condition=c", k - 1, ", body=b", k - 1,
                     "\ny = f32[8,128] get-tuple-element(w), index=1\n");
    absl::StrAppend(&text, "c", k, " {\np = ", state, " parameter(0)\ni = s32[] get-tuple-element(p), index=0\n",
                    "n = s32[] constant(2000000000)\nROOT r = pred[] compare(i, n), direction=LT\n}\n", "b", k,
                    " {\np = ", state, " parameter(0)\ni = s32[] get-tuple-element(p), index=0\n",
                    "x = f32[8,128] get-tuple-element(p), index=1\no = s32[] constant(1)\nz = s32[] constant(0)\n",
                    "j = s32[] add(i, o)\n", k == 0 ? "y = f32[8,128] sine(x)\n" : inner, "ROOT t = ", state,
                    " tuple(j, y)\n}\n");
  }
  absl::StrAppend(&text, "ENTRY e {\nx = f32[8,128] parameter(0)\nz = s32[] constant(0)\nit = ", state,
                  " tuple(z, x)\nw = ", state,
                  " while(it), condition=c2, body=b2\nROOT y = f32[8,128] get-tuple-element(w), index=1\n}\n");
  const Schedule s = PrepareFromText(text).schedule;
  ASSERT_EQ(s.loops.size(), 3u);
  for (const ScheduledLoop& l : s.loops) EXPECT_EQ(l.trip_count, 2'000'000'000);
  int64_t most = 0;
  for (const ScheduledKernel& k : s.kernels) most = std::max(most, k.executions);
  EXPECT_EQ(most, INT64_MAX);
  EXPECT_GE(s.transcendentals, 1024 * 9e18);
}

TEST(BuildSchedule, NotesAnUnknownTripCount) {
  const Schedule s = PrepareFromText(LoopText("add(l, l)")).schedule;
  ASSERT_EQ(s.loops.size(), 1u);
  EXPECT_FALSE(s.loops[0].known);
  ASSERT_EQ(s.notes.size(), 1u);
  EXPECT_THAT(s.notes[0], HasSubstr("is unknown at compile time"));
}

TEST(BuildSchedule, CountsTheSlowestBranch) {
  const Schedule s = PrepareFromText(R"(HloModule m
little { x = f32[2048,2048] parameter(0) ROOT y = f32[2048,2048] negate(x) }
much { x = f32[2048,2048] parameter(0) ROOT y = f32[2048,2048] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest} }
ENTRY e { p = pred[] parameter(0) x = f32[2048,2048] parameter(1)
          ROOT c = f32[2048,2048] conditional(p, x, x), true_computation=little, false_computation=much })")
                         .schedule;
  ASSERT_EQ(s.kernels.size(), 1u);
  EXPECT_EQ(s.kernels[0].category, "matmul");
  ASSERT_EQ(s.notes.size(), 1u);
  EXPECT_THAT(s.notes[0], HasSubstr("is counted, number 1"));
}

// As in the maker's compiler: one branch is fast and needs 256 MiB, the other one is slow and needs 64. 256 MiB count.
TEST(BuildSchedule, ReservesMemoryForTheLargestBranch) {
  const auto peak = [](absl::string_view first, absl::string_view second) {
    const PreparedProgram p = PrepareFromText(absl::StrCat(R"(HloModule m
wide { x = f32[4096,4096] parameter(0)
       t = f32[4096,8] slice(x), slice={[0:4096], [0:8]}
       u = f32[8,4096] slice(x), slice={[0:8], [0:4096]}
       v = f32[8,16384] concatenate(u, u, u, u), dimensions={1}
       w = f32[4096,16384] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
       ROOT y = f32[4096,4096] slice(w), slice={[0:4096], [12288:16384]} }
long { x = f32[4096,4096] parameter(0)
       a = f32[4096,4096] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
       b = f32[4096,4096] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
       ROOT c = f32[4096,4096] dot(b, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest} }
ENTRY e { p = pred[] parameter(0) x = f32[4096,4096] parameter(1)
          c = f32[4096,4096] conditional(p, x, x), true_computation=)",
                                                           first, ", false_computation=", second, R"(
          ROOT n = f32[4096,4096] negate(c) })"));
    return p.schedule.hbm_peak;
  };
  const int64_t alone = peak("long", "long"), beside = peak("wide", "long");
  EXPECT_GE(beside - alone, int64_t{100} << 20);
  EXPECT_EQ(beside, peak("long", "wide"));
}

// The walk of a branch that does not count leaves nothing behind, and costs no more than the branch.
TEST(BuildSchedule, WalksManyConditionals) {
  constexpr int kCount = 4000;
  std::string text = absl::StrCat(R"(HloModule m
little { x = f32[256,256] parameter(0) ROOT y = f32[256,256] add(x, x) }
much { x = f32[256,256] parameter(0) ROOT y = f32[256,256] sine(x) }
ENTRY e {
  x = f32[256,256] parameter(0)
  p = pred[] parameter(1)
)");
  std::string previous = "x";
  for (int k = 0; k < kCount; ++k) {
    absl::StrAppend(&text, "c", k, " = f32[256,256] conditional(p, ", previous, ", ", previous,
                    "), true_computation=little, false_computation=much\n");
    previous = absl::StrCat("c", k);
  }
  const Schedule s = PrepareFromText(absl::StrCat(text, "ROOT r = f32[256,256] negate(", previous, ")\n}")).schedule;
  EXPECT_EQ(s.kernels.size(), kCount + 1u);
  EXPECT_EQ(s.buffers.size(), kCount + 3u);
  EXPECT_EQ(s.notes.size(), size_t{kCount});
}

// x -> tanh (4 MiB, stays in VMEM) -> sum and product.
TEST(BuildSchedule, ShortLivedValuesStayInVmem) {
  constexpr char kText[] = R"(HloModule m
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
ENTRY e {
  a = f32[$n,1024] parameter(0)
  z = f32[] constant(0)
  t = f32[$n,1024] tanh(a)
  m = f32[$n] reduce(t, z), dimensions={1}, to_apply=add
  b = f32[$n,1024] broadcast(m), dimensions={0}
  ROOT r = f32[$n,1024] divide(t, b)
})";
  PreparedProgram little = PrepareFromText(absl::StrReplaceAll(kText, {{"$n", "1024"}}));
  EXPECT_THAT(little.kernels->ToString(), HasSubstr("S(1)"));
  EXPECT_EQ(little.plan.temporary_bytes, 0);
  double bytes = little.schedule.hbm_bytes;
  EXPECT_EQ(bytes, 2.0 * 4 * 1024 * 1024);  // the argument once, the result once
  PreparedProgram large = PrepareFromText(absl::StrReplaceAll(kText, {{"$n", "131072"}}));
  EXPECT_EQ(large.plan.temporary_bytes, 512 << 20);
  EXPECT_EQ(large.schedule.hbm_bytes, 4.0 * (512 << 20));
  // On v4 it is CMEM.
  EXPECT_THAT(PrepareFromText(absl::StrReplaceAll(kText, {{"$n", "1024"}}), "v4").kernels->ToString(),
              HasSubstr("S(3)"));
}

TEST(BuildSchedule, AnUpdateInALoopIsInPlace) {
  const PreparedProgram p = PrepareFromText(R"(HloModule m
cond { s = (s32[], f32[65536,1024]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(64)
       ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[65536,1024]) parameter(0) i = s32[] get-tuple-element(s), index=0
       x = f32[65536,1024] get-tuple-element(s), index=1 o = s32[] constant(1) j = s32[] add(i, o)
       z = s32[] constant(0) f = f32[] convert(i) u = f32[8,1024] broadcast(f), dimensions={}
       y = f32[65536,1024] dynamic-update-slice(x, u, i, z)
       ROOT t = (s32[], f32[65536,1024]) tuple(j, y) }
ENTRY e { c = f32[] parameter(0) o = s32[] constant(0) b = f32[65536,1024] broadcast(c), dimensions={}
          t = (s32[], f32[65536,1024]) tuple(o, b)
          w = (s32[], f32[65536,1024]) while(t), condition=cond, body=body
          ROOT g = f32[65536,1024] get-tuple-element(w), index=1 })");
  const int64_t whole = int64_t{65536} * 1024 * 4;
  EXPECT_LT(p.plan.peak_bytes, whole + (1 << 20)) << "the array is there once";
  for (const ScheduledKernel& k : p.schedule.kernels) {
    if (k.loop == 0) {
      EXPECT_LE(k.hbm_bytes, 2 * 8 * 1024 * 4) << k.name << " moves the update only";
    }
  }
}

constexpr char kBig[] = R"(HloModule big, entry_computation_layout={(f32[8388608,8,4]{2,1,0:T(8,128)})->f32[8388608]{0}}
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
ENTRY e {
  x = f32[8388608,8,4] parameter(0), metadata={op_name="state" source_file="train.py" source_line=41}
  z = f32[] constant(0)
  ROOT s = f32[8388608] reduce(x, z), dimensions={1,2}, to_apply=add
})";

TEST(BuildSchedule, ErrorsNameTheArrayAndItsSourceLine) {
  const absl::Status refused = PrepareProgram(ParseProgram(kBig), V5e()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.message());
  EXPECT_THAT(message, HasSubstr("exceeds available HBM (15.75G)"));
  EXPECT_THAT(message, HasSubstr("source_file=\"train.py\" source_line=41"));
  const PreparedProgram fits = PrepareFromText(kBig, "v5p");
  ASSERT_FALSE(fits.schedule.buffers.empty());
  EXPECT_THAT(fits.schedule.buffers[0].remedy, HasSubstr("it takes 1.00G instead of 32.00G"));
}

// Two products in a row: the second one's weights are prefetched while the first one computes.
constexpr char kTwoProducts[] = R"(HloModule two
ENTRY e {
  x = bf16[2048,4096] parameter(0)
  w = bf16[4096,4096] parameter(1)
  y = bf16[2048,4096] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = bf16[4096,4096] parameter(2)
  ROOT z = bf16[2048,4096] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

TEST(BuildSchedule, PrefetchesAreInTheProgramText) {
  for (const auto& [chip, space] : {std::pair<const char*, const char*>{"v5e", "S(1)"}, {"v4", "S(3)"}}) {
    const PreparedProgram p = PrepareFromText(kTwoProducts, chip);
    const Schedule& s = p.schedule;
    ASSERT_EQ(s.kernels.size(), 2u);
    ASSERT_FALSE(s.prefetches.empty()) << chip;
    const ScheduledPrefetch& second = s.prefetches.back();
    EXPECT_EQ(s.buffers[static_cast<size_t>(second.buffer)].name, "v") << chip;
    EXPECT_EQ(second.kernel, 1);
    EXPECT_EQ(second.first_kernel, 0);
    EXPECT_EQ(second.wait_seconds, 0);
    EXPECT_EQ(second.bytes, 4096 * 4096 * 2);
    EXPECT_NEAR(second.seconds, 4096 * 4096 * 2 / FindMachine(chip)->HbmBytesPerSecond(), 1e-9);
    // HBM is busy with the copy during the first kernel, and never longer than a kernel takes.
    double ahead = 0;
    for (const ScheduledKernel& k : s.kernels) {
      EXPECT_LE(k.time.hbm_cycles + k.prefetch_cycles, k.time.cycles * (1 + 1e-9));
      ahead += k.prefetch_cycles;
    }
    double copied = 0;
    for (const ScheduledPrefetch& c : s.prefetches) copied += c.seconds - c.wait_seconds;
    EXPECT_NEAR(ahead, copied * FindMachine(chip)->CyclesPerSecond(), 1);

    const std::string text = p.kernels->entry()->ToString();
    const size_t start = text.find("copy-start(%v)"),
                 first = text.find(" dot(") != std::string::npos ? text.find(" dot(") : text.find("fusion(");
    ASSERT_NE(start, std::string::npos) << text;
    EXPECT_THAT(text, HasSubstr(absl::StrCat("u32[]{:S(2)}) copy-start(%v)")));
    EXPECT_THAT(text, HasSubstr(absl::StrCat(space, "} copy-done(")));
    EXPECT_LT(start, first);                                  // before the first product
    EXPECT_GT(text.rfind("copy-done("), first);               // after it
    EXPECT_LT(text.rfind("copy-done("), text.rfind("ROOT"));  // and before the second
  }
}

// An operand that an earlier kernel makes cannot be copied before that kernel ends. In a loop, the copy stays within an
// iteration.
TEST(BuildSchedule, PrefetchesBeginAfterTheirOperandIsComputed) {
  const PreparedProgram p = PrepareFromText(R"(HloModule m
cond { s = (s32[], bf16[4096,4096], bf16[8,4096]) parameter(0) i = s32[] get-tuple-element(s), index=0
       n = s32[] constant(10) ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], bf16[4096,4096], bf16[8,4096]) parameter(0) i = s32[] get-tuple-element(s), index=0
       x = bf16[8,4096] get-tuple-element(s), index=2 o = s32[] constant(1) j = s32[] add(i, o)
       t = bf16[8,4096] tanh(x)
       e = bf16[8,4096] exponential(t)
       w = bf16[4096,4096] get-tuple-element(s), index=1
       y = bf16[8,4096] dot(e, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
       ROOT r = (s32[], bf16[4096,4096], bf16[8,4096]) tuple(j, w, y) }
ENTRY e { w = bf16[4096,4096] parameter(0) x = bf16[8,4096] parameter(1) o = s32[] constant(0)
          t = (s32[], bf16[4096,4096], bf16[8,4096]) tuple(o, w, x)
          ROOT l = (s32[], bf16[4096,4096], bf16[8,4096]) while(t), condition=cond, body=body })");
  for (const ScheduledPrefetch& c : p.schedule.prefetches) {
    const ScheduledKernel &first = p.schedule.kernels[static_cast<size_t>(c.first_kernel)],
                          &reads = p.schedule.kernels[static_cast<size_t>(c.kernel)];
    EXPECT_EQ(first.loop, reads.loop);
  }
}

TEST(BuildSchedule, ARefusedProgramHasASchedule) {
  Schedule s;
  PrepareOptions options;
  options.rejected_schedule = &s;
  const absl::Status status = PrepareProgram(ParseProgram(kBig), V5e(), options).status();
  ASSERT_FALSE(status.ok());
  ASSERT_TRUE(s.refusal.has_value());
  EXPECT_EQ(s.refusal->message, status.message());
  EXPECT_EQ(s.refusal->space, Space::kHbm);
  EXPECT_EQ(s.refusal->required_bytes, s.hbm_peak);
  EXPECT_EQ(s.refusal->limit_bytes, V5e().hbm_bytes);
  ASSERT_FALSE(s.refusal->buffers.empty());
  EXPECT_EQ(s.buffers[static_cast<size_t>(s.refusal->buffers[0])].origin.source_line, 41);
  int64_t bytes = 0;
  for (int64_t b : s.refusal->buffers) bytes += s.buffers[static_cast<size_t>(b)].padded_bytes;
  EXPECT_EQ(bytes, s.refusal->required_bytes);
  EXPECT_EQ(s.hbm_in_use[static_cast<size_t>(s.refusal->kernel)], s.refusal->required_bytes);
  EXPECT_THAT(s.refusal->remedies, ::testing::Contains(HasSubstr("without it the program fits")));
  EXPECT_THAT(s.refusal->remedies, ::testing::Contains(HasSubstr("Known chips with enough memory: v5p")));
  EXPECT_FALSE(PrepareFromText(kBig, "v5p").schedule.refusal.has_value());
}

// The time does not depend on TILEDTPU_F64: the machine always computes with pairs, and an exponential is hundreds of
// f32 operations.
TEST(BuildSchedule, F64IsTimedAsPairs) {
  const auto kernel = [](absl::string_view type, absl::string_view op) {
    return PrepareFromText(
               absl::StrReplaceAll("HloModule m\nENTRY e { a = $t[1024,1024] parameter(0) ROOT r = $t[1024,1024] $o }",
                                   {{"$t", type}, {"$o", op}}))
        .schedule.kernels.at(0);
  };
  EXPECT_NEAR(kernel("f64", "add(a, a)").time.vpu_cycles / kernel("f32", "add(a, a)").time.vpu_cycles, 25, 0.1);
  EXPECT_NEAR(kernel("f64", "exponential(a)").time.vpu_cycles / kernel("f32", "exponential(a)").time.vpu_cycles,
              340.0 / 8, 0.1);
  EXPECT_EQ(kernel("f64", "exponential(a)").time.bound, Unit::kVpu);
  EXPECT_EQ(kernel("f64", "add(a, a)").time.bound, Unit::kHbm);
}

TEST(BuildSchedule, RemediesOfARefusal) {
  // Four gigabytes of state in and out, and as much between.
  constexpr char kText[] = R"(HloModule m
ENTRY e { x = f32[32768,32768] parameter(0) y = f32[32768,32768] parameter(1)
  p = f32[32768,32768] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[32768,32768] dot(p, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[32768,32768] add(q, x) ROOT t = (f32[32768,32768], f32[32768,32768]) tuple(p, r) })";
  Schedule s;
  PrepareOptions options;
  options.rejected_schedule = &s;
  ASSERT_FALSE(PrepareProgram(ParseProgram(kText), V5e(), options).ok());
  EXPECT_THAT(s.refusal->remedies, ::testing::Contains(HasSubstr("donate_argnums")));
  EXPECT_THAT(s.refusal->remedies, ::testing::Contains(HasSubstr("needs at least 2 devices")));
  EXPECT_THAT(s.refusal->remedies, Not(::testing::Contains(HasSubstr("Padding takes"))));
}

TEST(BuildSchedule, ADonatedArgumentCountsOnce) {
  constexpr char kText[] = R"(HloModule m$alias
ENTRY e { x = f32[4096,4096] parameter(0) y = f32[4096,4096] add(x, x) ROOT t = (f32[4096,4096]) tuple(y) })";
  const int64_t array = 64 << 20;
  EXPECT_EQ(PrepareFromText(absl::StrReplaceAll(kText, {{"$alias", ""}})).plan.peak_bytes, 2 * array);
  const MemoryPlan plan =
      PrepareFromText(absl::StrReplaceAll(kText, {{"$alias", ", input_output_alias={ {0}: (0, {}, may-alias) }"}}))
          .plan;
  EXPECT_EQ(plan.peak_bytes, array);
  EXPECT_EQ(plan.alias_bytes, array);
  EXPECT_EQ(plan.result_bytes, array);
}

TEST(BuildSchedule, RefusesAKernelWithTooManyWindows) {
  // 2,500 operands of a tile or more each: two windows of one tile take more than the 16 MiB that a kernel may have.
  std::string text = "HloModule m\nENTRY e {\n", list;
  for (int k = 0; k < 2500; ++k) {
    absl::StrAppend(&text, "p", k, " = f32[64,128] parameter(", k, ")\n");
    absl::StrAppend(&list, k > 0 ? ", " : "", "p", k);
  }
  absl::StrAppend(&text, "ROOT c = f32[160000,128] concatenate(", list, "), dimensions={0}\n}");
  Schedule s;
  PrepareOptions options;
  options.rejected_schedule = &s;
  const absl::Status refused = PrepareProgram(ParseProgram(text), V5e(), options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(s.refusal.has_value());
  EXPECT_EQ(s.refusal->space, Space::kVmem);
  EXPECT_EQ(s.refusal->kernel, 0);
  EXPECT_EQ(s.refusal->buffers.size(), 2501u);
  EXPECT_THAT(s.refusal->remedies, ::testing::Contains(HasSubstr("optimization_barrier")));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("CompileTimeScopedVmemOom"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("allocating on stack for %c = f32[160000,128]"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("limit 16.00M"));
}

TEST(BuildSchedule, CollectivesUseTheLinksOfTheirAxes) {
  constexpr char kText[] = R"(HloModule m, num_partitions=16
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
ENTRY e { x = f32[8192,1024] parameter(0)
  ROOT a = f32[8192,1024] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}}, use_global_device_ids=true, to_apply=add })";
  PrepareOptions torus;
  torus.torus = {4, 4};
  const ScheduledKernel ring = PrepareFromText(kText).schedule.kernels.at(0);
  const ScheduledKernel both = PrepareFromText(kText, "v5e", torus).schedule.kernels.at(0);
  EXPECT_EQ(ring.category, "collective");
  EXPECT_EQ(ring.time.bound, Unit::kIci);
  EXPECT_LT(both.time.seconds, 0.7 * ring.time.seconds);
}

TEST(BuildSchedule, NoKernelIsFasterThanTheRoofline) {
  for (const char* chip : {"v4", "v5e", "v5p", "v6e", "tpu7x"}) {
    for (const std::string& text : {std::string(kProduct), LoopText("constant(3)")}) {
      const Schedule s = PrepareFromText(text, chip).schedule;
      double bytes = 0;
      for (const ScheduledKernel& k : s.kernels) {
        EXPECT_GE(k.time.seconds, k.time.roofline_seconds) << chip << " " << k.name;
        bytes += k.hbm_bytes * static_cast<double>(k.executions);
      }
      EXPECT_GE(s.seconds, bytes / (FindMachine(chip)->hbm_gb_per_s * 1e9)) << chip;
    }
  }
}

}  // namespace
}  // namespace backplane::tpu
