"""The JAX cases: what unmodified JAX does on a plugin, each with its value checked.

A case is a function under @case. It computes with JAX and checks against numpy by `close` or `same`; or, where numpy has
no counterpart, returns a dict of arrays that the harness compares with the same case on XLA's CPU plugin.
"""
import dataclasses
from typing import Callable

import numpy as np

CASES = {}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    function: Callable
    road: str     # how the plugin is made known to JAX, see worker.py: env, env4, env8, package, ...
    peer: bool    # returns a dict of arrays to be compared with XLA's plugin
    rtol: float
    atol: float
    only: str     # of these plugins alone, each named by a part of its file's name: "cpu|reference"; "" is of all


def case(function=None, *, road="env", peer=False, rtol=1e-5, atol=1e-5, only=""):
    """Registers a case under its function's name."""
    def register(f):
        if f.__name__ in CASES:
            raise ValueError(f"two cases are called {f.__name__}")
        CASES[f.__name__] = Case(f.__name__, f, road, peer, rtol, atol, only)
        return f
    return register(function) if function else register


def close(got, want, rtol=1e-5, atol=1e-5):
    """Values within the tolerance; shapes equal; dtypes are the caller's business."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    wide = np.complex128 if np.iscomplexobj(want) or np.iscomplexobj(got) else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol)


def same(got, want):
    """Equal values, shapes and dtypes."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, f"dtype {got.dtype}, expected {want.dtype}"
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    np.testing.assert_array_equal(got, want)


def rand(*shape, seed=0, dtype=np.float32, low=-1.0, high=1.0):
    """Uniform numbers, the same in every process."""
    return np.random.default_rng(seed + 17 * len(shape)).uniform(low, high, shape).astype(dtype)
