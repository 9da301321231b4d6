module @fuzz_9106844 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x4x17xf8E8M0FNU>, %arg1: tensor<8x4x17xf8E8M0FNU>, %arg2: tensor<16x2x3x3xui8>, %arg3: tensor<5x11x3x2xcomplex<f64>>, %arg4: tensor<7xf8E5M2FNUZ>, %arg5: tensor<i64>, %arg6: tensor<i64>) -> (tensor<8x4x17xf8E8M0FNU>, tensor<16x1x2x3x3xui8>, tensor<16x1x2x3x3xui8>, tensor<5x11x3x2xcomplex<f64>>, tensor<7xf8E5M2FNUZ>, tensor<5x9x2x2xf64>, tensor<5x9x2x2xf64>, tensor<16x2x3x3xui8>) {
    %0 = stablehlo.divide %arg1, %arg0 : tensor<8x4x17xf8E8M0FNU>
    %1 = stablehlo.reshape %arg2 : (tensor<16x2x3x3xui8>) -> tensor<16x1x2x3x3xui8>
    %2 = stablehlo.divide %1, %1 : tensor<16x1x2x3x3xui8>
    %3 = stablehlo.reshape %1 : tensor<16x1x2x3x3xui8>
    %4 = stablehlo.divide %1, %3 : tensor<16x1x2x3x3xui8>
    %5 = stablehlo.real %arg3 : (tensor<5x11x3x2xcomplex<f64>>) -> tensor<5x11x3x2xf64>
    %6 = stablehlo.imag %arg3 : (tensor<5x11x3x2xcomplex<f64>>) -> tensor<5x11x3x2xf64>
    %7 = stablehlo.complex %6, %5 : tensor<5x11x3x2xcomplex<f64>>
    %8 = stablehlo.subtract %arg4, %arg4 : tensor<7xf8E5M2FNUZ>
    %9 = stablehlo.constant dense<4> : tensor<i64>
    %10 = stablehlo.constant dense<0> : tensor<i64>
    %11 = stablehlo.dynamic_slice %5, %9, %arg5, %arg6, %10, sizes = [5, 9, 2, 2] : (tensor<5x11x3x2xf64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<5x9x2x2xf64>
    return %0, %2, %4, %7, %8, %11, %11, %arg2 : tensor<8x4x17xf8E8M0FNU>, tensor<16x1x2x3x3xui8>, tensor<16x1x2x3x3xui8>, tensor<5x11x3x2xcomplex<f64>>, tensor<7xf8E5M2FNUZ>, tensor<5x9x2x2xf64>, tensor<5x9x2x2xf64>, tensor<16x2x3x3xui8>
  }
}
