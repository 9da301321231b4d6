"""The hundred programs of programs.py on XLA's CPU plugin: the text of what XLA was given and of what it made of it reads
and prints the same again; what it was given means the same to our evaluator, and still does when it is exported.

    pytest --tool PATH        the program_tool of this build
"""
import json
import os
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
# Programs whose calls only a plugin can serve: text alone. XLA's plugin has no LAPACK, JAX's own CPU client makes these.
LAPACK = {"cholesky", "triangular_solve", "solve", "qr", "eigh", "svd", "determinant", "expm"}
# Large constants are left out of XLA's text, so it cannot be read.
ELIDED = {"constants", "large_constant"}
# What f32 and narrower floats may differ by: XLA approximates functions and orders sums as it likes.
TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float16": 2e-2, "bfloat16": 5e-2}


def tool(request):
    return str(pathlib.Path(request.config.getoption("--tool")).resolve())


def environment():
    own = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PJRT_"))}
    return own | {"PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="session")
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    made = subprocess.run([sys.executable, str(HERE / "make_programs.py"), str(folder)], env=environment(),
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-4000:]
    names = json.loads((folder / "names.json").read_text())
    jobs = []
    for name in names:
        for kind in ("given", "made"):
            jobs.append(["hlo-as-xla-" + kind, f"{name}.{kind}.hlo", f"{name}.{kind}.text"])
        jobs.append(["eval", f"{name}.given.hlo", f"{name}.eval", f"{name}.arguments"])
        jobs.append(["artifact:1.9.0", f"{name}.given.hlo", f"{name}.mlirbc"])
        jobs.append(["stablehlo", f"{name}.given.hlo", f"{name}.mlir"])
        jobs.append(["eval", f"{name}.mlirbc", f"{name}.bytecode.eval", f"{name}.arguments"])
        jobs.append(["eval", f"{name}.mlir", f"{name}.text.eval", f"{name}.arguments"])
    words = [w for job in jobs for w in (*job, "--")]
    answer = subprocess.run([tool(request), *words], cwd=folder, capture_output=True, text=True, timeout=300)
    lines = answer.stdout.splitlines()
    assert len(lines) == len(jobs), f"{len(lines)} answers to {len(jobs)} jobs; {answer.stderr[-2000:]}"
    return folder, names, {(job[0], job[1]): line for job, line in zip(jobs, lines)}


def test_there_are_a_hundred(run):
    _, names, _ = run
    assert len(names) >= 110


def failures(pairs):
    bad = [f"{name}: {why}" for name, why in pairs if why]
    assert not bad, "\n".join([f"{len(bad)} programs:"] + bad)


@pytest.mark.parametrize("kind", ["given", "made"])
def test_text_prints_identically(run, kind):
    folder, names, answers = run

    def check(name):
        answer = answers["hlo-as-xla-" + kind, f"{name}.{kind}.hlo"]
        if name in ELIDED:
            return "" if "left out" in answer else f"expected an elided constant, found {answer}"
        if answer != "ok":
            return answer
        theirs = (folder / f"{name}.{kind}.hlo").read_text().split()
        ours = (folder / f"{name}.{kind}.text").read_text().split()
        if theirs == ours:
            return ""
        at = next((i for i, (a, b) in enumerate(zip(theirs, ours)) if a != b), min(len(theirs), len(ours)))
        return f"XLA: {' '.join(theirs[max(0, at - 6):at + 6])}  ours: {' '.join(ours[max(0, at - 6):at + 6])}"
    failures((name, check(name)) for name in names)


def compare(folder, name, result):
    """Why the bytes of a result differ from what XLA computed; '' when they do not."""
    expected = np.load(folder / f"{name}.npz")
    data = (folder / result).read_bytes()
    types = json.loads((folder / f"{name}.types").read_text())
    for i, kind in enumerate(types):
        want = expected[f"arr_{i}"]
        size = want.nbytes
        dtype = np.dtype(getattr(ml_dtypes, kind, kind))
        found = np.frombuffer(data[:size], dtype).reshape(want.shape)
        want = want.view(dtype) if want.dtype != dtype else want
        data = data[size:]
        if dtype.kind in "biu":
            if not np.array_equal(found, want):
                return f"result {i}: {np.count_nonzero(found != want)} of {want.size} values differ"
            continue
        wide = np.complex128 if dtype.kind == "c" else np.float64
        a, b = found.astype(wide), want.astype(wide)
        bound = TOLERANCE.get(kind, 2e-4)
        if not np.allclose(a, b, rtol=bound, atol=bound, equal_nan=True):
            return f"result {i}: off by {np.nanmax(np.abs(a - b))}"
    return f"{len(data)} bytes left over" if data else ""


@pytest.mark.parametrize("source", ["{}.given.hlo", "{}.mlirbc", "{}.mlir"])
def test_values_are_xlas(run, source):
    folder, names, answers = run
    result = {"{}.given.hlo": "{}.eval", "{}.mlirbc": "{}.bytecode.eval", "{}.mlir": "{}.text.eval"}[source]

    def check(name):
        if name in ELIDED or name in LAPACK:
            return ""
        for key in (("artifact:1.9.0", f"{name}.given.hlo"), ("stablehlo", f"{name}.given.hlo"), ("eval", source.format(name))):
            if answers[key] != "ok":
                return f"{key[0]}: {answers[key]}"
        return compare(folder, name, result.format(name))
    failures((name, check(name)) for name in names)


def test_mlir_reads_what_is_exported(run):
    folder, names, answers = run
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo
    context = mlir.make_ir_context()

    def check(name):
        if name in ELIDED:
            return ""
        try:
            with context:
                stablehlo.deserialize_portable_artifact(context, (folder / f"{name}.mlirbc").read_bytes()).operation.verify()
                ir.Module.parse((folder / f"{name}.mlir").read_text()).operation.verify()
        except Exception as e:  # MLIR's own errors
            return str(e)[:500]
        return ""
    failures((name, check(name)) for name in names)


# What XLA and JAX printed for the tests of text, in every version MLIR has forms for.
VERSIONS = ("0.9.0", "0.12.0", "0.14.0", "1.0.0", "1.5.0", "1.9.0", "1.12.0", "1.14.0", "1.17.0")


def test_mlir_reads_every_form_and_version(request, tmp_path):
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo
    root = HERE.parent.parent / "core"
    files = sorted((root / "text/testdata").glob("*.hlo")) + sorted((root / "import/stablehlo/testdata").glob("*.pretty.mlir"))
    newest = tuple(int(n) for n in stablehlo.get_current_version().split("."))
    forms = ["stablehlo", "stablehlo-generic"]
    forms += ["artifact:" + v for v in VERSIONS if tuple(int(n) for n in v.split(".")) <= newest]
    jobs = [(form, file, tmp_path / f"{file.name}.{form}") for file in files for form in forms]
    words = [str(w) for job in jobs for w in (*job, "--")]
    answer = subprocess.run([tool(request), *words], capture_output=True, text=True, timeout=300)
    lines = answer.stdout.splitlines()
    assert len(lines) == len(jobs)
    context, bad, read = mlir.make_ir_context(), [], 0
    for (form, file, out), line in zip(jobs, lines):
        if line != "ok":
            if "has no form in version" not in line and "StableHLO has no random state" not in line:
                bad.append((f"{file.name} as {form}", line))
            continue
        try:
            with context:
                if form.startswith("artifact"):
                    module = stablehlo.deserialize_portable_artifact(context, out.read_bytes())
                else:
                    module = ir.Module.parse(out.read_text())
                module.operation.verify()
            read += 1
        except Exception as e:  # MLIR's own errors
            bad.append((f"{file.name} as {form}", str(e)[:500]))
    failures(bad)
    assert read >= 700


def test_xla_runs_what_is_exported(run):
    folder, _, _ = run
    ran = subprocess.run([sys.executable, str(HERE / "make_programs.py"), str(folder), "--run-exported"], env=environment(),
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-4000:]
    report = json.loads(ran.stdout.splitlines()[-1])
    assert len(report) >= 100
    failures(report.items())


def test_a_wrong_value_is_seen(run, tmp_path):
    folder, _, _ = run
    for name in ("integers", "matmul", "bfloat16", "compare"):
        for kind in ("npz", "types"):
            (tmp_path / f"{name}.{kind}").write_bytes((folder / f"{name}.{kind}").read_bytes())
        data = bytearray((folder / f"{name}.eval").read_bytes())
        (tmp_path / "right").write_bytes(data)
        assert compare(tmp_path, name, "right") == ""
        data[-1] ^= 0x41
        (tmp_path / "wrong").write_bytes(data)
        assert "result" in compare(tmp_path, name, "wrong")
