"""Compile time of programs of growing size on our plugin and on XLA's: bench/scale_programs.py generates them.

Each plugin compiles each program in a separate process; the order of the plugins alternates. Seconds are those of the client's
compile call on portable bytecode, after a small program has covered one-time costs; CPU seconds are those of all threads of the
process. Larger sizes are skipped for a plugin that exceeds the limit. Results of both must agree. Writes out/scale.json, which keeps
the figures of kinds of programs that were not measured again, and out/scale.png.

Growth is the time at the largest size over that at the smallest, divided by what n log n grows between them: at most 1 says
that time grew no faster than that.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import scale_programs
from run import ROOT, difference, main_job

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-4
COLORS = {"ours": "#1f4e79", "xla": "#f0a030"}


def compiled(road, plugin, program, arguments, results, limit):
    """Returns the answer of the worker, or None after the time limit."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    env |= {"PJRT_NAMES_AND_LIBRARY_PATHS": f"{road}:{plugin}", "JAX_PLATFORMS": road, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(HERE / "scale_worker.py"), program, arguments, results]
    with tempfile.TemporaryFile() as errors:
        try:
            out = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=errors, timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        if out.returncode != 0:
            errors.seek(0)
            raise RuntimeError(f"{road}: status {out.returncode}\n" + errors.read().decode(errors="replace")[-2000:])
    answer = {}
    for line in out.stdout.splitlines():
        answer |= json.loads(line)
    return answer


def growth(rows, road, what):
    points = [(r["n"], r[road][what]) for r in rows if r.get(road)]
    if len(points) < 2:
        return None
    (n, t), (m, u) = points[0], points[-1]
    return u / t / (m * math.log(m) / (n * math.log(n)))


def picture(rows, path, what):
    """what: "seconds", or "cpu", which other work on the machine disturbs less."""
    families = [f for f in scale_programs.FAMILIES if any(r["family"] == f for r in rows)]
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    fig, axes = plt.subplots(2, math.ceil(len(families) / 2), figsize=(11, 6.4), layout="constrained", sharex=True, squeeze=False)
    for ax in axes.flat[len(families):]:
        ax.axis("off")
    for ax, family in zip(axes.flat, families):
        mine = [r for r in rows if r["family"] == family]
        for road in ("ours", "xla"):
            points = [(r["n"], r[road][what]) for r in mine if r.get(road)]
            if points:
                ax.loglog(*zip(*points), marker="o", markersize=4, color=COLORS[road], label="ours" if road == "ours" else "XLA's plugin")
            for r in mine:
                if what == "seconds" and r.get("over", {}).get(road):
                    ax.loglog([r["n"]], [r["over"][road]], marker="^", color=COLORS[road], markersize=7, linestyle="none")
        points = [(r["n"], r["ours"][what]) for r in mine if r.get("ours")]
        if points:
            n, t = points[-1]
            xs = np.geomspace(points[0][0], n, 30)
            ax.loglog(xs, t * xs * np.log(xs) / (n * math.log(n)), color="black", linewidth=0.8, linestyle="--", label="n log n")
        ax.set_title(family, fontsize=10)
        ax.grid(alpha=0.25, which="both")
        ax.tick_params(labelsize=8)
    for ax in axes[:, 0]:
        ax.set_ylabel("seconds to compile" if what == "seconds" else "processor seconds to compile")
    for ax in axes[-1]:
        ax.set_xlabel("instructions")
    axes.flat[0].legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def measure(family, n, roads, plugins, limits, scratch, swap):
    text, arguments = scale_programs.make(family, n)
    program = f"{scratch}/program.mlir"
    pathlib.Path(program).write_text(text)
    np.savez(f"{scratch}/arguments.npz", *arguments)
    row, done = {"family": family, "n": n, "over": {}}, []
    for road in roads[::-1] if swap else roads:
        row[road] = compiled(road, plugins[road], program, f"{scratch}/arguments.npz", f"{scratch}/{road}.npz", limits[road])
        if row[road] is None:
            row["over"][road] = limits[road]
        else:
            done.append(road)
    if len(done) == 2:
        with np.load(f"{scratch}/ours.npz") as ours, np.load(f"{scratch}/xla.npz") as xla:
            row["difference"] = difference(ours, xla)
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True)
    p.add_argument("--xla")
    p.add_argument("--sizes", default="500,2000,8000,20000,50000")
    p.add_argument("--limit", type=float, default=600, help="seconds that ours may take for one program, its run included")
    p.add_argument("--xla-limit", type=float, default=300, help="the same for XLA's plugin; 0: ours alone")
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "out")
    p.add_argument("--draw", choices=("seconds", "cpu"), default="seconds", help="what the picture shows")
    p.add_argument("--picture", action="store_true", help="only draw what OUT/scale.json has")
    p.add_argument("families", nargs="*", default=[])
    opt = p.parse_args()
    families = opt.families or list(scale_programs.FAMILIES)
    kept = json.loads((opt.out / "scale.json").read_text())["rows"] if (opt.out / "scale.json").exists() else []
    if opt.picture:
        picture(kept, opt.out / "scale.png", opt.draw)
        return 0
    kept = [r for r in kept if r["family"] not in families]
    limits = {"ours": opt.limit, "xla": opt.xla_limit}
    plugins = {"ours": os.path.abspath(opt.ours), "xla": os.path.abspath(opt.xla or main_job.xla_plugin())}
    rows, failures, count = [], [], 0
    print(f"{'':16}{'ours: s':>10}{'cpu s':>9}{'MB':>7}{'xla: s':>10}{'cpu s':>9}{'MB':>7}{'ratio':>8}{'cpu':>7}{'step ratio':>12}")
    with tempfile.TemporaryDirectory() as scratch:
        for family in families:
            roads = [r for r in ("ours", "xla") if limits[r] > 0]
            for n in map(int, opt.sizes.split(",")):
                count += 1
                try:
                    row = measure(family, n, roads, plugins, limits, scratch, count % 2 == 0)
                except RuntimeError as e:
                    failures.append(f"{family} {n}: {e}")
                    print(f"{family:8}{n:7} FAILED {str(e).splitlines()[0]}", flush=True)
                    continue
                rows.append(row)
                roads = [r for r in roads if row[r] is not None]
                cells = ""
                for road in ("ours", "xla"):
                    a = row.get(road)
                    cells += f"{a['seconds']:10.2f}{a['cpu']:9.2f}{a['peak_mb']:7.0f}" if a else f"{'over ' + format(limits[road], 'g') if road in row['over'] else '':>10}{'':16}"
                if row.get("ours") and row.get("xla"):
                    cells += "".join(f"{row['ours'][k] / row['xla'][k]:{w}.2f}" for k, w in (("seconds", 8), ("cpu", 7), ("step", 12)))
                if not row.get("difference", 0) <= TOLERANCE:
                    failures.append(f"{family} {n}: values differ by {row['difference']:.2g}")
                    cells += "  WRONG"
                print(f"{family:8}{n:7}{cells}", flush=True)
                (opt.out).mkdir(parents=True, exist_ok=True)
                (opt.out / "scale.json").write_text(json.dumps({"rows": kept + rows, "failures": failures}, indent=1) + "\n")
    print("\ngrowth over n log n, from the smallest size to the largest: seconds, processor seconds")
    for family in families:
        mine = [r for r in rows if r["family"] == family]
        cells = [growth(mine, road, what) for road in ("ours", "xla") for what in ("seconds", "cpu")]
        print(f"  {family:10}" + "".join(f"{c:8.2f}" if c is not None else f"{'':8}" for c in cells))
    picture(kept + rows, opt.out / "scale.png", opt.draw)
    for f in failures:
        print(f"FAILED {f}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
