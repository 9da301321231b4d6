"""Compiles programs.py with XLA's CPU plugin and writes into a folder, for each program: NAME.given.hlo (what was
lowered), NAME.made.hlo (what XLA made of it), NAME.arguments (bytes), NAME.npz and NAME.types (what it computed).

    make_programs.py FOLDER                    writes all that
    make_programs.py FOLDER --run-exported     compiles and runs NAME.mlirbc instead and prints, as JSON, how results differ
"""
import importlib.util
import json
import os
import pathlib
import sys


def xla_plugin():
    spec = importlib.util.find_spec("lammps_jax_pjrt_cpu")
    return str(pathlib.Path(spec.origin).parent / "pjrt_c_api_cpu_plugin.so")


os.environ.update(PJRT_NAMES_AND_LIBRARY_PATHS=f"xla:{xla_plugin()}", JAX_PLATFORMS="xla,cpu", TF_CPP_MIN_LOG_LEVEL="3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
import programs  # noqa: E402
import test_programs  # noqa: E402


def make(folder):
    names = []
    for name, (function, arguments) in programs.PROGRAMS.items():
        lapack = name in test_programs.LAPACK
        with jax.default_device(jax.devices("cpu")[0] if lapack else jax.devices()[0]):
            jitted = function if hasattr(function, "lower") else jax.jit(function)
            lowered = jitted.lower(*arguments)
            compiled = lowered.compile()
            (folder / f"{name}.given.hlo").write_text(lowered.compiler_ir(dialect="hlo").as_hlo_text())
            (folder / f"{name}.made.hlo").write_text(compiled.as_text())
            leaves = jax.tree.leaves(arguments)
            (folder / f"{name}.arguments").write_bytes(b"".join(np.ascontiguousarray(x).tobytes() for x in leaves))
            results = [np.asarray(r) for r in jax.tree.leaves(compiled(*arguments))]
            np.savez(folder / f"{name}.npz", *[r if r.dtype.kind in "biufc" else r.view(f"u{r.itemsize}") for r in results])
            (folder / f"{name}.types").write_text(json.dumps([r.dtype.name for r in results]))
        names.append(name)
    (folder / "names.json").write_text(json.dumps(names))


def run_exported(folder):
    """Results of the artifacts on the same plugin, against those of the programs they were exported from."""
    from jax._src.lib import xla_client
    device = jax.devices()[0]
    client = device.client
    options = xla_client.CompileOptions()
    report = {}
    for name, (_, arguments) in programs.PROGRAMS.items():
        if name in test_programs.LAPACK or name in test_programs.ELIDED:
            continue
        try:
            program = (folder / f"{name}.mlirbc").read_bytes()
            executable = client.compile_and_load(program, xla_client.DeviceList((device,)), options)
            leaves = [jax.device_put(x, device) for x in jax.tree.leaves(arguments)]
            outputs = executable.execute_sharded(leaves).disassemble_into_single_device_arrays()
            (folder / f"{name}.xla").write_bytes(b"".join(np.ascontiguousarray(np.asarray(o[0])).tobytes() for o in outputs))
            report[name] = test_programs.compare(folder, name, f"{name}.xla")
        except Exception as e:
            report[name] = f"{type(e).__name__}: {str(e)[:300]}"
    print(json.dumps(report))


if __name__ == "__main__":
    (run_exported if "--run-exported" in sys.argv else make)(pathlib.Path(sys.argv[1]))
