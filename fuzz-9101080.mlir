module @fuzz_9101080 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<33xi64>, %arg1: tensor<1xi64>, %arg2: tensor<4x3x7x4xf32>, %arg3: tensor<4x3x7x4xf32>, %arg4: tensor<i32>, %arg5: tensor<3x3x4x4xf32>, %arg6: tensor<4x17x4xi32>) -> (tensor<33xi64>, tensor<4x3x7x4xui64>, tensor<4x3x7x4xf32>, tensor<33xi64>, tensor<4x3x7x4xcomplex<f32>>, tensor<33xi64>) {
    %0 = stablehlo.constant dense<-1> : tensor<i64>
    %1 = stablehlo.reduce(%arg0 init: %0) applies stablehlo.and across dimensions = [] : (tensor<33xi64>, tensor<i64>) -> tensor<33xi64>
    %2 = "stablehlo.gather"(%1, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], start_index_map = [0], index_vector_dim = 0>, indices_are_sorted = false, slice_sizes = array<i64: 33>}> : (tensor<33xi64>, tensor<1xi64>) -> tensor<33xi64>
    %3 = stablehlo.atan2 %arg3, %arg2 : tensor<4x3x7x4xf32>
    %4 = stablehlo.constant dense<5> : tensor<i32>
    %5 = stablehlo.constant dense<-2> : tensor<i32>
    %6 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.dynamic_update_slice %3, %arg5, %4, %arg4, %5, %6 : (tensor<4x3x7x4xf32>, tensor<3x3x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x3x7x4xf32>
    %8 = "stablehlo.map"(%arg2, %7) <{dimensions = array<i64: 0, 1, 2, 3>}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %9 = stablehlo.constant dense<0.0e+00> : tensor<f32>
      %10 = stablehlo.multiply %arg8, %9 : tensor<f32>
      stablehlo.return %10 : tensor<f32>
    }) : (tensor<4x3x7x4xf32>, tensor<4x3x7x4xf32>) -> tensor<4x3x7x4xf32>
    %11 = stablehlo.constant dense<-1> : tensor<i32>
    %12 = stablehlo.reduce(%arg6 init: %11) applies stablehlo.and across dimensions = [2] : (tensor<4x17x4xi32>, tensor<i32>) -> tensor<4x17xi32>
    %13 = stablehlo.subtract %12, %12 : tensor<4x17xi32>
    %14 = stablehlo.convert %8 : (tensor<4x3x7x4xf32>) -> tensor<4x3x7x4xui64>
    %15 = stablehlo.constant dense<2> : tensor<ui64>
    %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<ui64>) -> tensor<4x3x7x4xui64>
    %17 = stablehlo.add %14, %16 : tensor<4x3x7x4xui64>
    %18 = stablehlo.composite "chlo.erf" %3 {decomposition = @chlo.erf.impl, version = 1 : i32} : (tensor<4x3x7x4xf32>) -> tensor<4x3x7x4xf32>
    %19 = stablehlo.constant dense<false> : tensor<i1>
    %20:2 = "stablehlo.if"(%19) ({
      %21 = stablehlo.constant dense<[-2, -1, 7, -3, -2, 1, -5, -4, 4, 4, 3, 4, -5, 5, 5, 3, 3, 5, -2, 3, 0, 5, 6, 5, 5, 0, -2, 7, -5, 2, 2, 6, 4]> : tensor<33xi64>
      %22 = stablehlo.constant dense<-0.0e+00> : tensor<f32>
      %23 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<f32>) -> tensor<3x3x4x4xf32>
      stablehlo.return %21, %23 : tensor<33xi64>, tensor<3x3x4x4xf32>
    }, {
      %24 = stablehlo.constant dense<[9223372036854775807, 3960071661153426604, 8270503614143367474, 9223372036854775807, 2586513968353019342, -3961461890810499955, -4694293142169189704, 6115109526931416033, -9223372036854775808, 0, 1730505291805045483, -5176865669824133268, 2118275716995441045, 7059649678599589088, 9223372036854775807, 3318708566989455253, 1956834228991188977, -1554645573184115040, 8472916737763629884, 7348649111176329847, 3967748300171092043, 6316762566414634749, 2396913142563782565, 7528246899798421556, -5707663095319514586, 2814221322119345910, 0, -9223372036854775808, 9223372036854775807, 1663446501855899922, 1878774795740312152, 860477312061174651, 9223372036854775807]> : tensor<33xi64>
      %25 = stablehlo.constant dense<9.0939474e-01> : tensor<f32>
      %26 = stablehlo.broadcast_in_dim %25, dims = [] : (tensor<f32>) -> tensor<3x3x4x4xf32>
      stablehlo.return %24, %26 : tensor<33xi64>, tensor<3x3x4x4xf32>
    }) : (tensor<i1>) -> (tensor<33xi64>, tensor<3x3x4x4xf32>)
    %27 = stablehlo.complex %8, %arg3 : tensor<4x3x7x4xcomplex<f32>>
    %28 = stablehlo.and %1, %1 : tensor<33xi64>
    return %2, %17, %18, %20#0, %27, %28 : tensor<33xi64>, tensor<4x3x7x4xui64>, tensor<4x3x7x4xf32>, tensor<33xi64>, tensor<4x3x7x4xcomplex<f32>>, tensor<33xi64>
  }
  func.func private @chlo.erf.impl(%arg0: tensor<4x3x7x4xf32>) -> (tensor<4x3x7x4xf32>) {
    %0 = stablehlo.constant dense<1.0e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %2 = stablehlo.constant dense<-4.0e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %4 = stablehlo.constant dense<4.0e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %6 = stablehlo.clamp %3, %arg0, %5 : tensor<4x3x7x4xf32>
    %7 = stablehlo.multiply %6, %6 : tensor<4x3x7x4xf32>
    %8 = stablehlo.constant dense<-2.7261424e-10> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %10 = stablehlo.multiply %9, %7 : tensor<4x3x7x4xf32>
    %11 = stablehlo.constant dense<2.7706815e-08> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %13 = stablehlo.add %10, %12 : tensor<4x3x7x4xf32>
    %14 = stablehlo.multiply %13, %7 : tensor<4x3x7x4xf32>
    %15 = stablehlo.constant dense<-2.101024e-06> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %17 = stablehlo.add %14, %16 : tensor<4x3x7x4xf32>
    %18 = stablehlo.multiply %17, %7 : tensor<4x3x7x4xf32>
    %19 = stablehlo.constant dense<-5.6925062e-05> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %21 = stablehlo.add %18, %20 : tensor<4x3x7x4xf32>
    %22 = stablehlo.multiply %21, %7 : tensor<4x3x7x4xf32>
    %23 = stablehlo.constant dense<-7.3499064e-04> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %25 = stablehlo.add %22, %24 : tensor<4x3x7x4xf32>
    %26 = stablehlo.multiply %25, %7 : tensor<4x3x7x4xf32>
    %27 = stablehlo.constant dense<-2.9546e-03> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %29 = stablehlo.add %26, %28 : tensor<4x3x7x4xf32>
    %30 = stablehlo.multiply %29, %7 : tensor<4x3x7x4xf32>
    %31 = stablehlo.constant dense<-1.6096033e-02> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %33 = stablehlo.add %30, %32 : tensor<4x3x7x4xf32>
    %34 = stablehlo.multiply %6, %33 : tensor<4x3x7x4xf32>
    %35 = stablehlo.constant dense<-1.45660715e-05> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %37 = stablehlo.multiply %36, %7 : tensor<4x3x7x4xf32>
    %38 = stablehlo.constant dense<-2.1337405e-04> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %40 = stablehlo.add %37, %39 : tensor<4x3x7x4xf32>
    %41 = stablehlo.multiply %40, %7 : tensor<4x3x7x4xf32>
    %42 = stablehlo.constant dense<-1.682827e-03> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %44 = stablehlo.add %41, %43 : tensor<4x3x7x4xf32>
    %45 = stablehlo.multiply %44, %7 : tensor<4x3x7x4xf32>
    %46 = stablehlo.constant dense<-7.3733293e-03> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %48 = stablehlo.add %45, %47 : tensor<4x3x7x4xf32>
    %49 = stablehlo.multiply %48, %7 : tensor<4x3x7x4xf32>
    %50 = stablehlo.constant dense<-1.4264739e-02> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %52 = stablehlo.add %49, %51 : tensor<4x3x7x4xf32>
    %53 = stablehlo.divide %34, %52 : tensor<4x3x7x4xf32>
    %54 = stablehlo.constant dense<-1.0e+00> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [] : (tensor<f32>) -> tensor<4x3x7x4xf32>
    %56 = stablehlo.clamp %55, %53, %1 : tensor<4x3x7x4xf32>
    return %56 : tensor<4x3x7x4xf32>
  }
}
