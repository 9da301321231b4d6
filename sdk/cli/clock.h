// The clock for measurements and timeouts.
#ifndef BACKPLANE_SDK_CLI_CLOCK_H_
#define BACKPLANE_SDK_CLI_CLOCK_H_

#include <chrono>

namespace backplane::cli {

// Returns the seconds of the steady clock.
inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_CLOCK_H_
