"""JAX's profiler sees what runs on our devices."""
import pathlib
import subprocess
import sys


def test_events_of_a_program(plugin, tmp_path):
    script = pathlib.Path(__file__).parent / "profiled.py"
    r = subprocess.run([sys.executable, "-B", str(script), plugin, str(tmp_path / "trace")], capture_output=True, text=True, timeout=180)
    assert r.returncode == 0, r.stdout[-2000:] + r.stderr[-4000:]
    events = [line.split("|") for line in r.stdout.splitlines() if "|" in line]
    programs = [e for e in events if e[1].startswith("Programs")]
    assert [e[2] for e in programs] == ["jit_profiled_step"], r.stdout
    assert float(programs[0][4]) > 0
    operations = [e for e in events if e[1].startswith("Operations")]
    assert all(e[3] == "jit_profiled_step" for e in operations)
    if "cpu" in pathlib.Path(plugin).name:  # the one that runs compiled steps tells of each
        names = [e[2] for e in operations]
        assert any("dot" in n for n in names) and len(names) >= 2, names
        assert sum(float(e[4]) for e in operations) <= float(programs[0][4]) * 1.01
