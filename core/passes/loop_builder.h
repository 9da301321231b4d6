// Builds while loops: a counter from 0 to a limit, loop constants, and state that each iteration replaces.
#ifndef BACKPLANE_CORE_PASSES_LOOP_BUILDER_H_
#define BACKPLANE_CORE_PASSES_LOOP_BUILDER_H_

#include <functional>
#include <string>
#include <vector>

#include "core/ir/builder.h"

namespace backplane {

// The inputs of an iteration, and where it puts its outputs.
struct LoopIteration {
  Builder& b;
  Value count;                   // s32[]
  std::vector<Value> constants;  // in the order given to MakeLoop
  std::vector<Value> state;
};

// Adds to `b` a loop that runs while `count` is less than `limit` (an s32[] value, which becomes part of the loop
// state). `body` returns the next count and replaces `iteration.state` by values of the same shapes. Returns the state
// after the last iteration.
absl::StatusOr<std::vector<Value>> MakeLoop(Builder& b, const std::string& name, Value limit,
                                            std::vector<Value> constants, std::vector<Value> state,
                                            const std::function<absl::StatusOr<Value>(LoopIteration& iteration)>& body);

// Returns an s32[] constant for counts, indices and sizes, or Unimplemented if n does not fit.
absl::StatusOr<Value> IndexConstant(Builder& b, int64_t n);

// Returns x[start0, start1, ...] of the given sizes. The start indices are s32[] and clamped as by dynamic-slice.
absl::StatusOr<Value> SliceAt(Builder& b, Value x, std::vector<Value> starts, absl::Span<const int64_t> sizes);
absl::StatusOr<Value> UpdateAt(Builder& b, Value x, Value update, std::vector<Value> starts);

// Returns a constant broadcast to `dims`.
absl::StatusOr<Value> Fill(Builder& b, PrimitiveType type, double value, absl::Span<const int64_t> dims);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_LOOP_BUILDER_H_
