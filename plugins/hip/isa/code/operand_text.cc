#include "plugins/hip/isa/code/operand_text.h"

#include <bit>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "plugins/hip/isa/machine/number_formats.h"
#include "plugins/hip/isa/machine/wave.h"

namespace backplane::hip::isa {
namespace {

struct NamedRegister {
  absl::string_view name;
  uint16_t index;
  uint8_t width;
};
constexpr NamedRegister kNamedRegisters[] = {
    {"vcc", kVccLow, 2},
    {"vcc_lo", kVccLow, 1},
    {"vcc_hi", kVccLow + 1, 1},
    {"exec", kExecLow, 2},
    {"exec_lo", kExecLow, 1},
    {"exec_hi", kExecLow + 1, 1},
    {"m0", kM0, 1},
    {"null", kNull, 1},
    {"flat_scratch", 102, 2},
    {"flat_scratch_lo", 102, 1},
    {"flat_scratch_hi", 103, 1},
    {"xnack_mask", 104, 2},
    {"xnack_mask_lo", 104, 1},
    {"xnack_mask_hi", 105, 1},
};

struct RegisterPrefix {
  absl::string_view prefix;
  Operand::Kind kind;
  uint16_t base, count;
};
constexpr RegisterPrefix kPrefixes[] = {
    {"ttmp", Operand::Kind::kScalar, 108, 16},
    {"v", Operand::Kind::kVector, 0, 256},
    {"a", Operand::Kind::kVector, kAccumulators, 256},
    {"s", Operand::Kind::kScalar, 0, 106},
};

// "4" or "[4:7]" behind a prefix.
bool ParseIndices(absl::string_view text, uint32_t& first, uint32_t& last) {
  if (absl::ConsumePrefix(&text, "[")) {
    if (!absl::ConsumeSuffix(&text, "]")) return false;
    const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits(':', 1));
    return absl::SimpleAtoi(ends.first, &first) &&
           absl::SimpleAtoi(ends.second.empty() ? ends.first : ends.second, &last) && first <= last;
  }
  if (!absl::SimpleAtoi(text, &first)) return false;
  last = first;
  return true;
}

bool ParseRegister(absl::string_view text, Operand& o) {
  for (const NamedRegister& r : kNamedRegisters) {
    if (r.name != text) continue;
    o.kind = Operand::Kind::kScalar;
    o.index = r.index;
    o.width = r.width;
    return true;
  }
  for (const RegisterPrefix& p : kPrefixes) {
    absl::string_view rest = text;
    uint32_t first = 0, last = 0;
    if (!absl::ConsumePrefix(&rest, p.prefix) || !ParseIndices(rest, first, last)) continue;
    if (last >= p.count) return false;
    o.kind = p.kind;
    o.index = static_cast<uint16_t>(p.base + first);
    o.width = static_cast<uint8_t>(last - first + 1);
    return true;
  }
  return false;
}

bool ParseConstant(absl::string_view text, Operand& o) {
  o.kind = Operand::Kind::kImmediate;
  // The apertures of flat addresses: a 32-bit reader gets the upper half.
  if (text == "src_shared_base" || text == "src_private_base") {
    o.value = text == "src_shared_base" ? kSharedAperture : kPrivateAperture;
    o.is_aperture = true;
    return true;
  }
  if (text == "src_shared_limit" || text == "src_private_limit") {
    o.value = (text == "src_shared_limit" ? kSharedAperture : kPrivateAperture) | 0xffffffffu;
    o.is_aperture = true;
    return true;
  }
  uint64_t hex = 0;
  if (absl::StartsWith(text, "0x") && absl::SimpleHexAtoi(text, &hex)) {
    o.value = hex;
    o.is_literal = true;
    return true;
  }
  if (absl::StartsWith(text, "-0x") && absl::SimpleHexAtoi(text.substr(1), &hex)) {
    o.value = 0 - hex;
    return true;
  }
  int64_t integer = 0;
  if (absl::SimpleAtoi(text, &integer)) {
    o.value = static_cast<uint64_t>(integer);
    return true;
  }
  if (!absl::StrContains(text, '.') || !absl::SimpleAtod(text, &o.number)) return false;
  o.is_float = true;
  return true;
}

}  // namespace

std::optional<Operand> ParseOperand(absl::string_view text) {
  Operand o;
  if (text == "off") {
    o.kind = Operand::Kind::kOff;
    return o;
  }
  if (absl::ConsumePrefix(&text, "sext(")) {
    if (!absl::ConsumeSuffix(&text, ")")) return std::nullopt;
    o.sign_extend = true;
  }
  if (absl::ConsumePrefix(&text, "neg(")) {
    if (!absl::ConsumeSuffix(&text, ")")) return std::nullopt;
    o.negate = true;
  } else if (text.size() > 1 && text[0] == '-' && !(text[1] >= '0' && text[1] <= '9')) {
    text.remove_prefix(1);
    o.negate = true;
  }
  if (absl::ConsumePrefix(&text, "|")) {
    if (!absl::ConsumeSuffix(&text, "|")) return std::nullopt;
    o.absolute = true;
  }
  if (ParseRegister(text, o) || ParseConstant(text, o)) return o;
  return std::nullopt;
}

uint64_t EncodeImmediate(const Operand& o, Type type) {
  if (o.is_float) {
    if (Is64Bit(type)) return std::bit_cast<uint64_t>(o.number);
    if (type == Type::kBF16) return ConvertFloatToBf16(static_cast<float>(o.number));
    if (Is16Bit(type)) return ConvertDoubleToHalf(o.number);
    return std::bit_cast<uint32_t>(static_cast<float>(o.number));
  }
  if (o.is_aperture) return Is64Bit(type) ? o.value : o.value >> 32;
  if (o.is_literal && o.value <= 0xffffffffu) {
    if (type == Type::kF64) return o.value << 32;
    if (type == Type::kI64) return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(o.value)));
  }
  return o.value;
}

}  // namespace backplane::hip::isa
