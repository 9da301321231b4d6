module @fuzz_9108228 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x9x8x2xf32>, %arg1: tensor<3x3x7x2xf32>, %arg2: tensor<1x3xui16>, %arg3: tensor<i32>, %arg4: tensor<33x33xf16>, %arg5: tensor<33x33xf16>, %arg6: tensor<i32>, %arg7: tensor<9x5x5xf32>) -> (tensor<8x9x8x2xf32>, tensor<8x9x8x2xf32>, tensor<3x3x1x7x2xf32>, tensor<0xui16>, tensor<33x33xf16>, tensor<9x1x5xf32>, tensor<1x8xui2>, tensor<0xui16>) {
    %0 = stablehlo.reduce_precision %arg0, format = e6m1 : tensor<8x9x8x2xf32>
    %1 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %2 = "stablehlo.select_and_scatter"(%arg0, %arg1, %1) <{padding = dense<[[1, 0], [0, 0], [0, 0], [0, 0]]> : tensor<4x2xi64>, window_dimensions = array<i64: 3, 1, 2, 1>, window_strides = array<i64: 3, 3, 1, 1>}> ({
    ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
      %3 = stablehlo.compare GE, %arg8, %arg9, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    }, {
    ^bb0(%arg10: tensor<f32>, %arg11: tensor<f32>):
      %4 = stablehlo.add %arg10, %arg11 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<8x9x8x2xf32>, tensor<3x3x7x2xf32>, tensor<f32>) -> tensor<8x9x8x2xf32>
    %5 = stablehlo.set_dimension_size %arg2, %arg3, dim = 1 : (tensor<1x3xui16>, tensor<i32>) -> tensor<1x?xui16, #stablehlo.bounds<?, 3>>
    %6 = stablehlo.not %5 : tensor<1x?xui16, #stablehlo.bounds<?, 3>>
    %7 = "stablehlo.sort"(%6) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg12: tensor<ui16>, %arg13: tensor<ui16>):
      %8 = stablehlo.compare LT, %arg12, %arg13, UNSIGNED : (tensor<ui16>, tensor<ui16>) -> tensor<i1>
      stablehlo.return %8 : tensor<i1>
    }) : (tensor<1x?xui16, #stablehlo.bounds<?, 3>>) -> tensor<1x?xui16, #stablehlo.bounds<?, 3>>
    %9 = stablehlo.and %7, %7 : tensor<1x?xui16, #stablehlo.bounds<?, 3>>
    %10 = stablehlo.constant dense<0> : tensor<ui16>
    %11 = stablehlo.reduce(%9 init: %10) applies stablehlo.add across dimensions = [1] : (tensor<1x?xui16, #stablehlo.bounds<?, 3>>, tensor<ui16>) -> tensor<1xui16>
    %12 = stablehlo.bitcast_convert %11 : (tensor<1xui16>) -> tensor<1x8xui2>
    %13 = stablehlo.composite "fuzz.callee" %arg4, %arg1, %12 {decomposition = @callee} : (tensor<33x33xf16>, tensor<3x3x7x2xf32>, tensor<1x8xui2>) -> tensor<3x3x1x7x2xf32>
    %14 = stablehlo.slice %11 [0:0:2] : (tensor<1xui16>) -> tensor<0xui16>
    %15 = stablehlo.constant dense<23> : tensor<i32>
    %16 = stablehlo.constant dense<0x3876> : tensor<f16>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<f16>) -> tensor<16x14xf16>
    %18 = stablehlo.dynamic_update_slice %arg5, %17, %15, %arg6 : (tensor<33x33xf16>, tensor<16x14xf16>, tensor<i32>, tensor<i32>) -> tensor<33x33xf16>
    %19 = stablehlo.constant dense<[[[1.8614397e+00, -1.8328924e+00, 1.7321706e+00, -1.9185607e+00, 0.0e+00]], [[-1.8927764e+00, -7.398644e-02, -0.0e+00, -1.2405119e+00, -1.8136894e+00]], [[0.0e+00, -1.0118787e+00, -1.0955236e+00, -5.564697e-01, 9.1451937e-01]], [[-1.5798413e+00, 2.0958112e-01, 7.664654e-01, -7.3828185e-01, -1.5464904e+00]], [[-3.4028235e+38, 8.1988555e-01, 7.241749e-01, 1.2083324e+00, -1.0007373e+00]], [[8.936722e-01, 1.1754944e-38, -5.7924545e-01, 0x7F800000, -4.0e-45]], [[-9.5983875e-01, 8.453338e-02, 0xFF800000, -6.406971e-02, -1.0478973e+00]], [[-1.4910483e+00, 1.0099374e+00, 1.5324123e+00, -0.0e+00, -1.6629567e+00]], [[9.999999e-01, -1.9021448e+00, 1.7403598e+00, 0.0e+00, 9.999999e-01]]]> : tensor<9x1x5xf32>
    %20 = "stablehlo.triangular_solve"(%arg7, %19) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = true}> : (tensor<9x5x5xf32>, tensor<9x1x5xf32>) -> tensor<9x1x5xf32>
    return %0, %2, %13, %14, %18, %20, %12, %14 : tensor<8x9x8x2xf32>, tensor<8x9x8x2xf32>, tensor<3x3x1x7x2xf32>, tensor<0xui16>, tensor<33x33xf16>, tensor<9x1x5xf32>, tensor<1x8xui2>, tensor<0xui16>
  }
  func.func private @callee(%arg0: tensor<33x33xf16>, %arg1: tensor<3x3x7x2xf32>, %arg2: tensor<1x8xui2>) -> (tensor<3x3x1x7x2xf32>) {
    %0 = stablehlo.log_plus_one %arg1 : tensor<3x3x7x2xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 3, 4] : (tensor<3x3x7x2xf32>) -> tensor<3x3x1x7x2xf32>
    return %1 : tensor<3x3x1x7x2xf32>
  }
}
