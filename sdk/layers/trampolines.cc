#include "sdk/layers/trampolines.h"

#include <type_traits>
#include <utility>

#include "sdk/layers/layer.h"

namespace backplane::layers {
namespace {

constexpr int kStacks = Stack::kMaxStacks;

// A PJRT function does not know for which plugin it was called, so each stack has its own functions.
template <int kStack, Fn kFn, typename F>
struct Trampoline;
template <int kStack, Fn kFn, typename R, typename Args>
struct Trampoline<kStack, kFn, R (*)(Args*)> {
  static R Call(Args* args) {
    if constexpr (std::is_void_v<R>) {
      Dispatch(kStack, kFn, args);
    } else {
      return static_cast<R>(Dispatch(kStack, kFn, args));
    }
  }
};

template <typename F>
struct Invoker;
template <typename R, typename Args>
struct Invoker<R (*)(Args*)> {
  static void* Call(AnyFunction function, void* args) {
    auto typed = reinterpret_cast<R (*)(Args*)>(function);
    if constexpr (std::is_void_v<R>) {
      typed(static_cast<Args*>(args));
      return nullptr;
    } else {
      return typed(static_cast<Args*>(args));
    }
  }
};

constexpr Invocation kInvocations[] = {
#define BP_SLOT(name, since) &Invoker<decltype(PJRT_Api::name)>::Call,
#include "sdk/host/slots.def"
#undef BP_SLOT
#define BP_EXTENSION(type_name, type)
#define BP_EXTENSION_FUNCTION(type_name, member, name) &Invoker<decltype(type_name::member)>::Call,
#define BP_PROFILER_FUNCTION(member, name) &Invoker<decltype(PLUGIN_Profiler_Api::member)>::Call,
#include "sdk/layers/extension_functions.def"
#undef BP_EXTENSION
#undef BP_EXTENSION_FUNCTION
#undef BP_PROFILER_FUNCTION
};
static_assert(std::size(kInvocations) == kNumFunctions);

template <int kStack, Fn kFn, typename Struct, typename F>
void Put(Struct* table, size_t size, F Struct::*member, const Interposed& to) {
  F& slot = table->*member;
  const size_t end = static_cast<size_t>(reinterpret_cast<char*>(&slot) - reinterpret_cast<char*>(table)) + sizeof(F);
  if (end > size || slot == nullptr) return;
  if (!to.wanted[Index(kFn)]) return;
  to.real[Index(kFn)] = reinterpret_cast<AnyFunction>(slot);
  slot = &Trampoline<kStack, kFn, F>::Call;
}

template <int kStack>
void PutTable(PJRT_Api* table, const Interposed& to) {
#define BP_SLOT(name, since) Put<kStack, Fn::name>(table, table->struct_size, &PJRT_Api::name, to);
#include "sdk/host/slots.def"
#undef BP_SLOT
}

// The extension type of a struct.
template <typename Extension>
constexpr int kTypeOf = -1;
#define BP_EXTENSION(type_name, type_number) \
  template <>                                \
  constexpr int kTypeOf<type_name> = static_cast<int>(type_number);
#define BP_EXTENSION_FUNCTION(type_name, member, name)
#define BP_PROFILER_FUNCTION(member, name)
#include "sdk/layers/extension_functions.def"
#undef BP_EXTENSION
#undef BP_EXTENSION_FUNCTION
#undef BP_PROFILER_FUNCTION

template <int kStack>
bool PutExtension(PJRT_Extension_Base* base, const Interposed& to) {
  const int type = static_cast<int>(base->type);
  bool known = false;
#define BP_EXTENSION(type_name, type_number) known |= type == kTypeOf<type_name>;
#define BP_EXTENSION_FUNCTION(type_name, member, name)                                                    \
  if (type == kTypeOf<type_name>) {                                                                       \
    Put<kStack, Fn::name>(reinterpret_cast<type_name*>(base), base->struct_size, &type_name::member, to); \
  }
#define BP_PROFILER_FUNCTION(member, name)
#include "sdk/layers/extension_functions.def"
#undef BP_EXTENSION
#undef BP_EXTENSION_FUNCTION
#undef BP_PROFILER_FUNCTION
  return known;
}

template <int kStack>
void PutProfiler(PLUGIN_Profiler_Api* table, const Interposed& to) {
#define BP_EXTENSION(type_name, type)
#define BP_EXTENSION_FUNCTION(type_name, member, name)
#define BP_PROFILER_FUNCTION(member, name) \
  Put<kStack, Fn::name>(table, table->struct_size, &PLUGIN_Profiler_Api::member, to);
#include "sdk/layers/extension_functions.def"
#undef BP_EXTENSION
#undef BP_EXTENSION_FUNCTION
#undef BP_PROFILER_FUNCTION
}

template <int... kStack>
void PutTable(int stack, PJRT_Api* table, const Interposed& to, std::integer_sequence<int, kStack...>) {
  ((stack == kStack ? PutTable<kStack>(table, to) : void()), ...);
}
template <int... kStack>
bool PutExtension(int stack, PJRT_Extension_Base* base, const Interposed& to, std::integer_sequence<int, kStack...>) {
  bool known = false;
  ((stack == kStack ? void(known = PutExtension<kStack>(base, to)) : void()), ...);
  return known;
}
template <int... kStack>
void PutProfiler(int stack, PLUGIN_Profiler_Api* table, const Interposed& to, std::integer_sequence<int, kStack...>) {
  ((stack == kStack ? PutProfiler<kStack>(table, to) : void()), ...);
}

}  // namespace

Invocation GetInvocation(Fn fn) { return kInvocations[Index(fn)]; }

void InterposeTable(int stack, PJRT_Api* table, const Interposed& to) {
  PutTable(stack, table, to, std::make_integer_sequence<int, kStacks>());
}
bool InterposeExtension(int stack, PJRT_Extension_Base* extension, const Interposed& to) {
  return PutExtension(stack, extension, to, std::make_integer_sequence<int, kStacks>());
}
void InterposeProfiler(int stack, PLUGIN_Profiler_Api* table, const Interposed& to) {
  PutProfiler(stack, table, to, std::make_integer_sequence<int, kStacks>());
}

}  // namespace backplane::layers
