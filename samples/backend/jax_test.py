"""jax_test.py PLATFORM PLUGIN.so BACKPLANE: JAX on a sample plugin, compared with NumPy; and what its compile log says."""
import os
import subprocess
import sys
import tempfile

platform, plugin, command = sys.argv[1:4]
os.environ.update(PJRT_NAMES_AND_LIBRARY_PATHS=f"{platform}:{plugin}", JAX_PLATFORMS=platform)
import jax
import jax.numpy as jnp
import numpy as np


def layer(x, w, b):
    return jnp.tanh(x @ w + b)


def loss(params, x, y):
    for w, b in params:
        x = layer(x, w, b)
    return jnp.mean((x - y) ** 2)


def numpy_loss(params, x, y):
    for w, b in params:
        x = np.tanh(x @ w + b)
    return np.mean((x - y) ** 2)


rng = np.random.default_rng(1)
params = [(0.3 * rng.standard_normal((20, 30)).astype(np.float32), np.zeros(30, np.float32)),
          (0.3 * rng.standard_normal((30, 5)).astype(np.float32), np.zeros(5, np.float32))]
x, y = rng.standard_normal((200, 20)).astype(np.float32), rng.standard_normal((200, 5)).astype(np.float32)

assert jax.devices()[0].platform == platform, jax.devices()
np.testing.assert_allclose(jax.jit(loss)(params, x, y), numpy_loss(params, x, y), rtol=1e-5)

# Training lowers the loss: loops, donation, and what no kernel was brought for (transposes, reductions, random numbers).
step = jax.jit(lambda p: jax.tree.map(lambda v, g: v - 0.5 * g, p, jax.grad(loss)(p, x, y)), donate_argnums=0)
before = float(loss(params, x, y))
for _ in range(20):
    params = step(params)
after = float(loss(params, x, y))
assert after < 0.9 * before, (before, after)
drawn = np.asarray(jax.random.normal(jax.random.key(0), (1000,)))
assert abs(drawn.mean()) < 0.2 and 0.8 < drawn.std() < 1.2, (drawn.mean(), drawn.std())
wide = np.asarray(jax.jit(lambda v: jnp.maximum(-v, v / 3) * jnp.exp(v))(x.reshape(-1)))  # longer than a block
v = x.reshape(-1)
np.testing.assert_allclose(wide, np.maximum(-v, v / 3) * np.exp(v), rtol=1e-5)
# The kernel keeps to the definition where the processor's own comparison does not.
special = np.array([0.0, -0.0, np.nan, 1.0, -np.inf], np.float32)
got = np.asarray(jax.jit(jnp.maximum)(special, special[::-1].copy()))
want = np.array([0.0, 1.0, np.nan, 1.0, 0.0], np.float32)
np.testing.assert_array_equal(got, want)

# The log of the forward pass: the products are ours, the formula after each is one kernel.
with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/forward.mlir"
    with open(path, "w") as f:
        f.write(jax.jit(lambda x, w, b: layer(x, w, b)).lower(x, *params[0]).as_text())
    log = subprocess.run([command, "compile", plugin, path, "--log"], check=True, capture_output=True, text=True,
                         env=os.environ | {"JAX_PLATFORMS": ""}).stdout
lines = log.splitlines()
assert any(line.endswith("f32[200,30]: matmul") for line in lines), log
assert any(line.endswith("f32[200,30]: formula") for line in lines), log
share = next(line for line in lines if "kernels run" in line)
assert float(share.split(": ")[1].split(" %")[0]) > 99, log
assert any("evaluated by definition: broadcast" in line for line in lines), log
print(f"{platform}: loss {before:.4f} -> {after:.4f} in 20 steps; {share.strip()}")
