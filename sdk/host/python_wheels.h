// Plugins in the wheels of a Python environment, found in its files; used by discovery.h.
#ifndef BACKPLANE_SDK_HOST_PYTHON_WHEELS_H_
#define BACKPLANE_SDK_HOST_PYTHON_WHEELS_H_

#include <string>

#include "sdk/host/discovery.h"

namespace backplane::host {

// Adds what `<prefix>/lib*/python*/{site,dist}-packages` hold, sorted by name; one entry for each library.
void FindInPythonEnvironment(const std::string& prefix, Discovery* found);

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_PYTHON_WHEELS_H_
