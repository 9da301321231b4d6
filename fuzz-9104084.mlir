module @fuzz_9104084 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<i1>, %arg1: tensor<3x4x4xf64>, %arg2: tensor<3x3x4xf64>, %arg3: tensor<3x1x8x0xi16> {mhlo.layout_mode = "{2,3,1,0}"}, %arg4: tensor<f64>, %arg5: tensor<f64>, %arg6: tensor<3x3x4xf64> {mhlo.layout_mode = "{1,0,2}"}, %arg7: tensor<i1>) -> (tensor<i1>, tensor<9xf32>, tensor<17x8x7x2xf32>, tensor<7x40xf4E2M1FN>, tensor<3x3x4xf64>, tensor<3x3x4xf64>) {
    %0 = "stablehlo.if"(%arg0) ({
      stablehlo.return %arg0 : tensor<i1>
    }, {
      stablehlo.return %arg0 : tensor<i1>
    }) : (tensor<i1>) -> tensor<i1>
    %1 = stablehlo.iota dim = 0 : tensor<9xf32>
    %2 = "stablehlo.triangular_solve"(%arg1, %arg2) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = true}> : (tensor<3x4x4xf64>, tensor<3x3x4xf64>) -> tensor<3x3x4xf64>
    %3 = stablehlo.reshape %arg3 : (tensor<3x1x8x0xi16>) -> tensor<0xi16>
    %4 = func.call @fused(%arg3, %arg2, %arg2) : (tensor<3x1x8x0xi16>, tensor<3x3x4xf64>, tensor<3x3x4xf64>) -> tensor<17x4x7x2xf32>
    %5 = stablehlo.constant dense<3.0e+00> : tensor<f32>
    %6 = stablehlo.pad %4, %5, low = [2, -1, -2, 0], high = [-2, -1, 2, 0], interior = [0, 2, 0, 0] : (tensor<17x4x7x2xf32>, tensor<f32>) -> tensor<17x8x7x2xf32>
    %7 = stablehlo.constant dense<[[true, true, true, false, false], [false, true, false, true, true], [true, false, false, false, true], [true, false, true, false, true], [true, false, false, true, false], [true, false, false, true, false], [false, false, true, true, true]]> : tensor<7x5xi1>
    %8 = func.call @callee(%7, %3) : (tensor<7x5xi1>, tensor<0xi16>) -> tensor<7x40xf4E2M1FN>
    %9 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<f64>) -> tensor<3x3x4xf64>
    %10 = stablehlo.add %arg2, %9 : tensor<3x3x4xf64>
    %11 = stablehlo.add %10, %arg2 : tensor<3x3x4xf64>
    %12 = stablehlo.maximum %11, %11 : tensor<3x3x4xf64>
    %13 = stablehlo.broadcast_in_dim %arg5, dims = [] : (tensor<f64>) -> tensor<3x3x4xf64>
    %14 = stablehlo.multiply %12, %13 : tensor<3x3x4xf64>
    %15 = stablehlo.divide %arg6, %2 : tensor<3x3x4xf64>
    %16 = "stablehlo.if"(%arg7) ({
      %17 = stablehlo.constant dense<[[[8.44742788822872e-01, -8.701008115551945e-01, -1.957759916817261e+00, 1.0396491354097193e+00], [-1.3440451227714e+00, 3.633607515672521e-02, -6.98792854538234e-01, 4.865298626452641e-01], [1.2225971927050399e+00, 1.759999568407404e+00, -9.848188233487658e-01, 5.551820920729797e-01]], [[-1.6764400715483312e+00, 0.0e+00, -9.730156706756117e-01, 0x7FF0000000000000], [0x7FF0000000000000, 0x7FF0000000000000, 1.9294261353619113e-01, -1.9740581354879434e+00], [1.7976931348623157e+308, -1.5e-323, -1.5603368181220167e+00, 9.246117595568446e-01]], [[-1.7976931348623157e+308, -3.754031388323318e-01, 1.379048661810844e+00, 1.7976931348623157e+308], [9.335764756732781e-01, 9.005103254111142e-01, -0.0e+00, -0.0e+00], [3.1888626756221106e-01, 1.4946325132044493e+00, -3.9879367841439084e-02, 1.4300730922930884e+00]]]> : tensor<3x3x4xf64>
      %18 = stablehlo.constant dense<[[[false, false, false, true], [true, false, false, true], [true, true, false, false]], [[false, false, true, true], [true, false, true, true], [false, false, true, true]], [[true, false, false, true], [true, false, true, false], [false, true, true, true]]]> : tensor<3x3x4xi1>
      %19 = stablehlo.select %18, %15, %17 : tensor<3x3x4xi1>, tensor<3x3x4xf64>
      stablehlo.return %19 : tensor<3x3x4xf64>
    }, {
      stablehlo.return %15 : tensor<3x3x4xf64>
    }) : (tensor<i1>) -> tensor<3x3x4xf64>
    return %0, %1, %6, %8, %16, %15 : tensor<i1>, tensor<9xf32>, tensor<17x8x7x2xf32>, tensor<7x40xf4E2M1FN>, tensor<3x3x4xf64>, tensor<3x3x4xf64>
  }
  func.func private @fused(%arg0: tensor<3x1x8x0xi16>, %arg1: tensor<3x3x4xf64>, %arg2: tensor<3x3x4xf64>) -> (tensor<17x4x7x2xf32>) {
    %0 = stablehlo.constant dense<2.910506e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<17x4x7x2xf32>
    %2 = stablehlo.cbrt %1 : tensor<17x4x7x2xf32>
    return %2 : tensor<17x4x7x2xf32>
  }
  func.func private @callee(%arg0: tensor<7x5xi1>, %arg1: tensor<0xi16>) -> (tensor<7x40xf4E2M1FN>) {
    %0 = stablehlo.convert %arg0 : (tensor<7x5xi1>) -> tensor<7x5xui32>
    %1 = stablehlo.bitcast_convert %0 : (tensor<7x5xui32>) -> tensor<7x5x8xf4E2M1FN>
    %2 = stablehlo.reshape %1 : (tensor<7x5x8xf4E2M1FN>) -> tensor<7x40xf4E2M1FN>
    %3 = stablehlo.constant dense<0> : tensor<i32>
    %4:2 = stablehlo.while(%iterArg_2 = %3, %iterArg_3 = %2) : tensor<i32>, tensor<7x40xf4E2M1FN>
    cond {
      %5 = stablehlo.constant dense<0> : tensor<i32>
      %6 = stablehlo.compare LT, %iterArg_2, %5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %7 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg_2, %7 : tensor<i32>
      %9 = "stablehlo.sort"(%iterArg_3) <{dimension = 0 : i64, is_stable = true}> ({
      ^bb0(%arg4: tensor<f4E2M1FN>, %arg5: tensor<f4E2M1FN>):
        %10 = stablehlo.compare GT, %arg4, %arg5, TOTALORDER : (tensor<f4E2M1FN>, tensor<f4E2M1FN>) -> tensor<i1>
        stablehlo.return %10 : tensor<i1>
      }) : (tensor<7x40xf4E2M1FN>) -> tensor<7x40xf4E2M1FN>
      stablehlo.return %8, %9 : tensor<i32>, tensor<7x40xf4E2M1FN>
    }
    return %4#1 : tensor<7x40xf4E2M1FN>
  }
}
