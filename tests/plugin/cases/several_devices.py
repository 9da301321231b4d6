"""Eight devices: pmap, shard_map and sharded jit, every value checked against numpy."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from . import case, close, rand, same

N = 8
eight = functools.partial(case, road="env8")


def mesh1():
    return Mesh(np.array(jax.devices()[:N]), ("x",))


def mesh2():
    return Mesh(np.array(jax.devices()[:N]).reshape(2, 4), ("x", "y"))


def put(x, mesh, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def over_x(body, in_specs=P("x"), out_specs=P("x"), **kw):
    return jax.jit(jax.shard_map(body, mesh=mesh1(), in_specs=in_specs, out_specs=out_specs, **kw))


# ---- pmap

@eight
def pmap_reductions():
    x = rand(N, 3, 5)
    total = x.astype(np.float64).sum(0)
    close(jax.pmap(lambda v: lax.psum(v, "i"), axis_name="i")(x), np.broadcast_to(total, x.shape))
    close(jax.pmap(lambda v: v / lax.psum(v, "i"), axis_name="i")(x), x / total, rtol=1e-4)
    close(jax.pmap(lambda v: lax.pmean(v, "i"), axis_name="i")(x), np.broadcast_to(total / N, x.shape))
    same(jax.pmap(lambda v: lax.pmax(v, "i"), axis_name="i")(x), np.broadcast_to(x.max(0), x.shape))
    same(jax.pmap(lambda v: lax.pmin(v, "i"), axis_name="i")(x), np.broadcast_to(x.min(0), x.shape))


@eight
def pmap_groups_and_index():
    x = np.arange(N, dtype=np.float32)
    got = jax.pmap(lambda v: lax.psum(v, "i", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]]), axis_name="i")(x)
    same(got, np.array([6] * 4 + [22] * 4, np.float32))
    same(jax.pmap(lambda v: lax.axis_index("i") * 2 + v, axis_name="i")(np.arange(N, dtype=np.int32)), 3 * np.arange(N, dtype=np.int32))


@eight
def pmap_training_step():
    """Data-parallel gradients are those of the whole batch."""
    w, x, y = rand(6, 1), rand(N, 4, 6, seed=1), rand(N, 4, 1, seed=2)
    loss = lambda w, x, y: jnp.mean((jnp.tanh(x @ w) - y) ** 2)
    step = jax.pmap(lambda w, x, y: w - 0.1 * lax.pmean(jax.grad(loss)(w, x, y), "i"), axis_name="i", in_axes=(None, 0, 0))
    got = np.asarray(step(w, x, y))
    want = w - 0.1 * np.asarray(jax.grad(loss)(w, x.reshape(-1, 6), y.reshape(-1, 1)))
    for d in range(N):
        close(got[d], want)


@eight
def pmap_nested_mapping_of_four():
    x = rand(4, 7)
    close(jax.pmap(lambda v: jnp.sin(v) + lax.psum(v, "i"), axis_name="i", devices=jax.devices()[2:6])(x),
          np.sin(x) + x.sum(0, keepdims=True))


# ---- shard_map

@eight
def shard_map_psum():
    x = rand(16, 6)
    close(over_x(lambda v: lax.psum(v, "x"), out_specs=P())(x), x.reshape(N, 2, 6).sum(0))


@eight
def shard_map_all_gather():
    x = rand(16, 6)
    close(over_x(lambda v: lax.all_gather(v, "x", tiled=True), out_specs=P(), check_vma=False)(x), x)
    close(over_x(lambda v: lax.all_gather(v, "x", axis=1), out_specs=P(None, None), check_vma=False)(x),
          x.reshape(N, 2, 6).transpose(1, 0, 2))


@eight
def shard_map_ppermute():
    x = np.arange(16, dtype=np.int32)
    ring = [(i, (i + 1) % N) for i in range(N)]
    same(over_x(lambda v: lax.ppermute(v, "x", ring))(x), np.roll(x, 2))
    same(over_x(lambda v: lax.ppermute(v, "x", [(0, 3), (3, 1)]))(x + 1),
         np.array([0, 0, 7, 8, 0, 0, 1, 2] + [0] * 8, np.int32))


@eight
def shard_map_all_to_all():
    x = rand(N, 16, 3)
    got = over_x(lambda v: lax.all_to_all(v, "x", split_axis=1, concat_axis=0, tiled=True), out_specs=P(None, "x"))(x)
    same(got, x)
    y = np.arange(N * N, dtype=np.float32).reshape(N, N)
    same(over_x(lambda v: lax.all_to_all(v, "x", split_axis=1, concat_axis=1, tiled=True))(y), y.T)


@eight
def shard_map_psum_scatter():
    x = rand(N, 24)
    got = over_x(lambda v: lax.psum_scatter(v[0], "x", tiled=True))(x)
    close(got, x.sum(0))


@eight
def shard_map_axis_index():
    same(over_x(lambda v: v + lax.axis_index("x"))(np.zeros(N, np.int32)), np.arange(N, dtype=np.int32))
    f = jax.jit(jax.shard_map(lambda v: v + 10 * lax.axis_index("x") + lax.axis_index("y"), mesh=mesh2(),
                              in_specs=P("x", "y"), out_specs=P("x", "y")))
    same(f(np.zeros((2, 4), np.int32)), 10 * np.arange(2, dtype=np.int32)[:, None] + np.arange(4, dtype=np.int32))


@eight
def shard_map_two_axes():
    x = rand(4, 8)
    f = jax.jit(jax.shard_map(lambda v: (lax.psum(v, "x"), lax.psum(v, "y"), lax.psum(v, ("x", "y"))), mesh=mesh2(),
                              in_specs=P("x", "y"), out_specs=(P(None, "y"), P("x", None), P())))
    a, b, c = f(x)
    close(a, x.reshape(2, 2, 8).sum(0))
    close(b, x.reshape(4, 4, 2).sum(1))
    close(c, x.reshape(2, 2, 4, 2).sum((0, 2)))


@eight
def shard_map_loops():
    """Collectives in a loop body rendezvous in each iteration."""
    def body(v):
        def body(_, c):
            return lax.ppermute(c, "x", [(i, (i + 1) % N) for i in range(N)]) + lax.pmean(c, "x")
        return lax.fori_loop(0, 5, body, v)
    x = rand(N, 3)
    want = x.astype(np.float64)
    for _ in range(5):
        want = np.roll(want, 1, axis=0) + want.mean(0)
    close(over_x(body)(x), want, rtol=1e-4)


@eight
def shard_map_gradients():
    x, w = rand(16, 5), rand(5, 4, seed=3)
    f = jax.shard_map(lambda x, w: lax.psum(jnp.sum(jnp.sin(x @ w)), "x"), mesh=mesh1(), in_specs=(P("x"), P()), out_specs=P())
    dx, dw = jax.jit(jax.grad(f, argnums=(0, 1)))(x, w)
    c = np.cos(x @ w)
    close(dx, c @ w.T, rtol=1e-4)
    close(dw, x.T @ c, rtol=1e-4)


@eight
def shard_map_some_axes_manual():
    """Along the axis that is not manual the region sees full values."""
    x = rand(4, 8)
    f = jax.jit(jax.shard_map(lambda v: v * 2 + lax.psum(v, "x"), mesh=mesh2(), in_specs=P("x", None), out_specs=P("x", None),
                              axis_names={"x"}))
    total = x[:2] + x[2:]
    close(f(put(x, mesh2(), "x", "y")), x * 2 + np.concatenate([total, total]))


@eight
def shard_map_inside_jit():
    """A region between operations that are not manual, its arguments split in other ways than it wants."""
    m = mesh2()
    inner = jax.shard_map(lambda v: v - lax.pmean(v, "x"), mesh=m, in_specs=P("x", "y"), out_specs=P("x", "y"))
    f = jax.jit(lambda a, b: jnp.sort(inner(a * 2 + b), axis=0) @ b.T)
    a, b = rand(4, 8), rand(4, 8, seed=5)
    v = (a * 2 + b).astype(np.float64)
    want = np.sort(v - np.tile(v.reshape(2, 2, 8).mean(0), (2, 1)), axis=0) @ b.T
    close(f(put(a, m, "y", None), put(b, m)), want, rtol=1e-4)


@eight
def shard_map_narrow_types():
    for t in (jnp.bfloat16, jnp.int8, jnp.uint16, jnp.float16, jnp.complex64, jnp.bool_):
        x = (np.arange(N * 4).reshape(N, 4) % 3).astype(t)
        if t is jnp.bool_:
            same(over_x(lambda v: lax.all_gather(v, "x", tiled=True), out_specs=P(), check_vma=False)(x), x)
            continue
        same(over_x(lambda v: lax.psum(v, "x"), out_specs=P())(x)[0], x.astype(np.complex64).sum(0).astype(t))


# ---- sharded jit

@eight
def shard_map_formats():
    """Every type of a byte and less crosses the border of a manual computation, moves between devices and comes back."""
    scalars = [t for t in vars(jnp).values() if isinstance(t, type(jnp.float32)) and t.dtype.itemsize == 1 and t.dtype != bool]
    formats = [t for t in scalars if not t.dtype.name.startswith(("float6", "int1", "uint1"))]  # which JAX has no arrays of
    rotate = over_x(lambda *vs: [lax.ppermute(lax.rev(v, (1,)), "x", [(i, (i + 1) % N) for i in range(N)]) for v in vs])
    ones = (np.arange(4 * N).reshape(N, 4) % 3 == 1).astype(np.float32)  # nought and one are in each type but one
    for got in rotate(*(jnp.asarray(ones).astype(t) for t in formats)):
        want = np.roll(ones[:, ::-1], 1, axis=0).astype(got.dtype).astype(np.float32)
        close(np.asarray(got).astype(np.float32), want)


@eight
def jit_elementwise_keeps_the_split():
    m = mesh2()
    x = put(rand(8, 16), m, "x", "y")
    y = jax.jit(lambda v: jnp.tanh(v) * 2 + 1)(x)
    close(y, np.tanh(rand(8, 16)) * 2 + 1)
    assert y.sharding.is_equivalent_to(NamedSharding(m, P("x", "y")), 2), y.sharding
    assert all(s.data.shape == (4, 4) for s in y.addressable_shards)


@eight
def jit_matmul_every_split():
    a, b = rand(16, 24), rand(24, 8, seed=1)
    m = mesh2()
    want = a.astype(np.float64) @ b
    for sa in ((None, None), ("x", None), (None, "y"), ("x", "y"), ("y", "x"), (("x", "y"), None)):
        for sb in ((None, None), ("x", None), ("y", None), (None, "y"), ("y", "x"), (None, ("x", "y"))):
            close(jax.jit(jnp.matmul)(put(a, m, *sa), put(b, m, *sb)), want, rtol=1e-4)


@eight
def jit_out_shardings():
    m = mesh2()
    x = rand(8, 8)
    for spec in (P("x", "y"), P("y", None), P(("y", "x")), P()):
        out = jax.jit(lambda v: v + jnp.sum(v, axis=0), out_shardings=NamedSharding(m, spec))(put(x, m, "x"))
        close(out, x + x.sum(0))
        assert out.sharding.is_equivalent_to(NamedSharding(m, spec), 2), (spec, out.sharding)


@eight
def jit_with_sharding_constraint():
    m = mesh1()
    @jax.jit
    def f(v):
        w = lax.with_sharding_constraint(v * 2, NamedSharding(m, P("x")))
        u = lax.with_sharding_constraint(w.T + 1, NamedSharding(m, P(None, None)))
        return lax.with_sharding_constraint(u @ w, NamedSharding(m, P(None, "x")))
    x = rand(8, 16)
    out = f(x)
    close(out, (2 * x.T + 1) @ (2 * x), rtol=1e-4)
    assert out.sharding.is_equivalent_to(NamedSharding(m, P(None, "x")), 2), out.sharding


@eight
def jit_mlp_training():
    """Batch split over x, hidden features over y; a few steps against numpy's own gradients."""
    m = mesh2()
    w1, w2 = rand(6, 16), rand(16, 2, seed=1)
    x, y = rand(8, 6, seed=2), rand(8, 2, seed=3)
    loss = lambda p, x, y: jnp.mean((jnp.tanh(x @ p[0]) @ p[1] - y) ** 2)
    step = jax.jit(lambda p, x, y: jax.tree.map(lambda a, g: a - 0.2 * g, p, jax.grad(loss)(p, x, y)), donate_argnums=0)
    p = (put(w1, m, None, "y"), put(w2, m, "y", None))
    sx, sy = put(x, m, "x"), put(y, m, "x")
    a, b = w1.astype(np.float64), w2.astype(np.float64)
    for _ in range(4):
        old = p
        p = step(p, sx, sy)
        assert all(v.is_deleted() for v in old)
        h = np.tanh(x @ a)
        e = 2 * (h @ b - y) / y.size
        a, b = a - 0.2 * (x.T @ ((e @ b.T) * (1 - h * h))), b - 0.2 * (h.T @ e)
    close(p[0], a, rtol=1e-3, atol=1e-4)
    close(p[1], b, rtol=1e-3, atol=1e-4)


@eight
def jit_reductions_and_movement():
    m = mesh2()
    x = rand(8, 4, 6)
    s = put(x, m, "x", "y")
    for f, want in (
            (lambda v: v.sum(), x.sum()), (lambda v: v.max(axis=0), x.max(0)), (lambda v: v.prod(axis=(0, 1)), x.prod((0, 1))),
            (lambda v: v.mean(axis=1), x.mean(1)), (lambda v: jnp.argmax(v, axis=1), x.argmax(1)),
            (lambda v: v.transpose(2, 0, 1), x.transpose(2, 0, 1)), (lambda v: v.reshape(32, 6), x.reshape(32, 6)),
            (lambda v: v.reshape(8, 24), x.reshape(8, 24)), (lambda v: v.reshape(2, 4, 24), x.reshape(2, 4, 24)),
            (lambda v: v[1:7, :, ::2], x[1:7, :, ::2]), (lambda v: jnp.pad(v, ((0, 0), (1, 0), (0, 2))), np.pad(x, ((0, 0), (1, 0), (0, 2)))),
            (lambda v: jnp.concatenate([v, v + 1], axis=2), np.concatenate([x, x + 1], axis=2)),
            (lambda v: jnp.concatenate([v, v + 1], axis=0), np.concatenate([x, x + 1], axis=0)),
            (lambda v: v[::-1], x[::-1]), (lambda v: jnp.sort(v, axis=2), np.sort(x, axis=2)), (lambda v: jnp.sort(v, axis=0), np.sort(x, axis=0)),
            (lambda v: jnp.cumsum(v, axis=1), x.cumsum(1)), (lambda v: lax.dynamic_slice(v, (3, 0, 1), (2, 4, 2)), x[3:5, :, 1:3]),
            (lambda v: v.at[2].set(0.5), np.concatenate([x[:2], np.full((1, 4, 6), 0.5, np.float32), x[3:]])),
            (lambda v: v[jnp.array([5, 0, 5])], x[[5, 0, 5]]), (lambda v: jnp.where(v > 0, v, v * v), np.where(x > 0, x, x * x)),
            (lambda v: jnp.einsum("abc,abd->acd", v, v), np.einsum("abc,abd->acd", x, x))):
        close(jax.jit(f)(s), want, rtol=1e-4)


@eight
def jit_embedding_lookup():
    m = mesh1()
    table, ids = rand(50, 12), (np.arange(32).reshape(16, 2) * 7 % 50).astype(np.int32)
    close(jax.jit(lambda t, i: t[i])(put(table, m), put(ids, m, "x")), table[ids])
    close(jax.jit(lambda t, i: t[i] * 2)(put(table[:48], m, "x"), put(ids % 48, m)), table[ids % 48] * 2)


@eight
def jit_convolution():
    m = mesh1()
    x, k = rand(8, 3, 10, 10), rand(4, 3, 3, 3, seed=1)
    f = jax.jit(lambda x, k: lax.conv(x, k, (1, 1), "SAME"))
    close(f(put(x, m, "x"), put(k, m)), f(x, k), rtol=1e-4)


@eight
def jit_control_flow():
    m = mesh1()
    x = put(rand(8, 3), m, "x")
    close(jax.jit(lambda v: lax.scan(lambda c, r: (c + r, c * r), jnp.ones(3), v)[0])(x), 1 + rand(8, 3).sum(0))
    close(jax.jit(lambda v: lax.cond(v.sum() > 1e9, lambda u: u, lambda u: u * 3, v))(x), rand(8, 3) * 3)


@eight
def jit_random_keys():
    """Random numbers do not depend on how they are split."""
    m = mesh1()
    key = jax.random.key(7)
    want = np.asarray(jax.random.normal(key, (16, 4)))
    close(jax.jit(lambda k: jax.random.normal(k, (16, 4)), out_shardings=NamedSharding(m, P("x")))(key), want)


@eight
def jit_donated_and_sharded():
    m = mesh2()
    f = jax.jit(lambda a, b: (a + b, a - b), donate_argnums=(0, 1))
    a, b = put(rand(8, 8), m, "x", "y"), put(rand(8, 8, seed=1), m, "x", "y")
    s, d = f(a, b)
    close(s, rand(8, 8) + rand(8, 8, seed=1))
    close(d, rand(8, 8) - rand(8, 8, seed=1))
    assert a.is_deleted() and b.is_deleted()


@eight
def resharding():
    m = mesh2()
    x = rand(8, 8)
    for a in (P(), P("x"), P("y", "x"), P(("x", "y")), P(None, "y")):
        for b in (P(), P("y"), P("x", "y"), P(None, ("y", "x"))):
            close(jax.jit(lambda v: v, out_shardings=NamedSharding(m, b))(jax.device_put(x, NamedSharding(m, a))), x)


@eight
def reversed_and_partial_meshes():
    """A mesh need not be all devices, nor in their order."""
    m = Mesh(np.array(jax.devices()[:4][::-1]).reshape(2, 2), ("x", "y"))
    x = rand(4, 6)
    s = put(x, m, "x", "y")
    close(jax.jit(lambda v: jnp.sin(v) @ v.T)(s), np.sin(x) @ x.T)
    f = jax.jit(jax.shard_map(lambda v: lax.psum(v, "y") + lax.axis_index("x"), mesh=m, in_specs=P("x", "y"), out_specs=P("x", None)))
    close(f(s), x.reshape(4, 2, 3).sum(1) + np.array([0, 0, 1, 1])[:, None])


@eight
def overlapping_launches():
    """Many runs of one program in flight; each finds its own partners."""
    f = over_x(lambda v: lax.psum(v, "x") + v)
    xs = [rand(N, 50, seed=i) for i in range(30)]
    outs = [f(x) for x in xs]
    for x, o in zip(xs, outs):
        close(o, x.sum(0) + x)


@eight
def exchanged_programs_in_text():
    x = put(rand(8, 8), mesh1(), "x")
    assert "all-reduce" in jax.jit(lambda v: v.sum()).lower(x).compile().as_text()
    local = jax.jit(lambda v: v * 2 + 1).lower(x).compile().as_text()
    assert "all-gather" not in local and "f32[1,8]" in local, local


@eight
def serialized_and_loaded():
    from jax.experimental import serialize_executable as se
    x = put(rand(8, 8), mesh1(), "x")
    compiled = jax.jit(lambda v: jnp.cos(v) - v.sum(axis=0)).lower(x).compile()
    again = se.deserialize_and_load(*se.serialize(compiled))
    close(again(x), np.cos(rand(8, 8)) - rand(8, 8).sum(0))


@eight
def jit_loop_state_stays_split():
    """Loops keep shards from iteration to iteration, with the tiling of their initial value or of the body."""
    m = mesh1()
    x = rand(8, 6)
    step = lambda i, v: jnp.tanh(v) + 0.1
    want = x.astype(np.float64)
    for _ in range(5):
        want = np.tanh(want) + 0.1
    f = jax.jit(lambda v: lax.fori_loop(0, 5, step, v))
    s = put(x, m, "x")
    close(f(s), want)
    text = f.lower(s).compile().as_text()
    assert "all-gather" not in text and "f32[8,6]" not in text, text
    g = jax.jit(lambda v: lax.fori_loop(0, 5, lambda i, v: lax.with_sharding_constraint(step(i, v), NamedSharding(m, P("x"))), v))
    out = g(x)
    close(out, want)
    assert out.sharding.is_equivalent_to(NamedSharding(m, P("x")), 2), out.sharding
    # A body that needs the whole gets it.
    h = jax.jit(lambda v: lax.fori_loop(0, 3, lambda i, v: v[::-1] * 0.5 + v.mean(), v))
    want = x.astype(np.float64)
    for _ in range(3):
        want = want[::-1] * 0.5 + want.mean()
    close(h(s), want)


@eight
def explicit_axes_and_partial_sums():
    """Shardings in types; a product whose sum is put off."""
    m = jax.make_mesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    a, b = rand(8, 16), rand(16, 4, seed=1)
    with jax.set_mesh(m):
        sa, sb = jax.device_put(a, P(None, "y")), jax.device_put(b, P("y", None))
        f = jax.jit(lambda u, v: jnp.einsum("ij,jk->ik", u, v, out_sharding=P(unreduced={"y"})))
        parts = f(sa, sb)
        close(jax.jit(lambda p: jax.sharding.reshard(p, P()))(parts), a.astype(np.float64) @ b, rtol=1e-4)
        close(jax.jit(lambda p: jax.sharding.reshard(p, P("y")))(parts), a.astype(np.float64) @ b, rtol=1e-4)
        assert "all-reduce" not in f.lower(sa, sb).compile().as_text()


@eight
def pieces_become_parts_of_a_sum():
    """What is split over an axis and then to be added up over it stays where it lies, among zeros; nothing is exchanged."""
    m = jax.make_mesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    x = rand(8, 4)
    with jax.set_mesh(m):
        for spec, axes in ((P("y"), {"y"}), (P(None, "y"), {"y"}), (P("x", "y"), {"x", "y"}), (P(("y", "x")), {"x", "y"}), (P("x", "y"), {"y"})):
            a = jax.device_put(x, spec)
            rows = ("x",) if axes == {"y"} and "x" in spec else ()
            kept = P(*rows, unreduced=axes)
            f = jax.jit(lambda v: jax.sharding.reshard(v, kept))
            parts = f(a)
            own, tile = a.sharding.devices_indices_map(x.shape), NamedSharding(m, P(*rows)).devices_indices_map(x.shape)
            for s in parts.addressable_shards:
                want = np.zeros_like(x)
                want[own[s.device]] = x[own[s.device]]
                same(s.data, want[tile[s.device]])
            assert "all-" not in f.lower(a).compile().as_text(), (spec, axes)
            same(jax.sharding.reshard(parts, P()), x)


@eight
def donors_that_no_result_can_use_stay():
    """Without a sharding asked for, which results a donated array can serve is known when the program is compiled."""
    m = mesh1()
    x, y = put(rand(16, 2), m, "x"), put(rand(16, 2, seed=1), m, "x")
    product = jax.jit(lambda v: v @ v.T, donate_argnums=0)
    close(product(x), rand(16, 2).astype(np.float64) @ rand(16, 2).T)
    assert not x.is_deleted()
    close(jax.jit(lambda v, w: v + w, donate_argnums=(0, 1))(x, y), rand(16, 2) + rand(16, 2, seed=1))
    assert [x.is_deleted(), y.is_deleted()].count(True) == 1


@eight
def values_with_the_same_sharding():
    from jax.experimental.shard_alike import shard_alike
    m = mesh1()
    x = put(rand(8, 2), m, "x")
    def f(v):
        other = jnp.cos(jnp.arange(16.0).reshape(8, 2))
        return shard_alike(v, other)[1]
    out = jax.jit(f)(x)
    close(out, np.cos(np.arange(16.0).reshape(8, 2)))
    assert out.sharding.is_equivalent_to(NamedSharding(m, P("x")), 2), out.sharding


@eight
def sums_by_segment_stay_in_parts():
    """Each device adds up its own numbers; where the caller takes sums in parts, nothing is exchanged."""
    mesh = jax.make_mesh((N,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    x, at = rand(32), np.random.RandomState(1).randint(0, 4, 32)
    want = np.zeros(4, np.float32)
    np.add.at(want, at, x)
    with jax.set_mesh(mesh):
        a, b = jax.device_put(x, P("x")), jax.device_put(at, P("x"))
        f = jax.jit(lambda a, b, out: jax.ops.segment_sum(a, b, num_segments=4, out_sharding=out), static_argnums=2)
        close(f(a, b, P()), want)
        parts = f(a, b, P(unreduced={"x"}))
        for k, s in enumerate(parts.addressable_shards):
            own = np.zeros(4, np.float32)
            np.add.at(own, at[4 * k:4 * k + 4], x[4 * k:4 * k + 4])
            close(s.data, own)
        assert "all-" not in f.lower(a, b, P(unreduced={"x"})).compile().as_text()
        close(jax.sharding.reshard(parts, P()), want)
        # Into an array that holds something, and by the largest.
        init = jnp.asarray(rand(4, seed=3))
        close(jax.jit(lambda i, a, b: i.at[b].add(a, out_sharding=P()))(init, a, b), np.asarray(init) + want)
        top = np.asarray(init).copy()
        np.maximum.at(top, at, x)
        same(jax.jit(lambda i, a, b: i.at[b].max(a, out_sharding=P()))(init, a, b), top)


@eight
def who_asks_how_a_value_lies_is_told():
    m, seen = mesh2(), []
    def f(v):
        y = v * 2
        jax.debug.inspect_array_sharding(y, callback=seen.append)
        jax.debug.inspect_array_sharding(y.sum(1), callback=seen.append)
        return jnp.sin(y)
    x = rand(8, 12)
    close(jax.jit(f)(put(x, m, "y", "x")), np.sin(x * 2))
    assert [s.spec for s in seen] == [P("y", "x"), P("y")], seen
    def fails(_):
        raise ValueError("not today")
    try:
        jax.jit(lambda v: jax.debug.inspect_array_sharding(v, callback=fails) or v)(put(x, m, "y"))
    except jax.errors.JaxRuntimeError as e:
        assert "not today" in str(e), str(e)
    else:
        raise AssertionError("the callback's error was lost")


@case(road="package8")
def functions_with_a_partitioning_of_their_own():
    """jax.experimental.custom_partitioning: rows stay where they are, columns are brought together, sums are exchanged."""
    from jax.experimental.custom_partitioning import custom_partitioning
    asked = []

    @custom_partitioning
    def softmax(x):
        e = jnp.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True), e.sum()

    def partition(mesh, args, results):
        asked.append(args[0].sharding.spec)
        rows = args[0].sharding.spec[0] if args[0].sharding.spec else None
        def lower(x):
            y, total = softmax.fun(x)
            return y, lax.psum(total, rows) if rows else total
        at = NamedSharding(mesh, P(rows, None))
        return mesh, lower, (at, NamedSharding(mesh, P())), (at,)

    softmax.def_partition(partition, sharding_rule="i j -> i j, ", need_replication_factors=("j",))
    x = rand(16, 12)
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    want = e / e.sum(-1, keepdims=True)
    for mesh, spec in ((mesh1(), ("x",)), (mesh2(), ("x",)), (mesh2(), ("y", "x"))):
        f = jax.jit(lambda v: softmax(v * 1.0))
        v = put(x, mesh, *spec)
        got, total = f(v)
        close(got, want)
        close(total, e.sum(), rtol=1e-4)
        assert got.sharding.is_equivalent_to(NamedSharding(mesh, P(spec[0], None)), 2), got.sharding
        assert ("all-gather" in f.lower(v).compile().as_text()) == (len(spec) == 2)
    assert asked[0] == P("x", None) or asked[0] == P("x"), asked
    # In a loop, and refused with the user's message.
    close(jax.jit(lambda v: lax.fori_loop(0, 3, lambda _, u: softmax(u)[0], v))(put(x, mesh1(), "x")),
          functools.reduce(lambda u, _: np.exp(u - u.max(-1, keepdims=True)) / np.exp(u - u.max(-1, keepdims=True)).sum(-1, keepdims=True), range(3), x), rtol=1e-4)
    def refuses(*_):
        raise ValueError("never again")
    softmax.def_partition(refuses, sharding_rule="i j -> i j, ")
    try:
        jax.jit(lambda v: softmax(v + 1))(put(x, mesh1(), "x"))
    except jax.errors.JaxRuntimeError as e:
        assert "never again" in str(e), str(e)
    else:
        raise AssertionError("the partitioner's error was lost")


@eight
def whoever_does_not_come_is_named():
    """A collective that only one device reaches is an error that says who stayed away, and the devices go on working."""
    def body(v):
        alone = lax.axis_index("x") == 3
        return lax.cond(alone, lambda u: lax.psum(u, "x"), lambda u: u * 8, v)
    f = over_x(body, check_vma=False)
    try:
        jax.block_until_ready(f(rand(N, 4)))
    except jax.errors.JaxRuntimeError as e:
        assert "has ended without joining" in str(e) and "partition" in str(e), str(e)
    else:
        raise AssertionError("one device came through a psum of eight alone")
    x = rand(N, 3)
    close(over_x(lambda v: lax.psum(v, "x"), out_specs=P())(x), x.sum(0, keepdims=True))
