"""A hundred JAX programs of every kind: small enough to compile in a minute together, different enough to reach most of
what HLO can say. PROGRAMS maps a name to (function, arguments); arguments are NumPy arrays made from a fixed seed."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PROGRAMS = {}
rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(*shape, dtype=np.int32, low=-9, high=10):
    return rng.integers(low, high, shape).astype(dtype)


def program(*arguments):
    def add(function):
        PROGRAMS[function.__name__] = (function, arguments)
        return function
    return add


def simple(name, function, *arguments):
    PROGRAMS[name] = (function, arguments)


A, B, V = f32(4, 8), f32(8, 5), f32(16)
POSITIVE = np.abs(f32(4, 8)) + 0.5

# Elementwise
simple("add_scalar", lambda x: x + 1, A)
simple("unary_math", lambda x: [jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.tanh(x), jnp.exp(x), jnp.expm1(x), jnp.abs(x),
                                jnp.sign(x), jnp.floor(x), jnp.ceil(x), jnp.round(x), jax.nn.sigmoid(x)], A)
simple("unary_positive", lambda x: [jnp.log(x), jnp.log1p(x), jnp.sqrt(x), lax.rsqrt(x), jnp.cbrt(x)], POSITIVE)
simple("inverse_math", lambda x: [jnp.arcsin(x / 20), jnp.arctan(x), jnp.sinh(x), jnp.cosh(x), jnp.arctanh(x / 20)], A)
simple("special", lambda x: [lax.erf(x), lax.erfc(x), lax.lgamma(x), lax.digamma(x), lax.erf_inv(x / 20)], POSITIVE)
simple("binary", lambda x, y: [x * y, x - y, x / y, jnp.maximum(x, y), jnp.minimum(x, y), jnp.power(y, x),
                               jnp.arctan2(x, y), jnp.fmod(x, y)], A, POSITIVE)
simple("integers", lambda x, y: [x + y, x // y, x % y, x & y, x | y, x ^ y, x << 2, x >> 1,
                                 lax.shift_right_logical(x, jnp.int32(1)), lax.population_count(x), lax.clz(x)],
       ints(16), ints(16, low=1, high=5))
simple("unsigned", lambda x: [x // np.uint8(3), x * np.uint8(7), x >> np.uint8(2), ~x], ints(16, dtype=np.uint8, low=0, high=255))
simple("int64", lambda x: [x * 1000003, x // 7, x ^ (x << 3)], ints(8, dtype=np.int64))
simple("int8_matmul", lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32), ints(4, 8, dtype=np.int8), ints(8, 3, dtype=np.int8))
simple("compare", lambda x, y: [x < y, x <= y, x == y, x != y, jnp.isfinite(x), jnp.isnan(x), x > 0], A, f32(4, 8))
simple("select", lambda x, y: jnp.where(x > y, x, y * 2), A, f32(4, 8))
simple("clamp", lambda x: jnp.clip(x, -0.5, 0.5), A)
simple("complex_math", lambda x: [x * x, jnp.exp(x), jnp.abs(x), x.real, x.imag, jnp.conj(x), 1 / x],
       (f32(6) + 1j * f32(6)).astype(np.complex64))
simple("complex128", lambda x: [x @ x, jnp.sqrt(x)], f32(3, 3).astype(np.float64) + 1j * f32(3, 3))
simple("float64", lambda x: [jnp.sin(x), x @ x.T, jnp.sum(x)], f32(4, 6).astype(np.float64))
simple("bfloat16", lambda x: (x * 2 + 1).astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16), A)
simple("float16", lambda x: jnp.tanh(x.astype(jnp.float16)), A)
simple("convert", lambda x: [x.astype(t) for t in (jnp.int32, jnp.int8, jnp.float64, jnp.bfloat16, jnp.bool_, jnp.complex64)], A)
simple("float8", lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32) + x.astype(jnp.float8_e5m2).astype(jnp.float32), A)
simple("bitcast", lambda x: [lax.bitcast_convert_type(x, jnp.int32), lax.bitcast_convert_type(x, jnp.uint8)], A)
simple("reduce_precision", lambda x: lax.reduce_precision(x, 5, 10), A)
simple("nextafter", lambda x: jnp.nextafter(x, x + 1), A)
simple("erf_f64", lambda x: lax.erf(x), f32(8).astype(np.float64))

# Constants
simple("constants", lambda x: x + np.arange(32, dtype=np.float32).reshape(4, 8), A)
simple("special_constants", lambda x: x[:1, :4] + np.array([[np.inf, -np.inf, np.nan, -0.0]], np.float32), A)
simple("complex_constant", lambda x: x * np.array([1 + 2j, -3j], np.complex64), (f32(2) + 0j).astype(np.complex64))
simple("bool_constant", lambda x: jnp.where(np.array([True, False] * 4), x, 0), A)
simple("int4", lambda x: (x.astype(jnp.int4) + jnp.int4(1)).astype(jnp.int32), ints(8, low=-7, high=6))
simple("bf16_constant", lambda x: x.astype(jnp.bfloat16) * np.array([0.1, 2.5], jnp.bfloat16.dtype), f32(2))
simple("iota", lambda x: x + jnp.arange(8) + lax.broadcasted_iota(jnp.float32, (4, 8), 0), A)
simple("large_constant", lambda x: x + np.linspace(0, 1, 300, dtype=np.float32), f32(300))

# Shapes
simple("reshape_transpose", lambda x: [x.reshape(2, 16).T, jnp.transpose(x.reshape(2, 2, 8), (2, 0, 1))], A)
simple("broadcast", lambda x: jnp.broadcast_to(x[:, None, :], (4, 3, 8)), A)
simple("concatenate", lambda x, y: [jnp.concatenate([x, y], 0), jnp.stack([x, y], 1)], A, f32(4, 8))
simple("pad", lambda x: lax.pad(x, jnp.float32(7), [(1, 2, 1), (-1, 0, 0)]), A)
simple("reverse", lambda x: [x[::-1], x[:, ::-1]], A)
simple("slice", lambda x: [x[1:3, ::2], x[:, -3:]], A)
simple("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)), A, np.int32(1))
simple("dynamic_update", lambda x, i: lax.dynamic_update_slice(x, jnp.ones((2, 2), jnp.float32), (i, i + 1)), A, np.int32(1))
simple("tile_repeat", lambda x: [jnp.tile(x, (2, 1)), jnp.repeat(x, 2, axis=1)], A)
simple("empty", lambda x: [x[:0], jnp.sum(x[:0])], A)
simple("scalar", lambda x: x * 2 + 1, np.float32(3))
simple("no_arguments", lambda: jnp.arange(5) * 2)
simple("dictionary", lambda d: {"a": d["a"] + d["b"][0], "c": d["b"][1]}, {"a": A, "b": (A, V)})

# Gather, scatter, sort
simple("gather", lambda x, i: [x[i], x[:, i], jnp.take(x, i, axis=1, mode="clip")], A, ints(3, low=0, high=4))
simple("gather_pairs", lambda x, i, j: x[i, j], A, ints(5, low=0, high=4), ints(5, low=0, high=8))
simple("batched_gather", lambda x, i: jax.vmap(lambda r, k: r[k])(x, i), A, ints(4, 2, low=0, high=8))
simple("take_along", lambda x, i: jnp.take_along_axis(x, i, axis=1), A, ints(4, 3, low=0, high=8))
simple("scatter_add", lambda x, i, u: x.at[i].add(u), A, ints(3, low=0, high=4), f32(3, 8))
simple("scatter_set_max", lambda x, i: [x.at[i].set(0.5), x.at[:, i].max(0.1)], A, np.array([0, 2]))
simple("batched_scatter", lambda x, i: jax.vmap(lambda r, k: r.at[k].mul(3.0))(x, i), A, ints(4, 2, low=0, high=8))
simple("segment_sum", lambda x, s: jax.ops.segment_sum(x, s, num_segments=3), V, np.sort(ints(16, low=0, high=3)))
simple("sort", lambda x: [jnp.sort(x), jnp.argsort(x, axis=0), jnp.sort(x, descending=True)], A)
simple("sort_keys", lambda k, v: lax.sort((k, v), num_keys=1), ints(16), V)
simple("top_k", lambda x: lax.top_k(x, 3), A)
simple("unique_counts", lambda x: jnp.unique(x, size=8, return_counts=True), ints(16))
simple("searchsorted", lambda x, q: jnp.searchsorted(jnp.sort(x), q), V, f32(5))
simple("argmax", lambda x: [jnp.argmax(x, 1), jnp.argmin(x)], A)
simple("nonzero", lambda x: jnp.nonzero(x > 0, size=10), V)
simple("one_hot", lambda i: jax.nn.one_hot(i, 6), ints(5, low=0, high=6))

# Reductions and windows
simple("reductions", lambda x: [x.sum(), x.sum(0), x.prod(1), x.max(), x.min(0), (x > 0).any(1), (x > 0).all(), x.mean(), x.var(0)], A)
simple("integer_sums", lambda x: [x.sum(), x.max(0), jnp.bitwise_and.reduce(x, axis=0)], ints(4, 8))
simple("two_results", lambda x: lax.reduce((x, x), (jnp.float32(0), jnp.float32(1)),
                                           lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)), A)
simple("cumulative", lambda x: [jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 1), lax.cumlogsumexp(x, 0)], A)
simple("softmax", lambda x: [jax.nn.softmax(x), jax.nn.log_softmax(x, 0), jax.nn.logsumexp(x)], A)
simple("max_pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), f32(1, 6, 6, 2))
simple("average_pool", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"), f32(1, 5, 5, 2))
simple("pool_grad", lambda x: jax.grad(lambda y: (lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum())(x), f32(1, 4, 4, 2))
simple("median", lambda x: [jnp.median(x), jnp.percentile(x, 30.0)], V)

# Products and convolutions
simple("matmul", lambda x, y: x @ y, A, B)
simple("matmul_bias_relu", lambda x, y, b: jax.nn.relu(x @ y + b), A, B, f32(5))
simple("matmul_highest", lambda x, y: jnp.dot(x, y, precision=lax.Precision.HIGHEST), A, B)
simple("batched_matmul", lambda x, y: jnp.einsum("bij,bjk->bik", x, y), f32(3, 4, 5), f32(3, 5, 2))
simple("einsum", lambda x, y: jnp.einsum("abc,cd->bad", x, y), f32(2, 3, 4), f32(4, 5))
simple("outer_vdot", lambda x: [jnp.outer(x, x), jnp.vdot(x, x)], V)
simple("dot_algorithm", lambda x, y: lax.dot(x, y, precision="F32_F32_F32"), A, B)
simple("convolution", lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), f32(1, 6, 6, 3), f32(3, 3, 3, 4))
simple("strided_convolution", lambda x, k: lax.conv_general_dilated(x, k, (2, 1), [(1, 1), (0, 2)], rhs_dilation=(2, 1)), f32(2, 3, 8, 8), f32(4, 3, 3, 2))
simple("grouped_convolution", lambda x, k: lax.conv_general_dilated(x, k, (1,), "VALID", feature_group_count=2), f32(1, 4, 10), f32(6, 2, 3))
simple("transposed_convolution", lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"), f32(1, 4, 4, 2), f32(3, 3, 2, 3))
simple("convolution_grad", lambda x, k: jax.grad(lambda a, b: (lax.conv_general_dilated(a, b, (2, 2), "SAME") ** 2).sum(), (0, 1))(x, k), f32(1, 2, 6, 6), f32(3, 2, 3, 3))
simple("fft", lambda x: [jnp.fft.fft(x), jnp.fft.rfft(x.real), jnp.fft.irfft(x), jnp.fft.fft2(x.reshape(4, 4))], (f32(16) + 1j * f32(16)).astype(np.complex64))

# Linear algebra
S = (lambda m: m @ m.T + 4 * np.eye(4, dtype=np.float32))(f32(4, 4))
simple("cholesky", lambda x: jnp.linalg.cholesky(x), S)
simple("triangular_solve", lambda x, b: jax.scipy.linalg.solve_triangular(x, b, lower=True), S, f32(4, 2))
simple("solve", lambda x, b: jnp.linalg.solve(x, b), S, f32(4))
simple("qr", lambda x: jnp.abs(jnp.linalg.qr(x)[1]), S)
simple("eigh", lambda x: jnp.linalg.eigh(x)[0], S)
simple("svd", lambda x: jnp.linalg.svd(x, compute_uv=False), A)
simple("determinant", lambda x: [jnp.linalg.det(x), jnp.linalg.inv(x)], S)
simple("expm", lambda x: jax.scipy.linalg.expm(x / 8), S)

# Random numbers
KEY = np.array([3, 5], np.uint32)
simple("uniform", lambda k: jax.random.uniform(jax.random.wrap_key_data(k), (4, 3)), KEY)
simple("normal", lambda k: jax.random.normal(jax.random.wrap_key_data(k), (8,)), KEY)
simple("permutation", lambda k: jax.random.permutation(jax.random.wrap_key_data(k), 9), KEY)
simple("split_choice", lambda k: jax.random.choice(jax.random.split(jax.random.wrap_key_data(k))[0], 10, (4,)), KEY)
simple("rng_bits", lambda k: lax.rng_bit_generator(k, (4, 3), dtype=jnp.uint32), np.array([1, 2, 3, 4], np.uint32))
simple("dropout", lambda x, k: jnp.where(jax.random.bernoulli(jax.random.wrap_key_data(k), 0.5, x.shape), x * 2, 0), A, KEY)

# Control flow
simple("cond", lambda p, x: lax.cond(p, lambda y: y * 2, lambda y: y - 1, x), np.bool_(True), A)
simple("switch", lambda i, x: lax.switch(i, [lambda y: y, lambda y: y * y, lambda y: (y > 0).astype(jnp.float32)], x), np.int32(1), A)
simple("while_loop", lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 1, s[1] * 1.1), (0, x)), A)
simple("fori", lambda x: lax.fori_loop(0, 5, lambda i, y: y + i * x, x), A)
simple("scan", lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(8, jnp.float32), x), A)
simple("associative_scan", lambda x: lax.associative_scan(jnp.multiply, x), V)
simple("nested_loops", lambda x: lax.fori_loop(0, 3, lambda i, y: lax.fori_loop(0, 2, lambda j, z: z * 0.5 + j, y) + i, x), A)
simple("map", lambda x: lax.map(lambda r: jnp.sort(r) * 2, x), A)
simple("checkpoint", lambda x: jax.grad(lambda y: jax.checkpoint(lambda z: jnp.sin(jnp.sin(z)))(y).sum())(x), A)
simple("barrier", lambda x: lax.optimization_barrier((x + 1, x * 2)), A)
simple("custom_jvp", lambda x: jax.grad(lambda y: jax.nn.relu6(y).sum())(x), A)


# Models
@program(f32(2, 6, 8), *(f32(8, 8) / 3 for _ in range(4)), f32(8, 16) / 3, f32(16, 8) / 3)
def transformer(x, wq, wk, wv, wo, w1, w2):
    def heads(y):
        return y.reshape(2, 6, 2, 4).transpose(0, 2, 1, 3)
    q, k, v = heads(x @ wq), heads(x @ wk), heads(x @ wv)
    scores = jnp.where(jnp.tril(jnp.ones((6, 6), bool)), q @ k.transpose(0, 1, 3, 2) / 2, -1e9)
    y = x + (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(2, 6, 8) @ wo
    mean, variance = y.mean(-1, keepdims=True), y.var(-1, keepdims=True)
    return y + jax.nn.gelu((y - mean) * lax.rsqrt(variance + 1e-5) @ w1) @ w2


@program(f32(2, 8, 8, 4), f32(3, 3, 4, 4) / 4, f32(3, 3, 4, 4) / 4, f32(4), f32(4))
def residual_block(x, k1, k2, scale, bias):
    def conv(y, k):
        return lax.conv_general_dilated(y, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    y = conv(x, k1)
    y = (y - y.mean((0, 1, 2))) * lax.rsqrt(y.var((0, 1, 2)) + 1e-5) * scale + bias
    return jax.nn.relu(x + conv(jax.nn.relu(y), k2))


@program([f32(8, 16) / 3, f32(16, 3) / 3], f32(5, 8), ints(5, low=0, high=3))
def training_step(weights, x, labels):
    def loss(w):
        logits = jax.nn.relu(x @ w[0]) @ w[1]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()
    value, gradients = jax.value_and_grad(loss)(weights)
    return value, [w - 0.1 * g for w, g in zip(weights, gradients)]


@program(f32(5, 3, 8), f32(8, 32) / 3, f32(8, 32) / 3, f32(32))
def lstm(inputs, wx, wh, b):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((3, 8), jnp.float32)
    return lax.scan(step, (zero, zero), inputs)


simple("hessian", lambda x: jax.hessian(lambda y: (jnp.sin(y) ** 3).sum())(x), f32(4))
simple("jacobian", lambda x: jax.jacfwd(lambda y: jnp.tanh(y @ y.T).sum(0))(x), f32(3, 2))
simple("vmap_solve", lambda m, b: jax.vmap(lambda a, c: a @ a.T @ c)(m, b), f32(3, 4, 4), f32(3, 4))
simple("adam", lambda w, g, m, v: (lambda m1, v1: (w - 0.01 * m1 / (jnp.sqrt(v1) + 1e-8), m1, v1))(0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g), A, f32(4, 8), f32(4, 8), POSITIVE)
simple("interpolate", lambda x: jax.image.resize(x, (8, 6), "linear"), A)
simple("polynomial", lambda x: jnp.polyval(jnp.arange(5, dtype=jnp.float32), x), V)
simple("histogram", lambda x: jnp.histogram(x, bins=4, range=(-2, 2))[0], V)
simple("donated", jax.jit(lambda x: x + 1, donate_argnums=0), A)
simple("nested_jit", lambda x: functools.reduce(lambda y, f: f(y), [jax.jit(jnp.sin), jax.jit(lambda z: z * z)] * 2, x), A)
