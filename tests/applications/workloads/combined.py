"""Features of the same libraries in combinations: transformations inside one another, loops of libraries around loops of users, the long tails of jax.numpy."""
from protocol import workload
from workloads.networks import images, tokens
from workloads.optimisers import flat, mlp, mlp_parameters, regression


@workload(library="optax", rtol=1e-4, why="24 steps through schedules, clipping and accumulated gradients in float32")
def optax_schedules_accumulation():
    import jax
    import jax.numpy as jnp
    import optax
    x, y = regression(3)
    schedule = optax.join_schedules([optax.linear_schedule(0.0, 0.02, 4), optax.cosine_onecycle_schedule(12, 0.02), optax.polynomial_schedule(0.02, 1e-3, 2.0, 8)], [4, 16])
    masked = optax.masked(optax.add_decayed_weights(1e-2), lambda p: jax.tree.map(lambda v: v.ndim > 1, p))
    optimisers = {
        "accumulated": optax.MultiSteps(optax.chain(optax.clip_by_global_norm(0.5), masked, optax.adam(schedule)), every_k_schedule=3).gradient_transformation(),
        "injected": optax.inject_hyperparams(optax.sgd)(learning_rate=schedule, momentum=0.9, nesterov=True),
        "finite": optax.apply_if_finite(optax.chain(optax.adaptive_grad_clip(0.1), optax.scale_by_adam(), optax.scale_by_schedule(lambda i: -schedule(i))), 3),
        "partitioned": optax.partition({"matrix": optax.yogi(1e-2), "vector": optax.adagrad(0.1)}, lambda p: jax.tree.map(lambda v: "matrix" if v.ndim > 1 else "vector", p)),
        "plateau": optax.chain(optax.nadam(1e-2), optax.ema(0.9), optax.centralize(), optax.keep_params_nonnegative()),
    }

    def make(optimiser):
        @jax.jit
        def run(parameters):
            def body(carry, i):
                p, state = carry
                value, gradients = jax.value_and_grad(lambda p: jnp.mean(optax.huber_loss(mlp(p, x), y)))(p)
                gradients = jax.tree.map(lambda g: jnp.where(i == 5, jnp.nan, g), gradients) if optimiser is optimisers["finite"] else gradients
                updates, state = optimiser.update(gradients, state, p)
                return (optax.apply_updates(p, updates), state), (value, optax.tree.norm(gradients))
            (p, _), history = jax.lax.scan(body, (parameters, optimiser.init(parameters)), jnp.arange(24))
            return p, history
        return run

    runs = {name: make(o) for name, o in optimisers.items()}

    def step():
        out = {}
        for name, run in runs.items():
            p, (losses, norms) = run(mlp_parameters(jax.random.key(0), [8, 12, 1]))
            out.update({f"{name}.losses": losses, f"{name}.norms": norms, **flat(p, f"{name}.p")})
        return out

    return step


@workload(library="optax", rtol=2e-4, atol=1e-5, why="losses and projections in float32; the assignment is exact")
def optax_losses_projections():
    import jax
    import jax.numpy as jnp
    import optax
    logits = jax.random.normal(jax.random.key(0), (3, 14, 6))
    labels = jax.random.randint(jax.random.key(1), (3, 5), 1, 6)
    padding = jnp.zeros((3, 14)).at[1, 11:].set(1.0)
    v, w = jax.random.normal(jax.random.key(2), (9,)) * 2, jax.random.normal(jax.random.key(3), (7, 7))
    losses = {
        "ctc": lambda l: optax.ctc_loss(l, padding, labels, jnp.zeros((3, 5))).sum(), "focal": lambda l: optax.sigmoid_focal_loss(l, jnp.ones_like(l) * (l > 0.5), alpha=0.3).sum(),
        "poly": lambda l: optax.losses.poly_loss_cross_entropy(l[:, 0], jax.nn.one_hot(labels[:, 0], 6)).sum(), "cosine": lambda l: optax.losses.cosine_distance(l[:, 0], l[:, 1] + 1.0, epsilon=1e-6).sum(),
        "hinge": lambda l: optax.losses.multiclass_hinge_loss(l[:, 0], labels[:, 0]).sum(), "perceptron": lambda l: optax.losses.perceptron_loss(l[0, 0], jnp.sign(l[0, 1])).sum(),
        "kl": lambda l: optax.losses.kl_divergence(jax.nn.log_softmax(l), jax.nn.softmax(l[::-1])).sum(), "triplet": lambda l: optax.losses.triplet_margin_loss(l[0], l[1], l[2]).sum(),
        "ranking": lambda l: optax.losses.ranking_softmax_loss(l[:, 0], labels[:, :1] * jnp.arange(6.0)).sum(), "convex_kl": lambda l: optax.losses.convex_kl_divergence(jax.nn.log_softmax(l), jax.nn.softmax(l[::-1])).sum(),
    }
    runs = {n: jax.jit(jax.value_and_grad(f)) for n, f in losses.items()}
    p = optax.projections

    @jax.jit
    def project(v, w):
        return {"simplex": p.projection_simplex(v), "l1": p.projection_l1_ball(v, 1.5), "l2": p.projection_l2_ball(v, 1.5), "linf": p.projection_linf_ball(v, 0.7), "box": p.projection_box(v, -0.4, 0.9),
                "halfspace": p.projection_halfspace(v, jnp.ones(9), -1.0), "hyperplane": p.projection_hyperplane(v, jnp.ones(9), 0.5), "nonnegative": p.projection_non_negative(v),
                "jacobian": jax.jacobian(p.projection_simplex)(v), "assignment": jnp.stack(optax.assignment.hungarian_algorithm(w))}

    def step():
        out = project(v, w)
        for name, run in runs.items():
            out[name], out[f"{name}.gradient"] = run(logits)
        return out

    return step


@workload(library="flax nnx", rtol=2e-3, atol=1e-5, why="6 steps through scanned, rematerialised layers with batch statistics, float32")
def nnx_scan_remat_vmap():
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.linear, self.norm, self.dropout = nnx.Linear(12, 12, use_bias=False, rngs=rngs), nnx.BatchNorm(12, rngs=rngs), nnx.Dropout(0.2, rngs=rngs)

        def __call__(self, x):
            return x + self.dropout(nnx.gelu(self.norm(self.linear(x))))

    class Net(nnx.Module):
        def __init__(self, rngs):
            @nnx.split_rngs(splits=4)
            @nnx.vmap(in_axes=(0,), out_axes=0)
            def make(rngs):
                return Block(rngs)
            self.first, self.blocks = nnx.Conv(3, 12, (3, 3), strides=2, rngs=rngs), make(rngs)
            self.rnn = nnx.RNN(nnx.OptimizedLSTMCell(12, 8, rngs=rngs))
            self.head = nnx.LoRALinear(8, 10, lora_rank=2, rngs=rngs)

        def __call__(self, x):
            x = self.first(x).reshape(x.shape[0], -1, 12)

            @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
            @nnx.remat
            def forward(x, block):
                return block(x)
            return self.head(self.rnn(forward(x, self.blocks))[:, -1])

    x, y = images(8, 8)

    @nnx.jit
    def update(model, optimiser):
        value, gradients = nnx.value_and_grad(lambda m: optax.softmax_cross_entropy_with_integer_labels(m(x), y).mean())(model)
        optimiser.update(model, gradients)
        return value

    def step():
        model = Net(nnx.Rngs(0, dropout=1))
        optimiser = nnx.Optimizer(model, optax.adamw(3e-3), wrt=nnx.Param)
        losses = jnp.stack([update(model, optimiser) for _ in range(6)])
        model.eval()
        graph, state = nnx.split(model)
        functional = jax.jit(lambda s: nnx.merge(graph, s)(x))(state)
        return {"losses": losses, "logits": functional, "mean": model.blocks.norm.mean[...], "var": model.blocks.norm.var[...]}

    return step


@workload(library="flax linen", rtol=1e-3, atol=1e-5, why="lifted transformations and normalised weights in float32")
def linen_lifted_transformations():
    import jax
    import jax.numpy as jnp
    from flax import linen as nn

    class Cell(nn.Module):
        @nn.compact
        def __call__(self, carry, x):
            carry, y = nn.GRUCell(6)(carry, x)
            return carry, nn.WeightNorm(nn.Dense(4))(y)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, frames):
            members = nn.vmap(nn.Dense, in_axes=None, out_axes=0, axis_size=3, variable_axes={"params": 0}, split_rngs={"params": True})(5)(x)
            scanned = nn.scan(Cell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1)()
            carry, ys = scanned(jnp.zeros((4, 6)), x)
            images = nn.RNN(nn.ConvLSTMCell(3, (3, 3)))(frames)
            spectral = nn.SpectralNorm(nn.Conv(2, (3, 3), feature_group_count=1))(images[:, -1], update_stats=True)
            stretched = nn.ConvTranspose(2, (3, 3), strides=(2, 2))(nn.GroupNorm(num_groups=1)(spectral))
            pooled = nn.avg_pool(nn.ConvLocal(2, (2, 2))(stretched), (2, 2))
            return members.mean(0), ys, carry, pooled, nn.Einsum((5, 4), "...a,ab->...b")(members)

    net = Net()
    x, frames = jax.random.normal(jax.random.key(1), (4, 7, 3)), jax.random.normal(jax.random.key(2), (2, 3, 6, 6, 2))

    @jax.jit
    def run(variables):
        def loss(p):
            out, new = net.apply({**variables, "params": p}, x, frames, mutable=["batch_stats"])
            return sum(jnp.sum(jnp.sin(o)) for o in out), (out, new)
        (value, (out, new)), gradients = jax.value_and_grad(loss, has_aux=True)(variables["params"])
        return value, out, new, gradients

    def step():
        value, out, new, gradients = run(net.init(jax.random.key(0), x, frames))
        return {"value": value, **flat(out, "o"), **flat(new, "s"), **flat(gradients)}

    return step


@workload(library="equinox", rtol=1e-4, why="an ensemble trained by filtered transformations, float32")
def equinox_filtered_ensemble():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax
    x, y = regression(4)
    optimiser = optax.adam(1e-2)

    class Net(eqx.Module):
        layers: list
        attention: eqx.nn.MultiheadAttention
        scale: jax.Array
        activation: callable = eqx.field(static=True)

        def __init__(self, key):
            a, b, c = jax.random.split(key, 3)
            self.layers = [eqx.nn.Linear(8, 12, key=a), eqx.nn.LayerNorm(12), eqx.nn.Linear(12, 1, key=b)]
            self.attention, self.scale, self.activation = eqx.nn.MultiheadAttention(3, 12, key=c), jnp.array(0.5), jax.nn.silu

        def __call__(self, x):
            h = jax.vmap(self.layers[1])(jax.vmap(self.layers[0])(x))
            h = h + self.attention(h, h, h, mask=jnp.tri(h.shape[0], dtype=bool))
            return jax.vmap(self.layers[2])(self.activation(h)) * self.scale

    make = eqx.filter_vmap(Net)

    @eqx.filter_jit
    @eqx.filter_vmap(in_axes=(eqx.if_array(0), eqx.if_array(0), None))
    def update(model, state, x):
        frozen = eqx.tree_at(lambda t: t.scale, jax.tree.map(eqx.is_inexact_array, model), replace=False)
        moving, still = eqx.partition(model, frozen)
        value, gradients = eqx.filter_value_and_grad(lambda m: jnp.mean((eqx.combine(m, still)(x) - y) ** 2))(moving)
        updates, state = optimiser.update(gradients, state)
        return eqx.combine(eqx.apply_updates(moving, updates), still), state, value

    @eqx.filter_custom_vjp
    def double(v, _):
        return v * 2
    double.def_fwd(lambda perturbed, v, _: (v * 2, None))
    double.def_bwd(lambda residuals, gradient, perturbed, v, _: gradient * 3)

    def step():
        models = make(jax.random.split(jax.random.key(0), 3))
        state = eqx.filter_vmap(lambda m: optimiser.init(eqx.partition(m, eqx.tree_at(lambda t: t.scale, jax.tree.map(eqx.is_inexact_array, m), replace=False))[0]))(models)
        losses = []
        for _ in range(8):
            models, state, value = update(models, state, x)
            losses.append(value)
        tangent = eqx.filter_jit(lambda m: eqx.filter_jvp(lambda v: eqx.filter_vmap(lambda n: n(v))(m), (x,), (jnp.ones_like(x),))[1])(models)
        closed = eqx.filter_closure_convert(lambda v: jnp.sin(v) * x[0], x[1])
        eqx.tree_serialise_leaves("models.eqx", models)
        back = eqx.tree_deserialise_leaves("models.eqx", make(jax.random.split(jax.random.key(9), 3)))
        same = eqx.tree_equal(models, back)
        return {"losses": jnp.stack(losses), "tangent": tangent, "closed": eqx.filter_jit(closed)(x[1]), "custom": jax.grad(lambda v: jnp.sum(double(v, None) ** 2))(x[0]), "same": bool(same)}

    return step


@workload(library="diffrax", rtol=1e-6, x64=True, why="events found by a root finder to 1e-9 and three adjoints of one solution, double precision")
def diffrax_events_adjoints():
    import diffrax
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optimistix as optx
    falling = diffrax.ODETerm(lambda t, y, args: jnp.stack([y[1], -9.81 - args * y[1]]))
    controller = diffrax.PIDController(1e-9, 1e-9)

    @eqx.filter_jit
    def bounces(height, drag):
        event = diffrax.Event(lambda t, y, args, **_: y[0], optx.Newton(1e-9, 1e-9, optx.rms_norm), direction=False)

        def one(carry, _):
            t, y = carry
            found = diffrax.diffeqsolve(falling, diffrax.Tsit5(), t, t + 10.0, 0.01, y, args=drag, event=event, stepsize_controller=controller, max_steps=256)
            t, y = found.ts[-1], found.ys[-1]
            return (t, jnp.stack([jnp.abs(y[0]) + 1e-6, -0.8 * y[1]])), (t, y[1])
        return jax.lax.scan(one, (jnp.zeros(()), jnp.stack([height, 0.0])), length=3)[1]

    def lotka(t, y, k):
        return jnp.stack([k[0] * y[0] - k[1] * y[0] * y[1], k[2] * y[0] * y[1] - k[3] * y[1]])

    def final(k, adjoint, solver):
        return jnp.sum(diffrax.diffeqsolve(diffrax.ODETerm(lotka), solver, 0.0, 6.0, 0.05, jnp.array([4.0, 2.0]), args=k, adjoint=adjoint, stepsize_controller=controller, max_steps=1024).ys ** 2)

    adjoints = {"checkpoint": (diffrax.RecursiveCheckpointAdjoint(8), diffrax.Dopri5()), "backsolve": (diffrax.BacksolveAdjoint(), diffrax.Dopri8()), "forward": (diffrax.ForwardMode(), diffrax.Tsit5())}
    gradients = {n: eqx.filter_jit((jax.jacfwd if n == "forward" else jax.grad)(lambda k, a=a, s=s: final(k, a, s))) for n, (a, s) in adjoints.items()}

    @eqx.filter_jit
    def dense(k):
        found = diffrax.diffeqsolve(diffrax.ODETerm(lotka), diffrax.Tsit5(), 0.0, 6.0, 0.05, jnp.array([4.0, 2.0]), args=k, stepsize_controller=controller, max_steps=1024,
                                    saveat=diffrax.SaveAt(dense=True, subs=diffrax.SubSaveAt(ts=jnp.linspace(0, 6, 7), fn=lambda t, y, a: jnp.log(y))))
        return found.ys, jax.vmap(found.evaluate)(jnp.linspace(0.1, 5.9, 11)), jax.vmap(found.derivative)(jnp.linspace(0.1, 5.9, 5))

    def step():
        k = jnp.array([1.1, 0.4, 0.1, 0.4])
        times, speeds = bounces(2.0, 0.1)
        slope = eqx.filter_jit(jax.grad(lambda h: bounces(h, 0.1)[0][0]))(2.0)
        saved, between, rates = dense(k)
        return {"times": times, "speeds": speeds, "slope": slope, "saved": saved, "between": between, "rates": rates, **{n: g(k) for n, g in gradients.items()}}

    return step


@workload(library="numpyro", rtol=2e-2, atol=2e-2, x64=True, devices=2, why="short chains of chaotic samplers in double precision")
def numpyro_several_chains():
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import HMC, MCMC, NUTS, SA, DiscreteHMCGibbs, Predictive, log_likelihood
    x = jax.random.normal(jax.random.PRNGKey(1), (30, 2))
    y = x @ jnp.array([0.7, -0.4]) + 0.3 * jax.random.normal(jax.random.PRNGKey(2), (30,))

    def linear(x, y=None):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        with numpyro.plate("data", x.shape[0]):
            numpyro.sample("y", dist.Normal(x @ w, sigma), obs=y)

    def mixture(y):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.3, 0.3, 0.4])))
        loc = numpyro.sample("loc", dist.Normal(jnp.arange(3.0)[z], 1.0))
        numpyro.sample("obs", dist.Normal(loc, 1.0).expand([5]).to_event(1), obs=y[:5])

    def step():
        out = {}
        for method in ("parallel", "vectorized", "sequential"):
            mcmc = MCMC(NUTS(linear, dense_mass=True), num_warmup=15, num_samples=12, num_chains=2, chain_method=method, progress_bar=False)
            mcmc.run(jax.random.PRNGKey(0), x, y)
            samples = mcmc.get_samples(group_by_chain=True)
            out.update({f"{method}.w": samples["w"], f"{method}.sigma": samples["sigma"]})
        flat_samples = mcmc.get_samples()
        out["predicted"] = Predictive(linear, flat_samples)(jax.random.PRNGKey(5), x[:4])["y"]
        out["likelihood"] = log_likelihood(linear, flat_samples, x, y)["y"].sum(-1)
        out["r_hat"] = numpyro.diagnostics.split_gelman_rubin(jax.device_get(samples["w"]))
        for name, kernel, arguments in (("sa", SA(linear), (x, y)), ("gibbs", DiscreteHMCGibbs(HMC(mixture, num_steps=4, step_size=0.3)), (y,))):
            mcmc = MCMC(kernel, num_warmup=8, num_samples=8, progress_bar=False)
            mcmc.run(jax.random.PRNGKey(3), *arguments)
            out.update({f"{name}.{n}": v for n, v in mcmc.get_samples().items()})
        return out

    return step


@workload(library="jax.experimental.sparse", rtol=1e-9, x64=True, why="sparse solvers and layouts in double precision")
def sparse_layouts_solvers():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import sparse
    from jax.experimental.sparse.linalg import lobpcg_standard, spsolve
    rng = np.random.default_rng(1)
    a = jnp.asarray(rng.standard_normal((24, 24)) * (rng.random((24, 24)) < 0.15)) + 4 * jnp.eye(24)
    b = jnp.asarray(rng.standard_normal(24))
    sa = sparse.BCOO.fromdense(a)
    csr = sparse.BCSR.fromdense(a)
    spd = a @ a.T
    stacked = jnp.stack([a, a.T, 2 * a])
    batched = sparse.BCOO.fromdense(stacked, n_batch=1)

    def step():
        solvers = jax.scipy.sparse.linalg
        values, vectors, _ = jax.jit(lambda m, x: lobpcg_standard(m, x, 60))(spd, jnp.asarray(rng_start(24, 3)))
        out = {"spsolve": spsolve(csr.data, csr.indices, csr.indptr, b), "gmres": jax.jit(lambda v: solvers.gmres(lambda u: sa @ u, v, tol=1e-12)[0])(b),
               "bicgstab": jax.jit(lambda v: solvers.bicgstab(lambda u: sa @ u, v, tol=1e-12)[0])(b), "eigenvalues": values, "square": jnp.abs(vectors.T @ vectors),
               "gradient": jax.jit(jax.grad(lambda v: jnp.sum(solvers.cg(lambda u: sparse.BCOO((v, sa.indices), shape=sa.shape).T @ (sparse.BCOO((v, sa.indices), shape=sa.shape) @ u), b, tol=1e-12)[0] ** 2)))(sa.data),
               "vmapped": jax.jit(jax.vmap(lambda m, v: m @ v, in_axes=(0, None)))(batched, b), "updated": sparse.bcoo_update_layout(batched, n_batch=0).todense(),
               "concatenated": sparse.bcoo_concatenate([sa, sa.T], dimension=1).todense(), "broadcast": sparse.bcoo_broadcast_in_dim(sa, shape=(2, 24, 24), broadcast_dimensions=(1, 2)).todense(),
               "squeezed": sparse.bcoo_squeeze(sa[3:4], dimensions=[0]).todense(), "reduced": sparse.bcoo_reduce_sum(batched, axes=[0]).todense(), "sorted": sparse.BCOO((sa.data[::-1], sa.indices[::-1]), shape=sa.shape).sort_indices().indices,
               "extracted": sparse.bcoo_extract(sa, spd).data, "sampled": sparse.bcoo_dot_general_sampled(a, spd, sa.indices, dimension_numbers=(([1], [0]), ([], []))), "csr": jax.jit(lambda m, v: m @ v)(csr, spd), "elementwise": (sa * spd).todense(),
               "reshaped": sa.reshape(12, 48).todense(), "reversed": sparse.bcoo_rev(sa, dimensions=(0,)).todense(), "random": sparse.random_bcoo(jax.random.key(3), (10, 10), nse=0.2, dtype=float).todense(),
               "product": jax.jit(lambda m, n: (m @ n).todense())(sa, sa.T), "empty": (sparse.empty((4, 5), dtype=float) @ jnp.ones(5)), "gradient_csr": jax.grad(lambda v: jnp.sum(jnp.cos(sparse.BCSR((v, csr.indices, csr.indptr), shape=csr.shape) @ b)))(csr.data)}
        return out

    def rng_start(n, k):
        return np.random.default_rng(7).standard_normal((n, k))

    return step


@workload(library="jax.experimental.pallas", rtol=1e-5, why="kernels interpreted block by block, float32")
def pallas_interpreted():
    import functools

    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    def matmul_kernel(x, y, o):
        @pl.when(pl.program_id(2) == 0)
        def _():
            o[...] = jnp.zeros_like(o)
        o[...] += x[...] @ y[...]

    @jax.jit
    def matmul(x, y):
        m, n, k = 16, 8, 16
        return pl.pallas_call(matmul_kernel, grid=(x.shape[0] // m, y.shape[1] // n, x.shape[1] // k), out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), jnp.float32),
                              in_specs=[pl.BlockSpec((m, k), lambda i, j, l: (i, l)), pl.BlockSpec((k, n), lambda i, j, l: (l, j))], out_specs=pl.BlockSpec((m, n), lambda i, j, l: (i, j)), interpret=True)(x, y)

    def softmax_kernel(x, o, *, width):
        def body(i, carry):
            top, total = carry
            part = x[0, pl.ds(i * 8, 8)]
            new = jnp.maximum(top, part.max())
            return new, total * jnp.exp(top - new) + jnp.exp(part - new).sum()
        top, total = jax.lax.fori_loop(0, width // 8, body, (jnp.float32(-jnp.inf), jnp.float32(0)))
        o[...] = jnp.exp(x[...] - top) / total

    @jax.jit
    @jax.vmap
    def softmax(x):
        return pl.pallas_call(functools.partial(softmax_kernel, width=x.shape[1]), grid=(x.shape[0],), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                              in_specs=[pl.BlockSpec((1, x.shape[1]), lambda i: (i, 0))], out_specs=pl.BlockSpec((1, x.shape[1]), lambda i: (i, 0)), interpret=True)(x)

    def in_place_kernel(x, i, o):
        o[...] = jnp.where(jnp.arange(4) == i[0], x[...] * 2, x[...])

    in_place = jax.jit(lambda x, i: pl.pallas_call(in_place_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0}, interpret=True)(x, i))
    x, y = jax.random.normal(jax.random.key(0), (48, 32)), jax.random.normal(jax.random.key(1), (32, 24))
    return lambda: {"product": matmul(x, y), "softmax": softmax(jnp.stack([x, 3 * x])), "in_place": in_place(jnp.arange(4.0), jnp.array([2]))}


@workload(library="blackjax", rtol=2e-2, atol=2e-2, x64=True, why="short runs of chaotic samplers in double precision")
def blackjax_tempering_and_vi():
    import blackjax
    import blackjax.smc.resampling as resampling
    import jax
    import jax.numpy as jnp
    import optax

    def prior(x):
        return -0.5 * jnp.sum(x ** 2) / 4

    def likelihood(x):
        return jax.scipy.special.logsumexp(jnp.array([-2 * jnp.sum((x - 1.5) ** 2), -2 * jnp.sum((x + 1.5) ** 2)]))

    def target(x):
        return prior(x) + likelihood(x)

    @jax.jit
    def smc(key):
        hmc = {"step_size": jnp.full(1, 0.2), "inverse_mass_matrix": jnp.ones((1, 2)), "num_integration_steps": jnp.full(1, 4)}
        kernel = blackjax.adaptive_tempered_smc(prior, likelihood, blackjax.hmc.build_kernel(), blackjax.hmc.init, hmc, resampling.systematic, 0.6, num_mcmc_steps=2)
        a, b = jax.random.split(key)
        start = kernel.init(2 * jax.random.normal(a, (24, 2)))

        def body(carry):
            state, key, n = carry
            key, sub = jax.random.split(key)
            state, _ = kernel.step(sub, state)
            return state, key, n + 1
        state, _, n = jax.lax.while_loop(lambda c: (c[0].tempering_param < 1) & (c[2] < 12), body, (start, b, 0))
        return state.particles, state.weights, n

    @jax.jit
    def pathfinder(key):
        state, _ = blackjax.vi.pathfinder.approximate(key, target, jnp.array([0.5, 1.0]), ftol=1e-6)
        return state.position, state.elbo

    @jax.jit
    def slices(key):
        kernel = blackjax.elliptical_slice(likelihood, mean=jnp.zeros(2), cov=4 * jnp.eye(2))

        def one(s, k):
            s, info = kernel.step(k, s)
            return s, (s.position, info.subiter)
        return jax.lax.scan(one, kernel.init(jnp.ones(2)), jax.random.split(key, 15))[1]

    @jax.jit
    def meanfield(key):
        vi = blackjax.meanfield_vi(target, optax.adam(0.05), num_samples=8)

        def one(s, k):
            s, info = vi.step(k, s)
            return s, info.elbo
        state, elbos = jax.lax.scan(one, vi.init(jnp.zeros(2)), jax.random.split(key, 15))
        return state.mu, elbos

    def step():
        key = jax.random.key(0)
        particles, weights, count = smc(key)
        positions, tries = slices(key)
        mu, elbos = meanfield(key)
        position, elbo = pathfinder(key)
        return {"particles": particles, "weights": weights, "count": count, "slice": positions, "tries": tries, "mu": mu, "elbos": elbos, "pathfinder": position, "pathfinder_elbo": elbo}

    return step


@workload(library="orbax-checkpoint", rtol=0.0, atol=0.0, devices=4, why="sharded arrays come back bit for bit, under another sharding as well")
def orbax_sharded_manager():
    import os

    import jax
    import jax.numpy as jnp
    import numpy as np
    import orbax.checkpoint as ocp
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P
    mesh, other = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b")), Mesh(np.array(jax.devices()), ("c",))
    counter = iter(range(1000))

    def step():
        folder = os.path.abspath(f"manager{next(counter)}")
        tree = {"w": jax.device_put(jnp.arange(64.0).reshape(8, 8), NamedSharding(mesh, P("a", "b"))), "b": jax.device_put(jnp.arange(8, dtype=jnp.bfloat16), NamedSharding(mesh, P(("a", "b")))),
                "replicated": jax.device_put(jnp.arange(5, dtype=jnp.uint8), NamedSharding(mesh, P())), "scalar": 3}
        with ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=2)) as manager:
            for i in range(5):
                manager.save(i, args=ocp.args.Composite(state=ocp.args.StandardSave(jax.tree.map(lambda v: v + v.dtype.type(i) if hasattr(v, "sharding") else v, tree)), extra=ocp.args.JsonSave({"i": i})))
            manager.wait_until_finished()
            steps = manager.all_steps()
            abstract = jax.tree.map(lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=NamedSharding(other, P("c") if v.shape[0] % 4 == 0 else P())) if hasattr(v, "sharding") else v, tree)
            back = manager.restore(4, args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract), extra=ocp.args.JsonRestore()))
        return {"steps": np.array(sorted(steps)), "w": back.state["w"], "b": back.state["b"].astype(jnp.float32), "replicated": back.state["replicated"], "scalar": back.state["scalar"], "extra": back.extra["i"],
                "shards": np.array([s.data.shape[0] for s in back.state["w"].addressable_shards])}

    return step


@workload(library="jax transformations", rtol=1e-4, why="derivatives through loops inside maps inside loops, float32")
def transformations_nested():
    import functools

    import jax
    import jax.numpy as jnp
    from jax.experimental import checkify

    @jax.custom_vjp
    def norm(x):
        return jnp.sqrt(jnp.sum(x * x))
    norm.defvjp(lambda x: (norm(x), (x, norm(x))), lambda r, g: (g * r[0] / jnp.where(r[1] == 0, 1.0, r[1]),))

    @functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
    def apply(f, x):
        return f(x)
    apply.defjvp(lambda f, p, t: (f(p[0]), jnp.cos(p[0]) * t[0]))

    @jax.custom_batching.custom_vmap
    def solve(a, b):
        return jnp.linalg.solve(a, b)

    @solve.def_vmap
    def solve_batched(size, batched, a, b):
        a, b = (v if is_batched else jnp.broadcast_to(v, (size, *v.shape)) for v, is_batched in zip((a, b), batched))
        return jnp.linalg.solve(a, b[..., None])[..., 0], True

    def cell(w, carry, x):
        def grow(c):
            return jax.lax.while_loop(lambda v: v[1] < 3, lambda v: (v[0] * 1.1 + 0.01 * norm(v[0]), v[1] + 1), (c, 0))[0]
        picked = jax.lax.switch(jnp.argmax(x) % 3, [jnp.tanh, jnp.sin, lambda v: v * 0.5], carry)
        new = jax.lax.cond(jnp.sum(x) > 0, lambda c: jnp.tanh(w @ c + x), lambda c: apply(jnp.sin, c) - x, picked)
        return new / (1 + norm(new)), (norm(new), jax.lax.stop_gradient(grow(new)))

    def sequence(w, xs):
        carry, (norms, grown) = jax.lax.scan(jax.checkpoint(functools.partial(cell, w)), jnp.ones(4) / 2, xs, unroll=2)
        return jnp.sum(carry) + jnp.sum(norms), grown

    batch = jax.vmap(sequence, in_axes=(None, 0))
    loss = jax.jit(jax.value_and_grad(lambda w, xs: jnp.sum(batch(w, xs)[0])))

    @jax.jit
    def outer(w, xs):
        def one(w, _):
            value, gradient = loss(w, xs)
            return w - 0.02 * gradient, value
        return jax.lax.scan(one, w, length=4)

    @jax.jit
    def checked(xs):
        def f(xs):
            def body(c, x):
                c = jax.lax.fori_loop(0, 4, lambda i, v: jnp.where(v < 10, v * 2 + jnp.abs(x), v), c)
                checkify.check(c < 25, "too large: {c}", c=c)
                return jnp.sqrt(c - 9), c
            return jax.lax.scan(body, jnp.ones(()), xs)[1]
        return jax.vmap(checkify.checkify(f, errors=checkify.user_checks | checkify.nan_checks))(xs)

    w, xs = jax.random.normal(jax.random.key(0), (4, 4)) / 2, jax.random.normal(jax.random.key(1), (3, 7, 4))
    hvp = jax.jit(lambda w, v: jax.jvp(jax.grad(lambda u: jnp.sum(jax.vmap(lambda x: jax.lax.scan(lambda c, y: (jnp.tanh(u @ c + y), c), x[0], x)[0])(xs))), (w,), (v,))[1])
    mapped = jax.jit(lambda v: jax.lax.map(lambda x: jax.lax.associative_scan(jnp.multiply, x, reverse=True), v, batch_size=2))
    linear = jax.jit(jax.linear_transpose(lambda v: jnp.convolve(v, jnp.arange(3.0)), jnp.ones(6)))

    def step():
        final, values = outer(w, xs)
        error, grown = checked(xs[..., 0])
        bad, _ = checked(xs[..., 0] * 100)
        out, pull = jax.vjp(jax.jit(batch), w, xs)
        _, push = jax.linearize(jax.jit(lambda u: jax.lax.map(jax.checkpoint(lambda x: jnp.tanh(u @ x[0])), xs)), w)
        return {"final": final, "values": values, "grown": grown, "error": error.get() is not None, "bad": bad.get() is not None, "pulled": flat(pull(jax.tree.map(jnp.ones_like, out)))["p1"], "pushed": push(jnp.ones_like(w)),
                "solved": jax.jit(jax.vmap(solve, in_axes=(None, 0)))(w + 2 * jnp.eye(4), xs[:, 0]), "hvp": hvp(w, jnp.ones_like(w)), "mapped": mapped(xs), "transposed": linear(jnp.arange(8.0))[0]}

    return step


@workload(library="jax.numpy.linalg", rtol=1e-8, atol=1e-8, x64=True, why="batches of well-conditioned matrices in double precision, by what does not depend on signs")
def linear_algebra_batches():
    import jax
    import jax.numpy as jnp
    import jax.scipy.linalg as sl
    la = jnp.linalg
    a = jax.random.normal(jax.random.key(0), (2, 3, 6, 6)) / 3 + 2 * jnp.eye(6)
    tall, b = jax.random.normal(jax.random.key(1), (2, 3, 7, 4)), jax.random.normal(jax.random.key(2), (2, 3, 6, 2))
    spd = a @ a.mT + jnp.eye(6)

    @jax.jit
    def run(a, tall, b, spd):
        h, q = sl.hessenberg(a[0, 0], calc_q=True)
        p, l, u = sl.lu(a[1, 1])
        return {"solve": la.solve(a, b), "lstsq": jax.vmap(lambda m, v: la.lstsq(m, v)[0])(tall[0], tall[1, :, :, 0]), "pinv": la.pinv(tall), "rank": la.matrix_rank(tall @ tall.mT), "cond": la.cond(a), "norms": jnp.stack([la.norm(a, o, axis=(-2, -1)) for o in (1, -1, 2, -2, jnp.inf, "fro", "nuc")]),
                "svdvals": la.svdvals(tall), "eigvalsh": la.eigvalsh(spd, UPLO="U"), "full_qr": jnp.abs(la.qr(tall, mode="complete")[0]), "det": la.det(a), "expm": jax.vmap(jax.vmap(sl.expm))(a / 3), "cho_solve": jax.vmap(jax.vmap(lambda m, v: sl.cho_solve(sl.cho_factor(m), v)))(spd, b),
                "multi_dot": la.multi_dot([a[0, 0], tall[0, 0, :6], tall[0, 1].T]), "tensorsolve": la.tensorsolve(a[0, 0].reshape(2, 3, 6), b[0, 0, :, 0].reshape(2, 3)), "vander": jnp.vander(b[0, 0, :, 0]), "block": sl.block_diag(a[0, 0], tall[0, 0], jnp.ones((1, 1))), "hessenberg": q @ h @ q.T, "lu": p @ l @ u,
                "outer": la.outer(b[0, 0, :, 0], b[0, 0, :, 1]), "cross": la.cross(tall[..., :3], tall[..., 1:]), "empty": la.det(jnp.zeros((2, 0, 0))), "one": la.inv(a[..., :1, :1]), "funm": sl.funm(spd[0, 0], jnp.sqrt), "rsf": jnp.abs(sl.rsf2csf(*sl.schur(spd[0, 0]))[0]), "power": la.matrix_power(a, -2),
                "triangular": jax.lax.linalg.triangular_solve(la.cholesky(spd), b, left_side=True, lower=True, transpose_a=True), "sqrtm": jnp.real(sl.sqrtm(spd[0, 1])), "circulant": sl.hilbert(4) @ sl.toeplitz(jnp.arange(4.0)), "update": jax.lax.linalg.cholesky_update(la.cholesky(spd[0, 0]).T, b[0, 0, :, 0])}

    functions = {"svd": lambda m: jnp.sum(la.svd(m, full_matrices=False)[1] ** 3), "qr": lambda m: jnp.sum(jnp.abs(la.qr(m)[1])), "eigh": lambda m: jnp.sum(la.eigh(m @ m.mT)[0][..., -1] ** 2), "pinv": lambda m: jnp.sum(la.pinv(m) ** 2), "slogdet": lambda m: la.slogdet(m.mT @ m)[1].sum(),
                 "lu": lambda m: jnp.sum(jax.vmap(jax.vmap(lambda v: sl.lu(v)[2]))(m[..., :4, :]) ** 2), "cholesky": lambda m: jnp.sum(la.cholesky(m.mT @ m) ** 3), "expm": lambda m: jnp.sum(jax.vmap(jax.vmap(sl.expm))(m.mT @ m / 9))}
    gradients = {n: jax.jit(jax.grad(f)) for n, f in functions.items()}
    return lambda: {**run(a, tall, b, spd), **{f"gradient.{n}": g(tall) for n, g in gradients.items()}, "hessian": jax.jit(jax.hessian(lambda v: la.slogdet(spd[0, 0] + jnp.diag(v))[1]))(jnp.ones(6))}


@workload(library="jax.random", rtol=1e-9, x64=True, why="the rest of the distributions, in every width; bits are exact")
def random_distributions_all_types():
    import jax
    import jax.numpy as jnp
    r = jax.random

    @jax.jit
    def run(k):
        n = (40,)
        out = {"chisquare": r.chisquare(k, 3.0, shape=n), "f": r.f(k, 3.0, 5.0, shape=n), "generalized": r.generalized_normal(k, 1.3, n), "lognormal": r.lognormal(k, 0.5, n), "loggamma": r.loggamma(k, 0.3, n), "double_maxwell": r.double_sided_maxwell(k, 0.5, 1.5, n), "rayleigh": r.rayleigh(k, 2.0, n),
               "multinomial": r.multinomial(k, 20, jnp.array([0.2, 0.5, 0.3]), shape=(6, 3)), "without": r.categorical(k, jnp.zeros(9), shape=(4,), replace=False), "shuffled": r.permutation(k, jnp.arange(24).reshape(4, 6), axis=1, independent=True), "complex": r.normal(k, n, complex), "svd_normal": r.multivariate_normal(k, jnp.ones(3), jnp.eye(3) + 0.2, method="cholesky"),
               "poisson": r.poisson(k, jnp.array([0.1, 5.0, 40.0, 1e4])), "binomial": r.binomial(k, jnp.array([5.0, 60.0, 1e4]), jnp.array([0.1, 0.5, 0.9])), "gamma": r.gamma(k, jnp.array([0.01, 0.5, 7.0, 300.0])), "beta": r.beta(k, 0.05, 0.2, n), "dirichlet": r.dirichlet(k, jnp.array([0.1, 2.0, 30.0]), (5,)), "choice": r.choice(k, jnp.arange(12).reshape(4, 3), (2,), axis=0, replace=False)}
        for name in ("uint8", "int16", "uint32", "int64"):
            out[f"randint.{name}"] = r.randint(k, n, 0, 100, name)
        for name in ("uint8", "uint16", "uint64"):
            out[f"bits.{name}"] = r.bits(k, n, name)
        for name in ("float16", "bfloat16", "float32"):
            out[f"uniform.{name}"] = r.uniform(k, n, name).astype(float)
        return out

    others = jax.jit(lambda: {impl: r.bits(r.split(r.key(5, impl=impl), 3)[1], (9,)) for impl in ("threefry2x32", "rbg", "unsafe_rbg")})
    keys = jax.jit(jax.vmap(lambda i: r.key_data(r.fold_in(r.clone(r.key(3)), i))))
    gradient = jax.jit(jax.grad(lambda a: jnp.sum(r.gamma(r.key(1), a, (20,)) + r.beta(r.key(2), a, 2.0, (20,)) + r.t(r.key(3), a, (20,)))))
    return lambda: {**run(r.key(11)), **others(), "keys": keys(jnp.arange(5)), "gradient": gradient(1.4)}


@workload(library="jax.numpy", rtol=1e-5, atol=1e-5, why="indexing, sorting and sets are exact, the rest is float32")
def numpy_long_tail():
    import jax
    import jax.numpy as jnp
    x = jnp.round(jax.random.normal(jax.random.key(0), (6, 9)), 1)
    i = jax.random.randint(jax.random.key(1), (12,), -4, 9)
    ids = jnp.array([0, 2, 2, 1, 5, 0])

    @jax.jit
    def run(x, i):
        v, flags = x[0], x > 0
        at = x.at[:, i]
        return {"add": at.add(1.5, mode="drop"), "min": at.min(-0.2), "max": at.max(0.3), "mul": at.multiply(2.0), "apply": x.at[ids % 3].apply(jnp.sin), "fill": x.at[:, i].get(mode="fill", fill_value=-7), "power": x.at[1].power(2), "divide": x.at[::2, 1::3].divide(3.0), "sums": jax.ops.segment_sum(x, ids, 4),
                "prods": jax.ops.segment_prod(x, ids, 6), "maxima": jax.ops.segment_max(x, ids, 7), "unique": jnp.unique(i, size=9, return_inverse=True, return_counts=True)[2], "top": jax.lax.top_k(x, 3)[1], "approximate": jax.lax.approx_max_k(v, 3)[0], "lexsort": jnp.lexsort((x[1], x[2])), "partition": jnp.sort(jnp.partition(v, 3)[:3]),
                "search": jnp.searchsorted(jnp.sort(v), x[1], side="right", method="sort"), "digitize": jnp.digitize(v, jnp.linspace(-1, 1, 5)), "histogram": jnp.histogram2d(v, x[1], 4)[0], "bincount": jnp.bincount(i % 5, length=7), "percentile": jnp.nanpercentile(x.at[0, 0].set(jnp.nan), jnp.array([10, 50, 90]), axis=1, method="midpoint"),
                "median": jnp.nanmedian(x, axis=0), "cumulative": jnp.cumulative_sum(x, axis=1, include_initial=True), "logsumexp": jax.lax.cumlogsumexp(x, axis=1, reverse=True), "gradient": jnp.gradient(x, 0.5, axis=0), "interp": jnp.interp(v, jnp.linspace(-1, 1, 6), x[1, :6], period=2.5), "einsum": jnp.einsum("ab,cb,ad->cd", x, x, x),
                "correlate": jnp.correlate(v, x[1, :4], "same"), "packed": jnp.unpackbits(jnp.packbits(flags, axis=1), axis=1), "unwrap": jnp.unwrap(3 * v), "polyfit": jnp.polyfit(jnp.arange(9.0), v, 2), "polyval": jnp.polydiv(jnp.arange(1.0, 6), jnp.array([1.0, 2.0]))[0], "nonzero": jnp.stack(jnp.nonzero(flags, size=20, fill_value=-1)),
                "where": jnp.argwhere(flags, size=25), "choose": jnp.choose(ids % 3, [ids, ids * 2, ids * 3], mode="clip"), "select": jnp.piecewise(v, [v < 0, v > 0.5], [-1, lambda u: u * u, 0.5]), "delete": jnp.delete(v, jnp.array([1, 3]), assume_unique_indices=True), "insert": jnp.insert(v, 2, 9.0), "rolled": jnp.roll(x, (2, -3), (0, 1)),
                "kron": jnp.kron(x[:2, :2], x[2:4, 2:5]), "cov": jnp.cov(x), "corr": jnp.corrcoef(x, rowvar=False), "frexp": jnp.frexp(v)[1], "ldexp": jnp.ldexp(v, ids[0] + 2), "nextafter": jnp.nextafter(v, 9.0), "bits": jnp.bitwise_count(i.astype(jnp.uint32)), "float_power": jnp.float_power(jnp.abs(x), 1.3), "sinc": jnp.sinc(x), "modf": jnp.stack(jnp.modf(x)),
                "sets": jnp.setdiff1d(i, ids, size=8, fill_value=99), "isin": jnp.isin(i, ids), "intersect": jnp.intersect1d(i, ids, size=6, fill_value=-1), "tril": x[jnp.tril_indices(6, -1)], "take": jnp.take_along_axis(x, jnp.argsort(x, axis=1, descending=True, stable=True), 1), "put": jnp.put_along_axis(x, ids[:, None], 4.0, 1, inplace=False), "ix": x[jnp.ix_(ids, ids)],
                "resized": jax.image.scale_and_translate(x, (8, 5), (0, 1), jnp.array([1.3, 0.6]), jnp.array([0.2, -0.1]), "linear"), "convolve": jax.scipy.signal.convolve2d(x, x[:3, :2], "valid"), "stft": jnp.abs(jax.scipy.signal.stft(jnp.tile(v, 4), nperseg=8)[2]), "mode": jax.scipy.stats.mode(i)[0], "rank": jax.scipy.stats.rankdata(x, axis=1), "sem": jax.scipy.stats.sem(x),
                "fft": jnp.abs(jnp.fft.fft2(x)), "hfft": jnp.fft.hfft(x[0, :5] + 1j * x[1, :5]), "shifted": jnp.fft.fftshift(jnp.fft.fftfreq(9)), "idct": jax.scipy.fft.idctn(jax.scipy.fft.dctn(x)), "ragged": jax.lax.ragged_dot(x, jnp.ones((2, 9, 3)) * jnp.arange(1.0, 3)[:, None, None], jnp.array([2, 4])), "dynamic": jax.lax.dynamic_update_slice(x, jnp.ones((3, 4)), (ids[1] + 9, 7))}

    return lambda: run(x, i)


@workload(library="jax.numpy", rtol=0.02, atol=1e-3, why="narrow types: one rounding of bfloat16 is 0.4%, sums of 24 accumulate a few; integers are exact")
def narrow_types():
    import jax
    import jax.numpy as jnp
    x = jax.random.normal(jax.random.key(0), (6, 24))

    @jax.jit
    def run(x):
        out = {}
        for name in ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"):
            v = x.astype(name)
            wide = v.astype(jnp.float32)
            out.update({f"{name}.product": jax.lax.dot(v, v.T, preferred_element_type=jnp.float32), f"{name}.cast": wide, f"{name}.bits": jax.lax.bitcast_convert_type(v, jnp.uint16 if v.dtype.itemsize == 2 else jnp.uint8), f"{name}.sorted": jnp.sort(v, axis=1).astype(jnp.float32),
                        f"{name}.argmax": jnp.argmax(v, axis=1), f"{name}.loop": jax.lax.fori_loop(0, 4, lambda i, c: (c.astype(jnp.float32) * 0.9).astype(name), v).astype(jnp.float32)})
        for name in ("bfloat16", "float16"):
            v = x.astype(name)
            out.update({f"{name}.normal": jax.random.normal(jax.random.key(1), (40,), name).astype(jnp.float32), f"{name}.sum": v.sum(1).astype(jnp.float32), f"{name}.softmax": jax.nn.softmax(v).astype(jnp.float32), f"{name}.gradient": jax.grad(lambda u: jnp.sum(jnp.tanh(u @ u.T)).astype(jnp.float32))(v).astype(jnp.float32), f"{name}.variance": jnp.var(v, axis=0).astype(jnp.float32)})
        for name in ("int4", "uint4", "int8", "uint8", "int16"):
            v = jnp.round(x * 5).astype(jnp.int32).astype(name)
            out.update({f"{name}.cast": v.astype(jnp.int32), f"{name}.sum": (v + v * v - 3 * v).astype(jnp.int32), f"{name}.product": jax.lax.dot(v.astype(jnp.int8), v.astype(jnp.int8).T, preferred_element_type=jnp.int32), f"{name}.sorted": jnp.sort(v.astype(jnp.int8)), f"{name}.shifted": (v >> 1).astype(jnp.int32)})
        packed = jnp.round(x * 3).astype(jnp.int4)
        quantised = jnp.clip(jnp.round(x * 20), -127, 127).astype(jnp.int8)
        return {**out, "updated": packed.at[2, 1:5].set(-3).astype(jnp.int32), "concatenated": jnp.concatenate([packed, packed[:, ::-1]], 1).astype(jnp.int8), "gathered": packed[jnp.array([3, 0])].astype(jnp.int8), "dequantised": quantised.astype(jnp.bfloat16) @ jnp.ones((24, 3), jnp.bfloat16) / 20}

    def step():
        return {k: v.astype(jnp.float32) if v.dtype == jnp.bfloat16 else v for k, v in run(x).items()}

    return step


@workload(library="jax several devices", devices=4, rtol=1e-4, why="collectives and resharding in float32")
def sharding_in_types_and_maps():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import AxisType, Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
    explicit = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Explicit))

    @jax.jit
    def constrained(a, b):
        c = jax.lax.with_sharding_constraint(a @ b, NamedSharding(mesh, P("x", "y")))
        d = jax.lax.with_sharding_constraint(jnp.sort(c, axis=0), NamedSharding(mesh, P(None, ("x", "y"))))
        return jnp.fft.fft(d).real, jnp.cumsum(c, 1), jax.lax.scan(lambda s, r: (s + r, s * r), jnp.zeros(8), c)[1]

    @jax.jit
    def pipeline(w, x):
        @jax.shard_map(mesh=mesh, in_specs=(P("x", None, "y"), P("y")), out_specs=P("x", "y"))
        def run(w, x):
            def body(i, c):
                y = jax.lax.psum(c @ w[0], "y") if False else c @ w[0]
                y = jax.lax.all_gather(y, "y", axis=1, tiled=True)
                return jax.lax.ppermute(jnp.tanh(y), "x", [(0, 1), (1, 0)])
            x = jax.lax.pcast(x, ("x",), to="varying")
            out = jax.lax.fori_loop(0, 3, body, x)
            return out[None, :, :2].sum(1)
        return run(w, x)

    def step():
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((8, 4)).astype(np.float32), rng.standard_normal((4, 8)).astype(np.float32)
        first = jax.make_array_from_callback((8, 4), NamedSharding(mesh, P("y", "x")), lambda i: a[i])
        fft, sums, history = constrained(first, jax.device_put(b, NamedSharding(mesh, P("x"))))
        moved = jax.device_put(sums, NamedSharding(mesh, P("y", "x")))
        w = jax.device_put(rng.standard_normal((2, 4, 4)).astype(np.float32), NamedSharding(mesh, P("x", None, "y")))
        piped = pipeline(w, jax.device_put(a, NamedSharding(mesh, P("y"))))
        gradient = jax.jit(jax.grad(lambda w: jnp.sum(pipeline(w, a))))(w)
        with jax.set_mesh(explicit):
            u, v = jax.device_put(a, P("x", None)), jax.device_put(b, P(None, "y"))
            typed = jax.jit(lambda u, v: jnp.sin(u @ v))(u, v)
            summed = jax.jit(lambda t: jax.sharding.reshard(t, P("y", "x")).sum(0))(typed)
        members = jax.vmap(lambda v: v * 2, spmd_axis_name="x")(first)
        return {"fft": fft, "sums": sums, "history": history, "moved": moved, "piped": piped, "gradient": gradient, "typed": np.asarray(typed), "summed": np.asarray(summed), "members": members, "shards": np.array([s.data.shape for s in moved.addressable_shards])}

    return step


@workload(library="haiku", rtol=1e-4, atol=1e-5, why="lifted loops and attention in float32")
def haiku_lifted_loops():
    import haiku as hk
    import jax
    import jax.numpy as jnp

    def forward(t, x):
        h = hk.Embed(30, 12)(t) + hk.get_parameter("position", (10, 12), init=hk.initializers.TruncatedNormal(0.1))
        h = hk.experimental.layer_stack(3)(lambda v: v + hk.MultiHeadAttention(3, 4, w_init=hk.initializers.VarianceScaling(), model_size=12)(*[hk.LayerNorm(-1, True, True)(v)] * 3))(h)
        cell = hk.Linear(5)
        out, _ = hk.scan(lambda c, v: ((c := cell(jnp.concatenate([c, v], -1))), jnp.tanh(c)), jnp.zeros((3, 5)), jnp.swapaxes(h, 0, 1))
        count = hk.get_state("count", (), init=jnp.zeros)
        hk.set_state("count", hk.fori_loop(0, 3, lambda i, c: c + 1.5, count))
        members = hk.vmap(hk.Linear(2), split_rng=False, in_axes=1)(h)
        yes, no = hk.Linear(2, name="yes"), hk.Linear(2, name="no")
        picked = yes(out) + no(out) if hk.running_init() else hk.cond(jnp.sum(x) > 0, yes, no, out)
        conv = hk.Conv2DTranspose(2, 3, 2)(hk.nets.MLP([6, 4])(x))
        noise = hk.dropout(hk.next_rng_key(), 0.3, conv)
        return picked, members, hk.avg_pool(noise, 2, 2, "SAME"), hk.remat(hk.Linear(3))(h), hk.nets.VectorQuantizer(12, 6, 0.25)(h, is_training=True)["quantize"]

    net = hk.transform_with_state(forward)
    t, x = jax.random.randint(jax.random.key(0), (3, 10), 0, 30), jax.random.normal(jax.random.key(1), (2, 5, 5, 3))

    @jax.jit
    def run(p, s):
        def loss(p):
            out, new = net.apply(p, s, jax.random.PRNGKey(2), t, x)
            return sum(jnp.sum(jnp.sin(o)) for o in out), (out, new)
        return jax.value_and_grad(loss, has_aux=True)(p)

    def step():
        p, s = net.init(jax.random.PRNGKey(0), t, x)
        (value, (out, new)), gradients = run(p, s)
        return {"value": value, **flat(out, "o"), **flat(new, "s"), **flat(gradients)}

    return step


@workload(library="tfp on JAX", rtol=1e-5, atol=1e-5, x64=True, why="optimisers, quadrature and a short chain of NUTS in double precision")
def tfp_optimisers_nuts():
    import jax
    import jax.numpy as jnp
    from tensorflow_probability.substrates import jax as tfp
    tfd, tfb, tfm = tfp.distributions, tfp.bijectors, tfp.mcmc

    def target(x):
        return -jnp.sum(0.5 * x ** 2 + 0.05 * x ** 4, -1)

    @jax.jit
    def nuts(key):
        kernel = tfm.DualAveragingStepSizeAdaptation(tfm.NoUTurnSampler(target, 0.3, max_tree_depth=4), 5)
        return tfm.sample_chain(8, jnp.ones((2, 3)), kernel=kernel, num_burnin_steps=6, trace_fn=None, seed=key)

    @jax.jit
    def tempered(key):
        kernel = tfm.ReplicaExchangeMC(target, jnp.array([1.0, 0.5, 0.2]), lambda f: tfm.RandomWalkMetropolis(f))
        return tfm.sample_chain(10, jnp.zeros(2), kernel=kernel, trace_fn=None, seed=key)

    def rosenbrock(x):
        return 5 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    @jax.jit
    def optimise(start):
        value_and_gradient = jax.value_and_grad(rosenbrock)
        return tfp.optimizer.bfgs_minimize(value_and_gradient, start, tolerance=1e-10).position, tfp.optimizer.lbfgs_minimize(value_and_gradient, start, tolerance=1e-10).position, tfp.optimizer.nelder_mead_minimize(rosenbrock, initial_vertex=start, func_tolerance=1e-12).position

    scales = jnp.array(1.1), jnp.array(0.7)

    @jax.jit
    def process(x, y):
        gp = tfd.GaussianProcess(tfp.math.psd_kernels.MaternFiveHalves(*scales), x, observation_noise_variance=0.05)
        posterior = tfd.GaussianProcessRegressionModel(tfp.math.psd_kernels.ExponentiatedQuadratic(*scales), x[:5] + 0.05, x, y, observation_noise_variance=0.05)
        return gp.log_prob(y), posterior.mean(), posterior.stddev()

    def step():
        x = jnp.linspace(-1, 1, 12)[:, None]
        bfgs, lbfgs, simplex = optimise(jnp.array([-0.7, 0.8]))
        density, mean, deviation = process(x, jnp.sin(3 * x[:, 0]))
        hidden = tfd.HiddenMarkovModel(tfd.Categorical(probs=jnp.array([0.6, 0.4])), tfd.Categorical(probs=jnp.array([[0.9, 0.1], [0.3, 0.7]])), tfd.Normal(jnp.array([0.0, 2.0]), 1.0), 9)
        flow = tfb.Chain([tfb.ScaleMatvecTriL(jnp.array([[1.0, 0.0], [0.4, 0.8]])), tfb.SinhArcsinh(jnp.array(0.3), jnp.array(1.2)), tfb.Invert(tfb.SoftClip(jnp.array(-6.0), jnp.array(6.0)))])
        copula = tfd.MultivariateStudentTLinearOperator(5.0, jnp.zeros(2), tfp.tf2jax.linalg.LinearOperatorLowerTriangular(jnp.array([[1.0, 0.0], [0.3, 1.0]])))
        return {"nuts": nuts(jax.random.PRNGKey(0)), "tempered": tempered(jax.random.PRNGKey(1)), "bfgs": bfgs, "lbfgs": lbfgs, "simplex": jnp.round(simplex, 3), "density": density, "mean": mean, "deviation": deviation, "viterbi": hidden.posterior_mode(jnp.arange(9.0) / 3),
                "marginals": hidden.posterior_marginals(jnp.arange(9.0) / 3).probs_parameter(), "flow": flow.inverse(flow.forward(x[:, :1] * jnp.ones(2))), "jacobian": flow.forward_log_det_jacobian(x[:, :1] * jnp.ones(2), 1), "copula": copula.log_prob(jnp.ones(2)), "ode": tfp.math.ode.DormandPrince().solve(lambda t, y: -y, 0.0, jnp.ones(2), jnp.array([0.5, 1.0])).states,
                "root": tfp.math.find_root_chandrupatla(lambda v: v ** 3 - 2, jnp.zeros(2), jnp.array([2.0, 3.0]))[0], "quantile": tfp.stats.percentile(jnp.arange(20.0) ** 2, jnp.array([10.0, 50.0])), "interpolated": tfp.math.interp_regular_1d_grid(jnp.array([0.3, 1.7]), 0.0, 2.0, jnp.array([1.0, 2.0, 4.0]))}

    return step


@workload(library="jax.scipy.optimize", rtol=1e-7, x64=True, why="searches that end at an optimum, mapped and differentiated through, double precision")
def optimisers_mapped():
    import jax
    import jax.numpy as jnp
    import optimistix as optx
    from jax.scipy.optimize import minimize

    def cost(x, centre):
        return jnp.sum((x - centre) ** 2 * jnp.arange(1.0, 4)) + 0.1 * jnp.sum(jnp.cos(x))

    searched = jax.jit(jax.vmap(lambda c: minimize(cost, jnp.zeros(3), args=(c,), method="BFGS", options={"gtol": 1e-10})))
    limited = jax.jit(jax.vmap(lambda c: minimize(cost, jnp.zeros(3), args=(c,), method="l-bfgs-experimental-do-not-rely-on-this", options={"gtol": 1e-10}).x))
    implicit = jax.jit(jax.vmap(jax.jacrev(lambda c: optx.minimise(cost, optx.BFGS(1e-9, 1e-9), jnp.zeros(3), c).value)))
    bounded = jax.jit(jax.vmap(lambda c: optx.least_squares(lambda y, c: jnp.concatenate([y - c, jnp.sin(y)]), optx.LevenbergMarquardt(1e-10, 1e-10), jnp.zeros(3), c).value))
    unrolled = jax.jit(jax.vmap(jax.grad(lambda c: jax.lax.scan(lambda x, _: (x - 0.1 * jax.grad(cost)(x, c), None), jnp.zeros(3), length=30)[0][0])))

    def step():
        centres = jax.random.normal(jax.random.key(0), (5, 3))
        found = searched(centres)
        return {"x": found.x, "value": found.fun, "success": jnp.all(found.jac ** 2 < 1e-12), "limited": limited(centres), "implicit": implicit(centres), "bounded": bounded(centres), "unrolled": unrolled(centres)}

    return step


@workload(library="numpy, pickle, threads beside jax", rtol=1e-5, why="the same arrays by several roads; sums and products in float32")
def arrays_by_other_roads():
    import concurrent.futures
    import pickle

    import jax
    import jax.numpy as jnp
    import numpy as np
    memory = np.zeros(1 << 16, np.uint8)
    start = -memory.ctypes.data % 64

    def at(offset, dtype, shape):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        view = memory[start + offset:start + offset + size].view(dtype).reshape(shape)
        view[...] = np.arange(view.size).reshape(shape) % 23
        return view

    programs = {"product": lambda x: x @ x.T, "sorted": lambda x: jnp.sort(x, axis=0), "sum": lambda x: x.sum(1), "transposed": lambda x: x.T + 1, "scan": lambda x: jax.lax.scan(lambda c, v: (c + v, c), jnp.zeros_like(x[0]), x)[1], "sliced": lambda x: x[3:, 1:-1] * 2}
    programs = {name: jax.jit(f) for name, f in programs.items()}
    grow = jax.jit(lambda x: x.at[0].add(1), donate_argnums=0)

    def step():
        out = {}
        for dtype in ("int8", "int16", "float32", "complex64"):  # where numpy has them, on no boundary that vectors like
            for offset in (0, np.dtype(dtype).itemsize, 48):
                x = jnp.from_dlpack(at(offset, dtype, (33, 17)))
                out.update({f"{dtype}.{offset}.{name}": np.asarray(f(x)) for name, f in programs.items()})  # before the memory gets other contents
        back = np.from_dlpack(programs["transposed"](x))
        aliased = np.arange(4096, dtype=np.float32)
        copied = jnp.array(aliased)
        aliased[:] = 0

        def work(i):
            v = jnp.full((16, 16), i / 8)
            for _ in range(10):
                v = grow(v)
            return np.asarray(jax.jit(lambda v: jnp.tanh(v @ v) * i)(v))

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            threads = np.stack(list(pool.map(work, range(8))))
        return {**out, "back": back, "copied": copied, "pickled": pickle.loads(pickle.dumps(copied)) + 1, "threads": threads, "scalars": np.array([float(copied[3]), int(copied[4]), len(copied)]), "bytes": np.frombuffer(np.asarray(copied).tobytes(), np.float32)[:9]}

    return step
