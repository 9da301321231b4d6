#include "core/ir/ops/row_programs_test.h"
#include "core/types/status_macros.h"

namespace backplane::rows {
namespace {

using namespace hlo;  // NOLINT: every line names functions of it

constexpr PrimitiveType kF32 = PrimitiveType::kF32;

// x > y for the first of the operands of a sort.
Computation* LessFn(Builder& b, const std::vector<const char*>& parameters) {
  return Fn(b, parameters, [](Builder& f, const std::vector<Value>& p) { return Lt(f, p[0], p[1]); });
}

Computation* GeFn(Builder& b) {
  return Fn(b, {"f32[]", "f32[]"}, [](Builder& f, const std::vector<Value>& p) { return Ge(f, p[0], p[1]); });
}

Value Line(Builder& b) { return C(b, "f32[1,1,5]", "{{{1,2,3,4,5}}}"); }  // batch, feature, x
Value Kernel(Builder& b) { return C(b, "f32[1,1,3]", "{{{1,1,1}}}"); }    // output feature, input feature, x
constexpr char kSame[] = "{{{3,6,9,12,9}}}";

constexpr char kBatch[] = "{{{1,2},{3,4}},{{3,4},{1,2}}}";
constexpr char kNormal[] = "{{{0,0},{2,2}},{{2,2},{0,0}}}";

}  // namespace

std::vector<RowProgram> ComputeRows() {
  return {
      ROW("Reduce", "(15, 5)",
          {
            Computation* both =
                Fn(b, {"s32[]", "s32[]", "s32[]", "s32[]"}, [](Builder& f, const std::vector<Value>& p) -> Result {
                  ASSIGN_OR_RETURN(Value sum, Add(f, p[0], p[2]));
                  ASSIGN_OR_RETURN(Value most, Max(f, p[1], p[3]));
                  return Tuple(f, {sum, most});
                });
            Value x = C(b, "s32[1,6]", "{{0,1,2,3,4,5}}"), zero = C(b, "s32[]", "0");
            return Reduce(b, {x, x}, {zero, zero}, both, {0, 1});
          }),
      ROW("Scan", "({10, 9, 7, 4}, 10)",
          {
            Computation* body = Fn(b, {"s32[]", "s32[]"}, [](Builder& f, const std::vector<Value>& p) -> Result {
              ASSIGN_OR_RETURN(Value sum, Add(f, p[0], p[1]));
              return Tuple(f, {sum, sum});
            });
            return Scan(b, {C(b, "s32[4]", "{1, 2, 3, 4}")}, {C(b, "s32[]", "0")}, body, 0, true, false);
          }),
      ROW("Sort", "({1, 3}, {50, 42}, {1.1, -3})",
          {
            Computation* less = LessFn(b, {"s32[]", "s32[]", "s32[]", "s32[]", "f32[]", "f32[]"});
            return Sort(b, {C(b, "s32[2]", "{3, 1}"), C(b, "s32[2]", "{42, 50}"), C(b, "f32[2]", "{-3, 1.1}")}, less,
                        -1, true);
          }),
      ROW("TopK", "({5, 4, 3}, {4, 2, 0})", { return TopK(b, C(b, "s32[5]", "{3, 1, 4, 1, 5}"), 3, true); }),
      ROW("ReduceWindow", "{1000, 10, 1}",
          {
            Computation* least =
                Fn(b, {"f32[]", "f32[]"}, [](Builder& f, const std::vector<Value>& p) { return Min(f, p[0], p[1]); });
            return ReduceWindow(b, {C(b, "f32[5]", "{10000, 1000, 100, 10, 1}")}, {C(b, "f32[]", "inf")}, least, {3},
                                {2}, {1}, {1}, Padding::kSame);
          }),
      ROW("SelectAndScatter", "{{0,0,0,0,0},{0,0,8,0,0},{0,0,3,0,0},{0,0,0,1,0}}",
          {
            return SelectAndScatter(b, C(b, "f32[4,5]", "{{7,2,5,3,8},{3,8,9,3,4},{1,5,7,5,6},{0,6,2,10,2}}"), GeFn(b),
                                    {2, 3}, {2, 2}, Padding::kValid, C(b, "f32[2,2]", "{{2,6},{3,1}}"),
                                    C(b, "f32[]", "0"), AddFn(b, kF32));
          }),

      ROW("Dot", "{14, 32}", { return Dot(b, C(b, "f32[2,3]", "{{1,2,3},{4,5,6}}"), C(b, "f32[3]", "{1, 2, 3}")); }),
      ROW("DotGeneral", "{{{1,2},{3,4}},{{5,6},{7,8}}}",
          {
            DotDimensions dims;
            dims.lhs_batch = dims.rhs_batch = {0};
            dims.lhs_contracting = {2};
            dims.rhs_contracting = {1};
            PrecisionConfig precision;
            precision.operand_precision = {Precision::kHigh, Precision::kHighest};
            return DotGeneral(b, C(b, "f32[2,2,2]", "{{{1,2},{3,4}},{{5,6},{7,8}}}"),
                              C(b, "f32[2,2,2]", "{{{1,0},{0,1}},{{1,0},{0,1}}}"), dims, precision,
                              PrimitiveType::kF64);
          }),
      ROW("RaggedDot", "{{1,2},{3,4},{10,12}}",
          {
            RaggedDotDimensions dims;
            dims.dot.lhs_contracting = {1};
            dims.dot.rhs_contracting = {1};
            dims.lhs_ragged = {0};
            dims.rhs_group = {0};
            return RaggedDot(b, C(b, "f32[3,2]", "{{1,2},{3,4},{5,6}}"),
                             C(b, "f32[2,2,2]", "{{{1,0},{0,1}},{{2,0},{0,2}}}"), C(b, "s32[2]", "{2, 1}"), dims);
          }),
      ROW("ScaledDot", "{{76}}",
          {
            DotDimensions dims;
            dims.lhs_contracting = {1};
            dims.rhs_contracting = {0};
            return ScaledDot(b, C(b, "f32[1,4]", "{{1,2,3,4}}"), C(b, "f32[1,2]", "{{2,10}}"),
                             C(b, "f32[4,1]", "{{1},{1},{1},{1}}"), C(b, "f32[2,1]", "{{1},{1}}"), dims, {}, kF32);
          }),

      ROW("Conv", kSame, { return Conv(b, Line(b), Kernel(b), {1}, Padding::kSame); }),
      ROW("ConvWithGeneralPadding", "{{{9, 12}}}",
          {
            return ConvWithGeneralPadding(b, Line(b), Kernel(b), {1}, {{-1, 0}});
          }),
      ROW("ConvWithGeneralDimensions", "{{{3},{6},{9},{12},{9}}}",
          {
            ConvolutionDimensions dims = DefaultConvolutionDimensions(1);
            dims.output_feature = 2;
            dims.output_spatial = {1};
            return ConvWithGeneralDimensions(b, Line(b), Kernel(b), {1}, Padding::kSame, dims);
          }),
      ROW("ConvGeneral", "{{{6, 12}}}",
          {
            return ConvGeneral(b, Line(b), Kernel(b), {2}, {{0, 0}}, DefaultConvolutionDimensions(1));
          }),
      ROW("ConvGeneralDilated", "{{{3, 2, 5, 3, 7, 4, 9}}}",
          {
            return ConvGeneralDilated(b, Line(b), Kernel(b), {1}, {{0, 0}}, {2}, {1}, DefaultConvolutionDimensions(1),
                                      1, 1, {}, kF32, {true});
          }),

      ROW("BatchNormTraining", "({{{0,0},{2,2}},{{2,2},{0,0}}}, {2, 3}, {1, 1})",
          {
            Value one = C(b, "f32[2]", "{1, 1}");
            return BatchNormTraining(b, C(b, "f32[2,2,2]", kBatch), one, one, 0, 2);
          }),
      ROW("BatchNormInference", kNormal,
          {
            Value one = C(b, "f32[2]", "{1, 1}");
            return BatchNormInference(b, C(b, "f32[2,2,2]", kBatch), one, one, C(b, "f32[2]", "{2, 3}"), one, 0, 2);
          }),
      ROW("BatchNormGrad", "~1e-6 ({{{0,0},{0,0}},{{0,0},{0,0}}}, {0, 0}, {0.4, 0.4})",
          {
            Value one = C(b, "f32[2]", "{1, 1}");
            Value grad = C(b, "f32[2,2,2]", "{{{0.1,0.1},{0.1,0.1}},{{0.1,0.1},{0.1,0.1}}}");
            return BatchNormGrad(b, C(b, "f32[2,2,2]", kBatch), one, C(b, "f32[2]", "{2, 3}"), one, grad, 0, 2);
          }),
      ROW("Cholesky", "{1, 2, 4, 3, 5, 6}",  // the lower triangle; what stands above it is open
          {
            ASSIGN_OR_RETURN(Value l, Cholesky(b, C(b, "f32[3,3]", "{{1,2,3},{2,20,26},{3,26,70}}"), true));
            GatherDimensions dims;
            dims.collapsed_slice_dims = {0, 1};
            dims.start_index_map = {0, 1};
            dims.index_vector_dim = 1;
            return Gather(b, l, C(b, "s32[6,2]", "{{0,0},{1,0},{1,1},{2,0},{2,1},{2,2}}"), dims, {1, 1});
          }),
      ROW("TriangularSolve", "{{2,0,0},{0,2,0},{0,0,2}}",
          {
            return TriangularSolve(b, C(b, "f32[3,3]", "{{1,0,0},{2,4,0},{3,5,6}}"),
                                   C(b, "f32[3,3]", "{{2,0,0},{4,8,0},{6,10,12}}"), true, true, false,
                                   TriangularTranspose::kNoTranspose);
          }),
      ROW("Fft", "{(10, 0), (-2, 2), (-2, 0)}",
          { return Fft(b, C(b, "f32[4]", "{1, 2, 3, 4}"), FftType::kRfft, {4}); }),

      ROW("RngBitGenerator",
          "({1, 6}, {{9236835810183407956, 16087790271692313299}, {18212823393184779219, 2658481902456610144}})",
          { return RngBitGenerator(b, RandomAlgorithm::kThreeFry, C(b, "u64[2]", "{1, 2}"), S("u64[2,2]")); }),
      ROW("RngGetAndUpdateState", "{0, 5}",  // the key stays, the counter moves on
          {
            ASSIGN_OR_RETURN(Value first, CreateRngGetAndUpdateState(b, S("u64[2]"), 5));
            ASSIGN_OR_RETURN(Value second, CreateRngGetAndUpdateState(b, S("u64[2]"), 1));
            return Sub(b, second, first);
          }),
      ROW("RngNormal", "{3, 3, 3}",  // no deviation
          { return RngNormal(b, C(b, "f32[]", "3"), C(b, "f32[]", "0"), S("f32[3]")); }),
      ROW("RngUniform", "1",  // all of 1000 lie in [5, 7)
          {
            ASSIGN_OR_RETURN(Value x, RngUniform(b, C(b, "s32[]", "5"), C(b, "s32[]", "7"), S("s32[1000]")));
            ASSIGN_OR_RETURN(Value low, Ge(b, x, C(b, "s32[]", "5")));
            ASSIGN_OR_RETURN(Value high, Lt(b, x, C(b, "s32[]", "7")));
            ASSIGN_OR_RETURN(Value in, And(b, low, high));
            Computation* all =
                Fn(b, {"pred[]", "pred[]"}, [](Builder& f, const std::vector<Value>& p) { return And(f, p[0], p[1]); });
            return Reduce(b, {in}, {C(b, "pred[]", "true")}, all, {0});
          }),
  };
}

}  // namespace backplane::rows
