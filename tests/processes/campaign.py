"""Harms one process in the middle of training, many times, and checks that every other process ends in time with an
error that names it, and that the job, started again, resumes from its checkpoint.

  campaign.py PLUGIN.so --harm kill --tries 50
  campaign.py PLUGIN.so --harm cut --tries 10       needs root: each process gets a network namespace of its own
"""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from run import Run

NAMESPACE, BRIDGE, NETWORK = "backplane-test", "bp-test", "10.213.77"


def ip(*arguments):
    subprocess.run(["ip", *map(str, arguments)], check=True)


class Namespaces:
    """A bridge and one namespace for each process, as a stand-in for machines."""

    def __init__(self, count):
        self.count = count
        self.remove()
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("link", "set", BRIDGE, "up")
        for i in range(count):
            ip("netns", "add", f"{NAMESPACE}{i}")
            ip("link", "add", f"{BRIDGE}{i}", "type", "veth", "peer", "name", "eth0", "netns", f"{NAMESPACE}{i}")
            ip("link", "set", f"{BRIDGE}{i}", "master", BRIDGE, "up")
            ip("-n", f"{NAMESPACE}{i}", "addr", "add", f"{NETWORK}.{i + 1}/24", "dev", "eth0")
            ip("-n", f"{NAMESPACE}{i}", "link", "set", "eth0", "up")
            ip("-n", f"{NAMESPACE}{i}", "link", "set", "lo", "up")

    def prefix(self, i):
        return ["ip", "netns", "exec", f"{NAMESPACE}{i}"]

    def remove(self):
        for i in range(self.count):
            subprocess.run(["ip", "netns", "del", f"{NAMESPACE}{i}"], stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "link", "del", f"{BRIDGE}{i}"], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", BRIDGE], stderr=subprocess.DEVNULL)


def steps_in(folder):
    return max((int(f[5:-4]) for f in os.listdir(folder) if f.endswith(".npz")), default=-1)


def wait_for_step(folder, step, run, seconds=300):
    end = time.monotonic() + seconds
    while steps_in(folder) < step:
        if time.monotonic() > end or any(p.poll() is not None for p in run.processes):
            run.kill()
            raise AssertionError("training does not advance:\n" + "\n".join(o[-800:] for o in run.wait(5).outputs))
        time.sleep(0.02)


def attempt(a, harm, spaces, folder):
    common = {"options": [f"collective_timeout_seconds={a.timeout}", *a.option], "arguments": [f"checkpoint={folder}", f"width={a.width}", "pause=0.02"]}
    if spaces:
        common.update(prefix=[spaces.prefix(i) for i in range(a.processes)], coordinator=f"{NETWORK}.1")
    before = steps_in(folder)
    steps = before + 1000
    common["arguments"] = common["arguments"] + [f"steps={steps}"]
    run = Run("training.py", a.plugin, a.processes, a.devices, **common)
    victim = random.randrange(1, a.processes)  # process 0 is the coordinator of jax.distributed
    try:
        wait_for_step(folder, before + random.randint(2, 5), run)
        time.sleep(random.random() * 0.1)
        harmed = time.time()
        if harm == "kill":
            run.processes[victim].send_signal(signal.SIGKILL)
        elif harm == "stop":
            run.processes[victim].send_signal(signal.SIGSTOP)
        else:
            ip("link", "set", f"{BRIDGE}{victim}", "down")
        end = time.monotonic() + a.timeout + 20
        others = [i for i in range(a.processes) if i != victim]
        for i in others:
            try:
                run.processes[i].wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{harm} {victim}: process {i} still waits") from None
    finally:
        run.kill()
        if harm == "cut":
            ip("link", "set", f"{BRIDGE}{victim}", "up")
    run.wait(10)
    slowest = 0.0
    for i in others:
        errors = [line for line in run.outputs[i].splitlines() if line.startswith("ERROR ")]
        assert errors and f"process {victim} " in errors[0], f"{harm} {victim}, process {i}:\n{run.outputs[i][-1500:]}"
        assert re.search(r"(all-|reduce|collective|jit_)", errors[0]), errors[0]
        slowest = max(slowest, float(errors[0].split()[2]) - harmed)
    assert slowest < a.timeout + 5, f"{harm} {victim}: the last error came after {slowest:.1f} s"
    example = errors[0].split(maxsplit=3)[3]
    # The job is started again and goes on.
    done = steps_in(folder)
    common["arguments"] = [f"checkpoint={folder}", f"width={a.width}", f"steps={done + 3}"]
    again = Run("training.py", a.plugin, a.processes, a.devices, **common).wait(120)
    assert all("DONE" in o and f"RESUMED at step {done + 1}" in o for o in again.outputs), again.outputs[0][-1500:]
    return slowest, example


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plugin")
    parser.add_argument("--harm", choices=("kill", "stop", "cut"), default="kill")
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=6, help="collective_timeout_seconds")
    parser.add_argument("--width", type=int, default=32, help="of the layers; with 256 the data goes through shared memory")
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    random.seed(a.seed)
    spaces = Namespaces(a.processes) if a.harm == "cut" else None
    passed = 0
    try:
        for n in range(a.tries):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    slowest, example = attempt(a, a.harm, spaces, folder)
                    passed += 1
                    print(f"{a.harm} {n}: all others ended within {slowest:.1f} s: {example[:160]}", flush=True)
                except AssertionError as error:
                    print(f"{a.harm} {n}: FAILED: {error}", flush=True)
    finally:
        if spaces:
            spaces.remove()
    print(f"{a.harm}: {passed} of {a.tries}")
    return passed != a.tries


if __name__ == "__main__":
    sys.exit(main())
