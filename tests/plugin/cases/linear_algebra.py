"""Factorizations and solves, through JAX's own LAPACK handlers forwarded by the Python package; vmap and gradients of them."""
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from . import case, close, rand, same


def positive(*batch, n=6):
    a = rand(*batch, n, n).astype(np.float64)
    return (a @ np.swapaxes(a, -1, -2) + n * np.eye(n)).astype(np.float32)


@case(road="package")
def cholesky():
    a = positive()
    close(jax.jit(jnp.linalg.cholesky)(a), np.linalg.cholesky(a.astype(np.float64)))
    close(jax.jit(jax.vmap(jnp.linalg.cholesky))(positive(3)), np.linalg.cholesky(positive(3).astype(np.float64)))
    assert np.isnan(np.asarray(jnp.linalg.cholesky(-np.eye(3, dtype=np.float32)))).any()
    g = jax.jit(jax.grad(lambda a: jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(a))))))(a)
    close(g, 0.5 * np.linalg.inv(a.astype(np.float64)), rtol=1e-4)  # half the gradient of the log determinant


@case(road="package")
def solve():
    a, b = positive(), rand(6, 3)
    close(jax.jit(jnp.linalg.solve)(a, b), np.linalg.solve(a.astype(np.float64), b))
    close(jax.jit(jax.vmap(jnp.linalg.solve))(positive(4), rand(4, 6, 2)), np.linalg.solve(positive(4).astype(np.float64), rand(4, 6, 2)))
    close(jax.jit(jnp.linalg.inv)(a), np.linalg.inv(a.astype(np.float64)))
    close(jax.jit(jnp.linalg.det)(a), np.linalg.det(a.astype(np.float64)), rtol=1e-4)
    for lower in (True, False):
        t = np.tril(a) if lower else np.triu(a)
        close(jax.jit(lambda t, b: jax.scipy.linalg.solve_triangular(t, b, lower=lower))(t, b), scipy.linalg.solve_triangular(t.astype(np.float64), b, lower=lower))
    g = jax.jit(jax.grad(lambda b: jnp.linalg.solve(a, b).sum()))(b)
    close(g, np.linalg.solve(a.T.astype(np.float64), np.ones((6, 3))))


@case(road="package")
def svd():
    for shape in ((5, 5), (7, 4), (3, 6)):
        a = rand(*shape)
        u, s, vt = jax.jit(lambda a: jnp.linalg.svd(a, full_matrices=False))(a)
        close(s, np.linalg.svd(a.astype(np.float64), compute_uv=False))
        close((np.asarray(u) * np.asarray(s)) @ np.asarray(vt), a)
        close(np.asarray(u).T @ np.asarray(u), np.eye(u.shape[1]))
    a = rand(3, 5, 4)
    close(jax.jit(jax.vmap(lambda a: jnp.linalg.svd(a, compute_uv=False)))(a), np.linalg.svd(a.astype(np.float64), compute_uv=False))


@case(road="package")
def eigh():
    a = positive()
    w, v = jax.jit(jnp.linalg.eigh)(a)
    close(w, np.linalg.eigvalsh(a.astype(np.float64)))
    close(a @ np.asarray(v), np.asarray(v) * np.asarray(w), rtol=1e-4, atol=1e-4)
    close(jax.jit(jax.vmap(jnp.linalg.eigvalsh))(positive(3)), np.linalg.eigvalsh(positive(3).astype(np.float64)))
    close(jax.jit(jax.grad(lambda a: jnp.linalg.eigvalsh(a).sum()))(a), np.eye(6), atol=1e-4)  # the trace
    h = (rand(4, 4) + 1j * rand(4, 4, seed=1)).astype(np.complex64)
    h = h + h.conj().T
    close(jax.jit(jnp.linalg.eigvalsh)(h), np.linalg.eigvalsh(h.astype(np.complex128)), atol=1e-4)


@case(road="package")
def qr_and_lu():
    a = rand(6, 4)
    q, r = jax.jit(jnp.linalg.qr)(a)
    close(np.asarray(q) @ np.asarray(r), a)
    close(np.asarray(q).T @ np.asarray(q), np.eye(4))
    p, l, u = jax.jit(jax.scipy.linalg.lu)(positive())
    close(np.asarray(p) @ np.asarray(l) @ np.asarray(u), positive(), atol=1e-4)


@case(road="package")
def linear_algebra_x64():
    with jax.enable_x64(True):
        a = positive().astype(np.float64)
        close(jax.jit(jnp.linalg.cholesky)(a), np.linalg.cholesky(a), rtol=1e-12, atol=1e-12)
        close(jnp.sort(jnp.abs(jax.jit(jnp.linalg.eigvals)(rand(5, 5, dtype=np.float64)))), np.sort(np.abs(np.linalg.eigvals(rand(5, 5, dtype=np.float64)))), rtol=1e-10, atol=1e-10)
        close(jax.jit(jax.scipy.linalg.expm)(a / 10), scipy.linalg.expm(a / 10), rtol=1e-10, atol=1e-10)


@case(road="package")
def both_cpu_clients():
    """JAX's own CPU client keeps its handlers beside ours."""
    a = positive()
    own = jax.devices("cpu")[0]
    assert own.client is not jax.devices()[0].client
    close(jnp.linalg.cholesky(jax.device_put(a, own)), np.linalg.cholesky(a))
    close(jnp.linalg.cholesky(a), np.linalg.cholesky(a))


@case(road="package")
def matrices_of_size_zero():
    """LAPACK refuses them, so nothing may be asked of it; a batch of none and a matrix of none give what their shapes say."""
    for shape in ((0, 3, 3), (2, 0, 0), (0, 0)):
        a, batch, n = np.ones(shape, np.float32), shape[:-2], shape[-1]
        same(jax.jit(jnp.linalg.eig)(a)[1], np.ones(shape, np.complex64))
        same(jax.jit(jnp.linalg.eigh)(a)[0], np.ones((*batch, n), np.float32))
        same(jax.jit(jax.lax.linalg.schur)(a)[0], a)
        for f in (jnp.linalg.inv, jnp.linalg.cholesky, lambda a: jnp.linalg.solve(a, a), lambda a: jax.lax.linalg.lu(a)[0], lambda a: jnp.linalg.qr(a)[1], jax.scipy.linalg.expm):
            same(jax.jit(f)(a), a)
        same(jax.jit(jnp.linalg.det)(a), np.ones(batch, np.float32))
    same(jax.jit(lambda a: jnp.linalg.svd(a, compute_uv=False))(np.ones((3, 0), np.float32)), np.ones(0, np.float32))
