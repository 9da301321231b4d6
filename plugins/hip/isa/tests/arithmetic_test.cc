// Single instructions on special and random values, against the host's arithmetic: those that compilers emit rarely,
// their modifiers, and the accuracy of the approximations.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "plugins/hip/isa/test_support/kernels.h"

namespace backplane::hip::isa {
namespace {

struct Inputs {
  uint64_t a, b, c;
};
constexpr int kLanes = 64;

float F(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
uint64_t Bits(float v) { return std::bit_cast<uint32_t>(v); }
double D(uint64_t bits) { return std::bit_cast<double>(bits); }
uint64_t Bits(double v) { return std::bit_cast<uint64_t>(v); }
int32_t I(uint64_t bits) { return static_cast<int32_t>(bits); }
uint32_t U(uint64_t bits) { return static_cast<uint32_t>(bits); }
uint64_t Low(int64_t v) { return static_cast<uint32_t>(v); }

// binary16 by the definition of its value.
double HalfValue(uint64_t h) {
  const int e = static_cast<int>(h >> 10 & 31);
  const double m = static_cast<double>(h & 1023);
  const double s = (h & 0x8000) != 0 ? -1 : 1;
  if (e == 31) return m == 0 ? s * INFINITY : NAN;
  return s * (e == 0 ? std::ldexp(m, -24) : std::ldexp(m + 1024, e - 25));
}
// The nearest half, ties to even, by trying all.
uint16_t NearestHalf(double v) {
  if (std::isnan(v)) return 0x7e00;
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  const double a = std::fabs(v);
  if (a >= 65520) return sign | 0x7c00;
  uint16_t low = 0, high = 0x7bff;
  while (low < high) {  // the largest not above
    const uint16_t middle = static_cast<uint16_t>((low + high + 1) / 2);
    (HalfValue(middle) <= a ? low : high) = HalfValue(middle) <= a ? middle : static_cast<uint16_t>(middle - 1);
  }
  const double below = a - HalfValue(low), above = (low == 0x7bff ? 65536.0 : HalfValue(low + 1)) - a;
  const bool up = above < below || (above == below && (low & 1) != 0);
  return sign | static_cast<uint16_t>(low + up);
}
uint64_t ApplyToHalves(const std::function<double(double, double)>& f, uint64_t a, uint64_t b) {
  return NearestHalf(f(HalfValue(a & 0xffff), HalfValue(b & 0xffff))) |
         static_cast<uint64_t>(NearestHalf(f(HalfValue(a >> 16 & 0xffff), HalfValue(b >> 16 & 0xffff)))) << 16;
}

// What the result is compared as.
enum class As { kBits, kFloat, kDouble, kHalf, kHalves };

struct Case {
  const char* text;      // the result in v10 or v[10:11]; sources in v[2:3], v[4:5], v[6:7]
  const char* machines;  // "9", "11" or "both"
  As as;
  double ulps;  // the allowed error
  std::function<uint64_t(const Inputs&)> expected;
};

class Arithmetic : public testing::TestWithParam<const char*> {
 protected:
  std::vector<uint64_t> Run(const std::string& body, const std::vector<Inputs>& in) {
    const bool gfx11 = std::string(GetParam()) == "gfx1100";
    const std::string load = gfx11 ? "global_load_b64" : "global_load_dwordx2";
    const std::string text = absl::StrCat(
        gfx11 ? "s_load_b128 s[4:7], s[0:1], 0\n" : "s_load_dwordx4 s[4:7], s[0:1], 0\n",
        "v_and_b32 v0, 0x3ff, v0\nv_mul_u32_u24 v1, 24, v0\ns_waitcnt lgkmcnt(0)\n", load, " v[2:3], v1, s[4:5]\n",
        load, " v[4:5], v1, s[4:5] offset:8\n", load, " v[6:7], v1, s[4:5] offset:16\ns_waitcnt vmcnt(0)\n",
        "v_mov_b32 v10, 0\nv_mov_b32 v11, 0\n", body, "\nv_lshlrev_b32 v1, 3, v0\n",
        gfx11 ? "global_store_b64" : "global_store_dwordx2", " v1, v[10:11], s[6:7]\ns_endpgm\n");
    auto elf = Assemble(GetParam(), KernelAssembly(GetParam(), text, 2, 0));
    EXPECT_TRUE(elf.ok()) << elf.status();
    std::vector<uint64_t> out(in.size());
    if (!elf.ok()) return out;
    auto s = RunKernel(*elf, "k", {1}, {static_cast<uint32_t>(in.size())}, Arguments().Add(in.data()).Add(out.data()));
    EXPECT_TRUE(s.ok()) << s.status();
    return out;
  }

  void Check(const Case& c, const std::vector<Inputs>& in) {
    const std::string mine = std::string(GetParam()) == "gfx1100" ? "11" : "9";
    if (c.machines != std::string("both") && c.machines != mine) return;
    SCOPED_TRACE(c.text);
    const std::vector<uint64_t> out = Run(c.text, in);
    for (size_t i = 0; i < in.size(); ++i) {
      const uint64_t e = c.expected(in[i]);
      EXPECT_TRUE(Agree(c, out[i], e)) << absl::StrCat("0x", absl::Hex(out[i]), " instead of 0x", absl::Hex(e),
                                                       " for 0x", absl::Hex(in[i].a), ", 0x", absl::Hex(in[i].b),
                                                       ", 0x", absl::Hex(in[i].c));
    }
  }

 private:
  static bool Agree(const Case& c, uint64_t got, uint64_t e) {
    if (got == e) return true;
    switch (c.as) {
      case As::kBits:
        return false;
      case As::kFloat:
        if (std::isnan(F(e))) return std::isnan(F(got)) && (got >> 32) == (e >> 32);
        return c.ulps > 0 && std::fabs(static_cast<double>(F(got)) - F(e)) <=
                                 c.ulps * (std::nextafter(std::fabs(F(e)), INFINITY) - std::fabs(F(e)));
      case As::kDouble:
        if (std::isnan(D(e))) return std::isnan(D(got));
        return c.ulps > 0 && std::fabs(D(got) - D(e)) <= c.ulps * 0x1p-52 * std::fabs(D(e));
      case As::kHalf:
        return std::isnan(HalfValue(e)) && std::isnan(HalfValue(got & 0xffff));
      case As::kHalves:
        for (int shift : {0, 16}) {
          const uint64_t g = got >> shift & 0xffff, x = e >> shift & 0xffff;
          if (g != x && !(std::isnan(HalfValue(g)) && std::isnan(HalfValue(x)))) return false;
        }
        return true;
    }
    return false;
  }
};

std::vector<Inputs> RandomBits() {
  std::mt19937_64 random(5);
  std::vector<Inputs> in(kLanes);
  for (Inputs& i : in) i = {random() >> random() % 33, random(), random()};
  in[0] = {0, 0, 0};
  in[1] = {~0ull, ~0ull, ~0ull};
  in[2] = {0x8000000080000000ull, 1, 31};
  return in;
}
// Floats in the lower words.
std::vector<Inputs> RandomFloats(double size) {
  std::mt19937_64 random(6);
  auto number = [&] { return Bits(static_cast<float>((static_cast<double>(random() >> 11) * 0x1p-52 - 1) * size)); };
  std::vector<Inputs> in(kLanes);
  for (Inputs& i : in) i = {number(), number(), number()};
  const float specials[] = {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 0.5f, 2.5f, -3.5f};
  for (size_t i = 0; i < std::size(specials); ++i) in[i].a = Bits(specials[i]);
  return in;
}
std::vector<Inputs> RandomDoubles() {
  std::mt19937_64 random(7);
  std::vector<Inputs> in(kLanes);
  auto number = [&] { return Bits((static_cast<double>(random() >> 11) * 0x1p-52 - 1) * 100); };
  for (Inputs& i : in) i = {number(), number(), number()};
  return in;
}

uint64_t ByteOf(uint64_t v, int n) { return v >> (8 * n) & 255; }

TEST_P(Arithmetic, Integers) {
  const Case cases[] = {
      {"v_mul_hi_u32 v10, v2, v4", "both", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{U(i.a)} * U(i.b) >> 32; }},
      {"v_mul_hi_i32 v10, v2, v4", "both", As::kBits, 0,
       [](const Inputs& i) { return Low(int64_t{I(i.a)} * I(i.b) >> 32); }},
      {"v_mad_u64_u32 v[10:11], s[10:11], v2, v4, v[6:7]", "9", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{U(i.a)} * U(i.b) + i.c; }},
      {"v_mad_u64_u32 v[10:11], s10, v2, v4, v[6:7]", "11", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{U(i.a)} * U(i.b) + i.c; }},
      {"v_mad_i64_i32 v[10:11], s10, v2, v4, v[6:7]", "11", As::kBits, 0,
       [](const Inputs& i) { return static_cast<uint64_t>(int64_t{I(i.a)} * I(i.b)) + i.c; }},
      {"v_lshl_add_u64 v[10:11], v[2:3], 3, v[6:7]", "9", As::kBits, 0, [](const Inputs& i) { return i.a * 8 + i.c; }},
      {"v_lshlrev_b64 v[10:11], v2, v[4:5]", "both", As::kBits, 0, [](const Inputs& i) { return i.b << (i.a % 64); }},
      {"v_ashrrev_i64 v[10:11], v2, v[4:5]", "both", As::kBits, 0,
       [](const Inputs& i) { return static_cast<uint64_t>(static_cast<int64_t>(i.b) >> (i.a % 64)); }},
      {"v_add3_u32 v10, v2, v4, v6", "both", As::kBits, 0,
       [](const Inputs& i) { return Low(static_cast<int64_t>(i.a + i.b + i.c)); }},
      {"v_lshl_or_b32 v10, v2, v4, v6", "both", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{U(i.a) << (i.b % 32) | U(i.c)}; }},
      {"v_xad_u32 v10, v2, v4, v6", "both", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{(U(i.a) ^ U(i.b)) + U(i.c)}; }},
      {"v_med3_i32 v10, v2, v4, v6", "both", As::kBits, 0,
       [](const Inputs& i) {
         int32_t v[3] = {I(i.a), I(i.b), I(i.c)};
         std::sort(v, v + 3);
         return Low(v[1]);
       }},
      {"v_sad_u8 v10, v2, v4, v6", "both", As::kBits, 0,
       [](const Inputs& i) {
         uint32_t sum = U(i.c);
         for (int n = 0; n < 4; ++n)
           sum += static_cast<uint32_t>(std::abs(static_cast<int>(ByteOf(i.a, n)) - static_cast<int>(ByteOf(i.b, n))));
         return uint64_t{sum};
       }},
      {"v_perm_b32 v10, v2, v4, 0x0c070104", "11", As::kBits, 0,
       [](const Inputs& i) { return ByteOf(i.a, 0) | ByteOf(i.b, 1) << 8 | ByteOf(i.a, 3) << 16; }},
      {"v_alignbyte_b32 v10, v2, v4, 1", "both", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{U(i.b) >> 8 | U(i.a) << 24}; }},
      {"v_alignbit_b32 v10, v2, v4, 5", "both", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{U(i.b) >> 5 | U(i.a) << 27}; }},
      {"v_bfi_b32 v10, v2, v4, v6", "both", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{U((i.a & i.b) | (~i.a & i.c))}; }},
      {"v_bfe_i32 v10, v2, 7, 9", "both", As::kBits, 0, [](const Inputs& i) { return Low(I(i.a << 16) >> 23); }},
      {"v_bcnt_u32_b32 v10, v2, v4", "both", As::kBits, 0,
       [](const Inputs& i) { return Low(__builtin_popcount(U(i.a)) + int64_t{U(i.b)}); }},
      {"v_mad_i32_i24 v10, v2, v4, v6", "both", As::kBits, 0,
       [](const Inputs& i) { return Low(int64_t{I(i.a << 8) / 256} * (I(i.b << 8) / 256) + U(i.c)); }},
      {"v_add_co_u32 v10, vcc_lo, v2, v4\nv_add_co_ci_u32 v11, vcc_lo, v3, v5, vcc_lo", "11", As::kBits, 0,
       [](const Inputs& i) { return i.a + i.b; }},
      {"v_add_co_u32 v10, vcc, v2, v4\nv_addc_co_u32 v11, vcc, v3, v5, vcc", "9", As::kBits, 0,
       [](const Inputs& i) { return i.a + i.b; }},
      {"v_sub_co_u32 v10, vcc, v2, v4\nv_subb_co_u32 v11, vcc, v3, v5, vcc", "9", As::kBits, 0,
       [](const Inputs& i) { return i.a - i.b; }},
      {"v_add_nc_u32 v10, v2, v4 clamp", "11", As::kBits, 0,
       [](const Inputs& i) { return std::min(uint64_t{U(i.a)} + U(i.b), uint64_t{0xffffffff}); }},
      {"v_sub_i32 v10, v2, v4 clamp", "9", As::kBits, 0,
       [](const Inputs& i) {
         return Low(std::clamp(int64_t{I(i.a)} - I(i.b), int64_t{INT32_MIN}, int64_t{INT32_MAX}));
       }},
      // Parts of registers by SDWA.
      {"v_add_u32_sdwa v10, v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:WORD_1", "9", As::kBits,
       0, [](const Inputs& i) { return ByteOf(i.a, 2) + (U(i.b) >> 16); }},
      {"v_mov_b32 v10, v6\nv_add_u32_sdwa v10, v2, sext(v4) dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 "
       "src1_sel:BYTE_3",
       "9", As::kBits, 0,
       [](const Inputs& i) {
         return (i.c & 0xffff) |
                ((ByteOf(i.a, 0) + static_cast<uint32_t>(static_cast<int8_t>(ByteOf(i.b, 3)))) & 0xffff) << 16;
       }},
      {"v_mov_b32_sdwa v10, v2 dst_sel:BYTE_1 dst_unused:UNUSED_SEXT src0_sel:BYTE_0", "9", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{static_cast<uint32_t>(static_cast<int8_t>(i.a) * 256)}; }},
      // Both halves, and halves chosen by op_sel.
      {"v_pk_add_u16 v10, v2, v4", "both", As::kBits, 0,
       [](const Inputs& i) { return ((i.a + i.b) & 0xffff) | (((i.a >> 16) + (i.b >> 16)) & 0xffff) << 16; }},
      {"v_pk_sub_i16 v10, v2, v4 op_sel:[1,0] op_sel_hi:[0,1]", "both", As::kBits, 0,
       [](const Inputs& i) { return (((i.a >> 16) - i.b) & 0xffff) | ((i.a - (i.b >> 16)) & 0xffff) << 16; }},
      {"v_pk_max_i16 v10, v2, v4", "both", As::kBits, 0,
       [](const Inputs& i) {
         const auto high = [](uint64_t v) { return static_cast<int16_t>(v >> 16); };
         return uint64_t{static_cast<uint16_t>(std::max(static_cast<int16_t>(i.a), static_cast<int16_t>(i.b)))} |
                uint64_t{static_cast<uint16_t>(std::max(high(i.a), high(i.b)))} << 16;
       }},
      {"v_mov_b32 v10, v6\nv_add_nc_u16 v10, v2, v4 op_sel:[1,0,1]", "11", As::kBits, 0,
       [](const Inputs& i) { return (i.c & 0xffff) | (((i.a >> 16) + i.b) & 0xffff) << 16; }},
      {"v_mov_b32 v10, v6\nv_add_u16 v10, v2, v4", "9", As::kBits, 0,
       [](const Inputs& i) { return (i.a + i.b) & 0xffff; }},
      {"v_dot4_u32_u8 v10, v2, v4, v6", "both", As::kBits, 0,
       [](const Inputs& i) {
         uint64_t sum = U(i.c);
         for (int n = 0; n < 4; ++n) sum += ByteOf(i.a, n) * ByteOf(i.b, n);
         return sum & 0xffffffff;
       }},
      {"v_mov_b32 v10, v6\nv_dot4c_i32_i8 v10, v2, v4", "9", As::kBits, 0,
       [](const Inputs& i) {
         int64_t sum = I(i.c);
         for (int n = 0; n < 4; ++n)
           sum += int64_t{static_cast<int8_t>(ByteOf(i.a, n))} * static_cast<int8_t>(ByteOf(i.b, n));
         return Low(sum);
       }},
      {"v_dot4_i32_iu8 v10, v2, v4, v6 neg_lo:[1,0,0]", "11", As::kBits, 0,
       [](const Inputs& i) {
         int64_t sum = I(i.c);
         for (int n = 0; n < 4; ++n)
           sum += int64_t{static_cast<int8_t>(ByteOf(i.a, n))} * static_cast<int64_t>(ByteOf(i.b, n));
         return Low(sum);
       }},
      {"v_dual_mov_b32 v10, v4 :: v_dual_add_nc_u32 v11, v2, v6", "11", As::kBits, 0,
       [](const Inputs& i) { return U(i.b) | uint64_t{U(i.a + i.c)} << 32; }},
      {"v_mov_b32 v8, v2\nv_mov_b32 v9, v4\nv_dual_mov_b32 v8, v9 :: v_dual_mov_b32 v9, v8\nv_mov_b32 v10, "
       "v8\nv_mov_b32 v11, v9",
       "11", As::kBits, 0, [](const Inputs& i) { return U(i.b) | uint64_t{U(i.a)} << 32; }},
  };
  for (const Case& c : cases) Check(c, RandomBits());
}

uint64_t MedianBits(const Inputs& i) {
  const float a = F(i.a), b = F(i.b), c = F(i.c);
  if (std::isnan(a)) return Bits(std::min(b, c));  // of numbers, the least
  return Bits(std::max(std::min(a, b), std::min(std::max(a, b), c)));
}
uint64_t ClampBits(float v) { return std::isnan(v) ? Bits(0.0f) : Bits(v > 0 ? std::min(v, 1.0f) : 0.0f); }

TEST_P(Arithmetic, Floats) {
  const Case cases[] = {
      {"v_fma_f32 v10, v2, -v4, |v6|", "both", As::kFloat, 0,
       [](const Inputs& i) { return Bits(std::fma(F(i.a), -F(i.b), std::fabs(F(i.c)))); }},
      {"v_add_f32 v10, v2, v4 mul:2", "both", As::kFloat, 0,
       [](const Inputs& i) { return Bits((F(i.a) + F(i.b)) * 2); }},
      {"v_mul_f32 v10, v2, v4 clamp", "both", As::kFloat, 0,
       [](const Inputs& i) { return ClampBits(F(i.a) * F(i.b)); }},
      {"v_max_f32 v10, v2, v4 clamp div:2", "both", As::kFloat, 0,
       [](const Inputs& i) { return ClampBits(std::fmax(F(i.a), F(i.b)) / 2); }},
      {"v_med3_f32 v10, v2, v4, v6", "both", As::kFloat, 0, MedianBits},
      {"v_min_f32 v10, v2, v4", "both", As::kFloat, 0, [](const Inputs& i) { return Bits(std::fmin(F(i.a), F(i.b))); }},
      {"v_fract_f32 v10, v2", "both", As::kFloat, 0,
       [](const Inputs& i) {
         return std::isfinite(F(i.a)) ? Bits(std::min(F(i.a) - std::floor(F(i.a)), 0x1.fffffep-1f)) : Bits(NAN);
       }},
      {"v_rndne_f32 v10, v2", "both", As::kFloat, 0, [](const Inputs& i) { return Bits(std::rint(F(i.a))); }},
      {"v_frexp_mant_f32 v10, v2\nv_frexp_exp_i32_f32 v11, v2", "both", As::kFloat, 0,
       [](const Inputs& i) {
         int e = 0;
         const float m = std::frexp(F(i.a), &e);
         return Bits(m) | uint64_t{std::isfinite(F(i.a)) ? static_cast<uint32_t>(e) : 0u} << 32;
       }},
      {"v_cvt_i32_f32 v10, v2", "both", As::kBits, 0,
       [](const Inputs& i) {
         return std::isnan(F(i.a)) ? 0 : Low(static_cast<int64_t>(std::clamp<double>(F(i.a), INT32_MIN, INT32_MAX)));
       }},
      {"v_cvt_u32_f32 v10, v2", "both", As::kBits, 0,
       [](const Inputs& i) {
         return std::isnan(F(i.a)) ? 0 : Low(static_cast<int64_t>(std::clamp<double>(F(i.a), 0, UINT32_MAX)));
       }},
      {"v_cvt_f16_f32 v10, v2", "both", As::kHalf, 0, [](const Inputs& i) { return uint64_t{NearestHalf(F(i.a))}; }},
      {"v_cvt_f16_f32 v8, v2\nv_cvt_f32_f16 v10, v8", "both", As::kFloat, 0,
       [](const Inputs& i) { return Bits(static_cast<float>(HalfValue(NearestHalf(F(i.a))))); }},
      {"v_cvt_pkrtz_f16_f32 v10, v2, v4", "9", As::kHalves, 0,
       [](const Inputs& i) {
         auto toward_zero = [](float v) -> uint64_t {
           uint16_t h = NearestHalf(v);
           if (std::isfinite(v) && std::fabs(HalfValue(h)) > std::fabs(v)) --h;
           return h;
         };
         return toward_zero(F(i.a)) | toward_zero(F(i.b)) << 16;
       }},
      {"v_cmp_class_f32 vcc, v2, 4\nv_cndmask_b32 v10, 0, 1, vcc", "9", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{F(i.a) == -INFINITY}; }},
      {"v_cmp_class_f32 s10, v2, 3\nv_cndmask_b32 v10, 0, 1, s10", "11", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{std::isnan(F(i.a))}; }},
      {"v_cmp_nlt_f32 vcc_lo, v2, v4\nv_cndmask_b32 v10, 0, 1, vcc_lo", "11", As::kBits, 0,
       [](const Inputs& i) { return uint64_t{!(F(i.a) < F(i.b))}; }},
      {"v_pk_fma_f32 v[10:11], v[2:3], v[4:5], v[6:7] op_sel:[0,0,0] op_sel_hi:[0,0,0] neg_hi:[1,0,0]", "9", As::kFloat,
       0,
       [](const Inputs& i) {
         return Bits(std::fma(F(i.a), F(i.b), F(i.c))) | Bits(std::fma(-F(i.a), F(i.b), F(i.c))) << 32;
       }},
      // Approximations, within 1 ulp.
      {"v_rcp_f32 v10, v2", "both", As::kFloat, 1, [](const Inputs& i) { return Bits(1.0f / F(i.a)); }},
      {"v_sqrt_f32 v10, |v2|", "both", As::kFloat, 1,
       [](const Inputs& i) { return Bits(std::sqrt(std::fabs(F(i.a)))); }},
      {"v_rsq_f32 v10, |v2|", "both", As::kFloat, 1,
       [](const Inputs& i) { return Bits(static_cast<float>(1 / std::sqrt(static_cast<double>(std::fabs(F(i.a)))))); }},
      {"v_exp_f32 v10, v2", "both", As::kFloat, 1, [](const Inputs& i) { return Bits(std::exp2(F(i.a))); }},
      {"v_log_f32 v10, |v2|", "both", As::kFloat, 1,
       [](const Inputs& i) { return Bits(static_cast<float>(std::log2(static_cast<double>(std::fabs(F(i.a)))))); }},
      {"v_sin_f32 v10, 0.5", "both", As::kFloat, 1, [](const Inputs&) { return Bits(0.0f); }},
      {"v_cos_f32 v10, 0.5", "both", As::kFloat, 1, [](const Inputs&) { return Bits(-1.0f); }},
      {"v_mul_f32 v8, 0.15915494, v2\nv_sin_f32 v10, v8", "both", As::kFloat, 1,
       [](const Inputs& i) {
         const double revolutions = static_cast<double>(F(i.a) * 0.15915494f);
         return std::isfinite(revolutions)
                    ? Bits(static_cast<float>(std::sin(2 * M_PI * (revolutions - std::floor(revolutions)))))
                    : Bits(NAN);
       }},
  };
  for (const Case& c : cases) {
    // The sine near its zeros is compared where the angle is small, so that the argument's own rounding does not
    // matter.
    Check(c, RandomFloats(std::string(c.text).find("v_sin_f32 v10, v8") != std::string::npos ? 0.4 : 40));
  }
}

TEST_P(Arithmetic, HalvesAndMixes) {
  const Case cases[] = {
      {"v_pk_add_f16 v10, v2, v4", "both", As::kHalves, 0,
       [](const Inputs& i) { return ApplyToHalves([](double a, double b) { return a + b; }, i.a, i.b); }},
      {"v_pk_mul_f16 v10, v2, v4 neg_lo:[1,0] neg_hi:[1,0]", "both", As::kHalves, 0,
       [](const Inputs& i) { return ApplyToHalves([](double a, double b) { return -a * b; }, i.a, i.b); }},
      {"v_pk_fma_f16 v10, v2, v4, v4", "both", As::kHalves, 0,
       [](const Inputs& i) {
         return ApplyToHalves(
             [](double a, double b) { return static_cast<double>(static_cast<__float128>(a) * b + b); }, i.a, i.b);
       }},
      {"v_fma_mix_f32 v10, v2, v4, v6 op_sel:[1,0,0] op_sel_hi:[1,1,0]", "both", As::kFloat, 0,
       [](const Inputs& i) {
         return Bits(std::fma(static_cast<float>(HalfValue(i.a >> 16 & 0xffff)),
                              static_cast<float>(HalfValue(i.b & 0xffff)), F(i.c)));
       }},
      {"v_fma_mixhi_f16 v10, v2, v4, 0 op_sel_hi:[1,1,0]", "both", As::kHalves, 0,
       [](const Inputs& i) {
         return static_cast<uint64_t>(NearestHalf(HalfValue(i.a & 0xffff) * HalfValue(i.b & 0xffff))) << 16;
       }},
      {"v_dot2_f32_f16 v10, v2, v4, 0", "both", As::kFloat, 1e6,
       [](const Inputs& i) {
         return Bits(static_cast<float>(HalfValue(i.a & 0xffff) * HalfValue(i.b & 0xffff) +
                                        HalfValue(i.a >> 16 & 0xffff) * HalfValue(i.b >> 16 & 0xffff)));
       }},
  };
  std::mt19937_64 random(9);
  std::vector<Inputs> in(kLanes);
  for (Inputs& i : in) {
    // Numbers around 1, whose sums and products stay in range; c is a float.
    auto half = [&] {
      return static_cast<uint64_t>(NearestHalf((static_cast<double>(random() >> 11) * 0x1p-52 - 1) * 4));
    };
    i = {half() | half() << 16, half() | half() << 16, Bits(static_cast<float>(random() % 100) * 0.37f)};
  }
  for (const Case& c : cases) Check(c, in);
}

TEST_P(Arithmetic, Doubles) {
  const Case cases[] = {
      {"v_fma_f64 v[10:11], v[2:3], -v[4:5], v[6:7]", "both", As::kDouble, 0,
       [](const Inputs& i) { return Bits(std::fma(D(i.a), -D(i.b), D(i.c))); }},
      {"v_max_f64 v[10:11], v[2:3], v[4:5]", "both", As::kDouble, 0,
       [](const Inputs& i) { return Bits(std::fmax(D(i.a), D(i.b))); }},
      {"v_mul_f64 v[10:11], v[2:3], 0.5", "both", As::kDouble, 0, [](const Inputs& i) { return Bits(D(i.a) * 0.5); }},
      {"v_add_f64 v[10:11], v[2:3], 0x40590000", "11", As::kDouble, 0,
       [](const Inputs& i) { return Bits(D(i.a) + 100); }},
      {"v_ldexp_f64 v[10:11], v[2:3], -7", "both", As::kDouble, 0,
       [](const Inputs& i) { return Bits(std::ldexp(D(i.a), -7)); }},
      {"v_floor_f64 v[10:11], v[2:3]", "both", As::kDouble, 0,
       [](const Inputs& i) { return Bits(std::floor(D(i.a))); }},
      {"v_cvt_i32_f64 v10, v[2:3]", "both", As::kBits, 0,
       [](const Inputs& i) { return Low(static_cast<int64_t>(D(i.a))); }},
      {"v_cvt_f32_f64 v10, v[2:3]", "both", As::kFloat, 0,
       [](const Inputs& i) { return Bits(static_cast<float>(D(i.a))); }},
      // The documented error is 2^29 ulp.
      {"v_rcp_f64 v[10:11], v[2:3]", "both", As::kDouble, 0x1p29, [](const Inputs& i) { return Bits(1 / D(i.a)); }},
      {"v_rsq_f64 v[10:11], |v[2:3]|", "both", As::kDouble, 0x1p29,
       [](const Inputs& i) { return Bits(1 / std::sqrt(std::fabs(D(i.a)))); }},
  };
  for (const Case& c : cases) Check(c, RandomDoubles());
}

// Subnormals that the mode flushes: sources and results of f32, not of f64.
TEST_P(Arithmetic, FlushesSubnormalsByTheMode) {
  const std::vector<Inputs> in = {{Bits(1e-40f), Bits(1.0f), 0},
                                  {Bits(-1e-40f), Bits(1.0f), 0},
                                  {Bits(1e-20f), Bits(1e-20f), 0},
                                  {Bits(2.0f), Bits(3.0f), 0}};
  const std::string set = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), ";
  std::vector<uint64_t> out = Run(set + "0\nv_mul_f32 v10, v2, v4", in);
  EXPECT_EQ(out, (std::vector<uint64_t>{Bits(0.0f), Bits(-0.0f), Bits(0.0f), Bits(6.0f)}));
  out = Run(set + "3\nv_mul_f32 v10, v2, v4", in);
  EXPECT_EQ(out, (std::vector<uint64_t>{Bits(1e-40f), Bits(-1e-40f), Bits(1e-20f * 1e-20f), Bits(6.0f)}));
  out = Run(set + "2\nv_mul_f32 v10, v2, v4", in);  // results are kept
  EXPECT_EQ(out, (std::vector<uint64_t>{Bits(0.0f), Bits(-0.0f), Bits(1e-20f * 1e-20f), Bits(6.0f)}));
}

// Quotients that are rounded correctly, over the whole range of exponents: LLVM's sequence of v_div_scale, v_rcp,
// v_fma, v_div_fmas and v_div_fixup.
template <class T>
void CheckDivision(const char* machine, const char* type) {
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const std::string ir = R"(
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
define amdgpu_kernel void @divide(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %o) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %h = mul i32 %g, 256
  %i = add i32 %h, %t
  %pa = getelementptr T, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr T, ptr addrspace(1) %b, i32 %i
  %po = getelementptr T, ptr addrspace(1) %o, i32 %i
  %x = load T, ptr addrspace(1) %pa
  %y = load T, ptr addrspace(1) %pb
  %q = fdiv T %x, %y
  store T %q, ptr addrspace(1) %po
  ret void
}
)";
  auto elf = CompileIr(machine, absl::StrReplaceAll(ir, {{"T,", absl::StrCat(type, ",")},
                                                         {"fdiv T", absl::StrCat("fdiv ", type)},
                                                         {"store T", absl::StrCat("store ", type)}}));
  ASSERT_TRUE(elf.ok()) << elf.status();
  constexpr int kCount = 256 * 40;
  std::mt19937_64 random(11);
  std::vector<T> a(kCount), b(kCount), o(kCount);
  for (int i = 0; i < kCount; ++i) {
    a[i] = std::bit_cast<T>(static_cast<Word>(random()));
    b[i] = std::bit_cast<T>(static_cast<Word>(random()));
    if (i % 5 == 0) b[i] = std::ldexp(std::numeric_limits<T>::max(), -static_cast<int>(random() % 3));
    if (i % 7 == 0) a[i] = std::ldexp(a[i], -static_cast<int>(random() % 300));
    if (i % 11 == 0) b[i] = std::numeric_limits<T>::denorm_min() * static_cast<T>(random() % 1000);
  }
  auto s = RunKernel(*elf, "divide", {kCount / 256}, {256}, Arguments().Add(a.data()).Add(b.data()).Add(o.data()));
  ASSERT_TRUE(s.ok()) << s.status();
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) {
    const T e = a[i] / b[i];
    if (std::isnan(e) ? std::isnan(o[i]) : std::bit_cast<Word>(o[i]) == std::bit_cast<Word>(e)) continue;
    if (++wrong < 10) ADD_FAILURE() << a[i] << " / " << b[i] << " is " << o[i] << " instead of " << e;
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(Arithmetic, DividesFloatsExactly) { CheckDivision<float>(GetParam(), "float"); }
TEST_P(Arithmetic, DividesDoublesExactly) { CheckDivision<double>(GetParam(), "double"); }

INSTANTIATE_TEST_SUITE_P(Machines, Arithmetic, testing::ValuesIn(kMachines),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace backplane::hip::isa
