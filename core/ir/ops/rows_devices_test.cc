// Two replicas with the same operands run these, and what replica 0 gets is expected; the host of the test gives every
// receive and infeed the values 1, 2, ...
#include "core/ir/ops/row_programs_test.h"
#include "core/types/status_macros.h"

namespace backplane::rows {
namespace {

using namespace hlo;  // NOLINT: every line names functions of it

constexpr PrimitiveType kF32 = PrimitiveType::kF32;
constexpr char kMatrix[] = "{{1,2,3,4},{5,6,7,8}}";

ReplicaGroups Both() {
  ReplicaGroups groups;
  groups.groups = {{0, 1}};
  return groups;
}
ChannelHandle Channel(int64_t handle, ChannelHandle::Type type = ChannelHandle::Type::kDeviceToDevice) {
  return {handle, type};
}
const Pairs kSwap = {{0, 1}, {1, 0}};

// A constant that comes after the token.
Result After(Builder& b, Value token) {
  ASSIGN_OR_RETURN(Value both, Tuple(b, {C(b, "f32[2]", "{1, 2}"), token}));
  ASSIGN_OR_RETURN(both, OptimizationBarrier(b, both));
  return GetTupleElement(b, both, 0);
}
// The data of (data, token).
Result Data(Builder& b, Value both) { return GetTupleElement(b, both, 0); }

}  // namespace

// Several rows of one program: macros, so that each row has the text.
#define GATHER_HALVES(row)                                                                   \
  ROW(row, "{1, 2.5, 1, 2.5}", {                                                             \
    Value start = CreateAllGatherStart(b, C(b, "f32[2]", "{1, 2.5}"), 0, 2, Both()).value(); \
    return AllGatherDone(b, start);                                                          \
  })
#define REDUCE_HALVES(row)                                                                             \
  ROW(row, "{2, 5}", {                                                                                 \
    Value start = CreateAllReduceStart(b, C(b, "f32[2]", "{1, 2.5}"), AddFn(b, kF32), Both()).value(); \
    return AllReduceDone(b, start);                                                                    \
  })
#define PERMUTE_HALVES(row)                                                                   \
  ROW(row, "{1, 2.5}", {                                                                      \
    Value start = CreateCollectivePermuteStart(b, C(b, "f32[2]", "{1, 2.5}"), kSwap).value(); \
    return CollectivePermuteDone(b, start);                                                   \
  })
#define COPY_HALVES(row)                                                \
  ROW(row, "{1, 2}", {                                                  \
    Value start = CreateCopyStart(b, C(b, "f32[2]", "{1, 2}")).value(); \
    return CopyDone(b, start);                                          \
  })
#define ASYNC_PARTS(row)                                                                                      \
  ROW(row, "{-1, -2}", {                                                                                      \
    Computation* f = Fn(b, {"s32[2]"}, [](Builder& f, const std::vector<Value>& p) { return Neg(f, p[0]); }); \
    Value start = CreateAsyncStart(b, f, {C(b, "s32[2]", "{1, 2}")}, "other").value();                        \
    Value update = CreateAsyncUpdate(b, start).value();                                                       \
    return CreateAsyncDone(b, update);                                                                        \
  })
#define RECV_HALVES(row)                                   \
  ROW(row, "{1, 2}", {                                     \
    Value context = CreateRecv(b, S("f32[2]"), 3).value(); \
    Value both = CreateRecvDone(b, context).value();       \
    return Data(b, both);                                  \
  })
#define SEND_HALVES(row)                                                \
  ROW(row, "{1, 2}", {                                                  \
    Value context = CreateSend(b, C(b, "f32[2]", "{3, 4}"), 3).value(); \
    Value token = CreateSendDone(b, context).value();                   \
    return After(b, token);                                             \
  })

std::vector<RowProgram> DeviceRows() {
  return {
      ROW("AllGather", "{{1,2,3,4,1,2,3,4},{5,6,7,8,5,6,7,8}}",
          { return AllGather(b, C(b, "f32[2,4]", kMatrix), 1, 2, Both(), Channel(1), Layout::RowMajor(2), true); }),
      ROW("AllReduce", "({2, 5}, {4})",
          {
            ASSIGN_OR_RETURN(Value t, Tuple(b, {C(b, "f32[2]", "{1, 2.5}"), C(b, "f32[1]", "{2}")}));
            return AllReduce(b, t, AddFn(b, kF32), Both(), Channel(2), S("(f32[2]{0}, f32[1]{0})"), true);
          }),
      ROW("CrossReplicaSum", "{2, 5}", { return CrossReplicaSum(b, C(b, "f32[2]", "{1, 2.5}"), Both()); }),
      ROW("AllToAll", "{{1,2},{5,6},{1,2},{5,6}}",
          { return AllToAll(b, C(b, "f32[2,4]", kMatrix), 1, 0, 2, Both(), Layout::RowMajor(2), Channel(3)); }),
      ROW("RaggedAllToAll", "{0, 1, 0, 0}",
          {
            return RaggedAllToAll(b, C(b, "f32[3]", "{1, 2, 2}"), C(b, "s32[2]", "{0, 1}"), C(b, "s32[2]", "{1, 2}"),
                                  C(b, "f32[4]", "{0, 0, 0, 0}"), C(b, "s32[2]", "{1, 0}"), C(b, "s32[2]", "{1, 1}"),
                                  Both());
          }),
      ROW("CollectiveBroadcast", "{1, 2.5}",
          { return CollectiveBroadcast(b, C(b, "f32[2]", "{1, 2.5}"), Both(), Channel(4)); }),
      ROW("CollectivePermute", "{1, 2.5}",
          { return CollectivePermute(b, C(b, "f32[2]", "{1, 2.5}"), kSwap, Channel(5), true); }),
      ROW("ReduceScatter", "{{2,4},{10,12}}",
          {
            return ReduceScatter(b, C(b, "f32[2,4]", kMatrix), AddFn(b, kF32), 1, 2, Both(), Channel(6),
                                 Layout::RowMajor(2), true);
          }),
      ROW("ReplicaId", "0", { return ReplicaId(b); }),
      ROW("PartitionID", "0", { return BuildPartitionId(b, S("u32[]")); }),

      GATHER_HALVES("AllGatherStart"),
      GATHER_HALVES("AllGatherDone"),
      REDUCE_HALVES("AllReduceStart"),
      REDUCE_HALVES("AllReduceDone"),
      PERMUTE_HALVES("CollectivePermuteStart"),
      PERMUTE_HALVES("CollectivePermuteDone"),
      COPY_HALVES("CopyStart"),
      COPY_HALVES("CopyDone"),
      ASYNC_PARTS("AsyncStart"),
      ASYNC_PARTS("AsyncUpdate"),
      ASYNC_PARTS("AsyncDone"),

      RECV_HALVES("Recv (HLO)"),
      RECV_HALVES("RecvDone"),
      SEND_HALVES("Send (HLO)"),
      SEND_HALVES("SendDone"),
      ROW("Recv", "{1, 2}", { return Recv(b, S("f32[2]"), Channel(7)); }),
      ROW("RecvWithTokens", "{1, 2}",
          {
            ASSIGN_OR_RETURN(Value token, AfterAll(b, {}));
            ASSIGN_OR_RETURN(Value both, RecvWithTokens(b, token, S("f32[2]"), Channel(8)));
            return Data(b, both);
          }),
      ROW("RecvToHost", "{1, 2}",
          {
            ASSIGN_OR_RETURN(Value token, AfterAll(b, {}));
            ASSIGN_OR_RETURN(Value both,
                             RecvToHost(b, token, S("f32[2]"), Channel(9, ChannelHandle::Type::kHostToDevice)));
            return Data(b, both);
          }),
      ROW("Send", "{1, 2}",
          {
            ASSIGN_OR_RETURN(Value token, Send(b, C(b, "f32[2]", "{3, 4}"), Channel(10)));
            return After(b, token);
          }),
      ROW("SendWithTokens", "{1, 2}",
          {
            ASSIGN_OR_RETURN(Value token, AfterAll(b, {}));
            ASSIGN_OR_RETURN(token, SendWithTokens(b, C(b, "f32[2]", "{3, 4}"), token, Channel(11)));
            return After(b, token);
          }),
      ROW("SendToHost", "{1, 2}",
          {
            ASSIGN_OR_RETURN(Value token, AfterAll(b, {}));
            ASSIGN_OR_RETURN(token, SendToHost(b, C(b, "f32[2]", "{3, 4}"), token, S("f32[2]{0}"),
                                               Channel(12, ChannelHandle::Type::kDeviceToHost)));
            return After(b, token);
          }),
      ROW("Infeed", "({1, 2}, {1})", { return Infeed(b, S("(f32[2], s32[1])"), "which"); }),
      ROW("Outfeed", "{1, 2}",
          {
            ASSIGN_OR_RETURN(Value token, Outfeed(b, C(b, "f32[2]", "{3, 4}"), S("f32[2]{0}"), "where"));
            return After(b, token);
          }),
  };
}

}  // namespace backplane::rows
