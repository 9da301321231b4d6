"""jax_ahead_test.py HIP.so: JAX compiles for the devices of a topology in a process without any GPU, and an emulated GPU of that kind
runs the result in another process. And what backplane_jax adds to JAX for the platform."""
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

PLUGIN = os.path.abspath(sys.argv[1])
PYTHON_PATH = pathlib.Path(__file__).resolve().parents[3] / "sdk/python"

COMMON = """
import pickle, sys
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import topologies
from jax.experimental.serialize_executable import deserialize_and_load, serialize
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding
def f(x, w): return jax.nn.softmax(jnp.tanh(x @ w)), (x * 2).sum()
def expected(x, w):
    y = np.tanh(x @ w)
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True), 2 * x.sum()
def arrays():
    random = np.random.RandomState(0)
    return random.randn(32, 48).astype("f"), random.randn(48, 16).astype("f")
"""

COMPILE = COMMON + """
topology = topologies.get_topology_desc(sys.argv[1], platform="hip")
(device,) = topology.devices
assert device.platform == "hip" and device.device_kind == sys.argv[1], device
specs = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=SingleDeviceSharding(device)) for a in arrays()]
compiled = jax.jit(f).lower(*specs).compile()
assert compiled.cost_analysis()["flops"] >= 2 * 32 * 48 * 16
assert compiled.memory_analysis().generated_code_size_in_bytes > 0
pickle.dump(serialize(compiled), open(sys.argv[2], "wb"))
assert {d.platform for d in jax.devices()} == {"cpu"}
"""

LOAD = COMMON + """
program = deserialize_and_load(*pickle.load(open(sys.argv[1], "rb")), execution_devices=jax.devices()[:1])
for got, want in zip(program(*arrays()), expected(*arrays())): np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)
"""

COMPILE_SHARDED = COMMON + """
topology = topologies.get_topology_desc(sys.argv[1], platform="hip", device_count=2)
mesh = topologies.make_mesh(topology, (2,), ("rows",))
rows = NamedSharding(mesh, PartitionSpec("rows"))
spec = jax.ShapeDtypeStruct((32, 48), jnp.float32, sharding=rows)
compiled = jax.jit(lambda x: jnp.sin(x).sum() + x, out_shardings=rows).lower(spec).compile()
assert "all-reduce" in compiled.as_text()
pickle.dump(serialize(compiled), open(sys.argv[2], "wb"))
"""

LOAD_SHARDED = COMMON + """
program = deserialize_and_load(*pickle.load(open(sys.argv[1], "rb")), execution_devices=jax.devices())
x, _ = arrays()
got = program(jax.device_put(x, program.input_shardings[0][0]))
assert len(got.sharding.device_set) == 2
np.testing.assert_allclose(got, np.sin(x).sum() + x, rtol=1e-4, atol=1e-4)
"""

FEATURES = """
import jax, jax.numpy as jnp, numpy as np
x = np.random.RandomState(0).randn(4, 4).astype("f")
spd = x @ x.T + np.eye(4, dtype="f")
np.testing.assert_allclose(jnp.linalg.eigvalsh(spd), np.linalg.eigvalsh(spd), rtol=1e-4)
np.testing.assert_allclose(jnp.linalg.svd(x)[1], np.linalg.svd(x)[1], rtol=1e-4)
np.testing.assert_allclose(abs(np.asarray(jnp.linalg.qr(x)[1])), abs(np.linalg.qr(x)[1]), rtol=1e-3, atol=1e-4)
np.testing.assert_allclose(np.sort_complex(jnp.linalg.eigvals(x)), np.sort_complex(np.linalg.eigvals(x)), rtol=1e-3)
back = jax.jit(lambda a: jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((4, 4), jnp.float32), a))(x)
np.testing.assert_array_equal(back, 2 * x)
there = jax.device_put(x)
jax.jit(lambda a: a + 1, donate_argnums=0)(there).block_until_ready()
assert there.is_deleted(), "the argument was not donated"
branch = jax.jit(lambda a: jax.lax.platform_dependent(a, rocm=lambda v: v * 0, cuda=lambda v: v * 0, cpu=lambda v: v * 0, default=lambda v: v + 1))
np.testing.assert_array_equal(branch(x), x + 1)
assert jax.devices("cpu")[0].platform == "cpu"
jax.jit(lambda a: (jax.debug.print("sum {}", a.sum()), a + 1)[1])(jnp.ones(3)).block_until_ready()
jax.effects_barrier()
"""


class JaxAhead(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "program.pickle"

    def run_python(self, text, *words, fails=False, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("BACKPLANE_", "HIPEMU_", "PJRT_", "JAX_", "XLA_"))}
        clean |= {"PYTHONPATH": str(PYTHON_PATH), "PJRT_NAMES_AND_LIBRARY_PATHS": f"hip:{PLUGIN}", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(text), *map(str, words)], env=clean | environment, capture_output=True, text=True,
                              timeout=240)
        self.assertEqual(done.returncode != 0, fails, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
        return done.stderr if fails else done.stdout

    def on_emulated(self, text, *words, target, **more):
        return self.run_python(text, *words, JAX_PLATFORMS="hip", BACKPLANE_HIP_PLATFORM="emulated", BACKPLANE_HIP_TARGET=target, HIPEMU_ARCH=target, **more)

    def test_one_device(self):
        for target in ("gfx942", "gfx1100"):
            with self.subTest(target):
                self.run_python(COMPILE, target, self.file, JAX_PLATFORMS="cpu")
                self.on_emulated(LOAD, self.file, target=target)
        error = self.on_emulated(LOAD, self.file, target="gfx942", fails=True)
        self.assertIn("compiled for gfx1100", error)

    def test_two_devices(self):
        self.run_python(COMPILE_SHARDED, "gfx942", self.file, JAX_PLATFORMS="cpu")
        self.on_emulated(LOAD_SHARDED, self.file, target="gfx942")

    def test_targets_that_nothing_here_runs(self):
        for target in ("gfx90a", "gfx1201", "sm_90"):
            with self.subTest(target):
                self.run_python(COMPILE, target, self.file, JAX_PLATFORMS="cpu")

    def test_an_unknown_target_is_refused(self):
        self.assertIn('no target "gfx1"', self.run_python(COMPILE, "gfx1", self.file, JAX_PLATFORMS="cpu", fails=True))

    def test_a_topology_is_offered_without_loading_the_plugin(self):
        text = f"""
        import backplane_jax
        backplane_jax._offer_topologies("hip", {PLUGIN!r})
        assert "pjrt_backplane_hip" not in open("/proc/self/maps").read()
        """
        self.run_python(textwrap.dedent(text) + COMPILE, "gfx942", self.file, JAX_PLATFORMS="cpu", PJRT_NAMES_AND_LIBRARY_PATHS="")

    def test_features_of_the_platform(self):
        self.assertIn("sum 3.0", self.run_python(FEATURES, JAX_PLATFORMS="hip", BACKPLANE_HIP_PLATFORM="emulated"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
