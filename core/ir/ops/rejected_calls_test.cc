#include "core/ir/ops/rejected_calls_test.h"

#include "core/types/status_macros.h"

namespace backplane::rows {
namespace {

using namespace hlo;  // NOLINT: every line names functions of it

constexpr PrimitiveType kF32 = PrimitiveType::kF32;
constexpr PrimitiveType kS32 = PrimitiveType::kS32;
constexpr int64_t kHuge = int64_t{1} << 40;

// The next parameter, of that shape.
Value P(Builder& b, const Shape& shape) {
  return b.Parameter(static_cast<int64_t>(b.computation()->parameters().size()), shape).value();
}
Value P(Builder& b, std::vector<int64_t> dims, PrimitiveType type = kF32) { return P(b, Shape(type, dims)); }
Value Token(Builder& b) { return AfterAll(b, {}).value(); }

Computation* AddFn(Builder& b, PrimitiveType type = kF32) {
  return MakeScalarBinaryComputation(b.module(), Opcode::kAdd, type).value();
}

ResultAccuracy Accuracy(ResultAccuracy::Mode mode, double atol, double rtol, int64_t ulps) {
  return {mode, atol, rtol, ulps};
}
constexpr auto kTolerance = ResultAccuracy::Mode::kTolerance;
constexpr auto kHighest = ResultAccuracy::Mode::kHighest;

ReplicaGroups Groups(std::vector<Ints> groups) {
  ReplicaGroups g;
  g.groups = std::move(groups);
  return g;
}
ReplicaGroups Iota(Ints dims, Ints reshape) {
  ReplicaGroups g;
  g.iota = IotaDevices{std::move(dims), std::move(reshape), {}};
  return g;
}

// A tuple in a tuple in a tuple...
Value Nested(Builder& b, int depth) {
  Value v = P(b, {2});
  for (int i = 0; i < depth; ++i) v = Tuple(b, {v}).value();
  return v;
}

Result Window(Builder& b, Dims sizes, Dims strides, Dims base, Dims dilations, const PaddingPairs& padding) {
  return ReduceWindow(b, {P(b, {4})}, {P(b, std::vector<int64_t>{})}, AddFn(b), sizes, strides, base, dilations,
                      padding);
}

Result Convolve(Builder& b, Dims strides, const PaddingPairs& padding, Dims lhs_dilation, Dims rhs_dilation,
                const ConvolutionDimensions& dims, const std::vector<bool>& reversal) {
  return ConvGeneralDilated(b, P(b, {1, 1, 5}), P(b, {1, 1, 3}), strides, padding, lhs_dilation, rhs_dilation, dims, 1,
                            1, {}, std::nullopt, reversal);
}

const ConvolutionDimensions kLine = DefaultConvolutionDimensions(1);

PrecisionConfig WithAlgorithm(int64_t lhs, int64_t rhs, int64_t operations) {
  PrecisionConfig config;
  config.algorithm = DotAlgorithm{kF32, kF32, kF32, lhs, rhs, operations, false};
  return config;
}

}  // namespace

#define CALL(label, ...) \
  { label, [](Builder & b) -> Result __VA_ARGS__ }

std::vector<RejectedCall> RejectedCalls() {
  return {
      // Values that are none.
      CALL("operand", { return Tanh(b, nullptr); }),
      CALL("operand", { return Add(b, P(b, {2}), nullptr); }),
      CALL("operand",
           {
             Builder other(b.module(), "other");
             return Add(b, P(b, {2}), P(other, {2}));
           }),
      CALL("operand", { return Select(b, nullptr, nullptr, nullptr); }),
      CALL("operand", { return ConvertElementType(b, nullptr, kS32); }),
      CALL("operand", { return Reshape(b, nullptr, Dims{2}); }),
      CALL("operand", { return Dot(b, nullptr, nullptr); }),
      CALL("operand",
           {
             return Conv(b, P(b, {1, 1, 5}), nullptr, {}, Padding::kSame);
           }),
      CALL("operand", { return AllReduce(b, nullptr, AddFn(b)); }),
      CALL("operand", { return GetTupleElement(b, nullptr, 0); }),
      CALL("operand", { return CreateSendDone(b, nullptr); }),
      CALL("operand", { return Sort(b, {nullptr}, AddFn(b)); }),
      CALL("called", { return Call(b, nullptr, {}); }),
      CALL("called", { return Call(b, b.computation(), {}); }),
      CALL("called", { return CreateAsyncStart(b, nullptr, {}); }),
      CALL("called",
           {
             static Module* elsewhere = new Module("elsewhere");
             return Call(b, MakeScalarBinaryComputation(elsewhere, Opcode::kAdd, kF32).value(), {P(b, {2}), P(b, {2})});
           }),
      CALL("parameter_i1", { return Parameter(b, -1, Shape::Scalar(kF32)); }),
      CALL("parameter_i1",
           {
             ASSIGN_OR_RETURN(Value last, Parameter(b, 2, Shape::Scalar(kF32)));
             RETURN_IF_ERROR(b.Build(last).status());
             return last;
           }),

      CALL("result_accuracy_c1", { return Exp(b, P(b, {2}), Accuracy(kTolerance, -1, 0, 0)); }),
      CALL("result_accuracy_c1", { return Exp(b, P(b, {2}), Accuracy(kTolerance, 0, 1.0 / 0.0, 0)); }),
      CALL("result_accuracy_c1", { return Exp(b, P(b, {2}), Accuracy(kTolerance, 0, 0, -2)); }),
      CALL("result_accuracy_c2", { return Exp(b, P(b, {2}), Accuracy(kHighest, 0, 0.5, 0)); }),
      CALL("result_accuracy_c3", { return Exp(b, P(b, {2}), Accuracy(kTolerance, 0, 0, 0)); }),

      CALL("broadcast_e5",
           {
             return Add(b, P(b, {2, 3}), P(b, {3}));
           }),
      CALL("broadcast_e5",
           {
             return Eq(b, P(b, {3}), P(b, {2, 3}));
           }),
      CALL("broadcast_e6",
           {
             return Add(b, P(b, {2, 3, 4, 5}), P(b, {4, 3}), {2, 1});
           }),
      CALL("broadcast_e6",
           {
             return Add(b, P(b, {2, 3, 4, 5}), P(b, {4, 3}), {1, 1});
           }),
      CALL("broadcast_e6",
           {
             return Add(b, P(b, {2, 3}), P(b, {3}), {2});
           }),
      CALL("broadcast_e6",
           {
             return Add(b, P(b, {2, 3}), P(b, {3}), {0, 1});
           }),
      CALL("broadcast_e6",
           {
             return LtTotalOrder(b, P(b, {2, 3}), P(b, {2, 3}), {1, 0});
           }),
      CALL("broadcast_e7",
           {
             return Add(b, P(b, {2, 3}), P(b, {3}), {0});
           }),
      CALL("broadcast_e8",
           {
             return Add(b, P(b, {7, 2, 5}), P(b, {7, 2, 6}));
           }),
      CALL("broadcast_e8", { return Pow(b, P(b, {2}), P(b, {0})); }),
      CALL("broadcast_shape",
           {
             return Add(b, P(b, {kHuge, 1}), P(b, {1, kHuge}));
           }),
      CALL("add_operand", { return Add(b, Token(b), Token(b)); }),
      CALL("compare_c1", { return Gt(b, P(b, {2}), P(b, {2}, kS32)); }),
      CALL("compare_c3", { return GeTotalOrder(b, P(b, {2}, kS32), P(b, {2}, kS32)); }),
      CALL("select_c1", { return Select(b, P(b, {2}, PrimitiveType::kPred), Nested(b, 1), Nested(b, 1)); }),
      CALL("select_c2", { return Select(b, P(b, Shape::Scalar(PrimitiveType::kPred)), Nested(b, 1), Nested(b, 2)); }),
      CALL("select_nesting",
           {
             Value v = Nested(b, 150);
             return Select(b, P(b, Shape::Scalar(PrimitiveType::kPred)), v, v);
           }),

      CALL("bitcast_convert_declared", { return BitcastConvertType(b, P(b, {2}), PrimitiveType::kToken); }),
      CALL("bitcast_convert_c1", { return BitcastConvertType(b, P(b, {3}), PrimitiveType::kF64); }),
      CALL("bitcast_convert_c1", { return BitcastConvertType(b, P(b, std::vector<int64_t>{}), PrimitiveType::kF64); }),
      CALL("bitcast_convert_shape",
           {
             return BitcastConvertType(b, P(b, {kHuge, 1 << 20}), PrimitiveType::kS1);
           }),
      CALL("convert_declared", { return ConvertElementType(b, P(b, {2}), PrimitiveType::kTuple); }),
      CALL("broadcast_shape", { return Broadcast(b, P(b, {2}), {-1}); }),
      CALL("broadcast_shape",
           {
             return Broadcast(b, P(b, {2}), {kHuge, kHuge, kHuge, kHuge});
           }),
      CALL("broadcast_c2",
           {
             return BroadcastInDim(b, P(b, {2}), {2, 2}, {});
           }),
      CALL("broadcast_c3",
           {
             return BroadcastInDim(b, P(b, {2}), {2, 2}, {2});
           }),
      CALL("broadcast_c4",
           {
             return BroadcastInDim(b, P(b, {2, 2}), {2, 2}, {1, 1});
           }),
      CALL("broadcast_c5",
           {
             return BroadcastInDim(b, P(b, {2}), {2, 3}, {1});
           }),
      CALL("collapse_c1",
           {
             return Collapse(b, P(b, {4, 2, 3}), {1, 0});
           }),
      CALL("collapse_c1",
           {
             return Collapse(b, P(b, {4, 2, 3}), {0, 2});
           }),
      CALL("collapse_c2",
           {
             return Collapse(b, P(b, {4, 2, 3}), {2, 3});
           }),
      CALL("collapse_c2",
           {
             return Collapse(b, P(b, {4, 2, 3}), {-1});
           }),
      CALL("concatenate_c3", { return ConcatInDim(b, {}, 0); }),
      CALL("pad_c2", { return Pad(b, P(b, {4}), P(b, std::vector<int64_t>{}), {}); }),
      CALL("reshape_c2", { return Reshape(b, P(b, {4}), {3}); }),
      CALL("reshape_c1", { return Reshape(b, Shape(kS32, {4}), P(b, {4})); }),
      CALL("reshape_shape",
           {
             return Reshape(b, P(b, {4}), {kHuge, kHuge});
           }),
      CALL("slice_c2",
           {
             return Slice(b, P(b, {4}), {0}, {1, 2});
           }),
      CALL("slice_c2",
           {
             return Slice(b, P(b, {4}), {0}, {1}, {1, 1});
           }),
      CALL("scatter_c5", { return Scatter(b, {P(b, {4})}, P(b, {1}, kS32), {}, AddFn(b), {}); }),
      CALL("dynamic_reshape_c4",
           {
             return DynamicReshape(b, P(b, {4}), {P(b, Shape::Scalar(kS32))}, {4, 1}, {true});
           }),
      CALL("dynamic_reshape_c4", { return DynamicReshape(b, P(b, {4}), {P(b, Shape::Scalar(kS32))}, {4}, {}); }),
      CALL("map_static_operands",
           {
             return Map(b, {P(b, {4}), P(b, {4})}, AddFn(b), {0}, {P(b, {1})});
           }),
      CALL("conditional_i1", { return Conditional(b, P(b, {2}), P(b, {2}), AddFn(b), P(b, {2}), AddFn(b)); }),
      CALL("conditional_i1", { return Conditional(b, P(b, Shape::Scalar(kF32)), {AddFn(b)}, {P(b, {2})}); }),
      CALL("composite_c1",
           {
             return CompositeCall(b, AddFn(b), {P(b, Shape::Scalar(kF32)), P(b, Shape::Scalar(kF32))}, "x.");
           }),
      CALL("custom_call_i4",
           {
             CustomCallOptions options;
             options.ffi_attributes = FfiDictionary();
             return CustomCall(b, "f", {}, Shape(kF32, {2}), options);
           }),

      CALL("reduce_c3", { return Reduce(b, {P(b, {4})}, {}, AddFn(b), {0}); }),
      CALL("scan_c4", { return Scan(b, {}, {P(b, {4})}, AddFn(b), 0); }),
      CALL("sort_c1", { return Sort(b, {}, AddFn(b)); }),
      CALL("sort_c4",
           {
             Builder f(b.module(), "less");
             Value x = P(f, Shape::Scalar(kF32)), y = P(f, Shape::Scalar(kF32));
             ASSIGN_OR_RETURN(Value less, Lt(f, x, y));
             ASSIGN_OR_RETURN(Computation * comparator, f.Build(less));
             return Sort(b, {P(b, {4})}, comparator, -2);
           }),
      CALL("reduce_window_c1", { return ReduceWindow(b, {P(b, {4})}, {}, AddFn(b), {2}, {}, {}, {}, Padding::kSame); }),
      CALL("reduce_window_c1", { return ReduceWindow(b, {P(b, {4})}, {}, AddFn(b), {2}, {}, {}, {}, PaddingPairs{}); }),
      CALL("reduce_window_c6",
           {
             return Window(b, {2}, {1, 1}, {}, {}, {});
           }),
      CALL("reduce_window_c8",
           {
             return Window(b, {2}, {}, {1, 1}, {}, {});
           }),
      CALL("reduce_window_c10",
           {
             return Window(b, {2}, {}, {}, {1, 1}, {});
           }),
      CALL("reduce_window_c12",
           {
             return Window(b, {2}, {}, {}, {}, {{0, 0}, {0, 0}});
           }),
      CALL("padding_size",
           {
             return ReduceWindow(b, {P(b, {4})}, {P(b, std::vector<int64_t>{})}, AddFn(b), {int64_t{1} << 62}, {}, {},
                                 {4}, Padding::kSame);
           }),
      CALL("select_and_scatter_c6",
           {
             return SelectAndScatter(b, P(b, {4}), AddFn(b), {2}, {1, 1}, Padding::kValid, P(b, {2}),
                                     P(b, std::vector<int64_t>{}), AddFn(b));
           }),
      CALL("select_and_scatter_c8",
           {
             return SelectAndScatter(b, P(b, {4}), AddFn(b), {2}, {2}, PaddingPairs{{0, 0}, {0, 0}}, P(b, {2}),
                                     P(b, std::vector<int64_t>{}), AddFn(b));
           }),

      CALL("dot_rank",
           {
             return Dot(b, P(b, {2, 2, 2}), P(b, {2}));
           }),
      CALL("dot_c10",
           {
             return Dot(b, P(b, {2, 3}), P(b, {2}));
           }),
      CALL("preferred_element_type", { return Dot(b, P(b, {2}), P(b, {2}), {}, PrimitiveType::kTuple); }),
      CALL("dot_c22", { return Dot(b, P(b, {2}), P(b, {2}), WithAlgorithm(0, 1, 1)); }),
      CALL("dot_c23", { return Dot(b, P(b, {2}), P(b, {2}), WithAlgorithm(1, -1, 1)); }),
      CALL("dot_c24", { return Dot(b, P(b, {2}), P(b, {2}), WithAlgorithm(1, 1, 0)); }),
      CALL("ragged_dot_algorithm",
           {
             return RaggedDot(b, P(b, {3, 2}), P(b, {2, 2, 2}), P(b, {2}, kS32), {}, WithAlgorithm(1, 1, 1));
           }),
      CALL("scaled_dot_algorithm",
           { return ScaledDot(b, P(b, {2}), P(b, {2}), P(b, {2}), P(b, {2}), {}, WithAlgorithm(1, 1, 1)); }),
      CALL("convolution_algorithm",
           {
             return Conv(b, P(b, {1, 1, 5}), P(b, {1, 1, 3}), {}, Padding::kSame, 1, 1, WithAlgorithm(1, 1, 1));
           }),
      CALL("convolution_c1",
           {
             return Conv(b, P(b, {1, 1, 5}), P(b, {1, 1}), {}, Padding::kSame);
           }),
      CALL("convolution_c1", { return Conv(b, P(b, {1}), P(b, {1}), {}, Padding::kSame); }),
      CALL("convolution_c2",
           {
             return Convolve(b, {1, 1}, {{0, 0}}, {}, {}, kLine, {});
           }),
      CALL("convolution_c3",
           {
             return Convolve(b, {0}, {{0, 0}}, {}, {}, kLine, {});
           }),
      CALL("convolution_c4", { return Convolve(b, {}, {}, {}, {}, kLine, {}); }),
      CALL("convolution_c5",
           {
             return Convolve(b, {}, {{0, 0}}, {1, 1}, {}, kLine, {});
           }),
      CALL("convolution_c7",
           {
             return Convolve(b, {}, {{0, 0}}, {}, {1, 1}, kLine, {});
           }),
      CALL("convolution_c9",
           {
             return Convolve(b, {}, {{0, 0}}, {}, {}, kLine, {true, true});
           }),
      CALL("convolution_c12",
           {
             ConvolutionDimensions dims = kLine;
             dims.input_spatial = {};
             return Convolve(b, {}, {{0, 0}}, {}, {}, dims, {});
           }),
      CALL("convolution_c13",
           {
             ConvolutionDimensions dims = kLine;
             dims.input_batch = 1;
             return Convolve(b, {}, {{0, 0}}, {}, {}, dims, {});
           }),
      CALL("convolution_c17",
           {
             ConvolutionDimensions dims = kLine;
             dims.kernel_spatial = {1, 2};
             return Convolve(b, {}, {{0, 0}}, {}, {}, dims, {});
           }),
      CALL("convolution_c18",
           {
             ConvolutionDimensions dims = kLine;
             dims.kernel_spatial = {3};
             return Convolve(b, {}, {{0, 0}}, {}, {}, dims, {});
           }),
      CALL("convolution_c19",
           {
             ConvolutionDimensions dims = kLine;
             dims.output_spatial = {};
             return Convolve(b, {}, {{0, 0}}, {}, {}, dims, {});
           }),
      CALL("convolution_c20",
           {
             ConvolutionDimensions dims = kLine;
             dims.output_spatial = {0};
             return Convolve(b, {}, {{0, 0}}, {}, {}, dims, {});
           }),
      CALL("triangular_solve_i6",
           {
             return TriangularSolve(b, P(b, {2, 2}), P(b, {2, 2}), true, true, false,
                                    static_cast<TriangularTranspose>(9));
           }),

      CALL("constant_i1", { return ConstantLiteral(b, Literal()); }),
      CALL("constant_c1",
           {
             Attributes none;
             InstructionSpec spec;
             spec.opcode = Opcode::kConstant;
             spec.shape = Shape(kF32, {3});
             spec.literal = std::make_shared<const Literal>(Shape(kF32, {2}));
             return b.computation()->AddChecked(std::move(spec));
           }),

      CALL("all_gather_arity", { return AllGather(b, Tuple(b, {}).value(), 0, 2); }),
      CALL("all_gather_c1", { return AllGather(b, P(b, {2}), 1, 2); }),
      CALL("all_gather_c2",
           {
             return AllGather(b, P(b, {2}), 0, 4, Iota({2, 4}, {7}));
           }),
      CALL("all_gather_c6", { return AllGather(b, P(b, {2}), 0, 0); }),
      CALL("all_gather_c6",
           {
             return AllGather(b, P(b, {2}), 0, 3, Groups({{0, 1}}));
           }),
      CALL("all_gather_c6", { return AllGather(b, P(b, {kHuge}), 0, int64_t{1} << 50); }),
      CALL("all_reduce_operand", { return CrossReplicaSum(b, Token(b)); }),
      CALL("cross_replica_sum_types",
           {
             return CrossReplicaSum(b, Tuple(b, {P(b, {2}), P(b, {2}, kS32)}).value());
           }),
      CALL("all_reduce_result", { return AllReduce(b, P(b, {2}), AddFn(b), {}, {}, Shape(kF32, {3})); }),
      CALL("all_to_all_c1",
           {
             return AllToAll(b, P(b, {4, 4}), 2, 0, 2);
           }),
      CALL("all_to_all_c3",
           {
             return AllToAll(b, P(b, {4, 4}), 0, -1, 2);
           }),
      CALL("all_to_all_c4",
           {
             return AllToAll(b, P(b, {4, 4}), 0, 1, 0);
           }),
      CALL("all_to_all_c2",
           {
             return AllToAll(b, P(b, {4, 4}), 0, 1, 3);
           }),
      CALL("all_to_all_c8",
           {
             return AllToAll(b, P(b, {4, 4}), 0, 1, 2, Groups({{0, 1, 2}}));
           }),
      CALL("all_to_all_c9",
           {
             return AllToAll(b, P(b, {0, kHuge}), 0, 1, kHuge);
           }),
      CALL("reduce_scatter_c1", { return ReduceScatter(b, P(b, {3}), AddFn(b), 0, 2); }),
      CALL("reduce_scatter_c2", { return ReduceScatter(b, P(b, {4}), AddFn(b), -1, 2); }),
      CALL("reduce_scatter_c8", { return ReduceScatter(b, P(b, {4}), AddFn(b), 0, 0); }),
      CALL("collective_permute_c3",
           {
             return CollectivePermute(b, P(b, {2}), {{0, 1}, {2, 1}});
           }),
      CALL("partition_id_result", { return BuildPartitionId(b, Shape::Scalar(kS32)); }),

      CALL("infeed_c2", { return Infeed(b, Shape::Tuple({Shape::Tuple({Shape(kF32, {2})})})); }),
      CALL("outfeed_c1", { return Outfeed(b, P(b, {2}), Shape(kF32, {3})); }),
      CALL("send_i3", { return Send(b, P(b, {2}), {}); }),
      CALL("recv_i3", { return Recv(b, Shape(kF32, {2}), {}); }),
      CALL("send_c5",
           {
             return SendToHost(b, P(b, {2}), Token(b), Shape(kF32, {2}), {1, ChannelHandle::Type::kHostToDevice});
           }),
      CALL("recv_c5",
           {
             return RecvToHost(b, Token(b), Shape(kF32, {2}), {1, ChannelHandle::Type::kDeviceToHost});
           }),
      CALL("send_shape", { return SendToHost(b, P(b, {2}), Token(b), Shape(kF32, {3}), {1}); }),
      CALL("recv_done_context", { return CreateRecvDone(b, P(b, {2})); }),
      CALL("send_done_context", { return CreateSendDone(b, P(b, {2})); }),
  };
}

}  // namespace backplane::rows
