"""profiled.py PLUGIN.so FOLDER: JAX's profiler over a program on the plugin; prints the plugin's events of the trace, a line each."""
import os
import pathlib
import sys

os.environ.update(PJRT_NAMES_AND_LIBRARY_PATHS=f"plugged:{sys.argv[1]}", JAX_PLATFORMS="plugged")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


@jax.jit
def profiled_step(x, w):
    return jax.lax.fori_loop(0, 3, lambda i, v: jnp.sin(v) + 1, jnp.tanh(x @ w)).sum()


def main():
    x, w = jnp.ones((64, 32)), jnp.ones((32, 16))
    profiled_step(x, w).block_until_ready()
    for session in range(2):  # a second session begins anew
        with jax.profiler.trace(sys.argv[2] + str(session)):
            profiled_step(x, w).block_until_ready()
    (path,) = pathlib.Path(sys.argv[2] + "1").rglob("*.xplane.pb")
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
        if not plane.name.startswith("/device:CUSTOM:"):
            continue
        for line in plane.lines:
            for event in line.events:
                stats = dict(event.stats)
                print(plane.name, line.name, event.name, stats.get("hlo_module"), event.duration_ns, sep="|")


if __name__ == "__main__":
    main()
