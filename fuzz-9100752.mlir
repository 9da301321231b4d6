module @fuzz_9100752 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x2x11x3xf6E3M2FN> {jax.buffer_donor = true}, %arg1: tensor<2x2x4xf64> {jax.buffer_donor = true}, %arg2: tensor<f6E3M2FN> {jax.buffer_donor = true}, %arg3: tensor<2x11x3xf6E3M2FN>, %arg4: tensor<1x2x4x3xf6E3M2FN> {jax.buffer_donor = true}) -> (tensor<5x14x11x3xf6E3M2FN> {mhlo.layout_mode = "{3,0,2,1}"}, tensor<2x2x4xf64> {mhlo.layout_mode = "{0,2,1}"}, tensor<i32>, tensor<1x2x11x3xi1> {mhlo.layout_mode = "{1,2,0,3}"}, tensor<1x198xf6E3M2FN> {mhlo.layout_mode = "{0,1}"}, tensor<1x2x11x3xf6E3M2FN> {mhlo.layout_mode = "{0,1,3,2}"}) {
    %0 = stablehlo.constant dense<0x29> : tensor<f6E3M2FN>
    %1 = stablehlo.pad %arg0, %0, low = [3, -1, 0, 0], high = [2, 1, 0, 0], interior = [2, 2, 0, 0] : (tensor<1x2x11x3xf6E3M2FN>, tensor<f6E3M2FN>) -> tensor<6x4x11x3xf6E3M2FN>
    %2 = stablehlo.pad %1, %arg2, low = [-1, 1, 0, 0], high = [0, 3, 0, 0], interior = [0, 2, 0, 0] : (tensor<6x4x11x3xf6E3M2FN>, tensor<f6E3M2FN>) -> tensor<5x14x11x3xf6E3M2FN>
    %3 = stablehlo.constant dense<0.0e+00> : tensor<f64>
    %4 = "stablehlo.reduce_window"(%arg1, %3) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [1, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 2, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
      %5 = stablehlo.add %arg5, %arg6 : tensor<f64>
      stablehlo.return %5 : tensor<f64>
    }) : (tensor<2x2x4xf64>, tensor<f64>) -> tensor<2x2x4xf64>
    %6 = stablehlo.constant dense<0x0E> : tensor<f6E3M2FN>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f6E3M2FN>) -> tensor<1x2x11x3xf6E3M2FN>
    %8 = stablehlo.constant dense<0> : tensor<i32>
    %9:4 = stablehlo.while(%iterArg_7 = %8, %iterArg_8 = %arg0, %iterArg_9 = %arg3, %iterArg_10 = %7) : tensor<i32>, tensor<1x2x11x3xf6E3M2FN>, tensor<2x11x3xf6E3M2FN>, tensor<1x2x11x3xf6E3M2FN>
    cond {
      %10 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.compare LT, %iterArg_7, %10, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %11 : tensor<i1>
    } do {
      %12 = stablehlo.constant dense<1> : tensor<i32>
      %13 = stablehlo.add %iterArg_7, %12 : tensor<i32>
      %14 = stablehlo.constant dense<0> : tensor<i32>
      %15 = stablehlo.dynamic_slice %iterArg_8, %iterArg_7, %14, %14, %14, sizes = [1, 2, 11, 3] : (tensor<1x2x11x3xf6E3M2FN>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x11x3xf6E3M2FN>
      %16 = stablehlo.reshape %15 : (tensor<1x2x11x3xf6E3M2FN>) -> tensor<2x11x3xf6E3M2FN>
      %17 = stablehlo.add %iterArg_9, %16 : tensor<2x11x3xf6E3M2FN>
      %18 = stablehlo.reshape %17 : (tensor<2x11x3xf6E3M2FN>) -> tensor<1x2x11x3xf6E3M2FN>
      %19 = stablehlo.dynamic_update_slice %iterArg_10, %18, %iterArg_7, %14, %14, %14 : (tensor<1x2x11x3xf6E3M2FN>, tensor<1x2x11x3xf6E3M2FN>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x11x3xf6E3M2FN>
      stablehlo.return %13, %iterArg_8, %17, %19 : tensor<i32>, tensor<1x2x11x3xf6E3M2FN>, tensor<2x11x3xf6E3M2FN>, tensor<1x2x11x3xf6E3M2FN>
    }
    %20 = stablehlo.convert %9#3 : (tensor<1x2x11x3xf6E3M2FN>) -> tensor<1x2x11x3xi1>
    %21 = stablehlo.concatenate %arg3, %9#2, %arg3, dim = 1 : (tensor<2x11x3xf6E3M2FN>, tensor<2x11x3xf6E3M2FN>, tensor<2x11x3xf6E3M2FN>) -> tensor<2x33x3xf6E3M2FN>
    %22 = stablehlo.reshape %21 : (tensor<2x33x3xf6E3M2FN>) -> tensor<1x198xf6E3M2FN>
    %23 = stablehlo.constant dense<0x00> : tensor<f6E3M2FN>
    %24 = "stablehlo.select_and_scatter"(%9#1, %arg4, %23) <{padding = dense<[[0, 0], [0, 0], [1, 0], [0, 0]]> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 1, 3, 1>, window_strides = array<i64: 1, 1, 3, 1>}> ({
    ^bb0(%arg11: tensor<f6E3M2FN>, %arg12: tensor<f6E3M2FN>):
      %25 = stablehlo.compare GE, %arg11, %arg12, FLOAT : (tensor<f6E3M2FN>, tensor<f6E3M2FN>) -> tensor<i1>
      stablehlo.return %25 : tensor<i1>
    }, {
    ^bb0(%arg13: tensor<f6E3M2FN>, %arg14: tensor<f6E3M2FN>):
      %26 = stablehlo.add %arg13, %arg14 : tensor<f6E3M2FN>
      stablehlo.return %26 : tensor<f6E3M2FN>
    }) : (tensor<1x2x11x3xf6E3M2FN>, tensor<1x2x4x3xf6E3M2FN>, tensor<f6E3M2FN>) -> tensor<1x2x11x3xf6E3M2FN>
    return %2, %4, %9#0, %20, %22, %24 : tensor<5x14x11x3xf6E3M2FN>, tensor<2x2x4xf64>, tensor<i32>, tensor<1x2x11x3xi1>, tensor<1x198xf6E3M2FN>, tensor<1x2x11x3xf6E3M2FN>
  }
}
