module @fuzz_9105944 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<9x8x3x3xf8E4M3FN>, %arg1: tensor<9x8x3x3xbf16> {tf.aliasing_output = 6 : i32}, %arg2: tensor<f64> {jax.buffer_donor = true}, %arg3: tensor<2x8x17xf8E4M3>, %arg4: tensor<2xui64>, %arg5: tensor<9x16xi1> {jax.buffer_donor = true}, %arg6: tensor<9x16xi32>, %arg7: tensor<4x1xi32> {jax.buffer_donor = true}) -> (tensor<9x8x3x3xf8E4M3FN>, tensor<9x8x3x3xf32>, tensor<2x8x17xf8E4M3>, tensor<2xui64>, tensor<9x16xui16>, tensor<9x16xi32>, tensor<9x8x3x3xbf16>) {
    %0:2 = "stablehlo.sort"(%arg0, %arg1) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg8: tensor<f8E4M3FN>, %arg9: tensor<f8E4M3FN>, %arg10: tensor<bf16>, %arg11: tensor<bf16>):
      %1 = stablehlo.compare LT, %arg8, %arg9, FLOAT : (tensor<f8E4M3FN>, tensor<f8E4M3FN>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }) : (tensor<9x8x3x3xf8E4M3FN>, tensor<9x8x3x3xbf16>) -> (tensor<9x8x3x3xf8E4M3FN>, tensor<9x8x3x3xbf16>)
    %2 = stablehlo.constant dense<[[3.7890625e-01, -1.1640625e+00, 9.1835e-41], [-1.875e+00, 5.7617188e-02, 1.1754944e-38], [9.1835e-41, -7.2265625e-01, 1.6308594e-01]]> : tensor<3x3xbf16>
    %3 = stablehlo.dot_general %0#1, %2, contracting_dims = [3] x [0], precision = [DEFAULT, DEFAULT] : (tensor<9x8x3x3xbf16>, tensor<3x3xbf16>) -> tensor<9x8x3x3xf32>
    %4 = stablehlo.constant dense<-6.588859673560101e-01> : tensor<f64>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f64>) -> tensor<2x8x17xf64>
    %6 = stablehlo.tanh %5 : tensor<2x8x17xf64>
    %7 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<2x8x17xf64>
    %8 = stablehlo.multiply %6, %7 : tensor<2x8x17xf64>
    %9 = stablehlo.floor %8 : tensor<2x8x17xf64>
    %10 = stablehlo.subtract %9, %8 : tensor<2x8x17xf64>
    %11 = stablehlo.subtract %10, %5 : tensor<2x8x17xf64>
    %12 = stablehlo.floor %11 : tensor<2x8x17xf64>
    %13 = stablehlo.add %12, %6 : tensor<2x8x17xf64>
    %14 = stablehlo.convert %13 : (tensor<2x8x17xf64>) -> tensor<2x8x17xf8E4M3>
    %15 = stablehlo.add %14, %arg3 : tensor<2x8x17xf8E4M3>
    %16:2 = stablehlo.rng_bit_generator %arg4, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<9x16xui16>)
    %17 = stablehlo.select %arg5, %16#1, %16#1 : tensor<9x16xi1>, tensor<9x16xui16>
    %18 = stablehlo.constant dense<[[6, 3, 2, 7, 8, 7, 0, 2, 6, 6, 8, 5, 5, 6, 4, 6], [0, 6, 2, 8, 5, 8, 0, 8, 6, 2, 5, 1, 0, 6, 2, 1], [0, 4, 2, 2, 3, 4, 3, 0, 0, 7, 3, 5, 8, 4, 1, 5], [1, 7, 1, 3, 3, 6, 6, 2, 1, 5, 4, 3, 2, 1, 8, 4]]> : tensor<4x16xui16>
    %19 = stablehlo.constant dense<[[-881126602, -501917594, -2147483648, 0, -723226976, -1, 938268898, 2067642601, -685721128, 2147483647, -1211758270, 0, -1445998200, -2147483648, -771015228, 2147483647], [912017112, 1001616195, -1714327006, -1509575922, 768393787, -2147483648, 1966052158, 1188703627, 2044029932, -1969718862, 346943800, 828763519, -714032811, 360382965, 2147483647, -631904446], [1678775965, 393695301, -2147483648, 0, 27683517, 479548991, -1133913291, -1102621218, 1924870761, 228927328, 1361100446, 137147254, 1425302557, 2147483647, -1355423462, 2147483647], [1145241161, -48957102, -331198573, -2147483648, -141520301, 987331708, 2147483647, 2147483647, -2147483648, 1202208250, 912480830, 510374014, 1665930026, 0, -1535402223, 163247779]]> : tensor<4x16xi32>
    %20:2 = "stablehlo.scatter"(%17, %arg6, %arg7, %18, %19) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%arg12: tensor<ui16>, %arg13: tensor<i32>, %arg14: tensor<ui16>, %arg15: tensor<i32>):
      %21 = stablehlo.maximum %arg12, %arg14 : tensor<ui16>
      %22 = stablehlo.xor %arg13, %arg15 : tensor<i32>
      stablehlo.return %21, %22 : tensor<ui16>, tensor<i32>
    }) : (tensor<9x16xui16>, tensor<9x16xi32>, tensor<4x1xi32>, tensor<4x16xui16>, tensor<4x16xi32>) -> (tensor<9x16xui16>, tensor<9x16xi32>)
    return %0#0, %3, %15, %16#0, %20#0, %20#1, %arg1 : tensor<9x8x3x3xf8E4M3FN>, tensor<9x8x3x3xf32>, tensor<2x8x17xf8E4M3>, tensor<2xui64>, tensor<9x16xui16>, tensor<9x16xi32>, tensor<9x8x3x3xbf16>
  }
}
