"""Our plugins, a second copy of one, and XLA's plugin live and run in one process, opened locally and globally."""
import pathlib
import shutil
import subprocess
import sys

import pytest

import conftest


@pytest.mark.parametrize("mode", ["local", "global"])
@pytest.mark.parametrize("last", [False, True], ids=["ours_first", "xla_first"])
def test_neighbours(plugin, mode, last, pytestconfig, tmp_path):
    copy = tmp_path / "copy.so"
    shutil.copy(plugin, copy)
    others = [p.split("=", 1)[1] for p in pytestconfig.getoption("--plugin")]
    paths = [plugin, *(p for p in others if p != plugin), str(copy), conftest.xla_plugin()]
    if last:
        paths.reverse()
    script = pathlib.Path(__file__).parent / "neighbours.py"
    r = subprocess.run([sys.executable, "-X", "faulthandler", str(script), mode, *paths], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stdout[-2000:] + r.stderr[-4000:]
    assert r.stdout.count(": right") == 2 * len(paths), r.stdout
