// Operations that read other lanes: readlane, permutes, swizzles, counts of lanes.
#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "plugins/hip/isa/machine/memory.h"
#include "plugins/hip/isa/machine/rows.h"
#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

void ReadFirstLane(Wave& wave, const Instruction& i) {
  const uint64_t exec = wave.exec();
  const int lane = exec == 0 ? 0 : std::countr_zero(exec);
  wave.SetScalar32(i.Result(), LaneWord(wave, i.Source(0), lane));
}
void ReadLane(Wave& wave, const Instruction& i) {
  const int lane = static_cast<int>(wave.Scalar32(i.Source(1))) & (wave.lanes - 1);
  wave.SetScalar32(i.Result(), LaneWord(wave, i.Source(0), lane));
}
void WriteLane(Wave& wave, const Instruction& i) {
  const int lane = static_cast<int>(wave.Scalar32(i.Source(1))) & (wave.lanes - 1);
  wave.vectors[i.Result().index][lane] = wave.Scalar32(i.Source(0));
}

// Counts the bits of a mask below the lane: in the lower and in the upper half of the mask.
template <bool kUpper>
void CountLanesBelow(Wave& wave, const Instruction& i) {
  Row masks, bases, result;
  const auto* mask = static_cast<const uint32_t*>(ReadRow(wave, i.Source(0), Type::k32, masks));
  const auto* base = static_cast<const uint32_t*>(ReadRow(wave, i.Source(1), Type::k32, bases));
  for (int l = 0; l < wave.lanes; ++l) {
    const int bits = std::clamp(kUpper ? l - 32 : l, 0, 32);
    const uint32_t below = bits == 32 ? ~0u : (1u << bits) - 1;
    result.u32[l] = static_cast<uint32_t>(std::popcount(mask[l] & below)) + base[l];
  }
  WriteRow(wave, i, i.Result(), Type::k32, result, wave.exec());
}

// Lanes of a row of 16 take a lane of their row (or of the other row of the pair) by 4-bit selects in two scalars.
template <bool kOtherRow>
void PermuteRows(Wave& wave, const Instruction& i) {
  const uint64_t selects = wave.Scalar32(i.Source(1)) | static_cast<uint64_t>(wave.Scalar32(i.Source(2))) << 32;
  const bool fetch_inactive = (i.modifiers.op_sel & 1) != 0, bound_control = (i.modifiers.op_sel & 2) != 0;
  const uint64_t exec = wave.exec();
  Row row, source;
  const auto* from = static_cast<const uint32_t*>(ReadRow(wave, i.Source(0), Type::k32, source));
  uint64_t mask = 0;
  for (int l = 0; l < wave.lanes; ++l) {
    const int other = (kOtherRow ? (l & ~15) ^ 16 : l & ~15) | static_cast<int>(selects >> (4 * (l & 15)) & 15);
    const bool valid = fetch_inactive || (exec >> other & 1) != 0;
    row.u32[l] = valid ? from[other] : 0;
    if (valid || bound_control) mask |= 1ull << l;
  }
  WriteRow(wave, i, i.Result(), Type::k32, row, mask & exec);
}

// Exchanges the halves of rows: lanes 16 to 31 of the first register and 0 to 15 of the second.
void PermuteLane64(Wave& wave, const Instruction& i) {
  const uint64_t exec = wave.exec();
  Row row;
  for (int l = 0; l < wave.lanes; ++l) row.u32[l] = LaneWord(wave, i.Source(0), l ^ 32);
  WriteRow(wave, i, i.Result(), Type::k32, row, exec);
}

// Through the LDS unit, which counts them. Lanes are addressed in bytes.
void FinishInLds(Wave& wave, const Instruction& i, Row& row) {
  WriteRow(wave, i, i.Result(), Type::k32, row, wave.exec());
  wave.outstanding.Issue(Counter::kLgkm, Order::kLds, ResultRange(i.Result()), &i);
}
// Each lane takes the value of the lane at its address. An inactive lane gives zero. On gfx1100 a wave of 64 would have
// two halves; waves have 32 lanes here.
void PullByAddress(Wave& wave, const Instruction& i) {
  const uint64_t exec = wave.exec();
  Row row;
  for (int l = 0; l < wave.lanes; ++l) {
    const int from =
        static_cast<int>((LaneWord(wave, i.Source(0), l) + static_cast<uint32_t>(i.modifiers.offset)) >> 2) &
        (wave.lanes - 1);
    row.u32[l] = (exec >> from & 1) != 0 ? LaneWord(wave, i.Source(1), from) : 0;
  }
  FinishInLds(wave, i, row);
}
void PushByAddress(Wave& wave, const Instruction& i) {
  const uint64_t exec = wave.exec();
  Row row = {};
  for (int l = 0; l < wave.lanes; ++l) {
    if ((exec >> l & 1) == 0) continue;
    const int to = static_cast<int>((LaneWord(wave, i.Source(0), l) + static_cast<uint32_t>(i.modifiers.offset)) >> 2) &
                   (wave.lanes - 1);
    row.u32[to] = LaneWord(wave, i.Source(1), l);
  }
  FinishInLds(wave, i, row);
}
// The offset has bit 15 for selects within 4 lanes; otherwise masks for and, or and xor within 32 lanes.
void SwizzleLanes(Wave& wave, const Instruction& i) {
  const uint64_t exec = wave.exec();
  const uint32_t pattern = i.words[0] & 0xffff;
  Row row;
  if (pattern >= 0xe000) return wave.Fail(absl::UnimplementedError("a rotation or FFT swizzle"));
  for (int l = 0; l < wave.lanes; ++l) {
    int from;
    if ((pattern & 0x8000) != 0) {
      from = (l & ~3) | static_cast<int>(pattern >> (2 * (l & 3)) & 3);
    } else {
      const int and_mask = pattern & 31, or_mask = pattern >> 5 & 31, xor_mask = pattern >> 10 & 31;
      from = (l & 32) | (((l & 31 & and_mask) | or_mask) ^ xor_mask);
    }
    row.u32[l] = (exec >> from & 1) != 0 ? LaneWord(wave, i.Source(0), from) : 0;
  }
  FinishInLds(wave, i, row);
}

constexpr Operation MarkAsPacked(Operation o) {
  o.packed = true;  // op_sel has a meaning of its own
  return o;
}

constexpr Operation kCrossLane[] = {
    Custom("v_readfirstlane_b32", Category::kVector, ReadFirstLane, 1, Type::k32, Type::k32),
    Custom("v_readlane_b32", Category::kVector, ReadLane, 1, Type::k32, Type::k32, Type::k32),
    Custom("v_writelane_b32", Category::kVector, WriteLane, 1, Type::k32, Type::k32, Type::k32),
    Custom("v_mbcnt_lo_u32_b32", Category::kVector, CountLanesBelow<false>, 1, Type::k32, Type::k32, Type::k32),
    Custom("v_mbcnt_hi_u32_b32", Category::kVector, CountLanesBelow<true>, 1, Type::k32, Type::k32, Type::k32),
    MarkAsPacked(Custom("v_permlane16_b32", Category::kVector, PermuteRows<false>, 1, Type::k32, Type::k32, Type::k32,
                        Type::k32)),
    MarkAsPacked(Custom("v_permlanex16_b32", Category::kVector, PermuteRows<true>, 1, Type::k32, Type::k32, Type::k32,
                        Type::k32)),
    Custom("v_permlane64_b32", Category::kVector, PermuteLane64, 1, Type::k32, Type::k32),
    Custom("ds_bpermute_b32", Category::kLds, PullByAddress, 1, Type::k32, Type::k32, Type::k32),
    Custom("ds_permute_b32", Category::kLds, PushByAddress, 1, Type::k32, Type::k32, Type::k32),
    Custom("ds_swizzle_b32", Category::kLds, SwizzleLanes, 1, Type::k32, Type::k32),
};

}  // namespace

absl::Span<const Operation> CrossLane() { return kCrossLane; }

}  // namespace backplane::hip::isa
