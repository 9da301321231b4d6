#loc1 = loc("a")
#loc4 = loc("psum_invariant")
#loc8 = loc("psum_invariant:"(#loc4))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["a"=1, "b"=1]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "a", size = 1 : i64}, {name = "b", size = 1 : i64}]}} : () -> () loc(#loc)
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}], function_type = (tensor<8x8xf32>) -> tensor<8x8xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x8xf32> loc("a")):
    %0 = "stablehlo.all_reduce"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<0> : tensor<1x1xi64>, use_global_device_ids}> ({
    ^bb0(%arg1: tensor<f32> loc("psum_invariant:"(#loc4)), %arg2: tensor<f32> loc("psum_invariant:"(#loc4))):
      %1 = "stablehlo.add"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc15)
      "stablehlo.return"(%1) : (tensor<f32>) -> () loc(#loc13)
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc(#loc13)
    "func.return"(%0) : (tensor<8x8xf32>) -> () loc(#loc10)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc2 = loc("generate.py":111:39)
#loc3 = loc("generate.py":101:21)
#loc5 = loc("generate.py":124:17)
#loc6 = loc("psum_invariant"(#loc2))
#loc7 = loc("jit(<lambda>)"(#loc3))
#loc9 = loc("add"(#loc2))
#loc10 = loc("jit(<lambda>)"(#loc5))
#loc11 = loc(callsite(#loc6 at #loc7))
#loc12 = loc(callsite(#loc9 at #loc2))
#loc13 = loc(""(#loc11))
#loc14 = loc(callsite(#loc12 at #loc7))
#loc15 = loc(""(#loc14))
