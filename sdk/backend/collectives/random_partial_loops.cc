#include "sdk/backend/collectives/random_partial_loops.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"

namespace backplane {
namespace {

// The state of a loop: a counter, the stack, the matrix, and what the products are made of.
constexpr char kOuterState[] = "(s32[], f64[2,4,4], f64[4,4], f64[3,2,4])";
constexpr char kInnerState[] = "(s32[], f64[2,4,4], f64[4,4], f64[2,4])";

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {
    const char* const kPartial[] = {
        "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={unreduced}}",
        "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={unreduced}}",
        "{devices=[1,1,2,2]<=[2,2] last_tile_dims={unreduced,replicated}}",
        "{devices=[1,1,4]<=[4] last_tile_dims={unreduced}}",
    };
    partial_ = kPartial[Pick(4)];
  }

  std::string Make() {
    std::string text = "HloModule loops, num_partitions=4\n";
    absl::StrAppend(&text, Condition("inner_condition", kInnerState, 2), Condition("outer_condition", kOuterState, 3),
                    Body("inner_body", true), Body("outer_body", false));
    absl::SubstituteAndAppend(&text, R"(ENTRY entry {
  input = f64[3,2,4] parameter(0)
  start = f64[4,4] parameter(1)
  sharded = f64[3,2,4] custom-call(input), custom_call_target="Sharding", sharding={devices=[1,2,2]<=[4]}
  zero = s32[] constant(0)
  nothing = f64[] constant(0)
  empty = f64[2,4,4] broadcast(nothing), dimensions={}
  none = f64[4,4] broadcast(nothing), dimensions={}
  state = $0 tuple(zero, empty, $1, sharded)
  loop = $0 while(state), condition=outer_condition, body=outer_body
  stack = f64[2,4,4] get-tuple-element(loop), index=1
  matrix = f64[4,4] get-tuple-element(loop), index=2
  square = f64[2,4,4] multiply(stack, stack)
  ROOT results = (f64[2,4,4], f64[4,4], f64[2,4,4]) tuple(stack, matrix, square)
}
)",
                              kOuterState, Pick(2) == 0 ? "none" : "start");
    return text;
  }

 private:
  uint32_t Pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  // Mostly one of the newest.
  const std::string& PickFrom(const std::vector<std::string>& names) {
    const size_t last = names.size() - std::min<size_t>(names.size(), Pick(10) < 7 ? 4 : names.size());
    return names[last + Pick(static_cast<uint32_t>(names.size() - last))];
  }

  static std::string Condition(const char* name, const char* state, int trip_count) {
    return absl::Substitute(R"($0 {
  state = $1 parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] constant($2)
  ROOT goes_on = pred[] compare(i, n), direction=LT
}
)",
                            name, state, trip_count);
  }

  std::string Body(const char* name, bool is_inner) {
    const char* const state = is_inner ? kInnerState : kOuterState;
    std::string text = absl::Substitute(R"($0 {
  state = $1 parameter(0)
  i = s32[] get-tuple-element(state), index=0
  stack = f64[2,4,4] get-tuple-element(state), index=1
  matrix = f64[4,4] get-tuple-element(state), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  nothing = f64[] constant(0)
  three = f64[] constant(3)
  empty = f64[2,4,4] broadcast(nothing), dimensions={}
  none = f64[4,4] broadcast(nothing), dimensions={}
  factor = f64[4,4] broadcast(three), dimensions={}
)",
                                        name, state);
    if (is_inner) {
      absl::StrAppend(&text, "  x = f64[2,4] get-tuple-element(state), index=3\n");
    } else {
      absl::StrAppend(&text, R"(  xs = f64[3,2,4] get-tuple-element(state), index=3
  slice = f64[1,2,4] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,2,4}
  x = f64[2,4] reshape(slice)
)");
    }
    absl::SubstituteAndAppend(&text,
                              R"(  product = f64[4,4] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  partial = f64[4,4] custom-call(product), custom_call_target="Sharding", sharding=$0
)",
                              partial_);
    matrices_ = {"factor", "none", "matrix", "partial"};
    stacks_ = {"empty", "stack"};
    if (!is_inner && Pick(5) < 3) {
      const char* const matrix[] = {"none", "matrix", "partial"};
      absl::SubstituteAndAppend(&text, R"(  inner_x = f64[2,4] negate(x)
  inner_state = $0 tuple(zero, $1, $2, inner_x)
  inner = $0 while(inner_state), condition=inner_condition, body=inner_body
  inner_stack = f64[2,4,4] get-tuple-element(inner), index=1
  inner_matrix = f64[4,4] get-tuple-element(inner), index=2
)",
                                kInnerState, Pick(3) == 0 ? "stack" : "empty", matrix[Pick(3)]);
      matrices_.push_back("inner_matrix");
      stacks_.push_back("inner_stack");
    }
    for (uint32_t n = 1 + Pick(8); n > 0; --n) absl::StrAppend(&text, Operation(absl::StrCat("v", n)));
    const std::string stack = PickFrom(stacks_);
    std::string matrix = PickFrom(matrices_);
    if (Pick(2) == 0) {
      absl::SubstituteAndAppend(
          &text, "  kept = f64[4,4] custom-call($0), custom_call_target=\"Sharding\", sharding=$1\n", matrix, partial_);
      matrix = "kept";
    }
    if (is_inner) absl::StrAppend(&text, "  last = f64[2,4] add(x, x)\n");
    absl::SubstituteAndAppend(&text, R"(  next = s32[] add(i, one)
  ROOT result = $0 tuple(next, $1, $2, $3)
}
)",
                              state, stack, matrix, is_inner ? "last" : "xs");
    return text;
  }

  // One operation, with the helpers that it needs. `v` is its name.
  std::string Operation(const std::string& v) {
    const std::string a = PickFrom(matrices_), b = PickFrom(matrices_), s = PickFrom(stacks_), t = PickFrom(stacks_);
    switch (Pick(13)) {
      case 0:
        return AddMatrix(v, absl::Substitute("add($0, $1)", a, b));
      case 1:
        return AddMatrix(v, absl::Substitute("subtract($0, $1)", a, b));
      case 2:
        return AddMatrix(v, absl::Substitute("negate($0)", a));
      case 3:
        return AddMatrix(v, absl::Substitute("transpose($0), dimensions={1,0}", a));
      case 4:
        return AddMatrix(v, absl::Substitute("multiply($0, $1)", a, Pick(2) == 0 ? "factor" : b));
      case 5:
        return AddMatrix(v, absl::Substitute("custom-call($0), custom_call_target=\"Sharding\", sharding=$1", a,
                                             Pick(3) == 0 ? "{replicated}" : partial_));
      case 6:
        return absl::Substitute("  $0.flat = f64[16] reshape($1)\n", v, a) +
               AddMatrix(v, absl::Substitute("reshape($0.flat)", v));
      case 7:
        return absl::Substitute("  $0.part = f64[2,2] dynamic-slice($1, i, one), dynamic_slice_sizes={2,2}\n", v, a) +
               AddMatrix(v, absl::Substitute("dynamic-update-slice($0, $1.part, one, i)", b, v));
      case 8:
        return absl::Substitute("  $0.row = f64[1,4,4] dynamic-slice($1, i, zero, zero), dynamic_slice_sizes={1,4,4}\n",
                                v, s) +
               AddMatrix(v, absl::Substitute("reshape($0.row)", v));
      case 9:
        return absl::Substitute("  $0.row = f64[1,4,4] $1\n", v,
                                Pick(2) == 0 ? absl::Substitute("reshape($0)", a)
                                             : absl::Substitute("broadcast($0), dimensions={1,2}", a)) +
               AddStack(v, absl::Substitute("dynamic-update-slice($0, $1.row, i, zero, zero)", s, v));
      case 10:
        return AddStack(v, absl::Substitute("$0($1, $2)", Pick(2) == 0 ? "add" : "subtract", s, t));
      case 11:
        return AddStack(v, absl::Substitute("broadcast($0), dimensions={1,2}", a));
      default:
        return AddMatrix(v, absl::Substitute("maximum($0, $1)", a, b));
    }
  }

  std::string AddMatrix(const std::string& v, const std::string& operation) {
    matrices_.push_back(v);
    return absl::Substitute("  $0 = f64[4,4] $1\n", v, operation);
  }
  std::string AddStack(const std::string& v, const std::string& operation) {
    stacks_.push_back(v);
    return absl::Substitute("  $0 = f64[2,4,4] $1\n", v, operation);
  }

  std::mt19937 random_;
  std::string partial_;                         // the annotation of a partial matrix
  std::vector<std::string> matrices_, stacks_;  // the values of the computation that is being written
};

}  // namespace

std::string MakeRandomPartialLoops(uint32_t seed) { return Generator(seed).Make(); }

}  // namespace backplane
