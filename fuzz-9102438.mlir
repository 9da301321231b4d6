module @fuzz_9102438 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6x4xi8>, %arg1: tensor<6x4xi8>, %arg2: tensor<i1>, %arg3: tensor<5x2x6x6xi32>, %arg4: tensor<2x5xf32>, %arg5: tensor<6x1xcomplex<f64>>) -> (tensor<6x4xi8>, tensor<1x6x6x5xf6E2M3FN>, tensor<1x6x6x5xf6E2M3FN>, tensor<1x6x6x5xf6E2M3FN>, tensor<6x1xcomplex<f64>>, tensor<5xf6E3M2FN>) {
    %0 = stablehlo.xor %arg1, %arg0 : tensor<6x4xi8>
    %1:2 = "stablehlo.if"(%arg2) ({
      %2 = stablehlo.constant dense<[[43, 107, -15, -12], [-34, -51, -128, 127], [85, -9, 26, -128], [-60, -49, 68, -51], [46, -43, 10, -112], [-76, 63, -31, 8]]> : tensor<6x4xi8>
      %3 = stablehlo.constant dense<[0x0F, 0x0E, 0x09, 0x14, 0x0C, 0x06]> : tensor<6xf6E3M2FN>
      stablehlo.return %2, %3 : tensor<6x4xi8>, tensor<6xf6E3M2FN>
    }, {
      %4 = stablehlo.constant dense<[[-1, 1, 1, 5], [-5, 0, 0, 3], [2, -4, 4, 3], [1, 3, 0, -4], [3, 5, 4, 4], [0, 1, 6, -3]]> : tensor<6x4xi8>
      %5 = stablehlo.constant dense<[0x32, 0x34, 0x14, 0x2C, 0x2E, 0x14]> : tensor<6xf6E3M2FN>
      stablehlo.return %4, %5 : tensor<6x4xi8>, tensor<6xf6E3M2FN>
    }) : (tensor<i1>) -> (tensor<6x4xi8>, tensor<6xf6E3M2FN>)
    %6 = func.call @shared_function(%arg5) : (tensor<6x1xcomplex<f64>>) -> tensor<1x6x6x5xf6E2M3FN>
    %7 = func.call @shared_function(%arg5) : (tensor<6x1xcomplex<f64>>) -> tensor<1x6x6x5xf6E2M3FN>
    %8 = func.call @shared_function(%arg5) : (tensor<6x1xcomplex<f64>>) -> tensor<1x6x6x5xf6E2M3FN>
    %9 = stablehlo.constant dense<(0.0e+00,0.0e+00)> : tensor<complex<f64>>
    %10 = stablehlo.reduce(%arg5 init: %9) applies stablehlo.add across dimensions = [] : (tensor<6x1xcomplex<f64>>, tensor<complex<f64>>) -> tensor<6x1xcomplex<f64>>
    %11 = stablehlo.iota dim = 0 : tensor<6xi32>
    %12:2 = "stablehlo.sort"(%1#1, %11) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg6: tensor<f6E3M2FN>, %arg7: tensor<f6E3M2FN>, %arg8: tensor<i32>, %arg9: tensor<i32>):
      %13 = stablehlo.compare LT, %arg6, %arg7, TOTALORDER : (tensor<f6E3M2FN>, tensor<f6E3M2FN>) -> tensor<i1>
      stablehlo.return %13 : tensor<i1>
    }) : (tensor<6xf6E3M2FN>, tensor<6xi32>) -> (tensor<6xf6E3M2FN>, tensor<6xi32>)
    %14 = stablehlo.slice %12#0 [0:5] : (tensor<6xf6E3M2FN>) -> tensor<5xf6E3M2FN>
    %15 = stablehlo.slice %12#1 [0:5] : (tensor<6xi32>) -> tensor<5xi32>
    return %0, %6, %7, %8, %10, %14 : tensor<6x4xi8>, tensor<1x6x6x5xf6E2M3FN>, tensor<1x6x6x5xf6E2M3FN>, tensor<1x6x6x5xf6E2M3FN>, tensor<6x1xcomplex<f64>>, tensor<5xf6E3M2FN>
  }
  func.func private @shared_function(%arg0: tensor<6x1xcomplex<f64>>) -> (tensor<1x6x6x5xf6E2M3FN>) {
    %0 = stablehlo.constant dense<0x04> : tensor<f6E2M3FN>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f6E2M3FN>) -> tensor<1x6x6x5xf6E2M3FN>
    return %1 : tensor<1x6x6x5xf6E2M3FN>
  }
}
