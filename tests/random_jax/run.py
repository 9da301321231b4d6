"""Random compositions of JAX functions on a plugin and on JAX's own CPU client: ./dev fuzz-jax.

A seed gives the same program everywhere. The plugin runs in a process of its own, so that a crash or a hang is a finding with
its seed. A finding is made small and saved as a program that stands alone. Exit code 1: there is a finding.
"""
import argparse
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "4"

import generate  # noqa: E402
import shrink  # noqa: E402
import tree  # noqa: E402


class Worker:
    def __init__(self, plugin, limit):
        self.plugin, self.limit, self.process, self.done = plugin, limit, None, 0

    def start(self):
        self.errors = tempfile.TemporaryFile()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PJRT_"))}
        env.update(TF_CPP_MIN_LOG_LEVEL="2", PYTHONDONTWRITEBYTECODE="1", PYTHONFAULTHANDLER="1")
        self.process = subprocess.Popen([sys.executable, str(HERE / "worker.py"), self.plugin], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, env=env)
        self.buffer, self.done = b"", 0
        if self.line() is None:
            raise SystemExit(f"fuzz-jax: the plugin cannot be opened\n{self.tail()}")

    def line(self):
        """The next answer; None when the process has ended, "late" after the limit."""
        end = time.monotonic() + self.limit
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                return "late"
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                return None
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def tail(self):
        self.errors.seek(0)
        return self.errors.read()[-1500:].decode(errors="replace")

    def stop(self):
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            self.process = None

    def run(self, program):
        if self.process is None or self.done >= 150:  # compiled programs pile up
            self.stop()
            self.start()
        self.done += 1
        message = {"source": tree.source(program), "x64": program.x64, "seed": program.seed}
        self.process.stdin.write((json.dumps(message) + "\n").encode())
        self.process.stdin.flush()
        answer, on_plugin = self.line(), False
        if isinstance(answer, dict) and "at" in answer:
            answer, on_plugin = self.line(), True
        if isinstance(answer, dict):
            return answer
        if answer == "late":
            what = f"timeout: no answer for {self.limit} s"
        else:
            status = self.process.wait()
            what = f"crash: status {status}: {self.tail()[-600:]}"
        self.stop()
        return {"what": what} if on_plugin else {"skipped": "JAX's own client: " + what}


def kind(what):
    """What must stay the same while a program is made smaller: the sort of failure, and a message without its numbers."""
    head = what.split(":")[0] if what.startswith(("crash", "timeout", "refused")) else "differs"
    if head == "crash":
        found = re.findall(r"(?:Fatal Python error: [A-Za-z ]+|Assertion `[^']*'|Check failed[^\n]*)", what)
        return head + (found[0] if found else "")
    return head + (re.sub(r"[0-9]+", "#", what)[:110] if head == "refused" else "")


def work(options, first, step, report):
    worker, start = Worker(options.plugin, options.timeout), time.monotonic()
    counts = dict(programs=0, agree=0, findings=0, skipped=0, compared=0, undecided=0, statements=0)
    seen = {}
    lately = start
    for n in range(first, options.count, step):
        if options.minutes and time.monotonic() - start > options.minutes * 60:
            break
        if time.monotonic() - lately > 30:
            lately = time.monotonic()
            print(f"fuzz-jax: {counts['programs']} programs, {counts['findings']} findings", file=sys.stderr, flush=True)
        seed = options.seed + n
        program = generate.generate(seed)
        answer = worker.run(program)
        counts["programs"] += 1
        counts["statements"] += tree.size(program)
        counts["compared"] += answer.get("compared", 0)
        counts["undecided"] += answer.get("undecided", 0)
        if "skipped" in answer:
            counts["skipped"] += 1
            continue
        what = answer["what"]
        if not what:
            counts["agree"] += 1
            continue
        if what.startswith("refused"):
            seen[kind(what)] = seen.get(kind(what), 0) + 1
            if seen[kind(what)] > 1:  # one of each is enough
                counts["findings"] += 1
                continue

        def fails(candidate, what=what):
            again = worker.run(candidate)
            return bool(again.get("what")) and kind(again["what"]) == kind(what)
        small, tried = shrink.shrink(program, fails, options.shrink, options.shrink_seconds)
        final = worker.run(small).get("what") or what
        counts["findings"] += 1
        folder = pathlib.Path(options.save)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"random_jax_{seed}.py"
        path.write_text(tree.source(small))
        report(f"differs seed {seed}: {final}\n{tree.source(small)}  {path} ({tree.size(program)} parts, {tree.size(small)} after {tried} tries)\n")
        worker.stop()
    worker.stop()
    return counts


def main():
    parser = argparse.ArgumentParser(prog="./dev fuzz-jax", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", help="path of a plugin; our CPU plugin by default")
    parser.add_argument("--count", type=int, default=200, help="how many programs (200)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first program; it increases by one for each program")
    parser.add_argument("--minutes", type=float, default=0, help="end after so many minutes")
    parser.add_argument("--jobs", type=int, default=1, help="programs at once, each job with processes of its own")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a program may take (120)")
    parser.add_argument("--shrink", type=int, default=200, help="number of smaller programs to try for each finding (200)")
    parser.add_argument("--shrink-seconds", type=float, default=180)
    parser.add_argument("--save", default="out/fuzz_jax", help="folder for findings")
    parser.add_argument("--part", nargs=2, type=int, help=argparse.SUPPRESS)  # of a run with several jobs: which, of how many
    parser.add_argument("--print", action="store_true", help="print the programs, run nothing")
    options = parser.parse_args()
    if options.print:
        for n in range(options.count):
            print(tree.source(generate.generate(options.seed + n)))
        return 0
    if not options.plugin:
        parser.error("--plugin is missing")
    options.plugin = os.path.abspath(options.plugin)
    start = time.monotonic()

    def report(text):
        print(text, flush=True)
    if options.part:
        print(json.dumps(work(options, *options.part, report)))
        return 0
    if options.jobs == 1:
        counts = work(options, 0, 1, report)
    else:
        command = [sys.executable, "-B", str(HERE / "run.py"), *sys.argv[1:], "--part"]
        children = [subprocess.Popen([*command, str(job), str(options.jobs)], stdout=subprocess.PIPE, text=True) for job in range(options.jobs)]
        counts = {}
        for child in children:
            text, _, last = child.communicate()[0].rstrip("\n").rpartition("\n")
            if child.returncode:
                raise SystemExit(f"fuzz-jax: a job ended with status {child.returncode}\n{text}\n{last}")
            if text:
                report(text)
            for key, value in json.loads(last).items():
                counts[key] = counts.get(key, 0) + value
    total = max(counts["compared"] + counts["undecided"], 1)
    print(f"{counts['programs']} programs of {counts['statements']} parts in {time.monotonic() - start:.0f} s: {counts['agree']} agree, "
          f"{counts['findings']} findings, {counts['skipped']} refused by JAX's own client; {100 * counts['undecided'] / total:.1f} % of the elements undecided")
    return 1 if counts["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
