module @fuzz_9107172 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x2xui4>, %arg1: tensor<i32>, %arg2: tensor<1xf32>, %arg3: tensor<2x2x11x11xui8>) -> (tensor<i32>, tensor<i32>, tensor<8x2xui4>, tensor<8x2xui4>, tensor<2x8x4xf32>, tensor<2x1x11x1xui8>) {
    %0 = stablehlo.constant dense<0> : tensor<ui4>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [0, 1]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg4: tensor<ui4>, %arg5: tensor<ui4>):
      %2 = stablehlo.add %arg4, %arg5 : tensor<ui4>
      stablehlo.return %2 : tensor<ui4>
    }) : (tensor<8x2xui4>, tensor<ui4>) -> tensor<8x2xui4>
    %3 = stablehlo.constant dense<[[[[9.999999e-01, -2.9832056e-02, 9.999999e-01, -1.0690154e+00]], [[-6.048542e-01, 1.8045774e+00, -5.339802e-01, 7.050051e-01]], [[-1.9682225e+00, 1.1754944e-38, 1.0e-45, 9.999999e-01]], [[-1.6046706e-01, -1.1157992e+00, 7.144924e-01, 1.2086807e+00]], [[1.9683713e+00, 0x7F800000, 5.1917547e-01, -1.1452322e+00]], [[-4.9824437e-01, 1.9202802e+00, 1.70635e+00, -4.3830472e-01]], [[0.0e+00, -3.4028235e+38, 4.72967e-01, 1.9833561e-02]], [[-1.487291e+00, -3.4028235e+38, -1.290981e+00, -1.4585758e+00]]], [[[-1.0227847e+00, 8.3257e-01, 9.3630105e-01, 0xFF800000]], [[-1.4388368e+00, -3.4028235e+38, 1.7921298e+00, 0xFF800000]], [[-7.7931434e-01, -0.0e+00, -0.0e+00, 8.386357e-01]], [[3.4028235e+38, 1.5456761e+00, 4.6822912e-01, -4.206095e-01]], [[5.542463e-01, -0.0e+00, 1.6708446e+00, -1.8933351e+00]], [[2.465584e-01, 0xFF800000, 0xFF800000, 4.9927905e-01]], [[2.697741e-01, -1.5467608e+00, 1.0e-45, 3.6456513e-01]], [[-1.269252e+00, 1.1754944e-38, 7.227979e-01, -0.0e+00]]]]> : tensor<2x8x1x4xf32>
    %4 = stablehlo.constant dense<0> : tensor<i32>
    %5:5 = stablehlo.while(%iterArg_6 = %4, %iterArg_7 = %arg1, %iterArg_8 = %arg0, %iterArg_9 = %3, %iterArg_10 = %1) : tensor<i32>, tensor<i32>, tensor<8x2xui4>, tensor<2x8x1x4xf32>, tensor<8x2xui4>
    cond {
      %6 = stablehlo.compare LT, %iterArg_6, %iterArg_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %7 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg_6, %7 : tensor<i32>
      %9 = stablehlo.minimum %iterArg_8, %iterArg_10 : tensor<8x2xui4>
      stablehlo.return %8, %iterArg_7, %iterArg_10, %iterArg_9, %9 : tensor<i32>, tensor<i32>, tensor<8x2xui4>, tensor<2x8x1x4xf32>, tensor<8x2xui4>
    }
    %10 = stablehlo.dot_general %5#3, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x1x4xf32>, tensor<1xf32>) -> tensor<2x8x4xf32>
    %11 = stablehlo.slice %arg3 [0:2, 1:2, 0:11, 1:2] : (tensor<2x2x11x11xui8>) -> tensor<2x1x11x1xui8>
    return %5#0, %5#1, %5#2, %5#4, %10, %11 : tensor<i32>, tensor<i32>, tensor<8x2xui4>, tensor<8x2xui4>, tensor<2x8x4xf32>, tensor<2x1x11x1xui8>
  }
}
