// Finds plugins in the wheels of a Python environment from their files. Used by discovery.h.
#ifndef BACKPLANE_SDK_HOST_PYTHON_WHEELS_H_
#define BACKPLANE_SDK_HOST_PYTHON_WHEELS_H_

#include <string>

#include "sdk/host/discovery.h"

namespace backplane::host {

// Adds the plugins in `<prefix>/lib*/python*/{site,dist}-packages`, sorted by name, one entry for each library.
void FindInPythonEnvironment(const std::string& prefix, Discovery* found);

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_PYTHON_WHEELS_H_
