#loc1 = loc("a")
#loc3 = loc("shard_map")
#loc7 = loc("shard_map:"(#loc3))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["a"=4, "b"=2]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "a", size = 4 : i64}, {name = "b", size = 2 : i64}]}} : () -> () loc(#loc)
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}], function_type = (tensor<8x8xf32>) -> tensor<8x8xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x8xf32> loc("a")):
    %0 = "sdy.manual_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"a"}, {"b"}]>]>, manual_axes = #sdy<manual_axes{"a", "b"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{}, {"b"}]>]>}> ({
    ^bb0(%arg1: tensor<2x4xf32> loc("shard_map:"(#loc3))):
      %1 = "stablehlo.all_gather"(%arg1) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<8x4xf32> loc(#loc8)
      "sdy.return"(%1) : (tensor<8x4xf32>) -> () loc(#loc7)
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc(#loc10)
    "func.return"(%0) : (tensor<8x8xf32>) -> () loc(#loc9)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc2 = loc("generate.py":101:21)
#loc4 = loc("generate.py":107:39)
#loc5 = loc("generate.py":124:17)
#loc6 = loc("jit(<lambda>)"(#loc2))
#loc8 = loc("all_gather"(#loc4))
#loc9 = loc("jit(<lambda>)"(#loc5))
#loc10 = loc("shard_map"(#loc6))
