"""Copies arrays between processes by jax.device_put, in a ring: process p sends to p + 1. Prints the values that have
arrived. With `how=kill` process 1 ends instead of sending, and process 0 prints the error."""
import os
import signal
import time

import session

a = session.start(__doc__)
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

TYPES = ("float32", "int8", "bfloat16", "int4", "bool", "complex64")
SHAPES = ((8,), (8, 128, 3), (512, 1024))  # the last ones are sent without a copy


def on(process):
    return NamedSharding(Mesh(np.array(jax.local_devices(process_index=process)), ("x",)), P("x"))


def send(host, source, target):
    shards = jax.device_put(host, on(source)) if a.process == source else jax.make_array_from_single_device_arrays(
        host.shape, on(source), [], dtype=host.dtype)
    return jax.device_put(shards, on(target))


if a.arguments.get("how") == "kill":
    host = np.ones((512, 1024), np.float32)
    for source in (1, 0):  # there and back, so that the first one has arrived
        x = send(host, source, 1 - source)
        if a.process != source:
            x.block_until_ready()
    if a.process == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        send(host, 1, 0).block_until_ready()
        print("NO ERROR", flush=True)
    except Exception as error:
        print("ERROR", " ".join(str(error).split()), flush=True)
    os._exit(0)

for name in TYPES:
    for shape in SHAPES:
        host = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(jnp.dtype(name))
        for source in range(a.processes):
            target = (source + 1) % a.processes
            # Another program follows at once: it waits for the array, and the processes keep the same order.
            arrived = send(host, source, target)
            if a.process == target:
                twice = jax.jit(lambda x: (x, x))(arrived)
                for y in (arrived, *twice):
                    assert (np.asarray(y) == host).all(), (name, shape, source)
        batch = jax.device_put([host[:8], host[:8]], [on(a.process)] * 2)
        assert all((np.asarray(x) == host[:8]).all() for x in batch)
        print("ARRIVED", name, *shape, flush=True)
print("DONE", flush=True)
