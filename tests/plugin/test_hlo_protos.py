"""Programs of hosts that hand over serialized HLO."""
import pathlib
import subprocess
import sys

import conftest


def check(plugin):
    script = pathlib.Path(__file__).parent / "hlo_protos.py"
    r = subprocess.run([sys.executable, "-B", str(script), plugin], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0 and r.stdout.endswith("all right\n"), r.stdout + r.stderr[-4000:]


def test_programs_of_other_hosts(plugin):
    check(plugin)


def test_xla_means_the_same():
    check(conftest.xla_plugin())
