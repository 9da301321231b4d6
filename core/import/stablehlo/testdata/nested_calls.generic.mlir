#loc = loc(unknown)
#loc1 = loc("a")
#loc7 = loc("reduce_window_sum")
#loc15 = loc("reduce_window_sum:"(#loc7))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<8xf32>) -> tensor<8xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg6: tensor<8xf32> loc("a")):
    %10 = "func.call"(%arg6) <{callee = @"<lambda>"}> : (tensor<8xf32>) -> tensor<8xf32> loc(#loc8)
    "func.return"(%10) : (tensor<8xf32>) -> () loc(#loc9)
  }) : () -> () loc(#loc)
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<8xf32>) -> tensor<8xf32>, res_attrs = [{}], sym_name = "<lambda>", sym_visibility = "private"}> ({
  ^bb0(%arg5: tensor<8xf32> loc(unknown)):
    %6 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32> loc(#loc)
    %7 = "func.call"(%arg5) <{callee = @cumsum}> : (tensor<8xf32>) -> tensor<8xf32> loc(#loc11)
    %8 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<8xf32> loc(#loc12)
    %9 = "stablehlo.add"(%7, %8) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc(#loc12)
    "func.return"(%9) : (tensor<8xf32>) -> () loc(#loc)
  }) : () -> () loc(#loc16)
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<8xf32>) -> tensor<8xf32>, res_attrs = [{}], sym_name = "cumsum", sym_visibility = "private"}> ({
  ^bb0(%arg4: tensor<8xf32> loc(unknown)):
    %5 = "func.call"(%arg4) <{callee = @cumsum_0}> : (tensor<8xf32>) -> tensor<8xf32> loc(#loc5)
    "func.return"(%5) : (tensor<8xf32>) -> () loc(#loc)
  }) : () -> () loc(#loc17)
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<8xf32>) -> tensor<8xf32>, res_attrs = [{}], sym_name = "cumsum_0", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<8xf32> loc(unknown)):
    %4 = "func.call"(%arg3) <{callee = @cumsum_1}> : (tensor<8xf32>) -> tensor<8xf32> loc(#loc)
    "func.return"(%4) : (tensor<8xf32>) -> () loc(#loc)
  }) : () -> () loc(#loc14)
  "func.func"() <{function_type = (tensor<8xf32>) -> tensor<8xf32>, sym_name = "cumsum_1", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<8xf32> loc(unknown)):
    %0 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32> loc(#loc7)
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<f32> loc(#loc7)
    %2 = "stablehlo.reduce_window"(%arg0, %1) <{padding = dense<[[7, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 8>}> ({
    ^bb0(%arg1: tensor<f32> loc("reduce_window_sum:"(#loc7)), %arg2: tensor<f32> loc("reduce_window_sum:"(#loc7))):
      %3 = "stablehlo.add"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc7)
      "stablehlo.return"(%3) : (tensor<f32>) -> () loc(#loc7)
    }) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32> loc(#loc7)
    "func.return"(%2) : (tensor<8xf32>) -> () loc(#loc)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc2 = loc("generate.py":92:34)
#loc3 = loc("generate.py":124:17)
#loc4 = loc("generate.py":92:52)
#loc5 = loc("jit(cumsum)")
#loc6 = loc("jit")
#loc8 = loc("jit(<lambda>)/jit(<lambda>)"(#loc2))
#loc9 = loc("jit(<lambda>)"(#loc3))
#loc10 = loc("jit(<lambda>)/jit"(#loc2))
#loc11 = loc("jit(cumsum)"(#loc4))
#loc12 = loc("add"(#loc4))
#loc13 = loc("jit"(#loc4))
#loc14 = loc("jit:"(#loc6))
#loc16 = loc("jit:"(#loc10))
#loc17 = loc("jit:"(#loc13))
