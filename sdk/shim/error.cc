// PJRT_Error: a Status with a function table, so that it can be read without the plugin's table.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/guard.h"

namespace backplane::shim {
namespace {

struct ErrorObject : PJRT_Error {
  absl::Status status;
};

const ErrorObject* Ours(const PJRT_Error* error);

void TableDestroy(PJRT_Error* error) { delete static_cast<ErrorObject*>(error); }

void TableMessage(const PJRT_Error* error, const char** message, size_t* size) {
  const absl::Status& status = static_cast<const ErrorObject*>(error)->status;
  *message = status.message().data();
  *size = status.message().size();
}

PJRT_Error_Code TableCode(const PJRT_Error* error) {
  return static_cast<PJRT_Error_Code>(static_cast<const ErrorObject*>(error)->status.code());
}

void TablePayloads(const PJRT_Error* error, PJRT_Error_PayloadVisitor visitor, void* user_arg) {
  static_cast<const ErrorObject*>(error)->status.ForEachPayload([&](absl::string_view key, const absl::Cord& value) {
    const std::string flat(value);
    visitor(key.data(), key.size(), flat.data(), flat.size(), user_arg);
  });
}

constexpr PJRT_Error_FunctionTable kErrorTable = {
    PJRT_Error_FunctionTable_STRUCT_SIZE,
    PJRT_Error_STRUCT_SIZE,
    nullptr,
    &TableDestroy,
    &TableMessage,
    &TableCode,
    &TablePayloads,
};

const ErrorObject* Ours(const PJRT_Error* error) {
  return error->vtable == &kErrorTable ? static_cast<const ErrorObject*>(error) : nullptr;
}

// The error for the case that no memory can be allocated. It has static storage, and so does all that it returns.
constexpr PJRT_Error_FunctionTable kOutOfMemoryTable = {
    PJRT_Error_FunctionTable_STRUCT_SIZE,
    PJRT_Error_STRUCT_SIZE,
    nullptr,
    [](PJRT_Error*) {},
    [](const PJRT_Error*, const char** message, size_t* size) {
      static constexpr absl::string_view kText = "out of host memory";
      *message = kText.data();
      *size = kText.size();
    },
    [](const PJRT_Error*) { return PJRT_Error_Code_RESOURCE_EXHAUSTED; },
    [](const PJRT_Error*, PJRT_Error_PayloadVisitor, void*) {},
};

PJRT_Error out_of_memory = {&kOutOfMemoryTable};

}  // namespace

PJRT_Error* MakeError(const absl::Status& status) {
  if (status.ok()) return nullptr;
  try {
    auto* error = new ErrorObject;
    error->vtable = &kErrorTable;
    error->status = status;
    return error;
  } catch (...) {
    return &out_of_memory;
  }
}

absl::Status GetStatus(const PJRT_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  if (const ErrorObject* ours = Ours(error)) return ours->status;
  const char* message = nullptr;
  size_t size = 0;
  error->vtable->message(error, &message, &size);
  absl::Status status = MakeStatus(error->vtable->get_code(error), message, size);
  if (error->vtable->struct_size >= PJRT_Error_FunctionTable_STRUCT_SIZE &&
      error->vtable->for_each_payload != nullptr) {
    error->vtable->for_each_payload(
        error,
        [](const char* key, size_t key_size, const char* value, size_t value_size, void* to) {
          static_cast<absl::Status*>(to)->SetPayload(absl::string_view(key, key_size),
                                                     absl::Cord(absl::string_view(value, value_size)));
        },
        &status);
  }
  return status;
}

absl::Status MakeStatus(PJRT_Error_Code code, const char* message, size_t size) {
  const int number = static_cast<int>(code);
  absl::string_view text(message == nullptr ? "" : message, message == nullptr ? 0 : size);
  if (number < 0 || number > 16) return absl::UnknownError(absl::StrCat("code ", number, ": ", text));
  return absl::Status(static_cast<absl::StatusCode>(number), text);
}

PJRT_Error* MakeCallbackError(PJRT_Error_Code code, const char* message, size_t size) {
  return MakeError(MakeStatus(code, message, size));
}

absl::Status TakeError(PJRT_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  absl::Status status = GetStatus(error);
  error->vtable->destroy(error);
  return status;
}

void Error_Destroy(PJRT_Error_Destroy_Args* args) {
  if (args == nullptr || args->struct_size < PJRT_Error_Destroy_Args_STRUCT_SIZE || args->error == nullptr) return;
  args->error->vtable->destroy(args->error);
}

void Error_Message(PJRT_Error_Message_Args* args) {
  if (args == nullptr || args->struct_size < PJRT_Error_Message_Args_STRUCT_SIZE) return;
  if (args->error == nullptr) {
    args->message = "";
    args->message_size = 0;
    return;
  }
  args->error->vtable->message(args->error, &args->message, &args->message_size);
}

absl::Status Error_GetCode(PJRT_Error_GetCode_Args& a) {
  BP_REQUIRE(a.error);
  a.code = a.error->vtable->get_code(a.error);
  return absl::OkStatus();
}

absl::Status Error_ForEachPayload(PJRT_Error_ForEachPayload_Args& a) {
  BP_REQUIRE(a.error);
  BP_REQUIRE(a.visitor);
  a.error->vtable->for_each_payload(a.error, a.visitor, a.user_arg);
  return absl::OkStatus();
}

}  // namespace backplane::shim
