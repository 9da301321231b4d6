// Scalar loads (SMEM): from constant memory, arguments and tables.
#include <cstring>

#include "plugins/hip/isa/machine/memory.h"
#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

// result, base, offset[, and "offset:" in the text]
void LoadScalars(Wave& wave, const Instruction& i) {
  const int words = static_cast<int>(i.operation->parameter);
  const uint64_t offset = i.operands[2].kind == Operand::Kind::kImmediate
                              ? i.operands[2].value
                              : (i.operands[2].index == kNull ? 0 : wave.Scalar32(i.operands[2]));
  const uint64_t address =
      (wave.Scalar64(i.operands[1]) + offset + static_cast<uint64_t>(static_cast<int64_t>(i.modifiers.offset))) & ~3ull;
  if (!CheckScalarLoad(wave, address, 4u * static_cast<unsigned>(words))) return;
  if (i.operands[0].index != kNull) {
    std::memcpy(&wave.scalars[i.operands[0].index], reinterpret_cast<const void*>(address),
                4u * static_cast<unsigned>(words));
  }
  wave.outstanding.Issue(Counter::kLgkm, Order::kNone, ResultRange(i.operands[0]), &i);
}

constexpr Operation LoadOf(absl::string_view mnemonic, int words) {
  Operation o = Custom(mnemonic, Category::kScalarLoad, LoadScalars, 1, Type::k32, Type::k64, Type::k64);
  o.parameter = words;
  return o;
}

constexpr Operation kScalarMemory[] = {
    LoadOf("s_load_b32", 1),       LoadOf("s_load_b64", 2),     LoadOf("s_load_b128", 4),
    LoadOf("s_load_b256", 8),      LoadOf("s_load_b512", 16),   LoadOf("s_load_dword", 1),
    LoadOf("s_load_dwordx2", 2),   LoadOf("s_load_dwordx4", 4), LoadOf("s_load_dwordx8", 8),
    LoadOf("s_load_dwordx16", 16),
};

}  // namespace

absl::Span<const Operation> ScalarMemory() { return kScalarMemory; }

}  // namespace backplane::hip::isa
