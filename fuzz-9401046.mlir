module @fuzz_9401046 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<9x7xf64>, %arg1: tensor<7xf64>, %arg2: tensor<i32>, %arg3: tensor<i32>, %arg4: tensor<9x6xf64>) -> (tensor<8x8x17x1x1xi1>, tensor<9x7xf64>, tensor<7xf64>, tensor<2x1x17x8xi32>, tensor<9x7xf64>, tensor<8x8x17x1x1xf64>, tensor<8x8x17x1x1xf64>) {
    %0 = stablehlo.constant dense<-0.0e+00> : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<8x8x17x1x1xf64>
    %2 = stablehlo.constant dense<1060511251> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<2x1x17x8xi32>
    %4 = stablehlo.shift_right_arithmetic %3, %3 : tensor<2x1x17x8xi32>
    %5 = stablehlo.constant dense<[-1]> : tensor<1xi32>
    %6 = "stablehlo.scatter"(%arg0, %5, %arg0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [1], index_vector_dim = 0>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
      %7 = stablehlo.maximum %arg5, %arg6 : tensor<f64>
      stablehlo.return %7 : tensor<f64>
    }) : (tensor<9x7xf64>, tensor<1xi32>, tensor<9x7xf64>) -> tensor<9x7xf64>
    %8 = stablehlo.compare LT, %1, %1, FLOAT : (tensor<8x8x17x1x1xf64>, tensor<8x8x17x1x1xf64>) -> tensor<8x8x17x1x1xi1>
    %9 = stablehlo.constant dense<0.0e+00> : tensor<f64>
    %10 = "stablehlo.select_and_scatter"(%arg0, %6, %9) <{padding = dense<[[0, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 1>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg7: tensor<f64>, %arg8: tensor<f64>):
      %11 = stablehlo.compare LE, %arg7, %arg8, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %11 : tensor<i1>
    }, {
    ^bb0(%arg9: tensor<f64>, %arg10: tensor<f64>):
      %12 = stablehlo.add %arg9, %arg10 : tensor<f64>
      stablehlo.return %12 : tensor<f64>
    }) : (tensor<9x7xf64>, tensor<9x7xf64>, tensor<f64>) -> tensor<9x7xf64>
    %13 = stablehlo.reverse %arg1, dims = [] : tensor<7xf64>
    %14:2 = stablehlo.optimization_barrier %arg0, %4 : tensor<9x7xf64>, tensor<2x1x17x8xi32>
    %15 = stablehlo.dynamic_update_slice %14#0, %arg4, %arg2, %arg3 : (tensor<9x7xf64>, tensor<9x6xf64>, tensor<i32>, tensor<i32>) -> tensor<9x7xf64>
    %16 = stablehlo.reshape %1 : tensor<8x8x17x1x1xf64>
    return %8, %10, %13, %14#1, %15, %16, %16 : tensor<8x8x17x1x1xi1>, tensor<9x7xf64>, tensor<7xf64>, tensor<2x1x17x8xi32>, tensor<9x7xf64>, tensor<8x8x17x1x1xf64>, tensor<8x8x17x1x1xf64>
  }
}
