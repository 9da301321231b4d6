// Tests the store and the C callbacks by which a plugin calls it.
#include "sdk/host/key_value_store.h"

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/host/folder_store.h"

namespace backplane::host {
namespace {

using ::testing::HasSubstr;

// Creates errors as a plugin does for the callbacks of its host.
struct Made {
  PJRT_Error_Code code;
  std::string message;
};
PJRT_Error* MakeError(PJRT_Error_Code code, const char* message, size_t size) {
  return reinterpret_cast<PJRT_Error*>(new Made{code, std::string(message, size)});
}
Made Take(PJRT_Error* error) {
  auto* made = reinterpret_cast<Made*>(error);
  if (made == nullptr) return {PJRT_Error_Code_OK, ""};
  Made copy = *made;
  delete made;
  return copy;
}

class Callbacks {
 public:
  explicit Callbacks(KeyValueStore* store) { SetCallbacks(store, &args_); }
  Made Put(const std::string& key, const std::string& value) {
    PJRT_KeyValuePutCallback_Args a{};
    a.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
    a.key = key.data(), a.key_size = key.size();
    a.value = value.data(), a.value_size = value.size();
    a.callback_error = &error_;
    a.user_arg = args_.kv_put_user_arg;
    return Take(args_.kv_put_callback(&a));
  }
  Made Get(const std::string& key, int timeout_ms, std::string* value) {
    PJRT_KeyValueGetCallback_Args a{};
    a.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
    a.key = key.data(), a.key_size = key.size();
    a.timeout_in_ms = timeout_ms;
    a.callback_error = &error_;
    a.user_arg = args_.kv_get_user_arg;
    return Answer(args_.kv_get_callback(&a), a, value);
  }
  Made TryGet(const std::string& key, std::string* value) {
    PJRT_KeyValueTryGetCallback_Args a{};
    a.struct_size = PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE;
    a.key = key.data(), a.key_size = key.size();
    a.callback_error = &error_;
    a.user_arg = args_.kv_try_get_user_arg;
    return Answer(args_.kv_try_get_callback(&a), a, value);
  }

 private:
  template <typename Args>
  Made Answer(PJRT_Error* error, const Args& a, std::string* value) {
    Made made = Take(error);
    if (made.code == PJRT_Error_Code_OK) {
      value->assign(a.value, a.value_size);
      a.value_deleter_callback(a.value);
    }
    return made;
  }
  PJRT_Client_Create_Args args_{};
  PJRT_CallbackError error_ = MakeError;
};

TEST(KeyValueStoreTest, AnswersThroughTheCallbacks) {
  InProcessKeyValueStore store;
  Callbacks callbacks(&store);
  std::string value;
  EXPECT_EQ(callbacks.TryGet("a", &value).code, PJRT_Error_Code_NOT_FOUND);
  const Made late = callbacks.Get("a", 20, &value);
  EXPECT_EQ(late.code, PJRT_Error_Code_DEADLINE_EXCEEDED);
  EXPECT_THAT(late.message, HasSubstr("key 'a': no value after 20ms"));
  EXPECT_EQ(callbacks.Put("a", std::string("x\0y", 3)).code, PJRT_Error_Code_OK);
  EXPECT_EQ(callbacks.TryGet("a", &value).code, PJRT_Error_Code_OK);
  EXPECT_EQ(value, std::string("x\0y", 3));
  EXPECT_EQ(callbacks.Put("a", "again").code, PJRT_Error_Code_ALREADY_EXISTS);
  EXPECT_EQ(callbacks.Put("empty", "").code, PJRT_Error_Code_OK);
  EXPECT_EQ(callbacks.Get("empty", 0, &value).code, PJRT_Error_Code_OK);
  EXPECT_EQ(value, "");
}

TEST(KeyValueStoreTest, WaitsForAValue) {
  InProcessKeyValueStore store;
  Callbacks callbacks(&store);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(store.Put("b", "there").ok());
  });
  std::string value;
  EXPECT_EQ(callbacks.Get("b", 10000, &value).code, PJRT_Error_Code_OK);
  EXPECT_EQ(value, "there");
  later.join();
}

// Two stores in one folder stand for two processes.
TEST(KeyValueStoreTest, AFolderIsShared) {
  std::string folder = (std::filesystem::temp_directory_path() / "folder_store.XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  FolderKeyValueStore first(folder), second(folder);
  EXPECT_TRUE(absl::IsNotFound(second.TryGet("a/b").status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(second.Get("a/b", absl::Milliseconds(20)).status()));
  const std::string value("x\0y", 3);
  EXPECT_TRUE(first.Put("a/b", value).ok());
  EXPECT_EQ(*second.TryGet("a/b"), value);
  EXPECT_TRUE(absl::IsAlreadyExists(second.Put("a/b", "again")));
  EXPECT_EQ(*first.Get("a/b", absl::Seconds(10)), value);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(first.Put("c", "").ok());
  });
  const absl::StatusOr<std::string> empty = second.Get("c", absl::Seconds(10));
  EXPECT_TRUE(empty.ok() && empty->empty());
  later.join();
  EXPECT_TRUE(absl::IsInvalidArgument(first.Put(std::string(1000, 'k'), "long")));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace backplane::host
