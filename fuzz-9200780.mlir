module @fuzz_9200780 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x2xf64>) -> (tensor<3x2xf64>) {
    %0 = stablehlo.sine %arg0 : tensor<3x2xf64>
    %1 = stablehlo.power %arg0, %0 : tensor<3x2xf64>
    return %1 : tensor<3x2xf64>
  }
}
