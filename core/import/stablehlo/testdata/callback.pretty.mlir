#loc1 = loc("a")
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]> {stablehlo.mesh = {axes = [], device_ids = dense<0> : tensor<1xi64>}} loc(#loc)
  func.func public @main(%arg0: tensor<4x8xf32> loc("a")) -> (tensor<4x8xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0) {mhlo.backend_config = {index = 0 : ui64}, operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>], sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc6)
    return %0 : tensor<4x8xf32> loc(#loc5)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("generate.py":84:30)
#loc3 = loc("generate.py":124:17)
#loc4 = loc("jit(<lambda>)/pure_callback"(#loc2))
#loc5 = loc("jit(<lambda>)"(#loc3))
#loc6 = loc("pure_callback:"(#loc4))
