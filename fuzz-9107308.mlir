module @fuzz_9107308 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<i64>, %arg1: tensor<4x1x6xf64>, %arg2: tensor<6x5xcomplex<f64>>, %arg3: tensor<i64>, %arg4: tensor<2xf32>, %arg5: tensor<2xf32>, %arg6: tensor<3x1xi32>) -> (tensor<4x1x6xf64>, tensor<6x5xcomplex<f64>>, tensor<i64>, tensor<1x1x4x3x2xcomplex<f32>>, tensor<2x3xf32>, tensor<2xf32>) {
    %0 = stablehlo.constant dense<0> : tensor<i64>
    %1:4 = stablehlo.while(%iterArg_7 = %0, %iterArg_8 = %arg1, %iterArg_9 = %arg2, %iterArg_10 = %arg0) : tensor<i64>, tensor<4x1x6xf64>, tensor<6x5xcomplex<f64>>, tensor<i64>
    cond {
      %2 = stablehlo.compare LT, %iterArg_7, %iterArg_10, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %3 = stablehlo.constant dense<0> : tensor<i32>
      %4:4 = stablehlo.while(%iterArg_11 = %3, %iterArg_12 = %iterArg_9, %iterArg_13 = %iterArg_10, %iterArg_14 = %iterArg_9) : tensor<i32>, tensor<6x5xcomplex<f64>>, tensor<i64>, tensor<6x5xcomplex<f64>>
      cond {
        %5 = stablehlo.constant dense<4> : tensor<i32>
        %6 = stablehlo.compare LT, %iterArg_11, %5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %6 : tensor<i1>
      } do {
        %7 = stablehlo.constant dense<1> : tensor<i32>
        %8 = stablehlo.add %iterArg_11, %7 : tensor<i32>
        stablehlo.return %8, %iterArg_14, %iterArg_13, %iterArg_14 : tensor<i32>, tensor<6x5xcomplex<f64>>, tensor<i64>, tensor<6x5xcomplex<f64>>
      }
      %9 = stablehlo.constant dense<1> : tensor<i64>
      %10 = stablehlo.add %iterArg_7, %9 : tensor<i64>
      stablehlo.return %10, %iterArg_8, %4#3, %iterArg_10 : tensor<i64>, tensor<4x1x6xf64>, tensor<6x5xcomplex<f64>>, tensor<i64>
    }
    %11 = func.call @shared_function(%arg3) : (tensor<i64>) -> tensor<1x1x4x3x2xcomplex<f32>>
    %12:2 = stablehlo.optimization_barrier %arg3, %11 : tensor<i64>, tensor<1x1x4x3x2xcomplex<f32>>
    %13 = func.call @shared_function(%12#0) : (tensor<i64>) -> tensor<1x1x4x3x2xcomplex<f32>>
    %14 = stablehlo.add %12#1, %13 : tensor<1x1x4x3x2xcomplex<f32>>
    %15 = stablehlo.multiply %arg4, %arg5 : tensor<2xf32>
    %16 = "stablehlo.gather"(%arg5, %arg6) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 2>}> : (tensor<2xf32>, tensor<3x1xi32>) -> tensor<2x3xf32>
    %17 = stablehlo.slice %15 [0:2] : (tensor<2xf32>) -> tensor<2xf32>
    return %1#1, %1#2, %1#3, %14, %16, %17 : tensor<4x1x6xf64>, tensor<6x5xcomplex<f64>>, tensor<i64>, tensor<1x1x4x3x2xcomplex<f32>>, tensor<2x3xf32>, tensor<2xf32>
  }
  func.func private @shared_function(%arg0: tensor<i64>) -> (tensor<1x1x4x3x2xcomplex<f32>>) {
    %0 = stablehlo.constant dense<[[[(0x7F800000,-1.2249019e+00), (7.046613e-01,-5.0722563e-01), (0x7FC00000,-1.8063693e+00)], [(-7.3673064e-01,-4.0e-45), (8.7595385e-01,9.999999e-01), (1.0e-45,1.8940766e+00)], [(-6.7305076e-01,-1.79185e+00), (5.510132e-02,-7.188677e-01), (3.4028235e+38,-9.741401e-02)], [(2.2167591e-02,0.0e+00), (-1.3432485e+00,-1.4747273e+00), (1.7383312e+00,-3.894749e-01)]]]> : tensor<1x4x3xcomplex<f32>>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 2, 3] : (tensor<1x4x3xcomplex<f32>>) -> tensor<1x1x4x3x2xcomplex<f32>>
    return %1 : tensor<1x1x4x3x2xcomplex<f32>>
  }
}
