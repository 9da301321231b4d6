"""What JAX asks of a runtime: several devices, export, caches, tracing, donation, memories, sharing, compiling ahead."""
import os
import pathlib
import tempfile
import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from programs import program
from programs.jax_basic import check_plugin, close, normal  # noqa: F401


def shard_map_of(f, mesh, in_specs, out_specs):
    """shard_map, which moved into jax itself."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    from jax.experimental import shard_map
    return shard_map.shard_map(f, mesh, in_specs, out_specs)


@program
def pmap():
    """One function on four devices: sums, gathers and permutes among them."""
    x = normal(40, 4, 5)
    close(jax.pmap(lambda v: v * 2)(x), x * 2)
    close(jax.pmap(lambda v: v / lax.psum(v, "i"), "i")(x), x / x.sum(0), rtol=1e-4)
    close(jax.pmap(lambda v: lax.pmax(v, "i") + lax.axis_index("i"), "i")(x), x.max(0) + np.arange(4)[:, None])
    close(jax.pmap(lambda v: lax.all_gather(v, "i"), "i")(x), np.broadcast_to(x, (4, 4, 5)))
    close(jax.pmap(lambda v: lax.ppermute(v, "i", [(k, (k + 1) % 4) for k in range(4)]), "i")(x), np.roll(x, 1, 0))
    close(jax.pmap(lambda v, w: v * w, in_axes=(0, None))(x, 3.0), x * 3)
    g = jax.pmap(jax.grad(lambda w, v: lax.pmean(((v * w) ** 2).sum(), "i")), "i", in_axes=(None, 0))(2.0, x)
    assert g.shape == (4,) and len(g.sharding.device_set) == 4


@program
def shard_map():
    """A function of each device's part, on a mesh of two axes."""
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
    a, b = normal(41, 8, 6), normal(42, 6, 10)
    product = shard_map_of(lambda a, b: lax.psum(a @ b, "y"), mesh, (P("x", "y"), P("y", None)), P("x", None))
    close(jax.jit(product)(a, b), a @ b, rtol=1e-4, atol=1e-5)
    close(jax.grad(lambda a: (product(a, b) ** 2).sum())(a), 2 * (a @ b) @ b.T, rtol=1e-3, atol=1e-4)
    ranks = shard_map_of(lambda v: v + 10 * lax.axis_index("x") + lax.axis_index("y"), mesh, P(("x", "y")), P(("x", "y")))
    close(ranks(np.zeros(4, np.float32)), [0, 1, 10, 11])
    swap = shard_map_of(lambda v: lax.all_to_all(v, "x", 1, 0, tiled=True), mesh, P("x", None), P(None, "x"))
    close(jax.jit(swap)(a), a)


@program
def sharded_jit():
    """Arrays laid over the devices, programs that follow them, results where they are asked for."""
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
    a, b = normal(43, 8, 12), normal(44, 12, 4)
    rows = NamedSharding(mesh, P("x", "y"))
    there = jax.device_put(a, rows)
    assert [s.data.shape for s in there.addressable_shards] == [(4, 6)] * 4
    close(there, a, rtol=0, atol=0)
    got = jax.jit(lambda a, b: jnp.tanh(a @ b), out_shardings=NamedSharding(mesh, P("x")))(there, jax.device_put(b, NamedSharding(mesh, P("y"))))
    assert got.sharding.is_equivalent_to(NamedSharding(mesh, P("x")), 2), got.sharding
    close(got, np.tanh(a @ b), rtol=1e-4, atol=1e-5)
    # Nobody says where the result lies: the compiled program does.
    free = jax.jit(lambda a: jnp.sin(a) * 2)(there)
    assert len(free.sharding.device_set) == 4
    close(free, np.sin(a) * 2)
    inner = jax.jit(lambda a: lax.with_sharding_constraint(a.T, NamedSharding(mesh, P("x"))).sum(0), in_shardings=rows)(a)
    close(inner, a.sum(1), rtol=1e-4, atol=1e-5)
    compiled = jax.jit(lambda a: a + 1, in_shardings=rows).lower(a).compile()
    found = jax.tree_util.tree_leaves(compiled.input_shardings) + jax.tree_util.tree_leaves(compiled.output_shardings)
    assert found[0].is_equivalent_to(rows, 2) and len(found) == 2, found
    moved = jax.device_put(got, jax.devices()[1])
    assert moved.devices() == {jax.devices()[1]}
    close(moved, got, rtol=0, atol=0)


@program
def export():
    """A function written to bytes, read again and called, with and without a dimension left open; its gradient too."""
    from jax import export as je
    x = normal(45, 3, 4)
    f = jax.jit(lambda x: jnp.sin(x) @ x.T)
    blob = je.export(f, platforms=["cpu"])(jax.ShapeDtypeStruct(x.shape, x.dtype)).serialize(vjp_order=1)
    again = je.deserialize(blob)
    close(jax.jit(again.call)(x), np.sin(x) @ x.T, rtol=1e-4)
    close(jax.grad(lambda x: again.call(x).sum())(x), np.cos(x) * x.sum(0) + np.sin(x).sum(0), rtol=1e-4, atol=1e-5)
    n, = je.symbolic_shape("n")
    blob = je.export(f, platforms=["cpu"])(jax.ShapeDtypeStruct((n, 4), x.dtype)).serialize()
    for rows in (1, 3, 6):
        y = normal(rows, rows, 4)
        close(je.deserialize(blob).call(y), np.sin(y) @ y.T, rtol=1e-4, atol=1e-5)


@program
def compilation_cache():
    """A program compiled once is found again, and still right."""
    hits = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("/cache_hits") else None)
    with tempfile.TemporaryDirectory() as folder:
        for name, value in (("jax_compilation_cache_dir", folder), ("jax_persistent_cache_min_compile_time_secs", 0), ("jax_persistent_cache_min_entry_size_bytes", -1)):
            jax.config.update(name, value)
        x = normal(46, 30, 30)
        for _ in range(2):
            close(jax.jit(lambda x: jnp.tanh(x @ x) + lax.fori_loop(0, 3, lambda i, s: s * 2, x))(x), np.tanh(x @ x) + 8 * x, rtol=1e-4, atol=1e-4)
            before = len(hits)
            jax.clear_caches()
            assert os.listdir(folder), "nothing was stored"
        assert before > 0, "the second compile did not use what the first had stored"


@program
def profiler():
    """A trace of some work: the folder has it, with the names that the program gave, and what the device ran."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            with jax.profiler.TraceAnnotation("my_own_words"):
                x = jax.jit(lambda x: jnp.tanh(x @ x))(normal(47, 64, 64)).block_until_ready()
        close(x, np.tanh(normal(47, 64, 64) @ normal(47, 64, 64)), rtol=1e-3, atol=1e-4)
        found = list(pathlib.Path(folder).rglob("*.xplane.pb"))
        assert found, list(pathlib.Path(folder).rglob("*"))
        trace = found[0].read_bytes()
        assert all(word in trace for word in (b"my_own_words", b"/device:CUSTOM:cpu:0", b"hlo_op"))


@program
def donation():
    """A donated argument is gone afterwards, its memory used again, and reading it is an error."""
    step = jax.jit(lambda x, y: x + y, donate_argnums=0)
    y = jax.device_put(normal(49, 256, 256))
    # What was put there may lie in numpy's own memory, which a program must not write to; its result does not.
    x = step(jax.device_put(normal(48, 256, 256)), y)
    pointer, total = x.unsafe_buffer_pointer(), normal(48, 256, 256) + normal(49, 256, 256)
    for _ in range(5):
        old, x = x, step(x, y)
        total = total + normal(49, 256, 256)
        assert old.is_deleted()
    close(x, total, rtol=1e-5, atol=1e-5)
    assert x.unsafe_buffer_pointer() == pointer
    try:
        np.asarray(old)
    except RuntimeError as e:
        assert "deleted" in str(e), e
    else:
        raise AssertionError("a donated array was read")


@program
def memory_kinds():
    """Each memory of the device takes arrays and gives them back; programs read from and write to them."""
    if "jax_enable_memories" in jax.config.values:
        jax.config.update("jax_enable_memories", True)  # a switch of JAX 0.4, off by default at first
    device = jax.devices()[0]
    x = normal(50, 5, 6)
    kinds = sorted({m.kind for m in device.addressable_memories()})
    assert device.default_memory().kind in kinds
    mesh = Mesh(np.array([device]), ("x",))
    for kind in kinds:
        there = jax.device_put(x, NamedSharding(mesh, P(), memory_kind=kind))
        assert there.sharding.memory_kind == kind
        close(there, x, rtol=0, atol=0)
        back = jax.device_put(there, NamedSharding(mesh, P(), memory_kind=device.default_memory().kind))
        close(jax.jit(lambda x: x * 2)(back), x * 2)
    stats = device.memory_stats()
    assert stats is None or stats["bytes_in_use"] > 0, stats


@program
def dlpack():
    """Memory shared with numpy without a copy; with JAX's own CPU client beside ours, the other way as well."""
    x = jax.device_put(normal(51, 16, 16))
    shared = np.from_dlpack(x)
    close(shared, normal(51, 16, 16), rtol=0, atol=0)
    assert shared.ctypes.data == x.unsafe_buffer_pointer()
    if os.environ["BACKPLANE_HOSTS_ROAD"] == "package":
        mine = normal(52, 4, 4)
        there = jax.device_put(jnp.from_dlpack(mine), jax.devices()[0])
        close(jax.jit(lambda v: v + 1)(there), mine + 1)


@program
def ahead_of_time():
    """Lowered, compiled and called apart: texts, costs, memory."""
    x = normal(53, 32, 16)
    lowered = jax.jit(lambda x: jnp.tanh(x @ x.T)).lower(x)
    assert "dot_general" in lowered.as_text()
    compiled = lowered.compile()
    close(compiled(x), np.tanh(x @ x.T), rtol=1e-4, atol=1e-5)
    assert "HloModule" in compiled.as_text()
    cost = compiled.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    assert 2 * 32 * 32 * 16 <= cost["flops"] <= 3 * 32 * 32 * 16, cost
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 32 * 16 * 4 and memory.output_size_in_bytes == 32 * 32 * 4, memory
    try:
        compiled(x[:3])
    except TypeError:
        pass
    else:
        raise AssertionError("an argument of another shape was taken")
    assert jax.eval_shape(lambda x: x.sum(0), x).shape == (16,)


@program
def threads():
    """Four threads with two hundred programs in flight each; arrays dropped and deleted in between; copies begun early."""
    step = jax.jit(lambda x, k: x * 0.5 + k)
    wrong = []

    def work(seed):
        x = want = normal(seed, 50, 50)
        x = jax.device_put(x)
        for k in range(200):
            before, x = x, step(x, float(k))
            if k % 3 == 0:
                before.delete()
            want = want * np.float32(0.5) + np.float32(k)
        x.copy_to_host_async()
        if not np.allclose(x, want, rtol=1e-5):
            wrong.append(seed)

    workers = [threading.Thread(target=work, args=(60 + i,)) for i in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong, wrong
    far = [jax.device_put(normal(70, 8), d) for d in jax.devices()[:4]]
    close(sum(np.asarray(jax.device_put(f, jax.devices()[0])) for f in far), 4 * normal(70, 8))
