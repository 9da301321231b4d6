"""Backplane: PJRT plugins for JAX and other hosts, and the command `backplane`.

JAX finds the installed plugins by itself: `jax.devices("backplane")` are the devices of the CPU plugin, and
`jax.devices("backplane_reference")` those of the reference plugin, in addition to JAX's own. With JAX_PLATFORMS=tiledtpu programs
run on the emulator of a tiled TPU. Linear algebra and callbacks into Python work without further code.

    import backplane
    backplane.plugin_path("cpu")                 # the shared library, for hosts other than JAX
    backplane.command_path()                     # the program behind the command `backplane`
    backplane.register(path, name="mine")        # another plugin for JAX, with linear algebra and callbacks
    backplane.register_handler("my_target", capsule_or_address)     # a custom call for programs on our plugins

Importing this module does not import JAX; `register`, `equip` and `register_handler` do.
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
    """Returns the plugins of this package, from name to path, "cpu" first. Empty in a source tree, which contains none."""
    found = {p.stem.removeprefix("pjrt_backplane_"): str(p) for p in sorted((_HERE / "plugins").glob("pjrt_backplane_*.so"))}
    return dict(sorted(found.items(), key=lambda item: item[0] != "cpu"))


def plugin_path(name="cpu"):
    """Returns the path of one plugin's shared library. Raises KeyError if the package has no plugin of this name."""
    found = plugins()
    if name not in found:
        raise KeyError(f"no plugin '{name}' in {_HERE}; there are: {', '.join(found) or 'none'}")
    return found[name]


def manifests():
    """Returns the folder with the manifests of the plugins, for BACKPLANE_PLUGIN_PATH."""
    return str(_HERE / "plugins.d")


def command_path():
    """Returns the path of the program `backplane`. Raises FileNotFoundError in a source tree."""
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
