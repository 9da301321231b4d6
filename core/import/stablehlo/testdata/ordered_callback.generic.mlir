#loc = loc(unknown)
#loc1 = loc("a")
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[0]>, sym_name = "maximal_mesh_0"}> {stablehlo.mesh = {axes = [], device_ids = dense<0> : tensor<1xi64>}} : () -> () loc(#loc)
  "func.func"() <{arg_attrs = [{jax.token = true}, {}], function_type = (!stablehlo.token, tensor<4x8xf32>) -> (!stablehlo.token, tensor<4x8xf32>), res_attrs = [{jax.token = true}, {jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: !stablehlo.token loc(unknown), %arg1: tensor<4x8xf32> loc("a")):
    %0:2 = "stablehlo.custom_call"(%arg0, %arg1) <{call_target_name = "xla_ffi_python_cpu_callback", has_side_effect = true, operand_layouts = [dense<> : tensor<0xindex>, dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<> : tensor<0xindex>, dense<[1, 0]> : tensor<2xindex>]}> {mhlo.backend_config = {index = 0 : ui64}, sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>, <@maximal_mesh_0, []>]>} : (!stablehlo.token, tensor<4x8xf32>) -> (!stablehlo.token, tensor<4x8xf32>) loc(#loc6)
    "func.return"(%0#0, %0#1) : (!stablehlo.token, tensor<4x8xf32>) -> () loc(#loc5)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc2 = loc("generate.py":85:38)
#loc3 = loc("generate.py":124:17)
#loc4 = loc("jit(<lambda>)/io_callback"(#loc2))
#loc5 = loc("jit(<lambda>)"(#loc3))
#loc6 = loc("io_callback:"(#loc4))
