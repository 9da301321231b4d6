#include "plugins/hip/isa/machine/lds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace backplane::hip::isa {

void LdsState::Reset(uint32_t bytes) {
  bytes_.assign(bytes, 0xcd);
  shadow_.resize(bytes);
  phase_ += 2;
}

absl::Status LdsState::Record(uint32_t wave, uint32_t address, uint32_t bytes, LdsAccess access) {
  const uint8_t me = static_cast<uint8_t>(wave + 1);
  if (access_ != 0) accesses_[access_].push_back({address, bytes, access});
  for (uint32_t i = address; i < address + bytes; ++i) {
    Shadow& s = shadow_[i];
    if (s.phase != phase_) s = {phase_, 0, 0, 0};
    auto others = [me](uint8_t who) { return who != 0 && who != me; };
    uint8_t other = 0;
    const char* did = nullptr;
    if (others(s.writer)) other = s.writer, did = "wrote";
    if (access != LdsAccess::kAtomic && others(s.atomics)) other = s.atomics, did = "updated";
    if (access != LdsAccess::kRead && others(s.readers)) other = s.readers, did = "read";
    if (did != nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("byte ", i, " of LDS is ", access == LdsAccess::kRead ? "read" : "written", ", which ",
                       other == kSeveral ? std::string("another wave") : absl::StrCat("wave ", other - 1), " ", did,
                       " with no barrier between"));
    }
    uint8_t& mine = access == LdsAccess::kRead ? s.readers : access == LdsAccess::kWrite ? s.writer : s.atomics;
    mine = mine == 0 || mine == me ? me : kSeveral;
  }
  return absl::OkStatus();
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
