"""The handler that looks for LAPACK, called as a plugin calls it. tests/plugin/test_lapack.py runs a program with it."""
import ctypes

from backplane_jax import lapack, untyped


def test_errors_reach_the_host():
    def fail():
        raise ImportError("no SciPy")

    handler = untyped.make_handler("LAPACK", fail)
    texts = []
    create = untyped._HANDLER(lambda args: texts.append(ctypes.string_at(ctypes.c_void_p.from_address(args + 16).value)) or 0x1000)
    api = (ctypes.c_uint64 * 24)(192, 0, 24, 0, 3 << 32, 0, ctypes.cast(create, ctypes.c_void_p).value)
    frame = untyped._Frame(168, None, ctypes.addressof(api), None, 0)
    assert handler(ctypes.addressof(frame)) == 0x1000
    assert texts == [b"LAPACK: ImportError('no SciPy')"]


def test_targets_are_known():
    assert lapack.is_target("lapack_sgeqrf_ffi") and not lapack.is_target("xla_ffi_python_cpu_callback")
