#include "sdk/host/key_value_store.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace backplane::host {
namespace {

PJRT_Error* ToError(const absl::Status& status, PJRT_CallbackError* make) {
  return (*make)(static_cast<PJRT_Error_Code>(status.code()), status.message().data(), status.message().size());
}

// Copies the value to memory that the deleter frees. Returns null if memory has run out.
char* CopyOut(const std::string& value) {
  char* copy = static_cast<char*>(std::malloc(value.size() + 1));
  if (copy != nullptr) std::memcpy(copy, value.c_str(), value.size() + 1);
  return copy;
}

void FreeValue(char* value) { std::free(value); }

template <typename Args>
PJRT_Error* Answer(const absl::StatusOr<std::string>& value, Args* args) {
  if (!value.ok()) return ToError(value.status(), args->callback_error);
  args->value = CopyOut(*value);
  if (args->value == nullptr)
    return ToError(absl::ResourceExhaustedError("no memory for the value"), args->callback_error);
  args->value_size = value->size();
  args->value_deleter_callback = FreeValue;
  return nullptr;
}

PJRT_Error* GetCallback(PJRT_KeyValueGetCallback_Args* args) {
  auto* store = static_cast<KeyValueStore*>(args->user_arg);
  return Answer(store->Get({args->key, args->key_size}, absl::Milliseconds(args->timeout_in_ms)), args);
}

PJRT_Error* TryGetCallback(PJRT_KeyValueTryGetCallback_Args* args) {
  return Answer(static_cast<KeyValueStore*>(args->user_arg)->TryGet({args->key, args->key_size}), args);
}

PJRT_Error* PutCallback(PJRT_KeyValuePutCallback_Args* args) {
  auto* store = static_cast<KeyValueStore*>(args->user_arg);
  absl::Status status = store->Put({args->key, args->key_size}, {args->value, args->value_size});
  return status.ok() ? nullptr : ToError(status, args->callback_error);
}

}  // namespace

void SetCallbacks(KeyValueStore* store, PJRT_Client_Create_Args* args) {
  args->kv_get_callback = GetCallback;
  args->kv_get_user_arg = store;
  args->kv_put_callback = PutCallback;
  args->kv_put_user_arg = store;
  args->kv_try_get_callback = TryGetCallback;
  args->kv_try_get_user_arg = store;
}

absl::StatusOr<std::string> InProcessKeyValueStore::Get(absl::string_view key, absl::Duration timeout) {
  MutexLock lock(mutex_);
  const auto limit = std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(timeout);
  for (bool in_time = true;; in_time = changed_.WaitUntil(mutex_, limit)) {
    auto it = values_.find(key);
    if (it != values_.end()) return it->second;
    if (!in_time) break;
  }
  return absl::DeadlineExceededError(absl::StrCat("key '", key, "': no value after ", absl::FormatDuration(timeout)));
}

absl::StatusOr<std::string> InProcessKeyValueStore::TryGet(absl::string_view key) {
  MutexLock lock(mutex_);
  auto it = values_.find(key);
  if (it == values_.end()) return absl::NotFoundError(absl::StrCat("key '", key, "': no value"));
  return it->second;
}

absl::Status InProcessKeyValueStore::Put(absl::string_view key, absl::string_view value) {
  MutexLock lock(mutex_);
  if (!values_.emplace(std::string(key), std::string(value)).second) {
    return absl::AlreadyExistsError(absl::StrCat("key '", key, "': has a value"));
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

}  // namespace backplane::host
