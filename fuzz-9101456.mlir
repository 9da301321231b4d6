module @fuzz_9101456 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<11x6xui4>, %arg1: tensor<11x6xi32>, %arg2: tensor<3x11xf32>, %arg3: tensor<3x11xf32>) -> (tensor<17x8xf32>, tensor<11x6xui4>, tensor<11x6xi32>, tensor<11x3xf32>, tensor<8x3xf32>) {
    %0 = stablehlo.constant dense<-1.3703613e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<17x8xf32>
    %2:2 = "stablehlo.sort"(%arg0, %arg1) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg4: tensor<ui4>, %arg5: tensor<ui4>, %arg6: tensor<i32>, %arg7: tensor<i32>):
      %3 = stablehlo.compare GT, %arg5, %arg4, UNSIGNED : (tensor<ui4>, tensor<ui4>) -> tensor<i1>
      %4 = stablehlo.compare EQ, %arg4, %arg5, UNSIGNED : (tensor<ui4>, tensor<ui4>) -> tensor<i1>
      %5 = stablehlo.compare GT, %arg6, %arg7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %6 = stablehlo.select %4, %5, %3 : tensor<i1>, tensor<i1>
      stablehlo.return %6 : tensor<i1>
    }) : (tensor<11x6xui4>, tensor<11x6xi32>) -> (tensor<11x6xui4>, tensor<11x6xi32>)
    %7 = stablehlo.divide %arg2, %arg3 : tensor<3x11xf32>
    %8 = stablehlo.transpose %7, dims = [1, 0] : (tensor<3x11xf32>) -> tensor<11x3xf32>
    %9 = stablehlo.negate %8 : tensor<11x3xf32>
    %10 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %11 = "stablehlo.reduce_window"(%8, %10) <{base_dilations = array<i64: 2, 1>, padding = dense<[[0, 1], [1, 1]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 3, 1>}> ({
    ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
      %12 = stablehlo.add %arg8, %arg9 : tensor<f32>
      stablehlo.return %12 : tensor<f32>
    }) : (tensor<11x3xf32>, tensor<f32>) -> tensor<8x3xf32>
    return %1, %2#0, %2#1, %9, %11 : tensor<17x8xf32>, tensor<11x6xui4>, tensor<11x6xi32>, tensor<11x3xf32>, tensor<8x3xf32>
  }
}
