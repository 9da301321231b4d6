#include "plugins/hip/isa/machine/rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "plugins/hip/isa/machine/number_formats.h"

namespace backplane::hip::isa {
namespace {

uint32_t SelectPart(uint32_t word, Select select, bool sign_extend) {
  switch (select) {
    case Select::kDword:
      return word;
    case Select::kWord0:
    case Select::kWord1: {
      const uint16_t half = static_cast<uint16_t>(select == Select::kWord0 ? word : word >> 16);
      return sign_extend ? static_cast<uint32_t>(static_cast<int16_t>(half)) : half;
    }
    default: {
      const uint8_t byte =
          static_cast<uint8_t>(word >> (8 * (static_cast<int>(select) - static_cast<int>(Select::kByte0))));
      return sign_extend ? static_cast<uint32_t>(static_cast<int8_t>(byte)) : byte;
    }
  }
}

template <class Bits>
void FlushRow(Bits* row, int lanes, Bits exponent_bits, Bits sign) {
  for (int l = 0; l < lanes; ++l) {
    if ((row[l] & exponent_bits) == 0) row[l] &= sign;
  }
}

void Flush(Type type, Row& row, int lanes) {
  if (type == Type::kF64) FlushRow<uint64_t>(row.u64, lanes, 0x7ff0000000000000ull, 0x8000000000000000ull);
  if (type == Type::kF32) FlushRow<uint32_t>(row.u32, lanes, 0x7f800000u, 0x80000000u);
  if (type == Type::kF16) FlushRow<uint32_t>(row.u32, lanes, 0x7c00u, 0x8000u);
}

double NumberOf(Type type, const Row& row, int lane) {
  if (type == Type::kF64) return std::bit_cast<double>(row.u64[lane]);
  if (type == Type::kF32) return std::bit_cast<float>(row.u32[lane]);
  return ConvertHalfToFloat(static_cast<uint16_t>(row.u32[lane]));
}
void SetNumber(Type type, Row& row, int lane, double v) {
  if (type == Type::kF64) {
    row.u64[lane] = std::bit_cast<uint64_t>(v);
  } else if (type == Type::kF32) {
    row.u32[lane] = std::bit_cast<uint32_t>(static_cast<float>(v));
  } else {
    row.u32[lane] = ConvertDoubleToHalf(v);
  }
}

void ScaleAndClamp(const Wave& wave, const Modifiers& m, Type type, Row& row) {
  static constexpr double kScales[] = {1, 2, 4, 0.5};
  for (int l = 0; l < wave.lanes; ++l) {
    double v = NumberOf(type, row, l) * kScales[m.output_scale];
    if (m.clamp) {
      if (std::isnan(v)) {
        if (wave.mode.clamp_nan_to_zero) v = 0;
      } else {
        v = v > 0 ? std::min(v, 1.0) : 0.0;
      }
    }
    SetNumber(type, row, l, v);
  }
}

bool FlushesSources(const FloatMode& mode, Type type) {
  return type == Type::kF32 ? !mode.keep_f32_sources : IsFloat(type) && type != Type::kBF16 && !mode.keep_f64_sources;
}
bool FlushesResults(const FloatMode& mode, Type type) {
  return type == Type::kF32 ? !mode.keep_f32_results : IsFloat(type) && type != Type::kBF16 && !mode.keep_f64_results;
}

// The lane that a lane reads with dpp_ctrl, -1 for none.
int SourceLane(uint16_t control, int lane, int lanes) {
  const int row = lane & ~15, at = lane & 15;
  if (control < 0x100) return (lane & ~3) | (control >> (2 * (lane & 3)) & 3);
  const int n = control & 15;
  switch (control >> 4) {
    case 0x10:
      return at + n < 16 ? row + at + n : -1;  // row_shl
    case 0x11:
      return at - n >= 0 ? row + at - n : -1;  // row_shr
    case 0x12:
      return row + ((at - n) & 15);  // row_ror
    case 0x15:
      return row + n;  // row_share, row_newbcast
    case 0x16:
      return row + (at ^ n);  // row_xmask
    default:
      break;
  }
  switch (control) {
    case 0x130:
      return lane + 1 < lanes ? lane + 1 : -1;  // wave_shl
    case 0x134:
      return (lane + 1) % lanes;  // wave_rol
    case 0x138:
      return lane - 1;  // wave_shr
    case 0x13c:
      return (lane + lanes - 1) % lanes;  // wave_ror
    case 0x140:
      return row + 15 - at;  // row_mirror
    case 0x141:
      return row + (at ^ 7);  // row_half_mirror
    case 0x142:
      return row - 1;  // row_bcast:15
    case 0x143:
      return lane >= 32 ? 31 : -1;  // row_bcast:31
    default:
      return -2;
  }
}

}  // namespace

const void* ReadRow(const Wave& wave, const Operand& source, Type type, Row& buffer) {
  const int lanes = wave.lanes;
  const bool wide = Is64Bit(type);
  const bool flush = FlushesSources(wave.mode, type);
  if (source.kind == Operand::Kind::kVector) {
    const uint32_t* low = wave.vectors[source.index];
    if (wide) {
      const uint32_t* high = wave.vectors[source.index + 1];
      for (int l = 0; l < lanes; ++l) buffer.u64[l] = low[l] | static_cast<uint64_t>(high[l]) << 32;
    } else {
      if (source.select == Select::kDword && !source.negate && !source.absolute && !flush) return low;
      if (source.select == Select::kDword) {
        std::copy_n(low, lanes, buffer.u32);
      } else {
        for (int l = 0; l < lanes; ++l) buffer.u32[l] = SelectPart(low[l], source.select, source.sign_extend);
      }
    }
  } else if (wide) {
    std::fill_n(buffer.u64, lanes, wave.Scalar64(source));
  } else {
    uint32_t word = wave.Scalar32(source);
    // An immediate holds the value itself; the upper half of an inline constant is never selected by the compiler.
    if (source.select != Select::kDword) word = SelectPart(word, source.select, source.sign_extend);
    std::fill_n(buffer.u32, lanes, word);
  }
  if (source.absolute || source.negate) {
    if (wide) {
      const uint64_t keep = source.absolute ? ~(1ull << 63) : ~0ull, change = source.negate ? 1ull << 63 : 0;
      for (int l = 0; l < lanes; ++l) buffer.u64[l] = (buffer.u64[l] & keep) ^ change;
    } else {
      const uint32_t sign = Is16Bit(type) ? 0x8000u : 0x80000000u;
      const uint32_t keep = source.absolute ? ~sign : ~0u, change = source.negate ? sign : 0;
      for (int l = 0; l < lanes; ++l) buffer.u32[l] = (buffer.u32[l] & keep) ^ change;
    }
  }
  if (flush) Flush(type, buffer, lanes);
  return &buffer;
}

uint64_t ShuffleRow(Wave& wave, const LaneShuffle& shuffle, Type type, const void* row, Row& buffer) {
  const uint64_t exec = wave.exec();
  uint64_t may_write = 0;
  Row moved;
  for (int l = 0; l < wave.lanes; ++l) {
    int from;
    if (shuffle.kind == LaneShuffle::Kind::kDpp8) {
      from = (l & ~7) | static_cast<int>(shuffle.selects >> (3 * (l & 7)) & 7);
    } else {
      from = SourceLane(shuffle.control, l, wave.lanes);
    }
    if (from == -2) {
      wave.Fail(absl::UnimplementedError(absl::StrCat("dpp_ctrl ", shuffle.control, " is not known")));
      return 0;
    }
    const bool valid = from >= 0 && (shuffle.fetch_inactive || (exec >> from & 1) != 0);
    const bool zero = shuffle.bound_control || shuffle.kind == LaneShuffle::Kind::kDpp8;
    if (Is64Bit(type)) {
      moved.u64[l] = valid ? static_cast<const uint64_t*>(row)[from] : 0;
    } else {
      moved.u32[l] = valid ? static_cast<const uint32_t*>(row)[from] : 0;
    }
    const bool selected = (shuffle.row_mask >> (l / 16) & 1) != 0 && (shuffle.bank_mask >> (l % 16 / 4) & 1) != 0;
    if (selected && (valid || zero)) may_write |= 1ull << l;
  }
  buffer = moved;
  return may_write;
}

void WriteRow(Wave& wave, const Instruction& i, const Operand& result, Type type, Row& row, uint64_t mask) {
  const Modifiers& m = i.modifiers;
  const int lanes = wave.lanes;
  if (FlushesResults(wave.mode, type)) Flush(type, row, lanes);
  if (IsFloat(type) && (m.clamp || m.output_scale != 0)) ScaleAndClamp(wave, m, type, row);
  uint32_t* low = wave.vectors[result.index];
  if (Is64Bit(type)) {
    uint32_t* high = wave.vectors[result.index + 1];
    for (int l = 0; l < lanes; ++l) {
      if ((mask >> l & 1) == 0) continue;
      low[l] = static_cast<uint32_t>(row.u64[l]);
      high[l] = static_cast<uint32_t>(row.u64[l] >> 32);
    }
    return;
  }
  if (m.has_destination_select && m.destination != Select::kDword) {
    const bool byte = m.destination >= Select::kByte0;
    const int shift = byte ? 8 * (static_cast<int>(m.destination) - static_cast<int>(Select::kByte0))
                           : (m.destination == Select::kWord1 ? 16 : 0);
    const uint32_t part = (byte ? 0xffu : 0xffffu) << shift;
    for (int l = 0; l < lanes; ++l) {
      if ((mask >> l & 1) == 0) continue;
      const uint32_t value = row.u32[l] << shift & part;
      uint32_t rest = 0;
      if (m.unused == Modifiers::Unused::kPreserve) rest = low[l] & ~part;
      if (m.unused == Modifiers::Unused::kSignExtend && (value & part & ~(part >> 1)) != 0) rest = ~(part | (part - 1));
      low[l] = value | (rest & ~part);
    }
    return;
  }
  if (Is16Bit(type)) {
    const bool keep = wave.machine == Machine::kGfx1100 || i.operation->keeps_upper_half;
    const uint32_t kept = keep ? 0xffff0000u : 0;
    for (int l = 0; l < lanes; ++l) {
      if ((mask >> l & 1) != 0) low[l] = (low[l] & kept) | (row.u32[l] & 0xffffu);
    }
    return;
  }
  for (int l = 0; l < lanes; ++l) {
    if ((mask >> l & 1) != 0) low[l] = row.u32[l];
  }
}

}  // namespace backplane::hip::isa
