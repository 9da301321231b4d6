"""Reinforcement learning, search, evolution, images: rlax, mctx, gymnax, flashbax, evosax, dm-pix, quax."""
from protocol import workload


@workload(library="rlax", rtol=1e-4, why="recurrences over 30 steps in float32")
def rlax_returns_losses():
    import jax
    import jax.numpy as jnp
    import rlax
    keys = jax.random.split(jax.random.key(0), 6)
    values, rewards = jax.random.normal(keys[0], (31,)), jax.random.normal(keys[1], (30,))
    discounts, rho = jnp.where(jax.random.uniform(keys[2], (30,)) < 0.1, 0.0, 0.97), jnp.exp(0.3 * jax.random.normal(keys[3], (30,)))
    q, actions = jax.random.normal(keys[4], (30, 5)), jax.random.randint(keys[5], (30,), 0, 5)

    @jax.jit
    def run():
        vtrace = rlax.vtrace_td_error_and_advantage(values[:-1], values[1:], rewards, discounts, rho)
        gae = rlax.truncated_generalized_advantage_estimation(rewards, discounts, 0.95, values)
        td = jax.vmap(rlax.q_learning)(q[:-1], actions[:-1], rewards[:-1], discounts[:-1], q[1:])
        retrace = rlax.retrace(q[:-1], q[1:], actions[:-1], actions[1:], rewards[:-1], discounts[:-1], jax.nn.softmax(q[1:]), jnp.full(29, 0.2), 0.9)
        categorical = jax.vmap(rlax.categorical_l2_project, in_axes=(0, 0, None))(jnp.tile(jnp.linspace(-1, 1, 11), (3, 1)) + 0.05, jax.nn.softmax(q[:3, :1] * jnp.ones((3, 11))), jnp.linspace(-1, 1, 11))
        return {"vtrace": vtrace.errors, "pg": vtrace.pg_advantage, "gae": gae, "td": td, "retrace": retrace, "categorical": categorical,
                "policy_gradient": rlax.policy_gradient_loss(q, actions, gae, jnp.ones(30)), "entropy": rlax.entropy_loss(q, jnp.ones(30)),
                "lambda": rlax.lambda_returns(rewards, discounts, values[1:], 0.9), "transformed": rlax.signed_hyperbolic(rewards)}

    gradient = jax.jit(jax.grad(lambda q: jnp.mean(jax.vmap(rlax.q_learning)(q[:-1], actions[:-1], rewards[:-1], discounts[:-1], q[1:]) ** 2)))
    return lambda: {**run(), "gradient": gradient(q)}


@workload(library="mctx", rtol=1e-4, why="visit counts are exact unless two scores tie to the last digit")
def mctx_search():
    import jax
    import jax.numpy as jnp
    import mctx

    def recurrent(parameters, key, action, embedding):
        new = jnp.tanh(embedding @ parameters + action[:, None] * 0.1)
        return mctx.RecurrentFnOutput(reward=new[:, 0], discount=jnp.full(action.shape, 0.9), prior_logits=new[:, :4], value=new[:, 1]), new

    parameters = jax.random.normal(jax.random.key(0), (8, 8)) / 3
    root = mctx.RootFnOutput(prior_logits=jax.random.normal(jax.random.key(1), (6, 4)), value=jnp.zeros(6), embedding=jax.random.normal(jax.random.key(2), (6, 8)))
    policies = {name: jax.jit(lambda k, f=f: f(parameters, k, root, recurrent, num_simulations=16)) for name, f in
                (("muzero", mctx.muzero_policy), ("gumbel", mctx.gumbel_muzero_policy))}

    def step():
        out = {}
        for name, policy in policies.items():
            found = policy(jax.random.key(3))
            out.update({f"{name}.action": found.action, f"{name}.weights": found.action_weights, f"{name}.visits": found.search_tree.node_visits})
        return out

    return step


@workload(library="gymnax", rtol=1e-3, atol=1e-4, why="50 steps of simple environments in float32, with automatic resets by exact thresholds")
def gymnax_rollouts():
    import gymnax
    import jax
    import jax.numpy as jnp
    names = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1", "Breakout-MinAtar", "Catch-bsuite")

    def make(name):
        env, parameters = gymnax.make(name)

        @jax.jit
        @jax.vmap
        def run(key):
            key, sub = jax.random.split(key)
            obs, state = env.reset(sub, parameters)

            def one(carry, k):
                state, _ = carry
                a, b = jax.random.split(k)
                obs, state, reward, done, *_ = env.step(a, state, env.action_space(parameters).sample(b), parameters)
                return (state, obs.astype(jnp.float32)), (obs, reward, done)
            return jax.lax.scan(one, (state, obs.astype(jnp.float32)), jax.random.split(key, 50))[1]
        return run

    runs = {n: make(n) for n in names}

    def step():
        out = {}
        for name, run in runs.items():
            obs, reward, done = run(jax.random.split(jax.random.PRNGKey(0), 4))
            out.update({f"{name}.obs": obs, f"{name}.reward": reward, f"{name}.done": done})
        return out

    return step


@workload(library="evosax", rtol=1e-2, atol=1e-3, why="10 generations; CMA-ES decomposes a covariance whose eigenvectors have no sign of their own")
def evosax_strategies():
    import jax
    import jax.numpy as jnp
    from evosax import algorithms as algos

    def sphere(x):
        return jnp.sum((x - 0.4) ** 2, -1)

    def make(cls):
        strategy = cls(population_size=16, solution=jnp.zeros(5))
        parameters = strategy.default_params

        @jax.jit
        def run(key):
            a, b = jax.random.split(key)
            if hasattr(strategy, "best_fitness_init") or cls in population_based:
                start = jax.random.normal(a, (16, 5))
                state = strategy.init(a, start, sphere(start), parameters)
            else:
                state = strategy.init(a, jnp.zeros(5), parameters)

            def generation(state, k):
                c, d = jax.random.split(k)
                population, state = strategy.ask(c, state, parameters)
                state, metrics = strategy.tell(d, population, sphere(population), state, parameters)
                return state, jnp.min(sphere(population))
            return jax.lax.scan(generation, state, jax.random.split(b, 10))[1]
        return run

    population_based = {algos.DifferentialEvolution, algos.PSO, algos.SimpleGA}
    runs = {c.__name__: make(c) for c in (algos.Open_ES, algos.PGPE, algos.SNES, algos.DifferentialEvolution, algos.PSO)}
    return lambda: {n: r(jax.random.key(0)) for n, r in runs.items()}


@workload(library="flashbax", rtol=0.0, atol=0.0, why="stored items come back bit for bit; priorities choose by the same random numbers")
def flashbax_buffers():
    import flashbax as fbx
    import jax
    import jax.numpy as jnp
    item = fbx.make_item_buffer(max_length=64, min_length=4, sample_batch_size=8, add_batches=True)
    trajectory = fbx.make_trajectory_buffer(add_batch_size=2, sample_batch_size=4, sample_sequence_length=5, period=1, min_length_time_axis=5, max_size=80)
    add, sample = jax.jit(item.add, donate_argnums=0), jax.jit(item.sample)
    add2, sample2 = jax.jit(trajectory.add, donate_argnums=0), jax.jit(trajectory.sample)

    def step():
        state = item.init({"o": jnp.zeros(3), "a": jnp.int32(0)})
        state2 = trajectory.init({"o": jnp.zeros(3), "a": jnp.int32(0)})
        for i in range(12):
            state = add(state, {"o": jnp.full((8, 3), i, jnp.float32), "a": jnp.arange(8, dtype=jnp.int32) + 8 * i})
            state2 = add2(state2, {"o": jnp.full((2, 6, 3), i, jnp.float32), "a": jnp.arange(12, dtype=jnp.int32).reshape(2, 6) + 12 * i})
        one, two = sample(state, jax.random.key(0)), sample2(state2, jax.random.key(1))
        return {"item.a": one.experience["a"], "item.o": one.experience["o"], "trajectory.a": two.experience["a"], "trajectory.o": two.experience["o"]}

    return step


@workload(library="dm-pix", rtol=1e-4, why="image processing in float32")
def pix_images():
    import dm_pix as pix
    import jax
    import jax.numpy as jnp
    import numpy as np
    image = jnp.asarray(np.random.default_rng(0).random((24, 32, 3), dtype=np.float32))

    @jax.jit
    def run(image, key):
        k = jax.random.split(key, 8)
        return {
            "blur": pix.gaussian_blur(image, 1.5, 5), "hue": pix.adjust_hue(image, 0.2), "saturation": pix.random_saturation(k[0], image, 0.5, 1.5), "contrast": pix.adjust_contrast(image, 1.3),
            "gamma": pix.adjust_gamma(image, 0.7), "rotated": pix.rotate(image, 0.4, order=1), "flip": pix.random_flip_left_right(k[1], image), "crop": pix.random_crop(k[2], image, (16, 16, 3)),
            "gray": pix.rgb_to_grayscale(image), "depth": pix.depth_to_space(jnp.tile(image, (1, 1, 4)), 2), "elastic": pix.elastic_deformation(k[3], image, 4.0, 2.0),
            "psnr": pix.psnr(image[None], pix.adjust_brightness(image, 0.1)[None]), "ssim": pix.ssim(image, pix.solarize(image, 0.6)), "hsv": pix.rgb_to_hsv(image),
        }

    return lambda: run(image, jax.random.key(0))


@workload(library="quax", rtol=1e-5, why="a few products in float32")
def quax_lora():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import quax
    from quax.examples import lora, unitful
    model = lora.loraify(eqx.nn.MLP(6, 3, 12, 2, key=jax.random.key(0)), rank=2, scale=0.1, key=jax.random.key(1))
    x = jax.random.normal(jax.random.key(2), (5, 6))

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(model):
        return jnp.sum(quax.quaxify(lambda m, v: jax.vmap(m)(v))(model, x) ** 2)

    def step():
        leaves = [leaf for leaf in jax.tree.leaves(gradient(model)) if eqx.is_array(leaf)]
        metres = unitful.Unitful(jnp.arange(3.0), {unitful.meters: 1})
        square = quax.quaxify(jax.jit(lambda v: v * v))(metres)
        return {**{f"g{i}": leaf for i, leaf in enumerate(leaves)}, "square": square.array}

    return step
