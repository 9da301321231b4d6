#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "sdk/shim/copy_stream.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Host {
  std::vector<float> got, give;
  bool done = false, fails = false, cuts = false;
  size_t total = 0;
  std::thread later;
};

PJRT_Error* Take(PJRT_Chunk* chunk, PJRT_CallbackError* make_error, size_t total, bool done, void* arg) {
  auto* host = static_cast<Host*>(arg);
  const float* data = static_cast<const float*>(chunk->data);
  host->got.assign(data, data + chunk->size / sizeof(float));
  host->total = total;
  host->done = done;
  chunk->deleter(chunk->data, chunk->deleter_arg);
  return host->fails ? (*make_error)(PJRT_Error_Code_DATA_LOSS, "no room here", 12) : nullptr;
}

// Two chunks, from another thread, after the callback has returned.
void Give(PJRT_CopyToDeviceStream* stream, void* arg) {
  auto* host = static_cast<Host*>(arg);
  host->later = std::thread([stream, host] {
    const size_t half = host->give.size() / 2;
    PJRT_Chunk first{host->give.data(), half * sizeof(float), nullptr, nullptr};
    EXPECT_TRUE(stream->Add(first).ok());
    if (!host->cuts) {
      PJRT_Chunk rest{host->give.data() + half, (host->give.size() - half) * sizeof(float), nullptr, nullptr};
      EXPECT_TRUE(stream->Add(rest).ok());
    }
    delete stream;
  });
}

class HostTransferTest : public testing::Test {
 protected:
  void SetUp() override {
    sends_ = {5, &host_, &Take};
    receives_ = {7, &host_, &Give};
    send_list_ = &sends_;
    receive_list_ = &receives_;
    options_.num_send_ops = options_.num_recv_ops = 1;
    options_.send_callbacks = &send_list_;
    options_.recv_callbacks = &receive_list_;
    auto made = AddCallbacks(nullptr, options_, 0);
    ASSERT_TRUE(made.ok()) << made.status();
    context_ = *made;
  }
  Host host_;
  PJRT_SendCallbackInfo sends_;
  PJRT_RecvCallbackInfo receives_;
  PJRT_SendCallbackInfo* send_list_;
  PJRT_RecvCallbackInfo* receive_list_;
  PJRT_ExecuteOptions options_{};
  std::shared_ptr<const ContextData> context_;
  float data_[4] = {1, 2, 3, 4};
  const int64_t dims_[1] = {4};
  CustomCallBuffer buffer_{PrimitiveType::kF32, data_, dims_};
};

TEST_F(HostTransferTest, SendsWholeArrays) {
  ASSERT_TRUE(context_->SendToHost(5, buffer_).ok());
  EXPECT_THAT(host_.got, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(host_.total, sizeof(data_));
  EXPECT_TRUE(host_.done);
}

TEST_F(HostTransferTest, TheHostsErrorIsTheSends) {
  host_.fails = true;
  EXPECT_EQ(context_->SendToHost(5, buffer_), absl::DataLossError("no room here"));
}

TEST_F(HostTransferTest, ReceivesInChunksThatComeLater) {
  host_.give = {9, 8, 7, 6};
  ASSERT_TRUE(context_->ReceiveFromHost(7, buffer_).ok());
  host_.later.join();
  EXPECT_THAT(data_, ElementsAre(9, 8, 7, 6));
}

TEST_F(HostTransferTest, AStreamThatEndsEarlyIsAnError) {
  host_.give = {9, 8, 7, 6};
  host_.cuts = true;
  absl::Status status = context_->ReceiveFromHost(7, buffer_);
  host_.later.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("after 8 of 16 bytes"));
}

TEST_F(HostTransferTest, AChannelWithoutACallbackIsNamed) {
  EXPECT_THAT(std::string(context_->SendToHost(6, buffer_).message()), HasSubstr("no send callback for channel 6"));
  EXPECT_THAT(std::string(context_->ReceiveFromHost(5, buffer_).message()),
              HasSubstr("no receive callback for channel 5"));
  send_list_ = nullptr;
  EXPECT_EQ(AddCallbacks(nullptr, options_, 0).status().code(), absl::StatusCode::kInvalidArgument);
  options_ = {};
  EXPECT_EQ(*AddCallbacks(context_, options_, 0), context_);
}

}  // namespace
}  // namespace backplane::shim
