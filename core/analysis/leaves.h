// Leaves: the arrays and tokens that a shape consists of, numbered in depth-first order. An array or a token is its own
// only leaf. The arguments of a program are the leaves of its entry's parameters, one parameter after the other; its
// outputs are the leaves of the entry's result.
#ifndef BACKPLANE_CORE_ANALYSIS_LEAVES_H_
#define BACKPLANE_CORE_ANALYSIS_LEAVES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/ir/computation.h"

namespace backplane {

// Returns the number of the leaf at `index`, or nullopt if `index` names a tuple or does not exist.
std::optional<int64_t> FindLeaf(const Shape& shape, absl::Span<const int64_t> index);

// Numbers the arguments and outputs of an entry, which must outlive the object and not change. Thread-safe.
class EntryLeaves {
 public:
  explicit EntryLeaves(const Computation& entry);

  int64_t argument_count() const { return first_argument_.back(); }
  int64_t output_count() const { return first_output_.back(); }
  // Returns the number of the first argument that belongs to a parameter of the entry.
  int64_t first_argument(int64_t parameter) const { return first_argument_[static_cast<size_t>(parameter)]; }

  // Return the number of an argument or output, or nullopt if the parameter does not exist or `index` names no leaf.
  std::optional<int64_t> FindArgument(int64_t parameter, absl::Span<const int64_t> index) const;
  std::optional<int64_t> FindOutput(absl::Span<const int64_t> index) const;

 private:
  const Computation* entry_;
  std::vector<int64_t> first_argument_;  // by parameter; the last element is the number of arguments
  std::vector<int64_t> first_output_;    // by element of the result; the last element is the number of outputs
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_LEAVES_H_
