// Calls the key-value store of a host for a backend.
#include <algorithm>
#include <climits>

#include "absl/strings/str_cat.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

// Copies the value out of the host's result, which is freed.
template <typename Args>
std::string TakeValue(Args& answer) {
  std::string value(answer.value == nullptr ? "" : answer.value, answer.value == nullptr ? 0 : answer.value_size);
  if (answer.value_deleter_callback != nullptr) answer.value_deleter_callback(answer.value);
  return value;
}

}  // namespace

std::shared_ptr<HostKeyValues> HostKeyValues::Of(const PJRT_Client_Create_Args& args) {
  if (args.kv_get_callback == nullptr && args.kv_put_callback == nullptr) return nullptr;
  auto store = std::make_shared<HostKeyValues>();
  store->get_ = args.kv_get_callback;
  store->get_arg_ = args.kv_get_user_arg;
  store->put_ = args.kv_put_callback;
  store->put_arg_ = args.kv_put_user_arg;
  store->try_get_ = args.kv_try_get_callback;
  store->try_get_arg_ = args.kv_try_get_user_arg;
  return store;
}

absl::Status HostKeyValues::CheckOpen(const void* function, const char* what) const {
  if (closed_) return absl::FailedPreconditionError(absl::StrCat(what, ": the client has been destroyed"));
  if (function == nullptr) return absl::UnimplementedError(absl::StrCat(what, ": the host gave no function for it"));
  return absl::OkStatus();
}

absl::StatusOr<std::string> HostKeyValues::Get(absl::string_view key, std::chrono::milliseconds limit) {
  RETURN_IF_ERROR(CheckOpen(reinterpret_cast<const void*>(get_), "key-value get"));
  PJRT_CallbackError make_error = &MakeCallbackError;
  PJRT_KeyValueGetCallback_Args args{};
  args.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
  args.key = key.data();
  args.key_size = key.size();
  args.timeout_in_ms = static_cast<int>(std::clamp<int64_t>(limit.count(), 0, INT_MAX));
  args.callback_error = &make_error;
  args.user_arg = get_arg_;
  RETURN_IF_ERROR(TakeError(get_(&args)));
  return TakeValue(args);
}

absl::StatusOr<std::string> HostKeyValues::TryGet(absl::string_view key) {
  RETURN_IF_ERROR(CheckOpen(reinterpret_cast<const void*>(try_get_), "key-value try-get"));
  PJRT_CallbackError make_error = &MakeCallbackError;
  PJRT_KeyValueTryGetCallback_Args args{};
  args.struct_size = PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE;
  args.key = key.data();
  args.key_size = key.size();
  args.callback_error = &make_error;
  args.user_arg = try_get_arg_;
  RETURN_IF_ERROR(TakeError(try_get_(&args)));
  return TakeValue(args);
}

absl::Status HostKeyValues::Put(absl::string_view key, absl::string_view value) {
  RETURN_IF_ERROR(CheckOpen(reinterpret_cast<const void*>(put_), "key-value put"));
  PJRT_CallbackError make_error = &MakeCallbackError;
  PJRT_KeyValuePutCallback_Args args{};
  args.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
  args.key = key.data();
  args.key_size = key.size();
  args.value = value.data();
  args.value_size = value.size();
  args.callback_error = &make_error;
  args.user_arg = put_arg_;
  return TakeError(put_(&args));
}

}  // namespace backplane::shim
