// Loops made by passes: a count from 0 to a limit, constants of the loop and values that each turn replaces.
#ifndef BACKPLANE_CORE_PASSES_LOOP_BUILDER_H_
#define BACKPLANE_CORE_PASSES_LOOP_BUILDER_H_

#include <functional>
#include <string>
#include <vector>

#include "core/ir/builder.h"

namespace backplane {

// What a turn sees and must give back.
struct LoopTurn {
  Builder& b;
  Value count;                   // s32[]
  std::vector<Value> constants;  // as given, one for one
  std::vector<Value> state;
};

// Adds to `b` a loop that runs while `count` is below `limit` (an s32[] value; it becomes part of the loop's state).
// `body` returns the next count and puts the next values into `turn.state`, shapes unchanged. Returns the state after
// the last turn.
absl::StatusOr<std::vector<Value>> MakeLoop(Builder& b, const std::string& name, Value limit,
                                            std::vector<Value> constants, std::vector<Value> state,
                                            const std::function<absl::StatusOr<Value>(LoopTurn& turn)>& body);

// An s32[] constant, for counts, places and sizes; Unimplemented where n does not fit.
absl::StatusOr<Value> IndexConstant(Builder& b, int64_t n);

// x[start0, start1, ...] of the given sizes; start indices are s32[] and clamped as dynamic-slice does.
absl::StatusOr<Value> SliceAt(Builder& b, Value x, std::vector<Value> starts, absl::Span<const int64_t> sizes);
absl::StatusOr<Value> UpdateAt(Builder& b, Value x, Value update, std::vector<Value> starts);

// A scalar spread over dims.
absl::StatusOr<Value> Fill(Builder& b, PrimitiveType type, double value, absl::Span<const int64_t> dims);

// Takes the place of `i` in its computation: the body of `replacement` (one parameter for each operand) is copied
// there.
void ReplaceByBody(Instruction* i, const Computation* replacement);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_LOOP_BUILDER_H_
