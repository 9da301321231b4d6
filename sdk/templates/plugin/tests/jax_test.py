"""Runs JAX on @name@, which JAX's own discovery finds, and compares the results with NumPy's. Exits with status 77, which CTest
counts as skipped, if this Python has no JAX."""
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "@name@"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
try:
    import jax
except ImportError:
    print("skipped: no module jax")
    sys.exit(77)
import jax.numpy as jnp
import numpy as np


def loss(w, x, y):
    return jnp.mean((jnp.tanh(x @ w) - y) ** 2)


def main():
    assert jax.devices()[0].platform == "@name@", jax.devices()
    rng = np.random.default_rng(0)
    w, x, y = (rng.standard_normal(s).astype(np.float32) for s in ((4, 3), (8, 4), (8, 3)))
    value, gradient = jax.jit(jax.value_and_grad(loss))(w, x, y)
    t = np.tanh(x @ w)
    np.testing.assert_allclose(value, np.mean((t - y) ** 2), rtol=1e-5)
    np.testing.assert_allclose(gradient, x.T @ (2 * (t - y) * (1 - t**2)) / y.size, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(jax.lax.fori_loop(0, 10, lambda i, v: v + x, x), 11 * x, rtol=1e-6)
    given = jax.device_put(x)
    np.testing.assert_array_equal(jax.jit(lambda v: v + 1, donate_argnums=0)(given), x + 1)
    assert given.is_deleted(), "the argument was not donated"
    print("jax", jax.__version__, "on", jax.devices())


main()
