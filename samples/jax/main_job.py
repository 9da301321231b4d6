"""The main job: runs the same JAX programs on our CPU plugin and on XLA's, each in its own process, compares and times them.

  (a) train     a GPT-2-style transformer, 4 layers of width 256, 20 Adam steps; the loss falls
  (b) infer     ResNet-18, one image of 224 x 224
  (c) generate  token by token with a key-value cache
  and dispatch  one jitted addition of two scalars; and how long dlopen and client creation take

JAX is unmodified and finds both plugins by PJRT_NAMES_AND_LIBRARY_PATHS. While one is timed, the other is stopped;
slices alternate A B B A. The exit status is 0 when all results agree and the loss falls. Timings are only printed,
unless --judge-speed is given.
"""
import argparse
import json
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLUGINS = ("ours", "xla")
OF_JAX = "jax:"
# XLA multiplies in tf32 on GPUs unless JAX is told otherwise; its results agree with ours if this is "highest".
KEPT_VARIABLES = ("JAX_DEFAULT_MATMUL_PRECISION",)

# Largest difference allowed, relative to the largest magnitude. The same programs in float64 differ from float32 by
# 3e-7 on XLA's plugin; other orders of summation and other approximations of tanh and exp may cost some tens of that.
TOLERANCE = {"train": 1e-4, "infer": 1e-4, "generate": 1e-4, "dispatch": 0.0}


def xla_plugin():
    """XLA's CPU plugin, that of the lammps-jax-pjrt-cpu wheel."""
    import lammps_jax_pjrt_cpu
    return pathlib.Path(lammps_jax_pjrt_cpu.__file__).parent / "pjrt_c_api_cpu_plugin.so"


class Failed(Exception):
    """A worker died, was silent for too long, or answered with an error."""


class Worker:
    """worker.py as a child process with one plugin; stopped whenever it is not asked. The plugin is a path, or jax:NAME for a
    platform that JAX finds itself, such as jax:cuda."""

    def __init__(self, name, plugin, job, script=HERE / "worker.py"):
        self.name, self.errors = name, tempfile.TemporaryFile()
        env = {k: v for k, v in os.environ.items() if k in KEPT_VARIABLES or not k.startswith(("JAX_", "XLA_"))}
        env |= {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONDONTWRITEBYTECODE": "1"}
        if plugin.startswith(OF_JAX):
            env |= {"JAX_PLATFORMS": plugin.removeprefix(OF_JAX)}
        else:
            env |= {"PJRT_NAMES_AND_LIBRARY_PATHS": f"{name}:{plugin}", "JAX_PLATFORMS": name}
        self.process = subprocess.Popen([sys.executable, str(script), job], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=env)
        self.buffer = b""
        self.hello = self.read(120)
        self.stop()

    def read(self, limit):
        end = time.monotonic() + limit
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise Failed(f"{self.name}: no answer in {limit} s")
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise Failed(f"{self.name}: ended with status {self.process.wait()}\n{self.tail()}")
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.name}: {answer['error']}\n{self.tail()}")
        return answer

    def ask(self, do, limit=300, **more):
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write((json.dumps({"do": do, **more}) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() says how it ended
        answer = self.read(limit)
        self.stop()
        return answer

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def tail(self, lines=25):
        self.errors.seek(0)
        return "\n".join("    " + s for s in self.errors.read().decode(errors="replace").splitlines()[-lines:])

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def distance(got, want):
    """Largest difference relative to the largest magnitude; infinite where shapes or finiteness differ."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape or not np.isfinite(got).all() or not np.isfinite(want).all():
        return float("inf")
    return float(np.max(np.abs(got - want), initial=0.0) / (np.max(np.abs(want), initial=0.0) + 1e-30))


def compare(job, ours, xla):
    """(largest distance, what is wrong or None) of the two plugins' results."""
    if job == "train":
        worst = distance(ours["loss"], xla["loss"])
        for name, r in (("ours", ours), ("xla", xla)):
            if not r["loss"][-1] < 0.8 * r["loss"][0]:
                return worst, f"the loss of {name} does not fall: {r['loss'][0]:.4f} to {r['loss'][-1]:.4f}"
    elif job == "generate":
        # Once a different token is chosen, all later ones differ. This is right only if both tokens were equally probable.
        ends = np.nonzero(ours["tokens"] != xla["tokens"])[0]
        same = len(xla["tokens"]) if len(ends) == 0 else int(ends[0]) + 1
        worst = distance(ours["logits"][:same], xla["logits"][:same])
        if len(ends):
            best = np.sort(xla["logits"][ends[0]])
            if (best[-1] - best[-2]) / np.abs(xla["logits"]).max() > TOLERANCE[job]:
                return worst, f"token {ends[0]} differs: {ours['tokens'][ends[0]]}, expected {xla['tokens'][ends[0]]}"
    else:
        worst = max(distance(ours[k], xla[k]) for k in xla)
    return worst, None if worst <= TOLERANCE[job] else f"results differ by {worst:.2g}, at most {TOLERANCE[job]:.2g} is allowed"


def measure(job, plugins, opt, scratch):
    """One process per plugin: compile, compare, then timed slices A B B A."""
    workers, row = {}, {"job": job}
    try:
        for name in PLUGINS:
            workers[name] = Worker(name, plugins[name], job)
        row["compile"] = {name: [workers[name].ask("compile")["seconds"]] for name in PLUGINS}
        results = {}
        for name in PLUGINS:
            path = f"{scratch}/{job}_{name}.npz"
            workers[name].ask("check", path=path)
            results[name] = dict(np.load(path))
        row["distance"], row["wrong"] = compare(job, results["ours"], results["xla"])
        if job == "train":
            row["loss"] = {name: results[name]["loss"].tolist() for name in PLUGINS}
        slices = {name: [] for name in PLUGINS}
        seconds = max(opt.slice, 4 * max(workers[name].ask("time", seconds=0)["median"] for name in PLUGINS))
        for i in range(opt.rounds):
            for name in PLUGINS if i % 2 == 0 else PLUGINS[::-1]:
                slices[name].append(workers[name].ask("time", seconds=seconds))
        row["step"] = {name: {"min": min(s["min"] for s in slices[name]), "median": statistics.median(s["median"] for s in slices[name])} for name in PLUGINS}
        row["ratio_min"] = row["step"]["ours"]["min"] / row["step"]["xla"]["min"]
        row["ratio_median"] = statistics.median(a["median"] / b["median"] for a, b in zip(slices["ours"], slices["xla"]))
        row["platform"] = {name: workers[name].hello["platform"] for name in PLUGINS}
    finally:
        for w in workers.values():
            w.close()
    return row


def compile_again(row, plugins):
    """A second cold compile in fresh processes, in the other order; the smaller of the two counts."""
    for name in PLUGINS[::-1]:
        worker = Worker(name, plugins[name], row["job"])
        try:
            row["compile"][name].append(worker.ask("compile")["seconds"])
        finally:
            worker.close()


OPEN_CLIENT = """
import sys, time, pypjrt
start = time.perf_counter()
client = pypjrt.Client(pypjrt.Plugin(sys.argv[1]))
print(time.perf_counter() - start, flush=True)
import os; os._exit(0)
"""


def locate(plugin):
    """The name of a plugin that works in any directory."""
    return plugin if plugin.startswith(OF_JAX) else os.path.abspath(plugin)


def client_seconds(plugin):
    best = float("inf")
    for _ in range(5):
        r = subprocess.run([sys.executable, "-c", OPEN_CLIENT, plugin], capture_output=True, text=True)
        if r.returncode:
            raise Failed(f"client creation: {r.stderr.strip().splitlines()[-1] if r.stderr.strip() else r.returncode}")
        best = min(best, float(r.stdout))
    return best


def show(seconds):
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def table(rows, clients):
    print(f"\n{'':10}{'distance':>10}  {'step: ours':>11}{'xla':>11}{'ratio min':>11}{'median':>8}  {'compile: ours':>14}{'xla':>11}{'ratio':>7}")
    for r in rows:
        compiles = {name: min(r["compile"][name]) for name in PLUGINS}
        print(f"{r['job']:10}{r['distance']:10.1e}  {show(r['step']['ours']['min']):>11}{show(r['step']['xla']['min']):>11}{r['ratio_min']:11.2f}"
              f"{r['ratio_median']:8.2f}  {show(compiles['ours']):>14}{show(compiles['xla']):>11}{compiles['ours'] / compiles['xla']:7.2f}")
    if len(clients) == len(PLUGINS):
        print(f"{'dlopen and client creation':34}{show(clients['ours']):>11}{show(clients['xla']):>11}{clients['ours'] / clients['xla']:11.2f}")
    print("ratio: time of ours over time of XLA's; below 1, ours is faster")


def picture(row, path):
    """The two loss curves over each other, and their difference below."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    ours, xla = (np.array(row["loss"][name]) for name in PLUGINS)
    steps = np.arange(1, len(ours) + 1)
    fig, (top, low) = plt.subplots(2, 1, figsize=(7, 6), sharex=True, height_ratios=[3, 1], layout="constrained")
    top.plot(steps, xla, color="#f0a030", linewidth=6, alpha=0.6, solid_capstyle="round", label="XLA's CPU plugin")
    top.plot(steps, ours, color="#1f4e79", linewidth=1.6, marker="o", markersize=4, label="Backplane's CPU plugin")
    top.set_ylabel("cross entropy (nats per character)")
    top.set_title("GPT-2-style transformer, 4 layers of width 256, Adam")
    top.grid(alpha=0.25)
    top.legend(frameon=False)
    low.bar(steps, np.abs(ours - xla), color="#1f4e79", width=0.6)
    low.set_ylabel("|difference|")
    low.set_xlabel("step")
    low.set_xticks(steps[::2])
    low.grid(alpha=0.25, axis="y")
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, help="our plugin")
    p.add_argument("--xla", help="XLA's plugin, or jax:cuda for JAX's own; by default that of the lammps-jax-pjrt-cpu wheel")
    p.add_argument("--only", nargs="*", choices=list(TOLERANCE), default=list(TOLERANCE))
    p.add_argument("--rounds", type=int, default=6, help="timed slices for each plugin and job")
    p.add_argument("--slice", type=float, default=0.25, help="seconds of a slice, at least")
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "out")
    p.add_argument("--no-picture", action="store_true")
    p.add_argument("--judge-speed", action="store_true", help="fail also when ours is slower, or compiles in more than half of XLA's time")
    opt = p.parse_args()
    plugins = {"ours": os.path.abspath(opt.ours), "xla": locate(opt.xla or str(xla_plugin()))}

    rows, failures = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for job in opt.only:
            print(f"{job}: running on both plugins", flush=True)
            try:
                row = measure(job, plugins, opt, scratch)
                compile_again(row, plugins)
            except Failed as e:
                failures.append(f"{job}: {e}")
                continue
            rows.append(row)
            if row["wrong"]:
                failures.append(f"{job}: {row['wrong']}")
            if job == "train":
                first, last = row["loss"]["ours"][0], row["loss"]["ours"][-1]
                print(f"{job}: loss {first:.4f} to {last:.4f} in {len(row['loss']['ours'])} steps (XLA's: {row['loss']['xla'][-1]:.4f})", flush=True)
    clients = {}
    try:
        clients = {name: client_seconds(plugins[name]) for name in PLUGINS if not plugins[name].startswith(OF_JAX)}
    except Failed as e:
        failures.append(str(e))

    if rows and clients:
        table(rows, clients)
        if opt.judge_speed:
            failures += [f"{r['job']}: {what} {value:.2f}, at most {limit}" for r in rows for what, value, limit in (
                ("step time ratio", max(r["ratio_min"], r["ratio_median"]), 1.0),
                ("compile time ratio", min(r["compile"]["ours"]) / min(r["compile"]["xla"]), 0.5)) if value > limit]
            if clients["ours"] >= 0.04:
                failures.append(f"client creation: {show(clients['ours'])}, less than 40 ms is wanted")
    opt.out.mkdir(parents=True, exist_ok=True)
    (opt.out / "main_job.json").write_text(json.dumps({"rows": rows, "client_seconds": clients, "failures": failures}, indent=1) + "\n")
    if not opt.no_picture:
        for row in rows:
            if row["job"] == "train":
                picture(row, opt.out / "loss_curves.png")
                print(f"picture: {os.path.relpath(opt.out / 'loss_curves.png')}")
    for f in failures:
        print(f"FAILED {f}", file=sys.stderr)
    if not failures:
        print("all results agree with XLA's")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
