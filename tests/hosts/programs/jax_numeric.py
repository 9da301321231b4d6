"""JAX on one device: random numbers, convolutions, transforms, sorting, indexing, the types of numbers, sparse arrays."""
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import scipy.signal
import scipy.sparse
from jax import lax
from jax.extend.random import threefry_2x32

from programs import program
from programs.jax_basic import check_plugin, close, normal  # noqa: F401


@program
def random():
    """Threefry's published vectors, and the moments of what is made of it."""
    for key, count, want in (((0, 0), (0, 0), (0x6b200159, 0x99ba4efe)), ((0xffffffff,) * 2, (0xffffffff,) * 2, (0x1cb996fc, 0xbb002be7)),
                             ((0x13198a2e, 0x03707344), (0x243f6a88, 0x85a308d3), (0xc4923a9c, 0x483df7a0))):
        got = jax.jit(threefry_2x32)(np.array(key, np.uint32), np.array(count, np.uint32))
        assert np.asarray(got).tolist() == list(want), [hex(v) for v in np.asarray(got).tolist()]
    key = jax.random.PRNGKey(7)
    x = np.asarray(jax.jit(lambda k: jax.random.normal(k, (20000,)))(key))
    close((x.mean(), x.std(), (x ** 3).mean(), (x ** 4).mean()), (0, 1, 0, 3), rtol=0.15, atol=0.1)
    u = np.asarray(jax.random.uniform(key, (20000,)))
    assert 0 <= u.min() and u.max() < 1
    close(np.histogram(u, 10, (0, 1))[0], np.full(10, 2000), rtol=0.1)
    a, b = jax.random.split(key)
    assert np.abs(np.corrcoef(jax.random.normal(a, (5000,)), jax.random.normal(b, (5000,)))[0, 1]) < 0.06
    close(jax.random.normal(a, (4,)), jax.random.normal(a, (4,)), rtol=0, atol=0)
    close(np.asarray(jax.random.gamma(key, 3.0, (20000,))).mean(), 3, rtol=0.05)


@program
def random_types():
    """Keys of each kind, integers, choices, permutations."""
    for kind in ("threefry2x32", "rbg", "unsafe_rbg"):
        key = jax.random.key(3, impl=kind)
        x = np.asarray(jax.random.normal(key, (10000,)))
        close((x.mean(), x.std()), (0, 1), rtol=0.05, atol=0.05)
        close(jax.random.normal(key, (10000,)), x, rtol=0, atol=0)
    n = np.asarray(jax.random.randint(key, (10000,), -3, 5))
    assert n.min() == -3 and n.max() == 4 and abs(n.mean() - 0.5) < 0.1
    p = np.asarray(jax.jit(lambda k: jax.random.permutation(k, 100))(key))
    assert sorted(p.tolist()) == list(range(100)) and p.tolist() != list(range(100))
    c = np.asarray(jax.random.categorical(key, jnp.log(jnp.array([0.2, 0.5, 0.3])), shape=(10000,)))
    close(np.bincount(c) / 10000, [0.2, 0.5, 0.3], rtol=0.1)
    assert jax.random.bits(key, (5,), np.uint8).dtype == np.uint8
    close(np.asarray(jax.random.bernoulli(key, 0.3, (10000,))).mean(), 0.3, rtol=0.1)


@program
def convolution():
    """One and two dimensions, strides, padding, dilation, groups, the transpose; the gradient; pooling."""
    x, w = normal(20, 2, 3, 9, 10), normal(21, 4, 3, 3, 2)

    def plain(x, w):
        return np.stack([[sum(scipy.signal.correlate(xi[c], wo[c], "valid") for c in range(len(wo))) for wo in w] for xi in x])

    close(jax.jit(lambda x, w: lax.conv(x, w, (1, 1), "VALID"))(x, w), plain(x, w), rtol=1e-4, atol=1e-4)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)))
    close(jax.jit(lambda x, w: lax.conv_general_dilated(x, w, (2, 3), ((1, 2), (0, 1))))(x, w), plain(padded, w)[:, :, ::2, ::3], rtol=1e-4, atol=1e-4)
    spread = np.zeros((4, 3, 5, 2), np.float32)
    spread[:, :, ::2] = w
    close(lax.conv_general_dilated(x, w, (1, 1), "VALID", rhs_dilation=(2, 1)), plain(x, spread), rtol=1e-4, atol=1e-4)
    holes = np.zeros((2, 3, 17, 10), np.float32)
    holes[:, :, ::2] = x
    close(lax.conv_general_dilated(x, w, (1, 1), ((0, 0), (0, 0)), lhs_dilation=(2, 1)), plain(holes, w), rtol=1e-4, atol=1e-4)
    depth = normal(22, 6, 1, 3, 2)
    want = np.concatenate([plain(x[:, c:c + 1], depth[2 * c:2 * c + 2]) for c in range(3)], 1)
    close(lax.conv_general_dilated(x, depth, (1, 1), "VALID", feature_group_count=3), want, rtol=1e-4, atol=1e-4)
    y = normal(23, 2, 4, 7, 9)
    got = jax.jit(jax.grad(lambda w: (lax.conv(x, w, (1, 1), "VALID") * y).sum()))(w)
    close(got, plain(x.transpose(1, 0, 2, 3), y.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3), rtol=1e-3, atol=1e-3)
    close(jnp.convolve(x[0, 0, 0], w[0, 0, :, 0]), np.convolve(x[0, 0, 0], w[0, 0, :, 0]), rtol=1e-4, atol=1e-5)
    pooled = lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    close(pooled, x[:, :, :8].reshape(2, 3, 4, 2, 5, 2).max((3, 5)))


@program
def fft():
    """Complex, real and back, one to three axes, lengths that are no power of two."""
    for shape in ((8,), (5, 12), (3, 4, 6), (2, 7, 9)):
        x = normal(24, *shape)
        z = x + 1j * normal(25, *shape)
        close(jax.jit(jnp.fft.fft)(z), np.fft.fft(z).astype(np.complex64), rtol=1e-4, atol=1e-4)
        close(jnp.fft.ifftn(z), np.fft.ifftn(z).astype(np.complex64), rtol=1e-4, atol=1e-5)
        close(jnp.fft.rfft(x), np.fft.rfft(x).astype(np.complex64), rtol=1e-4, atol=1e-4)
        close(jax.jit(lambda v: jnp.fft.irfft(v, n=shape[-1]))(jnp.fft.rfft(x)), x, rtol=1e-4, atol=1e-5)
    g = jax.grad(lambda x: jnp.abs(jnp.fft.rfft(x)[1]) ** 2)(normal(26, 8))
    f = np.fft.rfft(normal(26, 8))[1]
    close(g, 2 * (f * np.exp(2j * np.pi * np.arange(8) / 8)).real, rtol=1e-3, atol=1e-4)


@program
def sort():
    """Sorting by values, by several keys, stable; the largest; NaN goes last."""
    x = normal(27, 6, 33)
    close(jax.jit(jnp.sort)(x), np.sort(x), rtol=0, atol=0)
    close(jnp.argsort(x, 0), np.argsort(x, 0, kind="stable"), rtol=0, atol=0)
    k = (np.arange(200) * 7919 % 13).astype(np.int32)
    close(jnp.argsort(k), np.argsort(k, kind="stable"), rtol=0, atol=0)
    close(jnp.lexsort((x[0], k[:33])), np.lexsort((x[0], k[:33])), rtol=0, atol=0)
    values, places = jax.jit(lambda x: lax.top_k(x, 5))(x)
    close(places, np.argsort(-x, -1, kind="stable")[:, :5], rtol=0, atol=0)
    close(values, -np.sort(-x)[:, :5], rtol=0, atol=0)
    holed = np.array([3, np.nan, -1, np.inf, -np.inf, 0], np.float32)
    close(jnp.sort(holed), np.sort(holed), rtol=0, atol=0)
    close(jnp.median(x, 1), np.median(x, 1))
    close(jnp.unique(k), np.unique(k), rtol=0, atol=0)
    close(jnp.searchsorted(np.sort(x[0]), x[1]), np.searchsorted(np.sort(x[0]), x[1]), rtol=0, atol=0)


@program
def indexing():
    """Gather, scatter, slices that start anywhere, segments; an index out of bounds goes to the edge or is dropped."""
    x, i = normal(28, 6, 8), np.array([[4, 0], [5, 5]], np.int32)
    close(jax.jit(lambda x, i: x[i])(x, i), x[i])
    close(jnp.take_along_axis(x, jnp.argsort(x, 1), 1), np.sort(x, 1))
    want = x.copy()
    np.add.at(want, (i.ravel(), np.array([1, 1, 2, 2])), 1)
    close(jax.jit(lambda x: x.at[i.ravel(), np.array([1, 1, 2, 2])].add(1))(x), want)
    close(jnp.asarray(x).at[9].set(1), x)
    close(jnp.asarray(x)[9], x[5])
    close(jax.jit(lambda x, k: lax.dynamic_slice(x, (k, 7), (2, 3)))(x, 5), x[4:6, 5:8])
    close(jax.jit(lambda x, k: lax.dynamic_update_slice(x, jnp.zeros((2, 2)), (k, 1)))(x, 2), np.where((np.arange(6)[:, None] // 2 == 1) & (np.isin(np.arange(8), (1, 2))), 0, x))
    s = np.array([0, 2, 0, 1, 2, 2])
    close(jax.ops.segment_sum(x, s, 4), np.stack([x[s == k].sum(0) for k in range(4)]))
    close(jax.grad(lambda x: (x[i] ** 2).sum())(x)[5], 4 * x[5])
    close(jnp.asarray(x)[::-2, 1:7:3], x[::-2, 1:7:3])
    close(jnp.roll(x, 3, 1), np.roll(x, 3, 1))


@program
def x64():
    """Types of 64 bits, with their precision and their range."""
    jax.config.update("jax_enable_x64", True)
    x = np.random.default_rng(29).standard_normal((40, 40))
    close(jax.jit(lambda x: (x @ x, jnp.exp(x), jnp.sin(x * 100), x.sum()))(x), (x @ x, np.exp(x), np.sin(x * 100), x.sum()), rtol=1e-13, atol=1e-12)
    assert (jnp.ones(1) / 3).dtype == np.float64
    n = np.array([2 ** 62 + 1, -2 ** 63, -1], np.int64)
    close(jax.jit(lambda n: (n + n, n // 7, n >> 3, n.astype(np.uint64) % 1000))(n), (n + n, n // 7, n >> 3, n.astype(np.uint64) % 1000), rtol=0, atol=0)
    close(jax.jit(lambda: lax.fori_loop(0, 60, lambda i, s: s * 2, np.int64(1)))(), 2 ** 60, rtol=0, atol=0)
    close(jax.grad(lambda v: jnp.cumsum(v ** 2)[3])(np.arange(5.0)), 2 * np.arange(5) * (np.arange(5) < 4), rtol=1e-14)
    assert abs(float(jax.scipy.special.gammaln(10.5)) - 13.940625219403763) < 1e-12


@program
def complex_numbers():
    """Arithmetic, functions, products and gradients of complex numbers."""
    a = normal(30, 4, 4) + 1j * normal(31, 4, 4)
    close(jax.jit(lambda a: (a * a.conj(), a / (a + 2), a @ a, jnp.exp(a), jnp.abs(a), jnp.angle(a), jnp.sqrt(a), jnp.log(a), a ** 2, jnp.sin(a), a.sum()))(a),
          (a * a.conj(), a / (a + 2), a @ a, np.exp(a), np.abs(a), np.angle(a), np.sqrt(a), np.log(a), a ** 2, np.sin(a), a.sum()), rtol=1e-4, atol=1e-5)
    close(jax.grad(lambda z: jnp.abs(z) ** 2)(np.complex64(3 + 4j)), 6 - 8j)
    close(lax.complex(a.real, -a.imag), a.conj(), rtol=0, atol=0)


@program
def small_types():
    """bfloat16, half, eight-bit floats, four-bit integers: rounding as ml_dtypes does, products summed in more."""
    x = normal(32, 64, 64)
    for t in (ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        low = x.astype(t)
        assert np.asarray(jax.jit(lambda x: x.astype(t))(x)).tobytes() == low.tobytes(), t
        assert np.asarray(jax.jit(lambda x: x.astype(np.float32))(low)).tobytes() == low.astype(np.float32).tobytes(), t
    for t, tolerance in ((ml_dtypes.bfloat16, 1e-2), (np.float16, 2e-3)):
        low = x.astype(t)
        wide = low.astype(np.float32)
        close(jax.jit(jnp.matmul)(low, low).astype(np.float32), wide @ wide, rtol=tolerance, atol=20 * tolerance)
        close(jax.jit(lambda v: (v * v + v).astype(np.float32))(low), wide * wide + wide, rtol=2 * tolerance, atol=tolerance)
        close(jax.jit(lambda v: v.sum(1).astype(np.float32))(low), wide.sum(1), rtol=3 * tolerance, atol=20 * tolerance)
    n = np.arange(-8, 8, dtype=np.int8)
    close(jax.jit(lambda n: (n.astype(jnp.int4).astype(np.int32) * 2))(n), np.arange(-8, 8) * 2, rtol=0, atol=0)
    i = np.arange(-128, 128, dtype=np.int16).astype(np.int8)
    close(lax.dot(i.reshape(16, 16), i.reshape(16, 16), preferred_element_type=np.int32), i.reshape(16, 16).astype(int) @ i.reshape(16, 16), rtol=0, atol=0)


@program
def sparse():
    """Coordinate-form arrays times dense ones, transposed and differentiated, against SciPy."""
    from jax.experimental import sparse as js
    s = scipy.sparse.random(12, 9, 0.3, "coo", np.float32, random_state=np.random.RandomState(33))
    a = js.BCOO((jnp.asarray(s.data), jnp.stack([s.row, s.col], 1).astype(np.int32)), shape=s.shape)
    d, v = normal(34, 9, 4), normal(35, 12)
    close(jax.jit(lambda a, d: a @ d)(a, d), s @ d)
    close(jax.jit(lambda a, v: a.T @ v)(a, v), s.T @ v)
    close(a.todense(), s.toarray())
    close(js.BCOO.fromdense(a.todense()).sum(0).todense(), s.toarray().sum(0))
    f = js.grad(lambda a: ((a @ d) ** 2).sum())(a)
    close(f.data, 2 * ((s @ d) @ d.T)[s.row, s.col], rtol=1e-4)
