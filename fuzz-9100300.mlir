module @fuzz_9100300 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x7x2xbf16>, %arg1: tensor<3x7x2xbf16> {jax.buffer_donor = true}, %arg2: tensor<1xi32> {jax.buffer_donor = true}) -> (tensor<21x1x1x2xbf16> {mhlo.layout_mode = "{1,3,2,0}"}, tensor<3x7x2xbf16> {mhlo.layout_mode = "{1,2,0}"}, tensor<3x11xbf16> {mhlo.layout_mode = "{0,1}"}, tensor<3xbf16>, tensor<3xbf16>, tensor<16x33xi32> {mhlo.layout_mode = "{0,1}"}, tensor<21x1x1x2xbf16> {mhlo.layout_mode = "{2,3,1,0}"}) {
    %0 = stablehlo.constant dense<[[[1.1621094e-01, 1.2890625e+00], [-1.3671875e+00, 1.96875e+00], [1.1328125e+00, -1.421875e+00], [1.71875e+00, -6.3671875e-01], [-3.0078125e-01, -9.53125e-01], [9.8046875e-01, 1.7421875e+00], [2.8320312e-01, 8.046875e-01]], [[-8.0078125e-02, 1.421875e+00], [-7.65625e-01, -2.265625e-01], [1.1171875e+00, -6.5234375e-01], [6.0546875e-01, 1.0e+00], [-3.6621094e-02, -1.0009766e-02], [3.7109375e-01, 1.9921875e+00], [-6.640625e-01, 3.3203125e-01]], [[7.93457e-03, -1.046875e+00], [1.6113281e-02, -2.9492188e-01], [7.890625e-01, 7.0703125e-01], [-9.3359375e-01, 3.3203125e-01], [-8.9453125e-01, 8.984375e-02], [1.7421875e+00, 2.65625e-01], [1.328125e+00, -1.296875e+00]]]> : tensor<3x7x2xbf16>
    %1 = stablehlo.constant dense<[[[true, true], [false, true], [true, false], [true, false], [true, true], [false, true], [true, false]], [[true, false], [true, true], [true, true], [true, true], [false, false], [false, true], [true, true]], [[true, true], [false, true], [false, false], [true, true], [true, true], [true, true], [true, false]]]> : tensor<3x7x2xi1>
    %2 = stablehlo.select %1, %arg0, %0 : tensor<3x7x2xi1>, tensor<3x7x2xbf16>
    %3 = stablehlo.reshape %2 : (tensor<3x7x2xbf16>) -> tensor<21x1x1x2xbf16>
    %4 = stablehlo.multiply %arg1, %2 : tensor<3x7x2xbf16>
    %5 = stablehlo.reshape %arg1 : (tensor<3x7x2xbf16>) -> tensor<3x14xbf16>
    %6 = stablehlo.cbrt %4 : tensor<3x7x2xbf16>
    %7 = "stablehlo.gather"(%5, %arg2) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0], index_vector_dim = 0>, indices_are_sorted = false, slice_sizes = array<i64: 3, 11>}> : (tensor<3x14xbf16>, tensor<1xi32>) -> tensor<3x11xbf16>
    %8 = stablehlo.constant dense<0.0e+00> : tensor<bf16>
    %9 = stablehlo.reduce(%2 init: %8) applies stablehlo.add across dimensions = [1, 2] : (tensor<3x7x2xbf16>, tensor<bf16>) -> tensor<3xbf16>
    %10 = stablehlo.constant dense<2147483647> : tensor<i32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<i32>) -> tensor<16x33xi32>
    %12:3 = stablehlo.optimization_barrier %9, %9, %11 : tensor<3xbf16>, tensor<3xbf16>, tensor<16x33xi32>
    return %3, %6, %7, %12#0, %12#1, %12#2, %3 : tensor<21x1x1x2xbf16>, tensor<3x7x2xbf16>, tensor<3x11xbf16>, tensor<3xbf16>, tensor<3xbf16>, tensor<16x33xi32>, tensor<21x1x1x2xbf16>
  }
}
