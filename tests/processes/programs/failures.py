"""Process 1 does something wrong; process 0 prints the error that it gets. `how`: "other" runs another program, "kill"
ends the process at once, "size" has another size in its program, "operands" exchanges the operands of an operation,
"stay" does not run the program. With "memory" its client has not enough memory for a larger program."""
import os
import signal
import time

import session

a = session.start(__doc__)
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

how = a.arguments["how"]
mesh = Mesh(np.array(jax.devices()), ("x",))
n = len(jax.devices())


def program(columns, scale, exchange=False):
    def all_reduce(v):
        w = jnp.sin(v)
        return lax.psum((w - v if exchange else v - w) * scale, "x")
    x = session.sharded(mesh, np.ones((n, columns), np.float32), "x")
    return jax.jit(jax.shard_map(all_reduce, mesh=mesh, in_specs=P("x"), out_specs=P("x"))), x


f, x = program(100, 1.0)
f(x).block_until_ready()
if how == "memory":
    f, x = program(1000000, 1.0)
if a.process == 1:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stay":
        time.sleep(12)
        os._exit(0)
    if how == "other":
        f, x = program(100, 2.0)
    if how == "operands":
        f, x = program(100, 1.0, exchange=True)
    if how == "size":
        f, x = program(200, 1.0)
try:
    for _ in range(3):
        f(x).block_until_ready()
    print("NO ERROR", flush=True)
except Exception as error:
    print("ERROR", " ".join(str(error).split()), flush=True)
time.sleep(2 if a.process == 0 else 0)
os._exit(0)  # without the barrier of jax.distributed
