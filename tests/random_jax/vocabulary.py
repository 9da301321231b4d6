"""What random programs are made of: templates over public JAX functions.

Each is chosen so that a right implementation cannot be far from another one: no logarithm of zero, no division by a small
number. Where rounding may still decide (a comparison, an argmax), the judge sees it (judge.py).
"""

FLOAT_1 = ["jnp.sin({0})", "jnp.cos({0})", "jnp.tanh({0})", "jnp.exp(jnp.clip({0}, -3, 3))", "jnp.log1p(jnp.abs({0}))",
           "jnp.sqrt(jnp.abs({0}) + 0.5)", "jax.nn.sigmoid({0})", "jax.nn.softplus({0})", "jax.nn.relu({0})",
           "jax.nn.gelu({0})", "jnp.square({0}) * 0.25", "-{0}", "{0} * 0.5 + 1", "lax.rsqrt(jnp.abs({0}) + 0.5)",
           "lax.erf({0})", "jnp.arctan({0})", "jnp.where({0} > 0, {0}, 0.1 * {0})", "jnp.expm1(jnp.clip({0}, -2, 2))",
           "lax.stop_gradient({0})", "jnp.clip({0}, -1, 1)", "lax.integer_pow(jnp.clip({0}, -2, 2), 3)", "jax.nn.silu({0})",
           "lax.optimization_barrier({0})", "jnp.nan_to_num({0})", "jnp.sinh(jnp.clip({0}, -2, 2))", "jnp.isfinite({0})",
           "lax.reduce_precision({0}, 8, 10)", "jnp.abs({0})", "jax.nn.elu({0})", "jnp.exp2(jnp.clip({0}, -3, 3))"]
FLOAT_2 = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "jnp.maximum({0}, {1})", "jnp.minimum({0}, {1})", "{0} / (jnp.abs({1}) + 1)",
           "jnp.arctan2({0}, jnp.abs({1}) + 1)", "jnp.where({0} < {1}, {0}, {1})", "jnp.logaddexp({0}, {1})",
           "jnp.power(jnp.abs({0}) + 0.5, jnp.clip({1}, -2, 2))", "lax.add({0}, {1})"]
INTEGER_1 = ["{0} + 1", "-{0}", "~{0}", "{0} * 3", "{0} >> 1", "lax.population_count({0})", "{0} % 5", "{0} // 3", "lax.clz({0})",
             "jnp.where({0} % 2 == 0, {0} // 2, {0} * 3 + 1)", "jnp.bitwise_count({0})", "{0} << 2", "jnp.minimum({0}, 9)"]
INTEGER_2 = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "jnp.maximum({0}, {1})",
             "{0} % (({1} & 7) + 1)", "{0} // (({1} & 7) + 1)", "{0} << ({1} & 3)", "jnp.where({0} < {1}, {0}, {1})"]
BOOL_1 = ["~{0}", "jnp.logical_not({0})"]
BOOL_2 = ["{0} & {1}", "{0} | {1}", "{0} ^ {1}", "jnp.where({0}, {1}, ~{1})"]
COMPLEX_1 = ["jnp.conj({0})", "{0} * (0.5 + 0.5j)", "jnp.real({0})", "jnp.imag({0})", "jnp.abs({0}) + 0.25"]
COMPLEX_2 = ["{0} + {1}", "{0} - {1}", "{0} * {1} * 0.25"]
COMPARE = ["{0} < {1}", "{0} >= {1}", "{0} == {1}", "{0} != {1}"]

REDUCE_NUMBER = ["jnp.sum({0}, axis={axis})", "jnp.max({0}, axis={axis})", "jnp.min({0}, axis={axis})",
                 "jnp.mean({0}, axis={axis})", "jnp.cumsum({0}, axis={axis})", "lax.cummax({0}, axis={axis})",
                 "jnp.cumsum({0}[::-1], axis={axis})", "jnp.argmax({0}, axis={axis})", "jnp.argmin({0}, axis={axis})",
                 "jnp.sum({0}, axis={axis}, keepdims=True)", "jnp.ptp({0}, axis={axis})", "jnp.median({0}, axis={axis})",
                 "jnp.count_nonzero({0}, axis={axis})", "jnp.sort({0}, axis={axis})", "jnp.argsort({0}, axis={axis})",
                 "jnp.flip({0}, axis={axis})", "lax.cumlogsumexp(jnp.clip({0} * 1.0, -5, 5), axis={axis})"]
REDUCE_FLOAT = ["jax.nn.softmax({0}, axis={axis})", "jax.nn.logsumexp({0}, axis={axis})", "jnp.var({0}, axis={axis})",
                "jax.nn.log_softmax({0}, axis={axis})", "jnp.prod(jnp.clip({0}, -1.5, 1.5), axis={axis})",
                "jax.nn.standardize({0} + jnp.arange({0}.shape[{axis}]).astype({0}.dtype).reshape([-1] + [1] * ({0}.ndim - 1 - {axis})), axis={axis})",
                "lax.associative_scan(jnp.add, {0}, axis={axis})", "lax.associative_scan(jnp.maximum, {0}, axis={axis}, reverse=True)",
                "lax.associative_scan(lambda p, q: (p[0] * q[0] * 0.5, p[1] * q[0] + q[1]), (jnp.tanh({0}), {0}), axis={axis})[1]"]
REDUCE_BOOL = ["jnp.any({0}, axis={axis})", "jnp.all({0}, axis={axis})", "jnp.sum({0}, axis={axis})", "jnp.cumsum({0}, axis={axis})"]

MOVE = ["jnp.ravel({0})", "jnp.transpose({0})", "{0}[::-1]", "jnp.roll({0}, {k}, axis=0)", "{0}[::2]", "{0}[:, None]", "{0}[None]",
        "jnp.concatenate([{0}, {0}[:1]], axis=0)", "jnp.stack([{0}, {0}])", "jnp.pad({0}, [(1, {k})] + [(0, 0)] * ({0}.ndim - 1))",
        "jnp.pad({0}, 1, mode='edge')", "jnp.pad({0}, [({k}, 0)] + [(0, 0)] * ({0}.ndim - 1), mode='wrap')", "jnp.tile({0}, 2)",
        "jnp.repeat({0}, {k} + 1, axis=0)", "{0}[{k}]", "{0}[-1]", "jnp.moveaxis({0}, 0, -1)", "jnp.broadcast_to({0}, (2,) + {0}.shape)",
        "jnp.triu({0})", "jnp.rot90({0})", "{0}[..., 0]", "jnp.array_split({0}, 2)[0]", "jnp.diff({0}, axis=0)", "jnp.swapaxes({0}, 0, -1)",
        "{0}[1:] + {0}[:-1]", "jnp.atleast_2d({0})", "jnp.expand_dims({0}, -1)", "jnp.squeeze({0})", "lax.rev({0}, (0,))",
        "jnp.kron({0}[:2], {0}[-1:])", "jnp.copy({0})", "{0}.T.reshape({0}.shape)", "jnp.take({0}, jnp.array([0, {k}, 0]), axis=0, mode='clip')"]
INDEX = ["{0}[{1} % {0}.shape[0]]", "{0}.at[{1} % {0}.shape[0]].add(1)", "{0}.at[{1} % {0}.shape[0]].max(2)",
         "jnp.take({0}, {1}, axis=0, mode='clip')", "jnp.take({0}, {1}, axis=0, mode='wrap')", "{0}.at[{1}].add(2, mode='drop')",
         "{0}.at[{1} % {0}.shape[0]].multiply(2)", "jax.ops.segment_sum({0}, jnp.resize({1}, {0}.shape[:1]) % 3, num_segments=3)",
         "jnp.bincount({1}.ravel() % 6, length=6)", "jax.nn.one_hot({1} % 5, 5)", "{0}[jnp.clip({1}, 0, 1)]"]
INDEXED = ["lax.dynamic_index_in_dim({0}, {1}, axis=0, keepdims=False)", "lax.dynamic_slice_in_dim({0}, {1}, 1, axis=0)",
         "lax.dynamic_update_index_in_dim({0}, {0}[0] + {0}[-1], {1}, axis=0)", "{0}.at[{1}].set({0}[0])",
         "lax.dynamic_update_slice_in_dim({0}, {0}[:1] + {0}[-1:], {1}, axis=0)", "jnp.roll({0}, {1} % 3, axis=0)",
         "{0}.at[{1}].add({0}[0])", "jnp.where(jnp.arange({0}.shape[0]).reshape([-1] + [1] * ({0}.ndim - 1)) < {1}, {0}, {0}[0])"]
PRODUCT = ["jnp.tensordot({0}, {1}, axes=([0], [0]))", "jnp.einsum('i...,i...->i', {0}, {1})", "jnp.einsum('i...,j...->ij', {0}, {1})",
           "jnp.outer({0}[0], {1}[0])", "jnp.dot({0}.reshape({0}.shape[0], -1).T, {1}.reshape({1}.shape[0], -1))",
           "jnp.convolve({0}.ravel(), {1}.ravel()[:3], mode='same')", "jnp.inner({0}, {1})",
           "lax.dot_general({0}, {1}, (((0,), (0,)), ((), ())))", "jnp.vdot({0}, {1})"]
SORTED = ["jnp.searchsorted(jnp.sort({0}.ravel()), {1}.ravel())", "lax.top_k({0}, {0}.shape[-1] // 2 + 1)[0]",
          "jnp.take_along_axis({0}, jnp.argsort({1}, axis=-1), axis=-1)", "lax.sort(({0}, {1}), num_keys=1)[1]",
          "lax.sort(({1}, {0}), num_keys=2, dimension=0)[0]", "jnp.partition({0}, 0, axis=-1)[..., :1]", "jnp.unique({0}, size=4, fill_value=0)",
          "jnp.lexsort(({0}.ravel(), {1}.ravel()))", "jnp.histogram({0}, bins=jnp.arange(5) - 1.37)[0]"]
RANDOM = ["jax.random.normal(jax.random.key({0} & 255), {shape})", "jax.random.uniform(jax.random.fold_in(jax.random.key(7), {0}), {shape})",
          "jax.random.randint(jax.random.PRNGKey({0} & 255), {shape}, 0, 50)", "jax.random.permutation(jax.random.key({0} & 15), 6)",
          "jax.random.bits(jax.random.key({0} & 255), {shape}, 'uint32')", "jax.random.bernoulli(jax.random.key({0} & 255), 0.3, {shape})",
          "jax.random.categorical(jax.random.key({0} & 255), jnp.zeros({shape} + (4,)))",
          "jax.random.key_data(jax.random.split(jax.random.key({0} & 255), 3))", "jax.random.gumbel(jax.random.key({0} & 255), {shape})"]
# Over the four devices of a mesh with axes x and y; the first dimension is even where it is split.
MESH = ["jax.shard_map(lambda a: a + lax.psum(a, 'x'), mesh=mesh, in_specs=PartitionSpec('x'), out_specs=PartitionSpec('x'))({0})",
        "jax.shard_map(lambda a: lax.all_gather(a, 'x', tiled=True)[:a.shape[0]] * 1, mesh=mesh, in_specs=PartitionSpec('x'), out_specs=PartitionSpec('x'), check_vma=False)({0})",
        "jax.shard_map(lambda a: lax.ppermute(a, 'x', [(0, 1), (1, 0)]), mesh=mesh, in_specs=PartitionSpec('x'), out_specs=PartitionSpec('x'))({0})",
        "jax.shard_map(lambda a: lax.pmax(a, ('x', 'y')), mesh=mesh, in_specs=PartitionSpec('x'), out_specs=PartitionSpec())({0})",
        "jax.shard_map(lambda a: a * (1 + lax.axis_index('x')).astype(a.dtype), mesh=mesh, in_specs=PartitionSpec('x'), out_specs=PartitionSpec('x'))({0})",
        "jax.shard_map(lambda a: lax.fori_loop(0, 3, lambda i, v: v + lax.psum(v, 'x') % 7, a), mesh=mesh, in_specs=PartitionSpec('x'), out_specs=PartitionSpec('x'))({0})",
        "lax.with_sharding_constraint({0}, NamedSharding(mesh, PartitionSpec('x')))",
        "lax.with_sharding_constraint({0}, NamedSharding(mesh, PartitionSpec()))"]
