"""The module that JAX's plugin discovery finds. It registers @name@, so that JAX_PLATFORMS=@name@ selects it."""
import pathlib

LIBRARY = pathlib.Path(__file__).parent / "@name@.so"


def initialize():
    from jax._src import xla_bridge
    # JAX's default platform is the one with the highest priority. JAX's own CPU client has priority 0, so @name@ is used only if
    # JAX_PLATFORMS or a program selects it.
    xla_bridge.register_plugin("@name@", priority=-100, library_path=str(LIBRARY))
    # JAX donates arguments only on the platforms in this list. The plugin supports donation.
    from jax._src.interpreters import mlir
    if "@name@" not in getattr(mlir, "_platforms_with_donation", ["@name@"]):
        mlir._platforms_with_donation.append("@name@")
