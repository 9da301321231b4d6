// The programs that sequences run, each with a function that says what it gives.
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
// Whether two arrays are the same in every bit, but that all NaN are alike.
bool SameValues(const Array& a, const Array& b);

struct Program {
  const char* name;
  const char* text;                        // StableHLO
  std::vector<Array> parameters, results;  // shapes; no bytes
  int donated = -1;                        // the parameter that it takes; -1: none
  int replicas = 1;
  // The results on every device of the arguments, row by row for each device.
  std::vector<Array> (*run)(const std::vector<std::vector<const Array*>>& rows, size_t row);
};
const std::vector<Program>& AllPrograms();

}  // namespace backplane::sequences

#endif  // BACKPLANE_TESTS_SEQUENCES_PROGRAMS_H_
