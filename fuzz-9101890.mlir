module @fuzz_9101890 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<17x17xf8E4M3FN> {mhlo.layout_mode = "{0,1}"}, %arg1: tensor<17x17x5xi32>, %arg2: tensor<i32>, %arg3: tensor<9x3x16x1xf32> {mhlo.layout_mode = "{0,2,3,1}"}) -> (tensor<17x17xi32>, tensor<5x17xi32>, tensor<17x17xf8E4M3FN>, tensor<9x3x16x1xf32>, tensor<6x1xi32>, tensor<6x1xi32>, tensor<2x1xi32>, tensor<9x3x16x1xf32>) {
    %0 = stablehlo.convert %arg0 : (tensor<17x17xf8E4M3FN>) -> tensor<17x17xi32>
    %1 = stablehlo.imag %arg0 : tensor<17x17xf8E4M3FN>
    %2 = stablehlo.set_dimension_size %arg1, %arg2, dim = 0 : (tensor<17x17x5xi32>, tensor<i32>) -> tensor<?x17x5xi32, #stablehlo.bounds<17, ?, ?>>
    %3 = stablehlo.negate %2 : tensor<?x17x5xi32, #stablehlo.bounds<17, ?, ?>>
    %4 = stablehlo.transpose %3, dims = [2, 1, 0] : (tensor<?x17x5xi32, #stablehlo.bounds<17, ?, ?>>) -> tensor<5x17x?xi32, #stablehlo.bounds<?, ?, 17>>
    %5 = stablehlo.reverse %4, dims = [1] : tensor<5x17x?xi32, #stablehlo.bounds<?, ?, 17>>
    %6 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.reduce(%5 init: %6) applies stablehlo.xor across dimensions = [2] : (tensor<5x17x?xi32, #stablehlo.bounds<?, ?, 17>>, tensor<i32>) -> tensor<5x17xi32>
    %8 = stablehlo.minimum %7, %7 : tensor<5x17xi32>
    %9 = stablehlo.round_nearest_afz %1 : tensor<17x17xf8E4M3FN>
    %10 = stablehlo.constant dense<6.2746733e-01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<9x3x16x1xf32>
    %12 = stablehlo.multiply %11, %arg3 : tensor<9x3x16x1xf32>
    %13 = stablehlo.constant dense<[[190, 89, 103, 1, 113, 48, 127, 0, 154]]> : tensor<1x9xui8>
    %14 = stablehlo.constant dense<[[116, 127, 128], [222, 92, 128], [224, 17, 127], [147, 127, 234], [0, 147, 128], [113, 64, 127]]> : tensor<6x3xui8>
    %15 = stablehlo.convolution(%13, %14) dim_numbers = [b, f]x[o, i]->[f, b], window = {stride = [], pad = [], lhs_dilate = [], rhs_dilate = [], reverse = []} {batch_group_count = 1 : i64, feature_group_count = 3 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x9xui8>, tensor<6x3xui8>) -> tensor<6x1xi32>
    %16 = stablehlo.divide %15, %15 : tensor<6x1xi32>
    %17 = stablehlo.constant dense<2147483647> : tensor<i32>
    %18 = stablehlo.reduce(%16 init: %17) applies stablehlo.minimum across dimensions = [] : (tensor<6x1xi32>, tensor<i32>) -> tensor<6x1xi32>
    %19 = stablehlo.constant dense<[[0], [1287506827], [-190794207], [0], [-1], [-2147483648]]> : tensor<6x1xi32>
    %20 = stablehlo.divide %19, %16 : tensor<6x1xi32>
    %21 = stablehlo.subtract %20, %19 : tensor<6x1xi32>
    %22 = stablehlo.constant dense<8> : tensor<ui32>
    %23 = stablehlo.constant dense<2> : tensor<ui32>
    %24 = stablehlo.dynamic_slice %15, %22, %23, sizes = [2, 1] : (tensor<6x1xi32>, tensor<ui32>, tensor<ui32>) -> tensor<2x1xi32>
    return %0, %8, %9, %12, %18, %21, %24, %12 : tensor<17x17xi32>, tensor<5x17xi32>, tensor<17x17xf8E4M3FN>, tensor<9x3x16x1xf32>, tensor<6x1xi32>, tensor<6x1xi32>, tensor<2x1xi32>, tensor<9x3x16x1xf32>
  }
}
