"""Forwards jaxlib's custom-call targets and types to jaxlib's own CPU client and to our plugins.

jaxlib calls one function for each target or type that is registered for a platform. This module calls such a function a sink. Only
the first sink that is set for a platform is used. A plugin's `initialize()` runs before any client is created, so our sink is
usually the first one and must pass the targets on to jaxlib. If another sink was set before, ours replaces it and passes
everything on to it.
"""
import ctypes
import logging
import threading

from . import lapack, pjrt, untyped

logger = logging.getLogger("backplane_jax")

_lock = threading.RLock()
_tables = []   # the plugins that get every registration
_targets = []  # the registrations so far, for plugins that are registered later
_types = []
_call_sink = None  # the previous sink; without one, jaxlib's own registry
_type_sink = None
_installed = False

_TYPE_HANDLER = ("register_custom_type_handler", "register_custom_type_id_handler")  # the names from jaxlib 0.8 on and before
_TYPE_REGISTER = ("register_custom_type", "register_custom_type_id")


def _first(module, names):
    """Returns the module's attribute with the first of these names that it has; None if it has none, as before JAX 0.4.36."""
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


class _FfiTypeInfo(ctypes.Structure):  # XLA_FFI_TypeInfo
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def _give_target(table, name, fn, api_version):
    """Registers a target with the plugin, for the plugin's own platform. Whatever this platform is called, our plugins run these custom
    calls in host memory."""
    try:
        if api_version == 0:
            stages = {"execute": untyped.make_typed(name, pjrt.capsule_pointer(fn))}
        else:
            given = fn if isinstance(fn, dict) else {"execute": fn}
            stages = {k: pjrt.capsule_pointer(v) for k, v in given.items() if v is not None}
        if lapack.is_target(name):
            stages.setdefault("instantiate", lapack.initializer())
        table.register_bundle(name, stages)
    except pjrt.PluginError as e:
        logger.warning("custom call target %s is not available to the plugin: %s", name, e)


def _give_type(table, name, value):
    try:
        id_capsule = value["type_id"] if isinstance(value, dict) else value
        cell = ctypes.c_int64.from_address(pjrt.capsule_pointer(id_capsule))
        deleter = None
        if isinstance(value, dict) and value.get("type_info") is not None:
            deleter = _FfiTypeInfo.from_address(pjrt.capsule_pointer(value["type_info"])).deleter
        held = table.register_type(name, cell.value, deleter)
        if cell.value == 0:
            cell.value = held
    except pjrt.PluginError as e:
        logger.warning("custom call type %s is not available to the plugin: %s", name, e)


def _on_target(name, fn, platform, api_version, traits):
    from jaxlib import xla_client
    (_call_sink or xla_client._xla.register_custom_call_target)(name, fn, platform, api_version, traits)
    with _lock:
        _targets.append((name, fn, api_version))
        for table in _tables:
            _give_target(table, name, fn, api_version)


def _on_type(name, value):
    from jaxlib import xla_client
    (_type_sink or _first(xla_client._xla, _TYPE_REGISTER))(name, value)  # jaxlib's function is called first, because it may set the id
    with _lock:
        _types.append((name, value))
        for table in _tables:
            _give_type(table, name, value)


def attach(table):
    """Registers with `table` every CPU target and type that jaxlib or a user has registered or will register."""
    global _installed, _call_sink, _type_sink
    from jaxlib import xla_client
    with _lock:
        for name, value in _types:
            _give_type(table, name, value)
        for target in _targets:
            _give_target(table, *target)
        _tables.append(table)
        if not _installed:
            _installed = True
            handlers = getattr(xla_client, "_custom_type_id_handler", {})
            _type_sink = handlers.get("Host")
            _call_sink = xla_client._custom_callback_handler.get("Host")
            take_types = _first(xla_client, _TYPE_HANDLER)
            if _type_sink is not None:
                handlers["Host"] = _on_type
            elif take_types is not None:
                take_types("cpu", _on_type)
            if _call_sink is None:
                xla_client.register_custom_call_handler("cpu", _on_target)
            else:  # jaxlib has passed its own targets to the other sink already, so they are read from jaxlib again
                xla_client._custom_callback_handler["Host"] = _on_target
                for name, fn, api_version in lapack.targets():
                    _targets.append((name, fn, api_version))
                    for t in _tables:
                        _give_target(t, name, fn, api_version)
