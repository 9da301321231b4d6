"""Callbacks into Python: the trampoline that a plugin calls, and those of jaxlib's handlers that need no state.

For the plugin, a callback is a custom call with an index; the execution's context contains the Python callables. The plugin
itself contains no Python: it looks up the callable and calls a C function that this module creates with ctypes. The function
acquires the interpreter's lock in the thread in which it is called.
"""
import atexit
import ctypes
import logging
import threading
import time
import traceback

import ml_dtypes
import numpy as np

from . import pjrt, untyped

logger = logging.getLogger("backplane_jax")

STATELESS = ("xla_buffer_python_cpu_callback", "dce_sink")
# JAX up to 0.5.3 calls Python through an untyped function. Its first operand identifies the callable.
UNTYPED = "xla_python_cpu_callback"

TOKEN = 17
# Numpy types by their numbers in XLA_FFI_DataType. An old version of ml_dtypes lacks some of them, but then JAX lacks them too.
_DTYPES = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32, 9: np.uint64,
    10: np.float16, 11: np.float32, 12: np.float64, 15: np.complex64, 18: np.complex128,
} | {code: getattr(ml_dtypes, name) for code, name in {
    16: "bfloat16", 19: "float8_e5m2", 20: "float8_e4m3fn", 21: "int4", 22: "uint4", 23: "float8_e4m3b11fnuz",
    24: "float8_e5m2fnuz", 25: "float8_e4m3fnuz", 26: "int2", 27: "uint2", 28: "float8_e4m3", 29: "float8_e3m4",
    32: "float4_e2m1fn", 33: "float8_e8m0fnu"}.items() if hasattr(ml_dtypes, name)}


class Array(ctypes.Structure):
    """Backplane_Callback_Arg: a dense array, last dimension fastest, with at least one byte per element. A token has no data."""
    _fields_ = [("dtype", ctypes.c_int32), ("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("dims", ctypes.POINTER(ctypes.c_int64))]

    def shape(self):
        return tuple(self.dims[i] for i in range(self.rank))

    def view(self):
        """Returns a numpy array that refers to the memory."""
        dtype, shape = np.dtype(_DTYPES[self.dtype]), self.shape()
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = (ctypes.c_uint8 * count).from_address(self.data) if count else b""
        return np.frombuffer(memory, np.uint8).view(dtype).reshape(shape)

    def read(self):
        """Returns a read-only copy, because the plugin reuses its buffers. Returns None for a token."""
        if self.dtype == TOKEN:
            return None
        out = self.view().copy()
        out.flags.writeable = False
        return out

    def write(self, value):
        """Stores `value` in the memory of this result. Raises ValueError if its shape or type differs from the result's."""
        if self.dtype == TOKEN:
            return
        dtype, shape = np.dtype(_DTYPES[self.dtype]), self.shape()
        value = np.asarray(value)
        if value.shape != shape or value.dtype != dtype:
            raise ValueError(f"callback returned {value.dtype}{list(value.shape)}, expected {dtype}{list(shape)}")
        if value.size:
            self.view()[...] = value


_MAX_ENDING_SECONDS = 10  # for callbacks that run when the interpreter ends

_lock = threading.Lock()
_running = 0  # the callbacks that run
_is_ending = False
_removals = []  # functions that remove the trampoline from a plugin

TRAMPOLINE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_int64, ctypes.POINTER(Array), ctypes.c_int64,
                              ctypes.POINTER(Array), ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)


def _call(function, num_args, args, num_results, results, error, error_size):
    """Reads the arguments, calls `function` and stores the results. Returns 0, or 1 with a message in `error` if it failed."""
    global _running
    with _lock:
        _running += 1
    try:
        if _is_ending:
            raise RuntimeError("the interpreter is ending")
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
    finally:
        with _lock:
            _running -= 1


_trampoline = TRAMPOLINE(_call)  # never destroyed, because the plugin keeps its address


def forward(table):
    """Registers those of jaxlib's own handlers that keep no state with the plugin. If a version of jaxlib lacks one of them, no program
    of this version calls it."""
    from jaxlib import xla_client
    targets = xla_client._xla.custom_call_targets("Host")
    for name in STATELESS:
        if name in targets:
            handler = targets[name]
            table.register_handler(name, pjrt.capsule_pointer(handler["execute"] if isinstance(handler, dict) else handler))
    if UNTYPED in targets:
        table.register_handler(UNTYPED, untyped.make_typed(UNTYPED, pjrt.capsule_pointer(targets[UNTYPED]), results_in_list=True))


def refuse_missing_streams():
    """Makes `ctx.stream` of a buffer callback raise an error if there is no stream, as on a CPU.

    The plugin cannot return this error, because jaxlib reads any error object as if jaxlib itself had created it.
    """
    try:
        from jax._src import buffer_callback
    except ImportError:  # before JAX 0.6 there are no buffer callbacks
        return
    from jax.errors import JaxRuntimeError
    context = buffer_callback.ExecutionContext
    plain = context.__dict__["stream"]
    if getattr(plain.fget, "refuses_missing", False):
        return

    def stream(self):
        value = plain.__get__(self)
        if not value:
            raise JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available")
        return value

    stream.refuses_missing = True
    context.stream = property(stream, doc=plain.__doc__)


class _SetTrampolineArgs(ctypes.Structure):  # Backplane_SetCallbackTrampoline_Args
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("trampoline", ctypes.c_void_p),
                ("user_data_type_id", ctypes.c_int64)]


def install(table):
    """Passes the trampoline to the plugin, through Backplane's extension."""
    extension = table.extension(pjrt.EXTENSION_BACKPLANE)
    if extension is None:
        raise RuntimeError("the plugin has no extension for Python callbacks")
    address = ctypes.cast(_trampoline, ctypes.c_void_p).value
    type_id = user_data_type_id()
    table.call(extension, 24, _SetTrampolineArgs(ctypes.sizeof(_SetTrampolineArgs), None, address, type_id))
    if not _removals:
        atexit.register(_end)
    _removals.append(lambda: table.call(extension, 24, _SetTrampolineArgs(ctypes.sizeof(_SetTrampolineArgs), None, None, type_id)))


def _end():
    """Ends all callbacks while the interpreter still runs. A thread that asks for its lock later is ended by Python, wherever it is, which
    may end the process. Programs that call Python from now on fail."""
    global _is_ending
    try:
        import jax
        jax.effects_barrier()  # JAX waits for effects at exit, too
    except Exception:
        pass  # JAX reports it
    _is_ending = True
    for remove in _removals:
        remove()
    # Threads that have begun a call wait for the lock, which this thread releases while it sleeps.
    end = time.monotonic() + _MAX_ENDING_SECONDS
    quiet = 0
    while quiet < 5 and time.monotonic() < end:
        time.sleep(0.002)
        quiet = quiet + 1 if _running == 0 else 0


# ---- The type under which JAX adds its callables to an execute context ----------------------------------------------
# jaxlib does not publish the id of this type. But its stateless handler requests data of this type. So we call the handler once,
# in a frame with functions of ours, which store the requested id and return an error.

_FFI_CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class _Attrs(ctypes.Structure):  # XLA_FFI_Attrs
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("size", ctypes.c_int64),
                ("types", ctypes.POINTER(ctypes.c_int32)), ("names", ctypes.POINTER(ctypes.c_void_p)), ("attrs", ctypes.POINTER(ctypes.c_void_p))]


class _Buffers(ctypes.Structure):  # XLA_FFI_Args, XLA_FFI_Rets
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("size", ctypes.c_int64),
                ("types", ctypes.c_void_p), ("buffers", ctypes.c_void_p)]


class _Frame(ctypes.Structure):  # XLA_FFI_CallFrame
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("api", ctypes.c_void_p),
                ("ctx", ctypes.c_void_p), ("stage", ctypes.c_int32), ("args", _Buffers), ("rets", _Buffers), ("attrs", _Attrs),
                ("future", ctypes.c_void_p)]
    SIZE = 168


class _Span(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_char_p), ("len", ctypes.c_size_t)]


class _Scalar(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("value", ctypes.c_void_p)]


def user_data_type_id():
    """Returns the id, or 0 if jaxlib has no such handler or the handler requests no data."""
    from jaxlib import xla_client
    handler = xla_client._xla.custom_call_targets("Host").get(STATELESS[0])
    if handler is None:
        return 0
    handler = handler["execute"] if isinstance(handler, dict) else handler
    noted, messages = [], []

    def nothing(_):
        return None

    def error_create(args):
        messages.append(ctypes.create_string_buffer(ctypes.string_at(ctypes.c_void_p.from_address(args + 16).value)))
        return ctypes.addressof(messages[-1])  # an error is the address of its text

    def error_message(args):
        ctypes.c_void_p.from_address(args + 24).value = ctypes.c_void_p.from_address(args + 16).value

    def context_get(args):
        noted.append(ctypes.c_int64.from_address(ctypes.c_void_p.from_address(args + 24).value).value)
        messages.append(ctypes.create_string_buffer(b"no user data"))
        return ctypes.addressof(messages[-1])

    # The function table contains its size, the extension chain, the version {24 bytes: size, chain, 0, 3}, an internal pointer, and
    # then eighteen functions.
    functions = [_FFI_CALL(f) for f in (error_create, error_message, nothing, nothing, nothing, nothing, context_get)]
    functions += [_FFI_CALL(nothing)] * 11
    api = (ctypes.c_uint64 * 24)(192, 0, 24, 0, 3 << 32, 0, *(ctypes.cast(f, ctypes.c_void_p).value for f in functions))
    index = ctypes.c_uint64(0)
    scalar, name = _Scalar(9, ctypes.addressof(index)), _Span(b"index", 5)
    attrs = _Attrs(48, None, 1, (ctypes.c_int32 * 1)(3), (ctypes.c_void_p * 1)(ctypes.addressof(name)), (ctypes.c_void_p * 1)(ctypes.addressof(scalar)))
    frame = _Frame(_Frame.SIZE, None, ctypes.addressof(api), None, 3, _Buffers(40), _Buffers(40), attrs, None)
    _FFI_CALL(pjrt.capsule_pointer(handler))(ctypes.addressof(frame))
    return noted[0] if noted else 0
