// Bounds the memory that a short program can fill. Programs share attributes, types and locations, but each instruction
// has its own copy, so a few kilobytes could describe gigabytes.
#ifndef BACKPLANE_CORE_IR_EXPANSION_BUDGET_H_
#define BACKPLANE_CORE_IR_EXPANSION_BUDGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/ir/instruction.h"

namespace backplane {

// Return about how many bytes a value has outside of itself.
int64_t MeasureBytes(const Shape& shape);
int64_t MeasureBytes(const Attributes& attributes);
int64_t MeasureBytes(const Sharding& sharding);
// Measures the shape, the attributes, the text attributes and the metadata. Literals and shardings may be shared.
int64_t MeasureBytes(const Instruction& instruction);

// Not thread-safe.
class ExpansionBudget {
 public:
  // For a program that was written in so many bytes.
  explicit ExpansionBudget(int64_t written);

  // Returns ResourceExhausted [expansion_budget] if more bytes were spent than the program may expand to.
  absl::Status Spend(int64_t bytes);

 private:
  int64_t written_, limit_, left_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_IR_EXPANSION_BUDGET_H_
