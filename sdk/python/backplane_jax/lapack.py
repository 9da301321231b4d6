"""LAPACK for custom calls of jaxlib.

jaxlib's handlers call the functions of SciPy's LAPACK, and an address of zero until jaxlib has asked SciPy for them. JAX asks when it
lowers a function of linear algebra. A program may also come from a file. So a program that has such a custom call asks when it is
loaded, in the stage in which a handler is instantiated. Programs without one need not wait until SciPy is imported, which takes a
fifth of a second and 30 MB.
"""
import ctypes
import functools

from . import untyped


def targets():
    """Returns (name, capsule or stages, API version) for each of jaxlib's LAPACK functions; the version is 1 if it is typed."""
    from jaxlib import lapack
    if hasattr(lapack, "registrations"):
        return lapack.registrations()["cpu"]
    return [(name, fn, int(name.endswith("_ffi"))) for name, fn in lapack._lapack.registrations().items()]


@functools.lru_cache(maxsize=None)
def _names():
    return frozenset(name for name, _, _ in targets())


def is_target(name):
    return (name.decode() if isinstance(name, bytes) else name) in _names()


def _initialize():
    from jaxlib import lapack
    lapack._lapack.initialize()


@functools.lru_cache(maxsize=None)
def _handler():
    return untyped.make_handler("LAPACK", _initialize)


def initializer():
    """Returns the address of a handler of the typed FFI that makes jaxlib get LAPACK's functions from SciPy."""
    return ctypes.cast(_handler(), ctypes.c_void_p).value
