"""Computes some steps and saves each by orbax, or goes on from the last one that was saved. Prints the bits of every
step. Arguments: folder, steps, async (1: orbax saves in the background), die (the step in which the last process
ends)."""
import hashlib
import os
import signal
import time

import session

a = session.start(__doc__)
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as orbax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("x",))
split, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
options = orbax.CheckpointManagerOptions(max_to_keep=3, enable_async_checkpointing=a.arguments.get("async") == "1")
manager = orbax.CheckpointManager(a.arguments["folder"], options=options)
step = jax.jit(lambda w, b: (w * 1.5 + jnp.sum(b), b + jnp.mean(w)), out_shardings=(split, whole))
state = {"w": session.sharded(mesh, np.arange(8 * 1000, dtype=np.float32).reshape(8, 1000), "x"),
         "b": session.replicated(mesh, np.ones(16, np.float32))}
first = 0
if manager.latest_step() is not None:
    like = {k: jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=v.sharding) for k, v in state.items()}
    state = manager.restore(manager.latest_step(), args=orbax.args.StandardRestore(like))
    first = manager.latest_step() + 1
    print(f"RESUMED at step {first}", flush=True)
try:
    for i in range(first, int(a.arguments["steps"])):
        state["w"], state["b"] = step(state["w"], state["b"])
        bits = b"".join(np.asarray(s.data).tobytes()
                        for _, v in sorted(state.items()) for s in v.addressable_shards)
        print(f"STEP {i} bits {hashlib.sha1(bits).hexdigest()}", flush=True)
        if i == int(a.arguments.get("die", -1)) and a.process == a.processes - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        manager.save(i, args=orbax.args.StandardSave(state))
    manager.wait_until_finished()
except Exception as error:
    print("ERROR", " ".join(str(error).split()), flush=True)
    time.sleep(3 if a.process == 0 else 1)  # when process 0 ends, jax.distributed ends the others
    os._exit(3)
print("DONE", flush=True)
