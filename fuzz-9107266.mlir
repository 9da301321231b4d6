module @fuzz_9107266 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x1xbf16>) -> (tensor<1x1xbf16>) {
    %0 = stablehlo.constant dense<[[-2.75506e-40]]> : tensor<1x1xbf16>
    %1 = stablehlo.divide %0, %arg0 : tensor<1x1xbf16>
    return %1 : tensor<1x1xbf16>
  }
}
