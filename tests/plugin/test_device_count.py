"""The package gives the CPU plugins as many devices as JAX is asked for."""
import os
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python"
FLAG = "--xla_force_host_platform_device_count=3"
SCRIPT = """
import sys
import jax, backplane_jax
backplane_jax.register(sys.argv[1], name="cpu", options=eval(sys.argv[2]))
if sys.argv[3]:
    jax.config.update("jax_num_cpu_devices", int(sys.argv[3]))
print("devices:", len(jax.devices()))
"""


@pytest.mark.parametrize("flags, configured, options, expected", [
    ("", "", {}, 1), (FLAG, "", {}, 3), (f"{FLAG} {FLAG[:-1]}5 --xla_cpu_enable_fast_math=false", "", {}, 5), ("", "2", {}, 2),
    (FLAG, "2", {}, 2), (FLAG, "2", {"cpu_device_count": 4}, 4)])
def test_device_count(plugin, flags, configured, options, expected):
    if pathlib.Path(plugin).name.removeprefix("pjrt_backplane_").removesuffix(".so") not in ("cpu", "reference"):
        pytest.skip("its devices are not a number that the host may choose")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PJRT_"))}
    run = subprocess.run([sys.executable, "-B", "-c", SCRIPT, plugin, repr(options), configured], capture_output=True, text=True,
                         timeout=120, env={**env, "XLA_FLAGS": flags, "PYTHONPATH": str(PACKAGE)})
    assert f"devices: {expected}\n" in run.stdout, run.stdout + run.stderr[-4000:]
