"""What a workload is, and the list of all of them.

A workload is a program that uses a public library the way its users do. It stands in a file of `workloads/` as a function
that builds the program's inputs and returns `step`, a function without arguments:

    @workload(library="optax", rtol=1e-4, why="100 steps of Adam, float32")
    def optax_adamw():
        import optax                    # libraries are imported in here, so that listing needs none of them
        ...
        return step                     # step() -> {"name": array}

`step` does the whole program and returns its results as a dict of arrays. Its first call traces, compiles and runs; later calls
find the compiled functions again and must give the same results, so it starts from the same inputs each time.
"""
import dataclasses
import importlib
import pathlib
from typing import Callable

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    library: str
    group: str         # the file it stands in
    build: Callable
    rtol: float        # floating results: |ours - oracle| <= rtol * (the leaf's largest value) + atol
    atol: float        # absolute, for leaves that are all rounding: residuals, gradients at an optimum
    why: str           # why this tolerance is right
    x64: bool
    devices: int
    environment: dict
    once: bool         # a second call would find other state on disk: it is called once only


_all = {}


def workload(library, why, rtol=1e-5, atol=None, x64=False, devices=1, environment=None, once=False):
    def register(build):
        name = build.__name__
        assert name not in _all, name
        group = build.__module__.rsplit(".", 1)[-1]
        _all[name] = Workload(name, library, group, build, rtol, (1e-11 if x64 else 1e-6) if atol is None else atol, why, x64, devices, environment or {}, once)
        return build
    return register


def load_all():
    """Every workload by name, in the order of files and lines. Imports no library."""
    for path in sorted((HERE / "workloads").glob("*.py")):
        importlib.import_module(f"workloads.{path.stem}")
    return dict(_all)
