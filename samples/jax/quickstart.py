"""quickstart.py PLUGIN.so: unmodified JAX on a plugin; a line is fitted to points.

JAX is told of the plugin by two environment variables, which anybody can set who does not want to touch a program:

    PJRT_NAMES_AND_LIBRARY_PATHS=backplane:PLUGIN.so JAX_PLATFORMS=backplane python program.py
"""
import os
import sys

os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"backplane:{os.path.abspath(sys.argv[1])}"
os.environ["JAX_PLATFORMS"] = "backplane"

import jax
import jax.numpy as jnp


def loss(parameters, x, y):
    slope, offset = parameters
    return jnp.mean((slope * x + offset - y) ** 2)


@jax.jit
def step(parameters, x, y):
    value, gradient = jax.value_and_grad(loss)(parameters, x, y)
    return jax.tree.map(lambda p, g: p - 0.3 * g, parameters, gradient), value


def main():
    x = jax.random.uniform(jax.random.key(0), (256,), minval=-1.0)
    y = 3 * x - 2
    parameters = (jnp.float32(0), jnp.float32(0))
    first = None
    for _ in range(100):
        parameters, value = step(parameters, x, y)
        first = value if first is None else first
    # Any number of them at once, on the same device.
    values = jax.vmap(lambda offset: loss((3.0, offset), x, y))(jnp.array([-3.0, -2.0, -1.0]))
    slope, offset = map(float, parameters)
    print(f"{jax.devices()[0].client.platform_version.splitlines()[-1].split(';')[0]}: loss {first:.3f} to {value:.2g}, slope {slope:.4f}, offset {offset:.4f}")
    assert abs(slope - 3) < 1e-3 and abs(offset + 2) < 1e-3 and int(values.argmin()) == 1


if __name__ == "__main__":
    main()
