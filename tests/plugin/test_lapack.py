"""A program that comes from a file, and was not lowered in its process, finds LAPACK, for which SciPy is imported then."""
import os
import pathlib
import subprocess
import sys

WRITE = """
import sys, jax, numpy as np
from jax import export
f = jax.jit(lambda x: jax.numpy.linalg.qr(x)[1])
open(sys.argv[1], "wb").write(export.export(f, platforms=["cpu"])(jax.ShapeDtypeStruct((3, 3), np.float32)).serialize())
"""
CALL = """
import sys, numpy as np
import backplane_jax
backplane_jax.register(sys.argv[2], "cpu")
import jax
from jax import export
jax.jit(lambda x: x + 1)(1.0).block_until_ready()
assert "scipy.linalg" not in sys.modules, "imported without need"
f = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
f = jax.jit(f.call).lower(jax.ShapeDtypeStruct((3, 3), np.float32)).compile()
x = np.array([[3, 1, 2], [4, 1, 0], [0, 2, 5]], np.float32)
np.testing.assert_allclose(np.abs(f(x)), np.abs(np.linalg.qr(x)[1]), rtol=1e-5, atol=1e-5)
assert "scipy.linalg" in sys.modules
"""


def test_a_program_from_a_file_finds_lapack(plugin, tmp_path):
    env = dict(os.environ, PYTHONPATH=str(pathlib.Path(__file__).parents[2] / "sdk" / "python"))
    for program in (WRITE, CALL):
        done = subprocess.run([sys.executable, "-B", "-c", program, tmp_path / "qr", plugin], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr[-3000:]
