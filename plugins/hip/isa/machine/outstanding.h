// Accesses to memory that a wave has issued and not waited for, by the counters of s_waitcnt.
//
// Both machines read the data of stores when they issue them, so only registers that a load writes are of interest. A
// load's registers are defined once a wait guarantees that it is complete. Accesses of one order complete in the order
// they were issued, so a counter that may still be `n` guarantees all but the last n of an order. Scalar loads complete
// in any order: each is an order of its own. A flat access counts in two counters, because it is unknown which memory
// it reaches, and needs both waits. (LLVM's pass SIInsertWaitcnts has the same rules.)
#ifndef BACKPLANE_PLUGINS_HIP_ISA_MACHINE_OUTSTANDING_H_
#define BACKPLANE_PLUGINS_HIP_ISA_MACHINE_OUTSTANDING_H_

#include <cstdint>
#include <vector>

#include "plugins/hip/isa/machine/instruction.h"

namespace backplane::hip::isa {

enum class Counter : uint8_t { kVector, kLgkm, kStore };  // vmcnt, lgkmcnt, vscnt

class Outstanding {
 public:
  // `registers` are those that the access will write; none for a store. `lds_access` is the number of an access to LDS
  // (LdsState); 0 for other accesses.
  void Issue(Counter counter, Order order, RegisterRange registers, const Instruction* by, uint32_t lds_access = 0);
  void IssueFlat(RegisterRange registers, const Instruction* by);
  void Wait(Counter counter, int most);

  bool empty() const { return accesses_.empty(); }
  // Returns the access that has not completed and writes a register of the range; null if there is none. Loads of one
  // order may overwrite each other's registers.
  const Instruction* FindConflict(RegisterRange range, Order order) const;
  // Appends the numbers of the LDS accesses that have not completed.
  void AppendLdsAccesses(std::vector<uint32_t>& accesses) const;

 private:
  struct Access {
    Order order = Order::kNone;
    bool waits[3] = {};  // the counters whose guarantee it needs still
    RegisterRange registers;
    const Instruction* by = nullptr;
    uint32_t lds_access = 0;
  };
  void Count(RegisterRange range, int change);

  std::vector<Access> accesses_;
  uint8_t pending_[kVectorRegisters + kScalarRegisters] = {};  // the number of accesses that write the register
};

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_MACHINE_OUTSTANDING_H_
