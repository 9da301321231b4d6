"""What JAX asks of the runtime: donation, devices, executables as objects, the compile cache, callbacks."""
import pickle
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

from . import case, close, rand, same


@case
def donation():
    f = jax.jit(lambda a, b: (a + b, b * 2), donate_argnums=0)
    for _ in range(3):
        a, b = jax.device_put(rand(300, 300)), jax.device_put(rand(300, 300, seed=1))
        s, d = f(a, b)
        close(s, rand(300, 300) + rand(300, 300, seed=1))
        close(d, rand(300, 300, seed=1) * 2)
        assert a.is_deleted() and not b.is_deleted()
    try:
        f(a, b)
    except (RuntimeError, ValueError) as e:
        assert "delete" in str(e).lower() or "donate" in str(e).lower(), str(e)
    else:
        raise AssertionError("a donated array was accepted again")


@case
def donation_in_a_loop():
    """State handed from step to step stays right, and its memory is reused rather than grown."""
    f = jax.jit(lambda s: {k: v * 0.5 + 1 for k, v in s.items()}, donate_argnums=0)
    state = {k: jax.device_put(rand(50, 7, seed=i)) for i, k in enumerate("abc")}
    want = {k: rand(50, 7, seed=i).astype(np.float64) for i, k in enumerate("abc")}
    for _ in range(20):
        state = f(state)
        want = {k: v * 0.5 + 1 for k, v in want.items()}
    for k in state:
        close(state[k], want[k])


@case
def convolution_weights_in_many_calls():
    """Weights that are passed again and again, read by the host, overwritten in place, and used by two programs."""
    dims = ("NHWC", "HWIO", "NHWC")
    convolve = lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=dims)
    one, other = jax.jit(convolve), jax.jit(lambda x, w: convolve(x * 2, w))
    step = jax.jit(lambda w, s: w * s + 1, donate_argnums=0)
    x, values = rand(2, 9, 9, 16), rand(3, 3, 16, 32, seed=1)

    def want(values, times=1):
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64) * times, (3, 3), axis=(1, 2))
        return np.einsum("nhwcij,ijco->nhwo", windows, values.astype(np.float64))

    w = jax.device_put(values)
    for s in (0.5, -1.5, 0.25):
        for _ in range(3):
            results = [(one(x, w), other(x, w)) for _ in range(3)]
            for a, b in results:
                close(a, want(values), rtol=1e-4, atol=1e-4)
                close(b, want(values, 2), rtol=1e-4, atol=1e-4)
            same(w, values)
        pending = [one(x, w) for _ in range(4)]
        w = step(w, s)
        old, values = values, values * np.float32(s) + np.float32(1)
        for y in pending:
            close(y, want(old), rtol=1e-4, atol=1e-4)
        values = np.array(w)  # as the plugin rounds


@case
def transfers():
    """Every dtype and odd strides go to the device and come back as they were."""
    for t in (np.bool_, np.int8, np.uint16, np.int32, np.float16, np.float32, np.complex64):
        x = (np.arange(24).reshape(2, 3, 4) % 5).astype(t)
        for v in (x, x.transpose(2, 0, 1), x[:, ::2], x[::-1], np.asfortranarray(x), x[:0], x[0, 0, 0]):
            same(jax.device_put(v), v)
    host = np.ones(1000, np.float32)
    there = jnp.array(host)  # a copy; device_put may share the memory
    there.block_until_ready()
    host[:] = 5
    same(there, np.ones(1000, np.float32))


@case
def errors_are_exceptions():
    for f, args, text in ((lambda x: jnp.zeros((1 << 40,)) + x, (1.0,), ""),):
        try:
            jax.block_until_ready(jax.jit(f)(*args))
        except Exception as e:
            assert text in str(e), str(e)
        else:
            raise AssertionError("4 TiB were allocated")
    close(jax.jit(lambda x: x + 1)(rand(3)), rand(3) + 1)


@case(road="env4")
def device_put_between_devices():
    devices = jax.devices()
    assert len(devices) == 4, devices
    x = rand(30, 20)
    at = jax.device_put(x, devices[0])
    for d in devices[1:] + devices[:1]:
        at = jax.device_put(at, d)
        assert at.devices() == {d}
        same(at, x)
    for d in devices:
        got = jax.jit(lambda v: v @ v.T)(jax.device_put(x, d))
        assert got.devices() == {d}
        close(got, x @ x.T)


@case(road="env4")
def sharded_arrays():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    x = rand(8, 5)
    there = jax.device_put(x, spec)
    assert len(there.addressable_shards) == 4
    for shard in there.addressable_shards:
        same(shard.data, x[shard.index])
    same(there, x)
    everywhere = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()))
    same(everywhere.addressable_shards[3].data, x)


@case
def memory_analysis():
    compiled = jax.jit(lambda a, b: jnp.tanh(a @ b) @ b).lower(rand(64, 64), rand(64, 64)).compile()
    stats = compiled.memory_analysis()
    size = 64 * (128 if jax.default_backend() == "tiledtpu" else 64) * 4  # rows of a tile have 128 elements
    assert stats.argument_size_in_bytes == 2 * size, stats
    assert stats.output_size_in_bytes == size, stats
    assert stats.temp_size_in_bytes >= 0, stats
    donated = jax.jit(lambda a: a + 1, donate_argnums=0).lower(rand(64, 64)).compile().memory_analysis()
    assert donated.alias_size_in_bytes == size, donated


@case
def cost_analysis():
    cost = jax.jit(lambda a, b: a @ b).lower(rand(32, 16), rand(16, 8)).compile().cost_analysis()
    assert abs(cost["flops"] - 2 * 32 * 16 * 8) <= 0.1 * cost["flops"], cost


@case
def memory_stats():
    keep = jax.block_until_ready(jax.device_put(rand(512, 512)) + 1)
    stats = jax.devices()[0].memory_stats()
    assert stats["bytes_in_use"] >= keep.nbytes, stats


@case
def as_text():
    compiled = jax.jit(lambda a, b: jnp.sin(a) @ b).lower(rand(3, 4), rand(4, 5)).compile()
    text = compiled.as_text()
    assert "HloModule" in text and "ENTRY" in text and "f32[3,5]" in text and "dot" in text, text[:400]


@case
def arguments_keep_their_names():
    """As the caller wrote them: in the program's text and so in whatever tells of it."""
    f = jax.jit(lambda params, x: jnp.tanh(x @ params["w"] + params["b"][0]))
    text = f.lower({"w": rand(4, 4), "b": [rand(4)]}, rand(2, 4)).compile().as_text()
    for shape, name, called in (("f32[4]", "params__b___0_", "params['b'][0]"), ("f32[4,4]", "params__w__", "params['w']"), ("f32[2,4]", "x", "x")):
        line = next(l for l in text.splitlines() if f"%{name} = {shape}" in l and "parameter(" in l)
        assert f'op_name="{called}"' in line.replace("\\'", "'"), line


@case
def options_that_nobody_knows_are_refused():
    f = jax.jit(lambda a: a + 1).lower(rand(3))
    f.compile(compiler_options={"xla_cpu_enable_fast_math": True, "optimization_level": 1})
    for options, words in [
        ({"fast_maths": True}, "No such compile option: 'fast_maths'"),
        ({"xla_cpu_enable_fast_math": "fast"}, "'fast' is not a valid bool value"),
        ({"xla_dump_max_hlo_modules": 2.5}, "'2.5' is not a valid int32 value"),
    ]:
        try:
            f.compile(compiler_options=options)
        except jax.errors.JaxRuntimeError as e:
            assert "INVALID_ARGUMENT" in str(e) and words in str(e), str(e)
        else:
            raise AssertionError(f"taken: {options}")


@case
def serialize_and_deserialize():
    from jax.experimental import serialize_executable
    a, b = rand(9, 7), rand(7, 5)
    compiled = jax.jit(lambda a, b: {"product": a @ b, "sum": (a + 1).sum()}).lower(a, b).compile()
    payload = pickle.dumps(serialize_executable.serialize(compiled))
    again = serialize_executable.deserialize_and_load(*pickle.loads(payload), execution_devices=jax.devices()[:1])
    got = again(a, b)
    close(got["product"], a @ b)
    close(got["sum"], (a + 1).sum(), rtol=1e-4)


@case
def export_and_call():
    from jax import export
    a = rand(4, 4)
    exported = export.export(jax.jit(lambda v: jnp.cos(v) @ v))(a)
    close(jax.jit(exported.call)(a), np.cos(a) @ a)
    n = export.symbolic_shape("n")[0]
    exported = export.export(jax.jit(lambda v: v.sum(0) * v.shape[0]))(jax.ShapeDtypeStruct((n, 4), np.float32))
    close(jax.jit(exported.call)(rand(5, 4)), rand(5, 4).sum(0) * 5)


@case
def persistent_compile_cache():
    events = []
    jax.monitoring.register_event_listener(lambda event, **kw: events.append(event))
    with tempfile.TemporaryDirectory() as folder:
        try:
            jax.config.update("jax_compilation_cache_dir", folder)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
            x = rand(6, 6)
            for _ in range(2):
                close(jax.jit(lambda v: jnp.sin(v) @ v + 3)(x), np.sin(x) @ x + 3)
                jax.clear_caches()
            hits = events.count("/jax/compilation_cache/cache_hits")
            assert hits >= 1, f"no hit; events: {sorted(set(events))}"
        finally:
            jax.config.update("jax_compilation_cache_dir", None)
            from jax.experimental.compilation_cache import compilation_cache
            compilation_cache.reset_cache()


@case
def many_small_programs():
    """Asynchronous dispatch keeps order: a chain of 2000 calls."""
    f, x = jax.jit(lambda v: v + 1), jnp.float32(0)
    for _ in range(2000):
        x = f(x)
    same(x, np.float32(2000))


@case
def hundred_arguments():
    xs = [np.float32(i) for i in range(100)]
    got = jax.jit(lambda xs: [x * 2 for x in xs])(xs)
    close(np.stack([np.asarray(g) for g in got]), 2 * np.arange(100))


def _callbacks():
    """pure_callback: plain, vmapped, in a scan, with a result in Fortran order; its error reaches Python."""
    x = rand(3, 4)
    shape = jax.ShapeDtypeStruct((3, 4), np.float32)
    call = lambda f, v, s=shape, **kw: jax.pure_callback(f, s, v, **kw)
    close(jax.jit(lambda v: call(lambda a: np.sin(a), v) * 2)(x), np.sin(x) * 2)
    close(jax.jit(jax.vmap(lambda v: call(lambda a: a * 3, v, jax.ShapeDtypeStruct((4,), np.float32), vmap_method="sequential")))(x), x * 3)
    close(jax.jit(lambda v: jax.lax.scan(lambda c, e: (c + call(lambda a: np.square(a), e, jax.ShapeDtypeStruct((4,), np.float32)), None), jnp.zeros(4), v)[0])(x),
          (x.astype(np.float64) ** 2).sum(0))
    close(jax.jit(lambda v: call(lambda a: np.asfortranarray(a + 1), v))(x), x + 1)
    close(jax.jit(lambda v: call(lambda a: np.asarray(jax.jit(lambda b: b * 5)(a)), v))(x), x * 5)  # runs a program from inside

    def fails(a):
        raise ValueError("the callback's own words")

    try:
        jax.block_until_ready(jax.jit(lambda v: call(fails, v))(x))
    except Exception as e:
        assert "the callback's own words" in str(e), str(e)
    else:
        raise AssertionError("a callback's exception was lost")


def _debug_print():
    """jax.debug.print and ordered io_callback: seen once each, in order."""
    from jax.experimental import io_callback
    import contextlib
    import io
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        f = jax.jit(lambda x: (jax.debug.print("x is {x}", x=x), x * 2)[1])
        close(f(np.float32(1.5)), 3)
        jax.effects_barrier()
    assert out.getvalue() == "x is 1.5\n", repr(out.getvalue())
    seen = []
    note = lambda v: seen.append(float(v))

    def body(i, x):
        io_callback(note, None, x, ordered=True)
        return x + 1

    close(jax.jit(lambda x: jax.lax.fori_loop(0, 5, body, x))(np.float32(10)), 15)
    jax.effects_barrier()
    assert seen == [10, 11, 12, 13, 14], seen


@case(road="package_cpu", only="cpu")
def effects_come_before_the_call_returns():
    """One device: as on JAX's own CPU client, a callback has run and its error is raised when the call is over."""
    from jax.experimental import io_callback
    import time
    seen = []

    def slowly(v):
        time.sleep(0.05)
        seen.append(int(v))

    def fails(v):
        raise ValueError(f"no {int(v)}")

    for ordered in (False, True):
        seen.clear()
        jax.jit(lambda x: io_callback(slowly, None, x, ordered=ordered))(3)
        assert seen == [3], seen
        refused = jax.jit(lambda x: io_callback(fails, None, x, ordered=ordered))
        for attempt in range(2):
            try:
                refused(attempt)
            except jax.errors.JaxRuntimeError as e:
                assert f"no {attempt}" in str(e), str(e)
            else:
                raise AssertionError("the error did not come with the call")
        jax.effects_barrier()  # nothing of it is left


@case(road="package_cpu", only="cpu|reference")
def callback_in_place():
    """A result that lies where its operand lies holds the operand when the callback begins; the argument stays."""
    from jax.experimental.buffer_callback import buffer_callback

    def add_one(ctx, out, arg):
        assert np.asarray(arg).ctypes.data == np.asarray(out).ctypes.data
        np.asarray(out)[...] += 1

    x = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
    f = buffer_callback(add_one, jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0})
    want = np.arange(12).reshape(3, 4)
    close(f(x), want + 1)
    close(jax.jit(lambda a: f(a * 2) + a)(x), want * 3 + 1)
    close(x, want)


@case(road="package")
def pure_callback():
    _callbacks()


@case(road="package_cpu")
def pure_callback_as_cpu():
    _callbacks()


class Bfloat16:
    """A producer of what numpy has no DLPack for: 16-bit integers whose capsule says that they are bfloat16."""

    def __init__(self, values):
        import ml_dtypes
        self.bits = np.asarray(values, ml_dtypes.bfloat16).view(np.uint16)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **named):
        import ctypes
        capsule = self.bits.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + 20).value = 4  # DLTensor.dtype.code
        return capsule


@case(road="package_cpu", only="cpu|reference")
def dlpack_copies():
    """Arrays that cannot be taken in place, or must not: any address, any order of dimensions."""
    for t in (np.bool_, np.int8, np.uint16, np.float16, np.float32, np.int64, np.float64, np.complex64, np.complex128):
        plain = (np.arange(60) % 7).astype(t)
        odd = np.zeros(61 * plain.itemsize + 64, np.uint8)
        odd = odd[(-odd.ctypes.data) % 64 + plain.itemsize:][:60 * plain.itemsize].view(t)  # never at 64 bytes
        odd[...] = plain
        for x in (odd, odd.reshape(3, 4, 5), odd.reshape(3, 4, 5).transpose(2, 0, 1), odd[7:8].reshape(()), odd[:0].reshape(0, 3)):
            for copy in (None, True):
                got = jnp.from_dlpack(x, copy=copy)
                assert got.dtype == jax.dtypes.canonicalize_dtype(t) and got.shape == x.shape, (t, x.shape)
                same(got, x.astype(got.dtype))
        got = jnp.from_dlpack(odd, copy=True)
        odd[...] = 0
        same(got, plain.astype(got.dtype))
        odd[...] = plain
        try:  # the CPU plugin takes views at any address of an element, the reference plugin at 64 bytes
            same(jnp.from_dlpack(odd, copy=False), plain.astype(got.dtype))
        except ValueError as e:
            assert "requires a copy" in str(e), e
    got = jnp.from_dlpack(Bfloat16([1.5, -2, 3]), copy=True)
    assert got.dtype == jnp.bfloat16
    same(got.astype(np.float32), np.array([1.5, -2, 3], np.float32))


@case(road="package")
def debug_print():
    _debug_print()


@case(road="package_cpu")
def debug_print_as_cpu():
    _debug_print()


@case(road="package")
def callback_element_types():
    import ml_dtypes
    for t in (np.bool_, np.int8, np.uint32, np.float16, ml_dtypes.bfloat16, np.complex64, ml_dtypes.float8_e4m3fn):
        x = (np.arange(6).reshape(2, 3) % 2).astype(t)
        same(jax.jit(lambda v: jax.pure_callback(lambda a: a.T, jax.ShapeDtypeStruct((3, 2), t), v))(x), x.T)


@case(road="discovered")
def callbacks_by_discovery():
    _callbacks()
    _debug_print()
    a = rand(5, 5)
    a = a @ a.T + 5 * np.eye(5, dtype=np.float32)
    close(jnp.linalg.cholesky(a), np.linalg.cholesky(a))
    # A row of denormals is a row of zeros to LAPACK under XLA, and so it is here.
    a[-1] *= np.float32(1e-40)
    assert not np.isfinite(np.asarray(jnp.linalg.inv(a))).any()


@case(road="discovered", only="cpu|reference")
def buffer_callback_has_no_stream():
    from jax.experimental import buffer_callback
    if jax.default_backend() == "tiledtpu":  # JAX has none on a TPU either
        try:
            buffer_callback.buffer_callback(lambda ctx, out, x: None, jax.ShapeDtypeStruct((3,), np.float32))(rand(3))
        except ValueError as e:
            assert "not supported on tiledtpu" in str(e), str(e)
            return
        raise AssertionError("a buffer callback was accepted")
    seen = []

    def double(ctx, out, x):
        try:
            ctx.stream
        except jax.errors.JaxRuntimeError as e:
            seen.append(str(e))
        np.asarray(out)[...] = np.asarray(x) * 2

    x = rand(3, 4)
    close(buffer_callback.buffer_callback(double, jax.ShapeDtypeStruct(x.shape, x.dtype))(x), x * 2)
    assert len(seen) == 1 and "GPU context is not available" in seen[0], seen


@case(road="overtaken")
def handlers_after_another_sink():
    a = rand(5, 5)
    a = a @ a.T + 5 * np.eye(5, dtype=np.float32)
    close(jnp.linalg.cholesky(a), np.linalg.cholesky(a))
    close(jnp.linalg.eigvalsh(a), np.linalg.eigvalsh(a), atol=1e-4)
    _callbacks()


@case
def dumped_programs():
    """xla_dump_to: the compiled program as text and as a proto."""
    import glob
    with tempfile.TemporaryDirectory() as folder:
        for k, more in enumerate(({}, {"xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": True})):
            to = f"{folder}/{k}"
            close(jax.jit(lambda x: x * 3, compiler_options={"xla_dump_to": to, **more})(rand(4)), rand(4) * 3)
            text, = glob.glob(f"{to}/module_*after_optimizations.txt")
            assert "HloModule" in open(text).read()
            assert len(glob.glob(f"{to}/*.hlo.pb")) == k
