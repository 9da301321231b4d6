// The functions that hosts call, one for each pair of stack and function. Each passes its two numbers on to Dispatch.
#ifndef BACKPLANE_SDK_LAYERS_TRAMPOLINES_H_
#define BACKPLANE_SDK_LAYERS_TRAMPOLINES_H_

#include "sdk/layers/extensions.h"
#include "sdk/layers/functions.h"

namespace backplane::layers {

// A function with any args and result. Its Fn determines its real type.
using AnyFunction = void (*)();

// Defined in stack.cc: passes the call through the layers of a stack and returns the result as a word.
void* Dispatch(int stack, Fn fn, void* args);

// Calls a function with the type of `fn` and returns its result as a word.
using Invocation = void* (*)(AnyFunction function, void* args);
Invocation GetInvocation(Fn fn);

// Replaces function pointers in a table or extension by trampolines. `real` receives the original functions. Functions
// for which `wanted` is false are not replaced. Only the first `struct_size` bytes of the table are valid; an extension
// has its size in its head.
struct Interposed {
  AnyFunction* real;   // kNumFunctions
  const bool* wanted;  // kNumFunctions
};
void InterposeTable(int stack, PJRT_Api* table, const Interposed& to);
// Returns false, and changes nothing, for an unknown extension.
bool InterposeExtension(int stack, PJRT_Extension_Base* extension, const Interposed& to);
void InterposeProfiler(int stack, PLUGIN_Profiler_Api* table, const Interposed& to);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_TRAMPOLINES_H_
