// Test programs: reductions, windows, scatters, sorts and maps whose computations build arrays, loop, branch and call
// other computations.
#ifndef BACKPLANE_CORE_PASSES_CALLED_ARRAYS_CASES_H_
#define BACKPLANE_CORE_PASSES_CALLED_ARRAYS_CASES_H_

#include <ostream>
#include <string>
#include <vector>

namespace backplane {

struct CalledArraysCase {
  std::string name, type, hlo;
};
inline void PrintTo(const CalledArraysCase& c, std::ostream* out) { *out << c.name << "\n" << c.hlo; }

// Returns every body under every caller, with alternating element types.
std::vector<CalledArraysCase> CalledArraysCases();

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_CALLED_ARRAYS_CASES_H_
