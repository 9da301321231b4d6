// Identifies the build of the library or program that contains this code.
#ifndef BACKPLANE_SDK_BACKEND_BUILD_ID_H_
#define BACKPLANE_SDK_BACKEND_BUILD_ID_H_

#include <string>

namespace backplane {

// Returns the build id that the linker has written into the library or program that contains this function, in
// hexadecimal, or "none" if the linker wrote none. Equal binaries have equal ids, and different ones have different
// ids. Only the build that stored machine code may load it again, because the sources of the compiler determine what
// the code expects, such as the order of arguments and the names of symbols. Thread-safe.
const std::string& BuildId();

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_BUILD_ID_H_
