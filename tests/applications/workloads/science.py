"""Differential equations, physics, chemistry, quantum circuits, geometry: diffrax, jax.experimental.ode, brax, MJX, jax-md, pennylane, netket,
jax-cosmo, jaxlie, interpax."""
from protocol import workload

BODY = """
<mujoco>
  <option timestep="0.005" iterations="4" ls_iterations="8"/>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body pos="0 0 1.2">
      <freejoint/>
      <geom type="capsule" fromto="0 0 -.2 0 0 .2" size=".1"/>
      <body pos="0 0 .2"> <joint name="neck" type="ball" damping=".1"/> <geom type="sphere" pos="0 0 .15" size=".12"/> </body>
      <body pos=".1 0 -.2">
        <joint name="hip" type="hinge" axis="0 1 0" range="-60 60" damping=".2"/> <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".06"/>
        <body pos="0 0 -.4"> <joint name="knee" type="hinge" axis="0 1 0" range="-90 5" damping=".2"/> <geom type="capsule" fromto="0 0 0 0 0 -.35" size=".05"/> </body>
      </body>
    </body>
  </worldbody>
  <actuator> <motor joint="hip" gear="20"/> <motor joint="knee" gear="10"/> </actuator>
</mujoco>
"""


@workload(library="diffrax", rtol=1e-3, why="10 steps of Adam through an adaptive solver; step sizes depend on error estimates in float32")
def diffrax_neural_ode():
    import diffrax
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax
    t = jnp.linspace(0, 3, 20)
    starts = jax.random.uniform(jax.random.key(1), (8, 2), minval=-1, maxval=1)
    target = jax.vmap(lambda y: jnp.stack([jnp.exp(-0.3 * t) * (y[0] * jnp.cos(t) - y[1] * jnp.sin(t)), jnp.exp(-0.3 * t) * (y[0] * jnp.sin(t) + y[1] * jnp.cos(t))], -1))(starts)

    def solve(model, y0):
        return diffrax.diffeqsolve(diffrax.ODETerm(lambda t, y, args: model(y)), diffrax.Tsit5(), t[0], t[-1], 0.1, y0,
                                   saveat=diffrax.SaveAt(ts=t), stepsize_controller=diffrax.PIDController(1e-3, 1e-6)).ys

    optimiser = optax.adabelief(3e-3)

    @eqx.filter_jit
    def update(model, state):
        value, gradients = eqx.filter_value_and_grad(lambda m: jnp.mean((jax.vmap(lambda y: solve(m, y))(starts) - target) ** 2))(model)
        updates, state = optimiser.update(gradients, state)
        return eqx.apply_updates(model, updates), state, value

    def step():
        model = eqx.nn.MLP(2, 2, 16, 2, jnp.tanh, key=jax.random.key(0))
        state, losses = optimiser.init(eqx.filter(model, eqx.is_array)), []
        for _ in range(10):
            model, state, value = update(model, state)
            losses.append(value)
        return {"losses": jnp.stack(losses)}

    return step


@workload(library="diffrax", rtol=1e-6, x64=True, why="an implicit solver with tolerance 1e-8 in double precision")
def diffrax_stiff():
    import diffrax
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    def robertson(t, y, k):
        a = -k[0] * y[0] + k[2] * y[1] * y[2]
        c = k[1] * y[1] ** 2
        return jnp.stack([a, -a - c, c])

    @eqx.filter_jit
    def solve(k):
        return diffrax.diffeqsolve(diffrax.ODETerm(robertson), diffrax.Kvaerno5(), 0.0, 100.0, 2e-4, jnp.array([1.0, 0.0, 0.0]), args=k,
                                   saveat=diffrax.SaveAt(ts=jnp.array([0.0, 1e-2, 1.0, 10.0, 100.0])),
                                   stepsize_controller=diffrax.PIDController(1e-8, 1e-8), max_steps=4096)

    gradient = eqx.filter_jit(jax.grad(lambda k: solve(k).ys[-1, 0]))

    def step():
        k = jnp.array([0.04, 3e7, 1e4])
        found = solve(k)
        return {"y": found.ys, "gradient": gradient(k) * k, "accepted": found.stats["num_accepted_steps"], "result_ok": found.result == diffrax.RESULTS.successful}

    return step


@workload(library="diffrax", rtol=1e-4, why="fixed steps with a Brownian tree, float32")
def diffrax_sde_cde():
    import diffrax
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    @eqx.filter_jit
    def sde(key):
        path = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-3, (2,), key)
        terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, a: -y), diffrax.ControlTerm(lambda t, y, a: 0.2 * jnp.eye(2) * y, path))
        return diffrax.diffeqsolve(terms, diffrax.Heun(), 0.0, 1.0, 0.02, jnp.array([1.0, -0.5]), saveat=diffrax.SaveAt(steps=True), max_steps=64).ys

    t = jnp.linspace(0, 1, 12)
    data = jnp.stack([t, jnp.sin(5 * t)], -1)

    @eqx.filter_jit
    def cde(w):
        control = diffrax.CubicInterpolation(t, diffrax.backward_hermite_coefficients(t, data))
        term = diffrax.ControlTerm(lambda t, y, w: jnp.tanh(w @ y).reshape(3, 2), control).to_ode()
        return diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.05, jnp.ones(3), args=w, stepsize_controller=diffrax.ConstantStepSize(),
                                   adjoint=diffrax.BacksolveAdjoint()).ys[0]

    gradient = eqx.filter_jit(jax.grad(lambda w: jnp.sum(cde(w))))

    def step():
        w = jax.random.normal(jax.random.key(3), (6, 3)) / 3
        return {"sde": jax.vmap(sde)(jax.random.split(jax.random.key(0), 3)), "cde": cde(w), "gradient": gradient(w)}

    return step


@workload(library="jax.experimental.ode", rtol=1e-3, why="adaptive Dormand-Prince with tolerance 1e-5 in float32, and its adjoint")
def odeint_adjoint():
    import jax
    import jax.numpy as jnp
    from jax.experimental.ode import odeint
    t = jnp.linspace(0.0, 5.0, 25)

    def pendulum(y, t, damping, stiffness):
        return jnp.stack([y[1], -damping * y[1] - stiffness * jnp.sin(y[0])])

    solve = jax.jit(lambda d, k: odeint(pendulum, jnp.array([2.0, 0.0]), t, d, k, rtol=1e-5, atol=1e-6))
    gradient = jax.jit(jax.grad(lambda d, k: jnp.sum(solve(d, k)[:, 0] ** 2), argnums=(0, 1)))

    def step():
        d, k = gradient(0.2, 3.0)
        return {"y": solve(0.2, 3.0), "damping": d, "stiffness": k}

    return step


@workload(library="brax", rtol=1e-3, atol=1e-3, why="contacts are chaotic: 8 steps only, float32")
def brax_ant():
    import jax
    import jax.numpy as jnp
    from brax import envs
    env = envs.get_environment("ant", backend="positional")
    reset = jax.jit(jax.vmap(env.reset))

    @jax.jit
    def rollout(state, key):
        def body(state, k):
            state = jax.vmap(env.step)(state, jax.random.uniform(k, (16, env.action_size), minval=-1, maxval=1))
            return state, state.reward
        return jax.lax.scan(body, state, jax.random.split(key, 8))

    def step():
        state, rewards = rollout(reset(jax.random.split(jax.random.PRNGKey(0), 16)), jax.random.PRNGKey(1))
        return {"obs": state.obs, "rewards": rewards, "done": state.done, "q": state.pipeline_state.q}

    return step


@workload(library="brax", rtol=0.05, atol=0.05, why="training is chaotic: what is compared is the shape, finiteness and the first evaluation")
def brax_ppo():
    import jax
    import numpy as np
    from brax import envs
    from brax.training.agents.ppo import networks as ppo_networks
    from brax.training.agents.ppo import train as ppo

    def replicated(tree, devices):
        sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(devices), ("i",)), jax.sharding.PartitionSpec("i"))
        return jax.tree.map(lambda v: jax.device_put(np.stack([v] * len(devices)), sharding), tree)

    jax.device_put_replicated = replicated  # brax 0.14 calls it, JAX 0.10 has it no longer

    def step():
        seen = []
        env = envs.get_environment("inverted_pendulum", backend="generalized")
        _, parameters, _ = ppo.train(environment=env, num_timesteps=2048, episode_length=64, num_envs=32, batch_size=16, num_minibatches=4, unroll_length=8,
                                     num_updates_per_batch=2, num_evals=2, normalize_observations=True, reward_scaling=1.0, learning_rate=3e-4, seed=0,
                                     num_eval_envs=16, progress_fn=lambda n, m: seen.append((n, float(m["eval/episode_reward"]))),
                                     network_factory=lambda *a, **k: ppo_networks.make_ppo_networks(*a, policy_hidden_layer_sizes=(16, 16), value_hidden_layer_sizes=(16, 16), **k))
        finite = all(bool((abs(leaf) < 1e6).all()) for leaf in jax.tree.leaves(parameters))
        return {"first_reward": seen[0][1], "steps": seen[-1][0], "finite": finite, "learned_something": 0 < seen[-1][1] < 65}

    return step


@workload(library="mujoco-mjx", rtol=5e-3, atol=5e-3, why="contacts are chaotic: 20 steps only, float32")
def mjx_body():
    import jax
    import jax.numpy as jnp
    import mujoco
    from mujoco import mjx
    model = mujoco.MjModel.from_xml_string(BODY)
    mx = mjx.put_model(model)

    @jax.jit
    @jax.vmap
    def run(velocity, control):
        data = mjx.make_data(mx)
        data = data.replace(qvel=data.qvel.at[0].set(velocity))

        def body(d, c):
            d = mjx.step(mx, d.replace(ctrl=jnp.full(mx.nu, c)))
            return d, d.qpos
        return jax.lax.scan(body, data, control)[1]

    def step():
        return {"qpos": run(jnp.linspace(-1, 1, 8), jnp.linspace(-1, 1, 8)[:, None] * jnp.ones(20))}

    return step


@workload(library="mujoco-mjx", rtol=2e-3, atol=2e-3, why="a gradient through 5 steps without contact, float32")
def mjx_gradient():
    import jax
    import jax.numpy as jnp
    import mujoco
    from mujoco import mjx
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><option timestep="0.01"><flag contact="disable"/></option><worldbody><body><joint type="hinge" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.5" size=".05"/>'
        '<body pos="0 0 -.5"><joint type="hinge" axis="0 1 0" damping=".1"/><geom type="capsule" fromto="0 0 0 0 0 -.5" size=".05"/></body></body></worldbody></mujoco>')
    mx = mjx.put_model(model)

    @jax.jit
    @jax.value_and_grad
    def run(angle):
        data = mjx.make_data(mx)
        data = data.replace(qpos=data.qpos.at[0].set(angle))
        final, _ = jax.lax.scan(lambda d, _: (mjx.step(mx, d), None), data, length=5)
        return jnp.sum(final.qpos ** 2) + jnp.sum(final.qvel)

    def step():
        value, gradient = run(0.7)
        return {"value": value, "gradient": gradient}

    return step


@workload(library="jax-md", rtol=2e-3, atol=1e-4, why="molecular dynamics is chaotic: 40 steps only, and the energy, which is conserved")
def jax_md_lennard_jones():
    import jax
    import jax.numpy as jnp
    from jax_md import energy, minimize, partition, simulate, space
    count, box = 125, 6.5
    displacement, shift = space.periodic(box)
    grid = jnp.stack(jnp.meshgrid(*[jnp.arange(5) * box / 5] * 3, indexing="ij"), -1).reshape(-1, 3)
    start = grid + 0.05 * jax.random.normal(jax.random.PRNGKey(0), grid.shape)
    neighbour_fn, energy_fn = energy.lennard_jones_neighbor_list(displacement, box, r_cutoff=2.5, dr_threshold=0.4, format=partition.OrderedSparse)
    init, apply = simulate.nvt_nose_hoover(energy_fn, shift, 2e-3, kT=0.8)
    relax_init, relax_apply = minimize.fire_descent(energy_fn, shift, dt_start=5e-3, dt_max=2e-2)  # atoms collide at longer steps

    @jax.jit
    def run(state, neighbours):
        def body(_, carry):
            state, neighbours = carry
            neighbours = neighbours.update(state.position)
            return apply(state, neighbor=neighbours), neighbours
        return jax.lax.fori_loop(0, 40, body, (state, neighbours))

    @jax.jit
    def relax(position, neighbours):
        return jax.lax.fori_loop(0, 10, lambda _, s: relax_apply(s, neighbor=neighbours), relax_init(position, neighbor=neighbours))

    def step():
        neighbours = neighbour_fn.allocate(start)
        state, neighbours = run(init(jax.random.PRNGKey(1), start, neighbor=neighbours), neighbours)
        invariant = simulate.nvt_nose_hoover_invariant(energy_fn, state, kT=0.8, neighbor=neighbours)
        relaxed = relax(start, neighbours)
        return {"position": state.position, "invariant": invariant, "overflow": neighbours.did_buffer_overflow, "relaxed": jax.vmap(displacement)(relaxed.position, start)}

    return step


@workload(library="pennylane", rtol=1e-6, x64=True, why="a variational circuit in double precision, 15 gradient steps")
def pennylane_vqe():
    import jax
    import jax.numpy as jnp
    import optax
    import pennylane as qml
    device = qml.device("default.qubit", wires=4)
    coefficients = [0.2, -0.4, 0.3, 0.15, -0.25]
    terms = [qml.PauliZ(0), qml.PauliZ(0) @ qml.PauliZ(1), qml.PauliX(1) @ qml.PauliX(2), qml.PauliY(2) @ qml.PauliY(3), qml.PauliZ(3)]
    hamiltonian = qml.Hamiltonian(coefficients, terms)

    @qml.qnode(device, interface="jax", diff_method="backprop")
    def energy(w):
        qml.BasisState(jnp.array([1, 1, 0, 0]), wires=range(4))
        for layer in w:
            for i in range(4):
                qml.Rot(*layer[i], wires=i)
            for i in range(3):
                qml.CNOT(wires=[i, i + 1])
        return qml.expval(hamiltonian)

    optimiser = optax.adam(0.1)

    @jax.jit
    def update(w, state):
        value, gradient = jax.value_and_grad(energy)(w)
        updates, state = optimiser.update(gradient, state)
        return optax.apply_updates(w, updates), state, value

    def step():
        w = jax.random.normal(jax.random.PRNGKey(0), (2, 4, 3))
        state, values = optimiser.init(w), []
        for _ in range(15):
            w, state, value = update(w, state)
            values.append(value)
        return {"energies": jnp.stack(values), "w": w}

    return step


@workload(library="netket", rtol=1e-5, x64=True, why="exact sums over all states, then Monte Carlo of which the samples are integers")
def netket_ising():
    import jax
    import jax.numpy as jnp
    import netket as nk
    import optax

    def step():
        graph = nk.graph.Chain(6)
        space = nk.hilbert.Spin(0.5, 6)
        ising = nk.operator.IsingJax(space, graph, h=0.8)
        full = nk.vqs.FullSumState(space, nk.models.RBM(alpha=1, param_dtype=float), seed=0)
        driver = nk.driver.VMC(ising, optax.sgd(0.05), variational_state=full, preconditioner=nk.optimizer.SR(diag_shift=0.05))
        energies = []
        for _ in range(5):
            driver.run(1, out=nk.logging.RuntimeLog(), show_progress=False)
            energies.append(full.expect(ising).mean.real)
        sampled = nk.vqs.MCState(nk.sampler.MetropolisLocal(space, n_chains=8), nk.models.RBM(alpha=1, param_dtype=float), n_samples=128, seed=0, sampler_seed=1)
        return {"energies": jnp.stack(energies), "samples": sampled.samples, "energy": sampled.expect(ising).mean.real, "exact": jnp.asarray(nk.exact.lanczos_ed(ising))}

    return step


@workload(library="jax-cosmo", rtol=5e-4, why="integrals of splines and special functions in float32")
def jax_cosmo_power():
    import jax
    import jax.numpy as jnp
    import jax_cosmo

    @jax.jit
    def power(omega):
        cosmology = jax_cosmo.Planck15(Omega_c=omega)
        k = jnp.logspace(-2, 0, 16)
        return jax_cosmo.power.linear_matter_power(cosmology, k), jax_cosmo.background.radial_comoving_distance(cosmology, jnp.array([0.5, 0.8]))

    gradient = jax.jit(jax.jacfwd(lambda o: power(o)[0]))

    def step():
        p, chi = power(0.26)
        return {"power": p, "distance": chi, "derivative": gradient(0.26)}

    return step


@workload(library="jaxlie", rtol=1e-4, why="Gauss-Newton on poses in float32")
def jaxlie_pose_graph():
    import jax
    import jax.numpy as jnp
    import jaxlie
    truth = jax.vmap(jaxlie.SE3.exp)(jax.random.normal(jax.random.key(0), (6, 6)) * 0.3)
    relative = jax.vmap(lambda a, b: a.inverse() @ b)(jax.tree.map(lambda v: v[:-1], truth), jax.tree.map(lambda v: v[1:], truth))

    def residual(delta, poses):
        moved = jaxlie.SE3(poses.wxyz_xyz)
        moved = jax.vmap(lambda p, d: p @ jaxlie.SE3.exp(d))(moved, delta.reshape(6, 6))
        ab = jax.vmap(lambda a, b, r: (r.inverse() @ (a.inverse() @ b)).log())(jax.tree.map(lambda v: v[:-1], moved), jax.tree.map(lambda v: v[1:], moved), relative)
        first = jaxlie.SE3(truth.wxyz_xyz[0]).inverse() @ jaxlie.SE3(moved.wxyz_xyz[0])
        return jnp.concatenate([ab.ravel(), first.log()])

    @jax.jit
    def solve(poses):
        def body(poses, _):
            r = residual(jnp.zeros(36), poses)
            j = jax.jacfwd(residual)(jnp.zeros(36), poses)
            delta = -jnp.linalg.solve(j.T @ j + 1e-6 * jnp.eye(36), j.T @ r)
            return jax.vmap(lambda p, d: p @ jaxlie.SE3.exp(d))(poses, delta.reshape(6, 6)), jnp.sum(r ** 2)
        return jax.lax.scan(body, poses, length=5)

    def step():
        noisy = jax.vmap(lambda p, d: p @ jaxlie.SE3.exp(d))(truth, 0.1 * jax.random.normal(jax.random.key(1), (6, 6)))
        poses, costs = solve(noisy)
        return {"matrices": jax.vmap(lambda p: p.as_matrix())(poses), "first_costs": costs[:2], "converged": costs[-1] < 1e-8}

    return step


@workload(library="interpax", rtol=1e-4, why="splines in float32")
def interpax_splines():
    import interpax
    import jax
    import jax.numpy as jnp
    x = jnp.linspace(0, 6, 20)
    q = jnp.linspace(0.1, 5.9, 50)
    run = {m: jax.jit(lambda q, m=m: interpax.interp1d(q, x, jnp.sin(x), method=m)) for m in ("nearest", "linear", "cubic", "cubic2", "catmull-rom", "monotonic", "akima")}
    two = jax.jit(lambda q: interpax.interp2d(q, q, x, x, jnp.sin(x)[:, None] * jnp.cos(x), method="cubic"))
    gradient = jax.jit(jax.grad(lambda q: jnp.sum(interpax.Interpolator1D(x, jnp.cos(x), "cubic2")(q))))

    def step():
        return {**{m: f(q) for m, f in run.items()}, "two": two(q), "gradient": gradient(q)}

    return step
