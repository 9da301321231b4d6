"""Wrong programs, arguments and options on each plugin: errors that name what is wrong, no crash, and the client lives on.

BACKPLANE_MUTATIONS is the number of mutated programs for each form; the quick default keeps the suite short.
"""
import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parent / "bad_input.py"
COUNT = int(os.environ.get("BACKPLANE_MUTATIONS", "400"))


def run(plugin, *args, **env):
    return subprocess.run([sys.executable, "-X", "faulthandler", str(SCRIPT), plugin, *args], capture_output=True, text=True, errors="replace",
                          timeout=600, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | env)


def test_errors(plugin):
    r = run(plugin, "errors")
    assert r.returncode == 0 and r.stdout.endswith("all told\n"), r.stdout[-3000:] + r.stderr[-3000:]


@pytest.mark.parametrize("form", ["bytecode", "text"])
def test_mutations(plugin, form, tmp_path):
    last = tmp_path / "last_mutation"
    r = run(plugin, "mutate", form, "1", str(COUNT), MUTATION_FILE=str(last))
    assert r.returncode == 0, f"status {r.returncode}; the program is {last}\n" + r.stdout[-200:] + r.stderr[-3000:]
