"""Runs one workload on one client: worker.py WORKLOAD CLIENT FOLDER [PLUGIN].

CLIENT is `ours`, the plugin at PLUGIN in the place of JAX's CPU client, or `oracle`, JAX's own CPU client.
Commands come on stdin, a JSON answer each goes to stdout:

    build            imports the library and builds the inputs
    call PATH        runs `step`, waits for its results and writes them to PATH (.npz)
    time SECONDS     runs `step` again and again for about that long
"""
import json
import os
import pathlib
import sys
import time
import traceback
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def peak_memory():
    """The process's peak resident memory in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def choose_client(workload, client, plugin):
    os.environ.update(workload.environment, JAX_PLATFORMS="cpu", JAX_ENABLE_X64=str(int(workload.x64)))
    if client == "oracle":
        os.environ["JAX_NUM_CPU_DEVICES"] = str(workload.devices)
        return
    sys.path.insert(0, str(ROOT / "sdk" / "python"))
    import backplane_jax
    backplane_jax.register(plugin, "cpu", options={"cpu_device_count": workload.devices})


def fetch(results):
    """The results as numpy arrays; `step` returns a dict of arrays and numbers."""
    import numpy as np
    arrays = {k: np.asarray(v) for k, v in results.items()}
    objects = [k for k, v in arrays.items() if v.dtype.kind == "O"]
    if objects:
        raise TypeError(f"not arrays: {objects}")
    return arrays


def main():
    name, client, folder, plugin = (sys.argv[1:] + [""])[:4]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print goes to stderr
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(HERE))
    import protocol
    workload = protocol.load_all()[name]
    choose_client(workload, client, plugin)
    os.chdir(folder)  # a folder of its own for what programs write

    def answer(**what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    step = None
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        try:
            start, work = time.perf_counter(), time.process_time()
            if command == "build":
                import jax
                version = jax.devices()[0].client.platform_version
                if ("backplane" in version) != (client == "ours") or jax.device_count() != workload.devices:
                    raise RuntimeError(f"wrong client: {jax.devices()} of {version}")
                step = workload.build()
                answer(seconds=time.perf_counter() - start, memory=peak_memory())
            elif command == "call":
                import numpy as np
                results = fetch(step())
                answer_late = dict(seconds=time.perf_counter() - start, work=time.process_time() - work, memory=peak_memory())
                np.savez(argument, **results)
                answer(**answer_late)
            elif command == "time":
                times = []
                while not times or time.perf_counter() - start < float(argument):
                    begin = time.perf_counter()
                    fetch(step())
                    times.append(time.perf_counter() - begin)
                answer(times=times, memory=peak_memory())
        except Exception:
            answer(error=traceback.format_exc(limit=-6)[-6000:])


if __name__ == "__main__":
    main()
