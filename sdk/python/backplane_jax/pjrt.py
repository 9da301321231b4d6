"""The part of the PJRT C API that the Python side of a plugin needs: the extension chain, errors, registration of handlers.

Offsets are those of the C headers (api/). Every struct starts with its own size, so that each side recognizes an older or newer
version.
"""
import ctypes

EXTENSION_FFI = 5
EXTENSION_BACKPLANE = 0x42504C01  # api/backplane_c_api.h

_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def capsule_name(capsule):
    return _get_name(capsule)


def capsule_pointer(capsule):
    """Returns the address in a capsule, whatever the capsule's name is."""
    return _get_pointer(capsule, _get_name(capsule))


class PluginError(RuntimeError):
    """An error that the plugin returned, with the plugin's message."""


class _ExtensionBase(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("type", ctypes.c_int32), ("next", ctypes.c_void_p)]


class _ErrorArgs(ctypes.Structure):  # PJRT_Error_Message_Args; its first 24 bytes are PJRT_Error_Destroy_Args
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("error", ctypes.c_void_p),
                ("message", ctypes.c_void_p), ("message_size", ctypes.c_size_t)]


class _HandlerArgs(ctypes.Structure):  # PJRT_FFI_Register_Handler_Args
    _fields_ = [("struct_size", ctypes.c_size_t), ("target_name", ctypes.c_char_p), ("target_name_size", ctypes.c_size_t),
                ("handler", ctypes.c_void_p), ("platform_name", ctypes.c_char_p), ("platform_name_size", ctypes.c_size_t),
                ("traits", ctypes.c_uint32)]
    SIZE = 52


class _BundleArgs(ctypes.Structure):  # Backplane_RegisterHandlerBundle_Args
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("target_name", ctypes.c_char_p),
                ("target_name_size", ctypes.c_size_t), ("instantiate", ctypes.c_void_p), ("prepare", ctypes.c_void_p),
                ("initialize", ctypes.c_void_p), ("execute", ctypes.c_void_p)]


class _AttributesArgs(ctypes.Structure):  # PJRT_Plugin_Attributes_Args
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
                ("num_attributes", ctypes.c_size_t)]


class _NamedValue(ctypes.Structure):  # PJRT_NamedValue; its value is read as a string
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("name", ctypes.c_void_p),
                ("name_size", ctypes.c_size_t), ("type", ctypes.c_int32), ("value", ctypes.c_void_p), ("value_size", ctypes.c_size_t)]


class _TypeInfo(ctypes.Structure):  # PJRT_FFI_Type_Info
    _fields_ = [("deleter", ctypes.c_void_p), ("serialize", ctypes.c_void_p), ("deserialize", ctypes.c_void_p)]


class _TypeArgs(ctypes.Structure):  # PJRT_FFI_Type_Register_Args
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("type_name", ctypes.c_char_p),
                ("type_name_size", ctypes.c_size_t), ("type_id", ctypes.c_int64), ("type_info", ctypes.POINTER(_TypeInfo))]


def _bytes(name):
    return name if isinstance(name, bytes) else name.encode()


class Table:
    """A plugin's function table, from the `pjrt_c_api` capsule that JAX's register_plugin returns."""

    _ERROR_DESTROY, _ERROR_MESSAGE, _ATTRIBUTES = 40, 48, 72  # byte offsets of slots

    def __init__(self, c_api):
        self.address = capsule_pointer(c_api)
        self._keep = []  # objects that the plugin may read after a call has returned

    @classmethod
    def at(cls, address):
        """Returns the table at an address. The address stays valid, because plugins are not unloaded."""
        table = cls.__new__(cls)
        table.address, table._keep = address, []
        return table

    def _word(self, address):
        return ctypes.c_void_p.from_address(address).value

    def extension(self, kind):
        """Returns the address of the first extension of this type, or None."""
        at = self._word(self.address + 8)
        while at:
            base = _ExtensionBase.from_address(at)
            if base.type == kind:
                return at
            at = base.next
        return None

    def call(self, extension, offset, args):
        """Calls the function at `offset` of an extension, or of the table itself. Raises PluginError if it returns an error."""
        error = _CALL(self._word(extension + offset))(ctypes.addressof(args))
        if not error:
            return
        e = _ErrorArgs(ctypes.sizeof(_ErrorArgs), None, error, None, 0)
        _CALL(self._word(self.address + self._ERROR_MESSAGE))(ctypes.addressof(e))
        text = ctypes.string_at(e.message, e.message_size).decode(errors="replace") if e.message else "error without a message"
        d = _ErrorArgs(24, None, error, None, 0)
        _CALL(self._word(self.address + self._ERROR_DESTROY))(ctypes.addressof(d))
        raise PluginError(text)

    def attribute(self, name):
        """Returns the plugin's attribute of this name if it is a string, else None."""
        args = _AttributesArgs(ctypes.sizeof(_AttributesArgs), None, None, 0)
        self.call(self.address, self._ATTRIBUTES, args)
        at = args.attributes
        for _ in range(args.num_attributes):
            value = _NamedValue.from_address(at)
            if value.type == 0 and ctypes.string_at(value.name, value.name_size) == _bytes(name):
                return ctypes.string_at(value.value, value.value_size).decode()
            at += value.struct_size
        return None

    def _need(self, kind, what):
        at = self.extension(kind)
        if at is None:
            raise PluginError(f"the plugin has no extension of type {kind}, needed for {what}")
        return at

    def register_handler(self, name, pointer, platform=None, traits=0):
        """Registers an execute handler of the typed FFI under (name, platform), by default for the plugin's own platform."""
        name = _bytes(name)
        if platform is None:
            self.register_bundle(name, {"execute": pointer})
            return
        args = _HandlerArgs(_HandlerArgs.SIZE, name, len(name), pointer, platform, len(platform), int(traits))
        self.call(self._need(EXTENSION_FFI, name.decode()), 40, args)

    def register_bundle(self, name, stages):
        """Registers a handler with stages. `stages` is a dict of pointers with the keys instantiate, prepare, initialize and
        execute; only execute is required."""
        name = _bytes(name)
        args = _BundleArgs(ctypes.sizeof(_BundleArgs), None, name, len(name), stages.get("instantiate"), stages.get("prepare"),
                           stages.get("initialize"), stages["execute"])
        self.call(self._need(EXTENSION_BACKPLANE, name.decode()), 40, args)

    def register_type(self, name, type_id, deleter):
        """Registers a type by name. With `type_id` 0 the plugin assigns an id. Returns the id of the type."""
        name = _bytes(name)
        info = _TypeInfo(deleter, None, None)
        self._keep.append(info)
        args = _TypeArgs(ctypes.sizeof(_TypeArgs), None, name, len(name), type_id, ctypes.pointer(info))
        self.call(self._need(EXTENSION_FFI, name.decode()), 24, args)
        return args.type_id
