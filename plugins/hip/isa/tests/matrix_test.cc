// Matrix instructions: WMMA of gfx1100 and MFMA of gfx942, on small integers, whose products and sums are exact in all
// types. The positions of elements in registers are written down here by shape, as the ISA manuals show them.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/hip/isa/test_support/kernels.h"

namespace backplane::hip::isa {
namespace {

// The bits of a small integer as an element.
enum class Kind { kF16, kBf16, kF32, kF64, kI8, kI4, kFp8, kBf8 };
int BitsOfKind(Kind k) {
  switch (k) {
    case Kind::kF16:
    case Kind::kBf16:
      return 16;
    case Kind::kF32:
      return 32;
    case Kind::kF64:
      return 64;
    case Kind::kI4:
      return 4;
    default:
      return 8;
  }
}
// A float format by its bits of mantissa, its bias and its width.
uint64_t FloatBits(double v, int mantissa, int bias, int bits) {
  if (v == 0) return 0;
  int e = 0;
  const double m = std::frexp(std::fabs(v), &e);  // in [0.5, 1)
  const uint64_t fraction = static_cast<uint64_t>(std::ldexp(2 * m - 1, mantissa));
  return fraction | static_cast<uint64_t>(e - 1 + bias) << mantissa | (v < 0 ? 1ull << (bits - 1) : 0);
}
uint64_t Encode(Kind k, int v) {
  switch (k) {
    case Kind::kF16:
      return FloatBits(v, 10, 15, 16);
    case Kind::kBf16:
      return FloatBits(v, 7, 127, 16);
    case Kind::kF32:
      return FloatBits(v, 23, 127, 32);
    case Kind::kF64:
      return FloatBits(v, 52, 1023, 64);
    case Kind::kFp8:
      return FloatBits(v, 3, 8, 8);
    case Kind::kBf8:
      return FloatBits(v, 2, 16, 8);
    case Kind::kI8:
      return static_cast<uint8_t>(v);
    case Kind::kI4:
      return static_cast<uint8_t>(v) & 15;
  }
  return 0;
}

// The registers of all lanes, lane after lane, as the kernel loads and stores them.
class Registers {
 public:
  Registers(int lanes, int bytes) : bytes_(bytes), data_(static_cast<size_t>(lanes) * bytes) {}
  void Put(int lane, int element, int bits, uint64_t v) {
    for (int b = 0; b < bits; ++b) {
      const int at = element * bits + b;
      uint8_t& byte = data_[static_cast<size_t>(lane) * bytes_ + at / 8];
      byte = static_cast<uint8_t>((byte & ~(1 << at % 8)) | (v >> b & 1) << (at % 8));
    }
  }
  uint64_t Get(int lane, int element, int bits) const {
    uint64_t v = 0;
    for (int b = 0; b < bits; ++b) {
      const int at = element * bits + b;
      v |= static_cast<uint64_t>(data_[static_cast<size_t>(lane) * bytes_ + at / 8] >> (at % 8) & 1) << b;
    }
    return v;
  }
  uint8_t* data() { return data_.data(); }

 private:
  int bytes_;
  std::vector<uint8_t> data_;
};

// %d from %a, %b and %c, which lie in memory for each lane.
std::string KernelIr(const std::string& factor_a, const std::string& factor_b, const std::string& result,
                     const std::string& call, const std::string& declaration) {
  return absl::StrCat("declare i32 @llvm.amdgcn.workitem.id.x()\n", declaration, R"(
define amdgpu_kernel void @m(ptr addrspace(1) %pa, ptr addrspace(1) %pb, ptr addrspace(1) %pc) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %qa = getelementptr )",
                      factor_a, R"(, ptr addrspace(1) %pa, i32 %t
  %qb = getelementptr )",
                      factor_b, R"(, ptr addrspace(1) %pb, i32 %t
  %qc = getelementptr )",
                      result, R"(, ptr addrspace(1) %pc, i32 %t
  %a = load )",
                      factor_a, ", ptr addrspace(1) %qa, align 4\n  %b = load ", factor_b,
                      ", ptr addrspace(1) %qb, align 4\n  %c = load ", result,
                      ", ptr addrspace(1) %qc, align 4\n  %d = call ", result, " ", call, "\n  store ", result,
                      " %d, ptr addrspace(1) %qc, align 4\n  ret void\n}\n",
                      "attributes #0 = { \"amdgpu-flat-work-group-size\"=\"1,64\" }\n");
}

int Small(int i, int j, int salt) { return (i * 5 + j * 3 + salt * 7 + i * j) % 7 - 3; }

struct Slot {
  int lane, element;
};
struct Mfma {
  const char* intrinsic;
  const char* mnemonic;
  const char* factor;  // IR type
  const char* result;
  Kind kind_a, kind_b, kind_result;
  int side, depth, blocks;
};

// Where A has row i (B: column i) at depth k; D has row i and column j. `per_lane`: a lane's values along the depth.
Slot FactorSlot(const Mfma& m, int block, int i, int k) {
  if (m.blocks > 1 && m.kind_a != Kind::kF64) return {block * m.side + i, k};
  if (m.blocks > 1) return {k * 16 + block * 4 + i, 0};  // f64, four 4 x 4
  const int per_lane = m.side * m.depth / 64;
  return {k / per_lane * m.side + i, k % per_lane};
}
Slot ResultSlot(const Mfma& m, int block, int i, int j) {
  if (m.kind_result == Kind::kF64) return m.side == 16 ? Slot{i % 4 * 16 + j, i / 4} : Slot{i * 16 + block * 4 + j, 0};
  if (m.side == 4) return {block * 4 + j, i};
  if (m.side == 16) return {i / 4 * 16 + j, block * 4 + i % 4};
  return {i / 4 % 2 * 32 + j, block * 16 + i / 8 * 4 + i % 4};
}

constexpr Mfma kMfma[] = {
    {"mfma.f32.32x32x1f32", "v_mfma_f32_32x32x1_2b_f32", "float", "<32 x float>", Kind::kF32, Kind::kF32, Kind::kF32,
     32, 1, 2},
    {"mfma.f32.16x16x1f32", "v_mfma_f32_16x16x1_4b_f32", "float", "<16 x float>", Kind::kF32, Kind::kF32, Kind::kF32,
     16, 1, 4},
    {"mfma.f32.4x4x1f32", "v_mfma_f32_4x4x1_16b_f32", "float", "<4 x float>", Kind::kF32, Kind::kF32, Kind::kF32, 4, 1,
     16},
    {"mfma.f32.32x32x2f32", "v_mfma_f32_32x32x2_f32", "float", "<16 x float>", Kind::kF32, Kind::kF32, Kind::kF32, 32,
     2, 1},
    {"mfma.f32.16x16x4f32", "v_mfma_f32_16x16x4_f32", "float", "<4 x float>", Kind::kF32, Kind::kF32, Kind::kF32, 16, 4,
     1},
    {"mfma.f32.32x32x4.xf32", "v_mfma_f32_32x32x4_xf32", "<2 x float>", "<16 x float>", Kind::kF32, Kind::kF32,
     Kind::kF32, 32, 4, 1},
    {"mfma.f32.16x16x8.xf32", "v_mfma_f32_16x16x8_xf32", "<2 x float>", "<4 x float>", Kind::kF32, Kind::kF32,
     Kind::kF32, 16, 8, 1},
    {"mfma.f32.32x32x4f16", "v_mfma_f32_32x32x4_2b_f16", "<4 x half>", "<32 x float>", Kind::kF16, Kind::kF16,
     Kind::kF32, 32, 4, 2},
    {"mfma.f32.16x16x4f16", "v_mfma_f32_16x16x4_4b_f16", "<4 x half>", "<16 x float>", Kind::kF16, Kind::kF16,
     Kind::kF32, 16, 4, 4},
    {"mfma.f32.4x4x4f16", "v_mfma_f32_4x4x4_16b_f16", "<4 x half>", "<4 x float>", Kind::kF16, Kind::kF16, Kind::kF32,
     4, 4, 16},
    {"mfma.f32.32x32x8f16", "v_mfma_f32_32x32x8_f16", "<4 x half>", "<16 x float>", Kind::kF16, Kind::kF16, Kind::kF32,
     32, 8, 1},
    {"mfma.f32.16x16x16f16", "v_mfma_f32_16x16x16_f16", "<4 x half>", "<4 x float>", Kind::kF16, Kind::kF16, Kind::kF32,
     16, 16, 1},
    {"mfma.f32.32x32x4bf16.1k", "v_mfma_f32_32x32x4_2b_bf16", "<4 x i16>", "<32 x float>", Kind::kBf16, Kind::kBf16,
     Kind::kF32, 32, 4, 2},
    {"mfma.f32.16x16x4bf16.1k", "v_mfma_f32_16x16x4_4b_bf16", "<4 x i16>", "<16 x float>", Kind::kBf16, Kind::kBf16,
     Kind::kF32, 16, 4, 4},
    {"mfma.f32.4x4x4bf16.1k", "v_mfma_f32_4x4x4_16b_bf16", "<4 x i16>", "<4 x float>", Kind::kBf16, Kind::kBf16,
     Kind::kF32, 4, 4, 16},
    {"mfma.f32.32x32x8bf16.1k", "v_mfma_f32_32x32x8_bf16", "<4 x i16>", "<16 x float>", Kind::kBf16, Kind::kBf16,
     Kind::kF32, 32, 8, 1},
    {"mfma.f32.16x16x16bf16.1k", "v_mfma_f32_16x16x16_bf16", "<4 x i16>", "<4 x float>", Kind::kBf16, Kind::kBf16,
     Kind::kF32, 16, 16, 1},
    {"mfma.i32.32x32x4i8", "v_mfma_i32_32x32x4_2b_i8", "i32", "<32 x i32>", Kind::kI8, Kind::kI8, Kind::kI8, 32, 4, 2},
    {"mfma.i32.16x16x4i8", "v_mfma_i32_16x16x4_4b_i8", "i32", "<16 x i32>", Kind::kI8, Kind::kI8, Kind::kI8, 16, 4, 4},
    {"mfma.i32.4x4x4i8", "v_mfma_i32_4x4x4_16b_i8", "i32", "<4 x i32>", Kind::kI8, Kind::kI8, Kind::kI8, 4, 4, 16},
    {"mfma.i32.32x32x16.i8", "v_mfma_i32_32x32x16_i8", "i64", "<16 x i32>", Kind::kI8, Kind::kI8, Kind::kI8, 32, 16, 1},
    {"mfma.i32.16x16x32.i8", "v_mfma_i32_16x16x32_i8", "i64", "<4 x i32>", Kind::kI8, Kind::kI8, Kind::kI8, 16, 32, 1},
    {"mfma.f32.16x16x32.fp8.fp8", "v_mfma_f32_16x16x32_fp8_fp8", "i64", "<4 x float>", Kind::kFp8, Kind::kFp8,
     Kind::kF32, 16, 32, 1},
    {"mfma.f32.16x16x32.fp8.bf8", "v_mfma_f32_16x16x32_fp8_bf8", "i64", "<4 x float>", Kind::kFp8, Kind::kBf8,
     Kind::kF32, 16, 32, 1},
    {"mfma.f32.16x16x32.bf8.fp8", "v_mfma_f32_16x16x32_bf8_fp8", "i64", "<4 x float>", Kind::kBf8, Kind::kFp8,
     Kind::kF32, 16, 32, 1},
    {"mfma.f32.16x16x32.bf8.bf8", "v_mfma_f32_16x16x32_bf8_bf8", "i64", "<4 x float>", Kind::kBf8, Kind::kBf8,
     Kind::kF32, 16, 32, 1},
    {"mfma.f32.32x32x16.fp8.fp8", "v_mfma_f32_32x32x16_fp8_fp8", "i64", "<16 x float>", Kind::kFp8, Kind::kFp8,
     Kind::kF32, 32, 16, 1},
    {"mfma.f32.32x32x16.fp8.bf8", "v_mfma_f32_32x32x16_fp8_bf8", "i64", "<16 x float>", Kind::kFp8, Kind::kBf8,
     Kind::kF32, 32, 16, 1},
    {"mfma.f32.32x32x16.bf8.fp8", "v_mfma_f32_32x32x16_bf8_fp8", "i64", "<16 x float>", Kind::kBf8, Kind::kFp8,
     Kind::kF32, 32, 16, 1},
    {"mfma.f32.32x32x16.bf8.bf8", "v_mfma_f32_32x32x16_bf8_bf8", "i64", "<16 x float>", Kind::kBf8, Kind::kBf8,
     Kind::kF32, 32, 16, 1},
    {"mfma.f64.16x16x4f64", "v_mfma_f64_16x16x4_f64", "double", "<4 x double>", Kind::kF64, Kind::kF64, Kind::kF64, 16,
     4, 1},
    {"mfma.f64.4x4x4f64", "v_mfma_f64_4x4x4_4b_f64", "double", "double", Kind::kF64, Kind::kF64, Kind::kF64, 4, 4, 4},
};

TEST(Mfma, MultipliesExactly) {
  for (const Mfma& m : kMfma) {
    SCOPED_TRACE(m.mnemonic);
    const std::string arguments =
        absl::StrCat("(", m.factor, " %a, ", m.factor, " %b, ", m.result, " %c, i32 0, i32 0, i32 0)");
    const std::string types =
        absl::StrCat("(", m.factor, ", ", m.factor, ", ", m.result, ", i32 immarg, i32 immarg, i32 immarg)");
    auto elf = CompileIr("gfx942",
                         KernelIr(m.factor, m.factor, m.result, absl::StrCat("@llvm.amdgcn.", m.intrinsic, arguments),
                                  absl::StrCat("declare ", m.result, " @llvm.amdgcn.", m.intrinsic, types)));
    ASSERT_TRUE(elf.ok()) << elf.status();
    const int bits_a = BitsOfKind(m.kind_a), bits_b = BitsOfKind(m.kind_b);
    const bool integers = m.kind_result == Kind::kI8;
    const int bits_d = integers ? 32 : BitsOfKind(m.kind_result);
    const int factor_bytes = m.side * m.depth * m.blocks / 64 * bits_a / 8;
    Registers a(64, factor_bytes), b(64, factor_bytes), d(64, m.side * m.side * m.blocks / 64 * bits_d / 8);
    auto encode_result = [&](int v) { return integers ? static_cast<uint32_t>(v) : Encode(m.kind_result, v); };
    for (int block = 0; block < m.blocks; ++block) {
      for (int i = 0; i < m.side; ++i) {
        for (int k = 0; k < m.depth; ++k) {
          const Slot p = FactorSlot(m, block, i, k);
          a.Put(p.lane, p.element, bits_a, Encode(m.kind_a, Small(i, k, block)));
          b.Put(p.lane, p.element, bits_b, Encode(m.kind_b, Small(k, i, block + 3)));
        }
        for (int j = 0; j < m.side; ++j) {
          const Slot p = ResultSlot(m, block, i, j);
          d.Put(p.lane, p.element, bits_d, encode_result(Small(j, i, block + 5)));
        }
      }
    }
    auto s = RunKernel(*elf, "m", {1}, {64}, Arguments().Add(a.data()).Add(b.data()).Add(d.data()));
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->matrix, 1);
    EXPECT_EQ(s->by_mnemonic[m.mnemonic], 1);
    for (int block = 0; block < m.blocks; ++block) {
      for (int i = 0; i < m.side; ++i) {
        for (int j = 0; j < m.side; ++j) {
          int e = Small(j, i, block + 5);
          for (int k = 0; k < m.depth; ++k) e += Small(i, k, block) * Small(k, j, block + 3);
          const Slot p = ResultSlot(m, block, i, j);
          ASSERT_EQ(d.Get(p.lane, p.element, bits_d), encode_result(e)) << block << ": " << i << ", " << j;
        }
      }
    }
  }
}

struct Wmma {
  const char* intrinsic;
  const char* mnemonic;
  const char* factor;
  const char* result;
  Kind kind, kind_result;
};
constexpr Wmma kWmma[] = {
    {"wmma.f32.16x16x16.f16.v8f32.v16f16", "v_wmma_f32_16x16x16_f16", "<16 x half>", "<8 x float>", Kind::kF16,
     Kind::kF32},
    {"wmma.f32.16x16x16.bf16.v8f32.v16i16", "v_wmma_f32_16x16x16_bf16", "<16 x i16>", "<8 x float>", Kind::kBf16,
     Kind::kF32},
    {"wmma.f16.16x16x16.f16.v16f16.v16f16", "v_wmma_f16_16x16x16_f16", "<16 x half>", "<16 x half>", Kind::kF16,
     Kind::kF16},
    {"wmma.bf16.16x16x16.bf16.v16i16.v16i16", "v_wmma_bf16_16x16x16_bf16", "<16 x i16>", "<16 x i16>", Kind::kBf16,
     Kind::kBf16},
    {"wmma.i32.16x16x16.iu8.v8i32.v4i32", "v_wmma_i32_16x16x16_iu8", "<4 x i32>", "<8 x i32>", Kind::kI8, Kind::kI8},
    {"wmma.i32.16x16x16.iu4.v8i32.v2i32", "v_wmma_i32_16x16x16_iu4", "<2 x i32>", "<8 x i32>", Kind::kI4, Kind::kI4},
};

// `upper`: a 16-bit result in the upper halves of registers. `broken`: one lane's copy of a factor differs.
void CheckWmma(const Wmma& w, bool upper, bool signed_a, bool broken) {
  const bool integers = w.kind == Kind::kI8 || w.kind == Kind::kI4;
  const bool halves = !integers && BitsOfKind(w.kind_result) == 16;
  std::string arguments, types;
  if (integers) {
    arguments =
        absl::StrCat("(i1 ", signed_a, ", ", w.factor, " %a, i1 1, ", w.factor, " %b, ", w.result, " %c, i1 0)");
    types = absl::StrCat("(i1 immarg, ", w.factor, ", i1 immarg, ", w.factor, ", ", w.result, ", i1 immarg)");
  } else {
    arguments = absl::StrCat("(", w.factor, " %a, ", w.factor, " %b, ", w.result, " %c",
                             halves ? absl::StrCat(", i1 ", upper) : "", ")");
    types = absl::StrCat("(", w.factor, ", ", w.factor, ", ", w.result, halves ? ", i1 immarg)" : ")");
  }
  auto elf =
      CompileIr("gfx1100", KernelIr(w.factor, w.factor, w.result, absl::StrCat("@llvm.amdgcn.", w.intrinsic, arguments),
                                    absl::StrCat("declare ", w.result, " @llvm.amdgcn.", w.intrinsic, types)));
  ASSERT_TRUE(elf.ok()) << elf.status();
  const int bits = BitsOfKind(w.kind);
  Registers a(32, 16 * bits / 8), b(32, 16 * bits / 8), d(32, 32);
  auto value_a = [&](int i, int k) { return integers && !signed_a ? Small(i, k, 1) + 3 : Small(i, k, 1); };
  for (int lane = 0; lane < 32; ++lane) {
    for (int k = 0; k < 16; ++k) {
      a.Put(lane, k, bits, Encode(w.kind, value_a(lane % 16, k)));
      b.Put(lane, k, bits, Encode(w.kind, Small(k, lane % 16, 2)));
    }
  }
  if (broken) b.Put(20, 3, bits, Encode(w.kind, 3 + Small(3, 4, 2)) ^ 1);
  // Register i / 2 has row i; halves count in elements of 16 bits.
  auto put = [&](int i, int j, int v) {
    const int lane = i % 2 * 16 + j;
    if (halves) {
      d.Put(lane, i / 2 * 2 + upper, 16, Encode(w.kind_result, v));
      d.Put(lane, i / 2 * 2 + !upper, 16, 0x1234);
    } else {
      d.Put(lane, i / 2, 32, integers ? static_cast<uint32_t>(v) : Encode(Kind::kF32, v));
    }
  };
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) put(i, j, Small(i, j, 4));
  }
  auto s = RunKernel(*elf, "m", {1}, {32}, Arguments().Add(a.data()).Add(b.data()).Add(d.data()));
  if (broken) {
    EXPECT_EQ(s.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(s.status().message(), testing::HasSubstr("lanes 4 and 20"));
    return;
  }
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->by_mnemonic[w.mnemonic], 1);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      int e = Small(i, j, 4);
      for (int k = 0; k < 16; ++k) e += value_a(i, k) * Small(k, j, 2);
      const int lane = i % 2 * 16 + j;
      if (halves) {
        ASSERT_EQ(d.Get(lane, i / 2 * 2 + upper, 16), Encode(w.kind_result, e)) << i << ", " << j;
        ASSERT_EQ(d.Get(lane, i / 2 * 2 + !upper, 16), 0x1234u) << i << ", " << j;
      } else {
        ASSERT_EQ(d.Get(lane, i / 2, 32), integers ? static_cast<uint32_t>(e) : Encode(Kind::kF32, e))
            << i << ", " << j;
      }
    }
  }
}

TEST(Wmma, MultipliesExactly) {
  for (const Wmma& w : kWmma) {
    SCOPED_TRACE(w.mnemonic);
    CheckWmma(w, false, true, false);
    CheckWmma(w, true, false, false);
  }
}

TEST(Wmma, FactorsThatAreNotRepeatedAreSeen) {
  for (const Wmma& w : kWmma) {
    SCOPED_TRACE(w.mnemonic);
    CheckWmma(w, false, true, true);
  }
}

}  // namespace
}  // namespace backplane::hip::isa
