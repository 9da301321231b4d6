"""Functions of the old form behind a typed handler, called as a plugin calls it: through a frame in memory."""
import ctypes

import numpy as np

from backplane_jax import untyped

FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Buffer(ctypes.Structure):  # XLA_FFI_Buffer
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("dtype", ctypes.c_int32),
                ("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("dims", ctypes.c_void_p)]


def buffers(arrays):
    """XLA_FFI_Args or XLA_FFI_Rets over these arrays, and what must stay alive with it; None is a token."""
    made = [Buffer(48, None, 11, None if a is None else a.ctypes.data, 0, None) for a in arrays]
    list_of = (ctypes.c_void_p * max(1, len(made)))(*(ctypes.addressof(b) for b in made))
    return untyped._Buffers(40, None, len(made), None, list_of), (made, list_of)


def call(address, operands, results, extension=None):
    """The text of the error that the handler returns, or None."""
    texts = []

    def error_create(args):
        texts.append(ctypes.string_at(ctypes.c_void_p.from_address(args + 16).value).decode())
        return 0x1000

    create = HANDLER(error_create)
    api = (ctypes.c_uint64 * 24)(192, 0, 24, 0, 3 << 32, 0, ctypes.cast(create, ctypes.c_void_p).value)
    args, keep_args = buffers(operands)
    rets, keep_rets = buffers(results)
    frame = untyped._Frame(168, extension, ctypes.addressof(api), None, 3, args, rets)
    returned = HANDLER(address)(ctypes.addressof(frame))
    assert (returned is None) == (not texts), (returned, texts)
    del keep_args, keep_rets
    return texts[0] if texts else None


def words(address, count):
    return (ctypes.c_void_p * count).from_address(address)


def floats(address):
    return (ctypes.c_float * 2).from_address(address)


@FUNCTION
def double(out, operands, _):
    source, target = floats(words(operands, 1)[0]), floats(out)
    target[0], target[1] = source[0] * 2, source[1] * 2


@FUNCTION
def both(out, operands, _):
    """Sum and difference; the first operand is a token."""
    token, a, b = words(operands, 3)
    assert token is None
    total, difference = words(out, 2)
    for i in range(2):
        floats(total)[i], floats(difference)[i] = floats(a)[i] + floats(b)[i], floats(a)[i] - floats(b)[i]


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def test_results_as_they_are_and_in_a_list():
    x, y = np.array([1, 2], np.float32), np.zeros(2, np.float32)
    made = untyped.make_typed("double", address(double))
    assert call(made, [x], [y]) is None and y.tolist() == [2, 4]
    assert untyped.make_typed("double", address(double)) == made, "one handler for one function"

    @FUNCTION
    def by_list(out, operands, status):
        double(words(out, 1)[0], operands, status)

    assert call(untyped.make_typed("by list", address(by_list), results_in_list=True), [y], [x]) is None and x.tolist() == [4, 8]
    total, difference = np.zeros(2, np.float32), np.zeros(2, np.float32)
    assert call(untyped.make_typed("both", address(both)), [None, x, y], [total, difference]) is None
    assert total.tolist() == [6, 12] and difference.tolist() == [2, 4]


def test_failures_of_either_standard_library():
    text = ctypes.create_string_buffer(b"a text that is longer than a string keeps within itself")
    place, size = ctypes.addressof(text), len(text.value)
    short = b"seven .".ljust(16, b"\0")
    cases = {
        "libstdc++, long": lambda m: words(m, 5).__setitem__(slice(0, 5), [place, size, 99, 0, 1]),
        "libc++, long": lambda m: words(m, 4).__setitem__(slice(0, 4), [99, size, place, 1]),
        "libstdc++, short": lambda m: (words(m, 5).__setitem__(slice(0, 5), [m + 16, 7, 0, 0, 1]), ctypes.memmove(m + 16, short, 16)),
        "libc++, short": lambda m: (words(m, 4).__setitem__(slice(0, 4), [0, 0, 0, 1]), ctypes.memmove(m, bytes([14]) + b"seven .", 8)),
    }
    for name, write in cases.items():
        function = FUNCTION(lambda out, operands, status, write=write: write(status) and None)
        want = "seven ." if "short" in name else text.value.decode()
        assert call(untyped.make_typed(name, address(function)), [], []) == want, name


def test_tells_its_version():
    metadata = untyped._Metadata(56, 24, None, 7, 7, 7)
    extension = untyped._Extension(32, 1, None, ctypes.addressof(metadata))
    assert call(untyped.make_typed("double", address(double)), [], [], ctypes.addressof(extension)) is None
    assert (metadata.major, metadata.minor, metadata.traits) == (0, 0, 0)
