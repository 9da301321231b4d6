"""Runs collectives of every kind, in groups of several kinds, on arrays of several sizes. Prints one line for each local
shard of a result: the program, the device and a digest of the bits. One process with as many devices prints the same
lines, so the lines of all processes together can be compared with those."""
import hashlib

import session

a = session.start(__doc__)
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

devices = np.array(jax.devices())
n = len(devices)
mesh = Mesh(devices, ("x",))
grid = Mesh(devices.reshape(2, n // 2), ("a", "b"))
assert jax.process_index() == a.process and jax.process_count() == a.processes
assert len(jax.local_devices()) == a.devices and n == a.devices * a.processes


def value(rows, columns, dtype):
    """Values whose sum depends on its order."""
    x = np.sin(np.arange(rows * columns, dtype=np.float64) * 1.7).reshape(rows, columns) * 1000
    return jnp.asarray(x).astype(dtype) if dtype != jnp.int32 else x.astype(np.int32)


def show(name, out):
    for leaf, array in enumerate(jax.tree.leaves(out)):
        for shard in array.addressable_shards:
            bits = np.asarray(shard.data)
            digest = hashlib.sha256(np.ascontiguousarray(bits).tobytes()).hexdigest()[:16]
            print(f"RESULT {name}.{leaf} device {shard.device.id} {bits.dtype}{list(bits.shape)} {digest}", flush=True)


def run(name, body, x, spec=P("x"), out=P("x"), over=mesh):
    show(name, jax.jit(jax.shard_map(body, mesh=over, in_specs=spec, out_specs=out, check_vma=False))(x))


ring = [(i, (i + 1) % n) for i in range(n)]
pairs = [(i, n - 1 - i) for i in range(n // 2)]  # some devices receive nothing
odd = [list(range(0, n, 2)), list(range(1, n, 2))]
halves = [list(range(n // 2)), list(range(n // 2, n))]
sizes = [int(s) for s in a.arguments.get("sizes", "1,513,65536,300000").split(",")]
for columns in sizes:
    for dtype in (jnp.float32, jnp.bfloat16, jnp.int32):
        t = f"{np.dtype(dtype).name}[{columns}]"
        x = session.sharded(mesh, value(n, columns, dtype), "x")
        run(f"all-reduce {t}", lambda v: lax.psum(v, "x"), x)
        run(f"maximum {t}", lambda v: lax.pmax(v, "x"), x)
        for kind, groups in (("odd", odd), ("halves", halves)):
            run(f"all-reduce {kind} {t}", lambda v: lax.psum(v, "x", axis_index_groups=groups), x)
            run(f"all-gather {kind} {t}", lambda v: lax.all_gather(v, "x", axis_index_groups=groups)[None, 0], x)
        run(f"all-gather {t}", lambda v: lax.all_gather(v, "x", axis=0, tiled=True), x)
        run(f"all-gather columns {t}", lambda v: lax.all_gather(v, "x", axis=1, tiled=True), x)
        run(f"permute ring {t}", lambda v: lax.ppermute(v, "x", ring), x)
        run(f"permute pairs {t}", lambda v: lax.ppermute(v, "x", pairs), x)
        y = session.sharded(mesh, value(n * n, columns, dtype), "x")
        run(f"reduce-scatter {t}", lambda v: lax.psum_scatter(v, "x", tiled=True), y)
        run(f"all-to-all {t}", lambda v: lax.all_to_all(v, "x", 0, 1, tiled=True), y)
        run(f"all-to-all rows {t}", lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True), y)
        z = session.sharded(grid, value(n, columns, dtype), ("a", "b"))
        run(f"all-reduce rows {t}", lambda v: lax.psum(v, "a"), z, P(("a", "b")), P(("a", "b")), grid)
        run(f"all-reduce columns {t}", lambda v: lax.psum(v, "b"), z, P(("a", "b")), P(("a", "b")), grid)
        w = session.sharded(mesh, value(n, n * columns, dtype), "x")
        run(f"reduce-scatter columns {t}", lambda v: lax.psum_scatter(v, "x", scatter_dimension=1, tiled=True), w)
        many = [x + i for i in range(3)]
        run(f"all-reduce of three {t}", lambda v: lax.psum(tuple(v), "x"), many, (([P("x")] * 3),), (P("x"),) * 3)


def loop(v):
    return lax.fori_loop(0, 20, lambda i, c: jnp.sin(lax.psum(c, "x")) + lax.ppermute(c, "x", ring), v)


run("loop", loop, session.sharded(mesh, value(n, 100, jnp.float32), "x"))
if a.processes > 1:
    from jax.experimental import multihost_utils
    multihost_utils.sync_global_devices("end of the program")
    got = multihost_utils.process_allgather(np.array([a.process]))
    assert list(got.ravel()) == list(range(a.processes)), got
with open("/proc/self/maps") as maps:  # of shared memory: that of this process and those of others that it reaches
    print("SEGMENTS", sum("/memfd:backplane-collectives" in line for line in maps))
print("DONE", flush=True)
