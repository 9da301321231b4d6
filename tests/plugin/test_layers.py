"""The library of layers before each plugin: unmodified JAX and the kit see the plugin itself, and the layers see them."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from conftest import xla_plugin

# Trains with donated state, copies both ways, runs an error; prints what must not depend on any layer.
PROGRAM = """
import functools, sys
import jax, jax.numpy as jnp, numpy as np
@functools.partial(jax.jit, donate_argnums=0)
def step(w, x):
    loss, g = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    return w - 0.1 * g, loss
w, x = jnp.asarray(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)), jnp.ones((4, 8))
for _ in range(10):
    w, loss = step(w, x)
parts = [jax.device_put(np.arange(n, dtype=np.int32)) + 1 for n in range(5)]
print("result", float(loss), [int(p.sum()) for p in parts], np.asarray(w).tobytes().hex())
"""


def library_of(plugin):
    library = pathlib.Path(plugin).parent.parent / "layers" / "pjrt_backplane_layers.so"
    assert library.exists(), f"{library}: the target pjrt_backplane_layers makes it"
    return str(library)


def jax(names, program=PROGRAM, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PJRT_", "BACKPLANE_"))}
    env |= {"PJRT_NAMES_AND_LIBRARY_PATHS": ",".join(f"{n}:{p}" for n, p in names.items()), "JAX_PLATFORMS": ",".join(names),
            "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONFAULTHANDLER": "1"} | variables
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=170)


def behind(plugin, layers, **variables):
    return jax({"layered": library_of(plugin)}, BACKPLANE_LAYERS=layers, BACKPLANE_LAYERS_PLUGIN=plugin, **variables)


def result(r):
    assert r.returncode == 0, r.stdout + r.stderr[-3000:]
    return [line for line in r.stdout.splitlines() if line.startswith("result ")]


@pytest.fixture(scope="module")
def bare(plugin):
    found = result(jax({"bare": plugin}))
    assert len(found) == 1
    return found


def test_a_full_stack_changes_nothing_and_finds_nothing(plugin, bare, tmp_path):
    trace, findings = tmp_path / "trace.json", tmp_path / "findings.txt"
    r = behind(plugin, "trace,validate,fault", BACKPLANE_TRACE_FILE=str(trace), BACKPLANE_VALIDATE_FILE=str(findings),
               BACKPLANE_FAULT="event=late:1ms")
    assert result(r) == bare
    assert findings.read_text() == "validate: 0 findings, met 0 times\n"
    events = json.loads(trace.read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "b" and e["cat"] == "execution"]
    assert sum(e["name"].endswith("step") for e in spans) == 10, {e["name"] for e in spans}
    ends = {e["id"]: e["ts"] for e in events if e["ph"] == "e"}
    assert all(ends[e["id"]] >= e["ts"] for e in spans)
    calls = [e for e in events if e["ph"] == "X"]
    compiles = [e for e in calls if e["name"] == "Client_Compile"]
    assert compiles and all(e["args"]["bytes"] > 100 and e["args"]["program"] for e in compiles)
    assert {e["cat"] for e in events if e["ph"] == "b"} >= {"execution", "copy to device"}
    page = (tmp_path / "trace.html").read_text()
    assert "LoadedExecutable_Execute" in page and "http" not in page


def test_no_layer_is_the_plugin_itself(plugin, bare):
    assert result(behind(plugin, "")) == bare


def test_a_fault_reaches_python_and_the_process_goes_on(plugin, bare):
    program = """
import jax, numpy as np
f = jax.jit(lambda x: x * 2 + 1)
for _ in range(3):
    try:
        print("result", np.asarray(f(np.float32(3))))
    except Exception as e:
        print("result", type(e).__name__, str(e))
"""
    r = jax({"layered": library_of(plugin)}, program, BACKPLANE_LAYERS="fault", BACKPLANE_LAYERS_PLUGIN=plugin,
            BACKPLANE_FAULT="compile:1=RESOURCE_EXHAUSTED:no room here,execute:1=ABORTED:stopped")
    first, second, third = result(r)
    assert "RESOURCE_EXHAUSTED: no room here" in first
    assert "ABORTED: stopped" in second
    assert third == "result 7.0"


def test_misuse_by_a_host_is_found(plugin, tmp_path):
    """A host that speaks the C ABI itself, says a wrong size, and forgets the client it made."""
    findings = tmp_path / "findings.json"
    program = f"""
import ctypes
library = ctypes.CDLL({library_of(plugin)!r})
library.GetPjrtApi.restype = ctypes.POINTER(ctypes.c_uint64)
table = library.GetPjrtApi()
def call(slot, *words):
    args = (ctypes.c_uint64 * 16)(*words)
    return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(table[5 + slot])(args), args
assert call(3, 16)[0] is None  # PJRT_Plugin_Initialize
call(4, 8)  # PJRT_Plugin_Attributes has 32 bytes
error, args = call(10, 88)  # PJRT_Client_Create
assert error is None and args[8] != 0, list(args)
print("result done")
"""
    r = jax({}, program, BACKPLANE_LAYERS="validate", BACKPLANE_LAYERS_PLUGIN=plugin, BACKPLANE_VALIDATE_FILE="none",
            BACKPLANE_VALIDATE_JSON=str(findings))
    assert len(result(r)) == 1
    found = {(f["kind"], f["function"]) for f in json.loads(findings.read_text())["findings"]}
    assert {("wrong-struct-size", "PJRT_Plugin_Attributes"), ("leak", "the end")} <= found, findings.read_text()


def test_what_is_wrong_is_said_by_the_host(plugin):
    r = behind(plugin, "trace,nix")
    assert r.returncode != 0
    assert "BACKPLANE_LAYERS: no layer 'nix', expected one of fault, " in r.stderr
    r = jax({"layered": library_of(plugin)}, BACKPLANE_LAYERS="trace", BACKPLANE_LAYERS_PLUGIN=library_of(plugin))
    assert "is this library of layers itself" in r.stderr


def test_copies_of_the_library_before_two_plugins(plugin, bare, tmp_path):
    program = """
import jax, numpy as np
for name in ("one", "two"):
    device = jax.devices(name)[0]
    print("result", name, np.asarray(jax.jit(lambda x: x + 1)(jax.device_put(np.float32(1), device))))
"""
    names = {}
    for name, target in (("one", plugin), ("two", xla_plugin())):
        names[name] = str(tmp_path / f"{name}.so")
        shutil.copy(library_of(plugin), names[name])
        (tmp_path / f"{name}.json").write_text(json.dumps(
            {"plugin": target, "layers": [{"name": "trace", "file": str(tmp_path / f"trace_{name}.json"), "html": "none"}]}))
    assert result(jax(names, program)) == ["result one 2.0", "result two 2.0"]
    for name, target in (("one", plugin), ("two", xla_plugin())):
        trace = json.loads((tmp_path / f"trace_{name}.json").read_text())["traceEvents"]
        assert trace[0]["args"]["name"] == target
        assert any(e["name"] == "LoadedExecutable_Execute" for e in trace)


def verdicts(plugin, opened, report, **variables):
    """What the kit's two quickest suites say of each check."""
    conform = pathlib.Path(plugin).parent.parent / "conformance" / "conform"
    env = {k: v for k, v in os.environ.items() if not k.startswith("BACKPLANE_")} | variables
    r = subprocess.run([conform, opened, "--quiet", "--suite", "abi,events", "--slow", "4", "--json", report], env=env,
                       capture_output=True, text=True, timeout=300)
    assert report.exists(), r.stdout[-2000:] + r.stderr[-2000:]
    results = {c["id"]: c["result"] for c in json.loads(report.read_text())["checks"]}
    assert len(results) > 25
    return results


def test_the_kit_judges_the_layered_plugin_as_the_bare_one(plugin, tmp_path):
    want = verdicts(plugin, plugin, tmp_path / "bare.json")
    for name, layers in (("empty", ""), ("full", "trace,validate")):
        got = verdicts(plugin, library_of(plugin), tmp_path / f"{name}.json", BACKPLANE_LAYERS=layers, BACKPLANE_LAYERS_PLUGIN=plugin,
                       BACKPLANE_TRACE_FILE="none", BACKPLANE_TRACE_HTML="none", BACKPLANE_VALIDATE_FILE="none")
        assert got == want, name
