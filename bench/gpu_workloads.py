"""Operations of the sizes that keep a GPU busy, as workloads.py has them for a CPU."""
import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from workloads import Workload, chain, convolution, f32 as draw, integers, norm

BF16, F16 = ml_dtypes.bfloat16, np.float16
HIGHEST = lax.Precision.HIGHEST


def f32(*shape, seed=0, low=-1.0, high=1.0):
    """As in workloads.py, but large arrays repeat themselves: to draw all numbers would take longer than to measure."""
    few = draw(min(int(np.prod(shape)), (1 << 20) + 7), seed=seed, low=low, high=high)
    return np.resize(few, shape)


def attention(q, k, v, causal):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=jnp.float32) * q.shape[-1] ** -0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1).astype(v.dtype), v, preferred_element_type=jnp.float32).astype(v.dtype)


def block(p, x, heads):
    """A transformer's block: attention and two layers, each behind a normalization, with residuals."""
    batch, length, width = x.shape

    def normed(x, g):
        wide = x.astype(jnp.float32)
        return (wide * lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * g).astype(x.dtype)

    q, k, v = jnp.split(normed(x, p["first"]) @ p["qkv"], 3, -1)
    split = [t.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3) for t in (q, k, v)]
    mixed = attention(*split, causal=True).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + mixed @ p["out"]
    return x + jax.nn.gelu(normed(x, p["second"]) @ p["up"]) @ p["down"]


def block_parameters(width, dtype):
    def matrix(rows, columns, seed):
        return (f32(rows, columns, seed=seed) * rows ** -0.5).astype(dtype)
    return {"first": np.ones(width, np.float32), "second": np.ones(width, np.float32), "qkv": matrix(width, 3 * width, 1),
            "out": matrix(width, width, 2), "up": matrix(width, 4 * width, 3), "down": matrix(4 * width, width, 4)}


def block_step(p, x, heads):
    """A step of gradient descent on the mean square of the block's result."""
    loss, gradient = jax.value_and_grad(lambda p: jnp.square(block(p, x, heads).astype(jnp.float32)).mean())(p)
    return loss, jax.tree.map(lambda w, g: w - (0.01 * g).astype(w.dtype), p, gradient)


def all_workloads():
    """The list, in the order of execution and of the report."""
    out = []

    def add(name, function, *arguments, tolerance=1e-4):
        out.append(Workload(name, function, arguments, tolerance))

    side = 4096
    a, b = f32(side, side), f32(side, side, seed=1)
    wide = functools.partial(jnp.dot, preferred_element_type=jnp.float32)
    add("matmul f32 4096", functools.partial(jnp.matmul, precision=HIGHEST), a, b)
    add("matmul f32 default 4096", jnp.matmul, a, b, tolerance=2e-3)
    add("matmul bf16 4096", jnp.matmul, a.astype(BF16), b.astype(BF16), tolerance=1e-2)
    add("matmul bf16 8192", jnp.matmul, f32(8192, 8192).astype(BF16), f32(8192, 8192, seed=1).astype(BF16), tolerance=1e-2)
    add("matmul bf16 transposed", lambda a, b: a.T @ b, a.astype(BF16), b.astype(BF16), tolerance=1e-2)
    add("matmul f16 4096", wide, a.astype(F16), b.astype(F16), tolerance=1e-3)
    add("matmul s8 4096", functools.partial(jnp.dot, preferred_element_type=jnp.int32), (100 * a).astype(np.int8), (100 * b).astype(np.int8), tolerance=0)
    add("matmul bf16 batched", functools.partial(jnp.einsum, "bmk,bnk->bmn"), f32(64, 512, 512).astype(BF16), f32(64, 512, 512, seed=1).astype(BF16), tolerance=1e-2)
    add("matmul bf16 bias gelu", lambda x, w, c: jax.nn.gelu(x @ w + c), a.astype(BF16), b.astype(BF16), f32(side).astype(BF16), tolerance=2e-2)
    add("matmul gemv 8192", functools.partial(jnp.matmul, precision=HIGHEST), f32(1, 8192), f32(8192, 8192))

    heads = [f32(4, 16, 1024, 64, seed=s).astype(BF16) for s in range(3)]
    add("attention bf16", functools.partial(attention, causal=False), *heads, tolerance=2e-2)
    add("attention bf16 causal", functools.partial(attention, causal=True), *heads, tolerance=2e-2)
    x = f32(8, 1024, 1024)
    add("block bf16 forward", functools.partial(block, heads=16), block_parameters(1024, BF16), x.astype(BF16), tolerance=3e-2)
    add("block bf16 step", functools.partial(block_step, heads=16), block_parameters(1024, BF16), x.astype(BF16), tolerance=3e-2)
    add("block f32 step", functools.partial(block_step, heads=16), block_parameters(1024, np.float32), x[:2], tolerance=5e-3)

    add("conv bf16 3x3", convolution, f32(32, 56, 56, 64).astype(BF16), f32(3, 3, 64, 64).astype(BF16), tolerance=2e-2)
    add("conv f32 3x3", convolution, f32(32, 56, 56, 64), f32(3, 3, 64, 64), tolerance=3e-3)
    add("conv f32 7x7 stride 2", lambda x, w: convolution(x, w, 2), f32(32, 224, 224, 3), f32(7, 7, 3, 64), tolerance=3e-3)
    add("conv f32 depthwise", lambda x, w: convolution(x, w, groups=96), f32(32, 112, 112, 96), f32(3, 3, 1, 96), tolerance=5e-4)
    add("conv f32 gradient", jax.grad(lambda x, w: (convolution(x, w) ** 2).sum(), (0, 1)), f32(16, 28, 28, 64), f32(3, 3, 64, 64), tolerance=1e-2)

    add("elementwise add", jnp.add, a, b)
    add("elementwise bf16 gelu", jax.nn.gelu, (4 * a).astype(BF16), tolerance=2e-2)
    add("elementwise chain of 40", chain, a, b, tolerance=5e-2)  # it branches by comparisons that rounding may change
    add("elementwise broadcast", lambda x, r, c: x * r[None, :] + c[:, None], a, f32(side), f32(side, seed=1))
    add("reduce rows", lambda x: x.sum(1), a)
    add("reduce columns", lambda x: x.sum(0), a)
    add("reduce all", lambda x: x.sum(), f32(side, side, low=0))
    add("reduce argmax", lambda x: jnp.argmax(x, -1), a, tolerance=0)
    add("reduce softmax", jax.nn.softmax, 4 * a)
    add("reduce bf16 softmax", jax.nn.softmax, (4 * a).astype(BF16), tolerance=2e-2)
    add("reduce layer norm", norm, a, f32(side), f32(side, seed=1))
    add("reduce cumulative sum", lambda x: jnp.cumsum(x, 1), a, tolerance=1e-3)
    add("reduce max pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), f32(32, 112, 112, 64), tolerance=0)
    add("move transpose", lambda x: x.T + 0, a, tolerance=0)
    add("move heads", lambda x: x.transpose(0, 2, 1, 3) + 0, f32(16, 1024, 16, 64), tolerance=0)
    add("move gather rows", lambda t, i: t[i], f32(65536, 256), integers(65536, high=65536), tolerance=0)
    add("move scatter add", lambda t, i, u: t.at[i].add(u), f32(65536, 64), integers(131072, high=65536), f32(131072, 64), tolerance=1e-3)
    add("move sort", jnp.sort, f32(1 << 22), tolerance=0)
    add("move top 50", lambda x: lax.top_k(x, 50), f32(256, 16384), tolerance=0)
    add("random normal", lambda s: jax.random.normal(jax.random.key(s), (1 << 24,)), np.int32(1))
    add("linear cholesky 64", jnp.linalg.cholesky, f32(512, 64, 64) @ f32(512, 64, 64).transpose(0, 2, 1) + 64 * np.eye(64, dtype=np.float32), tolerance=1e-3)
    add("fft 4096x1024", jnp.fft.fft, f32(4096, 1024) + 1j * f32(4096, 1024, seed=1), tolerance=1e-3)
    add("loop heat 1024", lambda x: lax.fori_loop(0, 50, lambda i, u: u + 0.1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u), x), f32(1024, 1024))
    add("loop while scalar", lambda x: lax.while_loop(lambda s: s[1] < 200, lambda s: (s[0] * 0.999 + 0.001, s[1] + 1), (x, 0)), np.float32(1))
    add("dispatch 1 argument", lambda x: x + 1, np.float32(1))
    add("dispatch 100 arguments", lambda *xs: [x + 1 for x in xs], *(np.float32(i) for i in range(100)))
    return out
