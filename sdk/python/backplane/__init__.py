"""Backplane: PJRT plugins for JAX and other hosts, and the command `backplane`.

Installed, JAX finds the plugins by itself: `jax.devices("backplane")` is the CPU plugin, `jax.devices("backplane_reference")`
the reference plugin, both beside JAX's own. With JAX_PLATFORMS=tiledtpu programs run on the emulator of a tiled TPU. Linear
algebra and callbacks into Python work without a line of code.

    import backplane
    backplane.plugin_path("cpu")                 # the shared library, for hosts other than JAX
    backplane.command_path()                     # the program behind the command `backplane`
    backplane.register(path, name="mine")        # another plugin for JAX, with linear algebra and callbacks
    backplane.register_handler("my_target", capsule_or_address)     # a custom call for programs on our plugins

Nothing here imports JAX before it is needed.
"""
import pathlib

__all__ = ["__version__", "plugins", "plugin_path", "manifests", "command_path", "register", "equip", "register_handler"]

_HERE = pathlib.Path(__file__).resolve().parent


def _version():
    from importlib import metadata
    try:
        return metadata.version("backplane-pjrt")
    except metadata.PackageNotFoundError:  # used from a source tree
        return "0+source"


__version__ = _version()


def plugins():
    """The plugins of this package: path by name, "cpu" first. Empty in a source tree, which holds none."""
    found = {p.stem.removeprefix("pjrt_backplane_"): str(p) for p in sorted((_HERE / "plugins").glob("pjrt_backplane_*.so"))}
    return dict(sorted(found.items(), key=lambda item: item[0] != "cpu"))


def plugin_path(name="cpu"):
    """The path of one plugin's shared library."""
    found = plugins()
    if name not in found:
        raise KeyError(f"no plugin '{name}' in {_HERE}; there are: {', '.join(found) or 'none'}")
    return found[name]


def manifests():
    """The folder of manifests that names the plugins, for BACKPLANE_PLUGIN_PATH."""
    return str(_HERE / "plugins.d")


def command_path():
    """The path of the program `backplane`."""
    path = _HERE / "bin" / "backplane"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: not there; a source tree builds it elsewhere")
    return str(path)


def register(library_path, name="backplane", options=None):
    """Registers the plugin at `library_path` with JAX under `name`, with linear algebra and callbacks; see backplane_jax."""
    import backplane_jax
    return backplane_jax.register(library_path, name, options)


def equip(c_api):
    """Adds linear algebra and callbacks to a plugin that JAX has loaded. Does nothing for plugins that are not ours."""
    import backplane_jax
    return backplane_jax.equip(c_api)


def register_handler(name, handler, plugin=None, platform=None):
    """Registers a handler of XLA's typed FFI, so that programs can call it by `name` (jax.ffi.ffi_call).

    `handler` is the address of the C function, or the capsule that jax.ffi.pycapsule makes. `plugin` is what
    `register` returned; without it the handler is registered with every plugin of ours that JAX has loaded.
    """
    import backplane_jax
    return backplane_jax.register_handler(name, handler, plugin, platform)
