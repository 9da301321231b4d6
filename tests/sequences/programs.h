// The programs that sequences run, each with a function that computes the expected results.
#ifndef BACKPLANE_TESTS_SEQUENCES_PROGRAMS_H_
#define BACKPLANE_TESTS_SEQUENCES_PROGRAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "api/pjrt_c_api.h"

namespace backplane::sequences {

// A dense row-major array.
struct Array {
  PJRT_Buffer_Type type = PJRT_Buffer_Type_F32;
  std::vector<int64_t> dims;
  std::string bytes;

  bool SameShape(const Array& other) const { return type == other.type && dims == other.dims; }
};
size_t ElementBytes(PJRT_Buffer_Type type);
size_t NumElements(absl::Span<const int64_t> dims);
// Whether two arrays are bitwise equal, except that all NaNs are equal.
bool SameValues(const Array& a, const Array& b);

struct Program {
  const char* name;
  const char* text;                        // StableHLO
  std::vector<Array> parameters, results;  // shapes; no bytes
  int donated = -1;                        // number of the donated parameter; -1: none
  int replicas = 1;
  // Computes the results on every device from the arguments by device.
  std::vector<Array> (*run)(const std::vector<std::vector<const Array*>>& rows, size_t row);
};
const std::vector<Program>& AllPrograms();

}  // namespace backplane::sequences

#endif  // BACKPLANE_TESTS_SEQUENCES_PROGRAMS_H_
