// Programs in binary form: f32[4] + f32[4].
#ifndef BACKPLANE_CONFORMANCE_KIT_PROGRAMS_BINARY_H_
#define BACKPLANE_CONFORMANCE_KIT_PROGRAMS_BINARY_H_

#include "absl/strings/string_view.h"

namespace backplane::conformance {

extern const unsigned char kAddArtifact[245];  // a StableHLO portable artifact of version 1.0.0
extern const unsigned char kAddHloProto[366];  // a serialized HloModuleProto

template <size_t N>
absl::string_view GetBytes(const unsigned char (&bytes)[N]) {
  return absl::string_view(reinterpret_cast<const char*>(bytes), N);
}

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_PROGRAMS_BINARY_H_
