// Programs that checks run: small, and written so that every plugin that runs anything runs them.
#include "absl/strings/str_replace.h"
#include "conformance/kit/steps.h"

namespace backplane::conformance {

const char kAdd[] = R"(module @add {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
)";

const char kDonate[] = R"(module @donate {
  func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
)";

const char kTwoOutputs[] = R"(module @two {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<2xi32>) -> (tensor<2xi32>, tensor<4xf32>) {
    %0 = stablehlo.add %b, %b : tensor<2xi32>
    %1 = stablehlo.multiply %a, %a : tensor<4xf32>
    return %0, %1 : tensor<2xi32>, tensor<4xf32>
  }
}
)";

const char kConstant[] = R"(module @constant {
  func.func public @main() -> tensor<3xf32> {
    %0 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
)";

const char kMatmul[] = R"(module @matmul {
  func.func public @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
)";

const char kCount[] = R"(module @count {
  func.func public @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %factor = stablehlo.constant dense<1664525> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %s = %zero) : tensor<i32>, tensor<i32> cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %x = stablehlo.multiply %s, %factor : tensor<i32>
      %t = stablehlo.add %x, %j : tensor<i32>
      stablehlo.return %j, %t : tensor<i32>, tensor<i32>
    }
    return %r#1 : tensor<i32>
  }
}
)";

int32_t CountResult(int32_t n) {
  uint32_t s = 0;
  for (int32_t step = 1; step <= n; ++step) s = s * 1664525u + static_cast<uint32_t>(step);
  return static_cast<int32_t>(s);
}

const char kSumRows[] = R"(module @sum_rows {
  func.func public @main(%x: tensor<2x3xf32>) -> tensor<2xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
)";

std::string MakeAddProgram(absl::string_view type, absl::string_view dims) {
  return absl::StrReplaceAll(kAdd, {{"4xf32", absl::StrCat(dims, type)}});
}

std::string PrintIdentityProgram(absl::string_view type) {
  return absl::StrReplaceAll(R"(module @identity {
  func.func public @main(%x: tensor<T>) -> tensor<T> {
    return %x : tensor<T>
  }
}
)",
                             {{"<T>", absl::StrCat("<", type, ">")}});
}

}  // namespace backplane::conformance
