"""Custom calls of the old form, `void f(void* out, const void** in, XlaCustomCallStatus*)`, as handlers of the typed FFI.

JAX up to 0.5.3 uses them for LAPACK and for callbacks into Python. The plugin supports typed handlers only, so this module
wraps each such function in one: it passes the addresses of the operands and results on, and returns the status as an error.
"""
import ctypes

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_ERROR_CREATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

_METADATA_EXTENSION = 1
_INTERNAL = 13  # XLA_FFI_Error_Code

_made = {}  # by address and form; entries are never removed, because the plugin keeps the addresses


class _Buffers(ctypes.Structure):  # XLA_FFI_Args, XLA_FFI_Rets
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("size", ctypes.c_int64),
                ("types", ctypes.c_void_p), ("buffers", ctypes.POINTER(ctypes.c_void_p))]

    def addresses(self):
        """Returns the address of each buffer's data, the fourth word of XLA_FFI_Buffer; None for a token."""
        found = [ctypes.c_void_p.from_address(self.buffers[i] + 24).value for i in range(self.size)]
        return (ctypes.c_void_p * max(1, len(found)))(*found)


class _Frame(ctypes.Structure):  # the beginning of XLA_FFI_CallFrame
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("api", ctypes.c_void_p),
                ("ctx", ctypes.c_void_p), ("stage", ctypes.c_int32), ("args", _Buffers), ("rets", _Buffers)]


class _Extension(ctypes.Structure):  # XLA_FFI_Extension_Base, and what XLA_FFI_Metadata_Extension adds
    _fields_ = [("struct_size", ctypes.c_size_t), ("type", ctypes.c_int32), ("next", ctypes.c_void_p), ("metadata", ctypes.c_void_p)]


class _Metadata(ctypes.Structure):  # XLA_FFI_Metadata
    _fields_ = [("struct_size", ctypes.c_size_t), ("version_size", ctypes.c_size_t), ("version_extension", ctypes.c_void_p),
                ("major", ctypes.c_int32), ("minor", ctypes.c_int32), ("traits", ctypes.c_uint32)]


class _ErrorArgs(ctypes.Structure):  # XLA_FFI_Error_Create_Args
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("message", ctypes.c_char_p), ("code", ctypes.c_int32)]


class Status:
    """The XlaCustomCallStatus that an untyped function sets. In jaxlib it is a std::optional<std::string>, which is empty for success."""

    def __init__(self):
        self.memory = (ctypes.c_uint64 * 8)()  # all zeros are an empty optional in libstdc++ and libc++

    def message(self):
        """Returns the error message, or None for success. A long message is never freed, because only jaxlib could free it."""
        raw = bytes(self.memory)
        if raw[32]:  # libstdc++: address, size, buffer for a short string; the flag follows the 32 bytes
            return ctypes.string_at(self.memory[0], self.memory[1])
        if raw[24]:  # libc++: 24 bytes; if the lowest bit of the first is set, they are capacity, size and address of a long text
            return ctypes.string_at(self.memory[2], self.memory[1]) if raw[0] & 1 else raw[1:1 + (raw[0] >> 1)]
        return None


def _describe(extension):
    """If a call only asks for the metadata of the handler, sets its FFI version, the first one, and returns True."""
    found = _Extension.from_address(extension)
    if found.type != _METADATA_EXTENSION:
        return False
    metadata = _Metadata.from_address(found.metadata)
    metadata.major, metadata.minor, metadata.traits = 0, 0, 0
    return True


def _fail(frame, text):
    args = _ErrorArgs(ctypes.sizeof(_ErrorArgs), None, text, _INTERNAL)
    return _ERROR_CREATE(ctypes.c_void_p.from_address(frame.api + 48).value)(ctypes.addressof(args))


def make_handler(name, function):
    """Returns a typed handler that calls `function()`, and whose error is the exception that it raises. The caller keeps the handler."""
    def handler(at):
        frame = _Frame.from_address(at)
        try:
            if not (frame.extension_start and _describe(frame.extension_start)):
                function()
            return None
        except BaseException as e:  # also when the user interrupts it
            return _fail(frame, f"{name}: {e!r}".encode())

    return _HANDLER(handler)


def make_typed(name, address, results_in_list=False):
    """Returns the address of a typed handler that calls the untyped function at `address`. The function gets the address of a single
    result directly, and a list of addresses for several results; with `results_in_list` it always gets a list."""
    key = (address, results_in_list)
    if key not in _made:
        function = _FUNCTION(address)

        def handler(at):
            frame = _Frame.from_address(at)
            try:
                if frame.extension_start and _describe(frame.extension_start):
                    return None
                operands, results, status = frame.args.addresses(), frame.rets.addresses(), Status()
                out = results[0] if frame.rets.size == 1 and not results_in_list else ctypes.addressof(results)
                function(out, ctypes.addressof(operands), ctypes.addressof(status.memory))
                text = status.message()
                return None if text is None else _fail(frame, text)
            except BaseException as e:
                return _fail(frame, f"custom call {name!r}: {e}".encode())

        _made[key] = (_HANDLER(handler), function)
    return ctypes.cast(_made[key][0], ctypes.c_void_p).value
