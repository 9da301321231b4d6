module @fuzz_9200020 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x3x3xf32>, %arg1: tensor<3x3x3xf32>) -> (tensor<3x3x3xf32>) {
    %0 = stablehlo.atan2 %arg1, %arg0 : tensor<3x3x3xf32>
    return %0 : tensor<3x3x3xf32>
  }
}
