#loc = loc(unknown)
#loc1 = loc("a")
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<16xf32>) -> (tensor<16xcomplex<f32>>, tensor<9xcomplex<f32>>, tensor<16xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg3: tensor<16xf32> loc("a")):
    %4 = "func.call"(%arg3) <{callee = @fft}> : (tensor<16xf32>) -> tensor<16xcomplex<f32>> loc(#loc9)
    %5 = "func.call"(%arg3) <{callee = @fft_0}> : (tensor<16xf32>) -> tensor<9xcomplex<f32>> loc(#loc10)
    %6 = "func.call"(%arg3) <{callee = @fft_0}> : (tensor<16xf32>) -> tensor<9xcomplex<f32>> loc(#loc11)
    %7 = "func.call"(%6) <{callee = @fft_1}> : (tensor<9xcomplex<f32>>) -> tensor<16xf32> loc(#loc12)
    "func.return"(%4, %5, %7) : (tensor<16xcomplex<f32>>, tensor<9xcomplex<f32>>, tensor<16xf32>) -> () loc(#loc13)
  }) : () -> () loc(#loc)
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<16xf32>) -> tensor<16xcomplex<f32>>, res_attrs = [{}], sym_name = "fft", sym_visibility = "private"}> ({
  ^bb0(%arg2: tensor<16xf32> loc(unknown)):
    %2 = "stablehlo.convert"(%arg2) : (tensor<16xf32>) -> tensor<16xcomplex<f32>> loc(#loc7)
    %3 = "stablehlo.fft"(%2) <{fft_length = array<i64: 16>, fft_type = #stablehlo<fft_type FFT>}> : (tensor<16xcomplex<f32>>) -> tensor<16xcomplex<f32>> loc(#loc8)
    "func.return"(%3) : (tensor<16xcomplex<f32>>) -> () loc(#loc)
  }) : () -> () loc(#loc17)
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<16xf32>) -> tensor<9xcomplex<f32>>, res_attrs = [{}], sym_name = "fft_0", sym_visibility = "private"}> ({
  ^bb0(%arg1: tensor<16xf32> loc(unknown)):
    %1 = "stablehlo.fft"(%arg1) <{fft_length = array<i64: 16>, fft_type = #stablehlo<fft_type RFFT>}> : (tensor<16xf32>) -> tensor<9xcomplex<f32>> loc(#loc8)
    "func.return"(%1) : (tensor<9xcomplex<f32>>) -> () loc(#loc)
  }) : () -> () loc(#loc18)
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<9xcomplex<f32>>) -> tensor<16xf32>, res_attrs = [{}], sym_name = "fft_1", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<9xcomplex<f32>> loc(unknown)):
    %0 = "stablehlo.fft"(%arg0) <{fft_length = array<i64: 16>, fft_type = #stablehlo<fft_type IRFFT>}> : (tensor<9xcomplex<f32>>) -> tensor<16xf32> loc(#loc8)
    "func.return"(%0) : (tensor<16xf32>) -> () loc(#loc)
  }) : () -> () loc(#loc19)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc2 = loc("generate.py":78:26)
#loc3 = loc("generate.py":78:42)
#loc4 = loc("generate.py":78:73)
#loc5 = loc("generate.py":78:59)
#loc6 = loc("generate.py":124:17)
#loc7 = loc("convert_element_type")
#loc8 = loc("fft")
#loc9 = loc("jit(<lambda>)/jit(fft)"(#loc2))
#loc10 = loc("jit(<lambda>)/jit(fft)"(#loc3))
#loc11 = loc("jit(<lambda>)/jit(fft)"(#loc4))
#loc12 = loc("jit(<lambda>)/jit(fft)"(#loc5))
#loc13 = loc("jit(<lambda>)"(#loc6))
#loc14 = loc("jit(<lambda>)/jit"(#loc2))
#loc15 = loc("jit(<lambda>)/jit"(#loc3))
#loc16 = loc("jit(<lambda>)/jit"(#loc5))
#loc17 = loc("jit:"(#loc14))
#loc18 = loc("jit:"(#loc15))
#loc19 = loc("jit:"(#loc16))
