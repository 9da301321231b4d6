#loc1 = loc("a")
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32> loc("a")) -> (tensor<4x8xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.exponential %arg0 {result_accuracy = #stablehlo.result_accuracy<atol = 1.000000e-05, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4x8xf32> loc(#loc6)
    return %0 : tensor<4x8xf32> loc(#loc5)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("generate.py":88:30)
#loc3 = loc("generate.py":124:17)
#loc4 = loc("jit(<lambda>)"(#loc2))
#loc5 = loc("jit(<lambda>)"(#loc3))
#loc6 = loc("exp"(#loc4))
