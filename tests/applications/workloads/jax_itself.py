"""What JAX itself offers around programs: sparse arrays, export, caches, profiler, devices, donation, callbacks, random numbers, special functions."""
from protocol import workload


@workload(library="jax.experimental.sparse", rtol=1e-5, why="sums of products in float32")
def sparse_bcoo():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import sparse
    rng = np.random.default_rng(0)

    def random_matrix(m, n):
        return jnp.asarray(rng.standard_normal((m, n)).astype(np.float32) * (rng.random((m, n)) < 0.1))

    a, b, dense = random_matrix(60, 50), random_matrix(50, 40), jnp.asarray(rng.standard_normal((50, 8)).astype(np.float32))
    sa, sb = sparse.BCOO.fromdense(a), sparse.BCOO.fromdense(b)
    product = jax.jit(lambda m, d: m @ d)
    square = jax.jit(lambda m, k: (m @ k).todense())
    gradient = jax.jit(jax.grad(lambda v: jnp.sum(jnp.sin(sparse.BCOO((v, sa.indices), shape=sa.shape) @ dense))))
    sparsified = jax.jit(sparse.sparsify(lambda m, d: jnp.sum((m * 2.0) @ d, axis=0)))
    csr = sparse.BCSR.fromdense(a)
    batched = sparse.BCOO.fromdense(jnp.stack([a, 2 * a]), n_batch=1)

    def step():
        return {"product": product(sa, dense), "square": square(sa, sb), "gradient": gradient(sa.data), "sparsified": sparsified(sa, dense),
                "csr": jax.jit(lambda m, d: m @ d)(csr, dense), "sum": sa.sum(1).todense(), "transposed": sa.T.todense(), "slice": sa[3:20, 5:30].todense(),
                "added": (sa + sparse.BCOO.fromdense(a * 0.5)).sum_duplicates(nse=400).todense(), "batched": sparse.bcoo_dot_general(batched, jnp.stack([dense, dense]), dimension_numbers=(([2], [1]), ([0], [0]))),
                "cg": jax.scipy.sparse.linalg.cg(lambda v: sa.T @ (sa @ v) + v, dense[:, 0])[0]}

    return step


@workload(library="jax.export", rtol=1e-6, why="the same program before and after serialisation, float32")
def export_serialize():
    import jax
    import jax.numpy as jnp
    from jax import export

    def f(x, y):
        return jnp.tanh(x @ y) + jax.lax.fori_loop(0, 3, lambda i, v: v * 1.5, x.sum()), {"s": jnp.sort(y, 0)}

    def step():
        x, y = jnp.linspace(-1, 1, 12).reshape(3, 4), jnp.cos(jnp.arange(8.0)).reshape(4, 2)
        blob = export.export(jax.jit(f))(x, y).serialize(vjp_order=1)
        back = export.deserialize(blob)
        out, extra = jax.jit(back.call)(x, y)
        gradient = jax.grad(lambda x: jnp.sum(back.call(x, y)[0]))(x)
        a, b = export.symbolic_shape("a, b")
        poly = export.deserialize(export.export(jax.jit(lambda v: (v.sum(0), jnp.concatenate([v, v * 2]).reshape(-1))))(jax.ShapeDtypeStruct((a, b), jnp.float32)).serialize())
        return {"out": out, "sorted": extra["s"], "gradient": gradient, "poly": poly.call(x)[0], "poly_other": poly.call(jnp.ones((5, 2)))[1]}

    return step


@workload(library="jax compilation cache", rtol=1e-6, why="the same program, compiled and read back")
def compilation_cache():
    import os

    import jax
    import jax.numpy as jnp
    counter = itertools.count()

    def step():
        folder = os.path.abspath(f"cache{next(counter)}")
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        from jax.experimental.compilation_cache import compilation_cache as cc
        cc.reset_cache()
        x = jnp.linspace(0, 1, 64).reshape(8, 8)
        def f(x):
            return jax.lax.scan(lambda c, v: (jnp.tanh(c @ x) + v, c.sum()), x, jnp.arange(4.0)), jnp.linalg.cholesky(x @ x.T + jnp.eye(8))
        first = jax.jit(f)(x)
        entries = len([n for n in os.listdir(folder) if n.endswith("-cache")])
        hits = []
        jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event == "/jax/compilation_cache/cache_hits" else None)
        jax.clear_caches()
        second = jax.jit(f)(x)
        jax.config.update("jax_compilation_cache_dir", None)
        cc.reset_cache()
        same = all(bool((a == b).all()) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second)))
        return {"out": second[0][0], "history": second[0][1], "cholesky": second[1], "stored": entries > 0, "found_again": len(hits) > 0, "same_bits": same}

    return step


@workload(library="jax.profiler", rtol=1e-5, why="a product in float32; the trace has to exist and to name the program")
def profiler_trace():
    import glob
    import gzip
    import itertools
    import os

    import jax
    import jax.numpy as jnp
    counter = itertools.count()

    @jax.jit
    def named_program(x):
        return jnp.tanh(x @ x).sum(0)

    def step():
        folder = os.path.abspath(f"trace{next(counter)}")
        x = jnp.linspace(-1, 1, 4096).reshape(64, 64)
        with jax.profiler.trace(folder, create_perfetto_trace=False):
            with jax.profiler.TraceAnnotation("mark"):
                for i in range(3):
                    with jax.profiler.StepTraceAnnotation("train", step_num=i):
                        out = named_program(x).block_until_ready()
        found = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
        text = gzip.open(found[0], "rt").read() if found else ""
        memory = jax.profiler.device_memory_profile()
        return {"out": out, "written": len(found) == 1, "mark": "mark" in text, "program": "named_program" in text, "memory_profile": len(memory) > 100}

    return step


@workload(library="jax AOT", rtol=1e-6, why="the same program compiled ahead of time; its analyses have to answer")
def ahead_of_time():
    import jax
    import jax.numpy as jnp
    from jax.experimental import serialize_executable as se

    def step():
        lowered = jax.jit(lambda x, y: (x @ y, jnp.sum(x)), donate_argnums=()).lower(jnp.ones((16, 8)), jnp.ones((8, 4)))
        compiled = lowered.compile()
        payload, tin, tout = se.serialize(compiled)
        loaded = se.deserialize_and_load(payload, tin, tout)
        x, y = jnp.arange(128.0).reshape(16, 8), jnp.arange(32.0).reshape(8, 4)
        cost, memory = compiled.cost_analysis(), compiled.memory_analysis()
        return {"compiled": compiled(x, y)[0], "loaded": loaded(x, y)[0], "flops_known": cost["flops"] >= 1024, "arguments": memory.argument_size_in_bytes,
                "text": "ENTRY" in compiled.as_text() or len(compiled.as_text()) > 0}

    return step


@workload(library="jax several devices", devices=8, rtol=1e-3, why="sums over shards in another order, float32, 4 steps")
def sharded_training():
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Dense(64, kernel_init=nn.with_partitioning(nn.initializers.lecun_normal(), (None, "model")))(x)
            return nn.Dense(8, kernel_init=nn.with_partitioning(nn.initializers.lecun_normal(), ("model", None)))(nn.relu(x))

    net, optimiser = Net(), optax.adam(1e-2)
    x = jax.device_put(np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32), NamedSharding(mesh, P("data", None)))
    shapes = jax.eval_shape(net.init, jax.random.key(0), x)
    shardings = jax.tree.map(lambda s: NamedSharding(mesh, s), nn.get_partition_spec(shapes))
    init = jax.jit(lambda k: net.init(k, x), out_shardings=shardings)

    @jax.jit
    def update(p, state):
        value, gradients = jax.value_and_grad(lambda p: jnp.mean((net.apply(p, x) - x[:, :8]) ** 2))(p)
        updates, state = optimiser.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, value

    def step():
        p = init(jax.random.key(0))
        state = jax.jit(optimiser.init)(p)
        losses = []
        for _ in range(4):
            p, state, value = update(p, state)
            losses.append(value)
        leaves = jax.tree.leaves(p)
        return {"losses": jnp.stack(losses), **{f"p{i}": leaf for i, leaf in enumerate(leaves)}}

    return step


@workload(library="jax several devices", devices=8, rtol=1e-4, why="collectives in float32")
def shard_map_collectives():
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P
    mesh = Mesh(jax.devices(), ("i",))

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=(P("i"), P(None, "i")), out_specs=(P("i"), P(), P(None, "i"), P("i")))
    def run(x, w):
        total = jax.lax.psum(jnp.sum(x), "i")
        ring = jax.lax.fori_loop(0, 8, lambda k, v: jax.lax.ppermute(v, "i", [(j, (j + 1) % 8) for j in range(8)]) + 0.1 * jax.lax.axis_index("i"), x)
        gathered = jax.lax.all_gather(x, "i", tiled=True)
        scattered = jax.lax.psum_scatter(gathered * jax.lax.axis_index("i"), "i", tiled=True)
        swapped = jax.lax.all_to_all(x.reshape(8, -1), "i", 0, 0, tiled=True)
        return ring + scattered, total, gathered @ w, swapped

    pm = jax.pmap(lambda x: jax.lax.pmean(jnp.sin(x), "d") + x, axis_name="d")

    def step():
        x = jax.device_put(jax.random.normal(jax.random.key(0), (64, 4)), NamedSharding(mesh, P("i")))
        w = jax.random.normal(jax.random.key(1), (4, 16))
        a, total, product, swapped = run(x, w)
        return {"ring": a, "total": total, "product": product, "swapped": swapped, "pmap": pm(jnp.arange(16.0).reshape(8, 2))}

    return step


@workload(library="jax donation", rtol=1e-5, why="200 updates in place, float32")
def donated_loops():
    import functools

    import jax
    import jax.numpy as jnp

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def update(table, moments, i):
        row = jnp.sin(table[i % 16] + i)
        table = table.at[i % 16].set(row).at[:, 0].add(0.01)
        return table, {"m": 0.9 * moments["m"] + table.sum(0), "n": moments["n"] + 1}

    @functools.partial(jax.jit, donate_argnums=0)
    def loop(v):
        return jax.lax.fori_loop(0, 10, lambda i, s: (s[1], s[0] * 0.5 + i), v)

    def step():
        table, moments = jnp.zeros((16, 8)), {"m": jnp.zeros(8), "n": jnp.int32(0)}
        for i in range(200):
            table, moments = update(table, moments, i)
        deleted = jnp.ones(4)
        a, b = loop((deleted, jnp.zeros(4)))
        return {"table": table, "m": moments["m"], "n": moments["n"], "a": a, "b": b, "was_deleted": deleted.is_deleted()}

    return step


@workload(library="jax callbacks", rtol=1e-6, why="numpy computes the same on both clients")
def python_callbacks():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import io_callback

    def step():
        seen = []

        @jax.jit
        def run(x):
            y = jax.pure_callback(lambda v: np.sort(v)[::-1].copy(), jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential")

            def body(i, c):
                io_callback(lambda i, v: seen.append((int(i), float(v))), None, i, c.sum(), ordered=True)
                return c * 1.5
            z = jax.lax.fori_loop(0, 4, body, y)
            jax.debug.callback(lambda v: seen.append((100, float(v))), z[0])
            return jnp.where(z > 2, jax.vmap(lambda v: jax.pure_callback(np.cbrt, jax.ShapeDtypeStruct((), np.float32), v, vmap_method="expand_dims"))(z), z)

        out = run(jnp.array([0.3, 2.0, 1.0]))
        jax.effects_barrier()
        try:
            jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(lambda v: 1 / 0, jax.ShapeDtypeStruct((), np.float32), x))(1.0))
            raised = False
        except Exception as e:
            raised = "division by zero" in str(e)
        ordered = [i for i, _ in seen if i < 100]
        return {"out": out, "order": np.array(ordered), "values": np.array([v for _, v in sorted(seen)], np.float32), "raised": raised}

    return step


@workload(library="jax.random", rtol=2e-5, atol=1e-5, why="bits are exact; what is made of them goes through float32 functions")
def random_distributions():
    import jax
    import jax.numpy as jnp
    r = jax.random

    @jax.jit
    def run(k):
        n = (50,)
        return {
            "bits": r.bits(k, n), "randint": r.randint(k, n, -5, 1000), "permutation": r.permutation(k, 100), "uniform": r.uniform(k, n), "normal": r.normal(k, n), "bernoulli": r.bernoulli(k, 0.3, n),
            "categorical": r.categorical(k, jnp.arange(5.0), shape=n), "choice": r.choice(k, 20, (7,), replace=False, p=jnp.arange(1.0, 21) / 210), "gamma": r.gamma(k, 1.7, n), "beta": r.beta(k, 2.0, 3.0, n),
            "dirichlet": r.dirichlet(k, jnp.ones(4), (6,)), "exponential": r.exponential(k, n), "gumbel": r.gumbel(k, n), "laplace": r.laplace(k, n), "logistic": r.logistic(k, n), "cauchy": r.cauchy(k, n),
            "truncated": r.truncated_normal(k, -1, 2, n), "poisson": r.poisson(k, 3.3, n), "binomial": r.binomial(k, 12, 0.4, n), "student": r.t(k, 3.0, n), "weibull": r.weibull_min(k, 1.0, 2.0, n),
            "rademacher": r.rademacher(k, n), "maxwell": r.maxwell(k, n), "pareto": r.pareto(k, 2.0, n), "multivariate": r.multivariate_normal(k, jnp.zeros(3), jnp.eye(3) + 0.3, (5,)),
            "ball": r.ball(k, 3, shape=(5,)), "orthogonal": jnp.abs(r.orthogonal(k, 4)), "geometric": r.geometric(k, 0.3, n), "triangular": r.triangular(k, 0, 0.4, 1, n), "wald": r.wald(k, 1.0, n),
            "rbg": r.uniform(r.key(7, impl="rbg"), n), "fold": r.key_data(r.fold_in(k, 12)),
        }

    return lambda: run(r.key(42))


@workload(library="jax.scipy", rtol=1e-10, atol=1e-10, x64=True, why="special functions and distributions in double precision")
def scipy_special_x64():
    import jax
    import jax.numpy as jnp
    import jax.scipy as jsp
    s = jsp.special
    x = jnp.linspace(0.05, 4.0, 40)

    @jax.jit
    def run(x):
        y = x / 4.1
        return {
            "gammaln": s.gammaln(x), "digamma": s.digamma(x), "polygamma": s.polygamma(2, x), "zeta": s.zeta(x + 1.1, 1.3), "erf": s.erf(x), "erfc": s.erfc(x), "erfinv": s.erfinv(y), "ndtri": s.ndtri(y), "log_ndtr": s.log_ndtr(-x),
            "gammainc": s.gammainc(1.7, x), "gammaincc": s.gammaincc(1.7, x), "betainc": s.betainc(1.2, 2.3, y), "betaln": s.betaln(x, 1.5), "i0": s.i0(x), "i1e": s.i1e(x), "expi": s.expi(x), "exp1": s.exp1(x), "bernoulli": s.bernoulli(8),
            "spence": s.spence(x), "logit": s.logit(y), "xlogy": s.xlogy(x, y), "entr": s.entr(y), "logsumexp": s.logsumexp(x), "multigammaln": s.multigammaln(x + 2, 3), "factorial": s.factorial(x), "hyp1f1": s.hyp1f1(1.2, 2.3, x),
            "norm": jsp.stats.norm.logcdf(x), "t": jsp.stats.t.logpdf(x, 3.0), "gamma": jsp.stats.gamma.cdf(x, 2.0), "kde": jsp.stats.gaussian_kde(x)(y), "nbinom": jsp.stats.nbinom.logpmf(jnp.arange(6), 3, 0.4),
            "convolve": jsp.signal.fftconvolve(x, y), "welch": jsp.signal.welch(x, nperseg=16)[1], "detrend": jsp.signal.detrend(x * x), "dct": jsp.fft.dct(x), "map": jsp.ndimage.map_coordinates(jnp.outer(x, x), [y * 9, x], 1),
            "interp": jsp.interpolate.RegularGridInterpolator((x, x), jnp.outer(x, x))(jnp.stack([y + 0.1, y + 0.2], -1)), "trapezoid": jsp.integrate.trapezoid(jnp.sin(x), x),
        }

    gradient = jax.jit(jax.vmap(jax.grad(lambda v: s.gammaln(v) + s.erf(v) + s.gammainc(1.7, v) + s.betainc(1.2, 2.3, v / 5))))
    return lambda: {**run(x), "gradient": gradient(x)}


@workload(library="jax.numpy.linalg", rtol=1e-9, atol=1e-9, x64=True, why="factorizations in double precision, compared by what does not depend on signs")
def linear_algebra_complex_x64():
    import jax
    import jax.numpy as jnp
    import jax.scipy.linalg as sl
    a = jax.random.normal(jax.random.key(0), (3, 12, 12)) + 1j * jax.random.normal(jax.random.key(1), (3, 12, 12))
    hermitian = a @ a.conj().swapaxes(-1, -2) + jnp.eye(12)
    real = a.real

    @jax.jit
    def run(a, h, r):
        q, t = jnp.linalg.qr(a)
        w, v = jnp.linalg.eigh(h)
        u, s, vh = jnp.linalg.svd(a, full_matrices=False)
        values = jnp.sort_complex(jnp.linalg.eigvals(a))
        lu, _ = sl.lu_factor(r[0])
        schur, z = sl.schur(r[0])
        return {"qr": q @ t, "w": w, "eigh": (v * w[..., None, :]) @ v.conj().swapaxes(-1, -2), "s": s, "svd": (u * s[..., None, :]) @ vh, "eigvals": values, "det": jnp.linalg.det(a), "inv": jnp.linalg.inv(h),
                "slogdet": jnp.linalg.slogdet(r)[1], "cholesky": jnp.linalg.cholesky(h), "solve": jnp.linalg.solve(a, h), "pinv": jnp.linalg.pinv(r), "expm": sl.expm(r[0] / 8), "lu": lu, "schur": z @ schur @ z.T,
                "sqrtm": sl.sqrtm(h[0]), "lstsq": jnp.linalg.lstsq(r[0][:, :5], r[1])[0], "toeplitz": sl.toeplitz(r[0][0]), "triangular": sl.solve_triangular(t[0], a[0]), "tridiagonal": sl.eigh_tridiagonal(r[0][0], r[0][1][:-1], eigvals_only=True),
                "polar": sl.polar(r[0])[1], "matrix_power": jnp.linalg.matrix_power(a / 4, 5), "fft": jnp.fft.fftn(a), "irfft": jnp.fft.irfft(a[0]), "roots": jnp.sort_complex(jnp.roots(jnp.array([1.0, -2.0, 3.0, 1.0]), strip_zeros=False))}

    gradient = jax.jit(jax.grad(lambda h: jnp.sum(jnp.linalg.eigh(h)[0] ** 2) + jnp.real(jnp.linalg.slogdet(h)[1]).sum()))
    return lambda: {**run(a, hermitian, real), "gradient": gradient(hermitian)}


@workload(library="jax.image", rtol=1e-4, why="resampling and convolutions in float32")
def image_and_nn_functions():
    import jax
    import jax.numpy as jnp
    x = jax.random.normal(jax.random.key(0), (2, 17, 23, 4))

    @jax.jit
    def run(x):
        out = {m: jax.image.resize(x, (2, 30, 11, 4), m) for m in ("nearest", "linear", "cubic", "lanczos3")}
        q = x.reshape(2, 17, 23, 4)
        out["attention"] = jax.nn.dot_product_attention(q, q, q, is_causal=True)
        out["conv"] = jax.lax.conv_general_dilated(x, jnp.ones((3, 3, 2, 6)) / 9, (2, 1), "SAME", rhs_dilation=(1, 2), dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2)
        out["transpose"] = jax.lax.conv_transpose(x, jnp.ones((3, 3, 4, 5)) / 9, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        out["pool"] = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for f in ("relu6", "gelu", "silu", "celu", "mish", "softplus", "hard_swish", "glu", "logsumexp", "standardize", "log_softmax", "squareplus", "sparse_plus", "selu"):
            out[f] = getattr(jax.nn, f)(x)
        return out

    gradient = jax.jit(jax.grad(lambda x: sum(jnp.sum(jnp.sin(v)) for v in run(x).values())))
    return lambda: {**run(x), "gradient": gradient(x)}


@workload(library="jax.checkify", rtol=1e-6, why="errors found by functionalised checks, float32")
def checkify_and_debug_nans():
    import jax
    import jax.numpy as jnp
    from jax.experimental import checkify

    @jax.jit
    def run(x, i):
        def f(x, i):
            checkify.check(x[0] > 0, "first is {v}", v=x[0])
            y = jax.lax.fori_loop(0, 5, lambda k, v: jnp.log(v + 1), x)
            return y[i] / x[1]
        return checkify.checkify(f, errors=checkify.all_checks)(x, i)

    def step():
        messages = []
        out = None
        for x, i in ((jnp.array([1.0, 2.0, 3.0]), 1), (jnp.array([-1.0, 2.0, 3.0]), 1), (jnp.array([1.0, 0.0, 3.0]), 2), (jnp.array([1.0, 2.0, 3.0]), 7), (jnp.array([1.0, -3.0, 3.0]), 0)):
            error, value = run(x, i)
            out = value if out is None else out
            messages.append(error.get() is not None)
        return {"out": out, "raised": jnp.array(messages)}

    return step


@workload(library="jax.experimental.jet, custom rules", rtol=1e-4, why="derivatives of order up to four in float32")
def derivatives_of_all_kinds():
    import functools

    import jax
    import jax.numpy as jnp
    from jax.experimental import jet

    @jax.custom_vjp
    def clip(x):
        return x
    clip.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.1, 0.1),))

    @jax.custom_jvp
    def softer(x):
        return jnp.log1p(jnp.exp(x))
    softer.defjvp(lambda p, t: (softer(*p), jax.nn.sigmoid(p[0]) * t[0]))

    @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
    def layer(x, w):
        return softer(clip(jnp.tanh(x @ w)))

    w = jax.random.normal(jax.random.key(0), (3, 5, 5)) / 2
    x = jnp.linspace(-1, 1, 5)
    f = jax.jit(lambda x, w: jnp.sum(jax.lax.scan(lambda c, v: (layer(c, v), None), x, w)[0] ** 2))
    runs = {"grad": jax.jit(jax.grad(f, (0, 1))), "hessian": jax.jit(jax.hessian(f)), "jacrev": jax.jit(jax.jacrev(lambda x: layer(x, w[0]))),
            "hvp": jax.jit(lambda x, v: jax.jvp(jax.grad(lambda y: f(y, w)), (x,), (v,))[1])}

    def step():
        gx, gw = runs["grad"](x, w)
        series = jet.jet(jnp.sin, (0.3,), ((1.0, 0.0, 0.0, 0.0),))[1]
        implicit = jax.jit(jax.grad(lambda a: jax.lax.custom_root(lambda y: y ** 3 - a, 1.0, lambda g, y0: jax.lax.fori_loop(0, 30, lambda _, y: y - g(y) / (3 * y * y), y0), lambda g, b: b / g(1.0))))(2.0)
        fourth = jax.grad(jax.grad(jax.grad(jax.grad(lambda v: jnp.sin(v) * jnp.exp(0.5 * v)))))(0.7)
        return {"gx": gx, "gw": gw, "hessian": runs["hessian"](x, w), "jacrev": runs["jacrev"](x), "hvp": runs["hvp"](x, jnp.ones(5)), "jet": jnp.stack(series), "implicit": implicit, "fourth": fourth}

    return step
