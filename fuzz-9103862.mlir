module @fuzz_9103862 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4x5x6x3xi16> {jax.buffer_donor = true}, %arg1: tensor<6x2x6xbf16> {jax.buffer_donor = true, mhlo.layout_mode = "{0,2,1}"}, %arg2: tensor<3x4x5x6x3xi16> {jax.buffer_donor = true, mhlo.layout_mode = "{3,4,2,0,1}"}) -> (tensor<6x6xi1>, tensor<6x6xi1>, tensor<6x6xi1>, tensor<6x2x6xbf16>, tensor<6x6xi1>, tensor<6x6xi1>, tensor<6x6xf8E4M3>) {
    %0 = stablehlo.constant dense<[[0xA0, 0xBC, 0xBF, 0xB1, 0x2B, 0x3D], [0x39, 0xAB, 0xBD, 0xBB, 0x16, 0x2A], [0x2E, 0x36, 0xBC, 0x33, 0xAB, 0x33], [0xB1, 0x22, 0x30, 0x25, 0x29, 0x36], [0xBE, 0x40, 0x3F, 0xC0, 0x2F, 0x3D], [0xAC, 0x3C, 0x3C, 0x3E, 0x2A, 0xBD]]> : tensor<6x6xf8E4M3>
    %1 = stablehlo.compare GT, %0, %0, FLOAT : (tensor<6x6xf8E4M3>, tensor<6x6xf8E4M3>) -> tensor<6x6xi1>
    %2 = stablehlo.constant dense<[[8.078240782306172e-01, -3.3862040669809534e-01, 2.2250738585072014e-308, 1.7427658498139347e+00, -1.0119284625489207e+00, 2.955218548514136e-01], [-1.3797640526223232e-01, -1.3366331219433558e-01, 1.0745332522270687e+00, 1.0755120623757985e-01, 1.9934683045573016e+00, -1.3059754852794216e+00], [-0.0e+00, 4.930078641140625e-01, -5.52825189190314e-01, -7.7962967159102e-01, 1.2833222851239108e+00, -0.0e+00], [-0.0e+00, -1.162047169413392e+00, 1.0711248374760753e+00, 5.0e-324, -1.5711768708682392e+00, -0.0e+00], [8.509819492310422e-02, 6.67120925488085e-01, -1.5605875111125167e-01, 3.871643943994614e-01, 1.2273239305470618e-01, -1.4989664916067857e+00]]> : tensor<5x6xf64>
    %3 = stablehlo.constant dense<-27557> : tensor<i16>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<i16>) -> tensor<3x4x5x6x3xi16>
    %5 = stablehlo.constant dense<[[true, true, false, false, true, false], [true, true, true, true, true, false], [false, true, false, false, false, true], [true, true, false, false, false, false], [true, false, false, true, true, false], [false, true, false, true, false, true]]> : tensor<6x6xi1>
    %6 = func.call @shared_function(%2, %4, %5) : (tensor<5x6xf64>, tensor<3x4x5x6x3xi16>, tensor<6x6xi1>) -> tensor<6x6xi1>
    %7 = stablehlo.constant dense<[[false, false, true, true, true, true], [false, false, true, false, true, false], [true, true, false, false, true, true], [true, true, true, false, true, true], [true, true, false, true, false, true], [false, true, false, true, true, false]]> : tensor<6x6xi1>
    %8 = func.call @shared_function(%2, %arg0, %7) : (tensor<5x6xf64>, tensor<3x4x5x6x3xi16>, tensor<6x6xi1>) -> tensor<6x6xi1>
    %9 = stablehlo.constant dense<[[false, true, true, true, true, false], [false, true, false, true, true, true], [false, false, true, true, false, false], [true, true, true, true, true, true], [false, false, false, false, false, false], [true, false, true, false, true, false]]> : tensor<6x6xi1>
    %10 = func.call @shared_function(%2, %arg0, %9) : (tensor<5x6xf64>, tensor<3x4x5x6x3xi16>, tensor<6x6xi1>) -> tensor<6x6xi1>
    %11 = stablehlo.log_plus_one %arg1 : tensor<6x2x6xbf16>
    %12 = stablehlo.constant dense<[[true, true, true, false, true, false], [true, false, true, false, true, true], [false, false, true, true, true, true], [false, true, true, true, true, false], [false, true, true, false, true, false], [false, false, true, true, true, true]]> : tensor<6x6xi1>
    %13 = func.call @shared_function(%2, %arg2, %12) : (tensor<5x6xf64>, tensor<3x4x5x6x3xi16>, tensor<6x6xi1>) -> tensor<6x6xi1>
    %14 = func.call @shared_function(%2, %arg0, %8) : (tensor<5x6xf64>, tensor<3x4x5x6x3xi16>, tensor<6x6xi1>) -> tensor<6x6xi1>
    return %1, %6, %10, %11, %13, %14, %0 : tensor<6x6xi1>, tensor<6x6xi1>, tensor<6x6xi1>, tensor<6x2x6xbf16>, tensor<6x6xi1>, tensor<6x6xi1>, tensor<6x6xf8E4M3>
  }
  func.func private @shared_function(%arg0: tensor<5x6xf64>, %arg1: tensor<3x4x5x6x3xi16>, %arg2: tensor<6x6xi1>) -> (tensor<6x6xi1>) {
    %0 = stablehlo.constant dense<[[false, false, true, false, false, false], [false, false, false, true, false, true], [true, false, false, true, true, true], [false, true, true, true, true, true], [false, true, true, true, false, false], [true, false, true, false, false, false]]> : tensor<6x6xi1>
    return %0 : tensor<6x6xi1>
  }
}
