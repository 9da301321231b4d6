// What is known of JAX's calls of LAPACK: the handlers "lapack_..._ffi", which call one library, SciPy's OpenBLAS.
#ifndef BACKPLANE_SDK_BACKEND_LAPACK_CALLS_H_
#define BACKPLANE_SDK_BACKEND_LAPACK_CALLS_H_

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/types/primitive_type.h"

namespace backplane {

// Whether a custom call of this target is one of these. They compute and wait for nothing else.
inline bool IsLapackTarget(absl::string_view target) { return absl::StartsWith(target, "lapack_"); }

// The library computes matrices from about this size on by threads of its own, which all of its callers share and spin
// for: six singular value decompositions at once took ten times as long as one after the other. So calls with a matrix
// of at least this size run one at a time.
inline constexpr int64_t kMinExclusiveLapackBytes = 16 * 1024;
// Whether an operand of these dimensions has such a matrix. Leading dimensions are of a batch.
inline bool HasLargeMatrix(PrimitiveType type, absl::Span<const int64_t> dims) {
  const size_t rank = dims.size();
  return rank >= 2 && dims[rank - 2] * dims[rank - 1] * ByteWidth(type) >= kMinExclusiveLapackBytes;
}

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_LAPACK_CALLS_H_
