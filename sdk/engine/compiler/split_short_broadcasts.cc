#include <algorithm>
#include <utility>

#include "core/passes/rewrite.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/compiler/fusion_policy.h"

namespace backplane::engine {
namespace {

constexpr int64_t kManyRepeats = 64;        // of the first part
constexpr int64_t kMaxFirstPart = 1 << 14;  // elements, which stay in the first-level cache

bool IsSplit(const Instruction& i) {
  if (!i.Is(Opcode::kBroadcast) || i.dimensions().empty()) return false;
  const int64_t run = CountRepeatsInRow(i);
  // A dimension of a few elements has no loop, and its index is a constant.
  if (run <= codegen::kMaxUnrolled || run >= kShortRow) return false;
  const int64_t first = i.operand(0)->shape().num_elements() * run;
  return first > run && first <= kMaxFirstPart && i.shape().num_elements() >= first * kManyRepeats;
}

}  // namespace

int64_t CountRepeatsInRow(const Instruction& broadcast) {
  const absl::Span<const int64_t> dims = broadcast.dimensions();
  if (!std::is_sorted(dims.begin(), dims.end())) return 1;  // a transpose, too
  int64_t n = 1;
  for (int64_t d = dims.back() + 1; d < broadcast.shape().rank(); ++d) n *= broadcast.shape().dimensions(d);
  return n;
}

bool IsShortBroadcast(const Instruction& i) {
  if (!i.Is(Opcode::kBroadcast) || i.dimensions().empty() || i.users().empty()) return false;
  const int64_t run = CountRepeatsInRow(i);
  return run > codegen::kMaxUnrolled && run < kShortRow &&
         std::all_of(i.users().begin(), i.users().end(), [&](const Instruction* user) {
           return user->Is(Opcode::kBroadcast) && CountRepeatsInRow(*user) == 1 &&
                  user->shape().num_elements() >= i.shape().num_elements() * kManyRepeats;
         });
}

void SplitShortBroadcasts(Computation* computation) {
  bool changed = false;
  for (Instruction* i : computation->Snapshot()) {
    if (!IsSplit(*i)) continue;
    Ints inner, outer = i->dimensions();
    std::vector<int64_t> dims;
    for (size_t k = 0; k < outer.size(); ++k) {
      inner.push_back(static_cast<int64_t>(k));
      dims.push_back(i->operand(0)->shape().dimensions(static_cast<int64_t>(k)));
    }
    for (int64_t d = outer.back() + 1; d < i->shape().rank(); ++d) {
      outer.push_back(d);
      dims.push_back(i->shape().dimensions(d));
    }
    Instruction* first =
        MakeBroadcast(computation, i, i->operand(0), Shape(i->shape().element_type(), dims), std::move(inner));
    Instruction* all = MakeBroadcast(computation, i, first, i->shape(), std::move(outer));
    Replace(i, all);
    if (computation->root() == i) computation->set_root(all);
    changed = true;
  }
  if (!changed) return;
  computation->SortTopologically();
  computation->RemoveDead();
}

}  // namespace backplane::engine
