#loc1 = loc("a")
#loc2 = loc("generate.py":81:27)
#loc4 = loc("jit(<lambda>)"(#loc2))
#loc6 = loc("top_k"(#loc4))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xi32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg5: tensor<4x8xf32> loc("a")):
    %5:2 = "stablehlo.composite"(%arg5) <{composite_attributes = {k = 3 : i64}, decomposition = @chlo.top_k.impl, name = "chlo.top_k", version = 1 : i32}> : (tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xi32>) loc(#loc6)
    "func.return"(%5#0, %5#1) : (tensor<4x3xf32>, tensor<4x3xi32>) -> () loc(#loc5)
  }) : () -> () loc(#loc)
  "func.func"() <{function_type = (tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xi32>), sym_name = "chlo.top_k.impl", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x8xf32> loc("top_k"(#loc4))):
    %0 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<4x8xi32> loc(#loc6)
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32> loc("top_k"(#loc4)), %arg2: tensor<f32> loc("top_k"(#loc4)), %arg3: tensor<i32> loc("top_k"(#loc4)), %arg4: tensor<i32> loc("top_k"(#loc4))):
      %4 = "stablehlo.compare"(%arg1, %arg2) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc6)
      "stablehlo.return"(%4) : (tensor<i1>) -> () loc(#loc6)
    }) : (tensor<4x8xf32>, tensor<4x8xi32>) -> (tensor<4x8xf32>, tensor<4x8xi32>) loc(#loc6)
    %2 = "stablehlo.slice"(%1#0) <{limit_indices = array<i64: 4, 3>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<4x8xf32>) -> tensor<4x3xf32> loc(#loc6)
    %3 = "stablehlo.slice"(%1#1) <{limit_indices = array<i64: 4, 3>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<4x8xi32>) -> tensor<4x3xi32> loc(#loc6)
    "func.return"(%2, %3) : (tensor<4x3xf32>, tensor<4x3xi32>) -> () loc(#loc6)
  }) : () -> () loc(#loc6)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc3 = loc("generate.py":124:17)
#loc5 = loc("jit(<lambda>)"(#loc3))
