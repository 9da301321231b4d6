#loc1 = loc("a")
#loc2 = loc("b")
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {}], function_type = (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4x8xf32> loc("a"), %arg1: tensor<4x8xf32> loc("b")):
    %0 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32> loc(#loc5)
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x8xf32> loc(#loc7)
    %2 = "stablehlo.add"(%arg0, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc7)
    "func.return"(%2, %arg1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> () loc(#loc5)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc3 = loc("generate.py":124:17)
#loc4 = loc("generate.py":83:32)
#loc5 = loc("jit(<lambda>)"(#loc3))
#loc6 = loc("jit(<lambda>)"(#loc4))
#loc7 = loc("add"(#loc6))
