"""Measures collectives over all devices. Prints the smallest and the median time of a call for each size, and
the mean processor time of a call in this process, which depends less on what else the machine does."""
import resource
import time

import session

a = session.start(__doc__)
import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

n = len(jax.devices())
mesh = Mesh(np.array(jax.devices()), ("x",))
OPERATIONS = {
    "all-reduce": (lambda v: lax.psum(v, "x"), 1),
    "reduce-scatter": (lambda v: lax.psum_scatter(v, "x", tiled=True), 1),
    "all-gather": (lambda v: lax.all_gather(v, "x", tiled=True), n),
    "all-to-all": (lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True), 1),
}
for size in (int(s) for s in a.arguments.get("sizes", "1024,1048576,67108864").split(",")):
    for name, (body, divisor) in OPERATIONS.items():
        elements = max(size // 4 // divisor // n, 1) * n  # of one device: the size is that of the whole array
        x = session.sharded(mesh, np.ones(elements * n, np.float32), "x")
        f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
        f(x).block_until_ready()
        times, before = [], resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(int(a.arguments.get("repeat", 7 if size > 1 << 24 else 60))):
            start = time.perf_counter()
            f(x).block_until_ready()
            times.append(time.perf_counter() - start)
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = (used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime) / len(times)
        if a.process == 0:
            print(f"TIME {name} {size} min {min(times) * 1e6:.1f} median {sorted(times)[len(times) // 2] * 1e6:.1f} "
                  f"cpu {cpu * 1e6:.1f}", flush=True)
print("DONE", flush=True)
