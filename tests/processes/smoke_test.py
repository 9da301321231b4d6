"""Two processes of two devices each give the bits of one process with four devices. A process that runs another program,
is killed, or does not come, is an error of the other one that names it. A program may come from a compile cache. Arrays are
copied between the processes."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

from run import Run, result_lines


def tail(run):
    return "\n".join(f"-- process {i}, code {run.codes[i]}:\n" + "\n".join(o.splitlines()[-12:]) for i, o in enumerate(run.outputs))


# A process that sees other processes under /proc than the rest, as in a container of its own. None: not permitted here.
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
if not shutil.which("unshare") or subprocess.run([*CONTAINER, "true"], stderr=subprocess.DEVNULL).returncode:
    CONTAINER = None


def check_same_bits(plugin, processes, devices, arguments, options):
    """Large arrays go through shared memory, and without it through the network: if it is switched off, and if process 1 does not
    see the memory of the others."""
    one = Run("collectives.py", plugin, 1, processes * devices, arguments=arguments).wait(280)
    assert all("DONE" in o for o in one.outputs), tail(one)
    want = result_lines(one.outputs)
    is_mpi = "transport=mpi" in options
    ways = [(["shared_memory_megabytes=8"] if is_mpi else [], None, [processes] * processes), (["shared_memory_megabytes=0"], None, [0] * processes)]
    if CONTAINER and not is_mpi:
        apart = [CONTAINER if i == 1 else [] for i in range(processes)]
        ways.append(([], apart, [1 if i == 1 else processes - 1 for i in range(processes)]))
    for more, prefix, segments in ways:
        several = Run("collectives.py", plugin, processes, devices, [*options, *more], arguments, prefix=prefix or ()).wait(280)
        assert all("DONE" in o for o in several.outputs), tail(several)
        got = result_lines(several.outputs)
        assert len(want) > 50 and want == got, "\n".join(sorted(set(want) ^ set(got))[:20])
        found = [int(re.search(r"^SEGMENTS (\d+)", o, re.M).group(1)) for o in several.outputs]
        assert found == segments, f"{more} {prefix}: the processes have mapped {found} segments of shared memory, expected {segments}"
    return len(want)


def check_compile_cache(plugin, processes, devices, options):
    """One process compiles the programs and another one reads them from its compile cache."""
    with tempfile.TemporaryDirectory() as folder:
        cache = {"per_process": lambda i: [f"--option=compile_cache_directory={folder}"] if i == 1 else []}
        runs = []
        for _ in range(2):
            runs.append(Run("collectives.py", plugin, processes, devices, [*options, "collective_timeout_seconds=60"], ["sizes=513"], **cache).wait(280))
            assert all("DONE" in o for o in runs[-1].outputs), tail(runs[-1])
            stored = sum(len(files) for _, _, files in os.walk(folder))
        assert stored > 20 and result_lines(runs[0].outputs) == result_lines(runs[1].outputs), f"{stored} stored\n{tail(runs[1])}"


def check_failures(plugin, options):
    """Every way to fail, in one process; the other one must name it."""
    for how, expected in (("other", ["process 1 runs", "process 0 runs"]), ("kill", ["process 1"]),
                          ("operands", ["process 1 runs", "process 0 runs"]), ("size", ["process 1"]), ("stay", ["process 1"]),
                          ("memory", ["no memory for 4000000 bytes"])):
        if how == "memory" and "tpu_emulator" in plugin:
            continue  # its memory has the size of the hardware
        limit = {"per_process": lambda i: ["--option=memory_limit_bytes=6000000"] if i == 1 else []} if how == "memory" else {}
        run = Run("failures.py", plugin, 2, 1, [*options, "collective_timeout_seconds=4"], [f"how={how}"], **limit).wait(120)
        errors = [line for line in run.outputs[0].splitlines() if line.startswith("ERROR ")]
        assert errors and any(e in errors[0] for e in expected) and ("all-reduce" in errors[0] or "jit_all_reduce" in errors[0]), f"{how}:\n{tail(run)}"
        print(f"{how}: {errors[0][:200]}")


def check_refused_client(plugin, options):
    """Process 1 has a wrong option. Process 0 learns it at once."""
    wrong = {"per_process": lambda i: ["--option=colour=3"] if i == 1 else []}
    run = Run("failures.py", plugin, 2, 1, options, ["how=none"], **wrong).wait(60)
    assert re.search("process 1 of 2: it has no client: .*colour", run.outputs[0]), tail(run)


def check_transfers(plugin, devices, options):
    """Arrays that jax.device_put copies to another process; what becomes of them if the sender is killed."""
    run = Run("transfers.py", plugin, 2, devices, options).wait(120)
    assert all("DONE" in o for o in run.outputs), tail(run)
    run = Run("transfers.py", plugin, 2, 1, [*options, "collective_timeout_seconds=4"], ["how=kill"]).wait(120)
    errors = [line for line in run.outputs[0].splitlines() if line.startswith("ERROR ")]
    assert errors and "transfer" in errors[0] and "process 1" in errors[0], tail(run)
    print(f"transfer: {errors[0][:200]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plugin")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--sizes", default="1,513,65536", help="columns of the arrays; large ones are sent without a copy")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE, a create option")
    a = parser.parse_args()
    compared = check_same_bits(a.plugin, a.processes, a.devices, [f"sizes={a.sizes}"], a.option)
    check_compile_cache(a.plugin, a.processes, a.devices, a.option)
    check_failures(a.plugin, a.option)
    check_refused_client(a.plugin, a.option)
    check_transfers(a.plugin, a.devices, a.option)
    print(f"{compared} results of {a.processes} processes x {a.devices} devices have the bits of one process")


if __name__ == "__main__":
    sys.exit(main())
