#include "core/ir/ops/row_programs_test.h"
#include "core/types/status_macros.h"

namespace backplane::rows {
namespace {

using namespace hlo;  // NOLINT: every line names functions of it

constexpr char kCube[] =
    "{{{10,11,12},{15,16,17}},{{20,21,22},{25,26,27}},{{30,31,32},{35,36,37}},{{40,41,42},{45,46,47}}}";
constexpr char kTable[] = "{{0,1,2},{3,4,5},{6,7,8},{9,10,11}}";

}  // namespace

std::vector<RowProgram> ShapeRows() {
  return {
      ROW("Constant", "{1, 2}",
          {
            return ConstantLiteral(b, Literal::FromValues<int32_t>({2}, {1, 2}));
          }),
      ROW("Iota", "{{0, 1, 2}, {0, 1, 2}}", { return Iota(b, S("s32[2,3]"), 1); }),
      ROW("Parameter", "{1, 2}", { return Parameter(b, 0, S("f32[2]"), "x"); }),  // arguments count from 1

      ROW("Broadcast", "{{2, 2, 2}, {2, 2, 2}}",
          {
            return Broadcast(b, C(b, "f32[]", "2"), {2, 3});
          }),
      ROW("BroadcastInDim", "{{{1,1},{2,2},{3,3}},{{1,1},{2,2},{3,3}}}",
          {
            return BroadcastInDim(b, C(b, "s32[1,3]", "{{1, 2, 3}}"), {2, 3, 2}, {2, 1});
          }),
      ROW("Collapse", "{{10,11,12,15,16,17},{20,21,22,25,26,27},{30,31,32,35,36,37},{40,41,42,45,46,47}}",
          {
            return Collapse(b, C(b, "f32[4,2,3]", kCube), {1, 2});
          }),
      ROW("ConcatInDim", "{{1,2},{3,4},{5,6},{7,8}}",
          {
            return ConcatInDim(b, {C(b, "s32[3,2]", "{{1,2},{3,4},{5,6}}"), C(b, "s32[1,2]", "{{7,8}}")}, 0);
          }),
      ROW("Copy", "{1, 2}", { return Copy(b, C(b, "f32[2]", "{1, 2}")); }),
      ROW("Pad",
          "{{0,1,0,0,2,0,0,3,0},{0,0,0,0,0,0,0,0,0},{0,4,0,0,5,0,0,6,0},{0,0,0,0,0,0,0,0,0},{0,0,0,0,0,0,0,0,0}}",
          {
            return Pad(b, C(b, "s32[2,3]", "{{1,2,3},{4,5,6}}"), C(b, "s32[]", "0"), {{0, 2, 1}, {1, 1, 2}});
          }),
      ROW("Reshape", "{{10,11,12},{15,16,17},{20,21,22},{25,26,27},{30,31,32},{35,36,37},{40,41,42},{45,46,47}}",
          {
            return Reshape(b, C(b, "f32[4,2,3]", kCube), {8, 3});
          }),
      ROW("Reshape (explicit)", "{{5}}", { return Reshape(b, S("f32[1,1]"), C(b, "f32[]", "5")); }),
      ROW("Rev", "{{2,1},{4,3},{6,5}}", { return Rev(b, C(b, "s32[3,2]", "{{1,2},{3,4},{5,6}}"), {1}); }),
      ROW("Transpose", "{{{1,7},{3,9},{5,11}},{{2,8},{4,10},{6,12}}}",
          {
            return Transpose(b, C(b, "s32[2,3,2]", "{{{1,2},{3,4},{5,6}},{{7,8},{9,10},{11,12}}}"), {2, 1, 0});
          }),

      ROW("Slice", "{{7, 8}, {10, 11}}",
          {
            return Slice(b, C(b, "f32[4,3]", kTable), {2, 1}, {4, 3});
          }),
      ROW("DynamicSlice", "{{7, 8}, {10, 11}}",
          {
            return DynamicSlice(b, C(b, "f32[4,3]", kTable), {C(b, "s32[]", "2"), C(b, "s32[]", "1")}, {2, 2});
          }),
      ROW("DynamicUpdateSlice", "{{0,1,2},{3,12,13},{6,14,15},{9,16,17}}",
          {
            return DynamicUpdateSlice(b, C(b, "f32[4,3]", kTable), C(b, "f32[3,2]", "{{12,13},{14,15},{16,17}}"),
                                      {C(b, "s32[]", "1"), C(b, "s32[]", "1")});
          }),
      ROW("Gather", "{{3, 4, 5}, {9, 10, 11}}",
          {
            GatherDimensions dims;
            dims.offset_dims = {1};
            dims.collapsed_slice_dims = {0};
            dims.start_index_map = {0};
            dims.index_vector_dim = 1;
            return Gather(b, C(b, "f32[4,3]", kTable), C(b, "s32[2]", "{1, 9}"), dims, {1, 3}, true);
          }),
      ROW("Scatter", "{101, 2, 303, 4}",
          {
            ScatterDimensions dims;
            dims.inserted_window_dims = {0};
            dims.scatter_dims_to_operand_dims = {0};
            dims.index_vector_dim = 1;
            return Scatter(b, {C(b, "s32[4]", "{1, 2, 3, 4}")}, C(b, "s32[3]", "{0, 2, 7}"),
                           {C(b, "s32[3]", "{100, 300, 700}")}, AddFn(b, PrimitiveType::kS32), dims, true, true);
          }),

      ROW("GetDimensionSize", "5",
          {
            ASSIGN_OR_RETURN(Value v,
                             SetDimensionSize(b, C(b, "f32[10]", "{1,2,3,4,5,6,7,8,9,10}"), C(b, "s32[]", "5"), 0));
            return GetDimensionSize(b, v, 0);
          }),
      ROW("SetDimensionSize", "15",
          {
            ASSIGN_OR_RETURN(Value v,
                             SetDimensionSize(b, C(b, "f32[10]", "{1,2,3,4,5,6,7,8,9,10}"), C(b, "s32[]", "5"), 0));
            return Reduce(b, {v}, {C(b, "f32[]", "0")}, AddFn(b, PrimitiveType::kF32), {0});
          }),
      ROW("DynamicReshape", "{{1,2},{3,4},{5,6}}",
          {
            return DynamicReshape(b, C(b, "s32[2,3]", "{{1,2,3},{4,5,6}}"), {C(b, "s32[]", "3"), C(b, "s32[]", "2")},
                                  {3, 2}, {false, false});
          }),

      ROW("Tuple", "({1, 2}, 5)",
          {
            return Tuple(b, {C(b, "f32[2]", "{1, 2}"), C(b, "s32[]", "5")});
          }),
      ROW("GetTupleElement", "5",
          {
            ASSIGN_OR_RETURN(Value t, Tuple(b, {C(b, "f32[2]", "{1, 2}"), C(b, "s32[]", "5")}));
            return GetTupleElement(b, t, 1);
          }),
      ROW("Call", "3",
          {
            return Call(b, AddFn(b, PrimitiveType::kS32), {C(b, "s32[]", "1"), C(b, "s32[]", "2")});
          }),
      ROW("CompositeCall", "3",
          {
            return CompositeCall(b, AddFn(b, PrimitiveType::kS32), {C(b, "s32[]", "1"), C(b, "s32[]", "2")}, "foo.bar",
                                 "{n = 1 : i32, tensor = dense<1> : tensor<i32>}", 1);
          }),
      ROW("Conditional (predicate)", "-2",
          {
            Computation* negate =
                Fn(b, {"s32[]"}, [](Builder& f, const std::vector<Value>& p) { return Neg(f, p[0]); });
            Computation* same = Fn(b, {"s32[]"}, [](Builder& f, const std::vector<Value>& p) { return Copy(f, p[0]); });
            return Conditional(b, C(b, "pred[]", "false"), C(b, "s32[]", "1"), same, C(b, "s32[]", "2"), negate);
          }),
      ROW("Conditional (branch_index)", "-2",
          {
            Computation* negate =
                Fn(b, {"s32[]"}, [](Builder& f, const std::vector<Value>& p) { return Neg(f, p[0]); });
            Computation* same = Fn(b, {"s32[]"}, [](Builder& f, const std::vector<Value>& p) { return Copy(f, p[0]); });
            return Conditional(b, C(b, "s32[]", "-7"), {same, negate}, {C(b, "s32[]", "1"), C(b, "s32[]", "2")});
          }),
      ROW("While", "(4, {4, 8})",
          {
            Computation* condition = Fn(b, {"(s32[], f32[2])"}, [](Builder& f, const std::vector<Value>& p) -> Result {
              ASSIGN_OR_RETURN(Value i, GetTupleElement(f, p[0], 0));
              return Lt(f, i, C(f, "s32[]", "4"));
            });
            Computation* body = Fn(b, {"(s32[], f32[2])"}, [](Builder& f, const std::vector<Value>& p) -> Result {
              ASSIGN_OR_RETURN(Value i, GetTupleElement(f, p[0], 0));
              ASSIGN_OR_RETURN(Value x, GetTupleElement(f, p[0], 1));
              ASSIGN_OR_RETURN(i, Add(f, i, C(f, "s32[]", "1")));
              ASSIGN_OR_RETURN(x, Add(f, x, C(f, "f32[2]", "{1, 2}")));
              return Tuple(f, {i, x});
            });
            ASSIGN_OR_RETURN(Value init, Tuple(b, {C(b, "s32[]", "0"), C(b, "f32[2]", "{0, 0}")}));
            return While(b, condition, body, init);
          }),
      ROW("Map", "{{0, 5}, {12, 21}}",
          {
            Computation* mul =
                Fn(b, {"s32[]", "s32[]"}, [](Builder& f, const std::vector<Value>& p) { return Mul(f, p[0], p[1]); });
            return Map(b, {C(b, "s32[2,2]", "{{0,1},{2,3}}"), C(b, "s32[2,2]", "{{4,5},{6,7}}")}, mul, {0, 1});
          }),
      ROW("Fusion", "{-1, -2}",
          {
            Computation* f = Fn(b, {"s32[2]"}, [](Builder& f, const std::vector<Value>& p) { return Neg(f, p[0]); });
            return CreateFusion(b, FusionKind::kLoop, f, {C(b, "s32[2]", "{1, 2}")});
          }),
      ROW("AfterAll", "{1, 2}",
          {
            ASSIGN_OR_RETURN(Value first, AfterAll(b, {}));
            ASSIGN_OR_RETURN(Value both, AfterAll(b, {first, first}));
            ASSIGN_OR_RETURN(Value t, Tuple(b, {C(b, "f32[2]", "{1, 2}"), both}));
            ASSIGN_OR_RETURN(t, OptimizationBarrier(b, t));
            return GetTupleElement(b, t, 0);
          }),
      ROW("AddDependency", "{1, 2}",
          {
            ASSIGN_OR_RETURN(Value token, AfterAll(b, {}));
            return AddDependency(b, C(b, "f32[2]", "{1, 2}"), token);
          }),
      ROW("OptimizationBarrier", "({1, 2}, 5)",
          {
            ASSIGN_OR_RETURN(Value t, Tuple(b, {C(b, "f32[2]", "{1, 2}"), C(b, "s32[]", "5")}));
            return OptimizationBarrier(b, t);
          }),
      ROW("Domain", "{1, 2}",
          {
            Sharding replicated, first;
            first.type = Sharding::Type::kMaximal;
            first.devices = {0};
            return CreateDomain(b, C(b, "f32[2]", "{1, 2}"), replicated, first);
          }),
      ROW("CustomCall", "{2, 4}",  // the test's host doubles
          {
            CustomCallOptions options;
            options.opaque = "how";
            options.has_side_effect = true;
            return CustomCall(b, "test.double", {C(b, "f32[2]", "{1, 2}")}, S("f32[2]"), options);
          }),
  };
}

}  // namespace backplane::rows
