#include "sdk/layers/error.h"

namespace backplane::layers {
namespace {

// Begins with a PJRT_Error, so that hosts of 0.107 and later read it through its table of functions.
struct LayerError {
  PJRT_Error head;
  Stack* stack;
  PJRT_Error_Code code;
  std::string message;
  PJRT_Error* inner;  // of the target; null for an error of our own
};

const PJRT_Error_FunctionTable* Functions();

// An opaque error of an older plugin has at least one word, which cannot be the address of our table.
LayerError* AsLayerError(const PJRT_Error* error) {
  if (error == nullptr || error->vtable != Functions()) return nullptr;
  return reinterpret_cast<LayerError*>(const_cast<PJRT_Error*>(error));
}

void TargetDestroy(Stack& stack, PJRT_Error* error) {
  PJRT_Error_Destroy_Args args{};
  args.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
  args.error = error;
  stack.target().PJRT_Error_Destroy(&args);
}

void TargetMessage(Stack& stack, const PJRT_Error* error, const char** message, size_t* size) {
  PJRT_Error_Message_Args args{};
  args.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE;
  args.error = error;
  stack.target().PJRT_Error_Message(&args);
  *message = args.message;
  *size = args.message_size;
}

PJRT_Error_Code TargetCode(Stack& stack, const PJRT_Error* error) {
  PJRT_Error_GetCode_Args args{};
  args.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE;
  args.error = error;
  args.code = PJRT_Error_Code_UNKNOWN;
  // An error of this call is of no interest, but must be freed.
  if (PJRT_Error* nested = stack.target().PJRT_Error_GetCode(&args); nested != nullptr) TargetDestroy(stack, nested);
  return args.code;
}

void Message(const LayerError* e, const char** message, size_t* size) {
  if (e->inner != nullptr) {
    TargetMessage(*e->stack, e->inner, message, size);
  } else {
    *message = e->message.data();
    *size = e->message.size();
  }
}

void ForEachPayload(const LayerError* e, PJRT_Error_PayloadVisitor visitor, void* user_arg) {
  if (e->inner == nullptr || !e->stack->TargetHas(&PJRT_Api::PJRT_Error_ForEachPayload)) return;
  PJRT_Error_ForEachPayload_Args args{};
  args.struct_size = PJRT_Error_ForEachPayload_Args_STRUCT_SIZE;
  args.error = e->inner;
  args.visitor = visitor;
  args.user_arg = user_arg;
  if (PJRT_Error* nested = e->stack->target().PJRT_Error_ForEachPayload(&args); nested != nullptr) {
    TargetDestroy(*e->stack, nested);
  }
}

void Free(LayerError* e) {
  if (e->inner != nullptr) TargetDestroy(*e->stack, e->inner);
  delete e;
}

const PJRT_Error_FunctionTable* Functions() {
  static constexpr PJRT_Error_FunctionTable kFunctions = {
      PJRT_Error_FunctionTable_STRUCT_SIZE,
      PJRT_Error_STRUCT_SIZE,
      nullptr,
      [](PJRT_Error* error) {
        // Treated like a call of the host, so that layers that track errors see it.
        PJRT_Error_Destroy_Args args{};
        args.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
        args.error = error;
        AsLayerError(error)->stack->api()->PJRT_Error_Destroy(&args);
      },
      [](const PJRT_Error* error, const char** message, size_t* size) { Message(AsLayerError(error), message, size); },
      [](const PJRT_Error* error) {
        const LayerError* e = AsLayerError(error);
        return e->inner != nullptr ? TargetCode(*e->stack, e->inner) : e->code;
      },
      [](const PJRT_Error* error, PJRT_Error_PayloadVisitor visitor, void* user_arg) {
        ForEachPayload(AsLayerError(error), visitor, user_arg);
      }};
  return &kFunctions;
}

}  // namespace

PJRT_Error* MakeError(Stack& stack, PJRT_Error_Code code, absl::string_view message) {
  return &(new LayerError{{Functions()}, &stack, code, std::string(message), nullptr})->head;
}

PJRT_Error* WrapError(Stack& stack, PJRT_Error* inner) {
  if (inner == nullptr || AsLayerError(inner) != nullptr) return inner;
  return &(new LayerError{{Functions()}, &stack, PJRT_Error_Code_UNKNOWN, "", inner})->head;
}

bool LayerErrorDestroy(PJRT_Error_Destroy_Args* args) {
  LayerError* e = AsLayerError(Field(args, &PJRT_Error_Destroy_Args::error));
  if (e != nullptr) Free(e);
  return e != nullptr;
}

bool LayerErrorMessage(PJRT_Error_Message_Args* args) {
  if (!Has(args, &PJRT_Error_Message_Args::message_size)) return false;
  const LayerError* e = AsLayerError(args->error);
  if (e != nullptr) Message(e, &args->message, &args->message_size);
  return e != nullptr;
}

bool LayerErrorGetCode(PJRT_Error_GetCode_Args* args, PJRT_Error** result) {
  if (!Has(args, &PJRT_Error_GetCode_Args::code)) return false;
  const LayerError* e = AsLayerError(args->error);
  if (e == nullptr) return false;
  *result = nullptr;
  args->code = e->inner != nullptr ? TargetCode(*e->stack, e->inner) : e->code;
  return true;
}

bool LayerErrorForEachPayload(PJRT_Error_ForEachPayload_Args* args, PJRT_Error** result) {
  if (!Has(args, &PJRT_Error_ForEachPayload_Args::user_arg)) return false;
  const LayerError* e = AsLayerError(args->error);
  if (e == nullptr) return false;
  if (args->visitor == nullptr) {
    *result = MakeError(*e->stack, PJRT_Error_Code_INVALID_ARGUMENT, "PJRT_Error_ForEachPayload: visitor is null");
    return true;
  }
  *result = nullptr;
  ForEachPayload(e, args->visitor, args->user_arg);
  return true;
}

void DestroyError(Stack& stack, PJRT_Error* error) {
  if (error == nullptr) return;
  if (LayerError* e = AsLayerError(error); e != nullptr) {
    Free(e);
  } else {
    TargetDestroy(stack, error);
  }
}

PJRT_Error_Code ErrorCode(Stack& stack, const PJRT_Error* error) {
  if (error == nullptr) return PJRT_Error_Code_OK;
  const LayerError* e = AsLayerError(error);
  if (e != nullptr && e->inner == nullptr) return e->code;
  return TargetCode(stack, e != nullptr ? e->inner : error);
}

std::string ErrorMessage(Stack& stack, const PJRT_Error* error) {
  if (error == nullptr) return "";
  const LayerError* e = AsLayerError(error);
  if (e != nullptr && e->inner == nullptr) return e->message;
  const char* text = nullptr;
  size_t size = 0;
  TargetMessage(stack, e != nullptr ? e->inner : error, &text, &size);
  return text == nullptr ? std::string() : std::string(text, size);
}

}  // namespace backplane::layers
