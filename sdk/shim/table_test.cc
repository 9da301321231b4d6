// Tests the table and the size rule: all slots, older and newer callers, errors and events.
#include <cstring>
#include <string>
#include <thread>

#include "api/first_sizes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/shim/guard.h"
#include "sdk/testing/api_calls.h"

namespace backplane::shim {
namespace {

using testing::Api;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::pair<std::string, PJRT_Error* (*)(void*)>> Slots() {
  // The names in the order of the table, from the header's field list.
  std::vector<std::pair<std::string, PJRT_Error* (*)(void*)>> out;
  const char* first = reinterpret_cast<const char*>(&Api().PJRT_Error_Destroy);
  const size_t count = (PJRT_Api_STRUCT_SIZE - offsetof(PJRT_Api, PJRT_Error_Destroy)) / sizeof(void*);
  for (size_t i = 0; i < count; ++i) {
    PJRT_Error* (*function)(void*);
    std::memcpy(&function, first + i * sizeof(void*), sizeof(function));
    out.emplace_back("slot " + std::to_string(i), function);
  }
  return out;
}

TEST(TableTest, EverySlotIsFilledAndTheVersionIsTheHeaders) {
  EXPECT_EQ(Api().struct_size, PJRT_Api_STRUCT_SIZE);
  EXPECT_EQ(Api().pjrt_api_version.major_version, 0);
  EXPECT_EQ(Api().pjrt_api_version.minor_version, PJRT_API_MINOR);
  EXPECT_EQ(Slots().size(), 138u);
  for (const auto& [name, function] : Slots()) EXPECT_NE(function, nullptr) << name;
  EXPECT_EQ(&Api(), GetPjrtApi());
}

TEST(TableTest, NullAndTooSmallArgumentsAreErrorsInEverySlot) {
  const auto slots = Slots();
  for (size_t i = 2; i < slots.size(); ++i) {  // the first two return nothing
    absl::Status status = testing::Take(slots[i].second(nullptr));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << slots[i].first;
    EXPECT_THAT(std::string(status.message()), HasSubstr("PJRT_")) << slots[i].first;
    size_t words[64] = {8};
    status = testing::Take(slots[i].second(words));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << slots[i].first;
    EXPECT_THAT(std::string(status.message()), HasSubstr("struct_size is 8, expected at least")) << slots[i].first;
  }
  Api().PJRT_Error_Destroy(nullptr);
  Api().PJRT_Error_Message(nullptr);
}

TEST(TableTest, NoSlotCrashesOnZeroedArgumentsOfANewerHost) {
  const auto slots = Slots();
  const void* makers[] = {reinterpret_cast<const void*>(Api().PJRT_Client_Create),
                          reinterpret_cast<const void*>(Api().PJRT_Event_Create),
                          reinterpret_cast<const void*>(Api().PJRT_ExecuteContext_Create),
                          reinterpret_cast<const void*>(Api().PJRT_TopologyDescription_Create)};
  int errors = 0, fine = 0;
  for (size_t i = 2; i < slots.size(); ++i) {
    const void* function = reinterpret_cast<const void*>(slots[i].second);
    if (std::find(std::begin(makers), std::end(makers), function) != std::end(makers)) continue;
    size_t words[128] = {sizeof(words)};
    absl::Status status = testing::Take(slots[i].second(words));
    (status.ok() ? fine : errors)++;
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("PJRT_")) << slots[i].first;
      EXPECT_THAT(status.code(),
                  ::testing::AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented));
    }
  }
  EXPECT_EQ(fine, 12);  // initialize, attributes, and destroying null
  EXPECT_EQ(errors, 120);
}

TEST(TableTest, UnsupportedCallsNameThemselves) {
  BP_ARGS(a, PJRT_Device_PoisonExecution);
  absl::Status status = BP_CALL(PJRT_Device_PoisonExecution, a);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("PJRT_Device_PoisonExecution"));
}

// Every struct that has grown is accepted with the size in the oldest released header.
TEST(SizeRuleTest, TheFirstReleasedSizesAreAccepted) {
#define BP_CHECK(T) EXPECT_LE(SizeRule<T>::kMin + SizeRule<T>::kOutdated, size_t{T##_FIRST_SIZE}) << #T
  BP_CHECK(PJRT_Client_CreateErrorBuffer_Args);
  BP_CHECK(PJRT_Client_CreateViewOfDeviceBuffer_Args);
  BP_CHECK(PJRT_Client_Create_Args);
  BP_CHECK(PJRT_Device_MemoryStats_Args);
  BP_CHECK(PJRT_Device_PoisonExecution_Args);
  BP_CHECK(PJRT_Executable_DeserializeAndLoad_Args);
  BP_CHECK(PJRT_Executable_GetCompiledMemoryStats_Args);
  BP_CHECK(PJRT_ExecuteOptions);
  BP_CHECK(PJRT_Plugin_Attributes_Args);
#undef BP_CHECK
}

TEST(SizeRuleTest, NothingPastAnOldCallersStructIsTouched) {
  PJRT_Client* client = testing::NewClient();
  struct {
    PJRT_Device_MemoryStats_Args args;
    char beyond[64];
  } old;
  std::memset(&old, 0x5a, sizeof(old));
  const size_t size = SizeRule<PJRT_Device_MemoryStats_Args>::kMin;
  ASSERT_LT(size, sizeof(old.args));
  old.args.struct_size = size;
  old.args.device = testing::Devices(client)[1];
  ASSERT_TRUE(BP_CALL(PJRT_Device_MemoryStats, old.args).ok());
  EXPECT_EQ(old.args.bytes_in_use, 101);
  EXPECT_TRUE(old.args.peak_bytes_in_use_is_set);
  EXPECT_EQ(old.args.peak_bytes_in_use, 200);
  EXPECT_FALSE(old.args.num_allocs_is_set);
  EXPECT_EQ(old.args.struct_size, size);
  const char* bytes = reinterpret_cast<const char*>(&old);
  for (size_t i = size; i < sizeof(old); ++i) ASSERT_EQ(bytes[i], 0x5a) << i;
  testing::Destroy(client);
}

TEST(SizeRuleTest, SizesOnceAnnouncedWronglyAreTakenForWhole) {
  BP_ARGS(a, PJRT_Plugin_Attributes);
  a.struct_size = 24;
  ASSERT_TRUE(BP_CALL(PJRT_Plugin_Attributes, a).ok());
  EXPECT_EQ(a.num_attributes, 6u);
}

TEST(SizeRuleTest, ANewerCallersTailIsLeftAlone) {
  PJRT_Client* client = testing::NewClient();
  struct {
    PJRT_Client_ProcessIndex_Args args;
    char tail[128];
  } newer;
  std::memset(&newer, 0x33, sizeof(newer));
  newer.args.struct_size = sizeof(newer);
  newer.args.client = client;
  ASSERT_TRUE(BP_CALL(PJRT_Client_ProcessIndex, newer.args).ok());
  EXPECT_EQ(newer.args.process_index, 0);
  for (char c : newer.tail) ASSERT_EQ(c, 0x33);
  testing::Destroy(client);
}

TEST(GuardTest, ExceptionsBecomeErrors) {
  PJRT_Event_Create_Args args{};
  args.struct_size = sizeof(args);
  auto run = [&](auto impl) { return testing::Take(Guard("PJRT_X", &args, sizeof(args), impl)); };
  EXPECT_EQ(run([](auto&) -> absl::Status { throw std::bad_alloc(); }).code(), absl::StatusCode::kResourceExhausted);
  absl::Status status = run([](auto&) -> absl::Status { throw std::runtime_error("wheels came off"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("wheels came off"));
  EXPECT_EQ(run([](auto&) -> absl::Status { throw 7; }).code(), absl::StatusCode::kInternal);
}

TEST(ErrorTest, CodeMessagePayloadsAndTheTableInTheFirstWord) {
  absl::Status status = absl::NotFoundError("no such thing");
  status.SetPayload("where", absl::Cord("here"));
  PJRT_Error* error = MakeError(status);
  const PJRT_Error_FunctionTable* table = error->vtable;
  EXPECT_EQ(table->struct_size, PJRT_Error_FunctionTable_STRUCT_SIZE);
  EXPECT_EQ(table->get_code(error), PJRT_Error_Code_NOT_FOUND);
  const char* text = nullptr;
  size_t size = 0;
  table->message(error, &text, &size);
  EXPECT_EQ(std::string(text, size), "no such thing");
  std::string seen;
  BP_ARGS(a, PJRT_Error_ForEachPayload);
  a.error = error;
  a.visitor = [](const char* k, size_t ks, const char* v, size_t vs, void* to) {
    *static_cast<std::string*>(to) += std::string(k, ks) + "=" + std::string(v, vs) + ";";
  };
  a.user_arg = &seen;
  ASSERT_TRUE(BP_CALL(PJRT_Error_ForEachPayload, a).ok());
  EXPECT_EQ(seen, "where=here;");
  EXPECT_EQ(GetStatus(error), status);
  table->destroy(error);
  EXPECT_EQ(MakeError(absl::OkStatus()), nullptr);
}

TEST(ErrorTest, ForeignErrorsAreReadThroughTheirOwnTable) {
  struct Foreign : PJRT_Error {
    int destroyed = 0;
  };
  static const PJRT_Error_FunctionTable table = {
      PJRT_Error_FunctionTable_STRUCT_SIZE,
      PJRT_Error_STRUCT_SIZE,
      nullptr,
      [](PJRT_Error* e) { ++static_cast<Foreign*>(e)->destroyed; },
      [](const PJRT_Error*, const char** m, size_t* n) { *m = "theirs", *n = 6; },
      [](const PJRT_Error*) { return PJRT_Error_Code_ABORTED; },
      [](const PJRT_Error*, PJRT_Error_PayloadVisitor visitor, void* arg) { visitor("k", 1, "v", 1, arg); }};
  Foreign error;
  error.vtable = &table;
  absl::Status status = GetStatus(&error);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(), "theirs");
  EXPECT_EQ(status.GetPayload("k"), absl::Cord("v"));
  BP_ARGS(d, PJRT_Error_Destroy);
  d.error = &error;
  Api().PJRT_Error_Destroy(&d);
  EXPECT_EQ(error.destroyed, 1);
}

TEST(EventTest, SetByTheHost) {
  BP_ARGS(c, PJRT_Event_Create);
  ASSERT_TRUE(BP_CALL(PJRT_Event_Create, c).ok());
  BP_ARGS(r, PJRT_Event_IsReady);
  r.event = c.event;
  ASSERT_TRUE(BP_CALL(PJRT_Event_IsReady, r).ok());
  EXPECT_FALSE(r.is_ready);
  BP_ARGS(e, PJRT_Event_Error);
  e.event = c.event;
  EXPECT_EQ(BP_CALL(PJRT_Event_Error, e).code(), absl::StatusCode::kFailedPrecondition);

  std::vector<absl::Status> seen;
  BP_ARGS(o, PJRT_Event_OnReady);
  o.event = c.event;
  o.callback = [](PJRT_Error* error, void* to) {
    static_cast<std::vector<absl::Status>*>(to)->push_back(testing::Take(error));
  };
  o.user_arg = &seen;
  ASSERT_TRUE(BP_CALL(PJRT_Event_OnReady, o).ok());
  std::thread setter([&] {
    BP_ARGS(s, PJRT_Event_Set);
    s.event = c.event;
    s.error_code = PJRT_Error_Code_DATA_LOSS;
    s.error_message = "torn page";
    s.error_message_size = 9;
    EXPECT_TRUE(BP_CALL(PJRT_Event_Set, s).ok());
    EXPECT_EQ(BP_CALL(PJRT_Event_Set, s).code(), absl::StatusCode::kFailedPrecondition);
  });
  BP_ARGS(w, PJRT_Event_Await);
  w.event = c.event;
  EXPECT_EQ(BP_CALL(PJRT_Event_Await, w), absl::DataLossError("torn page"));
  setter.join();
  EXPECT_THAT(seen, ElementsAre(absl::DataLossError("torn page")));
  EXPECT_EQ(BP_CALL(PJRT_Event_Error, e), absl::DataLossError("torn page"));
  EXPECT_EQ(testing::AwaitAndDestroy(c.event), absl::DataLossError("torn page"));
}

}  // namespace
}  // namespace backplane::shim
