// How the current thread computes with subnormal (denormal) floating-point numbers, those below the smallest normal
// number of f32 or f64. Many processors need a hundred times as long for them as for normal numbers.
//
//   const ScopedSubnormals mode(Subnormals::kFlushResults);     // until the end of the scope
//   const ScopedStandardFloats standard;                        // all modes as a C program starts with them
//
// The mode is a property of the thread (the register MXCSR on x86, FPCR on AArch64), so a thread that works for another
// one has to be given its mode. Integer operations, comparisons, and moves of numbers do not depend on it, except that
// kFlushAll compares subnormal numbers as zero. On machines without such a mode nothing happens.
#ifndef BACKPLANE_BASE_SUBNORMALS_H_
#define BACKPLANE_BASE_SUBNORMALS_H_

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace backplane {

enum class Subnormals : uint8_t {
  kKeep,          // as IEEE 754 defines
  kFlushResults,  // subnormal results are zero; operands are read as they are (on AArch64 the same as kFlushAll)
  kFlushAll,      // operands are read as zero, too
};

namespace subnormals_internal {

#if defined(__SSE2__)
using Register = uint32_t;
inline constexpr Register kResults = 0x8000, kOperands = 0x0040;
inline constexpr Register kStandard = 0x1f80, kFlags = 0x003f;  // all exceptions masked, round to nearest
inline Register Read() { return _mm_getcsr(); }
inline void Write(Register r) { _mm_setcsr(r); }
#elif defined(__aarch64__)
using Register = uint64_t;
inline constexpr Register kResults = 1u << 24, kOperands = 0;  // one bit for both
inline constexpr Register kStandard = 0, kFlags = 0;           // no traps, round to nearest; flags are in FPSR
inline Register Read() {
  Register r;
  asm volatile("mrs %0, fpcr" : "=r"(r));
  return r;
}
inline void Write(Register r) { asm volatile("msr fpcr, %0" : : "r"(r)); }
#else
using Register = uint32_t;
inline constexpr Register kResults = 0, kOperands = 0, kStandard = 0, kFlags = 0;
inline Register Read() { return 0; }
inline void Write(Register) {}
#endif

}  // namespace subnormals_internal

// Returns the mode of the current thread.
inline Subnormals GetCurrentSubnormals() {
  using namespace subnormals_internal;
  const Register r = Read();
  if ((r & kResults) == 0) return Subnormals::kKeep;
  return (r & kOperands) == kOperands ? Subnormals::kFlushAll : Subnormals::kFlushResults;
}

// Sets the mode of the current thread, and restores what was set before at the end of the scope. Costs nanoseconds, and
// less if the mode is set already.
class ScopedSubnormals {
 public:
  explicit ScopedSubnormals(Subnormals mode) : before_(subnormals_internal::Read()) {
    using namespace subnormals_internal;
    const Register bits = mode == Subnormals::kKeep           ? 0
                          : mode == Subnormals::kFlushResults ? kResults
                                                              : kResults | kOperands;
    const Register wanted = (before_ & ~(kResults | kOperands)) | bits;
    changed_ = wanted != before_;
    if (changed_) Write(wanted);
  }
  ~ScopedSubnormals() {
    if (changed_) subnormals_internal::Write(before_);
  }
  ScopedSubnormals(const ScopedSubnormals&) = delete;
  ScopedSubnormals& operator=(const ScopedSubnormals&) = delete;

 private:
  const subnormals_internal::Register before_;
  bool changed_ = false;
};

// Floating point as a C program starts: round to nearest, no traps, subnormal numbers kept. Restores what was set
// before at the end of the scope. Entry points of a plugin use it, because a host may call with other modes (jaxlib
// flushes subnormal numbers, operands as well), which compilers of constants do not expect, and which new threads
// inherit.
class ScopedStandardFloats {
 public:
  ScopedStandardFloats() : before_(subnormals_internal::Read()) {
    using namespace subnormals_internal;
    changed_ = (before_ & ~kFlags) != kStandard;
    if (changed_) [[unlikely]]
      Write(kStandard);
  }
  ~ScopedStandardFloats() {
    if (changed_) [[unlikely]]
      subnormals_internal::Write(before_);
  }
  ScopedStandardFloats(const ScopedStandardFloats&) = delete;
  ScopedStandardFloats& operator=(const ScopedStandardFloats&) = delete;

 private:
  const subnormals_internal::Register before_;
  bool changed_ = false;
};

}  // namespace backplane

#endif  // BACKPLANE_BASE_SUBNORMALS_H_
