"""What needs the plugin's Python package: linear algebra out of jaxlib's LAPACK, and callbacks into Python."""
import contextlib
import io

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax import lax
from jax.experimental import io_callback

from programs import program
from programs.jax_basic import check_plugin, close, normal  # noqa: F401


@program
def solving():
    """Cholesky and LU, alone, in batches, and what is solved by them; determinant, inverse, gradients."""
    a, b = normal(60, 3, 6, 6) + 4 * np.eye(6, dtype=np.float32), normal(61, 3, 6, 2)
    spd = a @ a.transpose(0, 2, 1)
    close(jax.jit(jnp.linalg.cholesky)(spd), np.linalg.cholesky(spd), rtol=1e-3, atol=1e-4)
    close(jax.jit(jnp.linalg.solve)(a, b), np.linalg.solve(a, b), rtol=1e-3, atol=1e-4)
    close(jnp.linalg.inv(a), np.linalg.inv(a), rtol=1e-3, atol=1e-4)
    close(jnp.linalg.det(a), np.linalg.det(a), rtol=1e-3)
    p, l, u = jax.scipy.linalg.lu(a[0])
    close(p @ l @ u, a[0], rtol=1e-3, atol=1e-4)
    close(jax.scipy.linalg.solve_triangular(spd[0], b[0], lower=True), scipy.linalg.solve_triangular(spd[0], b[0], lower=True), rtol=1e-3, atol=1e-4)
    close(jax.scipy.linalg.cho_solve((np.linalg.cholesky(spd[0]), True), b[0]), np.linalg.solve(spd[0], b[0]), rtol=1e-3, atol=1e-4)
    close(jax.grad(lambda a: jnp.linalg.slogdet(a)[1])(a[0]), np.linalg.inv(a[0]).T, rtol=1e-3, atol=1e-4)
    c = a[0] + 1j * a[1]
    close(jnp.linalg.solve(c, b[0].astype(np.complex64)), np.linalg.solve(c, b[0]).astype(np.complex64), rtol=1e-3, atol=1e-4)
    assert np.isnan(np.asarray(jnp.linalg.cholesky(-spd[0]))).any()


@program
def factors():
    """QR and the singular values, real and complex, tall and wide."""
    for shape in ((6, 4), (4, 6), (5, 5)):
        for a in (normal(62, *shape), normal(62, *shape) + 1j * normal(63, *shape)):
            q, r = jax.jit(jnp.linalg.qr)(a)
            close(q @ r, a, rtol=1e-3, atol=1e-4)
            close(q.conj().T @ q, np.eye(min(shape)), atol=1e-4)
            u, s, v = jax.jit(lambda a: jnp.linalg.svd(a, full_matrices=False))(a)
            close(s, np.linalg.svd(a, compute_uv=False), rtol=1e-3, atol=1e-4)
            close((u * s) @ v, a, rtol=1e-3, atol=1e-4)
    a = normal(64, 8, 3)
    close(jnp.linalg.lstsq(a, a[:, 0] * 2)[0], [2, 0, 0], rtol=1e-3, atol=1e-4)
    close(jnp.linalg.pinv(a), np.linalg.pinv(a), rtol=1e-3, atol=1e-4)
    close(jnp.linalg.matrix_rank(a @ a.T), 3)


@program
def eigenvalues():
    """Symmetric, Hermitian and general matrices, in batches; the gradient of an eigenvalue."""
    a = normal(65, 3, 5, 5)
    s = a + a.transpose(0, 2, 1)
    w, v = jax.jit(jnp.linalg.eigh)(s)
    close(w, np.linalg.eigvalsh(s), rtol=1e-3, atol=1e-4)
    close(s @ np.asarray(v), np.asarray(v) * np.asarray(w)[:, None], rtol=1e-3, atol=1e-3)
    h = s[0] + 1j * (a[0] - a[0].T)
    close(jnp.linalg.eigvalsh(h), np.linalg.eigvalsh(h), rtol=1e-3, atol=1e-4)
    close(np.sort_complex(np.asarray(jax.jit(jnp.linalg.eigvals)(a[0]))), np.sort_complex(np.linalg.eigvals(a[0])), rtol=1e-3, atol=1e-3)
    top = np.asarray(v)[0, :, -1]
    close(jax.grad(lambda s: jnp.linalg.eigvalsh(s)[-1])(s[0]), np.outer(top, top), rtol=1e-2, atol=1e-3)
    t, z = jax.scipy.linalg.schur(a[0])
    close(z @ t @ z.T, a[0], rtol=1e-3, atol=1e-3)
    close(jax.scipy.linalg.expm(a[0]), scipy.linalg.expm(a[0]), rtol=1e-3, atol=1e-3)


@program
def pure_callback():
    """Python functions in programs: several results, types, in loops, under vmap; errors reach the caller."""
    x = normal(66, 3, 4)
    shape = jax.ShapeDtypeStruct
    f = jax.jit(lambda x: jax.pure_callback(lambda v: np.sort(np.asarray(v), 1), shape((3, 4), np.float32), x) + 1)
    close(f(x), np.sort(x, 1) + 1)
    two = jax.jit(lambda x, n: jax.pure_callback(lambda v, n: (np.asarray(v).sum(0), np.int32(n) * 2), (shape((4,), np.float32), shape((), np.int32)), x, n))
    close(two(x, 21), (x.sum(0), 42))
    loop = jax.jit(lambda x: lax.fori_loop(0, 5, lambda i, s: jax.pure_callback(lambda s: np.asarray(s) * np.float32(1.5), shape((), np.float32), s), x))
    close(loop(2.0), 2 * 1.5 ** 5)
    each = jax.vmap(lambda v: jax.pure_callback(lambda v: np.float32(np.asarray(v).max()), shape((), np.float32), v, **SEQUENTIAL))
    close(jax.jit(each)(x), x.max(1))

    def fails(v):
        raise ValueError("my own words")

    try:
        jax.jit(lambda x: jax.pure_callback(fails, shape((3, 4), np.float32), x))(x).block_until_ready()
    except Exception as e:
        assert "my own words" in str(e), e
    else:
        raise AssertionError("an error in the callback was lost")


# The name of the rule for vmap changed.
SEQUENTIAL = {"vectorized": False} if tuple(map(int, jax.__version__.split(".")[:3])) < (0, 4, 35) else {"vmap_method": "sequential"}


@program
def ordered_callbacks():
    """Callbacks with an effect: each runs once, ordered ones in order, unused ones too."""
    seen = []

    def note(i):
        seen.append(int(i))
        return np.int32(i + 100)

    @jax.jit
    def f(n):
        return lax.fori_loop(0, n, lambda i, s: s + io_callback(note, jax.ShapeDtypeStruct((), np.int32), i, ordered=True), 0)

    close(f(6), sum(range(6)) + 600)
    assert seen == list(range(6)), seen
    del seen[:]
    jax.jit(lambda x: (io_callback(note, jax.ShapeDtypeStruct((), np.int32), x), x)[1])(7).block_until_ready()
    jax.effects_barrier()
    assert seen == [7], seen


@program
def debug_callbacks():
    """jax.debug.print and jax.debug.callback, from a loop and from a gradient."""
    lines = []
    jax.jit(lambda x: (jax.debug.callback(lambda v: lines.append(float(v)), x * 2), x)[1])(1.5).block_until_ready()
    jax.effects_barrier()
    assert lines == [3.0], lines
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        jax.jit(lambda x: lax.fori_loop(0, 3, lambda i, s: (jax.debug.print("step {i}: {s}", i=i, s=s, ordered=True), s * 2)[1], x))(1.0).block_until_ready()
        jax.effects_barrier()
    assert printed.getvalue().split("\n") == ["step 0: 1.0", "step 1: 2.0", "step 2: 4.0", ""], printed.getvalue()
    del lines[:]
    jax.grad(lambda x: (jax.debug.callback(lambda v: lines.append(float(v)), x), x * x)[1])(3.0).block_until_ready()
    jax.effects_barrier()
    assert lines == [3.0], lines
