#loc1 = loc("a")
#loc2 = loc("b")
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32> loc("a"), %arg1: tensor<8x3xf32> loc("b")) -> (tensor<4x3xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32> loc(#loc7)
    return %0 : tensor<4x3xf32> loc(#loc6)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc3 = loc("generate.py":51:28)
#loc4 = loc("generate.py":124:17)
#loc5 = loc("jit(<lambda>)"(#loc3))
#loc6 = loc("jit(<lambda>)"(#loc4))
#loc7 = loc("dot_general"(#loc5))
