module @fuzz_9102946 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<i32>, %arg2: tensor<6x6xf32>, %arg3: tensor<6x6xf32>, %arg4: tensor<6x6xf32>) -> (tensor<6x6xf32>, tensor<6x6xf32>, tensor<i32>, tensor<6x6xf32>, tensor<4xi32>, tensor<6x5xcomplex<f64>>) {
    %0 = stablehlo.constant dense<false> : tensor<i1>
    %1 = stablehlo.constant dense<[[2.9824063e-01, 0x7FC00000, -8.78774e-01, -4.164767e-01, 1.9923527e+00, -1.9134393e+00], [0x7FC00000, 1.1253061e+00, 1.4036421e-01, 1.3487611e+00, -1.4765115e+00, 2.6831803e-01], [-1.8551096e-01, -0.0e+00, 5.158793e-01, 1.0163635e+00, -3.973845e-01, -3.4028235e+38], [1.1754944e-38, -1.1097524e+00, 1.9570909e+00, -3.5544282e-01, 1.1754944e-38, 7.755184e-01], [-1.414026e+00, -3.4028235e+38, -0.0e+00, -6.551009e-01, 1.0e-45, 9.457517e-01], [-1.0314204e+00, -7.7031505e-01, -0.0e+00, -1.1755353e+00, 1.0355945e+00, -1.3376638e+00]]> : tensor<6x6xf32>
    %2:6 = stablehlo.while(%iterArg_5 = %arg2, %iterArg_6 = %1, %iterArg_7 = %arg2, %iterArg_8 = %arg1, %iterArg_9 = %arg0, %iterArg_10 = %0) : tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<i32>, tensor<i32>, tensor<i1>
    cond {
      %3 = stablehlo.not %iterArg_10 : tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %4 = stablehlo.minimum %iterArg_6, %iterArg_6 : tensor<6x6xf32>
      %5 = stablehlo.logistic %4 : tensor<6x6xf32>
      %6 = stablehlo.multiply %5, %5 : tensor<6x6xf32>
      %7 = stablehlo.subtract %6, %5 : tensor<6x6xf32>
      %8 = stablehlo.multiply %7, %4 : tensor<6x6xf32>
      %9 = stablehlo.constant dense<1> : tensor<i32>
      %10 = stablehlo.add %9, %iterArg_9 : tensor<i32>
      %11 = stablehlo.constant dense<1> : tensor<i32>
      %12 = stablehlo.add %iterArg_9, %11 : tensor<i32>
      %13 = stablehlo.compare GE, %12, %iterArg_8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %8, %iterArg_6, %iterArg_7, %iterArg_8, %10, %13 : tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<i32>, tensor<i32>, tensor<i1>
    }
    %14 = stablehlo.constant dense<[[0.0e+00, 4.21477e-01, 0x7FC00000, -6.3205844e-01, -1.8575534e+00, 1.8838359e+00], [1.0934083e+00, 1.2924237e+00, -3.4028235e+38, 9.975292e-01, 1.1754944e-38, 1.9566885e+00], [-1.3610108e+00, -9.7543135e-02, 1.8167706e+00, -9.971942e-01, 1.0e-45, -8.500873e-01], [-0.0e+00, 1.7612545e+00, 1.6023073e+00, -2.776264e-01, 9.999999e-01, -1.2021236e+00], [7.9157764e-01, 1.3077845e-01, 0xFF800000, 5.293168e-01, -4.0e-45, 1.2976877e-01], [1.8598902e+00, -3.4028235e+38, -8.37649e-01, 0xFF800000, -6.2437284e-01, 2.4129134e-01]]> : tensor<6x6xf32>
    %15 = stablehlo.constant dense<[-4, -1, 7, -3]> : tensor<4xi32>
    %16:3 = "stablehlo.if"(%2#5) ({
      %17 = stablehlo.real %14 : tensor<6x6xf32>
      %18 = stablehlo.constant dense<[[false, false, true, false, true, false], [true, false, false, false, false, true], [true, true, false, true, true, true], [false, true, true, true, true, false], [true, true, false, true, true, false], [true, false, false, true, true, false]]> : tensor<6x6xi1>
      %19 = stablehlo.subtract %17, %17 : tensor<6x6xf32>
      %20 = stablehlo.maximum %19, %19 : tensor<6x6xf32>
      %21 = stablehlo.floor %20 : tensor<6x6xf32>
      %22 = stablehlo.logistic %21 : tensor<6x6xf32>
      %23 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %24 = stablehlo.broadcast_in_dim %23, dims = [] : (tensor<f32>) -> tensor<6x6xf32>
      %25 = stablehlo.maximum %22, %24 : tensor<6x6xf32>
      stablehlo.return %25, %18, %15 : tensor<6x6xf32>, tensor<6x6xi1>, tensor<4xi32>
    }, {
      %26 = stablehlo.real %arg3 : tensor<6x6xf32>
      %27 = stablehlo.constant dense<[[false, false, true, false, true, false], [true, false, false, false, false, true], [true, true, false, true, true, true], [false, true, true, true, true, false], [true, true, false, true, true, false], [true, false, false, true, true, false]]> : tensor<6x6xi1>
      %28 = stablehlo.subtract %26, %26 : tensor<6x6xf32>
      %29 = stablehlo.maximum %28, %28 : tensor<6x6xf32>
      %30 = stablehlo.floor %29 : tensor<6x6xf32>
      %31 = stablehlo.logistic %30 : tensor<6x6xf32>
      %32 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %33 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<f32>) -> tensor<6x6xf32>
      %34 = stablehlo.maximum %31, %33 : tensor<6x6xf32>
      stablehlo.return %34, %27, %15 : tensor<6x6xf32>, tensor<6x6xi1>, tensor<4xi32>
    }) : (tensor<i1>) -> (tensor<6x6xf32>, tensor<6x6xi1>, tensor<4xi32>)
    %35 = stablehlo.constant dense<[[-1.7376753e+00, -6.520631e-01, -1.29989e+00, -1.0459102e+00, -1.5700512e+00, 1.9269446e+00], [6.831914e-01, 1.3556757e+00, -1.7138883e-01, -6.429186e-01, -1.0220686e+00, 1.766532e-01], [-1.7875527e+00, 1.9711004e+00, -7.0212555e-01, 1.1230495e+00, 1.6908883e+00, -4.752115e-02], [6.5834695e-01, -4.5908833e-01, -7.143819e-01, 4.7229e-01, 1.3666587e+00, 1.5265195e+00], [-3.138473e-01, 1.3992658e+00, 1.6771754e+00, -7.47285e-01, 1.221405e+00, 1.0169655e+00], [1.6197432e+00, 1.465008e+00, 1.8172721e+00, 1.0061855e+00, -1.2021754e+00, 1.2153851e+00]]> : tensor<6x6xf32>
    %36 = func.call @shared_function(%35, %arg4) : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x5xcomplex<f64>>
    return %2#0, %2#1, %2#3, %16#0, %16#2, %36 : tensor<6x6xf32>, tensor<6x6xf32>, tensor<i32>, tensor<6x6xf32>, tensor<4xi32>, tensor<6x5xcomplex<f64>>
  }
  func.func private @shared_function(%arg0: tensor<6x6xf32>, %arg1: tensor<6x6xf32>) -> (tensor<6x5xcomplex<f64>>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.constant dense<1.578125e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<bf16>) -> tensor<3x6x6xbf16>
    %3 = stablehlo.constant dense<1.5e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<bf16>) -> tensor<3x6x6xbf16>
    %5 = stablehlo.constant dense<0x17> : tensor<f8E3M4>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f8E3M4>) -> tensor<6x6x6xf8E3M4>
    %7:5 = stablehlo.while(%iterArg_2 = %arg1, %iterArg_3 = %6, %iterArg_4 = %0, %iterArg_5 = %2, %iterArg_6 = %4) : tensor<6x6xf32>, tensor<6x6x6xf8E3M4>, tensor<i32>, tensor<3x6x6xbf16>, tensor<3x6x6xbf16>
    cond {
      %8 = stablehlo.constant dense<5> : tensor<i32>
      %9 = stablehlo.compare LT, %iterArg_4, %8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    } do {
      %10 = stablehlo.constant dense<0> : tensor<i32>
      %11 = stablehlo.constant dense<3> : tensor<i32>
      %12 = stablehlo.constant dense<0> : tensor<i32>
      %13 = stablehlo.dynamic_slice %iterArg_2, %11, %12, sizes = [2, 6] : (tensor<6x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x6xf32>
      %14 = stablehlo.dynamic_update_slice %iterArg_2, %13, %iterArg_4, %10 : (tensor<6x6xf32>, tensor<2x6xf32>, tensor<i32>, tensor<i32>) -> tensor<6x6xf32>
      %15 = stablehlo.constant dense<1> : tensor<i32>
      %16 = stablehlo.add %15, %iterArg_4 : tensor<i32>
      %17 = stablehlo.constant dense<0> : tensor<i32>
      %18 = stablehlo.constant dense<3> : tensor<i32>
      %19 = stablehlo.constant dense<0> : tensor<i32>
      %20 = stablehlo.dynamic_slice %iterArg_5, %18, %19, %19, sizes = [1, 6, 6] : (tensor<3x6x6xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x6x6xbf16>
      %21 = stablehlo.dynamic_update_slice %iterArg_5, %20, %iterArg_4, %17, %17 : (tensor<3x6x6xbf16>, tensor<1x6x6xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x6x6xbf16>
      stablehlo.return %14, %iterArg_3, %16, %21, %iterArg_5 : tensor<6x6xf32>, tensor<6x6x6xf8E3M4>, tensor<i32>, tensor<3x6x6xbf16>, tensor<3x6x6xbf16>
    }
    %22 = stablehlo.constant dense<0> : tensor<i64>
    %23 = stablehlo.constant dense<-2> : tensor<i16>
    %24 = stablehlo.constant dense<[[-1.0088756983318077e+00, 5.080058094765287e-01, 1.435791925620821e+00, 9.302991213542917e-01, 1.9133314251340918e+00], [-4.587848473348024e-01, 1.0356838257319652e+00, -1.344675575618262e+00, 1.464043754623066e+00, -1.1989738648539738e-01], [-8.767882248559467e-02, -1.0486196338625189e+00, -3.800850338830086e-01, -1.8362687919792067e+00, -1.4880216228189989e+00], [1.0549851182225662e+00, -1.132156973088433e+00, -3.3920992566203845e-01, 1.7513855831039424e+00, 4.1371396874984834e-01], [1.553790964681407e+00, -6.231637282072904e-01, -1.6526597210418648e+00, 8.835286619845353e-01, -1.611507147615435e+00], [5.917932410376605e-01, -9.317111342425153e-01, -1.943967112794883e+00, 4.29087068098164e-01, -5.924172323031307e-01]]> : tensor<6x5xf64>
    %25 = stablehlo.constant dense<0x31> : tensor<f8E3M4>
    %26 = stablehlo.broadcast_in_dim %25, dims = [] : (tensor<f8E3M4>) -> tensor<6x6x6xf8E3M4>
    %27:6 = stablehlo.while(%iterArg_7 = %26, %iterArg_8 = %7#1, %iterArg_9 = %22, %iterArg_10 = %24, %iterArg_11 = %23, %iterArg_12 = %4) : tensor<6x6x6xf8E3M4>, tensor<6x6x6xf8E3M4>, tensor<i64>, tensor<6x5xf64>, tensor<i16>, tensor<3x6x6xbf16>
    cond {
      %28 = stablehlo.constant dense<0> : tensor<i64>
      %29 = stablehlo.compare LT, %iterArg_9, %28, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %30 = stablehlo.constant dense<-34> : tensor<i16>
      %31 = stablehlo.compare GE, %iterArg_11, %30, SIGNED : (tensor<i16>, tensor<i16>) -> tensor<i1>
      %32 = stablehlo.and %29, %31 : tensor<i1>
      stablehlo.return %32 : tensor<i1>
    } do {
      %33 = stablehlo.constant dense<1> : tensor<i64>
      %34 = stablehlo.add %33, %iterArg_9 : tensor<i64>
      %35 = stablehlo.constant dense<8> : tensor<i16>
      %36 = stablehlo.subtract %iterArg_11, %35 : tensor<i16>
      stablehlo.return %iterArg_8, %iterArg_8, %34, %iterArg_10, %36, %iterArg_12 : tensor<6x6x6xf8E3M4>, tensor<6x6x6xf8E3M4>, tensor<i64>, tensor<6x5xf64>, tensor<i16>, tensor<3x6x6xbf16>
    }
    %37 = stablehlo.real %27#3 : tensor<6x5xf64>
    %38 = stablehlo.imag %27#3 : tensor<6x5xf64>
    %39 = stablehlo.complex %38, %37 : tensor<6x5xcomplex<f64>>
    return %39 : tensor<6x5xcomplex<f64>>
  }
}
