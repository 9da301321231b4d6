module @fuzz_9106536 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6x3x6xcomplex<f32>>, %arg1: tensor<6xcomplex<f32>>, %arg2: tensor<i32>) -> (tensor<3x1x2xcomplex<f32>>, tensor<6x3x6xcomplex<f32>>, tensor<6x3x6xcomplex<f32>>, tensor<i32>, tensor<i32>, tensor<6x3x6xcomplex<f32>>, tensor<6x3x6xcomplex<f32>>, tensor<6xcomplex<f32>>, tensor<6x3x6xcomplex<f32>>) {
    %0 = stablehlo.constant dense<159> : tensor<ui8>
    %1 = stablehlo.constant dense<[[[0xDE], [0x5B], [0x08], [0x4E]], [[0x5D], [0x80], [0xD2], [0xD8]], [[0x5D], [0x56], [0x56], [0x49]], [[0x5A], [0x57], [0x00], [0x60]], [[0x55], [0x5E], [0xCB], [0xE0]], [[0x5E], [0x80], [0x59], [0x4B]]]> : tensor<6x4x1xf8E4M3B11FNUZ>
    %2:4 = stablehlo.while(%iterArg_3 = %1, %iterArg_4 = %arg0, %iterArg_5 = %0, %iterArg_6 = %arg0) : tensor<6x4x1xf8E4M3B11FNUZ>, tensor<6x3x6xcomplex<f32>>, tensor<ui8>, tensor<6x3x6xcomplex<f32>>
    cond {
      %3 = stablehlo.constant dense<246> : tensor<ui8>
      %4 = stablehlo.compare LT, %iterArg_5, %3, UNSIGNED : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %5 = stablehlo.constant dense<[[[0xE6], [0xE4], [0x00], [0x60]], [[0xD8], [0xE6], [0x68], [0xD8]], [[0xE4], [0x58], [0xE2], [0x60]], [[0xD8], [0xE8], [0x69], [0xD8]], [[0x64], [0x58], [0x64], [0x64]], [[0x60], [0x64], [0x64], [0xE4]]]> : tensor<6x4x1xf8E4M3B11FNUZ>
      %6 = stablehlo.constant dense<50> : tensor<ui8>
      %7 = stablehlo.add %iterArg_5, %6 : tensor<ui8>
      stablehlo.return %5, %iterArg_6, %7, %iterArg_4 : tensor<6x4x1xf8E4M3B11FNUZ>, tensor<6x3x6xcomplex<f32>>, tensor<ui8>, tensor<6x3x6xcomplex<f32>>
    }
    %8 = stablehlo.slice %arg0 [3:6, 0:3:4, 0:2] : (tensor<6x3x6xcomplex<f32>>) -> tensor<3x1x2xcomplex<f32>>
    %9 = stablehlo.dot_general %2#1, %arg1, batching_dims = [0] x [0], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<6x3x6xcomplex<f32>>, tensor<6xcomplex<f32>>) -> tensor<6x3x6xcomplex<f32>>
    %10 = stablehlo.constant dense<0> : tensor<i32>
    %11 = stablehlo.constant dense<(-7.5805224e-02,-6.4205474e-01)> : tensor<complex<f32>>
    %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<complex<f32>>) -> tensor<6x3x6xcomplex<f32>>
    %13:3 = stablehlo.while(%iterArg_7 = %arg2, %iterArg_8 = %10, %iterArg_9 = %12) : tensor<i32>, tensor<i32>, tensor<6x3x6xcomplex<f32>>
    cond {
      %14 = stablehlo.compare LT, %iterArg_8, %iterArg_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %14 : tensor<i1>
    } do {
      %15 = stablehlo.constant dense<1> : tensor<i32>
      %16 = stablehlo.add %15, %iterArg_8 : tensor<i32>
      stablehlo.return %iterArg_7, %16, %iterArg_9 : tensor<i32>, tensor<i32>, tensor<6x3x6xcomplex<f32>>
    }
    %17 = stablehlo.constant dense<(1.4141601e+00,3.680242e-01)> : tensor<complex<f32>>
    %18 = stablehlo.broadcast_in_dim %17, dims = [] : (tensor<complex<f32>>) -> tensor<6x3x6xcomplex<f32>>
    return %8, %9, %18, %13#0, %13#1, %13#2, %arg0, %arg1, %arg0 : tensor<3x1x2xcomplex<f32>>, tensor<6x3x6xcomplex<f32>>, tensor<6x3x6xcomplex<f32>>, tensor<i32>, tensor<i32>, tensor<6x3x6xcomplex<f32>>, tensor<6x3x6xcomplex<f32>>, tensor<6xcomplex<f32>>, tensor<6x3x6xcomplex<f32>>
  }
}
