module @fuzz_9101284 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x9x11x1xcomplex<f64>>, %arg1: tensor<3xui64>, %arg2: tensor<2xui16>, %arg3: tensor<i1>) -> (tensor<9x8x11x2xcomplex<f64>>, tensor<2x9x1xcomplex<f64>>, tensor<2xui16>, tensor<2xui16>, tensor<ui64>, tensor<2xui16>) {
    %0 = stablehlo.constant dense<[[[(-7.525466373559793e-01,-1.1523458980948078e+00), (-2.3570643614554143e-01,-8.519724677473439e-02)]], [[(-1.625137077323712e+00,-1.9387622393252748e+00), (-4.6821137992619555e-01,-1.3070145774488808e+00)]], [[(-1.585169723931216e+00,-6.547751932429406e-01), (-2.9563946701216137e-01,1.0393747278035748e+00)]], [[(1.3572396716566297e+00,-1.33369139438868e+00), (-4.8880611118549444e-01,3.015545240330444e-01)]], [[(-3.385992614133242e-01,-1.935630087909626e+00), (-3.6136922847834585e-01,-1.7519121800629938e+00)]], [[(-1.699518640114186e-01,6.323136197826771e-01), (-1.0108267190861118e+00,-1.7361816159514283e+00)]], [[(-3.775604656554621e-01,-1.649141776597773e+00), (9.357916963998334e-01,1.7019402954192082e+00)]], [[(1.782516283850371e+00,1.0795688713170986e+00), (1.1563252248709786e+00,1.7301158949414148e+00)]], [[(-1.9016046239545799e+00,-1.7029994710613945e+00), (1.2492149355561297e+00,-1.2634195599727773e+00)]]]> : tensor<9x1x2xcomplex<f64>>
    %1 = stablehlo.dot_general %arg0, %0, batching_dims = [1] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x9x11x1xcomplex<f64>>, tensor<9x1x2xcomplex<f64>>) -> tensor<9x8x11x2xcomplex<f64>>
    %2 = stablehlo.popcnt %arg1 : tensor<3xui64>
    %3 = stablehlo.transpose %0, dims = [2, 0, 1] : (tensor<9x1x2xcomplex<f64>>) -> tensor<2x9x1xcomplex<f64>>
    %4 = stablehlo.xor %arg2, %arg2 : tensor<2xui16>
    %5:2 = "stablehlo.if"(%arg3) ({
      stablehlo.return %4, %4 : tensor<2xui16>, tensor<2xui16>
    }, {
      %6 = stablehlo.reshape %4 : tensor<2xui16>
      stablehlo.return %6, %4 : tensor<2xui16>, tensor<2xui16>
    }) : (tensor<i1>) -> (tensor<2xui16>, tensor<2xui16>)
    %7 = stablehlo.dot_general %2, %arg1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3xui64>, tensor<3xui64>) -> tensor<ui64>
    %8 = stablehlo.constant dense<0> : tensor<ui16>
    %9 = stablehlo.reduce(%arg2 init: %8) across dimensions = [] : (tensor<2xui16>, tensor<ui16>) -> tensor<2xui16>
     reducer(%arg4: tensor<ui16>, %arg5: tensor<ui16>)  {
      %10 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui16>) -> tensor<1x1xui16>
      %11 = stablehlo.broadcast_in_dim %arg5, dims = [] : (tensor<ui16>) -> tensor<1x1xui16>
      %12 = stablehlo.concatenate %10, %11, dim = 0 : (tensor<1x1xui16>, tensor<1x1xui16>) -> tensor<2x1xui16>
      %13 = stablehlo.constant dense<0> : tensor<ui16>
      %14 = stablehlo.reduce(%12 init: %13) applies stablehlo.add across dimensions = [0] : (tensor<2x1xui16>, tensor<ui16>) -> tensor<1xui16>
      %15 = stablehlo.slice %14 [0:1] : (tensor<1xui16>) -> tensor<1xui16>
      %16 = stablehlo.reshape %15 : (tensor<1xui16>) -> tensor<ui16>
      stablehlo.return %16 : tensor<ui16>
    }
    return %1, %3, %5#0, %5#1, %7, %9 : tensor<9x8x11x2xcomplex<f64>>, tensor<2x9x1xcomplex<f64>>, tensor<2xui16>, tensor<2xui16>, tensor<ui64>, tensor<2xui16>
  }
}
