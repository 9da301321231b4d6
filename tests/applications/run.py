"""./dev applications [PATTERN]: runs programs of public libraries on our CPU plugin and on JAX's own CPU client.

Each workload runs on both clients, in a process each, with the same seed. Reported are disagreements, errors, crashes and
hangs of ours, and the ratios ours/oracle of the first call (trace, compile, run), of later calls, and of peak memory.
Results go to out/applications.json; --table writes them into docs/notes/applications.md as well. Fails unless all agree.
"""
import argparse
import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = ROOT / "build" / "applications" / "venv"
sys.path.insert(0, str(HERE))

import compare  # noqa: E402
import protocol  # noqa: E402
import table  # noqa: E402

sys.dont_write_bytecode = True


def install():
    """Creates the virtual environment of the libraries; quick if the list has not changed."""
    digest = hashlib.sha256((HERE / "requirements.txt").read_bytes()).hexdigest()
    stamp = VENV / ".installed"
    if stamp.is_file() and stamp.read_text() == digest:
        return
    print(f"installing {HERE.relative_to(ROOT)}/requirements.txt into {VENV.relative_to(ROOT)} (some minutes, 3 GB)", flush=True)
    if not (VENV / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    subprocess.run([str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "-q", "-r", str(HERE / "requirements.txt")], check=True)
    stamp.write_text(digest)


class Died(Exception):
    """A worker crashed, hung, or returned an error."""


class Worker:
    """One workload on one client, in a process of its own."""

    def __init__(self, workload, client, plugin, limit, quick):
        self.client, self.limit = client, limit
        self.folder = tempfile.TemporaryDirectory()
        self.errors = tempfile.TemporaryFile()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PJRT_", "BACKPLANE_"))}
        env.update(TF_CPP_MIN_LOG_LEVEL="2", PYTHONDONTWRITEBYTECODE="1", PYTHONFAULTHANDLER="1", MPLBACKEND="Agg", PYTHONHASHSEED="0", HOME=self.folder.name)
        if quick and client == "oracle":
            env["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
        if client == "oracle_no_fma":
            env["XLA_FLAGS"] = "--xla_cpu_max_isa=SSE4_2"
            client = "oracle"
        command = [str(VENV / "bin" / "python"), str(HERE / "worker.py"), workload.name, client, self.folder.name, plugin]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=env)
        self.buffer = b""

    def tail(self, size=3000):
        self.errors.seek(0)
        return self.errors.read()[-size:].decode(errors="replace")

    def ask(self, command):
        try:
            self.process.stdin.write((command + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the read below says how the process ended
        end = time.monotonic() + self.limit
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                self.process.send_signal(signal.SIGABRT)  # faulthandler writes where it hangs
                time.sleep(1)
                raise Died(f"{self.client}: hang: no answer to '{command.split()[0]}' in {self.limit} s\n{self.tail()}")
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise Died(f"{self.client}: crash: the process ended with status {self.process.wait()}\n{self.tail()}")
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        answer = json.loads(line)
        if "error" in answer:
            raise Died(f"{self.client}: error: {answer['error']}")
        return answer

    def pause(self, paused):
        self.process.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()
        self.folder.cleanup()


def time_both(workers, seconds, rounds):
    """Seconds of one later call on each client: slices alternate, the other client is stopped meanwhile."""
    times = {client: [] for client in workers}
    for i in range(rounds):
        for client in list(workers)[:: 1 if i % 2 == 0 else -1]:
            for other in workers:
                workers[other].pause(other != client)
            times[client].append(workers[client].ask(f"time {seconds}"))
    return {client: min(min(t["times"]) for t in slices) for client, slices in times.items()}, times


def run_one(workload, opt, scratch):
    row = {"name": workload.name, "library": workload.library, "group": workload.group, "result": "agrees", "detail": ""}
    workers = {}
    clients = ["oracle", "oracle_no_fma" if opt.spread else "ours"]
    try:
        files = {}
        kept = VENV.parent / "oracle" / f"{workload.name}.npz"
        for client in clients:
            if opt.kept and client == "oracle" and kept.is_file():
                files[client] = np.load(kept)
                continue
            workers[client] = Worker(workload, client, opt.plugin, opt.limit, opt.quick)
            workers[client].ask("build")
            path = kept if client == "oracle" else f"{scratch}/{workload.name}.{client}.npz"
            row[client] = {"first": workers[client].ask(f"call {path}")}
            files[client] = np.load(path)
        other = clients[1]
        wrong = compare.compare(files[other], files["oracle"], workload)
        row["error"] = compare.largest_error(files[other], files["oracle"])
        if not wrong and not workload.once:
            path = f"{scratch}/{workload.name}.again.npz"
            row[other]["second"] = workers[other].ask(f"call {path}")
            wrong = [f"second call: {w}" for w in compare.compare(np.load(path), files["oracle"], workload)]
        if wrong:
            row.update(result="differs", detail="\n".join(wrong[:12]))
        if opt.kept or opt.spread or opt.quick:
            return row
        if not workload.once and opt.rounds:
            best, slices = time_both(workers, opt.seconds, opt.rounds)
            for client in clients:
                row[client]["steady"] = best[client]
                row[client]["memory"] = slices[client][-1]["memory"]
            row["steady"] = best["ours"] / best["oracle"]
        row["first"] = row["ours"]["first"]["seconds"] / row["oracle"]["first"]["seconds"]
        row["first_work"] = row["ours"]["first"]["work"] / row["oracle"]["first"]["work"]
        row["memory"] = row["ours"]["first"]["memory"] / row["oracle"]["first"]["memory"]
    except Died as e:
        who, what, detail = str(e).split(": ", 2)
        row.update(result=what if who == "ours" else f"{who} {what}", detail=detail)
    finally:
        for worker in workers.values():
            worker.close()
    return row


def show(row):
    numbers = "  ".join(f"{k} {row[k]:.2f}" for k in ("first", "steady", "memory") if k in row)
    error = f"error {row['error']:.1e}  " if "error" in row else ""
    return f"{row['name']:<34} {row['result']:<8} {error}{numbers}" + ("\n    " + row["detail"].strip().replace("\n", "\n    ") if row["detail"] else "")


def main():
    parser = argparse.ArgumentParser(prog="./dev applications", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="workloads whose name, library or file matches this regular expression")
    parser.add_argument("--plugin", default=str(ROOT / "build" / "release" / "plugins" / "pjrt_backplane_cpu.so"), help="another CPU plugin")
    parser.add_argument("--jobs", type=int, default=1, help="workloads at a time; times are worth something with 1 only")
    parser.add_argument("--limit", type=int, default=600, help="seconds for one call; longer is a hang")
    parser.add_argument("--rounds", type=int, default=3, help="slices of time for each client; 0 measures no later calls")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one slice")
    parser.add_argument("--list", action="store_true", help="name the workloads and end")
    parser.add_argument("--quick", action="store_true", help="compile the oracle without optimisation and time nothing: the answer whether all agree comes in half the time")
    parser.add_argument("--kept", action="store_true", help="hold ours against the oracle's results of an earlier run and time nothing; for looking into a failure")
    parser.add_argument("--spread", action="store_true", help="JAX's own client without fused multiply-add in place of ours: what rounding alone does to the results")
    parser.add_argument("--table", action="store_true", help="write the results into docs/notes/applications.md; those of workloads that did not run stay")
    opt = parser.parse_args()
    opt.plugin = os.path.abspath(opt.plugin)
    chosen = [w for w in protocol.load_all().values() if any(re.search(opt.pattern, text) for text in (w.name, w.library, w.group))]
    if opt.list:
        for w in chosen:
            print(f"{w.group:<16} {w.name:<34} {w.library}")
        return 0
    if not chosen:
        parser.error(f"no workload matches {opt.pattern!r}")
    install()
    (VENV.parent / "oracle").mkdir(exist_ok=True)
    rows, lock = [], threading.Lock()

    def run_and_show(workload):
        row = run_one(workload, opt, scratch)
        with lock:
            rows.append(row)
            print(show(row), flush=True)

    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(opt.jobs) as pool:
        for _ in pool.map(run_and_show, chosen):
            pass
    order = {w.name: i for i, w in enumerate(chosen)}
    rows.sort(key=lambda r: order[r["name"]])
    for what in ("first", "steady", "memory"):
        values = [r[what] for r in rows if what in r]
        if values:
            print(f"{what:<8} geometric mean {math.exp(statistics.fmean(map(math.log, values))):.2f} of {len(values)}")
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    if not (opt.spread or opt.kept or opt.quick):
        path = out / "applications.json"
        old = json.loads(path.read_text()) if path.is_file() else []
        new = {r["name"] for r in rows}
        known = protocol.load_all()
        merged = {r["name"]: r for r in [o for o in old if o["name"] not in new] + rows}
        merged = [merged[name] for name in known if name in merged]
        path.write_text(json.dumps(merged, indent=1) + "\n")
        if opt.table:
            table.write(ROOT / "docs" / "notes" / "applications.md", merged)
    bad = [r for r in rows if r["result"] != "agrees"]
    print(f"{len(rows) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
