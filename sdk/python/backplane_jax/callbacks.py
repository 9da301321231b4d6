"""Callbacks into Python: the trampoline that a plugin calls, and jaxlib's handlers that need no state.

A callback reaches the plugin as a custom call with an index; the execution's context holds the Python callables. The
plugin is free of Python: it looks the callable up and calls one C function that this module makes with ctypes, which
takes the interpreter's lock in whatever thread it is called.
"""
import ctypes
import logging
import traceback

import ml_dtypes
import numpy as np

from . import pjrt

logger = logging.getLogger("backplane_jax")

# The extension of our own (api/backplane_c_api.h) through which the trampoline is set.
EXTENSION_BACKPLANE = 0x42504C4E
STATELESS = ("xla_buffer_python_cpu_callback", "dce_sink")

TOKEN = 17
_DTYPES = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32, 9: np.uint64,
    10: np.float16, 11: np.float32, 12: np.float64, 15: np.complex64, 16: ml_dtypes.bfloat16, 18: np.complex128,
    19: ml_dtypes.float8_e5m2, 20: ml_dtypes.float8_e4m3fn, 21: ml_dtypes.int4, 22: ml_dtypes.uint4,
    23: ml_dtypes.float8_e4m3b11fnuz, 24: ml_dtypes.float8_e5m2fnuz, 25: ml_dtypes.float8_e4m3fnuz, 26: ml_dtypes.int2,
    27: ml_dtypes.uint2, 28: ml_dtypes.float8_e4m3, 29: ml_dtypes.float8_e3m4, 32: ml_dtypes.float4_e2m1fn,
    33: ml_dtypes.float8_e8m0fnu,
}
_BITS = {21: 4, 22: 4, 26: 2, 27: 2, 32: 4}  # packed in memory, the first element in the low bits


class Array(ctypes.Structure):
    """One operand or result as the plugin hands it over: dense, row-major; a token has no data."""
    _fields_ = [("dtype", ctypes.c_int32), ("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("dims", ctypes.POINTER(ctypes.c_int64))]

    def shape(self):
        return tuple(self.dims[i] for i in range(self.rank))

    def bytes_view(self, count):
        return np.frombuffer((ctypes.c_uint8 * count).from_address(self.data), np.uint8) if count else np.zeros(0, np.uint8)

    def read(self):
        """A read-only copy; None for a token."""
        if self.dtype == TOKEN:
            return None
        dtype, shape = np.dtype(_DTYPES[self.dtype]), self.shape()
        count = int(np.prod(shape, dtype=np.int64))
        bits = _BITS.get(self.dtype)
        if bits:
            per = 8 // bits
            packed = self.bytes_view(-(-count // per))
            parts = (packed[:, None] >> (np.arange(per, dtype=np.uint8) * bits)) & ((1 << bits) - 1)
            out = parts.reshape(-1)[:count].astype(np.uint8)
            if dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.int2)):
                out = ((out.astype(np.int8) << (8 - bits)) >> (8 - bits)).astype(dtype)
            elif dtype == np.dtype(ml_dtypes.float4_e2m1fn):
                out = out.view(dtype)
            else:
                out = out.astype(dtype)
            out = out.reshape(shape)
        else:
            out = self.bytes_view(count * dtype.itemsize).view(dtype).reshape(shape).copy()
        out.flags.writeable = False
        return out

    def write(self, value):
        """Stores `value` in the result's memory; its shape and type must be the result's."""
        if self.dtype == TOKEN:
            return
        dtype, shape = np.dtype(_DTYPES[self.dtype]), self.shape()
        value = np.asarray(value)
        if value.shape != shape or value.dtype != dtype:
            raise ValueError(f"callback returned {value.dtype}{list(value.shape)}, expected {dtype}{list(shape)}")
        count = int(np.prod(shape, dtype=np.int64))
        bits = _BITS.get(self.dtype)
        if bits:
            per = 8 // bits
            small = np.zeros(-(-count // per) * per, np.uint8)
            flat = np.ascontiguousarray(value).reshape(-1)
            raw = flat.view(np.uint8) if dtype == np.dtype(ml_dtypes.float4_e2m1fn) else flat.astype(np.int8).view(np.uint8)
            small[:count] = raw & ((1 << bits) - 1)
            shifted = small.reshape(-1, per) << (np.arange(per, dtype=np.uint8) * bits)
            self.bytes_view(len(small) // per)[...] = np.bitwise_or.reduce(shifted, axis=1)
        elif count:
            self.bytes_view(count * dtype.itemsize).view(dtype).reshape(shape)[...] = value


TRAMPOLINE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_int64, ctypes.POINTER(Array), ctypes.c_int64,
                              ctypes.POINTER(Array), ctypes.POINTER(ctypes.c_char), ctypes.c_int64)


def _call(function, num_args, args, num_results, results, error, error_size):
    """Reads the arguments, calls, stores the results. 0, or 1 with a text in `error`."""
    try:
        values = function(*(args[i].read() for i in range(num_args)))
        values = (values,) if not isinstance(values, (tuple, list)) else values
        if len(values) != num_results:
            raise ValueError(f"callback returned {len(values)} results, expected {num_results}")
        for i, value in enumerate(values):
            results[i].write(value)
        return 0
    except BaseException:
        text = ("CpuCallback error calling callback: " + traceback.format_exc()).encode(errors="replace")[:error_size - 1]
        ctypes.memmove(error, text + b"\0", len(text) + 1)
        return 1


_trampoline = TRAMPOLINE(_call)  # for ever: the plugin keeps its address


def forward(table):
    """Hands over jaxlib's own handlers that keep no state."""
    from jaxlib import xla_client
    targets = xla_client._xla.custom_call_targets("Host")
    for name in STATELESS:
        handler = targets.get(name)
        if handler is None:
            raise RuntimeError(f"jaxlib has no handler {name!r}")
        table.register_handler(name, pjrt.capsule_pointer(handler["execute"] if isinstance(handler, dict) else handler))


class _SetTrampolineArgs(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("trampoline", ctypes.c_void_p)]


def install(table):
    """Gives the plugin the trampoline, through its extension of our own."""
    extension = table.extension(EXTENSION_BACKPLANE)
    if extension is None:
        raise RuntimeError("the plugin has no extension for Python callbacks")
    table.call(extension, 24, _SetTrampolineArgs(ctypes.sizeof(_SetTrampolineArgs), None, ctypes.cast(_trampoline, ctypes.c_void_p).value))
