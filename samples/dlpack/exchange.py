"""exchange.py BRIDGE.so PLUGIN.so [--torch]: arrays to and fro between a plugin's buffers and numpy, JAX and, if wanted, PyTorch,
in one process. Nothing is copied where memory allows: addresses are compared.
"""
import contextlib
import ctypes
import gc
import io
import sys
import threading
import warnings

import numpy as np

lib = ctypes.CDLL(sys.argv[1])
for name, result, arguments in (
        ("bridge_error", ctypes.c_char_p, []),
        ("bridge_client", ctypes.c_void_p, [ctypes.c_char_p]),
        ("bridge_client_free", None, [ctypes.c_void_p]),
        ("bridge_square", ctypes.c_void_p, [ctypes.c_void_p] * 2),
        ("bridge_import", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]),
        ("bridge_export", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]),
        ("bridge_tensor_free", None, [ctypes.c_void_p, ctypes.c_int]),
        ("bridge_copied", ctypes.c_int, [ctypes.c_void_p]),
        ("bridge_reason", ctypes.c_char_p, [ctypes.c_void_p]),
        ("bridge_address", ctypes.c_size_t, [ctypes.c_void_p]),
        ("bridge_free", None, [ctypes.c_void_p])):
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments

python = ctypes.pythonapi
DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR]
python.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

NAMES = {0: b"dltensor", 1: b"dltensor_versioned"}
USED = {0: b"used_dltensor", 1: b"used_dltensor_versioned"}


# A destructor gets the bare pointer, because the object is being destroyed and must not be referenced again.
_bare = ctypes.PyDLL(None)
_bare.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_bare.PyCapsule_GetPointer.restype, _bare.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]


@DESTRUCTOR
def free_untaken(capsule):
    for versioned, name in NAMES.items():
        if _bare.PyCapsule_IsValid(capsule, name):
            lib.bridge_tensor_free(_bare.PyCapsule_GetPointer(capsule, name), versioned)


def check(pointer):
    if not pointer:
        raise RuntimeError(lib.bridge_error().decode())
    return pointer


class Buffer:
    """A buffer of the plugin; other frameworks use it by from_dlpack."""

    def __init__(self, held):
        self.held = check(held)

    def __del__(self):
        lib.bridge_free(self.held)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        versioned = int(max_version is not None and max_version[0] >= 1)
        tensor = check(lib.bridge_export(self.held, versioned, -1 if copy is None else int(copy)))
        return python.PyCapsule_New(tensor, NAMES[versioned], free_untaken)

    @property
    def copied(self):
        return bool(lib.bridge_copied(self.held))

    @property
    def reason(self):
        return lib.bridge_reason(self.held).decode()

    @property
    def address(self):
        return lib.bridge_address(self.held)


class Client:
    def __init__(self, plugin):
        self.client = check(lib.bridge_client(plugin.encode()))

    def __del__(self):
        lib.bridge_client_free(self.client)

    def from_dlpack(self, array, copy=None):
        try:
            capsule = array.__dlpack__(max_version=(1, 3))
        except TypeError:  # a producer of before 1.0
            capsule = array.__dlpack__()
        versioned = int(bool(python.PyCapsule_IsValid(capsule, NAMES[1])))
        tensor = python.PyCapsule_GetPointer(capsule, NAMES[versioned])
        held = check(lib.bridge_import(self.client, tensor, versioned, -1 if copy is None else int(copy)))
        python.PyCapsule_SetName(capsule, USED[versioned])  # ours now: its destructor leaves it alone
        return Buffer(held)

    def square(self, x):
        return Buffer(lib.bridge_square(self.client, x.held))


def aligned(shape, dtype, alignment=64):
    """A numpy array whose address is a multiple of `alignment`, or (if negative) is not."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 128, np.uint8)
    offset = -raw.ctypes.data % 64 + (8 if alignment < 0 else 0)
    return raw[offset:offset + size].view(dtype).reshape(shape)


def numpy_both_ways(client):
    a = aligned((4, 8), np.float32)
    a[:] = np.arange(32).reshape(4, 8)
    buffer = client.from_dlpack(a)
    assert not buffer.copied and buffer.address == a.ctypes.data, buffer.reason
    square = np.from_dlpack(client.square(buffer))
    np.testing.assert_array_equal(square, a * a)
    assert not square.flags.writeable  # a buffer is not to be written to
    back = np.from_dlpack(buffer)
    assert back.ctypes.data == a.ctypes.data
    del buffer
    gc.collect()
    np.testing.assert_array_equal(back, a)  # the view outlives the buffer object
    # A capsule that is not consumed releases the array, in both forms.
    references = sys.getrefcount(a)
    for version in ((1, 3), None):
        capsule = client.from_dlpack(a).__dlpack__(max_version=version)
        assert sys.getrefcount(a) > references
        del capsule
        assert sys.getrefcount(a) == references, version
    for odd, why in ((aligned((3,), np.float32, -1), "aligned"), (a[:, ::2], "densely"), (a[::-1], "densely")):
        buffer = client.from_dlpack(odd)
        assert buffer.copied and why in buffer.reason, buffer.reason
        np.testing.assert_array_equal(np.from_dlpack(buffer), odd)
    np.testing.assert_array_equal(np.from_dlpack(client.from_dlpack(a.T)), a.T)
    for dtype in (np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64, np.complex64, np.complex128):
        x = np.array([0, 1, 1, 0], dtype)
        y = np.from_dlpack(client.from_dlpack(x))
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(x, y)
    try:
        client.from_dlpack(aligned((3,), np.float32, -1), copy=False)
    except RuntimeError as error:
        assert "needs a copy" in str(error)
    else:
        raise AssertionError("a copy was made though none was wanted")


def jax_both_ways(client):
    import jax
    import jax.numpy as jnp
    x = jnp.arange(24, dtype=jnp.float32).reshape(2, 3, 4)
    buffer = client.from_dlpack(x)
    assert not buffer.copied and buffer.address == x.unsafe_buffer_pointer(), buffer.reason
    square = jax.dlpack.from_dlpack(client.square(buffer))
    np.testing.assert_array_equal(square, x * x)
    # Through both: JAX computes on what the plugin made.
    np.testing.assert_allclose(jnp.sum(square), np.sum(np.arange(24.0) ** 2))
    for dtype in (jnp.bfloat16, jnp.bool_, jnp.int8, jnp.float16):
        y = jnp.array([1, 0, 1], dtype)
        z = jax.dlpack.from_dlpack(client.from_dlpack(y))
        assert z.dtype == y.dtype
        np.testing.assert_array_equal(np.asarray(y, np.float32), np.asarray(z, np.float32))


def torch_both_ways(client):
    # Debian's PyTorch is outside of the virtual environment and was built with an older numpy, about which it warns; DLPack
    # does not depend on numpy.
    sys.path.append("/usr/lib/python3/dist-packages")
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        t = torch.arange(32, dtype=torch.float32).reshape(4, 8)
    buffer = client.from_dlpack(t)
    assert buffer.copied == (t.data_ptr() % 64 != 0), buffer.reason
    assert buffer.copied or buffer.address == t.data_ptr()
    square = torch.from_dlpack(client.square(buffer))
    assert torch.equal(square, t * t)
    assert torch.equal(torch.from_dlpack(client.from_dlpack(t.t())), t.t())
    assert torch.equal(torch.from_dlpack(client.from_dlpack(t.to(torch.bfloat16))), t.to(torch.bfloat16))
    # All three in a row, and back.
    import jax
    there = jax.dlpack.from_dlpack(client.from_dlpack(torch.from_dlpack(np.arange(4.0))))
    np.testing.assert_array_equal(there, np.arange(4.0))
    return torch.__version__


def threads(client):
    """Tensors made in one thread and dropped in another."""
    made, errors = [], []

    def work():
        try:
            for i in range(50):
                made.append(np.from_dlpack(client.square(client.from_dlpack(np.full(16, i, np.float32)))))
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not errors, errors
    assert len(made) == 200 and all(m[0] == m[15] for m in made)
    made.clear()


def main():
    import jax
    jax.config.update("jax_enable_x64", True)
    client = Client(sys.argv[2])
    numpy_both_ways(client)
    jax_both_ways(client)
    met = f"numpy {np.__version__}, JAX {jax.__version__}"
    if sys.argv[3:] == ["--torch"]:
        met += f", PyTorch {torch_both_ways(client)}"
    threads(client)
    print(f"{met}: both ways")


if __name__ == "__main__":
    main()
