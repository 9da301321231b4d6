module @fuzz_9107782 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<11x9x60x2x3xf64>, %arg1: tensor<1088xbf16>, %arg2: tensor<bf16>, %arg3: tensor<7xui8>, %arg4: tensor<7xui8>, %arg5: tensor<5xi32>, %arg6: tensor<i32>) -> (tensor<11x9x60x2x3xf64>, tensor<1088xf32>, tensor<7xui8>, tensor<bf16>, tensor<i32>, tensor<i32>, tensor<5xi32>) {
    %0 = stablehlo.sign %arg0 : tensor<11x9x60x2x3xf64>
    %1 = stablehlo.concatenate %arg1, dim = 0 : (tensor<1088xbf16>) -> tensor<1088xbf16>
    %2 = stablehlo.dot_general %1, %arg2, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<1088xbf16>, tensor<bf16>) -> tensor<1088xf32>
    %3 = stablehlo.shift_right_arithmetic %arg3, %arg4 : tensor<7xui8>
    %4 = stablehlo.reshape %arg2 : tensor<bf16>
    %5 = stablehlo.constant dense<[-972264740, -916933372, -357814674, -1724004347, 1793595457]> : tensor<5xi32>
    %6 = stablehlo.constant dense<0> : tensor<i32>
    %7:4 = stablehlo.while(%iterArg_7 = %6, %iterArg_8 = %arg5, %iterArg_9 = %arg6, %iterArg_10 = %5) : tensor<i32>, tensor<5xi32>, tensor<i32>, tensor<5xi32>
    cond {
      %8 = stablehlo.constant dense<5> : tensor<i32>
      %9 = stablehlo.compare LT, %iterArg_7, %8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    } do {
      %10 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg_7, %10 : tensor<i32>
      %12 = stablehlo.dynamic_slice %iterArg_8, %iterArg_7, sizes = [1] : (tensor<5xi32>, tensor<i32>) -> tensor<1xi32>
      %13 = stablehlo.reshape %12 : (tensor<1xi32>) -> tensor<i32>
      %14 = stablehlo.subtract %iterArg_9, %13 : tensor<i32>
      %15 = stablehlo.reshape %14 : (tensor<i32>) -> tensor<1xi32>
      %16 = stablehlo.dynamic_update_slice %iterArg_10, %15, %iterArg_7 : (tensor<5xi32>, tensor<1xi32>, tensor<i32>) -> tensor<5xi32>
      stablehlo.return %11, %iterArg_8, %14, %16 : tensor<i32>, tensor<5xi32>, tensor<i32>, tensor<5xi32>
    }
    return %0, %2, %3, %4, %7#0, %7#2, %arg5 : tensor<11x9x60x2x3xf64>, tensor<1088xf32>, tensor<7xui8>, tensor<bf16>, tensor<i32>, tensor<i32>, tensor<5xi32>
  }
}
