"""replay_test.py BACKPLANE LAYERS.so CPU.so REFERENCE.so BROKEN_DIR [XLA.so]: sessions of JAX, recorded and replayed.

XLA.so is a plugin we did not build; where the file does not exist, what needs it is left out, and the test says so.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BACKPLANE, LAYERS, CPU, REFERENCE, BROKEN = sys.argv[1:6]
XLA = sys.argv[6] if len(sys.argv) > 6 and os.path.exists(sys.argv[6]) else None
MODELS = pathlib.Path(__file__).resolve().parent.parent.parent / "samples" / "jax"

# A training run as samples/jax has it, small: parameters donated from step to step, losses read, the state read at the end.
TRAIN = """
import functools, os, sys
import jax, jax.numpy as jnp, numpy as np
import models
text = np.arange(4000) % 37 * 5 % 23
init = jax.jit(lambda seed: models.adam_init(models.gpt_init(seed, 23, 16, width=32, layers=1)))
step = jax.jit(functools.partial(models.adam_step, heads=2), donate_argnums=0)
state = init(3)
for i in range(int(sys.argv[1])):
    starts = np.random.default_rng(i).integers(0, 3900, 2)
    state, loss = step(state, np.stack([text[s:s + 17] for s in starts]).astype(np.int32))
    print(float(loss), flush=True)
    if len(sys.argv) > 2 and i == int(sys.argv[2]):
        os.kill(os.getpid(), 9)
jax.tree.map(np.asarray, state)
"""

# A chain in which one program, with two arguments, gives two results.
CHAIN = """
import jax, numpy as np
one = jax.jit(lambda x: x * 1.5 - 0.25)
two = jax.jit(lambda x, y: (x + y, x - y))
three = jax.jit(lambda x, y, z: x * y + z)
x = one(np.linspace(-1, 1, 64, dtype=np.float32))
for i in range(12):
    x = one(x)
y, z = two(x, one(x))
for i in range(12):
    y = three(y, z, x)
print(np.asarray(one(y)).sum())
"""


def run(*args, code=0, env=None):
    done = subprocess.run([BACKPLANE, *map(str, args)], capture_output=True, text=True, timeout=120, env=os.environ | (env or {}))
    assert done.returncode == code, f"{args}: ended with {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_json(*args, **kw):
    return json.loads(run(*args, "--json", **kw))


def record(path, script, *args, plugin=CPU, code=0, **options):
    """Runs JAX over the layer; what it printed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "BACKPLANE_"))}
    env |= {"PJRT_NAMES_AND_LIBRARY_PATHS": f"layered:{LAYERS}", "JAX_PLATFORMS": "layered", "PYTHONDONTWRITEBYTECODE": "1",
            "BACKPLANE_LAYERS": "record", "BACKPLANE_LAYERS_PLUGIN": str(plugin), "BACKPLANE_RECORD_FILE": str(path),
            "PYTHONPATH": str(MODELS)}
    env |= {f"BACKPLANE_RECORD_{k.upper()}": str(v) for k, v in options.items()}
    done = subprocess.run([sys.executable, "-c", script, *map(str, args)], capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == code, f"the host ended with {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_training_run_on_other_plugins(tmp):
    session = tmp / "train.bprec"
    losses = record(session, TRAIN, 4).split()
    assert len(losses) == 4 and float(losses[-1]) < float(losses[0]), losses

    same = run_json("replay", session, "-p", CPU)
    assert same["agree"] and same["session"]["complete"] and not same["errors"] and same["missing_reads"] == 0, same
    assert all(r["identical"] for r in same["reads"]) and len(same["reads"]) > 30, len(same["reads"])
    step = [r for r in same["reads"] if r["shape"] == "f32[]" and "adam_step" in r["what"]]
    assert len(step) >= 4, same["reads"]

    if XLA:
        other = run_json("replay", session, "-p", XLA, "--relative", 2e-3, "--timing")
        assert other["agree"] and other["missing_reads"] == 0 and not other["errors"], other
        assert len(other["reads"]) == len(same["reads"]), len(other["reads"])
        # They do differ in the last bits, so it was compared; the losses by little.
        assert any(not r["identical"] for r in other["reads"])
        losses = [r for r in other["reads"] if r["shape"] == "f32[]" and "adam_step" in r["what"]]
        assert len(losses) >= 4 and all(r["identical"] or r["difference"]["max_absolute"] < 1e-4 for r in losses), losses
        assert next(p for p in other["programs"] if "adam_step" in p["name"])["count"] == 4, other["programs"]


def test_looking_into_a_session(tmp):
    session = tmp / "look.bprec"
    record(session, CHAIN)
    listing = run("replay", session, "--list")
    assert "from_host" in listing and "execute" in listing and "f32[64]" in listing, listing
    rows = run_json("replay", session, "--list")
    numbers = [r["number"] for r in rows["list"]]
    assert numbers == list(range(1, len(numbers) + 1)) and rows["session"]["complete"]
    compiles = [r for r in rows["list"] if r["kind"] == "compile"]
    assert {c["about"].split(",")[0] for c in compiles} >= {"jit__lambda"}, compiles
    part = run_json("replay", session, "-p", REFERENCE, "--until", compiles[0]["number"])
    assert part["last"] == compiles[0]["number"], part
    part = run_json("replay", session, "--list", "--only", "2-3,5")
    assert [r["number"] for r in part["list"]] == [2, 3, 5], part

    files = run_json("replay", session, "--extract", tmp / "parts")["files"]
    programs = [f for f in files if f.endswith((".mlirbc", ".mlir"))]
    assert len(programs) == len(compiles) and any(f.endswith(".npy") for f in files), files
    assert "stablehlo" in run("convert", programs[0], "--to", "stablehlo"), programs[0]


def test_a_host_that_is_killed(tmp):
    session = tmp / "killed.bprec"
    losses = record(session, TRAIN, 3, 2, code=-9).split()
    report = run_json("replay", session, "-p", CPU)
    assert report["agree"] and not report["session"]["complete"], report["session"]
    assert len([r for r in report["reads"] if r["shape"] == "f32[]"]) >= len(losses) == 3, report["reads"]
    whole = session.read_bytes()
    session.write_bytes(whole[:len(whole) - 5])
    report = run_json("replay", session, "-p", CPU)
    assert report["agree"] and report["session"]["lost_bytes"] > 0, report["session"]
    # In the middle it is no crash but damage.
    session.write_bytes(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
    message = run_json("replay", session, "-p", CPU, code=3)["error"]["message"]
    assert "damaged" in message and "byte" in message, message


def test_shrink_finds_the_program(tmp):
    session, small, recorded = tmp / "chain.bprec", tmp / "small.bprec", tmp / "recorded.bprec"
    record(session, CHAIN, plugin=REFERENCE)
    env = {"BACKPLANE_BROKEN_OVER": REFERENCE}
    broken = pathlib.Path(BROKEN) / "broken_outputs_swapped.so"
    before = run_json("replay", session, "-p", broken, code=1, env=env)
    assert not before["agree"], before
    run("replay", session, "-p", REFERENCE, "--shrink", "-O", small, code=3)  # nothing differs

    # With a plugin that is right: contents stand in for all that came before.
    result = run_json("replay", session, "-p", broken, "-p", REFERENCE, "--shrink", "--expect-difference", "-O", small, env=env)
    assert result["operations"] < result["operations_before"] and result["split"] > 0, result
    kinds = [r["kind"] for r in run_json("replay", small, "--list")["list"]]
    run("replay", small, "-p", broken, code=1, env=env)
    run("replay", small, "-p", broken, "--expect-difference", env=env)
    run("replay", small, "-p", REFERENCE)
    # One plugin judged by another, and by a tolerance.
    text = run("replay", session, "-p", CPU, "-p", REFERENCE, "--relative", 1e-5)
    assert "agrees with" in text, text
    # What is left is the two-output program on two arrays, in place of the 13 executions before it and the 13 behind.
    runs = [r["about"] for r in run_json("replay", small, "--list")["list"] if r["kind"] == "execute"]
    assert len(runs) == 1 and runs[0].startswith("jit__lambda, 2 arguments, 2 outputs"), runs
    assert kinds == ["client", "compile", "from_host", "from_host", "execute", "read", "wait"], kinds

    # Without one, by what was recorded: only what the read does not need goes.
    result = run_json("replay", session, "-p", broken, "--shrink", "-O", recorded, env=env)
    assert result["operations"] < result["operations_before"] and result["split"] == 0, result
    run("replay", recorded, "-p", broken, code=1, env=env)
    run("replay", recorded, "-p", REFERENCE)


def test_what_a_process_keeps_for_itself(tmp):
    session = tmp / "callback.bprec"
    record(session, """
import jax, jax.numpy as jnp, numpy as np
x = jnp.ones(4)
v = np.from_dlpack(x) if hasattr(x, "__dlpack__") else x
print(jnp.sum(x + 1))
""", data="inputs")
    report = run_json("replay", session, "-p", CPU)
    assert report["agree"] and all(r["identical"] for r in report["reads"]), report
    # What it read is there as digests only: on a plugin that differs, it cannot be said by how much.
    kinds = {r["kind"] for r in run_json("replay", session, "--list")["list"]}
    assert {"client", "compile", "execute", "wait"} <= kinds, kinds


def main():
    failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as tmp:
            try:
                test(pathlib.Path(tmp))
                print(f"ok {name} {time.monotonic() - start:.1f} s", flush=True)
            except Exception:
                failed += 1
                import traceback
                print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    if XLA is None:
        print("left out: replay on XLA's plugin, which is not installed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
