"""A program may end while launches run that call Python."""
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
import backplane_jax
backplane_jax.register(sys.argv[1], "cpu")
import jax, jax.numpy as jnp, numpy as np

def twice(v):
    time.sleep(float(sys.argv[2]))
    return np.asarray(v) * 2

@jax.jit
def f(v):
    v = jax.pure_callback(twice, jax.ShapeDtypeStruct(v.shape, v.dtype), v)
    return v / jnp.sum(v)

y = f(jnp.arange(8.0))
for _ in range(int(sys.argv[3])):
    y = f(y)
"""


@pytest.mark.parametrize("seconds,launches", [("0.5", "8"), ("0", "400")], ids=["slow", "many"])
def test_a_program_ends_while_callbacks_run(plugin, seconds, launches):
    env = dict(os.environ, PYTHONPATH=str(pathlib.Path(__file__).parents[2] / "sdk" / "python"))
    done = subprocess.run([sys.executable, "-B", "-c", PROGRAM, plugin, seconds, launches], capture_output=True, text=True, env=env,
                          timeout=60)
    assert done.returncode == 0, done.stderr[-3000:]
