// Identifies the build that this code belongs to.
#ifndef BACKPLANE_SDK_BACKEND_BUILD_ID_H_
#define BACKPLANE_SDK_BACKEND_BUILD_ID_H_

#include <string>

namespace backplane {

// Returns the build id that the linker has written into the library or program that contains this function, in
// hexadecimal: equal bytes have equal ids, other builds have others. "none" where the linker writes no ids. Machine
// code that one build has stored may be loaded by that build alone: what surrounds it, such as argument order and
// names, is decided by the compiler's sources. Thread-safe.
const std::string& BuildId();

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_BUILD_ID_H_
