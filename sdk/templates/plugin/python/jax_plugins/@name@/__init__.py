"""What JAX's plugin discovery finds: registers @name@, so that JAX_PLATFORMS=@name@ runs on it."""
import pathlib

LIBRARY = pathlib.Path(__file__).parent / "@name@.so"


def initialize():
    from jax._src import xla_bridge
    # Where it stands among the platforms JAX chooses from by itself: behind its own CPU client, which has priority 0.
    xla_bridge.register_plugin("@name@", priority=-100, library_path=str(LIBRARY))
    # JAX donates arguments on the platforms of this list only; the plugin can.
    from jax._src.interpreters import mlir
    if "@name@" not in getattr(mlir, "_platforms_with_donation", ["@name@"]):
        mlir._platforms_with_donation.append("@name@")
