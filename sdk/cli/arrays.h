// Arrays of programs: inputs from the command line, outputs as text and pictures.
#ifndef BACKPLANE_SDK_CLI_ARRAYS_H_
#define BACKPLANE_SDK_CLI_ARRAYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/types/literal.h"
#include "sdk/host/async_transfer.h"
#include "sdk/host/json.h"

namespace backplane::cli {

// Creates inputs for `shapes`. Each spec is one of
//   FILE.npy                    the next input
//   FILE.npz, FILE.npz:a,b      the next inputs: all members, or the named ones
//   random, zeros, ones, iota   the next input, filled in this way; "random=N..M" gives the range, in integers for
//                               integer types
//   1.5 or {1, 2}               the next input as a literal in HLO text
//   N:SPEC                      input number N instead of the next one
// Inputs without a spec are random. The same seed gives the same numbers on every machine.
absl::StatusOr<std::vector<host::HostArray>> MakeInputs(const std::vector<host::ArrayShape>& shapes,
                                                        const std::vector<std::string>& specs, uint64_t seed);
// Reads inputs for a program whose parameters are unknown. Only files are accepted as specs.
absl::StatusOr<std::vector<host::HostArray>> ReadInputs(const std::vector<std::string>& specs);

// Converts between an array and a literal of the core.
absl::StatusOr<Literal> ToLiteral(const host::HostArray& array);
absl::StatusOr<host::HostArray> FromLiteral(const Literal& literal);

struct Statistics {
  int64_t count = 0, nans = 0, infinities = 0, zeros = 0;
  double min = 0, max = 0, mean = 0, deviation = 0;  // of the finite elements; of magnitudes for complex numbers
};
absl::StatusOr<Statistics> ComputeStatistics(const host::HostArray& array);
host::Json ToJson(const Statistics& statistics);

// Returns HLO text with the shape before it. Only the first `limit` elements are printed.
absl::StatusOr<std::string> PrintArray(const host::HostArray& array, int64_t limit);

// Returns a grey or coloured picture of a 2-D array (or of [h,w,3], [h,w,4] in 0..1 or 0..255) as PNG bytes. An element
// is one pixel, or more if the picture would be narrower than `min_pixels`. Numbers are scaled from the smallest to the
// largest; numbers that are not finite are red.
absl::StatusOr<std::string> RenderPicture(const host::HostArray& array, int min_pixels = 256);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_ARRAYS_H_
