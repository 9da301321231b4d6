module @fuzz_9100908 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x33x81xbf16>, %arg1: tensor<f32>, %arg2: tensor<4xi1>, %arg3: tensor<i1>, %arg4: tensor<f32>, %arg5: tensor<8x4x49xi16>, %arg6: tensor<i32>) -> (tensor<4x33x81xbf16>, tensor<i32>, tensor<f32>, tensor<f32>, tensor<i1>, tensor<8xi1>, tensor<i32>) {
    %0 = stablehlo.tan %arg0 : tensor<4x33x81xbf16>
    %1 = stablehlo.optimization_barrier %arg1 : tensor<f32>
    %2 = stablehlo.constant dense<0> : tensor<i32>
    %3:4 = stablehlo.while(%iterArg_7 = %2, %iterArg_8 = %arg1, %iterArg_9 = %arg2, %iterArg_10 = %1) : tensor<i32>, tensor<f32>, tensor<4xi1>, tensor<f32>
    cond {
      %4 = stablehlo.constant dense<0> : tensor<i32>
      %5 = stablehlo.compare LT, %iterArg_7, %4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %6 = stablehlo.constant dense<1> : tensor<i32>
      %7 = stablehlo.add %iterArg_7, %6 : tensor<i32>
      %8 = stablehlo.sqrt %iterArg_10 : tensor<f32>
      %9 = stablehlo.constant dense<-2> : tensor<i32>
      %10 = stablehlo.constant dense<[false]> : tensor<1xi1>
      %11 = stablehlo.dynamic_update_slice %iterArg_9, %10, %9 : (tensor<4xi1>, tensor<1xi1>, tensor<i32>) -> tensor<4xi1>
      stablehlo.return %7, %8, %11, %8 : tensor<i32>, tensor<f32>, tensor<4xi1>, tensor<f32>
    }
    %12 = stablehlo.constant dense<false> : tensor<i1>
    %13 = stablehlo.reduce(%3#2 init: %12) applies stablehlo.xor across dimensions = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
    %14 = stablehlo.pad %3#2, %arg3, low = [1], high = [3], interior = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<8xi1>
    %15 = stablehlo.subtract %arg4, %arg1 : tensor<f32>
    %16 = stablehlo.constant dense<0> : tensor<i32>
    %17:5 = stablehlo.while(%iterArg_11 = %16, %iterArg_12 = %arg6, %iterArg_13 = %arg4, %iterArg_14 = %15, %iterArg_15 = %arg5) : tensor<i32>, tensor<i32>, tensor<f32>, tensor<f32>, tensor<8x4x49xi16>
    cond {
      %18 = stablehlo.compare LT, %iterArg_11, %iterArg_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %18 : tensor<i1>
    } do {
      %19 = stablehlo.constant dense<1> : tensor<i32>
      %20 = stablehlo.add %iterArg_11, %19 : tensor<i32>
      %21 = stablehlo.reduce_precision %iterArg_14, format = e11m12 : tensor<f32>
      %22 = stablehlo.constant dense<32767> : tensor<i16>
      %23 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<i16>) -> tensor<8x4x49xi16>
      stablehlo.return %20, %iterArg_12, %21, %21, %23 : tensor<i32>, tensor<i32>, tensor<f32>, tensor<f32>, tensor<8x4x49xi16>
    }
    return %0, %3#0, %3#1, %3#3, %13, %14, %17#1 : tensor<4x33x81xbf16>, tensor<i32>, tensor<f32>, tensor<f32>, tensor<i1>, tensor<8xi1>, tensor<i32>
  }
}
