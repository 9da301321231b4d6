module @fuzz_9100370 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<9xf8E5M2FNUZ>, %arg1: tensor<9x4xf32>, %arg2: tensor<4xf6E2M3FN>, %arg3: tensor<i32>, %arg4: tensor<8x1x4x5xf32>, %arg5: tensor<33x2x2xcomplex<f32>>) -> (tensor<9xf8E5M2FNUZ>, tensor<f6E2M3FN>, tensor<1x9xf32>, tensor<8x1x4x5xf32>, tensor<33x2x6x2x2xcomplex<f32>>, tensor<7x1x4xi1>, tensor<i32>) {
    %0 = stablehlo.reduce_precision %arg0, format = e4m11 : tensor<9xf8E5M2FNUZ>
    %1 = stablehlo.constant dense<[[1.0443405e+00, 6.3177025e-01, 1.6397839e+00, 1.7431282e-01, -5.271771e-01, -1.7743715e+00, -1.2050964e+00, 9.999999e-01, -1.9752808e+00, -3.4028235e+38, -2.444891e-02, -1.0749145e+00]]> : tensor<1x12xf32>
    %2 = stablehlo.convolution(%1, %arg1) dim_numbers = [b, f]x[o, i]->[b, f], window = {stride = [], pad = [], lhs_dilate = [], rhs_dilate = [], reverse = []} {batch_group_count = 1 : i64, feature_group_count = 3 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x12xf32>, tensor<9x4xf32>) -> tensor<1x9xf32>
    %3 = stablehlo.constant dense<0> : tensor<i32>
    %4:2 = stablehlo.while(%iterArg_6 = %3, %iterArg_7 = %arg1) : tensor<i32>, tensor<9x4xf32>
    cond {
      %5 = stablehlo.constant dense<1> : tensor<i32>
      %6 = stablehlo.compare LT, %iterArg_6, %5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %7 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg_6, %7 : tensor<i32>
      stablehlo.return %8, %iterArg_7 : tensor<i32>, tensor<9x4xf32>
    }
    %9 = stablehlo.constant dense<0x3F> : tensor<f6E2M3FN>
    %10 = stablehlo.reduce(%arg2 init: %9) across dimensions = [0] : (tensor<4xf6E2M3FN>, tensor<f6E2M3FN>) -> tensor<f6E2M3FN>
     reducer(%arg8: tensor<f6E2M3FN>, %arg9: tensor<f6E2M3FN>)  {
      %11 = stablehlo.reshape %arg8 : (tensor<f6E2M3FN>) -> tensor<1xf6E2M3FN>
      %12 = stablehlo.reshape %arg9 : (tensor<f6E2M3FN>) -> tensor<1xf6E2M3FN>
      %13 = stablehlo.concatenate %11, %12, dim = 0 : (tensor<1xf6E2M3FN>, tensor<1xf6E2M3FN>) -> tensor<2xf6E2M3FN>
      %14 = stablehlo.reverse %13, dims = [0] : tensor<2xf6E2M3FN>
      %15 = stablehlo.maximum %13, %14 : tensor<2xf6E2M3FN>
      %16 = stablehlo.constant dense<1> : tensor<i32>
      %17 = stablehlo.dynamic_slice %15, %16, sizes = [1] : (tensor<2xf6E2M3FN>, tensor<i32>) -> tensor<1xf6E2M3FN>
      %18 = stablehlo.reshape %17 : (tensor<1xf6E2M3FN>) -> tensor<f6E2M3FN>
      stablehlo.return %18 : tensor<f6E2M3FN>
    }
    %19 = stablehlo.constant dense<(1.1754944e-38,-4.0e-45)> : tensor<complex<f32>>
    %20 = stablehlo.broadcast_in_dim %19, dims = [] : (tensor<complex<f32>>) -> tensor<4x33x6xcomplex<f32>>
    %21 = stablehlo.constant dense<true> : tensor<i1>
    %22 = stablehlo.select %21, %20, %20 : tensor<i1>, tensor<4x33x6xcomplex<f32>>
    %23 = stablehlo.slice %22 [2:4, 0:33, 0:6] : (tensor<4x33x6xcomplex<f32>>) -> tensor<2x33x6xcomplex<f32>>
    %24:2 = "stablehlo.case"(%arg3) ({
      %25 = stablehlo.constant dense<[[-6.673962e-01, -9.946059e-01, 7.0202345e-01, 1.5343122e+00, 4.6720514e-01, -1.3673959e+00, 1.9567199e+00, -9.3494457e-01, -1.446791e+00]]> : tensor<1x9xf32>
      stablehlo.return %25, %arg4 : tensor<1x9xf32>, tensor<8x1x4x5xf32>
    }) : (tensor<i32>) -> (tensor<1x9xf32>, tensor<8x1x4x5xf32>)
    %26 = stablehlo.dot_general %23, %arg5, batching_dims = [1] x [0], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<2x33x6xcomplex<f32>>, tensor<33x2x2xcomplex<f32>>) -> tensor<33x2x6x2x2xcomplex<f32>>
    %27 = stablehlo.constant dense<[[true, true], [false, false], [false, true], [true, false], [true, true], [true, true], [false, true], [true, true], [false, true], [true, true], [false, true]]> : tensor<11x2xi1>
    %28 = stablehlo.constant dense<[[3], [1], [6], [2]]> : tensor<4x1xi32>
    %29 = "stablehlo.gather"(%27, %28) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 7, 1>}> : (tensor<11x2xi1>, tensor<4x1xi32>) -> tensor<7x1x4xi1>
    return %0, %10, %24#0, %24#1, %26, %29, %4#0 : tensor<9xf8E5M2FNUZ>, tensor<f6E2M3FN>, tensor<1x9xf32>, tensor<8x1x4x5xf32>, tensor<33x2x6x2x2xcomplex<f32>>, tensor<7x1x4xi1>, tensor<i32>
  }
}
