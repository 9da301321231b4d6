module @fuzz_9108380 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xui2>, %arg1: tensor<8x9xf32>, %arg2: tensor<4x3x1xf64>, %arg3: tensor<2x1xi32>, %arg4: tensor<2x6xbf16>) -> (tensor<2xui2>, tensor<8x9xbf16>, tensor<i32>, tensor<bf16>, tensor<8x1xf32>, tensor<4x3x1xf64>, tensor<2x6xbf16>, tensor<2xui2>) {
    %0 = stablehlo.constant dense<-9.84375e-01> : tensor<bf16>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<bf16>) -> tensor<8x9xbf16>
    %2 = stablehlo.subtract %1, %1 : tensor<8x9xbf16>
    %3 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg5: tensor<ui2>, %arg6: tensor<ui2>):
      %4 = stablehlo.compare GT, %arg6, %arg5, UNSIGNED : (tensor<ui2>, tensor<ui2>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    }) : (tensor<2xui2>) -> tensor<2xui2>
    %5 = stablehlo.constant dense<0x7F80> : tensor<bf16>
    %6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %7:2 = stablehlo.reduce(%2 init: %5), (%arg1 init: %6) across dimensions = [0, 1] : (tensor<8x9xbf16>, tensor<8x9xf32>, tensor<bf16>, tensor<f32>) -> (tensor<bf16>, tensor<f32>)
     reducer(%arg7: tensor<bf16>, %arg8: tensor<bf16>) (%arg9: tensor<f32>, %arg10: tensor<f32>)  {
      %8 = stablehlo.minimum %arg7, %arg8 : tensor<bf16>
      %9 = stablehlo.maximum %arg9, %arg10 : tensor<f32>
      stablehlo.return %8, %9 : tensor<bf16>, tensor<f32>
    }
    %10 = "stablehlo.scatter"(%2, %arg3, %arg4) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%arg11: tensor<bf16>, %arg12: tensor<bf16>):
      %11 = stablehlo.minimum %arg11, %arg12 : tensor<bf16>
      stablehlo.return %11 : tensor<bf16>
    }) : (tensor<8x9xbf16>, tensor<2x1xi32>, tensor<2x6xbf16>) -> tensor<8x9xbf16>
    %12 = stablehlo.constant dense<[[1.6098243e+00], [9.2559767e-01], [1.6680044e+00], [-4.0e-45], [-8.171785e-01], [5.9240603e-01], [0x7FC00000], [0xFF800000]]> : tensor<8x1xf32>
    %13 = stablehlo.constant dense<0> : tensor<i32>
    %14:3 = stablehlo.while(%iterArg_13 = %13, %iterArg_14 = %7#0, %iterArg_15 = %12) : tensor<i32>, tensor<bf16>, tensor<8x1xf32>
    cond {
      %15 = stablehlo.constant dense<0> : tensor<i32>
      %16 = stablehlo.compare LT, %iterArg_13, %15, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %16 : tensor<i1>
    } do {
      %17 = stablehlo.constant dense<1> : tensor<i32>
      %18 = stablehlo.add %iterArg_13, %17 : tensor<i32>
      %19 = stablehlo.constant dense<0x7FC0> : tensor<bf16>
      %20 = stablehlo.constant dense<[[0.0e+00], [-3.4028235e+38], [-5.797753e-01], [9.999999e-01], [9.999999e-01], [1.1063362e+00], [0x7FC00000], [-1.2437088e+00]]> : tensor<8x1xf32>
      stablehlo.return %18, %19, %20 : tensor<i32>, tensor<bf16>, tensor<8x1xf32>
    }
    %21 = stablehlo.constant dense<0.0e+00> : tensor<f64>
    %22 = "stablehlo.select_and_scatter"(%arg2, %arg2, %21) <{padding = dense<[[0, 0], [0, 0], [0, 0]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 1, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg16: tensor<f64>, %arg17: tensor<f64>):
      %23 = stablehlo.compare LE, %arg16, %arg17, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %23 : tensor<i1>
    }, {
    ^bb0(%arg18: tensor<f64>, %arg19: tensor<f64>):
      %24 = stablehlo.add %arg18, %arg19 : tensor<f64>
      stablehlo.return %24 : tensor<f64>
    }) : (tensor<4x3x1xf64>, tensor<4x3x1xf64>, tensor<f64>) -> tensor<4x3x1xf64>
    return %3, %10, %14#0, %14#1, %14#2, %22, %arg4, %arg0 : tensor<2xui2>, tensor<8x9xbf16>, tensor<i32>, tensor<bf16>, tensor<8x1xf32>, tensor<4x3x1xf64>, tensor<2x6xbf16>, tensor<2xui2>
  }
}
