// The random numbers of the generator. A seed gives the same numbers on every machine; the distributions of the C++
// standard library do not guarantee this. Do not draw two numbers in one argument list: compilers evaluate arguments in
// different orders, so the same seed would give different programs.
#ifndef BACKPLANE_SDK_CLI_FUZZ_RANDOM_H_
#define BACKPLANE_SDK_CLI_FUZZ_RANDOM_H_

#include <cstdint>
#include <vector>

namespace backplane::cli::fuzz {

class Random {
 public:
  // Mixes the seed first, because otherwise consecutive seeds would give the same sequence, shifted by one number.
  explicit Random(uint64_t seed) : state_(Mix(Mix(seed + 0x2545f4914f6cdd1du) ^ 0xd1b54a32d192ed03u)) {}

  // SplitMix64.
  uint64_t Bits() { return Mix(state_ += 0x9e3779b97f4a7c15u); }
  // Returns a number with 0 <= result < n; n must be at least 1.
  int64_t Below(int64_t n) { return static_cast<int64_t>(Bits() % static_cast<uint64_t>(n)); }
  // Returns a number with low <= result <= high.
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  bool Chance(int percent) { return Below(100) < percent; }
  double Unit() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }  // [0, 1)
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int64_t>(from.size())))];
  }
  std::vector<int64_t> Permutation(int64_t n) {
    std::vector<int64_t> p(static_cast<size_t>(n));
    for (size_t i = 0; i < p.size(); ++i) p[i] = static_cast<int64_t>(i);
    for (size_t i = p.size(); i > 1; --i) std::swap(p[i - 1], p[static_cast<size_t>(Below(static_cast<int64_t>(i)))]);
    return p;
  }

 private:
  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_RANDOM_H_
