"""Every workload on our plugin and on XLA's, in a process each; slices alternate A B B A, and the idle process is stopped.

Prints a line for each and the geometric mean of the ratios for each group; writes out/bench.json, out/bench.md and out/bench.png.
A workload whose values differ is a failure, whatever its time.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "samples" / "jax"))

import main_job  # noqa: E402  (the worker's handling is the same)
from main_job import PLUGINS, Failed, show  # noqa: E402


def difference(ours, xla):
    if len(ours.files) != len(xla.files):
        return float("inf")
    worst = 0.0
    for name in xla.files:
        a, b = ours[name], xla[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if a.dtype.kind == "V":  # a type that numpy does not know, of which a file keeps the bytes
            worst = max(worst, 0.0 if a.tobytes() == b.tobytes() else float("inf"))
            continue
        wide = np.complex128 if np.iscomplexobj(b) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        worst = max(worst, float(np.max(np.abs(a - b), initial=0) / (np.max(np.abs(b), initial=0) + 1e-30)))
    return worst


def measure(name, tolerance, workers, opt, scratch):
    row = {"name": name, "compile": {}, "step": {}}
    for road in PLUGINS:
        row["compile"][road] = workers[road].ask("compile", name=name, path=f"{scratch}/{road}.npz")["seconds"]
    row["difference"] = difference(*(np.load(f"{scratch}/{road}.npz") for road in PLUGINS))
    row["right"] = row["difference"] <= tolerance
    slices = {road: [] for road in PLUGINS}
    seconds = max(opt.slice, 3 * max(workers[road].ask("time", seconds=0.02)["median"] for road in PLUGINS))
    for i in range(opt.rounds):
        for road in PLUGINS if i % 2 == 0 else PLUGINS[::-1]:
            slices[road].append(workers[road].ask("time", seconds=seconds))
    for road in PLUGINS:
        row["step"][road] = {"min": min(s["min"] for s in slices[road]), "median": statistics.median(s["median"] for s in slices[road])}
    row["ratio_min"] = row["step"]["ours"]["min"] / row["step"]["xla"]["min"]
    row["ratio_median"] = statistics.median(a["median"] / b["median"] for a, b in zip(slices["ours"], slices["xla"]))
    return row


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def picture(rows, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    rows = rows[::-1]
    values = [r["ratio_median"] for r in rows]
    fig, ax = plt.subplots(figsize=(8, 0.24 * len(rows) + 1.2), layout="constrained")
    ax.barh([r["name"] for r in rows], [math.log2(v) for v in values], color=["#1f4e79" if v <= 1 else "#c0504d" for v in values])
    for i, v in enumerate(values):
        ax.text(math.log2(v) + (0.04 if v > 1 else -0.04), i, f"{v:.2f}", va="center", ha="left" if v > 1 else "right", fontsize=7)
    span = math.ceil(max(abs(math.log2(v)) for v in values) + 0.3)
    ax.set_xlim(-span, span)
    ax.set_xticks(range(-span, span + 1), [f"{2.0**k:g}" for k in range(-span, span + 1)])
    ax.tick_params(axis="y", labelsize=7)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.grid(axis="x", alpha=0.25)
    ax.set_xlabel("our time / XLA's time (median of pairs; left is faster)")
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def write_table(rows, path):
    """The measurements as a table in Markdown."""
    lines = ["| workload | ours | XLA's | ratio | compile: ours | XLA's |", "|---|---|---|---|---|---|"]
    for r in rows:
        lines.append(f"| {r['name']} | {show(r['step']['ours']['min'])} | {show(r['step']['xla']['min'])} | {r['ratio_min']:.2f} | "
                     f"{show(r['compile']['ours'])} | {show(r['compile']['xla'])} |")
    path.write_text("\n".join(lines) + "\n")


def options(description, slice_seconds, add_more=lambda parser: None):
    """The command line of a benchmark, and the plugins that it names. `add_more` adds options of its own."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True)
    p.add_argument("--xla")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--slice", type=float, default=slice_seconds)
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "out")
    p.add_argument("pattern", nargs="?", default=".", help="workloads by regular expression")
    add_more(p)
    opt = p.parse_args()
    return opt, {"ours": os.path.abspath(opt.ours), "xla": main_job.locate(opt.xla or str(main_job.xla_plugin()))}


def finish(path, rows, failures):
    """Writes the measurements and prints failures. Returns the exit code."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": rows, "failures": failures}, indent=1) + "\n")
    for f in failures:
        print(f"FAILED {f}", file=sys.stderr)
    return 1 if failures else 0


def main():
    opt, plugins = options(__doc__, 0.08, lambda p: p.add_argument(
        "--gpu", action="store_true", help="workloads of the size of a GPU; --xla names XLA's plugin for it, or jax:cuda"))
    rows, failures, workers = [], [], {}
    job = f"gpu:{opt.pattern}" if opt.gpu else opt.pattern
    print(f"{'':28}{'ours':>11}{'xla':>11}{'ratio min':>11}{'median':>8}   {'compile: ours':>14}{'xla':>11}")
    with tempfile.TemporaryDirectory() as scratch:
        def start():
            for w in workers.values():
                w.close()
            workers.update({road: main_job.Worker(road, plugins[road], job, script=HERE / "worker.py") for road in PLUGINS})
        start()
        tolerances = workers["xla"].hello["tolerances"]
        for name in workers["xla"].hello["names"]:
            try:
                row = measure(name, tolerances[name], workers, opt, scratch)
            except Failed as e:
                failures.append(f"{name}: {e}")
                print(f"{name:28}FAILED {str(e).splitlines()[0][:140]}", flush=True)
                start()
                continue
            rows.append(row)
            if not row["right"]:
                failures.append(f"{name}: values differ by {row['difference']:.2g}")
            print(f"{name:28}{show(row['step']['ours']['min']):>11}{show(row['step']['xla']['min']):>11}{row['ratio_min']:11.2f}{row['ratio_median']:8.2f}   "
                  f"{show(row['compile']['ours']):>14}{show(row['compile']['xla']):>11}{'' if row['right'] else '  WRONG'}", flush=True)
        for w in workers.values():
            w.close()
    if rows:
        print("\ngeometric means of the ratios (min, median, compile)")
        groups = list(dict.fromkeys(r["name"].split()[0] for r in rows))
        for group in groups + ["all"]:
            chosen = [r for r in rows if group in ("all", r["name"].split()[0])]
            print(f"  {group:12}{mean([r['ratio_min'] for r in chosen]):6.2f}{mean([r['ratio_median'] for r in chosen]):6.2f}"
                  f"{mean([r['compile']['ours'] / r['compile']['xla'] for r in chosen]):6.2f}   {len(chosen)}")
        picture(rows, opt.out / "bench.png")
        write_table(rows, opt.out / "bench.md")
    return finish(opt.out / "bench.json", rows, failures)


if __name__ == "__main__":
    sys.exit(main())
