"""Runs programs on a plugin and on JAX's own CPU client, in one process: JSON lines on stdin, JSON lines on stdout.

  worker.py PLUGIN.so

A line {"source": TEXT, "x64": BOOL, "seed": N} is answered by {"at": "plugin"} when JAX's own client is done, and then by
{"what": "" or what is wrong, "compared": N, "undecided": N}; or by {"skipped": WHY} where JAX's own client refuses the program.
"""
import json
import os
import pathlib
import re
import sys

DEVICES = 4


def register(plugin):
    os.environ["JAX_NUM_CPU_DEVICES"] = str(DEVICES)
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python"))
    emulator = "tpu_emulator" in pathlib.Path(plugin).name
    name = "tiledtpu" if emulator else "backplane"
    if emulator:
        os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
        os.environ["TILEDTPU_TOPOLOGY"] = "2x2"
    os.environ["JAX_PLATFORMS"] = f"{name},cpu"
    import backplane_jax
    backplane_jax.register(plugin, name, options=None if emulator else {"cpu_device_count": DEVICES})
    return name


def build_without_shardings(source, devices):
    """The same program, but its arguments are whole on each device. JAX's own client partitions some operations wrongly."""
    space = {"__name__": "random_program"}
    exec(compile(re.sub(r", in_shardings=\(.*,\)\)$", ")", source, flags=re.M), "random_program.py", "exec"), space)  # noqa: S102
    return space["build"](devices)


def run(message, ours, theirs, tell):
    import jax
    import numpy as np

    import judge
    jax.config.update("jax_enable_x64", message["x64"])
    space = {"__name__": "random_program"}
    exec(compile(message["source"], "random_program.py", "exec"), space)  # noqa: S102
    # In numpy's memory: an array that lies on the device already would be given away by the first of several calls.
    arguments = [np.asarray(a) for a in space["arguments"]()]
    mesh = "mesh = " in message["source"]

    def start(function, devices, given):
        if not mesh:
            given = [jax.device_put(a, devices[0]) for a in given]
        with jax.default_device(devices[0]):
            return jax.tree.leaves(function(*given))

    def read(leaves):
        return [np.asarray(leaf) for leaf in leaves]
    rng = np.random.default_rng(message["seed"])
    narrow = judge.narrowest(message["source"].split("def build(")[1])
    try:
        function = space["build"](theirs)
        expected = read(start(function, theirs, arguments))
        others = [read(start(function, theirs, [judge.moved(np.asarray(a), rng, narrow) for a in arguments])) for _ in range(3)]
    except Exception as e:
        return {"skipped": f"{type(e).__name__}: {e}"[:300]}
    tell({"at": "plugin"})
    try:
        function = space["build"](ours)
        # Three at once; what the second gives is deleted while it may still run.
        first, second, third = (start(function, ours, arguments) for _ in range(3))
        for leaf in second:
            if not leaf.is_deleted():
                leaf.delete()
        last, early = read(third), read(first)
    except Exception as e:
        return {"what": f"refused: {type(e).__name__}: {e}"[:600]}
    what, compared, undecided = judge.compare(expected, others, last, narrow)
    if not what:
        what = judge.compare(expected, others, early, narrow)[0]
        what = what and "of the first of three runs: " + what
    if what and "in_shardings=" in message["source"]:
        try:
            whole = read(start(build_without_shardings(message["source"], theirs), theirs, arguments))
        except Exception:
            whole = None
        if whole is not None and not any(judge.compare(whole, others, found, narrow)[0] for found in (last, early)):
            return {"skipped": "JAX's own client gives other results when it partitions the program"}
    return {"what": what, "compared": compared, "undecided": undecided}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints goes to stderr
    name = register(sys.argv[1])
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import warnings

    import jax
    warnings.filterwarnings("ignore")
    ours, theirs = jax.devices(name), jax.devices("cpu")

    def tell(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    tell({"devices": [str(ours[0]), str(theirs[0])]})
    for line in sys.stdin:
        tell(run(json.loads(line), ours, theirs, tell))
        jax.clear_caches()


if __name__ == "__main__":
    main()
