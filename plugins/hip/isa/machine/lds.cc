#include "plugins/hip/isa/machine/lds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace backplane::hip::isa {

void LdsState::Reset(uint32_t bytes) {
  bytes_.assign(bytes, 0xcd);
  shadow_.resize(bytes);
  phase_ += 2;
}

namespace {

uint8_t WaveOf(uint64_t shadow, LdsAccess access) {
  return static_cast<uint8_t>(shadow >> (8 * static_cast<int>(access)));
}
bool IsOther(uint64_t shadow, LdsAccess access, uint8_t me) {
  const uint8_t wave = WaveOf(shadow, access);
  return wave != 0 && wave != me;
}

}  // namespace

LdsState::Shadow LdsState::Advance(Shadow before, uint8_t me, LdsAccess access) const {
  if (before >> 32 != phase_) before = Shadow{phase_} << 32;
  const bool race = IsOther(before, LdsAccess::kWrite, me) ||
                    (access != LdsAccess::kAtomic && IsOther(before, LdsAccess::kAtomic, me)) ||
                    (access != LdsAccess::kRead && IsOther(before, LdsAccess::kRead, me));
  if (race) return 0;
  const uint8_t wave = WaveOf(before, access), now = wave == 0 || wave == me ? me : kSeveral;
  const int shift = 8 * static_cast<int>(access);
  return (before & ~(Shadow{0xff} << shift)) | Shadow{now} << shift;
}

absl::Status LdsState::Record(uint32_t wave, uint32_t address, uint32_t bytes, LdsAccess access) {
  const uint8_t me = static_cast<uint8_t>(wave + 1);
  if (access_ != 0) accesses_[access_].push_back({address, bytes, access});
  // Neighbouring bytes mostly have the same shadow. No shadow in use is zero.
  Shadow before = 0, after = 0;
  for (uint32_t i = address; i < address + bytes; ++i) {
    if (shadow_[i] != before || after == 0) {
      before = shadow_[i];
      after = Advance(before, me, access);
      if (after == 0) return DescribeRace(before, i, me, access);
    }
    shadow_[i] = after;
  }
  return absl::OkStatus();
}

absl::Status LdsState::DescribeRace(Shadow s, uint32_t address, uint8_t me, LdsAccess access) {
  static constexpr const char* kDid[] = {"read", "wrote", "updated"};
  int what = 0;
  for (int a = 0; a < 3; ++a) {
    if (IsOther(s, static_cast<LdsAccess>(a), me) && (a != 0 || access != LdsAccess::kRead)) what = a;
  }
  const uint8_t other = WaveOf(s, static_cast<LdsAccess>(what));
  return absl::FailedPreconditionError(
      absl::StrCat("byte ", address, " of LDS is ", access == LdsAccess::kRead ? "read" : "written", ", which ",
                   other == kSeveral ? std::string("another wave") : absl::StrCat("wave ", other - 1), " ", kDid[what],
                   " with no barrier between"));
}

uint32_t LdsState::BeginAccess(uint32_t wave) {
  if (next_.size() <= wave) next_.resize(wave + 1);
  access_ = 1 + wave * kRemembered + next_[wave]++ % kRemembered;
  if (accesses_.size() <= access_) accesses_.resize((wave + 1) * kRemembered + 1);
  accesses_[access_].clear();
  return access_;
}

absl::Status LdsState::Repeat(uint32_t wave, uint32_t access) {
  access_ = 0;
  for (const Range& r : accesses_[access]) {
    if (absl::Status s = Record(wave, r.address, r.bytes, r.access); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace backplane::hip::isa
