"""pypjrt's conformance probe on each plugin: nothing fails, and no more is unsupported than in XLA's CPU plugin."""
import json
import subprocess
import sys


def test_conform(plugin, tmp_path):
    report = tmp_path / "report.json"
    r = subprocess.run([sys.executable, "-m", "pypjrt.conform", "--json", str(report), plugin], capture_output=True, text=True, timeout=300)
    assert report.exists(), f"status {r.returncode}\n{r.stdout[-3000:]}\n{r.stderr[-2000:]}"
    checks = json.loads(report.read_text())["checks"]
    told = {kind: [f"{c['id']}: {c['detail']}" for c in checks if c["result"] == kind] for kind in {c["result"] for c in checks}}
    others = set(told) - {"pass", "skip", "unsupported"}
    assert not others, "\n".join(line for kind in others for line in told[kind])
    assert len(told.get("unsupported", [])) <= 4, "\n".join(told["unsupported"])
    assert len(told["pass"]) >= 50, f"{len(told['pass'])} checks passed"
    assert r.returncode == 0, r.stdout
