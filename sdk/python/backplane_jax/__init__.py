"""Registers a Backplane plugin with JAX, with what the bare plugin cannot do without Python.

    import backplane_jax
    backplane_jax.register("build/release/plugins/pjrt_backplane_cpu.so")           # JAX_PLATFORMS=backplane,cpu
    backplane_jax.register("...", name="cpu", options={"cpu_device_count": 4})      # takes the place of JAX's own CPU client

The plain road, PJRT_NAMES_AND_LIBRARY_PATHS=name:path, needs none of this and serves every program without linear
algebra from LAPACK and without callbacks into Python. This package adds those two: it hands jaxlib's LAPACK handlers to
the plugin's FFI extension, and a trampoline through which the plugin calls Python. Where the package can be imported,
JAX's discovery finds it (jax_plugins.backplane) and plugins of the plain road get both as well.

Call `register` before the first JAX computation. JAX's callbacks ask for a device of platform "cpu" besides the default
one: name the plugin "cpu", or keep JAX's own with JAX_PLATFORMS=backplane,cpu.
"""
import logging
import os

from . import callbacks, pjrt, sinks

__all__ = ["register", "equip", "initialize"]

logger = logging.getLogger("backplane_jax")

_equipped = set()  # addresses of the tables of plugins that have everything


def register(library_path, name="backplane", options=None):
    """Makes the plugin at `library_path` known to JAX under `name`, and equips it; returns its C API capsule."""
    from jax._src import xla_bridge
    c_api = xla_bridge.register_plugin(name, priority=0 if name == "cpu" else 400, library_path=os.path.abspath(library_path),
                                       options=options or {})
    equip(c_api)
    return c_api


def equip(c_api):
    """Gives a plugin that JAX has loaded what it cannot do without Python; nothing for plugins that are not ours.

    Each step that fails costs one warning and the ability it would have brought, never the platform.
    """
    table = pjrt.Table(c_api)
    if table.address in _equipped or table.extension(pjrt.EXTENSION_BACKPLANE) is None:
        return
    _equipped.add(table.address)
    for what, step in (("custom call targets", lambda: sinks.attach(table)), ("LAPACK", _initialize_lapack),
                       ("jaxlib's stateless handlers", lambda: callbacks.forward(table)),
                       ("callbacks into Python", lambda: callbacks.install(table)),
                       ("errors for missing streams", callbacks.refuse_missing_streams)):
        try:
            step()
        except Exception as e:
            logger.warning("%s: not available: %s", what, e)


def _initialize_lapack():
    """Fetches LAPACK's functions from SciPy; a handler called before that would jump to address zero."""
    from jaxlib import lapack
    lapack._lapack.initialize()


def initialize():
    """What JAX's plugin discovery calls: registers the plugin that BACKPLANE_PLUGIN names, if it is set, and equips those
    of our plugins that JAX finds by itself."""
    from jax._src import xla_bridge
    path = os.environ.get("BACKPLANE_PLUGIN")
    if path:
        register(path, os.environ.get("BACKPLANE_PLATFORM", "backplane"))
    xla_bridge.register_plugin_callbacks(equip)
