// The functions that hosts call, one for each (stack, function): each knows its two numbers and hands on to Dispatch.
#ifndef BACKPLANE_SDK_LAYERS_TRAMPOLINES_H_
#define BACKPLANE_SDK_LAYERS_TRAMPOLINES_H_

#include "sdk/layers/extensions.h"
#include "sdk/layers/functions.h"

namespace backplane::layers {

// A function of any args and result; what it is really is known by its Fn.
using AnyFunction = void (*)();

// Implemented by stack.cc: takes the call through the layers of a stack. The result as the function returns it.
void* Dispatch(int stack, Fn fn, void* args);

// Calls a function that has the type of `fn`; what it returns as a word.
using Invocation = void* (*)(AnyFunction function, void* args);
Invocation InvocationOf(Fn fn);

// Puts trampolines into what the host will see. `real` gets the functions that were there; where `wanted` is false, the
// function stays. The table has `struct_size` bytes that count, an extension that of its head.
struct Interposed {
  AnyFunction* real;   // kNumFunctions
  const bool* wanted;  // kNumFunctions
};
void InterposeTable(int stack, PJRT_Api* table, const Interposed& to);
// False for an extension that is not known, which is left as it is.
bool InterposeExtension(int stack, PJRT_Extension_Base* extension, const Interposed& to);
void InterposeProfiler(int stack, PLUGIN_Profiler_Api* table, const Interposed& to);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_TRAMPOLINES_H_
