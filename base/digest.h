// A 128-bit digest: stable across processes and versions, so it may be stored. Fast, and not cryptographic: it tells
// contents apart that no one has made to collide.
#ifndef BACKPLANE_BASE_DIGEST_H_
#define BACKPLANE_BASE_DIGEST_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace backplane {

// Two multiply-and-xor hashes with different constants over one stream of 64-bit words.
class Digest {
 public:
  void Word(uint64_t w) {
    a_ = Mix(a_ ^ w, 0x9e3779b97f4a7c15u);
    b_ = Mix(b_ ^ std::rotl(w, 29), 0xd6e8feb86659fd93u);
  }
  // Adds the size as well, so different sequences of values never feed the same words.
  void Bytes(const void* data, size_t size) {
    Word(size);
    const char* p = static_cast<const char*>(data);
    for (; size >= 8; p += 8, size -= 8) {
      uint64_t w;
      std::memcpy(&w, p, 8);
      Word(w);
    }
    uint64_t rest = 0;
    if (size > 0) std::memcpy(&rest, p, size);
    Word(rest);
  }

  uint64_t Half() const { return a_ ^ b_; }
  // All bits, as 32 hexadecimal digits.
  std::string Hex() const {
    return absl::StrFormat("%016x%016x", Mix(a_, 0xa0761d6478bd642fu), Mix(b_ ^ a_, 0xe7037ed1a0b428dbu));
  }
  static std::string ComputeHex(absl::string_view bytes) {
    Digest d;
    d.Bytes(bytes.data(), bytes.size());
    return d.Hex();
  }

 private:
  static uint64_t Mix(uint64_t x, uint64_t constant) {
    unsigned __int128 m = static_cast<unsigned __int128>(x) * constant;
    return static_cast<uint64_t>(m) ^ static_cast<uint64_t>(m >> 64) ^ std::rotr(x, 17);
  }
  uint64_t a_ = 0x243f6a8885a308d3u, b_ = 0x13198a2e03707344u;
};

}  // namespace backplane

#endif  // BACKPLANE_BASE_DIGEST_H_
