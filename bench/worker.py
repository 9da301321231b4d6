"""One process, one plugin, all workloads: JSON lines in and out, as samples/jax/worker.py."""
import json
import os
import re
import sys
import time

import jax
import numpy as np

import gpu_workloads
import movement
import workloads


def to_numpy(result):
    """As an array of a type that a file of numpy keeps."""
    return np.asarray(result, np.float32 if result.dtype == jax.numpy.bfloat16 else None)


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    job = sys.argv[1]
    kind, separator, pattern = job.partition(":")
    module = {"movement": movement, "gpu": gpu_workloads}.get(kind, workloads) if separator else workloads
    pattern = re.compile(pattern if module is not workloads else job)
    by_name = {w.name: w for w in module.all_workloads() if pattern.search(w.name)}
    jax.jit(lambda x: x * 2)(np.float32(1)).block_until_ready()
    answer(names=list(by_name), tolerances={n: w.tolerance for n, w in by_name.items()}, platform=jax.devices()[0].client.platform_version)
    run, arguments = None, None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if command["do"] == "compile":
                w = by_name[command["name"]]
                run = jax.jit(w.function)
                arguments = jax.device_put(w.arguments)
                jax.block_until_ready(arguments)
                lowered = run.lower(*arguments)
                start = time.perf_counter()
                lowered.compile()
                seconds = time.perf_counter() - start
                np.savez(command["path"], *(to_numpy(r) for r in jax.tree.leaves(run(*arguments))))
                answer(seconds=seconds)
            elif command["do"] == "time":
                steps, end = [], time.perf_counter() + command["seconds"]
                while True:
                    start = time.perf_counter()
                    jax.block_until_ready(run(*arguments))
                    now = time.perf_counter()
                    steps.append(now - start)
                    if now >= end and len(steps) >= 3:
                        break
                answer(min=min(steps), median=sorted(steps)[len(steps) // 2])
            else:
                answer(error=f"unknown command {command['do']!r}")
        except Exception as e:
            answer(error=f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}")


if __name__ == "__main__":
    main()
