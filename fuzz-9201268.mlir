module @fuzz_9201268 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5x5x1x1xf32>, %arg1: tensor<5x5x1x1xf32>) -> (tensor<5x5x1x1xf32>) {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<5x5x1x1xf32>
    return %0 : tensor<5x5x1x1xf32>
  }
}
