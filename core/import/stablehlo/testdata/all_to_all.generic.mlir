#loc1 = loc("a")
#loc3 = loc("shard_map")
#loc7 = loc("shard_map:"(#loc3))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["a"=4, "b"=2]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "a", size = 4 : i64}, {name = "b", size = 2 : i64}]}} : () -> () loc(#loc)
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}], function_type = (tensor<8x8xf32>) -> tensor<4x16xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x8xf32> loc("a")):
    %0 = "sdy.manual_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"a"}, {"b"}]>]>, manual_axes = #sdy<manual_axes{"a", "b"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"a"}, {"b"}]>]>}> ({
    ^bb0(%arg1: tensor<2x4xf32> loc("shard_map:"(#loc3))):
      %1 = "stablehlo.all_to_all"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<2x4xf32>) -> tensor<1x8xf32> loc(#loc8)
      "sdy.return"(%1) : (tensor<1x8xf32>) -> () loc(#loc7)
    }) : (tensor<8x8xf32>) -> tensor<4x16xf32> loc(#loc10)
    "func.return"(%0) : (tensor<4x16xf32>) -> () loc(#loc9)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc2 = loc("generate.py":101:21)
#loc4 = loc("generate.py":108:39)
#loc5 = loc("generate.py":124:17)
#loc6 = loc("jit(<lambda>)"(#loc2))
#loc8 = loc("all_to_all"(#loc4))
#loc9 = loc("jit(<lambda>)"(#loc5))
#loc10 = loc("shard_map"(#loc6))
