#loc1 = loc("a")
#loc3 = loc("shard_map")
#loc5 = loc("reduce_scatter")
#loc8 = loc("shard_map:"(#loc3))
#loc10 = loc("reduce_scatter:"(#loc5))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["a"=4, "b"=2]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "a", size = 4 : i64}, {name = "b", size = 2 : i64}]}} : () -> () loc(#loc)
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}], function_type = (tensor<8x8xf32>) -> tensor<8x4xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x8xf32> loc("a")):
    %0 = "sdy.manual_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"a"}, {"b"}]>]>, manual_axes = #sdy<manual_axes{"a", "b"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"a", "b"}, {}]>]>}> ({
    ^bb0(%arg1: tensor<2x4xf32> loc("shard_map:"(#loc3))):
      %1 = "stablehlo.reduce_scatter"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32> loc("reduce_scatter:"(#loc5)), %arg3: tensor<f32> loc("reduce_scatter:"(#loc5))):
        %2 = "stablehlo.add"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc15)
        "stablehlo.return"(%2) : (tensor<f32>) -> () loc(#loc9)
      }) : (tensor<2x4xf32>) -> tensor<1x4xf32> loc(#loc9)
      "sdy.return"(%1) : (tensor<1x4xf32>) -> () loc(#loc8)
    }) : (tensor<8x8xf32>) -> tensor<8x4xf32> loc(#loc13)
    "func.return"(%0) : (tensor<8x4xf32>) -> () loc(#loc12)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc2 = loc("generate.py":101:21)
#loc4 = loc("generate.py":109:43)
#loc6 = loc("generate.py":124:17)
#loc7 = loc("jit(<lambda>)"(#loc2))
#loc9 = loc("reduce_scatter"(#loc4))
#loc11 = loc("add"(#loc4))
#loc12 = loc("jit(<lambda>)"(#loc6))
#loc13 = loc("shard_map"(#loc7))
#loc14 = loc(callsite(#loc11 at #loc4))
#loc15 = loc(""(#loc14))
