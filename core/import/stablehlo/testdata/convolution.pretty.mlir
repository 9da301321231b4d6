#loc1 = loc("a")
#loc2 = loc("k")
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x8x8x3xf32> loc("a"), %arg1: tensor<3x3x3x4xf32> loc("k")) -> (tensor<1x3x8x4xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[1, 1], [0, 2]], rhs_dilate = [2, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x3x8x4xf32> loc(#loc7)
    return %0 : tensor<1x3x8x4xf32> loc(#loc6)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc3 = loc("generate.py":60:36)
#loc4 = loc("generate.py":124:17)
#loc5 = loc("jit(<lambda>)"(#loc3))
#loc6 = loc("jit(<lambda>)"(#loc4))
#loc7 = loc("conv_general_dilated"(#loc5))
