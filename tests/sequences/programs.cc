#include "tests/sequences/programs.h"

#include <cmath>
#include <cstring>

namespace backplane::sequences {
namespace {

using Rows = std::vector<std::vector<const Array*>>;
constexpr PJRT_Buffer_Type kF32 = PJRT_Buffer_Type_F32, kS32 = PJRT_Buffer_Type_S32;

template <typename T, typename F>
Array Zip(const Array& x, const Array& y, F f) {
  Array out = x;
  for (size_t i = 0; i < x.bytes.size() / sizeof(T); ++i) {
    T a, b;
    std::memcpy(&a, &x.bytes[i * sizeof(T)], sizeof(T));
    std::memcpy(&b, &y.bytes[i * sizeof(T)], sizeof(T));
    const T c = f(a, b);
    std::memcpy(&out.bytes[i * sizeof(T)], &c, sizeof(T));
  }
  return out;
}
Array Add(const Array& x, const Array& y) {
  return Zip<float>(x, y, [](float a, float b) { return a + b; });
}
Array Multiply(const Array& x, const Array& y) {
  return Zip<float>(x, y, [](float a, float b) { return a * b; });
}

}  // namespace

size_t ElementBytes(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_U8:
      return 1;
    case PJRT_Buffer_Type_BF16:
      return 2;
    case PJRT_Buffer_Type_S64:
      return 8;
    default:
      return 4;
  }
}

size_t NumElements(absl::Span<const int64_t> dims) {
  size_t n = 1;
  for (const int64_t d : dims) n *= static_cast<size_t>(d);
  return n;
}

bool SameValues(const Array& a, const Array& b) {
  if (!a.SameShape(b) || a.bytes.size() != b.bytes.size()) return false;
  if (a.bytes == b.bytes) return true;
  if (a.type != kF32) return false;
  for (size_t i = 0; i < a.bytes.size(); i += sizeof(float)) {
    float x, y;
    std::memcpy(&x, &a.bytes[i], sizeof(x));
    std::memcpy(&y, &b.bytes[i], sizeof(y));
    if (std::memcmp(&x, &y, sizeof(x)) != 0 && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

const std::vector<Program>& AllPrograms() {
  static const Array f4{kF32, {4}, ""}, s23{kS32, {2, 3}, ""}, large{kF32, {32768}, ""};
  static const std::vector<Program>& programs = *new std::vector<Program>{
      {"add",
       R"(func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
})",
       {f4, f4},
       {f4},
       -1,
       1,
       [](const Rows& r, size_t d) { return std::vector<Array>{Add(*r[d][0], *r[d][1])}; }},
      {"donate",
       R"(func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
})",
       {f4, f4},
       {f4},
       0,
       1,
       [](const Rows& r, size_t d) { return std::vector<Array>{Add(*r[d][0], *r[d][1])}; }},
      {"identity",
       R"(func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
})",
       {f4},
       {f4},
       -1,
       1,
       [](const Rows& r, size_t d) { return std::vector<Array>{*r[d][0]}; }},
      {"two_outputs",
       R"(func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  %1 = stablehlo.multiply %x, %y : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
})",
       {f4, f4},
       {f4, f4},
       -1,
       1,
       [](const Rows& r, size_t d) {
         return std::vector<Array>{Add(*r[d][0], *r[d][1]), Multiply(*r[d][0], *r[d][1])};
       }},
      {"loop",
       R"(func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
   cond {
    %end = stablehlo.constant dense<3> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = stablehlo.add %v, %v : tensor<4xf32>
    stablehlo.return %1, %2 : tensor<i32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
})",
       {f4},
       {f4},
       -1,
       1,
       [](const Rows& r, size_t d) {
         Array v = *r[d][0];
         for (int i = 0; i < 3; ++i) v = Add(v, v);
         return std::vector<Array>{v};
       }},
      {"constant",
       R"(func.func public @main() -> tensor<4xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  return %0 : tensor<4xf32>
})",
       {},
       {f4},
       -1,
       1,
       [](const Rows&, size_t) {
         const float values[] = {1, 2, 3, 4};
         return std::vector<Array>{{kF32, {4}, std::string(reinterpret_cast<const char*>(values), sizeof(values))}};
       }},
      {"integers",
       R"(func.func public @main(%x: tensor<2x3xi32>, %y: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %0 = stablehlo.subtract %x, %y : tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
})",
       {s23, s23},
       {s23},
       -1,
       1,
       [](const Rows& r, size_t d) {
         return std::vector<Array>{Zip<uint32_t>(*r[d][0], *r[d][1], [](uint32_t a, uint32_t b) { return a - b; })};
       }},
      {"large",
       R"(func.func public @main(%x: tensor<32768xf32>) -> tensor<32768xf32> {
  %0 = stablehlo.add %x, %x : tensor<32768xf32>
  return %0 : tensor<32768xf32>
})",
       {large},
       {large},
       -1,
       1,
       [](const Rows& r, size_t d) { return std::vector<Array>{Add(*r[d][0], *r[d][0])}; }},
      {"all_reduce",
       R"(func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%x) ({
   ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
})",
       {f4},
       {f4},
       -1,
       2,
       [](const Rows& r, size_t) { return std::vector<Array>{Add(*r[0][0], *r[1][0])}; }},
  };
  return programs;
}

}  // namespace backplane::sequences
