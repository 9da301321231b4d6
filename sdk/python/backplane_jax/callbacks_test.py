"""The trampoline as a plugin would call it: through its C type, with arrays in memory."""
import ctypes

import ml_dtypes
import numpy as np
import pytest

from backplane_jax import callbacks

CODES = {np.dtype(t): code for code, t in callbacks._DTYPES.items()}


class Held:
    """An Array over memory of its own: bytes as a plugin would lay them out."""

    def __init__(self, raw, code, shape):
        self.raw = (ctypes.c_uint8 * max(1, len(raw)))(*raw)
        self.dims = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.array = callbacks.Array(code, ctypes.addressof(self.raw), len(shape), self.dims)

    def bytes(self, count):
        return bytes(self.raw[:count])


def held(value):
    value = np.ascontiguousarray(value)
    return Held(value.tobytes(), CODES[value.dtype], value.shape)


def call(function, args, results, size=400):
    """Status and error text of one call through the C function pointer."""
    array = callbacks.Array * max(1, len(args))
    out = callbacks.Array * max(1, len(results))
    error = ctypes.create_string_buffer(size)
    a, r = array(*(h.array for h in args)), out(*(h.array for h in results))
    return callbacks._trampoline(function, len(args), a, len(results), r, error, size), error.value.decode()


@pytest.mark.parametrize("dtype", callbacks._DTYPES.values())
def test_round_trip(dtype):
    x = (np.arange(12).reshape(3, 4) % 2).astype(dtype)
    result = Held(bytes(x.nbytes), CODES[np.dtype(dtype)], (4, 3))
    assert call(lambda a: (a.T,), [held(x)], [result]) == (0, "")
    assert result.bytes(x.nbytes) == np.ascontiguousarray(x.T).tobytes()


def test_small_integers_keep_their_sign():
    """Types of less than a byte come one element to a byte."""
    seen = []
    result = Held(bytes(3), CODES[np.dtype(ml_dtypes.int4)], (3,))
    assert call(lambda a: (seen.append(a.astype(np.int32).tolist()), (a,))[1], [held(np.array([-8, 7, -1], ml_dtypes.int4))], [result]) == (0, "")
    assert seen == [[-8, 7, -1]]
    assert np.frombuffer(result.bytes(3), ml_dtypes.int4).astype(np.int32).tolist() == [-8, 7, -1]


def test_type_of_user_data():
    """jaxlib's handler asks for its callables by a type that is not zero, the same each time."""
    first = callbacks.user_data_type_id()
    assert first != 0 and callbacks.user_data_type_id() == first


def test_tokens_scalars_and_empty():
    token = callbacks.Array(callbacks.TOKEN, None, 0, None)
    scalar, empty = held(np.float32(2.5)), held(np.zeros((0, 3), np.float32))
    out = held(np.zeros((), np.float32))
    args, outs = (callbacks.Array * 3)(token, scalar.array, empty.array), (callbacks.Array * 2)(token, out.array)
    got = []
    error = ctypes.create_string_buffer(100)
    assert callbacks._trampoline(lambda *a: (got.extend(a), (None, a[1] * 2))[1], 3, args, 2, outs, error, 100) == 0
    assert got[0] is None and got[1] == 2.5 and got[2].shape == (0, 3)
    assert np.frombuffer(out.bytes(4), np.float32)[0] == 5


def test_arguments_are_copies():
    x, kept = held(np.ones(4, np.float32)), []
    assert call(lambda a: (kept.append(a), ())[1], [x], []) == (0, "")
    ctypes.memset(x.raw, 0, 16)
    assert kept[0].tolist() == [1, 1, 1, 1] and not kept[0].flags.writeable


def test_errors_are_told():
    x, out = held(np.ones(2, np.float32)), held(np.zeros(2, np.float32))

    def fails(a):
        raise KeyError("my own words")

    for function, text in ((fails, "my own words"), (lambda a: (a, a), "2 results, expected 1"), (lambda a: (a[:1],), "float32[1], expected float32[2]"),
                           (lambda a: (a.astype(np.float64),), "float64[2], expected float32[2]")):
        status, error = call(function, [x], [out], size=3000)
        assert status == 1 and error.startswith("CpuCallback error calling callback:") and text in error, error
    status, error = call(fails, [x], [out], size=20)
    assert status == 1 and len(error) == 19  # truncated to the size of the buffer, with its terminator
