"""Hosts that hand over serialized HLO with layouts in it: only the compile options ask for layouts."""
import pathlib
import subprocess
import sys

import conftest


def check(plugin):
    script = pathlib.Path(__file__).parent / "proto_layouts.py"
    r = subprocess.run([sys.executable, "-B", str(script), plugin], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0 and r.stdout.endswith("all right\n"), r.stdout + r.stderr[-4000:]


def test_layouts_nobody_asks_for(plugin):
    check(plugin)


def test_xla_means_the_same():
    check(conftest.xla_plugin())
