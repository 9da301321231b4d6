"""JAX on one device: copies, arithmetic, transformations of functions, control flow."""
import os

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from programs import program


def close(got, want, rtol=1e-5, atol=1e-6):
    """Shapes and values of every leaf; a list is an array."""
    got, want = (jax.tree_util.tree_leaves(v, is_leaf=lambda v: isinstance(v, list)) for v in (got, want))
    assert len(got) == len(want), (len(got), len(want))
    for g, w in zip(got, want):
        g, w = np.asarray(g), np.asarray(w)
        assert g.shape == w.shape, (g.shape, w.shape)
        np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)


def check_plugin():
    """This process runs on the plugin under test and on nothing else."""
    wanted, found = os.environ["BACKPLANE_HOSTS_EXPECT"], jax.devices()[0].client.platform_version
    assert wanted in found, f"this is not the plugin under test: {found}"


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@program
def put_get():
    """Arrays to the device and back in every bit: types, empty, scalar, strided, large."""
    values = [np.arange(12, dtype=t).reshape(3, 4) for t in ("b", "h", "i", "B", "H", "I", "e", "f", "F")]
    values += [np.array([True, False]), np.zeros((0, 3), np.float32), np.float32(2.5), np.arange(12.0, dtype=np.float32).reshape(3, 4).T,
               np.arange(40, dtype=np.int32)[::3], np.arange(12).astype(ml_dtypes.bfloat16), normal(0, 700, 900)]
    for value in values:
        there = jax.device_put(value)
        assert there.dtype == value.dtype and there.shape == value.shape
        assert np.asarray(there).tobytes() == np.asarray(value).tobytes(), value.dtype
    x = jax.device_put(values[0])
    assert x.devices() == {jax.devices()[0]} and not x.is_deleted()
    x.delete()
    assert x.is_deleted()


@program
def arithmetic():
    """Elementwise operations, products, reductions, integers and bits, eager and jitted."""
    x, y = normal(1, 5, 7), normal(2, 5, 7)

    def f(x, y):
        return (x * y - x / (1 + jnp.abs(y)), jnp.exp(x), jnp.tanh(x), jnp.arctan2(y, x), jnp.log1p(jnp.abs(x)), jnp.where(x > y, x, -y), x @ y.T,
                x.sum(0), x.mean(1), x.max(), jnp.argmin(y, 1), jnp.cumsum(x, 1), jnp.prod(x, 0), jnp.var(y), jnp.floor(x), jnp.sign(y), x ** 3)

    def want(x, y):
        return (x * y - x / (1 + np.abs(y)), np.exp(x), np.tanh(x), np.arctan2(y, x), np.log1p(np.abs(x)), np.where(x > y, x, -y), x @ y.T,
                x.sum(0), x.mean(1), x.max(), np.argmin(y, 1), np.cumsum(x, 1), np.prod(x, 0), np.var(y), np.floor(x), np.sign(y), x ** 3)

    close(jax.jit(f)(x, y), want(x, y), atol=1e-5)
    close(f(jnp.asarray(x), jnp.asarray(y)), want(x, y), atol=1e-5)
    i = np.array([-7, -1, 0, 1, 6, 2 ** 31 - 1], np.int32)
    got = jax.jit(lambda i: (i // 3, i % 3, i << 2, i >> 1, lax.population_count(i), lax.clz(i), ~i, i ^ 5, i.astype(np.int8)))(i)
    close(got, (i // 3, i % 3, i << 2, i >> 1, np.array([bin(v & 0xffffffff).count("1") for v in i.tolist()]),
                np.array([32 - (v & 0xffffffff).bit_length() for v in i.tolist()]), ~i, i ^ 5, i.astype(np.int8)), rtol=0, atol=0)


@program
def grad():
    """Gradients of a perceptron against the chain rule by hand, a Hessian in closed form, training that arrives."""
    w1, w2, x, y = normal(3, 6, 8), normal(4, 8, 2), normal(5, 16, 6), normal(6, 16, 2)

    def loss(w1, w2):
        return ((jnp.tanh(x @ w1) @ w2 - y) ** 2).mean()

    got = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(w1, w2)
    h = np.tanh(x @ w1)
    d = 2 * (h @ w2 - y) / y.size
    close(got, (np.mean((h @ w2 - y) ** 2), (x.T @ ((d @ w2.T) * (1 - h * h)), h.T @ d)), rtol=1e-4)
    a = normal(7, 4, 4)
    v = normal(8, 4)
    close(jax.jit(jax.hessian(lambda v: v @ a @ v))(v), a + a.T)
    close(jax.jit(jax.jacrev(lambda v: a @ jnp.sin(v)))(v), a * np.cos(v), rtol=1e-4)
    step = jax.jit(lambda p: jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, p, jax.grad(lambda p: loss(*p))(p)))
    params, first = (w1, w2), loss(w1, w2)
    for _ in range(100):
        params = step(params)
    assert loss(*params) < 0.3 * first, (first, loss(*params))


@program
def vmap():
    """Batched functions and products over several batch axes."""
    a, b = normal(9, 3, 4, 5), normal(10, 3, 5, 6)
    close(jax.jit(jax.vmap(jnp.matmul))(a, b), a @ b)
    close(jax.vmap(lambda m, v: m @ v, in_axes=(0, None))(a, b[0, :, 0]), a @ b[0, :, 0])
    close(jax.jit(lambda a, b: jnp.einsum("bij,bjk->kbi", a, b))(a, b), np.einsum("bij,bjk->kbi", a, b))
    close(jax.vmap(jax.vmap(lambda r: r / jnp.linalg.norm(r)))(a), a / np.linalg.norm(a, axis=-1, keepdims=True))
    n = np.array([0, 3, 1, 7], np.int32)
    close(jax.jit(jax.vmap(lambda n: lax.fori_loop(0, n, lambda i, s: s + i * i, 0)))(n), [sum(i * i for i in range(k)) for k in n])


@program
def scan():
    """A recurrent network, its gradient by finite differences, a running sum backwards, a scan of a scan."""
    w, u, xs, h0 = normal(11, 4, 4) * 0.5, normal(12, 3, 4), normal(13, 9, 3), np.zeros(4, np.float32)

    def run(w):
        return lax.scan(lambda h, x: ((n := jnp.tanh(h @ w + x @ u)), n), h0, xs)

    h, hs = h0, []
    for x in xs:
        h = np.tanh(h @ w + x @ u)
        hs.append(h)
    close(jax.jit(run)(w), (h, np.stack(hs)))
    d = normal(14, 4, 4)
    slope = (jax.grad(lambda w: run(w)[0].sum())(w) * d).sum()
    e = 1e-2
    close(slope, (run(w + e * d)[0].sum() - run(w - e * d)[0].sum()) / (2 * e), rtol=2e-2, atol=1e-3)
    close(lax.scan(lambda s, x: (s + x, s), np.float32(0), np.arange(5, dtype=np.float32), reverse=True), (10, [10, 9, 7, 4, 0]))
    rows = np.arange(12, dtype=np.int32).reshape(3, 4)
    got = jax.jit(lambda r: lax.scan(lambda s, row: lax.scan(lambda t, v: (t * 3 + v, t), s, row), 1, r))(rows)
    s, kept = 1, []
    for v in rows.ravel().tolist():
        kept.append(s)
        s = int(np.int64(s * 3 + v).astype(np.int32))
    close(got, (s, np.array(kept).astype(np.int32).reshape(3, 4)), rtol=0, atol=0)


@program
def while_loop():
    """Loops whose condition reads what the body made last, integers that wrap, Newton's method."""
    steps = jax.jit(lambda n: lax.while_loop(lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0)))
    close(steps(27), (1, 111))
    half, flag = jax.jit(lambda: lax.while_loop(lambda s: ~s[1], lambda s: (s[0] * 0.5, jnp.sum(s[0]) > 0), (jnp.arange(8.0), False)))()
    assert bool(flag)
    close(half, np.arange(8) * 0.5)
    wrapped = jax.jit(lambda: lax.while_loop(lambda s: (s[0] < 127) & (s[1] < 5), lambda s: (s[0] + np.int8(100), s[1] + 1), (np.int8(0), 0)))()
    close(wrapped, (np.array(500).astype(np.int8), 5))
    root = jax.jit(lambda a: lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-5, lambda x: 0.5 * (x + a / x), a))
    close(root(2.0), np.sqrt(2), rtol=1e-5)


@program
def cond():
    """Branches by predicate and by index, under vmap and grad."""
    f = jax.jit(lambda p, x: lax.cond(p, jnp.sin, lambda x: x * 2, x))
    close((f(True, 0.5), f(False, 0.5)), (np.sin(0.5), 1.0))
    g = jax.jit(lambda i, x: lax.switch(i, [lambda x: x, lambda x: x * x, lambda x: -x], x))
    close([g(i, 3.0) for i in (-1, 0, 1, 2, 9)], [3, 3, 9, -3, -3])
    close(jax.vmap(f)(np.array([True, False]), np.array([1.0, 2.0], np.float32)), [np.sin(1.0), 4])
    close((jax.grad(f, 1)(True, 0.5), jax.grad(f, 1)(False, 0.5)), (np.cos(0.5), 2))
    h = jax.jit(lambda n: lax.fori_loop(0, n, lambda i, s: lax.cond(i % 3 == 0, lambda s: s + i, lambda s: s * 2, s), 1))
    s = 1
    for i in range(10):
        s = s + i if i % 3 == 0 else s * 2
    close(h(10), s)


@program
def nested_jit():
    """A jitted function with a loop, called from several places of another."""
    g = jax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, v: v * 1.5, x))
    close(jax.jit(lambda x: g(x, 3) + g(x, 5))(jnp.ones(4)), np.full(4, 10.96875))
    f = jax.jit(lambda x: jnp.sin(x) + 1)
    close(jax.jit(lambda x: f(f(f(x))) * f(x))(0.3), np.prod([np.sin(np.sin(np.sin(0.3) + 1) + 1) + 1, np.sin(0.3) + 1]))
    close(jax.grad(jax.jit(lambda x: f(f(x))))(0.3), np.cos(np.sin(0.3) + 1) * np.cos(0.3))


@program
def custom_rules():
    """custom_vjp and custom_jvp: the rule given is the one used."""
    @jax.custom_vjp
    def clip_gradient(x):
        return x * 1

    clip_gradient.defvjp(lambda x: (x * 1, None), lambda _, g: (jnp.clip(g, -0.5, 0.5),))
    close(jax.jit(jax.grad(lambda x: (clip_gradient(x) * np.array([3, 0.1, -7], np.float32)).sum()))(np.ones(3, np.float32)), [0.5, 0.1, -0.5])

    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log(1.0 + jnp.exp(x))

    log1pexp.defjvp(lambda x, t: (log1pexp(x[0]), (1 - 1 / (1 + jnp.exp(x[0]))) * t[0]))
    close(jax.jit(jax.grad(log1pexp))(100.0), 1.0)
    close(jax.jit(lambda x: lax.scan(lambda c, _: (log1pexp(c), c), x, None, length=2)[0])(0.0), np.log(3))


@program
def checkpoint():
    """Rematerialized layers give the gradients of plain ones."""
    ws = normal(15, 5, 6, 6) * 0.4
    x = normal(16, 3, 6)

    def net(layer, ws):
        return lax.scan(lambda h, w: (layer(h, w), None), x, ws)[0].sum()

    def layer(h, w):
        return jnp.tanh(h @ w)

    got = jax.jit(jax.grad(lambda ws: net(jax.checkpoint(layer), ws)))(ws)
    h = [x]
    for w in ws:
        h.append(np.tanh(h[-1] @ w))
    d, want = np.ones_like(x), []
    for w, before, after in zip(ws[::-1], h[-2::-1], h[::-1]):
        d = d * (1 - after * after)
        want.append(before.T @ d)
        d = d @ w.T
    close(got, np.stack(want[::-1]), rtol=1e-4)
