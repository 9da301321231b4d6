// Calls functions of the host that may end their thread.
#ifndef BACKPLANE_SDK_SHIM_FFI_FOREIGN_CALL_H_
#define BACKPLANE_SDK_SHIM_FFI_FOREIGN_CALL_H_

#include <cxxabi.h>
#include <unistd.h>

namespace backplane::shim::ffi {

// Returns call(). Python before 3.14 ends a thread (pthread_exit) that asks for the interpreter's lock while the
// interpreter ends. That would unwind all frames of the thread, of which some must not be left without a result, and
// the C library ends the process then. Such a thread stops here instead, as those of Python 3.14 do: the process is
// about to end.
template <typename Call>
auto CallForeign(Call&& call) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    while (true) pause();
  }
}

}  // namespace backplane::shim::ffi

#endif  // BACKPLANE_SDK_SHIM_FFI_FOREIGN_CALL_H_
