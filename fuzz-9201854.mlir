module @fuzz_9201854 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1xf64>, %arg1: tensor<f64>) -> (tensor<1xf64>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<1xf64>, tensor<f64>) -> tensor<1xf64>
    return %0 : tensor<1xf64>
  }
}
