"""Sampling and probability: numpyro, blackjax, tfp on JAX, distrax, flowjax, gpjax, tinygp, dynamax, bartz, ott-jax."""
from protocol import workload


@workload(library="numpyro", rtol=2e-2, atol=2e-2, x64=True, why="NUTS is chaotic: 20 short samples in double precision stay together, the summary is of their means")
def numpyro_eight_schools():
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS, Predictive
    y = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    sigma = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def model(y=None):
        mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("schools", 8):
            with numpyro.handlers.reparam(config={"theta": numpyro.infer.reparam.LocScaleReparam(0)}):
                theta = numpyro.sample("theta", dist.Normal(mu, tau))
            numpyro.sample("y", dist.Normal(theta, sigma), obs=y)

    mcmc = MCMC(NUTS(model), num_warmup=20, num_samples=20, progress_bar=False)

    def step():
        mcmc.run(jax.random.PRNGKey(0), y, extra_fields=("num_steps", "diverging"))
        samples = mcmc.get_samples()
        predictive = Predictive(model, samples)(jax.random.PRNGKey(1))["y"]
        return {"mu": samples["mu"], "tau": samples["tau"], "steps": mcmc.get_extra_fields()["num_steps"], "predictive": predictive}

    return step


@workload(library="numpyro", rtol=5e-3, atol=1e-3, why="60 steps of stochastic variational inference in float32, with the same noise")
def numpyro_svi():
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, RenyiELBO, Trace_ELBO, TraceGraph_ELBO, autoguide
    x = jax.random.normal(jax.random.PRNGKey(5), (60, 3))
    y = (x @ jnp.array([1.0, -2.0, 0.5]) > 0).astype(jnp.float32)

    def logistic():
        w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
        with numpyro.plate("data", 60):
            numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)

    def mixture():
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(2)))
        with numpyro.plate("components", 2):
            loc = numpyro.sample("loc", dist.Normal(0, 3))
        with numpyro.plate("data", 60):
            numpyro.sample("obs", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(loc, 1.0)), obs=x[:, 0] * 2)

    def switched():
        z = numpyro.sample("z", dist.Bernoulli(0.4))
        numpyro.sample("obs", dist.Normal(z * 2.0, 1.0).expand([4]).to_event(1), obs=x[:4, 0] + 1)

    def switch_guide():
        numpyro.sample("z", dist.Bernoulli(numpyro.param("p", 0.5, constraint=dist.constraints.unit_interval)))

    svi = SVI(logistic, autoguide.AutoMultivariateNormal(logistic), numpyro.optim.Adam(0.05), Trace_ELBO(num_particles=4))
    mixed = SVI(mixture, autoguide.AutoNormal(mixture), numpyro.optim.Adam(0.05), RenyiELBO(alpha=0.5, num_particles=3))
    scored = SVI(switched, switch_guide, numpyro.optim.ClippedAdam(0.05), TraceGraph_ELBO())

    def step():
        found = svi.run(jax.random.PRNGKey(0), 60, progress_bar=False)
        other, score = mixed.run(jax.random.PRNGKey(0), 40, progress_bar=False), scored.run(jax.random.PRNGKey(0), 40, progress_bar=False)
        return {"losses": found.losses, "loc": found.params["auto_loc"], "mixture": other.losses, "scored": score.losses, "p": score.params["p"]}

    return step


@workload(library="blackjax", rtol=2e-2, atol=2e-2, x64=True, why="chaotic samplers: short chains in double precision")
def blackjax_samplers():
    import blackjax
    import jax
    import jax.numpy as jnp

    def logdensity(x):
        return -0.5 * jnp.sum((x - jnp.arange(3.0)) ** 2 / (1.0 + jnp.arange(3.0))) - 0.1 * jnp.sum(x ** 4)

    warmup = blackjax.window_adaptation(blackjax.nuts, logdensity)

    @jax.jit
    def nuts(key):
        a, b = jax.random.split(key)
        (state, parameters), _ = warmup.run(a, jnp.zeros(3), num_steps=40)
        kernel = blackjax.nuts(logdensity, **parameters).step
        def one(s, k):
            s, info = kernel(k, s)
            return s, (s.position, info.num_integration_steps)
        return jax.lax.scan(one, state, jax.random.split(b, 15))[1]

    def chain(algorithm):
        @jax.jit
        def run(key):
            def one(s, k):
                s, _ = algorithm.step(k, s)
                return s, s.position
            return jax.lax.scan(one, algorithm.init(jnp.zeros(3)), jax.random.split(key, 20))[1]
        return run

    chains = {"hmc": chain(blackjax.hmc(logdensity, 0.2, jnp.ones(3), 5)), "mala": chain(blackjax.mala(logdensity, 0.1)),
              "rmh": chain(blackjax.additive_step_random_walk(logdensity, blackjax.mcmc.random_walk.normal(jnp.full(3, 0.4))))}

    def step():
        positions, steps = nuts(jax.random.key(0))
        return {"nuts": positions, "integration_steps": steps, **{n: c(jax.random.key(1)) for n, c in chains.items()}}

    return step


@workload(library="tfp on JAX", rtol=1e-3, atol=1e-3, why="short HMC chains and a Kalman filter in float32")
def tfp_hmc_kalman():
    import jax
    import jax.numpy as jnp
    from tensorflow_probability.substrates import jax as tfp
    tfd, tfm = tfp.distributions, tfp.mcmc
    target = tfd.JointDistributionSequential([tfd.Normal(0.0, 1.0), lambda m: tfd.Sample(tfd.Normal(m, 1.0), 5)])
    data = jnp.array([0.3, -0.2, 1.1, 0.8, 0.4])

    @jax.jit
    def hmc(key):
        kernel = tfm.TransformedTransitionKernel(tfm.HamiltonianMonteCarlo(lambda m: target.log_prob([m, data]), 0.1, 3), tfp.bijectors.Identity())
        return tfm.sample_chain(15, jnp.zeros(4), kernel=kernel, num_burnin_steps=5, trace_fn=lambda _, r: r.inner_results.is_accepted, seed=key)

    @jax.jit
    def kalman(y):
        model = tfd.LinearGaussianStateSpaceModel(num_timesteps=12, transition_matrix=jnp.array([[1.0, 1.0], [0.0, 1.0]]),
                                                  transition_noise=tfd.MultivariateNormalDiag(scale_diag=jnp.array([0.1, 0.2])),
                                                  observation_matrix=jnp.array([[1.0, 0.0]]), observation_noise=tfd.MultivariateNormalDiag(scale_diag=jnp.array([0.5])),
                                                  initial_state_prior=tfd.MultivariateNormalDiag(scale_diag=jnp.ones(2)))
        likelihood, mean, *_ = model.forward_filter(y)
        return model.log_prob(y), mean, model.posterior_marginals(y)[0]

    def step():
        samples, accepted = hmc(jax.random.PRNGKey(0))
        likelihood, mean, smoothed = kalman(jnp.sin(jnp.arange(12.0))[:, None])
        return {"samples": samples, "accepted": accepted, "likelihood": likelihood, "mean": mean, "smoothed": smoothed}

    return step


@workload(library="tfp on JAX", rtol=2e-4, atol=2e-5, why="log-densities, samples and quantiles in float32")
def tfp_distributions_bijectors():
    import jax
    import jax.numpy as jnp
    from tensorflow_probability.substrates import jax as tfp
    tfd, tfb = tfp.distributions, tfp.bijectors
    x = jnp.linspace(0.1, 2.5, 9)
    distributions = {
        "gamma": tfd.Gamma(2.0, 1.5), "beta": tfd.Beta(2.0, 3.0), "student": tfd.StudentT(4.0, 0.5, 1.2), "laplace": tfd.Laplace(0.3, 1.1), "weibull": tfd.Weibull(1.5, 1.0),
        "gumbel": tfd.Gumbel(0.2, 0.9), "lognormal": tfd.LogNormal(0.1, 0.7), "inverse_gamma": tfd.InverseGamma(3.0, 1.0), "cauchy": tfd.Cauchy(0.0, 1.0),
        "mixture": tfd.MixtureSameFamily(tfd.Categorical(logits=jnp.array([0.2, -0.3])), tfd.Normal(jnp.array([0.0, 1.0]), jnp.array([1.0, 0.5]))),
        "von_mises": tfd.VonMises(0.3, 2.0), "truncated": tfd.TruncatedNormal(0.5, 1.0, 0.0, 3.0), "poisson": tfd.Poisson(1.7),
    }
    wishart = tfd.WishartTriL(5.0, jnp.eye(3))
    chain = tfb.Chain([tfb.Softplus(), tfb.Scale(0.7), tfb.Shift(0.2), tfb.Tanh()])
    densities = jax.jit(lambda v: {n: d.log_prob(jnp.clip(v / 3, 0.01, 0.99) if n == "beta" else jnp.floor(v) if n == "poisson" else v) for n, d in distributions.items()})
    samples = jax.jit(lambda k: {f"sample.{n}": d.sample(7, seed=k) for n, d in distributions.items()})

    def step():
        out = {**densities(x), **samples(jax.random.PRNGKey(0))}
        matrix = wishart.sample(2, seed=jax.random.PRNGKey(1))
        return {**out, "wishart": matrix, "wishart_density": wishart.log_prob(matrix), "chain": chain.forward(x), "jacobian": chain.forward_log_det_jacobian(x, 0),
                "corr": tfb.CorrelationCholesky().forward(jnp.array([0.1, -0.3, 0.6])), "bessel": tfp.math.bessel_ive(0.5, x), "betainc": tfp.math.betainc(2.0, 3.0, x / 3)}

    return step


@workload(library="distrax", rtol=1e-3, why="20 steps of a masked coupling flow by Adam, float32")
def distrax_flow():
    import distrax
    import haiku as hk
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
    data = np.random.default_rng(0).standard_normal((64, 2)).astype(np.float32) @ np.array([[1.0, 0.5], [0.0, 0.3]], np.float32)

    def flow():
        mask = jnp.arange(2) % 2
        layers = []
        for i in range(3):
            net = hk.Sequential([hk.Linear(16), jnp.tanh, hk.Linear(2 * 16, w_init=hk.initializers.RandomNormal(0.01)), lambda v: v.reshape(*v.shape[:-1], 2, 16)])
            layers.append(distrax.MaskedCoupling(mask=(mask + i) % 2 == 0, bijector=lambda p: distrax.RationalQuadraticSpline(p, -4.0, 4.0), conditioner=net))
        return distrax.Transformed(distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2)), distrax.Inverse(distrax.Chain(layers)))

    density = hk.without_apply_rng(hk.transform(lambda x: flow().log_prob(x)))
    sampler = hk.transform(lambda n: flow().sample(seed=hk.next_rng_key(), sample_shape=(8,)))
    optimiser = optax.adam(5e-3)

    @jax.jit
    def update(p, state):
        value, gradients = jax.value_and_grad(lambda p: -jnp.mean(density.apply(p, data)))(p)
        updates, state = optimiser.update(gradients, state)
        return optax.apply_updates(p, updates), state, value

    def step():
        p = density.init(jax.random.PRNGKey(0), data)
        state, losses = optimiser.init(p), []
        for _ in range(20):
            p, state, value = update(p, state)
            losses.append(value)
        return {"losses": jnp.stack(losses), "samples": sampler.apply(p, jax.random.PRNGKey(2), 8), "categorical": distrax.Categorical(jnp.arange(4.0)).entropy()}

    return step


@workload(library="flowjax", rtol=5e-3, why="an autoregressive flow after 15 fitting steps, float32; sampling inverts it by search")
def flowjax_flow():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax
    from flowjax.bijections import Affine, RationalQuadraticSpline
    from flowjax.distributions import Normal
    from flowjax.flows import block_neural_autoregressive_flow, masked_autoregressive_flow
    import paramax
    x = jax.random.normal(jax.random.key(0), (64, 2)) @ jnp.array([[1.0, 0.4], [0.0, 0.5]])
    optimiser = optax.adam(3e-3)

    @eqx.filter_jit
    def update(model, state):
        parameters, static = eqx.partition(model, eqx.is_inexact_array, is_leaf=lambda l: isinstance(l, paramax.NonTrainable))
        value, gradients = eqx.filter_value_and_grad(lambda p: -jnp.mean(paramax.unwrap(eqx.combine(p, static)).log_prob(x)))(parameters)
        updates, state = optimiser.update(gradients, state)
        return eqx.combine(eqx.apply_updates(parameters, updates), static), state, value

    def step():
        model = masked_autoregressive_flow(jax.random.key(1), base_dist=Normal(jnp.zeros(2)), transformer=RationalQuadraticSpline(knots=5, interval=4), flow_layers=2, nn_width=16)
        state = optimiser.init(eqx.partition(model, eqx.is_inexact_array, is_leaf=lambda l: isinstance(l, paramax.NonTrainable))[0])
        losses = []
        for _ in range(15):
            model, state, value = update(model, state)
            losses.append(value)
        bnaf = block_neural_autoregressive_flow(jax.random.key(2), base_dist=Normal(jnp.zeros(2)), nn_block_dim=4)
        return {"losses": jnp.stack(losses), "samples": paramax.unwrap(model).sample(jax.random.key(3), (5,)), "bnaf": paramax.unwrap(bnaf).log_prob(x[:8]),
                "affine": Affine(1.0, 2.0).transform(jnp.array(0.5))}

    return step


@workload(library="gpjax", rtol=1e-5, x64=True, why="a Gaussian process fitted in double precision")
def gpjax_regression():
    import gpjax as gpx
    import jax
    import jax.numpy as jnp
    import optax
    x = jnp.sort(jax.random.uniform(jax.random.key(0), (40, 1), minval=-3, maxval=3), 0)
    y = jnp.sin(4 * x) + jnp.cos(2 * x) + 0.2 * jax.random.normal(jax.random.key(1), x.shape)
    data = gpx.Dataset(x, y)
    test = jnp.linspace(-3.5, 3.5, 25)[:, None]

    def step():
        prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=gpx.kernels.RBF() + gpx.kernels.Matern32())
        posterior = prior * gpx.likelihoods.Gaussian()
        fitted, history = gpx.fit(model=posterior, objective=lambda p, d: -gpx.objectives.conjugate_mll(p, d), train_data=data, optim=optax.adam(0.05), num_iters=30,
                                  key=jax.random.key(2), verbose=False)
        found = fitted.likelihood(fitted.predict(test, train_data=data))
        return {"history": history, "mean": found.mean, "variance": jnp.diag(found.covariance())}

    return step


@workload(library="tinygp", rtol=1e-6, x64=True, why="dense and quasiseparable Gaussian processes in double precision")
def tinygp_processes():
    import jax
    import jax.numpy as jnp
    from tinygp import GaussianProcess, kernels
    x = jnp.sort(jax.random.uniform(jax.random.key(0), (50,), maxval=10.0))
    y = jnp.sin(x)

    def dense(p):
        kernel = jnp.exp(p["a"]) * kernels.ExpSquared(jnp.exp(p["l"])) + kernels.Matern52(2.0) * kernels.ExpSineSquared(scale=3.0, gamma=0.3)
        return -GaussianProcess(kernel, x, diag=0.05).log_probability(y)

    def semiseparable(p):
        kernel = kernels.quasisep.SHO(omega=jnp.exp(p["a"]), quality=1.5) + kernels.quasisep.Matern32(jnp.exp(p["l"]))
        gp = GaussianProcess(kernel, x, diag=0.05)
        return -gp.log_probability(y)

    runs = [jax.jit(jax.value_and_grad(f)) for f in (dense, semiseparable)]
    condition = jax.jit(lambda t: GaussianProcess(kernels.quasisep.Matern32(1.5), x, diag=0.05).condition(y, t)[1].loc)

    def step():
        p = {"a": jnp.float64(0.1), "l": jnp.float64(0.4)}
        out = {}
        for name, run in zip(("dense", "quasisep"), runs):
            value, gradient = run(p)
            out.update({name: value, f"{name}.a": gradient["a"], f"{name}.l": gradient["l"]})
        return {**out, "conditioned": condition(jnp.linspace(0, 10, 33))}

    return step


@workload(library="dynamax", rtol=2e-3, why="expectation maximisation over a hidden Markov model and a Kalman smoother, float32")
def dynamax_state_spaces():
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import GaussianHMM
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM
    hmm = GaussianHMM(3, 2)
    lgssm = LinearGaussianSSM(2, 3)

    def step():
        parameters, properties = hmm.initialize(jax.random.PRNGKey(0))
        states, emissions = hmm.sample(parameters, jax.random.PRNGKey(1), 60)
        start, properties = hmm.initialize(jax.random.PRNGKey(2))
        fitted, likelihoods = hmm.fit_em(start, properties, emissions, num_iters=5, verbose=False)
        p, _ = lgssm.initialize(jax.random.PRNGKey(3))
        _, y = lgssm.sample(p, jax.random.PRNGKey(4), 30)
        smoothed = lgssm.smoother(p, y)
        return {"states": states, "emissions": emissions, "likelihoods": likelihoods, "viterbi": hmm.most_likely_states(parameters, emissions),
                "smoothed": smoothed.smoothed_means, "covariances": smoothed.smoothed_covariances}

    return step


@workload(library="bartz", rtol=2e-2, atol=2e-2, why="additive trees grown by MCMC: 10 iterations, decisions follow the same random numbers")
def bartz_trees():
    import jax
    import numpy as np
    from bartz.BART import gbart
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 60)).astype(np.float32)
    y = np.sin(x[0]) + 0.3 * x[1]

    def step():
        fit = gbart(x.T, y, ntree=10, ndpost=6, nskip=4, printevery=None, seed=0)
        return {"yhat": fit.yhat_train, "sigma": jax.numpy.asarray(fit.sigma)}

    return step


@workload(library="ott-jax", rtol=2e-3, why="Sinkhorn iterations stop at a threshold of 1e-3 in float32")
def ott_sinkhorn():
    import jax
    import jax.numpy as jnp
    from ott.geometry import costs, pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn, sinkhorn_lr
    from ott.tools import soft_sort
    x = jax.random.normal(jax.random.key(0), (40, 3))
    y = jax.random.normal(jax.random.key(1), (50, 3)) * 0.7 + 0.3
    solver, low_rank = sinkhorn.Sinkhorn(), sinkhorn_lr.LRSinkhorn(rank=4, max_iterations=50)

    def cost(x, y):
        geometry = pointcloud.PointCloud(x, y, cost_fn=costs.PNormP(1.5), epsilon=0.1)
        out = solver(linear_problem.LinearProblem(geometry))
        return out.reg_ot_cost, out

    run = jax.jit(jax.value_and_grad(cost, has_aux=True))
    lr = jax.jit(lambda x, y: low_rank(linear_problem.LinearProblem(pointcloud.PointCloud(x, y))).primal_cost)

    def step():
        (value, out), gradient = run(x, y)
        return {"value": value, "gradient": gradient, "plan": out.matrix, "converged": out.converged, "low_rank": lr(x, y), "soft_sort": soft_sort.sort(x[:, 0], epsilon=0.1)}

    return step
