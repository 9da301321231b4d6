"""What layers cost: the main job's JAX programs on one plugin, bare and behind layers, in processes of their own.

While one process is timed the others are stopped; slices go round and round, forwards and backwards, so that a machine
that is busy with other things is so for all of them. Told are ratios to the bare plugin, of the smallest step and of the
medians of the slices: the median of the ratios within each round; and of the processor time of a step, over all slices,
which tells most where others use the machine at the same time.

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

STACKS = ("", "trace", "validate", "trace,validate")  # behind the library; "" has no layer


def worker(opt, layers, job, scratch):
    """A process of the job: on the plugin itself for None, else behind the library with these layers."""
    names = {"BACKPLANE_LAYERS_PLUGIN": str(opt.plugin), "BACKPLANE_LAYERS": layers or "",
             "BACKPLANE_TRACE_FILE": f"{scratch}/trace.%p.json", "BACKPLANE_VALIDATE_FILE": f"{scratch}/validate.%p.txt"}
    before = dict(os.environ)
    os.environ.update(names)
    try:
        return main_job.Worker("ours", opt.plugin if layers is None else opt.library, job)
    finally:
        os.environ.clear()
        os.environ.update(before)


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_slice(worker, seconds):
    before = processor_seconds(worker.process.pid)
    answer = worker.ask("time", seconds=seconds)
    return answer | {"processor": processor_seconds(worker.process.pid) - before}


def measure(opt, job, scratch):
    roads = [None, *opt.layers]
    workers = {}
    try:
        for road in roads:
            workers[road] = worker(opt, road, job, scratch)
            workers[road].ask("compile")
            workers[road].ask("check", path=f"{scratch}/{job}.npz")
            workers[road].ask("time", seconds=0)  # warm
        slices = {road: [] for road in roads}
        for i in range(opt.rounds):
            for road in roads if i % 2 == 0 else roads[::-1]:
                slices[road].append(one_slice(workers[road], opt.slice))
    finally:
        for w in workers.values():
            w.close()
    bare = slices[None]
    processor = {road: sum(s["processor"] for s in of) / sum(s["steps"] for s in of) for road, of in slices.items()}
    smallest = min(s["min"] for s in bare)
    return {"job": job, "bare_seconds": smallest,
            "ratios": {name: {"min": min(s["min"] for s in slices[name]) / smallest,
                              "median": statistics.median(a["median"] / b["median"] for a, b in zip(slices[name], bare)),
                              "processor": processor[name] / processor[None]}
                       for name in opt.layers}}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", type=pathlib.Path, required=True, help="pjrt_backplane_layers.so")
    p.add_argument("--plugin", type=pathlib.Path, required=True, help="the plugin to put layers on")
    p.add_argument("--jobs", default="train,infer,generate,dispatch")
    p.add_argument("--layers", action="append", help="a stack of layers; may be repeated; default: " + ", ".join(s or "none" for s in STACKS))
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("--slice", type=float, default=1.0, help="seconds of one slice")
    p.add_argument("--json", help="write the figures here")
    opt = p.parse_args()
    opt.layers = opt.layers or list(STACKS)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for job in opt.jobs.split(","):
            row = measure(opt, job, scratch)
            rows.append(row)
            print(f"{job}: bare {main_job.show(row['bare_seconds'])} a step", flush=True)
            for name, r in row["ratios"].items():
                print(f"    {name or 'no layer':16} x{r['min']:.3f} (smallest), x{r['median']:.3f} (medians), x{r['processor']:.3f} (processor time)", flush=True)
    if opt.json:
        pathlib.Path(opt.json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
