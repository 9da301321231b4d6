"""Registers a Backplane plugin with JAX, and adds the features that need Python.

    import backplane_jax
    backplane_jax.register("build/release/plugins/pjrt_backplane_cpu.so")           # JAX_PLATFORMS=backplane,cpu
    backplane_jax.register("...", name="cpu", options={"cpu_device_count": 4})      # replaces JAX's own CPU client

Without this package, PJRT_NAMES_AND_LIBRARY_PATHS=name:path is enough for every program without linear algebra from
LAPACK, without callbacks into Python and without custom_partitioning. This package adds these features: it registers
jaxlib's LAPACK handlers with the plugin's FFI extension, registers a trampoline through which the plugin calls Python, and
converts the programs of custom partitioners to a form that the plugin reads. It also copies arrays that come by DLPack and
cannot be used in place. If the package can be imported, JAX's discovery finds it (jax_plugins.backplane), and plugins from
PJRT_NAMES_AND_LIBRARY_PATHS get these features as well.

Call `register` before the first JAX computation. JAX's callbacks need a device of platform "cpu" in addition to the default
one: name the plugin "cpu", or keep JAX's own client with JAX_PLATFORMS=backplane,cpu.

The CPU and the reference plugin have as many devices as JAX is asked for, unless the options say a number:
`jax.config.update("jax_num_cpu_devices", 8)`, or XLA_FLAGS=--xla_force_host_platform_device_count=8.
"""
import collections.abc
import logging
import os
import re

from . import callbacks, dlpack, partitioning, pjrt, platforms, sinks

__all__ = ["register", "register_handler", "equip", "initialize"]

logger = logging.getLogger("backplane_jax")

_equipped = set()  # addresses of the tables of plugins that have these features


def _requested_cpu_devices():
    """Returns how many CPU devices JAX's configuration or XLA_FLAGS asks for, or None. Like JAX's own client, the configuration
    takes precedence."""
    import jax
    configured = getattr(jax.config, "jax_num_cpu_devices", -1)  # added in JAX 0.4.38
    if configured >= 1:
        return configured
    flags = re.findall(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return int(flags[-1]) if flags and int(flags[-1]) >= 1 else None


class _ClientOptions(collections.abc.Mapping):
    """The create options of a client. JAX reads them when it creates the client; the number of devices may be set until then."""

    def __init__(self, given):
        self.given = dict(given or {})
        self.table = None  # of the plugin, once JAX has loaded it

    def _values(self):
        devices = None
        if "cpu_device_count" not in self.given and self.table is not None and self.table.attribute("platform_name") == "cpu":
            devices = _requested_cpu_devices()
        return self.given if devices is None else {**self.given, "cpu_device_count": devices}

    def __getitem__(self, name):
        return self._values()[name]

    def __iter__(self):
        return iter(self._values())

    def __len__(self):
        return len(self._values())


def _register(name, priority, library_path, options=None):
    """Registers a plugin with JAX. Returns the plugin's C API capsule."""
    from jax._src import xla_bridge
    options = _ClientOptions(options)
    c_api = xla_bridge.register_plugin(name, priority=priority, library_path=library_path, options=options)
    table = pjrt.Table(c_api)
    if table.extension(pjrt.EXTENSION_BACKPLANE) is not None:  # one of ours, whose options are known
        options.table = table
    return c_api


def register(library_path, name="backplane", options=None):
    """Registers the plugin at `library_path` with JAX under `name`, and adds the features that need Python (`equip`). `options` are
    the create options of its client. Returns the plugin's C API capsule."""
    c_api = _register(name, 0 if name == "cpu" else 400, os.path.abspath(library_path), options)
    equip(c_api)
    partitioning.follow_jax()
    return c_api


def equip(c_api):
    """Adds the features that need Python to a plugin that JAX has loaded. Does nothing for plugins that are not ours.

    If a step fails, there is a warning and the feature of that step is missing; the platform still works.
    """
    table = pjrt.Table(c_api)
    if table.address in _equipped or table.extension(pjrt.EXTENSION_BACKPLANE) is None:
        return
    _equipped.add(table.address)
    platforms.adopt(table.attribute("platform_name"))
    for what, step in (("custom call targets", lambda: sinks.attach(table)),
                       ("jaxlib's stateless handlers", lambda: callbacks.forward(table)),
                       ("callbacks into Python", lambda: callbacks.install(table)),
                       ("errors for missing streams", callbacks.refuse_missing_streams),
                       ("copies of arrays that come by DLPack", dlpack.copy_where_jaxlib_cannot)):
        try:
            step()
        except Exception as e:
            logger.warning("%s: not available: %s", what, e)


def register_handler(name, handler, plugin=None, platform=None):
    """Registers a handler of XLA's typed FFI, an address or a capsule, under `name`. `plugin` is the result of `register`.
    Without it the handler is registered with each of our plugins that JAX has loaded; JAX loads plugins at its first
    computation or in `jax.devices()`. The handler is for programs of `platform`, by default the plugin's own. Raises
    RuntimeError if no plugin of ours is loaded."""
    address = handler if isinstance(handler, int) else pjrt.capsule_pointer(handler)
    tables = [pjrt.Table(plugin)] if plugin is not None else [pjrt.Table.at(a) for a in sorted(_equipped)]
    if not tables:
        raise RuntimeError("no plugin of ours is loaded: call jax.devices() or register() first")
    for table in tables:
        table.register_handler(name, address, platform and platform.encode())


# Name and priority in JAX of these plugins; _register_installed chooses those of the others.
_INSTALLED_AS = {"cpu": ("backplane", 400), "tpu_emulator": (platforms.TILED_TPU, -100), "hip": (platforms.HIP, -100)}

# These plugins are registered only if the user names their platform, so that other users need not wait until they are loaded.
_ON_REQUEST = ("tpu_emulator", "hip")


def _named_by_the_user():
    """Returns the platforms that PJRT_NAMES_AND_LIBRARY_PATHS defines. They take precedence over installed ones."""
    return {entry.split(":", 1)[0] for entry in os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS", "").split(",") if entry}


def _register_installed():
    """Registers the plugins of the same wheel. The CPU plugin becomes `backplane`, which JAX prefers to its own CPU client, and the
    reference plugin becomes `backplane_reference`, which is never the default. The TPU emulator becomes `tiledtpu` and the HIP
    plugin `hip`. They are registered only if the user names these platforms in JAX_PLATFORMS; otherwise they are loaded when a
    program asks for one of their topologies, to compile without hardware."""
    try:
        import backplane
    except ImportError:  # the package alone, from a source tree
        return
    import jax
    taken = _named_by_the_user()
    wanted = (jax.config.jax_platforms or "").split(",")
    for which, path in backplane.plugins().items():
        name, priority = _INSTALLED_AS.get(which, (f"backplane_{which}", -100))
        if name in taken:
            continue
        if which not in _ON_REQUEST or name in wanted:
            _register(name, priority, path)
        else:
            _offer_topologies(name, path)


def _offer_topologies(name, library_path):
    """Makes `jax.experimental.topologies.get_topology_desc(..., platform=name)` load the plugin. Its devices stay unknown to JAX."""
    from jax._src import xla_bridge
    from jaxlib import xla_client

    def make_topology(topology_name="", **options):
        if not loaded:
            loaded.append(xla_client.load_pjrt_plugin_dynamically(name, library_path))
            equip(loaded[0])
        return xla_client.make_c_api_device_topology(loaded[0], topology_name, **options)

    loaded = []
    xla_bridge._topology_factories[name] = make_topology


def initialize():
    """Called by JAX's plugin discovery. Registers the plugin in BACKPLANE_PLUGIN, or, if that is not set, the plugins that were
    installed with this package, and equips each of our plugins that JAX finds."""
    path = os.environ.get("BACKPLANE_PLUGIN")
    if path:
        register(path, os.environ.get("BACKPLANE_PLATFORM", "backplane"))
    else:
        _register_installed()
    from jax._src import xla_bridge
    xla_bridge.register_plugin_callbacks(equip)
    partitioning.follow_jax()
