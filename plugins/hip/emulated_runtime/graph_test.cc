// Graphs and capture in libhipemu.
#include <numeric>
#include <thread>

#include "plugins/hip/emulated_runtime/testing/emulated_testing.h"

namespace backplane::hip {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class EmulatedGraphTest : public EmulatedTest {
 protected:
  void SetUp() override {
    EmulatedTest::SetUp();
    SetUpMemory();
  }
  void SetUpMemory() {
    data_ = Allocate(256);
    result_ = AllocatePinned<float>(64);
    stream_ = NewStream();
  }
  // Owns the buffer that the parameters point to.
  struct KernelNode {
    Array array;
    size_t bytes = sizeof(Array);
    void* extra[5] = {kLaunchParamBufferPointer, &array, kLaunchParamBufferSize, &bytes, kLaunchParamEnd};
    hipKernelNodeParams parameters;
    KernelNode(hipFunction_t function, void* data, uint64_t elements) : array{data, elements} {
      parameters.func = function;
      parameters.gridDim = {1, 1, 1};
      parameters.blockDim = {64, 1, 1};
      parameters.extra = extra;
    }
  };
  hipMemsetParams FillOf(unsigned value) {
    hipMemsetParams fill;
    fill.dst = data_;
    fill.elementSize = 4;
    fill.width = 64;
    fill.value = value;
    return fill;
  }
  hipGraph_t NewGraph() {
    hipGraph_t graph = nullptr;
    EXPECT_HIP(api_.hipGraphCreate(&graph, 0));
    return graph;
  }
  hipGraphExec_t Instantiate(hipGraph_t graph) {
    hipGraphExec_t executable = nullptr;
    EXPECT_HIP(api_.hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    return executable;
  }
  std::vector<float> Result() { return std::vector<float>(result_, result_ + 64); }
  static constexpr unsigned kThree = 0x40400000, kFive = 0x40a00000;  // as floats

  void* data_ = nullptr;
  float* result_ = nullptr;
  hipStream_t stream_ = nullptr;
};

TEST_F(EmulatedGraphTest, RunsNodesAfterTheirDependencies) {
  hipGraph_t graph = NewGraph();
  hipGraphNode_t fill = nullptr, kernel = nullptr, empty = nullptr, copy = nullptr;
  const hipMemsetParams three = FillOf(kThree);
  ASSERT_HIP(api_.hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &three));
  KernelNode add(Kernel("add_one"), data_, 64);
  ASSERT_HIP(api_.hipGraphAddKernelNode(&kernel, graph, &fill, 1, &add.parameters));
  add.array = {};  // the arguments were copied
  ASSERT_HIP(api_.hipGraphAddEmptyNode(&empty, graph, &kernel, 1));
  ASSERT_HIP(api_.hipGraphAddMemcpyNode1D(&copy, graph, &empty, 1, result_, data_, 256, hipMemcpyDeviceToHost));
  hipGraphExec_t executable = Instantiate(graph);
  for (int i = 0; i < 3; ++i) {
    std::fill(result_, result_ + 64, 0.0f);
    ASSERT_HIP(api_.hipGraphLaunch(executable, stream_));
    ASSERT_HIP(api_.hipStreamSynchronize(stream_));
    EXPECT_THAT(Result(), Each(4.0f));
  }
  EXPECT_HIP(api_.hipGraphExecDestroy(executable));
  EXPECT_HIP(api_.hipGraphDestroy(graph));
  EXPECT_HIP_ERROR(api_.hipGraphLaunch(executable, stream_), hipErrorInvalidHandle);
  EXPECT_HIP_ERROR(api_.hipGraphAddEmptyNode(&empty, graph, nullptr, 0), hipErrorInvalidHandle);
}

TEST_F(EmulatedGraphTest, ReplacesWhatNodesDo) {
  hipGraph_t graph = NewGraph();
  hipGraphNode_t fill = nullptr, kernel = nullptr, copy = nullptr;
  const hipMemsetParams three = FillOf(kThree), five = FillOf(kFive);
  KernelNode add(Kernel("add_one"), data_, 64), add_half(Kernel("add_one"), data_, 32);
  ASSERT_HIP(api_.hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &three));
  ASSERT_HIP(api_.hipGraphAddKernelNode(&kernel, graph, &fill, 1, &add.parameters));
  ASSERT_HIP(api_.hipGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, result_, data_, 256, hipMemcpyDefault));
  hipGraphExec_t executable = Instantiate(graph);
  ASSERT_HIP(api_.hipGraphExecKernelNodeSetParams(executable, kernel, &add_half.parameters));
  ASSERT_HIP(api_.hipGraphExecMemsetNodeSetParams(executable, fill, &five));
  ASSERT_HIP(api_.hipGraphExecMemcpyNodeSetParams1D(executable, copy, result_, data_, 252, hipMemcpyDefault));
  std::fill(result_, result_ + 64, 0.0f);
  ASSERT_HIP(api_.hipGraphLaunch(executable, stream_));
  ASSERT_HIP(api_.hipStreamSynchronize(stream_));
  EXPECT_EQ(result_[0], 6.0f);
  EXPECT_EQ(result_[31], 6.0f);
  EXPECT_EQ(result_[32], 5.0f);
  EXPECT_EQ(result_[63], 0.0f);
  EXPECT_HIP_ERROR(api_.hipGraphExecMemsetNodeSetParams(executable, kernel, &five), hipErrorInvalidValue);
  // The graph itself is as it was.
  hipGraphExec_t second = Instantiate(graph);
  ASSERT_HIP(api_.hipGraphLaunch(second, stream_));
  ASSERT_HIP(api_.hipStreamSynchronize(stream_));
  EXPECT_THAT(Result(), Each(4.0f));
}

TEST_F(EmulatedGraphTest, ChecksNodesWhenTheyAreAdded) {
  hipGraph_t graph = NewGraph(), other = NewGraph();
  hipGraphNode_t node = nullptr, foreign = nullptr;
  hipMemsetParams fill = FillOf(0);
  fill.width = 65;
  EXPECT_HIP_ERROR(api_.hipGraphAddMemsetNode(&node, graph, nullptr, 0, &fill), hipErrorInvalidValue);
  KernelNode add(Kernel("add_one"), data_, 64);
  add.parameters.blockDim.x = 63;
  EXPECT_HIP_ERROR(api_.hipGraphAddKernelNode(&node, graph, nullptr, 0, &add.parameters), hipErrorInvalidConfiguration);
  EXPECT_HIP(api_.hipGraphAddEmptyNode(&foreign, other, nullptr, 0));
  EXPECT_HIP_ERROR(api_.hipGraphAddEmptyNode(&node, graph, &foreign, 1), hipErrorInvalidValue);
  EXPECT_THAT(FormatReport(), HasSubstr("is a node of another graph"));
}

TEST_F(EmulatedGraphTest, CapturesSeveralStreams) {
  hipStream_t second = NewStream();
  hipEvent_t fork = NewEvent(), join = NewEvent();
  void* doubled = Allocate(256);
  hipFunction_t add = Kernel("add_one"), twice = Kernel("twice");
  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  EXPECT_HIP(api_.hipStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, hipStreamCaptureStatusActive);
  EXPECT_HIP(api_.hipMemsetD32Async(data_, static_cast<int>(kThree), 64, stream_));
  EXPECT_HIP(api_.hipEventRecord(fork, stream_));
  EXPECT_HIP(api_.hipStreamWaitEvent(second, fork, 0));
  EXPECT_HIP(api_.hipStreamIsCapturing(second, &status));
  EXPECT_EQ(status, hipStreamCaptureStatusActive);
  EXPECT_HIP(Launch(twice, 1, 64, second, TwoArrays{doubled, data_, 64}));
  EXPECT_HIP(api_.hipEventRecord(join, second));
  EXPECT_HIP(api_.hipStreamWaitEvent(stream_, join, 0));
  EXPECT_HIP(Launch(add, 1, 64, stream_, Array{doubled, 64}));
  EXPECT_HIP(api_.hipMemcpyDtoHAsync(result_, doubled, 256, stream_));
  hipGraph_t graph = nullptr;
  ASSERT_HIP(api_.hipStreamEndCapture(stream_, &graph));
  EXPECT_HIP(api_.hipStreamIsCapturing(second, &status));
  EXPECT_EQ(status, hipStreamCaptureStatusNone);
  EXPECT_HIP(api_.hipStreamSynchronize(stream_));  // nothing has run
  std::fill(result_, result_ + 64, 0.0f);
  hipGraphExec_t executable = Instantiate(graph);
  ASSERT_HIP(api_.hipGraphLaunch(executable, stream_));
  ASSERT_HIP(api_.hipStreamSynchronize(stream_));
  EXPECT_THAT(Result(), Each(7.0f));
}

TEST_F(EmulatedGraphTest, SynchronizeInvalidatesACapture) {
  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
  EXPECT_HIP_ERROR(api_.hipStreamSynchronize(stream_), hipErrorStreamCaptureUnsupported);
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  EXPECT_HIP(api_.hipStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, hipStreamCaptureStatusInvalidated);
  EXPECT_HIP_ERROR(api_.hipMemsetD8Async(data_, 0, 4, stream_), hipErrorStreamCaptureInvalidated);
  hipGraph_t graph = nullptr;
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  EXPECT_HIP(api_.hipMemsetD8Async(data_, 0, 4, stream_));  // the stream is usable again
}

TEST_F(EmulatedGraphTest, UnsafeCallsInvalidateByMode) {
  void* memory = nullptr;
  hipGraph_t graph = nullptr;
  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  std::thread([&] { EXPECT_HIP_ERROR(api_.hipMalloc(&memory, 16), hipErrorStreamCaptureUnsupported); }).join();
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureInvalidated);

  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
  std::thread([&] { EXPECT_HIP(api_.hipMalloc(&memory, 16)); }).join();
  EXPECT_HIP(api_.hipStreamEndCapture(stream_, &graph));

  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
  EXPECT_HIP_ERROR(api_.hipMalloc(&memory, 16), hipErrorStreamCaptureUnsupported);
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureInvalidated);

  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
  EXPECT_HIP(api_.hipMalloc(&memory, 16));
  EXPECT_HIP(api_.hipStreamEndCapture(stream_, &graph));
}

TEST_F(EmulatedGraphTest, TheNullStreamDoesNotCapture) {
  EXPECT_HIP_ERROR(api_.hipStreamBeginCapture(nullptr, hipStreamCaptureModeRelaxed), hipErrorStreamCaptureUnsupported);
  hipStream_t blocking = NewStream(kStreamDefault);
  ASSERT_HIP(api_.hipStreamBeginCapture(blocking, hipStreamCaptureModeRelaxed));
  EXPECT_HIP_ERROR(api_.hipMemsetD8Async(data_, 0, 4, nullptr), hipErrorStreamCaptureImplicit);
  hipGraph_t graph = nullptr;
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(blocking, &graph), hipErrorStreamCaptureInvalidated);
}

TEST_F(EmulatedGraphTest, CapturesMustBeJoined) {
  hipStream_t second = NewStream();
  hipEvent_t fork = NewEvent();
  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
  EXPECT_HIP(api_.hipEventRecord(fork, stream_));
  EXPECT_HIP(api_.hipStreamWaitEvent(second, fork, 0));
  EXPECT_HIP(api_.hipMemsetD8Async(data_, 0, 4, second));
  hipGraph_t graph = nullptr;
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
}

TEST_F(EmulatedGraphTest, CapturesStayApart) {
  hipStream_t second = NewStream();
  hipEvent_t outside = NewEvent(), inside = NewEvent();
  hipGraph_t graph = nullptr;
  EXPECT_HIP(api_.hipEventRecord(outside, second));
  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
  EXPECT_HIP_ERROR(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed), hipErrorIllegalState);
  EXPECT_HIP_ERROR(api_.hipStreamWaitEvent(stream_, outside, 0), hipErrorStreamCaptureIsolation);
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureInvalidated);

  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
  ASSERT_HIP(api_.hipStreamBeginCapture(second, hipStreamCaptureModeRelaxed));
  EXPECT_HIP(api_.hipEventRecord(inside, stream_));
  EXPECT_HIP_ERROR(api_.hipStreamWaitEvent(second, inside, 0), hipErrorStreamCaptureMerge);
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureInvalidated);
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(second, &graph), hipErrorStreamCaptureInvalidated);
}

TEST_F(EmulatedGraphTest, CapturedEventsCannotBeAwaited) {
  hipEvent_t event = NewEvent();
  hipGraph_t graph = nullptr;
  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
  EXPECT_HIP(api_.hipEventRecord(event, stream_));
  EXPECT_HIP_ERROR(api_.hipEventSynchronize(event), hipErrorCapturedEvent);
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureInvalidated);
}

TEST_F(EmulatedGraphTest, OnlyTheFirstStreamEndsACapture) {
  hipStream_t second = NewStream();
  hipEvent_t fork = NewEvent();
  hipGraph_t graph = nullptr;
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(stream_, &graph), hipErrorIllegalState);
  ASSERT_HIP(api_.hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
  EXPECT_HIP(api_.hipEventRecord(fork, stream_));
  EXPECT_HIP(api_.hipStreamWaitEvent(second, fork, 0));
  std::thread([&] {
    EXPECT_HIP_ERROR(api_.hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureWrongThread);
  }).join();
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(second, &graph), hipErrorStreamCaptureUnmatched);
  EXPECT_HIP_ERROR(api_.hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureInvalidated);
}

TEST_F(EmulatedGraphTest, GraphsKeepTheOrderOfStreams) {
  hipGraph_t graph = NewGraph();
  hipGraphNode_t fill = nullptr;
  const hipMemsetParams three = FillOf(kThree);
  ASSERT_HIP(api_.hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &three));
  hipGraphExec_t executable = Instantiate(graph);
  ASSERT_HIP(api_.hipGraphLaunch(executable, stream_));
  hipStream_t second = NewStream();
  ASSERT_HIP(api_.hipMemcpyDtoHAsync(result_, data_, 256, second));
  EXPECT_HIP_ERROR(api_.hipDeviceSynchronize(), hipErrorLaunchFailure);
  EXPECT_THAT(FormatReport(), HasSubstr("fill node of 256 bytes (node 0) within hipGraphLaunch of 1 nodes"));
}

TEST_F(EmulatedGraphTest, NodesWithoutADependencyHaveNoOrder) {
  for (const bool complete : {true, false}) {
    Start({});
    SetUpMemory();
    hipGraph_t graph = NewGraph();
    hipGraphNode_t fill = nullptr, empty = nullptr, kernel = nullptr, other = nullptr, copy = nullptr;
    const hipMemsetParams three = FillOf(kThree);
    void* doubled = Allocate(256);
    ASSERT_HIP(api_.hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &three));
    ASSERT_HIP(api_.hipGraphAddEmptyNode(&empty, graph, &fill, 1));
    // Two readers without an order between them.
    ASSERT_HIP(api_.hipGraphAddMemcpyNode1D(&other, graph, &empty, 1, doubled, data_, 256, hipMemcpyDeviceToDevice));
    ASSERT_HIP(api_.hipGraphAddMemcpyNode1D(&copy, graph, &empty, 1, result_, data_, 256, hipMemcpyDeviceToHost));
    // A writer after both, or after one.
    KernelNode add(Kernel("add_one"), data_, 64);
    const hipGraphNode_t both[] = {other, copy};
    ASSERT_HIP(api_.hipGraphAddKernelNode(&kernel, graph, both, complete ? 2 : 1, &add.parameters));
    hipGraphExec_t executable = Instantiate(graph);
    ASSERT_HIP(api_.hipGraphLaunch(executable, stream_));
    EXPECT_HIP_ERROR(api_.hipStreamSynchronize(stream_), complete ? hipSuccess : hipErrorLaunchFailure);
    if (complete) {
      EXPECT_EQ(FormatReport(), "");
      ASSERT_HIP(api_.hipGraphLaunch(executable, stream_));  // launches on a stream are in order
      ASSERT_HIP(api_.hipStreamSynchronize(stream_));
    } else {
      EXPECT_THAT(FormatReport(), HasSubstr("no order between nodes: kernel add_one (node 4)"));
      EXPECT_THAT(FormatReport(), HasSubstr("copy node of 256 bytes (node 3)"));
      EXPECT_THAT(FormatReport(), HasSubstr("no dependency within the graph"));
    }
  }
}

}  // namespace
}  // namespace backplane::hip
