// Operations that libraries and loops compute, and for which a run allocates memory of its own.
module @many_operations {
  func.func private @cube(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.multiply %x, %x : tensor<f32>
    %1 = stablehlo.multiply %0, %x : tensor<f32>
    return %1 : tensor<f32>
  }
  func.func public @main(%m: tensor<96x96xf32>, %image: tensor<2x20x20x8xf32>, %kernel: tensor<3x3x8x16xf32>) -> (tensor<96x96xf32>, tensor<96xf32>, tensor<96x49xf32>, tensor<96x96xf32>, tensor<96x96xf32>, tensor<2x20x20x16xf32>, tensor<96x96xf32>, tensor<96x96xf32>, tensor<96x96xf32>, tensor<96x24xf32>, tensor<96x96xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %t = stablehlo.transpose %m, dims = [1, 0] : (tensor<96x96xf32>) -> tensor<96x96xf32>
    %p = stablehlo.dot_general %m, %t, contracting_dims = [1] x [0] : (tensor<96x96xf32>, tensor<96x96xf32>) -> tensor<96x96xf32>
    %i0 = stablehlo.iota dim = 0 : tensor<96x96xi32>
    %i1 = stablehlo.iota dim = 1 : tensor<96x96xi32>
    %eq = stablehlo.compare EQ, %i0, %i1, SIGNED : (tensor<96x96xi32>, tensor<96x96xi32>) -> tensor<96x96xi1>
    %d = stablehlo.constant dense<50.0> : tensor<96x96xf32>
    %n = stablehlo.constant dense<0.0> : tensor<96x96xf32>
    %shift = stablehlo.select %eq, %d, %n : tensor<96x96xi1>, tensor<96x96xf32>
    %spd = stablehlo.add %p, %shift : tensor<96x96xf32>
    %l = stablehlo.cholesky %spd, lower = true : tensor<96x96xf32>
    %lower = stablehlo.compare GE, %i0, %i1, SIGNED : (tensor<96x96xi32>, tensor<96x96xi32>) -> tensor<96x96xi1>
    %factor = stablehlo.select %lower, %l, %n : tensor<96x96xi1>, tensor<96x96xf32>
    %solved = "stablehlo.triangular_solve"(%factor, %m) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<96x96xf32>, tensor<96x96xf32>) -> tensor<96x96xf32>
    %sum = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<96x96xf32>, tensor<f32>) -> tensor<96xf32>
    %f = stablehlo.fft %m, type = RFFT, length = [96] : (tensor<96x96xf32>) -> tensor<96x49xcomplex<f32>>
    %re = stablehlo.real %f : (tensor<96x49xcomplex<f32>>) -> tensor<96x49xf32>
    %sorted = "stablehlo.sort"(%m) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
    }) {dimension = 1 : i64, is_stable = true} : (tensor<96x96xf32>) -> tensor<96x96xf32>
    %conv = stablehlo.convolution(%image, %kernel) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x20x20x8xf32>, tensor<3x3x8x16xf32>) -> tensor<2x20x20x16xf32>
    %limit = stablehlo.constant dense<5> : tensor<i32>
    %step = stablehlo.constant dense<1> : tensor<i32>
    %start = stablehlo.constant dense<0> : tensor<i32>
    %scale = stablehlo.constant dense<0.05> : tensor<96x96xf32>
    %loop:2 = stablehlo.while(%k = %start, %s = %m) : tensor<i32>, tensor<96x96xf32>
      cond {
        %c = stablehlo.compare LT, %k, %limit, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %q = stablehlo.dot_general %s, %m, contracting_dims = [1] x [0] : (tensor<96x96xf32>, tensor<96x96xf32>) -> tensor<96x96xf32>
        %r = stablehlo.multiply %q, %scale : tensor<96x96xf32>
        %next = stablehlo.add %k, %step : tensor<i32>
        stablehlo.return %next, %r : tensor<i32>, tensor<96x96xf32>
      }
    %two = stablehlo.constant dense<2> : tensor<i32>
    %first = stablehlo.slice %sum [0:1] : (tensor<96xf32>) -> tensor<1xf32>
    %head = stablehlo.reshape %first : (tensor<1xf32>) -> tensor<f32>
    %positive = stablehlo.compare GT, %head, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %branch = "stablehlo.if"(%positive) ({
        %y = stablehlo.exponential %m : tensor<96x96xf32>
        stablehlo.return %y : tensor<96x96xf32>
      }, {
        %y = stablehlo.tanh %m : tensor<96x96xf32>
        stablehlo.return %y : tensor<96x96xf32>
      }) : (tensor<i1>) -> tensor<96x96xf32>
    %rows = stablehlo.iota dim = 0 : tensor<96x1xi32>
    %scattered = "stablehlo.scatter"(%n, %rows, %m) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<96x96xf32>, tensor<96x1xi32>, tensor<96x96xf32>) -> tensor<96x96xf32>
    %pooled = "stablehlo.reduce_window"(%m, %zero) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }) {window_dimensions = array<i64: 1, 4>, window_strides = array<i64: 1, 4>} : (tensor<96x96xf32>, tensor<f32>) -> tensor<96x24xf32>
    %h = stablehlo.convert %m : (tensor<96x96xf32>) -> tensor<96x96xbf16>
    %hh = stablehlo.dot_general %h, %h, contracting_dims = [1] x [0] : (tensor<96x96xbf16>, tensor<96x96xbf16>) -> tensor<96x96xf32>
    return %solved, %sum, %re, %sorted, %loop#1, %conv, %branch, %scattered, %factor, %pooled, %hh : tensor<96x96xf32>, tensor<96xf32>, tensor<96x49xf32>, tensor<96x96xf32>, tensor<96x96xf32>, tensor<2x20x20x16xf32>, tensor<96x96xf32>, tensor<96x96xf32>, tensor<96x96xf32>, tensor<96x24xf32>, tensor<96x96xf32>
  }
}
