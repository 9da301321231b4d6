#loc1 = loc("a")
#loc3 = loc("shard_map")
#loc5 = loc("psum")
#loc9 = loc("shard_map:"(#loc3))
#loc11 = loc("psum:"(#loc5))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["a"=4, "b"=2]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "a", size = 4 : i64}, {name = "b", size = 2 : i64}]}} : () -> () loc(#loc)
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}], function_type = (tensor<8x8xf32>) -> tensor<8x8xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x8xf32> loc("a")):
    %0 = "sdy.manual_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"a"}, {"b"}]>]>, manual_axes = #sdy<manual_axes{"a", "b"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"a"}, {"b"}]>]>}> ({
    ^bb0(%arg1: tensor<2x4xf32> loc("shard_map:"(#loc3))):
      %1 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32> loc("psum:"(#loc5)), %arg3: tensor<f32> loc("psum:"(#loc5))):
        %4 = "stablehlo.add"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc17)
        "stablehlo.return"(%4) : (tensor<f32>) -> () loc(#loc10)
      }) : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(#loc10)
      %2 = "stablehlo.collective_permute"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, source_target_pairs = dense<[[0, 2], [2, 0], [1, 3], [3, 1]]> : tensor<4x2xi64>}> : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(#loc13)
      %3 = "stablehlo.add"(%1, %2) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32> loc(#loc12)
      "sdy.return"(%3) : (tensor<2x4xf32>) -> () loc(#loc9)
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc(#loc15)
    "func.return"(%0) : (tensor<8x8xf32>) -> () loc(#loc14)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc2 = loc("generate.py":101:21)
#loc4 = loc("generate.py":106:40)
#loc6 = loc("generate.py":106:59)
#loc7 = loc("generate.py":124:17)
#loc8 = loc("jit(<lambda>)"(#loc2))
#loc10 = loc("psum"(#loc4))
#loc12 = loc("add"(#loc4))
#loc13 = loc("ppermute"(#loc6))
#loc14 = loc("jit(<lambda>)"(#loc7))
#loc15 = loc("shard_map"(#loc8))
#loc16 = loc(callsite(#loc12 at #loc4))
#loc17 = loc(""(#loc16))
