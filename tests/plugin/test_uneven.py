"""A host that is not JAX splits arrays over devices that do not divide them."""
import os
import pathlib
import subprocess
import sys

import conftest


def run(plugin, **env):
    script = pathlib.Path(__file__).parent / "uneven.py"
    options = [] if env else ["cpu_device_count=4"]
    return subprocess.run([sys.executable, "-B", str(script), plugin, *options], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **env})


def test_uneven(plugin):
    tiled = "tpu_emulator" in pathlib.Path(plugin).name
    r = run(plugin, **({"TILEDTPU_TOPOLOGY": "2x2"} if tiled else {}))
    assert r.returncode == 0 and "all right" in r.stdout, r.stdout + r.stderr[-4000:]


def test_xla_means_the_same():
    """What the script expects is what XLA's own plugin does."""
    r = run(conftest.xla_plugin())
    assert r.returncode == 0 and "all right" in r.stdout, r.stdout + r.stderr[-4000:]
