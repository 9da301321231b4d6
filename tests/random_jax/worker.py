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


def results_of_other_ways(source, run):
    """Results of the same program on JAX's own client by ways that avoid its errors: with whole arguments on each device, because it
    partitions some operations wrongly, and operation by operation, because it fuses some wrongly. `run` runs a text."""
    import jax
    if "in_shardings=" in source:
        yield run(re.sub(r", in_shardings=\(.*,\)\)$", ")", source, flags=re.M))
    with jax.disable_jit():
        result = run(source)
    yield result


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

    def run_on_theirs(source):
        again = {"__name__": "random_program"}
        exec(compile(source, "random_program.py", "exec"), again)  # noqa: S102
        return read(start(again["build"](theirs), theirs, arguments))

    def agrees_with_another_way():
        try:
            return any(not judge.compare(other, others, last, narrow)[0] and not judge.compare(other, others, early, narrow)[0]
                       for other in results_of_other_ways(message["source"], run_on_theirs))
        except Exception:  # JAX's own client does not run the program in such a way
            return False
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
    if what and agrees_with_another_way():
        return {"skipped": "JAX's own client gives other results when it runs the program whole or operation by operation"}
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
