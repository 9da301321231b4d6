"""The emulator of a tiled TPU: what a program sees of the machine, and that JAX does on it what JAX does by the platform's name."""
import os
import tempfile

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from . import case as any_case
from . import close, rand, same


def case(function=None, **options):
    return any_case(function, only="tpu_emulator", **options)


def round_to_bf16(x):
    return np.asarray(x).astype(ml_dtypes.bfloat16).astype(np.float64)


def refused(f, *words):
    """The error's text, which holds the words."""
    try:
        jax.block_until_ready(f())
    except Exception as e:
        assert all(w in str(e) for w in words), str(e)
        return str(e)
    raise AssertionError("was accepted")


# ---- layouts and sizes

LAYOUTS = [  # what a TPU's compiler answers
    ((), np.float32, (), ((128,),), 512),
    ((1000,), np.float32, (0,), ((1024,),), 4096),
    ((1, 1000), np.float32, (0, 1), ((1, 128),), 4096),
    ((1000, 1), np.float32, (1, 0), ((1, 128),), 4096),
    ((64, 3), np.float32, (1, 0), ((4, 128),), 2048),
    ((300, 500), ml_dtypes.bfloat16, (0, 1), ((8, 128), (2, 1)), 311296),
    ((500, 700), ml_dtypes.bfloat16, (1, 0), ((8, 128), (2, 1)), 704 * 512 * 2),
    ((32, 256), np.int8, (0, 1), ((32, 128), (4, 1)), 8192),
    ((300, 500), ml_dtypes.int4, (0, 1), ((8, 128), (8, 1)), 77824),
    ((4, 128, 8, 64), np.float32, (0, 2, 3, 1), ((8, 128),), 4 * 128 * 8 * 64 * 4),
    ((3, 5, 7), np.float32, (1, 0, 2), ((4, 128),), 5 * 4 * 128 * 4),
]


@case
def layouts_as_a_tpu_has_them():
    for shape, dtype, order, tiling, size in LAYOUTS:
        x = jax.device_put(np.zeros(shape, dtype))
        assert x.format.layout.major_to_minor == order and x.format.layout.tiling == tiling, (shape, dtype, x.format)
        assert x.on_device_size_in_bytes() == size, (shape, dtype, x.on_device_size_in_bytes())
        compiled = jax.jit(lambda v: v).lower(x).compile()
        (inside,), _ = compiled.input_formats
        assert inside.layout == x.format.layout == compiled.output_formats.layout, (inside, compiled.output_formats)
        stats = compiled.memory_analysis()
        assert stats.argument_size_in_bytes == stats.output_size_in_bytes == size, (shape, dtype, stats)


@case
def layouts_in_the_text():
    text = jax.jit(lambda a, b: jnp.tanh(a @ b)).lower(rand(500, 300).astype(ml_dtypes.bfloat16), rand(300, 700)).compile().as_text()
    first = text[:text.index("\n")]
    assert "bf16[500,300]{0,1:T(8,128)(2,1)}" in first and "f32[300,700]{1,0:T(8,128)}" in first, first


@case
def asked_layouts_are_kept():
    x, device = rand(300, 500), SingleDeviceSharding(jax.devices()[0])
    for order in ((0, 1), (1, 0)):
        there = jax.device_put(x, Format(Layout(order), device))
        assert there.format.layout.major_to_minor == order and there.format.layout.tiling == ((8, 128),), there.format
        same(there, x)
        out = jax.jit(lambda v: v * 2, out_shardings=Format(Layout(order), device))(there)
        assert out.format.layout.major_to_minor == order, out.format
        same(out, x * 2)
    left = jax.jit(lambda a, b: a @ b, in_shardings=Format(Layout.AUTO), out_shardings=Format(Layout.AUTO))
    compiled = left.lower(jax.ShapeDtypeStruct((300, 500), np.float32), jax.ShapeDtypeStruct((500, 300), np.float32)).compile()
    a, b = (jax.device_put(v, f) for v, f in zip((x, x.T.copy()), compiled.input_formats[0]))
    close(compiled(a, b), x.astype(np.float64) @ x.T, rtol=1e-4, atol=1e-4)


# ---- the machine

@case(road="env8")
def devices_of_a_torus():
    devices = jax.devices()
    assert [d.coords for d in devices] == [[i % 2, i // 2, 0] for i in range(8)], devices
    for d in devices:
        assert (d.platform, d.device_kind, d.core_on_chip, d.num_cores, d.slice_index) == ("tiledtpu", "TPU v5 lite", 0, 1, 0), d
        assert d.memory_stats()["bytes_limit"] == int(15.75 * (1 << 30)), d.memory_stats()
        assert {m.kind for m in d.addressable_memories()} >= {"device", "pinned_host", "unpinned_host"}
    # JAX arranges meshes by the kind and the coordinates.
    from jax.experimental import mesh_utils
    for shape in ((8,), (4, 2), (2, 4), (2, 2, 2)):
        assert sorted(d.id for d in mesh_utils.create_device_mesh(shape, devices).flat) == list(range(8)), shape
    assert mesh_utils.create_hybrid_device_mesh((4, 2), (1, 1), devices).shape == (4, 2)


@case
def libraries_know_the_machine():
    from jax.experimental.pallas import tpu as pltpu
    info = pltpu.get_tpu_info()
    assert (info.num_lanes, info.num_sublanes, info.num_mxus, info.bf16_ops_per_second) == (128, 8, 4, 197e12), info


@case
def machines_without_devices():
    """Compiled for what is not there: larger, other layouts of shards, other limits."""
    from jax.experimental import topologies
    for chip, kind, count in (("v5p:2x2x2", "TPU v5", 8), ("v4", "TPU v4", 1), ("tpu7x:2x2x1", "TPU7x", 4), ("v6e:4x4", "TPU v6 lite", 16)):
        topology = topologies.get_topology_desc(chip, platform="tiledtpu")
        assert len(topology.devices) == count and topology.devices[-1].device_kind == kind, topology.devices
        mesh = Mesh(np.array(topology.devices), ("x",))
        x = jax.ShapeDtypeStruct((128 * count, 64), np.float32, sharding=NamedSharding(mesh, P("x")))
        compiled = jax.jit(lambda v: v @ v.T).lower(x).compile()
        assert compiled.memory_analysis().argument_size_in_bytes == 128 * 64 * 4, compiled.memory_analysis()


@case
def too_large_for_one_and_not_for_another():
    """A tensor of 1 GiB that its layout makes 32 GiB large."""
    from jax.experimental import topologies
    x = jax.ShapeDtypeStruct((8388608, 8, 4), np.float32)

    def lowered(chip):
        device = topologies.get_topology_desc(chip, platform="tiledtpu").devices[0]
        asked = Format(Layout((0, 1, 2)), SingleDeviceSharding(device))
        return jax.jit(lambda v: v * 2, in_shardings=asked, out_shardings=asked).lower(x)
    refused(lambda: lowered("v5e").compile(), "RESOURCE_EXHAUSTED", "hbm", "f32[8388608,8,4]", "32.0x")
    assert lowered("v5p").compile().memory_analysis().argument_size_in_bytes == 1 << 35


# ---- rounding

@case
def products_are_rounded_as_the_matrix_unit_does():
    a, b = rand(40, 300), rand(300, 50, seed=1)
    exact, rounded = a.astype(np.float64) @ b, round_to_bf16(a) @ round_to_bf16(b)
    scale = np.abs(a).astype(np.float64) @ np.abs(b)
    with jax.default_matmul_precision("default"):
        one = np.asarray(jax.jit(jnp.matmul)(a, b), np.float64)
        same(jax.jit(jnp.matmul)(a, b), jnp.einsum("ij,jk->ik", a, b))
    assert np.max(np.abs(one - rounded) / scale) < 300 * 2.0**-24, "one pass adds products of bfloat16 in f32"
    assert np.max(np.abs(one - exact) / scale) > 2.0**-14, "one pass is as coarse as bfloat16"
    for precision, bound in (("high", 2.0**-15), ("highest", 2.0**-20)):
        got = np.asarray(jnp.matmul(a, b, precision=precision), np.float64)
        assert np.max(np.abs(got - exact) / scale) < bound, precision
    c = jax.jit(lambda x, y: lax.dot(x, y, preferred_element_type=jnp.float32))(a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16))
    same(c, one.astype(np.float32))


@case
def integers_and_random_bits_are_those_of_a_cpu():
    cpu = jax.devices("cpu")[0]

    def everywhere(f, *args):
        there = jax.jit(f)(*args)
        here = jax.jit(f)(*jax.device_put(args, cpu))
        jax.tree.map(same, there, here)
    x = (np.arange(2000).reshape(40, 50) * 7919 % 251 - 125).astype(np.int32)
    everywhere(lambda v: (v @ v.T, v // 7, jnp.sort(v, 1), jnp.cumsum(v, 0), lax.top_k(v, 5)), x)
    everywhere(lambda v: v.astype(jnp.int8) @ v.astype(jnp.int8).T, x)
    key = np.array([17, 4], np.uint32)
    everywhere(lambda k: (jax.random.bits(k, (33, 5)), jax.random.randint(k, (100,), -5, 1000), jax.random.split(k, 7),
                          jax.random.permutation(k, 100), jax.random.uniform(k, (77,)), jax.random.bernoulli(k, 0.3, (50,))), key)


# ---- what JAX does by the platform's name

@case
def donated_memory_is_used_again():
    device = jax.devices()[0]
    f = jax.jit(lambda a: a * 2 + 1, donate_argnums=0)
    a = jax.block_until_ready(jax.device_put(rand(500, 700)))
    for _ in range(3):
        place, before = a.unsafe_buffer_pointer(), device.memory_stats()["bytes_in_use"]
        b = jax.block_until_ready(f(a))
        assert a.is_deleted() and b.unsafe_buffer_pointer() == place, "the result lies elsewhere"
        assert device.memory_stats()["bytes_in_use"] == before
        a = b
    want = rand(500, 700).astype(np.float64)
    for _ in range(3):
        want = want * 2 + 1
    close(a, want)


@case(road="env8")
def callbacks_of_several_devices():
    """Once for the program where it is one, on every shard where the region is manual."""
    from jax.experimental import io_callback
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
    x = jax.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), NamedSharding(mesh, P("x", "y")))
    seen = []

    @jax.jit
    def f(v):
        io_callback(lambda total: seen.append(float(total)), None, v.sum(), ordered=True)
        return jax.pure_callback(lambda w: np.asarray(w) * 2, jax.ShapeDtypeStruct(v.shape, v.dtype), v)
    y = f(f(x))
    close(y, np.arange(64).reshape(8, 8) * 4)
    jax.effects_barrier()
    assert seen == [2016.0, 4032.0], seen
    parts = []
    g = jax.jit(jax.shard_map(lambda v: (jax.debug.callback(lambda w: parts.append(float(w)), v.sum()), v + 1)[1],
                              mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y")))
    close(g(x), np.arange(64).reshape(8, 8) + 1)
    jax.effects_barrier()
    host = np.arange(64).reshape(2, 4, 4, 2)
    assert sorted(parts) == sorted(host.sum((1, 3)).ravel().tolist()), parts

    @jax.jit
    def loop(v):
        def body(i, c):
            io_callback(lambda n: seen.append(int(n)), None, i, ordered=True)
            return c + 1
        return lax.fori_loop(0, 4, body, v)
    seen.clear()
    close(loop(x), np.arange(64).reshape(8, 8) + 4)
    jax.effects_barrier()
    assert seen == [0, 1, 2, 3], seen


@case
def a_failing_callback_fails_its_program_alone():
    def bad(v):
        raise ValueError("this one does not want to")
    f = jax.jit(lambda v: jax.pure_callback(bad, jax.ShapeDtypeStruct(v.shape, v.dtype), v) + 1)
    refused(lambda: f(rand(4)), "this one does not want to")
    close(jax.jit(lambda v: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(v.shape, v.dtype), v))(rand(4)), np.sin(rand(4)))


@case
def linear_algebra_of_the_host():
    a = rand(12, 12) + 4 * np.eye(12, dtype=np.float32)
    spd = a @ a.T
    q, r = jnp.linalg.qr(a)
    close(q @ r, a, rtol=1e-4, atol=1e-4)
    p, l, u = jax.scipy.linalg.lu(a)
    close(p @ l @ u, a, rtol=1e-4, atol=1e-4)
    w, v = jnp.linalg.eigh(spd)
    close(w, np.linalg.eigvalsh(spd.astype(np.float64)), rtol=1e-4)
    close((v * w) @ v.T, spd, rtol=1e-3, atol=1e-3)
    u, s, vt = jnp.linalg.svd(a)
    close((u * s) @ vt, a, rtol=1e-3, atol=1e-4)
    close(jnp.linalg.cholesky(spd), np.linalg.cholesky(spd.astype(np.float64)), rtol=1e-3, atol=1e-4)
    close(np.sort_complex(np.asarray(jnp.linalg.eigvals(a))), np.sort_complex(np.linalg.eigvals(a)), rtol=1e-3, atol=1e-3)
    close(jnp.linalg.solve(a, a[0]), np.linalg.solve(a.astype(np.float64), a[0]), rtol=1e-3, atol=1e-4)
    close(jax.scipy.linalg.expm(a / 8), jax.scipy.linalg.expm(jax.device_put(a / 8, jax.devices("cpu")[0])), rtol=1e-4)
    t, z = jax.scipy.linalg.schur(a)
    close(z @ t @ z.T, a, rtol=1e-3, atol=1e-3)
    close(jnp.linalg.det(a), np.linalg.det(a.astype(np.float64)), rtol=1e-3)
    from jax.experimental.sparse.linalg import spsolve
    close(spsolve(jnp.full(3, 2.0), jnp.arange(3), jnp.arange(4), jnp.ones(3)), np.full(3, 0.5))


@case
def moves_to_the_hosts_memory_and_back():
    x = rand(30, 20)
    host = SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
    there = jax.device_put(x, host)
    assert there.sharding.memory_kind == "pinned_host"
    same(there, x)
    out = jax.jit(lambda v: v * 2, out_shardings=host)(x)
    assert out.sharding.memory_kind == "pinned_host"
    same(out, x * 2)
    f = jax.jit(lambda v: jax.device_put(jax.device_put(v * 2, jax.memory.Space.Host), jax.memory.Space.Device) + 1)
    close(f(x), x * 2 + 1)


@case
def exported_for_a_tpu():
    """What somebody exported for TPUs runs, when JAX is told not to mind the name."""
    from jax import export
    x = rand(5, 6)
    unminded = [export.DisabledSafetyCheck.platform()]
    data = export.export(jax.jit(lambda v: jnp.sin(v) @ v.T), platforms=["tpu"], disabled_checks=unminded)(x).serialize()
    close(jax.jit(export.deserialize(data).call)(x), np.sin(x) @ x.T, rtol=1e-4)
    own = export.export(jax.jit(lambda v: jnp.sin(v) @ v.T))(x)
    assert own.platforms == ("tiledtpu",)
    close(jax.jit(own.call)(x), np.sin(x) @ x.T, rtol=1e-4)


@case
def kernels_in_pallas():
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def kernel(a, b, out, total):
        @pl.when(pl.program_id(2) == 0)
        def _():
            total[...] = jnp.zeros_like(total)
        total[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)
        out[...] = total[...]
    a, b = rand(128, 256), rand(256, 128, seed=1)
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((128, 128), np.float32), grid=(1, 1, 2),
                          in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
                          out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)])
    close(jax.jit(call)(a, b), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


@case
def profiled():
    x = rand(50, 50)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            close(jax.jit(lambda v: v @ v)(x), x.astype(np.float64) @ x, rtol=1e-4, atol=1e-4)
        assert any(name.endswith(".xplane.pb") for _, _, names in os.walk(folder) for name in names)
    assert len(jax.profiler.device_memory_profile()) > 100


@case
def other_platforms_are_left_alone():
    from jax._src.interpreters import mlir
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        close(jnp.linalg.eigvalsh(np.diag(np.float32([3, 1, 2]))), np.float32([1, 2, 3]))
        close(jax.jit(lambda v: jax.pure_callback(np.cos, jax.ShapeDtypeStruct(v.shape, v.dtype), v))(rand(4)), np.cos(rand(4)))
    assert type(mlir._platform_specific_lowerings["cpu"]) is dict, "JAX's own rules were replaced"
