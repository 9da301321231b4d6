"""Starts JAX on a plugin in one process of several. The programs of this folder begin with `session.start()`."""
import argparse
import os


def start(describe=None):
    """Parses the arguments that run.py passes, registers the plugin and initializes jax.distributed. Returns them."""
    parser = argparse.ArgumentParser(description=describe)
    parser.add_argument("--plugin", help="none: JAX's own CPU client with Gloo")
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--devices", type=int, default=1, help="of each process")
    parser.add_argument("--port", type=int, default=0, help="of the coordinator")
    parser.add_argument("--coordinator", default="localhost", help="its address")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE, a create option of the plugin")
    parser.add_argument("--argument", action="append", default=[], help="NAME=VALUE, for the program")
    a = parser.parse_args()
    a.arguments = dict(x.split("=", 1) for x in a.argument)
    options = {n: int(v) if v.lstrip("-").isdigit() else v for n, v in (x.split("=", 1) for x in a.option)}
    if not a.plugin:
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={a.devices}"
    import jax
    from jax._src import xla_bridge
    if a.plugin:
        if "tpu_emulator" in a.plugin:
            options["topology"] = str(a.devices)
        else:
            options["cpu_device_count"] = a.devices
        xla_bridge.register_plugin("backplane", priority=500, library_path=os.path.abspath(a.plugin), options=options)
        jax.config.update("jax_platforms", "backplane")
    else:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if a.processes > 1:
        jax.distributed.initialize(f"{a.coordinator}:{a.port}", a.processes, a.process,
                                   heartbeat_timeout_seconds=int(a.arguments.get("heartbeat", 100)))
    return a


def replicated(mesh, value):
    """An array that every device has whole."""
    import jax
    import numpy as np
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    value = np.asarray(value)
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])


def sharded(mesh, value, *spec):
    import jax
    import numpy as np
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
    value = np.asarray(value)
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])
