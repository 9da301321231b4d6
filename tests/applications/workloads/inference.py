"""A sampler with a flow, a physics-informed network: flowMC, jinns."""
from protocol import workload


@workload(library="flowMC", x64=True, rtol=1e-4, why="a few local steps, training of a flow in two epochs, and global steps, double precision")
def flowmc_sampler():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from flowMC.resource_strategy_bundle.RQSpline_MALA import RQSpline_MALA_Bundle
    from flowMC.Sampler import Sampler
    dims, chains = 2, 8
    log_density = lambda x, data: -0.5 * jnp.sum((x - data["mean"]) ** 2) - 0.1 * x[0] ** 2 * x[1] ** 2
    data = {"mean": jnp.arange(dims) * 1.0}

    def step():
        key = jax.random.PRNGKey(42)
        bundle = RQSpline_MALA_Bundle(key, chains, dims, log_density, 5, 5, 2, 2, 2, mala_step_size=0.1, rq_spline_hidden_units=(8, 8), rq_spline_n_bins=4,
                                      rq_spline_n_layers=2, batch_size=32, n_max_examples=32)
        sampler = Sampler(n_dim=dims, n_chains=chains, rng_key=key, resource_strategy_bundles=bundle)
        sampler.sample(jax.random.normal(jax.random.PRNGKey(0), (chains, dims)), data)
        return {name: np.asarray(sampler.resources[name].data) for name in ("positions_production", "log_prob_production")}

    return step


@workload(library="jinns", rtol=1e-3, why="20 steps of Adam on a smooth equation from the same start, float32")
def jinns_operators():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax
    from jinns.nn import PINN_MLP
    network, initial = PINN_MLP.create(key=jax.random.PRNGKey(0), eqx_list=((eqx.nn.Linear, 2, 16), (jax.nn.tanh,), (eqx.nn.Linear, 16, 1)), eq_type="PDENonStatio")
    from jinns.parameters import Params
    points = jax.random.uniform(jax.random.key(1), (64, 2))
    optimiser = optax.adam(1e-2)

    def residual(weights, tx):
        u = lambda tx: network(tx, Params(nn_params=weights, eq_params={}))[0]
        g, h = jax.grad(u)(tx), jax.hessian(u)(tx)
        return g[0] + u(tx) * g[1] - 0.01 * h[1, 1]

    loss = lambda weights: jnp.mean(jax.vmap(lambda tx: residual(weights, tx))(points) ** 2) + jnp.mean((jax.vmap(lambda x: network(jnp.array([0.0, x]), Params(nn_params=weights, eq_params={}))[0])(points[:, 1]) - jnp.sin(points[:, 1])) ** 2)

    @jax.jit
    def train(weights):
        def update(carry, _):
            weights, state = carry
            value, g = jax.value_and_grad(loss)(weights)
            change, state = optimiser.update(g, state)
            return (optax.apply_updates(weights, change), state), value
        return jax.lax.scan(update, (weights, optimiser.init(weights)), None, 20)[1]

    return lambda: {"losses": train(initial)}
