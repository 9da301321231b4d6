module @fuzz_9102108 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5xf64> {jax.buffer_donor = true}, %arg1: tensor<5xi1>, %arg2: tensor<4x33x1x1xf64>, %arg3: tensor<4x5x7xf64>, %arg4: tensor<f64> {jax.buffer_donor = true}, %arg5: tensor<2xui64>) -> (tensor<complex<f64>>, tensor<4x33x1x1xf8E4M3FNUZ>, tensor<4x6x33x2x1xf64>, tensor<3x2x8xui16>, tensor<5x1x6x4x2xui64>, tensor<4x5x7xf64>) {
    %0 = stablehlo.complex %arg0, %arg0 : tensor<5xcomplex<f64>>
    %1 = stablehlo.select %arg1, %0, %0 : tensor<5xi1>, tensor<5xcomplex<f64>>
    %2 = stablehlo.constant dense<(0.0e+00,0.0e+00)> : tensor<complex<f64>>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0] : (tensor<5xcomplex<f64>>, tensor<complex<f64>>) -> tensor<complex<f64>>
    %4 = stablehlo.cholesky %arg2, lower = true : tensor<4x33x1x1xf64>
    %5 = stablehlo.minimum %4, %4 : tensor<4x33x1x1xf64>
    %6 = stablehlo.exponential %5 : tensor<4x33x1x1xf64>
    %7 = stablehlo.add %6, %6 : tensor<4x33x1x1xf64>
    %8 = stablehlo.divide %7, %6 : tensor<4x33x1x1xf64>
    %9 = stablehlo.convert %8 : (tensor<4x33x1x1xf64>) -> tensor<4x33x1x1xf8E4M3FNUZ>
    %10 = stablehlo.maximum %5, %5 : tensor<4x33x1x1xf64>
    %11 = stablehlo.minimum %10, %5 : tensor<4x33x1x1xf64>
    %12 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<f64>) -> tensor<4x33x1x1xf64>
    %13 = stablehlo.add %11, %12 : tensor<4x33x1x1xf64>
    %14 = stablehlo.reshape %13 : (tensor<4x33x1x1xf64>) -> tensor<4x33x1xf64>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 2, 4] : (tensor<4x33x1xf64>) -> tensor<4x6x33x2x1xf64>
    %16:2 = stablehlo.rng_bit_generator %arg5, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x2x8xui16>)
    %17 = stablehlo.broadcast_in_dim %16#0, dims = [4] : (tensor<2xui64>) -> tensor<5x1x6x4x2xui64>
    %18 = stablehlo.constant dense<> : tensor<4x0xi32>
    %19 = stablehlo.constant dense<[[[7.831071421570686e-01, -1.5e-323], [-1.5e-323, 6.298219318152625e-01], [5.0e-324, 1.4112618538371047e-01], [1.2825162038318583e+00, -2.518195987444498e-01]], [[-7.08594219743627e-01, -1.5348433931176437e+00], [-1.7976931348623157e+308, -6.760038832026427e-01], [-4.1376321773532254e-01, -1.086194118799634e+00], [-1.7365798495183435e+00, 6.035985612745254e-01]], [[-0.0e+00, 1.5168538115292454e+00], [-9.756270392146966e-01, 5.898566298041397e-01], [-2.986833834263809e-01, 0x7FF0000000000000], [2.2250738585072014e-308, -8.438199373842945e-01]], [[-1.8873090014947982e+00, 1.2986128195707307e+00], [-3.046530831444425e-01, 0x7FF0000000000000], [1.243757406299784e+00, 1.8993449210642708e+00], [2.2250738585072014e-308, 5.0e-324]]]> : tensor<4x4x2xf64>
    %20 = "stablehlo.scatter"(%arg3, %18, %19) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], input_batching_dims = [0], scatter_indices_batching_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%arg6: tensor<f64>, %arg7: tensor<f64>):
      %21 = stablehlo.add %arg6, %arg7 : tensor<f64>
      stablehlo.return %21 : tensor<f64>
    }) : (tensor<4x5x7xf64>, tensor<4x0xi32>, tensor<4x4x2xf64>) -> tensor<4x5x7xf64>
    return %3, %9, %15, %16#1, %17, %20 : tensor<complex<f64>>, tensor<4x33x1x1xf8E4M3FNUZ>, tensor<4x6x33x2x1xf64>, tensor<3x2x8xui16>, tensor<5x1x6x4x2xui64>, tensor<4x5x7xf64>
  }
}
