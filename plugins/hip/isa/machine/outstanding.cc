#include "plugins/hip/isa/machine/outstanding.h"

#include <algorithm>

namespace backplane::hip::isa {

void Outstanding::Count(RegisterRange range, int change) {
  for (int i = 0; i < range.count; ++i)
    pending_[range.first + i] = static_cast<uint8_t>(pending_[range.first + i] + change);
}

void Outstanding::Issue(Counter counter, Order order, RegisterRange registers, const Instruction* by,
                        uint32_t lds_access) {
  // The machine stalls before a counter exceeds its range, so no wait with a larger count can be written.
  constexpr size_t kLargest = 63;
  if (accesses_.size() > kLargest) Wait(counter, static_cast<int>(kLargest) - 1);
  Access access;
  access.order = order;
  access.waits[static_cast<int>(counter)] = true;
  access.registers = registers;
  access.by = by;
  access.lds_access = lds_access;
  Count(registers, 1);
  accesses_.push_back(access);
}

void Outstanding::IssueFlat(RegisterRange registers, const Instruction* by) {
  Issue(Counter::kVector, Order::kNone, registers, by);
  accesses_.back().waits[static_cast<int>(Counter::kLgkm)] = true;
}

void Outstanding::Wait(Counter counter, int most) {
  if (accesses_.empty()) return;
  const int c = static_cast<int>(counter);
  int in_order[4] = {};  // accesses of each order, this one and later ones
  for (size_t i = accesses_.size(); i-- > 0;) {
    Access& access = accesses_[i];
    if (!access.waits[c]) continue;
    const int later = access.order == Order::kNone ? 1 : ++in_order[static_cast<int>(access.order)];
    if (later > most) access.waits[c] = false;
  }
  auto done = [this](const Access& a) {
    if (a.waits[0] || a.waits[1] || a.waits[2]) return false;
    Count(a.registers, -1);
    return true;
  };
  accesses_.erase(std::remove_if(accesses_.begin(), accesses_.end(), done), accesses_.end());
}

const Instruction* Outstanding::FindConflict(RegisterRange range, Order order) const {
  int pending = 0;
  for (int i = 0; i < range.count; ++i) pending |= pending_[range.first + i];
  if (pending == 0) return nullptr;
  for (const Access& a : accesses_) {
    if (a.registers.count == 0) continue;
    if (range.is_result && order != Order::kNone && a.order == order) continue;
    if (a.registers.first < range.first + range.count && range.first < a.registers.first + a.registers.count)
      return a.by;
  }
  return nullptr;
}

void Outstanding::AppendLdsAccesses(std::vector<uint32_t>& accesses) const {
  for (const Access& a : accesses_) {
    if (a.lds_access != 0) accesses.push_back(a.lds_access);
  }
}

}  // namespace backplane::hip::isa
