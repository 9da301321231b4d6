"""Environments and evolution: pgx, jumanji, craftax, jaxmarl, evojax. Rollouts follow random legal actions, so that no comparison of nearly
equal floating-point numbers decides what happens."""
from protocol import workload


@workload(library="pgx", rtol=0, atol=0, why="board games: integers, booleans and rewards of whole numbers")
def pgx_board_games():
    import jax
    import jax.numpy as jnp
    import pgx
    games, moves = ["tic_tac_toe", "connect_four", "othello", "go_9x9", "kuhn_poker", "2048", "minatar-breakout", "hex", "backgammon"], 24

    def play(name):
        env = pgx.make(name)
        initial, advance = jax.vmap(env.init), jax.vmap(env.step)

        @jax.jit
        def run(key):
            def move(carry, key):
                state, total = carry
                legal = state.legal_action_mask
                scores = jax.random.randint(key, legal.shape, 0, 1 << 20)
                state = advance(state, jnp.argmax(jnp.where(legal, scores, -1), -1), jax.random.split(key, legal.shape[0]))
                return (state, total + state.rewards), (state.current_player, state.terminated)
            state = initial(jax.random.split(key, 6))
            (state, total), (players, ended) = jax.lax.scan(move, (state, jnp.zeros_like(state.rewards)), jax.random.split(key, moves))
            return {"observation": state.observation, "rewards": total, "players": players, "ended": ended, "legal": state.legal_action_mask}
        return run

    runs = {name: play(name) for name in games}
    return lambda: {f"{name} {what}": value for name, run in runs.items() for what, value in run(jax.random.PRNGKey(3)).items()}


@workload(library="jumanji", rtol=1e-5, why="rewards and coordinates in float32; random legal actions")
def jumanji_environments():
    import jax
    import jax.numpy as jnp
    import jumanji
    names = ["Game2048-v1", "Snake-v1", "Minesweeper-v0", "RubiksCube-v0", "Maze-v0", "Knapsack-v1", "TSP-v1", "Tetris-v0", "Cleaner-v0"]

    def play(name):
        env = jumanji.make(name)

        def one(key):
            state, timestep = env.reset(key)

            def move(carry, key):
                state, timestep = carry
                mask = getattr(timestep.observation, "action_mask", None)
                spec = env.action_spec
                if mask is None or mask.ndim != 1 or spec.shape:
                    high = jnp.asarray(getattr(spec, "num_values"))
                    action = jax.random.randint(key, spec.shape, 0, high, dtype=spec.dtype)
                else:
                    action = jnp.argmax(jnp.where(mask, jax.random.randint(key, mask.shape, 0, 1 << 20), -1)).astype(spec.dtype)
                state, timestep = env.step(state, action)
                return (state, timestep), (timestep.reward, timestep.step_type)

            (state, timestep), trace = jax.lax.scan(move, (state, timestep), jax.random.split(key, 12))
            return trace, jax.tree.leaves(timestep.observation)
        return jax.jit(jax.vmap(one))

    runs = {name: play(name) for name in names}

    def step():
        results = {}
        for name, run in runs.items():
            (reward, kind), observation = run(jax.random.split(jax.random.PRNGKey(5), 4))
            results |= {f"{name} reward": reward, f"{name} kind": kind} | {f"{name} seen {i}": x for i, x in enumerate(observation)}
        return results

    return step


@workload(library="craftax", rtol=1e-5, why="a generated world (noise in float32) and rewards; random actions")
def craftax_classic():
    import jax
    from craftax.craftax_env import make_craftax_env_from_name
    env = make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=True)
    params = env.default_params

    @jax.jit
    def run(key):
        observation, state = jax.vmap(env.reset, (0, None))(jax.random.split(key, 4), params)

        def move(carry, key):
            state, _ = carry
            actions = jax.random.randint(key, (4,), 0, env.action_space(params).n)
            observation, state, reward, done, _ = jax.vmap(env.step, (0, 0, 0, None))(jax.random.split(key, 4), state, actions, params)
            return (state, observation), (reward, done)
        (state, observation), trace = jax.lax.scan(move, (state, observation), jax.random.split(key, 30))
        return state.map, observation, *trace

    def step():
        world, observation, reward, done = run(jax.random.PRNGKey(1))
        return {"map": world, "observation": observation, "reward": reward, "done": done}

    return step


@workload(library="jaxmarl", rtol=1e-4, why="particles that move without contact for a few steps, float32")
def jaxmarl_environments():
    import jax
    import jax.numpy as jnp
    import jaxmarl
    names = ["MPE_simple_spread_v3", "switch_riddle", "overcooked", "hanabi", "storm"]

    def play(name):
        env = jaxmarl.make(name)

        def one(key):
            observation, state = env.reset(key)

            def move(carry, key):
                state, _ = carry
                actions = {a: jax.random.randint(k, (), 0, env.action_space(a).n) for a, k in zip(env.agents, jax.random.split(key, len(env.agents)))}
                if hasattr(env, "get_legal_moves"):
                    legal = env.get_legal_moves(state)
                    actions = {a: jnp.argmax(jnp.where(legal[a] > 0, jax.random.randint(key, legal[a].shape, 0, 1 << 20), -1)) for a in env.agents}
                observation, state, reward, done, _ = env.step(key, state, actions)
                return (state, observation), (reward, done)
            (_, observation), (reward, done) = jax.lax.scan(move, (state, observation), jax.random.split(key, 10))
            return observation, reward, done
        return jax.jit(jax.vmap(one))

    runs = {name: play(name) for name in names}

    def step():
        results = {}
        for name, run in runs.items():
            leaves = jax.tree.leaves(run(jax.random.split(jax.random.PRNGKey(2), 3)))
            results |= {f"{name} {i}": x for i, x in enumerate(leaves)}
        return results

    return step


@workload(library="evojax", rtol=1e-3, why="5 generations; the cart stays near the start, float32")
def evojax_cartpole():
    import jax
    import jax.numpy as jnp
    from evojax.algo import PGPE, SimpleGA
    from evojax.policy import MLPPolicy
    from evojax.task.cartpole import CartPoleSwingUp
    task = CartPoleSwingUp(test=False, max_steps=30)
    policy = MLPPolicy(input_dim=task.obs_shape[0], hidden_dims=[16], output_dim=task.act_shape[0])

    @jax.jit
    def fitness(parameters, keys):
        state = task.reset(keys)
        policy_state = policy.reset(state)

        def move(carry, _):
            state, policy_state, total = carry
            action, policy_state = policy.get_actions(state, parameters, policy_state)
            state, reward, _ = task.step(state, action)
            return (state, policy_state, total + reward), None
        return jax.lax.scan(move, (state, policy_state, jnp.zeros(parameters.shape[0])), None, 30)[0][2]

    def step():
        results = {}
        for solver in (PGPE(pop_size=16, param_size=policy.num_params, optimizer="adam", seed=1), SimpleGA(pop_size=16, param_size=policy.num_params, seed=1)):
            for _ in range(5):
                parameters = solver.ask()
                rewards = fitness(parameters, jax.random.split(jax.random.PRNGKey(0), 16))
                solver.tell(rewards)
            results[f"{type(solver).__name__} rewards"], results[f"{type(solver).__name__} best"] = rewards, solver.best_params
        return results

    return step
