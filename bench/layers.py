"""Measures the cost of layers: the main job's JAX programs on one plugin, directly and through layers, in separate processes.

While one process is timed the others are stopped. Short slices alternate, forwards and backwards, so that other load on the
machine affects all processes equally. The first steps of a slice are ignored, because the caches hold another process's data.
The memory addresses of a process affect its speed for its lifetime, so all processes are restarted a few times in another
order, and the bare plugin runs twice. "bare again" shows how much equal configurations differ on this machine; a smaller
difference from 1 is not significant.

Reports the median over all rounds of the ratio to the bare plugin in the same round, with the interquartile range: of the
median wall-clock step, and of CPU time (all threads), which is more reliable on a busy machine.

    python bench/layers.py --library build/release/layers/pjrt_backplane_layers.so --plugin PLUGIN
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "samples" / "jax"))
import main_job  # noqa: E402

STACKS = ("", "trace", "validate", "trace,validate")  # through the library; "" has no layer
AGAIN = "bare again"
SKIP = {"generate": 20, "dispatch": 500}  # steps at the beginning of a slice; 1 for the long ones


def worker(opt, layers, job, scratch):
    """A process of the job: directly on the plugin for None, else through the library with these layers."""
    names = {"BACKPLANE_LAYERS_PLUGIN": str(opt.plugin), "BACKPLANE_LAYERS": layers or "",
             # As many as a long run has: what is over the limit costs nothing and would make the rest look cheap.
             "BACKPLANE_TRACE_LIMIT": "40000000",
             "BACKPLANE_TRACE_FILE": f"{scratch}/trace.%p.json", "BACKPLANE_RECORD_FILE": f"{scratch}/record.%p.bprec",
             "BACKPLANE_VALIDATE_FILE": f"{scratch}/validate.%p.txt"}
    before = dict(os.environ)
    os.environ.update(names)
    try:
        return main_job.Worker("ours", opt.plugin if layers in (None, AGAIN) else opt.library, job)
    finally:
        os.environ.clear()
        os.environ.update(before)


def middle(values):
    """The median and the range of the half around it."""
    values = sorted(values)
    return {"median": statistics.median(values), "from": values[len(values) // 4], "to": values[(3 * len(values) - 1) // 4]}


def measure(opt, job, scratch):
    roads = [None, AGAIN, *opt.layers]
    skip = SKIP.get(job, 1)
    slices = {road: [] for road in roads}
    for start in range(opt.starts):
        order = roads[start % len(roads):] + roads[:start % len(roads)]
        workers = {}
        try:
            for road in order:
                workers[road] = worker(opt, road, job, scratch)
                workers[road].ask("compile")
                workers[road].ask("check", path=f"{scratch}/{job}.npz")
                workers[road].ask("time", seconds=opt.slice, skip=20 * skip)  # warm: past what layers do for first calls only
            for i in range(opt.rounds):
                for road in order if i % 2 == 0 else order[::-1]:
                    slices[road].append(workers[road].ask("time", seconds=opt.slice, skip=skip))
        finally:
            for w in workers.values():
                w.close()
    bare = slices[None]
    ratios = {road: {what: middle(a[key] / b[key] for a, b in zip(slices[road], bare))
                     for what, key in (("wall", "median"), ("processor", "processor"))} for road in roads[1:]}
    return {"job": job, "bare_seconds": {"smallest": min(s["min"] for s in bare), "median": statistics.median(s["median"] for s in bare)},
            "rounds": len(bare), "ratios": ratios}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", type=pathlib.Path, required=True, help="pjrt_backplane_layers.so")
    p.add_argument("--plugin", type=pathlib.Path, required=True, help="the plugin to put layers on")
    p.add_argument("--jobs", default="train,infer,generate,dispatch")
    p.add_argument("--layers", action="append", help="a stack of layers; may be repeated; default: " + ", ".join(s or "none" for s in STACKS))
    p.add_argument("--starts", type=int, default=3, help="how often the processes are started anew")
    p.add_argument("--rounds", type=int, default=8, help="rounds after each start")
    p.add_argument("--slice", type=float, default=0.3, help="seconds of one slice, at least three steps")
    p.add_argument("--json", help="write the figures here")
    opt = p.parse_args()
    opt.layers = opt.layers or list(STACKS)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for job in opt.jobs.split(","):
            row = measure(opt, job, scratch)
            rows.append(row)
            print(f"{job}: bare {main_job.show(row['bare_seconds']['median'])} a step, {row['rounds']} rounds", flush=True)
            for name, r in row["ratios"].items():
                told = ", ".join(f"{what} x{m['median']:.3f} [{m['from']:.3f} to {m['to']:.3f}]" for what, m in r.items())
                print(f"    {name or 'no layer':16} {told}", flush=True)
    if opt.json:
        pathlib.Path(opt.json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
