// Sixteen threads call through trace and validate: every call is in the log of its thread, correct calls give no
// findings, all incorrect ones are found, and the files can be written meanwhile.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "sdk/host/json.h"
#include "sdk/layers/calls_test.h"
#include "sdk/layers/validate/validate.h"

namespace backplane::layers {
namespace {

using host::Json;

constexpr int kThreads = 16;

// Counts the calls by function, for comparison with the trace. The outermost layer.
class Counter : public Layer {
 public:
  explicit Counter(std::array<std::atomic<int64_t>, kNumFunctions>* counts) : counts_(*counts) {}
  const char* name() const override { return "counter"; }
  void After(Call& call) override { counts_[Index(call.fn)].fetch_add(1, std::memory_order_relaxed); }

 private:
  std::array<std::atomic<int64_t>, kNumFunctions>& counts_;
};

class StressTest : public LayersTest {
 protected:
  void SetUp() override {
    base_ = absl::StrCat(::testing::TempDir(), "stress_test.", getpid());
    std::vector<std::unique_ptr<Layer>> layers;
    layers.push_back(std::make_unique<Counter>(&counts_));
    const std::map<std::string, Settings> settings = {{"trace", {{"file", base_ + ".json"}, {"html", base_ + ".html"}}},
                                                      {"validate", {{"file", base_ + ".txt"}, {"refuse", "1"}}}};
    for (const char* name : {"trace", "validate"}) {
      absl::StatusOr<std::unique_ptr<Layer>> made = MakeLayerByName(name, Options(name, settings.at(name)));
      ASSERT_TRUE(made.ok()) << made.status();
      layer_ = made->get();  // finally `validate`
      layers.push_back(*std::move(made));
    }
    Open(std::move(layers));
  }
  void TearDown() override {
    stack_.reset();
    for (const char* end : {".json", ".html", ".txt"}) unlink((base_ + end).c_str());
  }
  // Runs `work` in all threads at once, and `meanwhile` repeatedly in another thread.
  template <typename Work, typename Meanwhile>
  static void AllAtOnce(Work work, Meanwhile meanwhile) {
    std::atomic<int> waiting{0};
    std::atomic<bool> stop{false};
    std::thread other([&] {
      while (!stop) meanwhile();
    });
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        ++waiting;
        while (waiting < kThreads) std::this_thread::yield();
        work(t);
      });
    }
    for (std::thread& t : threads) t.join();
    stop = true;
    other.join();
  }
  uint64_t Count(const char* kind) { return GetReport(*layer_).GetCount(kind); }

  std::array<std::atomic<int64_t>, kNumFunctions> counts_{};
  std::string base_;
};

TEST_F(StressTest, NothingIsLostAndNothingIsWrong) {
  constexpr int kEach = 25;
  PJRT_Client* client = NewClient();
  PJRT_LoadedExecutable* add = Compile(client, testing::kAdd);
  std::atomic<int> callbacks{0};
  AllAtOnce(
      [&](int t) {
        for (int i = 0; i < kEach; ++i) {
          const float value = static_cast<float>(t * kEach + i);
          PJRT_Buffer *x = NewBuffer(client, {value, 1, 2, 3}), *y = NewBuffer(client), *z = nullptr;
          ASSERT_TRUE(Execute(add, {x, y}, &z).ok());
          BP_ARGS(r, PJRT_Buffer_ReadyEvent);
          r.buffer = z;
          ASSERT_TRUE(CALL(PJRT_Buffer_ReadyEvent, r).ok());
          BP_ARGS(on, PJRT_Event_OnReady);
          on.event = r.event;
          on.user_arg = &callbacks;
          on.callback = [](PJRT_Error* error, void* n) {
            EXPECT_EQ(error, nullptr);
            ++*static_cast<std::atomic<int>*>(n);
          };
          ASSERT_TRUE(CALL(PJRT_Event_OnReady, on).ok());
          std::vector<float> values;
          ASSERT_TRUE(Read(z, &values).ok());
          ASSERT_EQ(values[0], value + 1);
          ASSERT_TRUE(Await(r.event).ok());
          for (PJRT_Buffer* b : {x, y, z}) ASSERT_TRUE(Destroy(b).ok());
        }
      },
      [&] { stack_->Flush(); });
  Destroy(add);
  Destroy(client);
  EXPECT_EQ(callbacks, kThreads * kEach);
  stack_->End();
  EXPECT_EQ(GetReport(*layer_).size(), 0) << std::ifstream(base_ + ".txt").rdbuf();

  std::stringstream text;
  text << std::ifstream(base_ + ".json").rdbuf();
  ASSERT_OK_AND_ASSIGN(Json json, Json::Parse(text.str()));
  std::map<std::string, int64_t> calls;
  std::map<int64_t, int64_t> executions;  // by thread
  std::map<int64_t, std::string> open;    // spans
  int64_t spans = 0;
  for (const Json& e : *json.Find("traceEvents")->array()) {
    const std::string& kind = *e.Find("ph")->string();
    const std::string& name = *e.Find("name")->string();
    if (kind == "X") {
      ++calls[name];
      if (name == "LoadedExecutable_Execute") ++executions[*e.Find("tid")->integer()];
    } else if (kind == "b") {
      EXPECT_TRUE(open.emplace(*e.Find("id")->integer(), name).second);
    } else if (kind == "e") {
      EXPECT_EQ(open[*e.Find("id")->integer()], name);
      open.erase(*e.Find("id")->integer());
      spans += name == "add";
    }
  }
  for (size_t f = 0; f < kNumFunctions; ++f) {
    const std::string name = GetInfo(static_cast<Fn>(f)).name;
    EXPECT_EQ(calls[name.substr(name.rfind("PJRT_", 0) == 0 ? 5 : 0)], counts_[f]) << name;
  }
  EXPECT_EQ(calls["LoadedExecutable_Execute"], kThreads * kEach);
  EXPECT_EQ(executions.size(), kThreads) << "each in its own thread";
  for (const auto& [tid, count] : executions) EXPECT_EQ(count, kEach) << tid;
  EXPECT_EQ(spans, kThreads * kEach);
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(*json.Find("otherData")->Find("dropped")->string(), "0");
}

// Handles that all threads use, and some that each thread misuses: there must be as many findings as misuses.
TEST_F(StressTest, EveryMisuseIsFound) {
  constexpr int kEach = 200, kMisuses = 7;
  PJRT_Client* client = NewClient();
  std::vector<PJRT_Buffer*> shared;
  for (int i = 0; i < 64; ++i) shared.push_back(NewBuffer(client));
  std::vector<std::array<int64_t, 8>> nothing(kThreads);  // no buffers
  AllAtOnce(
      [&](int t) {
        for (int i = 0; i < kEach; ++i) {
          BP_ARGS(a, PJRT_Buffer_IsDeleted);
          a.buffer = shared[static_cast<size_t>(t * 7 + i) % shared.size()];
          ASSERT_TRUE(CALL(PJRT_Buffer_IsDeleted, a).ok());
          PJRT_Buffer* own = NewBuffer(client);
          ASSERT_TRUE(Destroy(own).ok());
          if (i % (kEach / kMisuses) != 0 || i / (kEach / kMisuses) >= kMisuses) continue;
          BP_ARGS(e, PJRT_Event_Destroy);
          e.event = reinterpret_cast<PJRT_Event*>(&nothing[static_cast<size_t>(t)]);
          ASSERT_EQ(CALL(PJRT_Event_Destroy, e).code(), absl::StatusCode::kInvalidArgument);
        }
      },
      [&] { layer_->Flush(); });
  EXPECT_EQ(Count("unknown-handle"), kThreads * kMisuses);
  EXPECT_EQ(Count("use-after-destroy"), 0);
  for (PJRT_Buffer* b : shared) EXPECT_OK(Destroy(b));
  Destroy(client);
  stack_->End();
  EXPECT_EQ(Count("leak"), 0);
  EXPECT_EQ(Count("client-destroyed-early"), 0);
}

}  // namespace
}  // namespace backplane::layers
