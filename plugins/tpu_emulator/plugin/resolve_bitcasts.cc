#include "plugins/tpu_emulator/plugin/resolve_bitcasts.h"

#include <algorithm>

#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "plugins/tpu_emulator/program/make_transpose.h"

namespace backplane::tpu {
namespace {

bool HasRowMajorOrder(const Shape& s) {
  return !s.has_layout() || std::is_sorted(s.layout().minor_to_major.rbegin(), s.layout().minor_to_major.rend());
}

// Returns the dimensions from major to minor.
Ints MajorToMinorOrder(const Shape& s) {
  Ints order;
  for (int64_t d = 0; d < s.rank(); ++d) order.push_back(d);
  if (s.has_layout()) order.assign(s.layout().minor_to_major.rbegin(), s.layout().minor_to_major.rend());
  return order;
}

}  // namespace

absl::StatusOr<bool> ResolveBitcasts::Run(Module* module) {
  return RewriteEach(module, [](Computation* c, Instruction* i) -> absl::StatusOr<bool> {
    if (!i->Is(Opcode::kBitcast) || !i->shape().IsArray() || !i->operand(0)->shape().IsArray()) return false;
    const Shape from = i->operand(0)->shape(), to = i->shape();
    if (from.element_type() != to.element_type() || from.num_elements() != to.num_elements()) return false;
    if (HasRowMajorOrder(from) && HasRowMajorOrder(to)) return false;
    const Ints order = MajorToMinorOrder(to);
    Ints inverse(order.size());
    std::vector<int64_t> physical;
    for (size_t d = 0; d < order.size(); ++d) {
      inverse[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
      physical.push_back(to.dimensions(order[d]));
    }
    Instruction* bytes = MakeTranspose(c, i->operand(0), MajorToMinorOrder(from));
    Instruction* shaped = Make(c, bytes, Opcode::kReshape, Shape(to.element_type(), physical), {bytes});
    Replace(i, MakeTranspose(c, shaped, inverse));
    return true;
  });
}

}  // namespace backplane::tpu
