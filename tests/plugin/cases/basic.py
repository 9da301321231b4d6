"""Elementwise, dot, convolution, normalizations, element types."""
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import scipy.special
from jax import lax

from . import case, close, rand, same


@case
def add():
    same(jax.jit(lambda a, b: a + b)(rand(3, 4), rand(3, 4, seed=1)), rand(3, 4) + rand(3, 4, seed=1))


@case
def constants_and_broadcast():
    x = rand(4, 1)
    close(jax.jit(lambda x: 2.0 * x + np.arange(5, dtype=np.float32))(x), 2 * x + np.arange(5))


@case
def elementwise_float():
    x = rand(64, low=0.1, high=2.0)
    for f, g in ((jnp.exp, np.exp), (jnp.log, np.log), (jnp.sin, np.sin), (jnp.cos, np.cos), (jnp.tanh, np.tanh), (jnp.sqrt, np.sqrt),
                 (lax.rsqrt, lambda v: 1 / np.sqrt(v)), (jnp.log1p, np.log1p), (jnp.expm1, np.expm1), (jnp.floor, np.floor),
                 (jnp.ceil, np.ceil), (jnp.round, np.round), (jnp.abs, np.abs), (lax.erf, scipy.special.erf), (jnp.cbrt, np.cbrt),
                 (lambda v: v**2.5, lambda v: v**2.5), (jax.nn.sigmoid, scipy.special.expit), (jnp.tan, np.tan), (jnp.sinh, np.sinh),
                 (lax.lgamma, scipy.special.gammaln), (lax.digamma, scipy.special.digamma)):
        close(jax.jit(f)(x), g(x.astype(np.float64)), rtol=3e-5, atol=3e-6)
    close(jax.jit(jnp.arctan2)(x, x[::-1]), np.arctan2(x, x[::-1]))


@case
def elementwise_integer():
    a, b = np.arange(-8, 8, dtype=np.int32), np.tile(np.array([3, -3, 7, 1], np.int32), 4)
    same(jax.jit(lambda a, b: lax.div(a, b))(a, b), np.trunc(a / b).astype(np.int32))
    same(jax.jit(lambda a, b: lax.rem(a, b))(a, b), np.fmod(a, b))
    same(jax.jit(lambda a, b: a // b)(a, b), a // b)
    same(jax.jit(lambda a, b: a % b)(a, b), a % b)
    same(jax.jit(lambda a, b: (a & b, a | b, a ^ b, ~a)[2])(a, b), a ^ b)
    same(jax.jit(lambda a: lax.shift_right_arithmetic(a, np.int32(1)))(a), a >> 1)
    same(jax.jit(lambda a: lax.shift_right_logical(a, np.int32(1)))(a), (a.view(np.uint32) >> 1).view(np.int32))
    same(jax.jit(lax.population_count)(a), np.array([bin(int(v) & 0xFFFFFFFF).count("1") for v in a], np.int32))
    same(jax.jit(lax.clz)(a), np.array([32 - (int(v) & 0xFFFFFFFF).bit_length() for v in a], np.int32))


@case
def compare_and_select():
    x, y = rand(5, 6), rand(5, 6, seed=3)
    same(jax.jit(lambda x, y: jnp.where(x < y, x, y))(x, y), np.minimum(x, y))
    same(jax.jit(lambda x, y: (x > 0) & (y > 0))(x, y), (x > 0) & (y > 0))
    same(jax.jit(lambda x: jnp.clip(x, -0.5, 0.5))(x), np.clip(x, np.float32(-0.5), np.float32(0.5)))
    nan = np.array([np.nan, 1, -np.inf, np.inf], np.float32)
    same(jax.jit(jnp.isfinite)(nan), np.isfinite(nan))
    same(jax.jit(jnp.maximum)(nan, np.zeros(4, np.float32)), np.maximum(nan, 0).astype(np.float32))


@case
def reductions():
    x = rand(4, 5, 6)
    for f, g in ((jnp.sum, np.sum), (jnp.mean, np.mean), (jnp.max, np.max), (jnp.min, np.min), (jnp.prod, np.prod), (jnp.var, np.var)):
        for axis in (None, 0, 1, 2, (0, 2)):
            close(jax.jit(lambda v: f(v, axis=axis))(x), g(x.astype(np.float64), axis=axis))
    same(jax.jit(lambda v: jnp.argmax(v, 1))(x), np.argmax(x, 1).astype(np.int32))
    same(jax.jit(lambda v: jnp.argmin(v, -1))(x), np.argmin(x, -1).astype(np.int32))
    same(jax.jit(lambda v: jnp.any(v > 0.9, 1))(x), np.any(x > 0.9, 1))
    close(jax.jit(lambda v: jax.nn.logsumexp(v, -1))(x), scipy.special.logsumexp(x, -1))


@case
def data_movement():
    x = rand(3, 4, 5)
    same(jax.jit(lambda v: v.transpose(2, 0, 1))(x), x.transpose(2, 0, 1))
    same(jax.jit(lambda v: v.reshape(6, 10).T)(x), x.reshape(6, 10).T)
    same(jax.jit(lambda v: v[1:, ::2, ::-1])(x), x[1:, ::2, ::-1])
    same(jax.jit(lambda v: jnp.pad(v, ((1, 0), (0, 2), (1, 1)), constant_values=7))(x), np.pad(x, ((1, 0), (0, 2), (1, 1)), constant_values=7))
    same(jax.jit(lambda v: jnp.concatenate([v, v[:1]], 0))(x), np.concatenate([x, x[:1]], 0))
    same(jax.jit(lambda v: jnp.roll(v, 2, 1))(x), np.roll(x, 2, 1))
    same(jax.jit(lambda v: jnp.tile(v, (1, 2, 1)))(x), np.tile(x, (1, 2, 1)))
    same(jax.jit(lambda v, i: lax.dynamic_slice(v, (i, 0, i), (1, 4, 2)))(x, np.int32(2)), x[2:3, :, 2:4])
    same(jax.jit(lambda v, i: lax.dynamic_slice(v, (i, 0, i), (1, 4, 2)))(x, np.int32(100)), x[2:3, :, 3:5])
    same(jax.jit(lambda v, u: lax.dynamic_update_slice(v, u, (1, 1, 1)))(x, np.ones((1, 2, 2), np.float32))[1, 1:3, 1:3], np.ones((2, 2), np.float32))


@case(peer=True)
def gradient_of_filling_gather():
    """Windows that are partly outside give the fill value, so no element of the operand has a gradient from them."""
    dims = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(), start_index_map=(0,))
    at = jnp.array([[1], [5], [-1], [3]])

    def gather(x):
        return lax.gather(x, at, dims, (3,), mode="fill", fill_value=0.0)

    x = jnp.arange(1.0, 7.0)
    return {"rows": jax.jit(gather)(x), "gradient": jax.jit(jax.grad(lambda x: jnp.sum(gather(x) ** 2)))(x)}


@case
def matmul():
    a, b = rand(17, 33), rand(33, 9, seed=1)
    close(jax.jit(jnp.matmul)(a, b), a.astype(np.float64) @ b)
    close(jax.jit(lambda a, b: a.T @ b.T)(a.T, b.T), a.astype(np.float64) @ b)
    close(jax.jit(jnp.matmul)(rand(3, 7, 5), rand(3, 5, 4)), rand(3, 7, 5).astype(np.float64) @ rand(3, 5, 4))
    close(jax.jit(jnp.dot)(a[0], a[1]), a[0].astype(np.float64) @ a[1])
    close(jax.jit(jnp.matmul)(rand(128, 64), rand(64, 200)), rand(128, 64).astype(np.float64) @ rand(64, 200))


@case
def einsum():
    q, k = rand(2, 5, 3, 4), rand(2, 6, 3, 4, seed=2)
    for spec, args in (("bqhd,bkhd->bhqk", (q, k)), ("abcd->ad", (q,)), ("ij,kj->ik", (rand(3, 4), rand(5, 4))),
                       ("i,j->ij", (rand(3), rand(4))), ("ii->", (rand(4, 4),)), ("bij,bjk,bkl->bil", (rand(2, 3, 4), rand(2, 4, 5), rand(2, 5, 6)))):
        close(jax.jit(lambda *a: jnp.einsum(spec, *a))(*args), np.einsum(spec, *(a.astype(np.float64) for a in args)))


@case
def mlp_gradient():
    """The gradient of a two-layer network, against the chain rule written out in numpy."""
    w1, w2, x, y = rand(6, 8), rand(8, 3, seed=1), rand(5, 6, seed=2), rand(5, 3, seed=3)
    loss = lambda w1, w2: jnp.mean((jnp.tanh(x @ w1) @ w2 - y) ** 2)
    value, (g1, g2) = jax.jit(jax.value_and_grad(loss, (0, 1)))(w1, w2)
    x, y, v1, v2 = (t.astype(np.float64) for t in (x, y, w1, w2))
    h = np.tanh(x @ v1)
    e = h @ v2 - y
    d = 2 * e / e.size
    close(value, (e**2).mean())
    close(g2, h.T @ d)
    close(g1, x.T @ ((d @ v2.T) * (1 - h**2)))


def conv_numpy(x, w, stride, pad):
    """NHWC by HWIO with equal padding on all sides, by one matrix product for each kernel position."""
    x = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    kh, kw = w.shape[:2]
    oh, ow = (x.shape[1] - kh) // stride + 1, (x.shape[2] - kw) // stride + 1
    out = np.zeros((x.shape[0], oh, ow, w.shape[3]))
    for i in range(kh):
        for j in range(kw):
            out += x[:, i:i + stride * oh:stride, j:j + stride * ow:stride] @ w[i, j].astype(np.float64)
    return out


def conv_grads_numpy(x, w, c, stride, pad):
    """Gradients of sum(conv(x, w) * c) to x and w."""
    xp = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    gx, gw = np.zeros_like(xp), np.zeros(w.shape)
    oh, ow = c.shape[1:3]
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            window = (slice(None), slice(i, i + stride * oh, stride), slice(j, j + stride * ow, stride))
            gw[i, j] = np.einsum("bhwi,bhwo->io", xp[window], c)
            gx[window] += c @ w[i, j].T.astype(np.float64)
    return gx[:, pad:pad + x.shape[1], pad:pad + x.shape[2]], gw


@case
def convolution_and_gradient():
    for size, stride, pad in ((3, 1, 1), (3, 2, 1), (1, 1, 0), (5, 2, 2)):
        x, w = rand(2, 9, 9, 3), rand(size, size, 3, 4, seed=1)
        conv = lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), ((pad, pad), (pad, pad)), dimension_numbers=("NHWC", "HWIO", "NHWC"))
        want = conv_numpy(x, w, stride, pad)
        close(jax.jit(conv)(x, w), want, rtol=1e-4)
        c = rand(*want.shape, seed=4)
        gx, gw = jax.jit(jax.grad(lambda x, w: (conv(x, w) * c).sum(), (0, 1)))(x, w)
        want_x, want_w = conv_grads_numpy(x, w, c.astype(np.float64), stride, pad)
        close(gx, want_x, rtol=1e-4)
        close(gw, want_w, rtol=1e-4)


@case(peer=True, rtol=1e-4)
def convolution_kinds():
    """Groups, dilations, transposed, one and three dimensions, NCHW: against XLA's plugin."""
    x = rand(2, 8, 8, 4)
    nhwc = ("NHWC", "HWIO", "NHWC")
    conv = lambda x, w, dn=nhwc, **kw: jax.jit(lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=dn, **kw))(x, w)
    return {
        "grouped": conv(x, rand(3, 3, 2, 8), window_strides=(1, 1), padding="SAME", feature_group_count=2),
        "depthwise": conv(x, rand(3, 3, 1, 4), window_strides=(2, 2), padding="SAME", feature_group_count=4),
        "dilated": conv(x, rand(3, 3, 4, 5), window_strides=(1, 1), padding="VALID", rhs_dilation=(2, 2)),
        "transposed": jax.jit(lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"))(x, rand(3, 3, 4, 5)),
        "nchw": conv(x.transpose(0, 3, 1, 2), rand(5, 4, 3, 3), ("NCHW", "OIHW", "NCHW"), window_strides=(1, 1), padding="SAME"),
        "one_dim": conv(rand(2, 11, 3), rand(3, 3, 4), ("NWC", "WIO", "NWC"), window_strides=(2,), padding="SAME"),
        "three_dim": conv(rand(1, 4, 5, 6, 2), rand(2, 2, 2, 2, 3), ("NDHWC", "DHWIO", "NDHWC"), window_strides=(1, 1, 1), padding="VALID"),
    }


@case(peer=True)
def pooling():
    x = rand(2, 9, 9, 3)
    pool = lambda init, op: jax.jit(lambda x: lax.reduce_window(x, init, op, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"))
    biggest = pool(-jnp.inf, lax.max)
    return {"max": biggest(x), "sum": pool(0.0, lax.add)(x), "max_gradient": jax.jit(jax.grad(lambda x: (biggest(x) ** 2).sum()))(x)}


@case
def softmax():
    x = rand(7, 33, low=-8, high=8)
    close(jax.jit(jax.nn.softmax)(x), scipy.special.softmax(x.astype(np.float64), -1))
    close(jax.jit(lambda x: jax.nn.log_softmax(x, 0))(x), scipy.special.log_softmax(x.astype(np.float64), 0))


@case
def layer_norm():
    x, g, b = rand(6, 40), rand(40, seed=1), rand(40, seed=2)
    f = lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b
    d = x.astype(np.float64)
    close(jax.jit(f)(x), (d - d.mean(-1, keepdims=True)) / np.sqrt(d.var(-1, keepdims=True) + 1e-5) * g + b)


@case
def bfloat16():
    a, b = rand(16, 24).astype(ml_dtypes.bfloat16), rand(24, 8, seed=1).astype(ml_dtypes.bfloat16)
    same(jax.jit(lambda v: v + v)(a), a + a)
    got = jax.jit(lambda a, b: a @ b)(a, b)
    assert got.dtype == ml_dtypes.bfloat16
    close(got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-2, atol=1e-2)
    close(jax.jit(lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32))(a, b), a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4)
    same(jax.jit(lambda v: v.astype(jnp.bfloat16))(rand(64)), rand(64).astype(ml_dtypes.bfloat16))
    close(jax.jit(jax.nn.softmax)(a), scipy.special.softmax(a.astype(np.float64), -1), rtol=2e-2, atol=1e-2)


@case
def float16():
    a, b = rand(16, 24).astype(np.float16), rand(24, 8, seed=1).astype(np.float16)
    same(jax.jit(lambda v: v * v)(a), a * a)
    close(jax.jit(lambda a, b: a @ b)(a, b), a.astype(np.float64) @ b, rtol=2e-3, atol=4e-3)
    same(jax.jit(lambda v: v.astype(jnp.float16))(rand(64, low=-70000, high=70000)), rand(64, low=-70000, high=70000).astype(np.float16))


@case
def int8():
    a, b = (np.random.default_rng(s).integers(-128, 128, n).astype(np.int8) for s, n in ((0, (9, 40)), (1, (40, 7))))
    same(jax.jit(lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.int32))(a, b), a.astype(np.int32) @ b.astype(np.int32))
    same(jax.jit(lambda v: v + v)(a), a + a)
    same(jax.jit(lambda v: v.astype(jnp.float32))(a), a.astype(np.float32))


@case
def other_element_types():
    x = rand(40, low=-3, high=3)
    for t in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        same(jax.jit(lambda v: v.astype(t).astype(jnp.float32))(x), x.astype(t).astype(np.float32))
    for t in (np.uint8, np.int16, np.uint16, np.uint32):
        v = np.arange(10).astype(t)
        same(jax.jit(lambda v: v * v + t(3))(v), (v * v + t(3)).astype(t))
    same(jax.jit(jnp.logical_not)(np.array([True, False])), np.array([False, True]))


@case
def complex64():
    a, b = rand(6, 5) + 1j * rand(6, 5, seed=1), rand(5, 4) + 1j * rand(5, 4, seed=2)
    a, b = a.astype(np.complex64), b.astype(np.complex64)
    close(jax.jit(jnp.matmul)(a, b), a.astype(np.complex128) @ b)
    for f, g in ((jnp.exp, np.exp), (jnp.abs, np.abs), (jnp.conj, np.conj), (jnp.real, np.real), (jnp.imag, np.imag), (jnp.sqrt, np.sqrt),
                 (jnp.log, np.log), (jnp.sin, np.sin), (jnp.tanh, np.tanh), (lambda v: v * v / (v + 2), lambda v: v * v / (v + 2)), (jnp.angle, np.angle)):
        close(jax.jit(f)(a), g(a.astype(np.complex128)), rtol=5e-5, atol=1e-5)


@case
def x64_mode():
    with jax.enable_x64(True):
        x = rand(9, 9, dtype=np.float64)
        got = jax.jit(lambda v: jnp.exp(v) @ v.T + jnp.sum(v))(x)
        assert got.dtype == np.float64
        close(got, np.exp(x) @ x.T + x.sum(), rtol=1e-13, atol=1e-13)
        same(jax.jit(lambda v: v * v)(np.int64(3_000_000_000)), np.int64(9_000_000_000_000_000_000))
        z = x + 1j * x.T
        close(jax.jit(lambda v: jnp.exp(v) * v)(z), np.exp(z) * z, rtol=1e-13, atol=1e-13)


@case
def vmap_of_basics():
    a, b = rand(4, 5, 6), rand(4, 6, 3)
    close(jax.jit(jax.vmap(jnp.matmul))(a, b), a.astype(np.float64) @ b)
    close(jax.jit(jax.vmap(jnp.matmul, (None, 0)))(a[0], b), a[0].astype(np.float64) @ b)
    close(jax.jit(jax.vmap(jax.nn.softmax))(a), scipy.special.softmax(a.astype(np.float64), -1))
    close(jax.jit(jax.vmap(jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 2))))(a), 2 * np.sin(a.astype(np.float64)) * np.cos(a))
    x, w = rand(3, 2, 6, 6, 2), rand(3, 3, 3, 2, 4)
    conv = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC"))
    close(jax.jit(jax.vmap(conv))(x, w), np.stack([conv_numpy(x[i], w[i], 1, 1) for i in range(3)]), rtol=1e-4)
