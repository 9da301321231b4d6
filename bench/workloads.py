"""Single operations and small groups of them, as JAX functions with their arguments: what a plugin's kernels are made for.

Each is a Workload: a name whose first word is its group, a function, its arguments as numpy arrays, and the largest
difference allowed, relative to the largest value.
"""
import dataclasses
from typing import Any, Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    function: Callable
    arguments: tuple[Any, ...]
    tolerance: float


def f32(*shape, seed=0, low=-1.0, high=1.0):
    return np.random.default_rng(seed + len(shape)).uniform(low, high, shape).astype(np.float32)


def integers(*shape, high, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape).astype(np.int32)


def convolution(x, w, stride=1, groups=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)


def chain(x, y):
    for i in range(8):
        x = jnp.where(x > 0.1 * i, x * y + 0.5, jnp.abs(x) - y) * jax.nn.sigmoid(x) + jnp.maximum(x, y) * 0.25
    return x


def norm(x, g, b):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def update_rows(table, row):
    def body(i, state):
        table, row = state
        row = row * 0.5 + lax.dynamic_slice(table, (i, 0), (1, 256))[0]
        return lax.dynamic_update_slice(table, row[None], (i, 0)), row
    return lax.fori_loop(0, 512, body, (table, row))


def kalman(measured):
    def step(state, z):
        x, variance = state
        variance = variance + 0.01
        gain = variance / (variance + 0.1)
        x = x + gain * (z - x)
        variance = (1 - gain) * variance
        return (x, variance), (x, variance)
    return lax.scan(step, (jnp.float32(0), jnp.float32(1)), measured)[1]


def solve_tridiagonal(lower, diagonal, upper, right):
    """The Thomas algorithm: one pass forwards, one backwards."""
    def forwards(carry, row):
        c, d = carry
        a, b, u, r = row
        pivot = b - a * c
        carry = u / pivot, (r - a * d) / pivot
        return carry, carry

    def backwards(x, row):
        c, d = row
        x = d - c * x
        return x, x
    _, rows = lax.scan(forwards, (jnp.float32(0), jnp.float32(0)), (lower, diagonal, upper, right))
    return lax.scan(backwards, jnp.float32(0), rows, reverse=True)[1]


def edit_distance(a, b):
    def next_row(row, letter):
        i, x = letter

        def next_cell(left, cell):
            up, diagonal, y = cell
            left = jnp.minimum(jnp.minimum(left, up) + 1, diagonal + (x != y))
            return left, left
        _, rest = lax.scan(next_cell, i + 1, (row[1:], row[:-1], b))
        return jnp.concatenate([(i + 1)[None], rest]), None
    return lax.scan(next_row, jnp.arange(len(b) + 1, dtype=jnp.int32), (jnp.arange(len(a), dtype=jnp.int32), a))[0]


def trajectory(start):
    """Lorenz's equations by the method of Runge and Kutta, too short for chaos."""
    def slope(s):
        x, y, z = s
        return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def step(s, _):
        a = slope(s)
        b = slope(s + 0.0005 * a)
        c = slope(s + 0.0005 * b)
        d = slope(s + 0.001 * c)
        s = s + 0.001 / 6 * (a + 2 * b + 2 * c + d)
        return s, s
    return lax.scan(step, start, None, length=2000)[1]


def branches(x):
    def body(i, x):
        return lax.cond(x.sum() > 0, lambda x: x * 0.9 - 0.1, lambda x: x + jnp.sin(x) * 0.3, x)
    return lax.fori_loop(0, 1000, body, x)


def rows_of_rows(table):
    return lax.fori_loop(1, 200, lambda i, t: t.at[i].set(t[i - 1] * 0.5 + jnp.roll(t[i - 1], 1) * 0.25), table)


def all_workloads():
    """The list, in the order of execution and of the report."""
    out = []

    def add(name, function, *arguments, tolerance=1e-4):
        out.append(Workload(name, function, arguments, tolerance))

    bf16 = ml_dtypes.bfloat16
    add("matmul 256", jnp.matmul, f32(256, 256), f32(256, 256, seed=1))
    add("matmul 1024", jnp.matmul, f32(1024, 1024), f32(1024, 1024, seed=1))
    add("matmul 512x256x768", jnp.matmul, f32(512, 256), f32(256, 768))
    add("matmul gemv 2048", jnp.matmul, f32(1, 2048), f32(2048, 2048))
    add("matmul transposed 512", lambda a, b: a @ b.T, f32(512, 512), f32(512, 512, seed=1))
    add("matmul batched 32x128x64", lambda a, b: jnp.einsum("bmk,bnk->bmn", a, b), f32(32, 128, 64), f32(32, 128, 64, seed=1))
    add("matmul bf16 512", lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32), f32(512, 512).astype(bf16), f32(512, 512, seed=1).astype(bf16), tolerance=1e-2)
    add("matmul bias gelu", lambda x, w, b: jax.nn.gelu(x @ w + b), f32(512, 256), f32(256, 1024), f32(1024))

    add("conv 3x3 56x56x64", convolution, f32(1, 56, 56, 64), f32(3, 3, 64, 64), tolerance=5e-4)
    add("conv 3x3 14x14x256", convolution, f32(1, 14, 14, 256), f32(3, 3, 256, 256), tolerance=5e-4)
    add("conv 7x7 stride 2", lambda x, w: convolution(x, w, 2), f32(1, 224, 224, 3), f32(7, 7, 3, 64), tolerance=5e-4)
    add("conv 1x1", convolution, f32(4, 28, 28, 256), f32(1, 1, 256, 256), tolerance=5e-4)
    add("conv depthwise", lambda x, w: convolution(x, w, groups=96), f32(1, 112, 112, 96), f32(3, 3, 1, 96), tolerance=5e-4)
    add("conv gradient", lambda x, w: jax.grad(lambda x, w: (convolution(x, w) ** 2).sum(), (0, 1))(x, w), f32(2, 28, 28, 64), f32(3, 3, 64, 64), tolerance=1e-3)

    big = (1024, 1024)
    add("elementwise add", jnp.add, f32(*big), f32(*big, seed=1))
    add("elementwise gelu", jax.nn.gelu, f32(*big, low=-4, high=4))
    add("elementwise chain of 40", chain, f32(*big), f32(*big, seed=1), tolerance=1e-3)
    add("elementwise transcendental", lambda x: jnp.exp(-x) + jnp.log1p(x) + jnp.sin(x) * jnp.cos(x) + jnp.tanh(x) + jnp.sqrt(x) + lax.erf(x), f32(*big, low=0.01, high=3))
    add("elementwise broadcast", lambda x, r, c: x * r[None, :] + c[:, None], f32(*big), f32(1024), f32(1024, seed=1))
    add("elementwise small", lambda a, b: jnp.tanh(a * b + a), f32(1024), f32(1024, seed=1))

    add("reduce rows", lambda x: x.sum(1), f32(2048, 1024))
    add("reduce columns", lambda x: x.sum(0), f32(2048, 1024))
    add("reduce all", lambda x: x.sum(), f32(2048, 1024, low=0))
    add("reduce argmax", lambda x: jnp.argmax(x, -1), f32(64, 16384), tolerance=0)
    add("reduce softmax", jax.nn.softmax, f32(1024, 1024, low=-4, high=4))
    add("reduce layer norm", norm, f32(1024, 1024), f32(1024), f32(1024, seed=1))
    add("reduce cumulative sum", lambda x: jnp.cumsum(x, 1), f32(512, 1024), tolerance=1e-3)
    add("reduce max pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), f32(1, 112, 112, 64), tolerance=0)

    add("move transpose", lambda x: x.T + 0, f32(1024, 1024), tolerance=0)
    add("move heads", lambda x: x.transpose(0, 2, 1, 3) + 0, f32(4, 256, 8, 64), tolerance=0)
    add("move gather rows", lambda t, i: t[i], f32(8192, 256), integers(1024, high=8192), tolerance=0)
    add("move scatter add", lambda t, i, u: t.at[i].add(u), f32(4096, 64), integers(8192, high=4096), f32(8192, 64))
    add("move pad and concatenate", lambda a, b: jnp.pad(jnp.concatenate([a[:, 1:513], b[:, ::2]], 1), ((1, 1), (2, 2))), f32(1024, 1024), f32(1024, 1024, seed=1), tolerance=0)
    add("move sort", jnp.sort, f32(1 << 17), tolerance=0)
    add("move top 50", lambda x: lax.top_k(x, 50), f32(16, 16384), tolerance=0)
    add("random normal", lambda s: jax.random.normal(jax.random.key(s), (1 << 18,)), np.int32(1))

    add("loop scalar 10000", lambda x: lax.fori_loop(0, 10000, lambda i, v: v * 0.999 + 0.001, x), np.float32(1))
    add("loop update rows", update_rows, f32(512, 256), f32(256))
    add("loop heat 256", lambda x: lax.fori_loop(0, 50, lambda i, u: u + 0.1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u), x), f32(256, 256))
    add("loop kalman", kalman, f32(1000))
    add("loop tridiagonal", solve_tridiagonal, f32(1000), 4 + f32(1000, seed=1), f32(1000, seed=2), f32(1000, seed=3))
    add("loop edit distance", edit_distance, integers(100, high=4), integers(100, high=4, seed=1), tolerance=0)
    add("loop trajectory", trajectory, f32(3), tolerance=1e-3)
    add("loop while", lambda x: lax.while_loop(lambda v: jnp.abs(v * v - 2) > 1e-6, lambda v: 0.5 * (v + 2 / v), x), np.float32(7.3))
    add("loop branches 4", branches, f32(4), tolerance=1e-3)
    add("loop branches 100", branches, f32(100), tolerance=1e-3)
    add("loop products 6x6", lambda a, x: lax.fori_loop(0, 500, lambda i, x: a @ x * 0.5 + 0.1, x), f32(6, 6) * 0.3, f32(6, 6, seed=1))
    add("loop product 64x64", lambda a, x: lax.fori_loop(0, 200, lambda i, x: x + 0.01 * jnp.tanh(a @ x), x), f32(64, 64) * 0.1, f32(64))
    add("loop row of the row before", rows_of_rows, f32(200, 100))
    add("fft 64x1024", lambda x: jnp.fft.fft(x), f32(64, 1024) + 1j * f32(64, 1024, seed=1))
    add("dispatch 1 argument", lambda x: x + 1, np.float32(1))
    add("dispatch 100 arguments", lambda *xs: [x + 1 for x in xs], *(np.float32(i) for i in range(100)))
    return out
