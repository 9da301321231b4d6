"""tpu_report_test.py BACKPLANE PLUGIN: `backplane tpu-report` and TILEDTPU_REPORT with the emulator, end to end.

testdata/transformer.mlir is six layers of a transformer (scan over [4,256,512] bf16), conv_net.mlir a small
convolutional network; both carry the source lines of the Python they come from.
"""
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BACKPLANE, PLUGIN = sys.argv[1:3]
HERE = pathlib.Path(__file__).parent
TRANSFORMER, CONV_NET = HERE / "testdata/transformer.mlir", HERE / "testdata/conv_net.mlir"
UNITS = {"fixed", "mxu", "vpu", "hbm", "ici"}


def run(*args, code=0, env=None):
    done = subprocess.run([BACKPLANE, *map(str, args)], capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})
    assert done.returncode == code, f"{args}: exit code {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


def report(*args, code=0, env=None):
    return run("tpu-report", *args, "--plugin", PLUGIN, code=code, env=env)


def documents(page):
    found = re.findall(r'<script type="application/json" class="document" data-title="([^"]*)">(.*?)</script>', page.read_text(), re.S)
    return [(html.unescape(title), json.loads(text)) for title, text in found]


def check_document(d):
    """Checks the invariants of every document."""
    assert d["format"] == "backplane.tpu_report" and d["version"] == 1
    kernels, buffers, loops = d["kernels"], d["buffers"], d["loops"]
    assert kernels and buffers
    total = 0
    for i, k in enumerate(kernels):
        assert k["bound"] in UNITS and k["category"] and k["name"], k
        assert k["seconds"] > 0 and k.get("roofline_seconds", 0) <= k["seconds"] * (1 + 1e-9), k
        assert all(k.get(u + "_cycles", 0) <= k["cycles"] * (1 + 1e-9) for u in ("mxu", "vpu", "hbm", "ici")), k
        assert all(0 <= b < len(buffers) for b in k.get("reads", []) + k.get("writes", []))
        around, runs = k.get("loop", -1), 1
        while around >= 0:
            assert loops[around].get("first_kernel", 0) <= i < loops[around]["end_kernel"]
            runs *= loops[around].get("trip_count", 1)
            around = loops[around].get("parent", -1)
        assert k.get("executions", 1) == runs, k
        total += k["seconds"] * runs
    assert abs(total - d["totals"]["seconds"]) <= 1e-6 * total, (total, d["totals"])
    assert abs(sum(d["totals"]["seconds_by_bound"].values()) - total) <= 1e-6 * total
    starts = [k.get("start_seconds", 0) for k in kernels]
    assert starts == sorted(starts)
    assert len(d["hbm"]["in_use"]) == len(kernels) and max(d["hbm"]["in_use"]) <= d["hbm"]["peak"] <= d["hbm"]["capacity"]
    for b in buffers:
        assert b["padded_bytes"] >= b["unpadded_bytes"], b
        assert b.get("first_kernel", 0) <= b.get("last_kernel", 0), b


def check_trace(path, processes, kernels):
    trace = json.loads(path.read_text())["traceEvents"]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {p for p, _ in lanes} == set(range(1, processes + 1))
    by_lane = {}
    for e in trace:
        if e["ph"] == "X":
            by_lane.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"], e["name"]))
    for lane, events in by_lane.items():
        if lanes[lane].startswith("loops"):
            continue
        events.sort()
        for a, b in zip(events, events[1:]):
            assert a[1] <= b[0] + 1e-6, (lanes[lane], a, b)
    count = sum(len(events) for lane, events in by_lane.items() if lanes[lane].startswith("kernels"))
    assert count == kernels, (count, kernels)
    assert any(e["ph"] == "C" for e in trace)


def test_transformer(tmp):
    page, trace = tmp / "t.html", tmp / "t.trace.json"
    out, err = report(TRANSFORMER, "--chip", "v5e", "--out", page, "--trace", trace)
    assert "transformer.mlir on v5e" in out and " kernels" in out and "peak of 15.75G" in out and "most time in" in out, out
    assert str(page) in err and str(trace) in err
    (title, d), = documents(page)
    assert title == "transformer.mlir on v5e"
    check_document(d)
    assert [l["trip_count"] for l in d["loops"]] == [6], d["loops"]
    assert d["machine_name"] == "v5e" and d["hbm"]["capacity"] == 16911433728
    products = [k for k in d["kernels"] if k["category"] == "matmul"]
    # qkv, scores, values, out, up, down: each a product, in every layer.
    assert len(products) >= 6 and all(k["executions"] == 6 for k in products), [k["name"] for k in products]
    flops = 6 * 2 * 1024 * (512 * 1536 + 512 * 512 + 2 * 512 * 2048) + 6 * 2 * 2 * 4 * 8 * 256 * 256 * 64
    assert flops <= d["totals"]["flops"] <= 1.2 * flops, (flops, d["totals"])
    assert any(k.get("source_file", "").endswith("transformer.py") and k.get("source_line", 0) > 0 for k in products)
    check_trace(trace, 1, sum(k.get("executions", 1) for k in d["kernels"]))


def test_conv_net_on_two_chips(tmp):
    page, trace = tmp / "c.html", tmp / "c.json"
    out, _ = run("--json", "tpu-report", CONV_NET, "-c", "v4", "-c", "tpu7x", "--out", page, "--trace", trace, "--plugin", PLUGIN)
    facts = json.loads(out)
    assert facts["page"] == str(page) and [r["machine"] for r in facts["reports"]] == ["v4", "tpu7x"]
    pages = documents(page)
    assert [t for t, _ in pages] == ["conv_net.mlir on v4", "conv_net.mlir on tpu7x"]
    for (_, d), fact in zip(pages, facts["reports"]):
        check_document(d)
        assert fact["seconds"] == d["totals"]["seconds"] and fact["kernels"] == len(d["kernels"]) and fact["bound"] in UNITS
        assert not fact["lower_bound"] and len(fact["top_kernels"]) == min(5, len(d["kernels"]))
        times = [k["seconds"] for k in fact["top_kernels"]]
        assert times == sorted(times, reverse=True) and times[0] > 0
        assert sum(k["category"] == "convolution" for k in d["kernels"]) == 3, [k["category"] for k in d["kernels"]]
        # An image of 3 channels is padded in any order of its dimensions.
        assert fact["worst_padding"]["padded_bytes"] > fact["worst_padding"]["unpadded_bytes"]
    check_trace(trace, 2, sum(len(d["kernels"]) for _, d in pages))


def test_against_another_program_on_a_machine_of_ones_own(tmp):
    machine = tmp / "half.json"
    machine.write_text('{"base": "v5e", "name": "half", "hbm_gb_per_s": 410}')
    page = tmp / "a.html"
    out, _ = report(CONV_NET, "--against", TRANSFORMER, "--chip", machine, "--chip", "v5e", "--topology", "2x2", "--out", page)
    assert [t for t, _ in documents(page)] == ["conv_net.mlir on half", "transformer.mlir on half", "conv_net.mlir on v5e", "transformer.mlir on v5e"]
    assert "against the first" in out and ("x as fast" in out or "x as long" in out), out
    assert "one of 4 devices" in out
    half, _, whole, _ = [d["totals"]["seconds"] for _, d in documents(page)]
    assert half > whole


def test_refusals(tmp):
    page = tmp / "r.html"
    _, err = report(CONV_NET, "--chip", "v9", "--out", page, code=4)
    assert "'v9' is neither a file nor a known chip; known: v4, v5e, v5p, v6e, tpu7x" in err, err
    _, err = report(CONV_NET, "--topology", "2xx", "--out", page, code=4)
    assert "is no topology" in err, err
    _, err = report(tmp / "missing.mlir", "--out", page, code=3)
    assert "missing.mlir" in err
    _, err = report(CONV_NET, "--out", tmp / "no/such/folder.html", code=3)
    assert "no/such/folder.html" in err
    # Does not fit v5e, but fits v5p. The message is that of the machine's compiler.
    large = tmp / "large.mlir"
    large.write_text("""func.func @main(%x: tensor<2048x1024x1024xf32>, %y: tensor<2048x1024x1024xf32>) -> tensor<2048x1024x1024xf32> {
      %0 = stablehlo.add %x, %y : tensor<2048x1024x1024xf32>
      return %0 : tensor<2048x1024x1024xf32>
    }""")
    _, err = report(large, "--chip", "v5e", "--out", page, code=4)
    assert "Ran out of memory" in err and "15.75G" in err, err
    # The page is still written, with the required memory, the arrays at the peak, and remedies.
    (title, d), = documents(page)
    refusal = d["refusal"]
    assert title == "large.mlir on v5e" and refusal["message"].startswith("E1000") and refusal["message"] in err, (refusal, err)
    assert refusal["required_bytes"] == d["hbm"]["peak"] == 3 * 2**33 and refusal["limit_bytes"] == d["hbm"]["capacity"]
    assert sum(d["buffers"][b]["padded_bytes"] for b in refusal["buffers"]) == refusal["required_bytes"]
    assert any("donate_argnums" in r for r in refusal["remedies"]) and any("v5p" in r for r in refusal["remedies"]), refusal
    out, err = run("--json", "tpu-report", large, "--chip", "v5p", "--chip", "v5e", "--out", page, "--plugin", PLUGIN, code=4)
    fits, refused = json.loads(out)["reports"]
    assert "refusal" not in fits and refused["refusal"]["required_bytes"] == 3 * 2**33, out
    assert [t for t, _ in documents(page)] == ["large.mlir on v5p", "large.mlir on v5e"]
    report(large, "--chip", "v5p", "--out", page)
    check_document(documents(page)[0][1])
    # A process with TILEDTPU_REPORT gets a report, too, and the compiler's error.
    folder = tmp / "refused"
    _, err = run("compile", PLUGIN, large, "-o", f'report="{folder}"', code=4)
    assert "Ran out of memory" in err, err
    found, = [p for p in folder.glob("*.json") if not p.name.endswith(".trace.json")]
    assert "refusal" in json.loads(found.read_text()) and found.with_suffix(".html").exists()
    # Another plugin is rejected with a message.
    out, _ = run("tpu-report", "--help")
    assert "--against" in out and "TILEDTPU_REPORT" in out


JAX = """
import sys, jax, jax.numpy as jnp
def small_step(x, w): return jnp.tanh(x @ w) + 1
f = jax.jit(small_step)
for _ in range(3): f(jnp.ones((64, 128)), jnp.ones((128, 256))).block_until_ready()
"""


def test_live_jax(tmp):
    folder = tmp / "a/reports"
    env = {**os.environ, "PJRT_NAMES_AND_LIBRARY_PATHS": f"tiledtpu:{PLUGIN}", "JAX_PLATFORMS": "tiledtpu", "TILEDTPU_REPORT": str(folder), "TILEDTPU_CHIP": "v5p"}
    two = [subprocess.Popen([sys.executable, "-B", "-c", JAX], env=env, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in two:
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
    steps = sorted(p for p in folder.glob("*jit_small_step.json"))
    assert len(steps) == 2 and all(str(p.pid) in s.name for p, s in zip(sorted(two, key=lambda p: str(p.pid)), steps)), list(folder.iterdir())
    for step in steps:
        d = json.loads(step.read_text())
        check_document(d)
        assert d["machine_name"] == "v5p" and any(k["category"] == "matmul" for k in d["kernels"])
        assert d["runs"] == 3, d.get("runs")
        page = step.with_suffix(".html")
        assert documents(page)[0][1] == d
        check_trace(step.with_suffix(".trace.json"), 1, sum(k.get("executions", 1) for k in d["kernels"]))
    assert not list(folder.glob("*.part"))
    # The written report can be compared with a program and with another report.
    page = tmp / "both.html"
    out, _ = report(steps[0], "--against", CONV_NET, "--chip", "v5e", "--chip", "v6e", "--out", page, "--trace", tmp / "both.trace.json")
    assert [t for t, _ in documents(page)] == [f"{steps[0].name} on v5p", "conv_net.mlir on v5e", "conv_net.mlir on v6e"]
    assert "ran     3 times" in out, out
    check_trace(tmp / "both.trace.json", 3, sum(k.get("executions", 1) for _, d in documents(page) for k in d["kernels"]))
    copy = tmp / "copy.json"
    copy.write_text(steps[0].read_text())
    _, err = report(copy, "--trace", tmp / "t.json", "--out", page, code=3)
    assert "copy.json on v5p: has no trace beside it" in err, err
    copy.write_text(steps[0].read_text().replace('"version":1', '"version":7'))
    _, err = report(copy, "--out", page, code=3)
    assert "a report of another version, expected 1" in err, err
    # An unwritable folder is an error when the client is created, not at a compilation.
    (tmp / "file").write_text("")
    done = subprocess.run([sys.executable, "-B", "-c", "import jax; jax.devices()"], env={**env, "TILEDTPU_REPORT": str(tmp / "file/x")}, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "file/x" in done.stderr, done.stderr[-2000:]


def main():
    failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_") or len(sys.argv) > 3 and sys.argv[3] not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(pathlib.Path(folder))
                print(f"{name}: good")
            except Exception as e:  # still run the other tests
                failed += 1
                import traceback
                traceback.print_exc()
                print(f"{name}: {type(e).__name__}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
