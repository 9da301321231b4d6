#include "plugins/hip/isa/operations/operations.h"

#include "absl/container/flat_hash_map.h"

namespace backplane::hip::isa {
namespace {

using OperationTable = absl::flat_hash_map<absl::string_view, const Operation*>;

OperationTable BuildTable(Machine machine) {
  OperationTable table;
  for (auto operations : {ScalarArithmetic, ScalarLogic, ScalarControl, ScalarMemory, VectorInteger, VectorBits,
                          VectorFloat, VectorDouble, VectorDivision, VectorConversions, VectorCompare, VectorPacked,
                          CrossLane, LocalMemory, VectorMemory, MemoryAtomics, MatrixWmma, MatrixMfma}) {
    for (const Operation& o : operations()) {
      if (o.machine == Operation::kBoth || (o.machine == Operation::kGfx942) == (machine == Machine::kGfx942)) {
        table[o.mnemonic] = &o;
      }
    }
  }
  return table;
}

}  // namespace

const Operation* FindOperation(Machine machine, absl::string_view mnemonic) {
  static const OperationTable* const tables =
      new OperationTable[2]{BuildTable(Machine::kGfx942), BuildTable(Machine::kGfx1100)};
  const OperationTable& table = tables[machine == Machine::kGfx942 ? 0 : 1];
  auto at = table.find(mnemonic);
  return at == table.end() ? nullptr : at->second;
}

}  // namespace backplane::hip::isa
