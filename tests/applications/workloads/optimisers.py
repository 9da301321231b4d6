"""Optimisers: optax, jaxopt, optimistix, lineax, mpax, kfac-jax, jax.scipy.optimize."""
from protocol import workload


def regression(seed=0, rows=64, features=8):
    import numpy as np
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, features)).astype(np.float32)
    y = np.tanh(x @ rng.standard_normal((features, 1)).astype(np.float32)) + 0.1 * rng.standard_normal((rows, 1)).astype(np.float32)
    return x, y


def mlp_parameters(key, sizes):
    import jax
    import jax.numpy as jnp
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (m, n)) / jnp.sqrt(m), jnp.zeros(n)) for k, m, n in zip(keys, sizes, sizes[1:])]


def mlp(parameters, x):
    import jax.numpy as jnp
    for w, b in parameters[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = parameters[-1]
    return x @ w + b


def flat(tree, prefix="p"):
    import jax
    return {f"{prefix}{i}": leaf for i, leaf in enumerate(jax.tree.leaves(tree))}


@workload(library="optax", rtol=1e-4, why="60 steps of AdamW on an MLP in float32; each step divides by a root of a small second moment")
def optax_adamw():
    import functools

    import jax
    import jax.numpy as jnp
    import optax
    x, y = regression()
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 10, 60)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-3))

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def update(parameters, state):
        loss, gradients = jax.value_and_grad(lambda p: jnp.mean((mlp(p, x) - y) ** 2))(parameters)
        updates, state = optimiser.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    def step():
        parameters = mlp_parameters(jax.random.key(0), [8, 32, 32, 1])
        state = optimiser.init(parameters)
        losses = []
        for _ in range(60):
            parameters, state, loss = update(parameters, state)
            losses.append(loss)
        return {"losses": jnp.stack(losses), **flat(parameters)}

    return step


@workload(library="optax", rtol=2e-3, why="a line search decides by comparing losses that differ in the last digits near the optimum")
def optax_lbfgs_linesearch():
    import jax
    import jax.numpy as jnp
    import optax
    import optax.tree_utils as otu

    def rosenbrock(x):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    optimiser = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(rosenbrock)

    @jax.jit
    def run(start):
        def body(carry):
            x, state = carry
            value, gradient = value_and_grad(x, state=state)
            updates, state = optimiser.update(gradient, state, x, value=value, grad=gradient, value_fn=rosenbrock)
            return optax.apply_updates(x, updates), state

        def more(carry):
            _, state = carry
            count = otu.tree_get(state, "count")
            gradient = otu.tree_get(state, "grad")
            return (count == 0) | ((count < 100) & (otu.tree_norm(gradient) >= 1e-3))

        return jax.lax.while_loop(more, body, (start, optimiser.init(start)))

    def step():
        x, _ = run(jnp.array([-1.2, 1.0, -0.5, 0.8, 1.1]))
        return {"x": x, "value_is_small": rosenbrock(x) < 1e-5}

    return step


@workload(library="optax", rtol=1e-4, why="20 steps of each optimiser on a quadratic, float32")
def optax_many_optimisers():
    import jax
    import jax.numpy as jnp
    import optax
    scale = jnp.linspace(0.5, 2.0, 12).reshape(3, 4)

    def loss(p):
        return jnp.sum(scale * (p["w"] - 0.3) ** 2) + jnp.sum((p["b"] + 0.7) ** 2)

    optimisers = {
        "adafactor": optax.adafactor(1e-2), "amsgrad": optax.amsgrad(1e-2), "lamb": optax.lamb(1e-2), "lion": optax.lion(1e-2),
        "noisy_sgd": optax.noisy_sgd(1e-2, key=jax.random.key(3)), "rmsprop": optax.rmsprop(1e-2, centered=True), "rprop": optax.rprop(1e-2),
        "schedule_free": optax.contrib.schedule_free_adamw(1e-2), "prodigy": optax.contrib.prodigy(1e-1), "muon": optax.contrib.muon(1e-2),
    }

    def make(optimiser):
        def run(p):
            def body(carry, _):
                p, state = carry
                value, gradient = jax.value_and_grad(loss)(p)
                updates, state = optimiser.update(gradient, state, p)
                return (optax.apply_updates(p, updates), state), value
            return jax.lax.scan(body, (p, optimiser.init(p)), length=20)
        return jax.jit(run)

    runs = {name: make(o) for name, o in optimisers.items()}

    def step():
        start = {"w": jnp.ones((3, 4)), "b": jnp.zeros(3)}
        out = {}
        for name, run in runs.items():
            (p, _), values = run(start)
            out.update({f"{name}.w": p["w"], f"{name}.b": p["b"], f"{name}.losses": values})
        return out

    return step


@workload(library="jax.scipy.optimize", rtol=1e-3, why="float32 BFGS ends where the gradient is below 1e-5; the flag and status are exact")
def scipy_minimize_bfgs():
    import jax
    import jax.numpy as jnp
    from jax.scipy.optimize import minimize

    def rosenbrock(x):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    run = jax.jit(lambda x: minimize(lambda v: jnp.sum((v - jnp.arange(4.0)) ** 2 * (1 + jnp.arange(4.0))), x, method="BFGS"))
    rosen = jax.jit(lambda x: minimize(rosenbrock, x, method="BFGS", options={"gtol": 1e-2}).x)

    def step():
        found = run(jnp.full(4, 3.0))
        return {"x": found.x, "success": found.success, "status": found.status, "rosenbrock": rosen(jnp.array([-1.2, 1.0]))}

    return step


@workload(library="jaxopt", rtol=1e-6, x64=True, why="first-order and quasi-Newton solvers in double precision stop at 1e-9; at 1e-4 in float32 rounding decides where they stop")
def jaxopt_solvers():
    import jax
    import jax.numpy as jnp
    import jaxopt
    x, y = (v.astype("float64") for v in regression(1))
    labels = jnp.asarray((y[:, 0] > 0).astype("int32"))

    def ridge(w, l2):
        return jnp.mean((x @ w - y[:, 0]) ** 2) + l2 * jnp.sum(w ** 2)

    gd = jaxopt.GradientDescent(ridge, maxiter=2000, tol=1e-9)
    lbfgs = jaxopt.LBFGS(ridge, maxiter=200, tol=1e-9)
    lasso = jaxopt.ProximalGradient(jaxopt.objective.least_squares, jaxopt.prox.prox_lasso, maxiter=5000, tol=1e-9)
    simplex = jaxopt.ProjectedGradient(lambda w: jnp.sum((w - jnp.arange(8.0) / 10) ** 2), jaxopt.projection.projection_simplex, maxiter=500, tol=1e-9)
    logistic = jaxopt.LBFGS(jaxopt.objective.multiclass_logreg, maxiter=50, tol=1e-3)
    implicit = jax.jit(jax.grad(lambda l2: jnp.sum(gd.run(jnp.zeros(8), l2=l2).params ** 2)))
    osqp = jaxopt.BoxOSQP(tol=1e-8)
    q, a = jnp.diag(jnp.arange(1.0, 4.0)), jnp.ones((1, 3))

    def step():
        return {
            "ridge": gd.run(jnp.zeros(8), l2=0.1).params, "lbfgs": lbfgs.run(jnp.zeros(8), l2=0.1).params,
            "lasso": lasso.run(jnp.zeros(8), 0.1, (x, y[:, 0])).params, "simplex": simplex.run(jnp.ones(8) / 8).params,
            "logistic_loss": logistic.run(jnp.zeros((8, 2)), data=(x, labels)).state.value, "hypergradient": implicit(0.1),
            "osqp": osqp.run(params_obj=(q, jnp.ones(3)), params_eq=a, params_ineq=(jnp.ones(1), jnp.ones(1))).params.primal[0],
        }

    return step


@workload(library="optimistix", rtol=1e-8, x64=True, why="solvers in double precision stop at 1e-10")
def optimistix_solvers():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optimistix as optx

    def system(y, args):
        a, b = y
        return jnp.array([jnp.tanh(a) - 0.3 * b, b ** 3 + args * a - 1.0])

    def residuals(y, args):
        t = jnp.linspace(0, 2, 30)
        return y[0] * jnp.exp(-y[1] * t) - 2.0 * jnp.exp(-0.7 * t)

    newton = eqx.filter_jit(lambda p: optx.root_find(system, optx.Newton(1e-10, 1e-10), jnp.array([0.5, 0.5]), p).value)
    lm = eqx.filter_jit(lambda y: optx.least_squares(residuals, optx.LevenbergMarquardt(1e-10, 1e-10), y))
    dogleg = eqx.filter_jit(lambda y: optx.least_squares(residuals, optx.Dogleg(1e-10, 1e-10), y).value)
    bfgs = eqx.filter_jit(lambda y: optx.minimise(lambda v, _: jnp.sum(residuals(v, None) ** 2), optx.BFGS(1e-9, 1e-9), y).value)
    bisect = eqx.filter_jit(lambda: optx.root_find(lambda y, _: y ** 3 - 2.0, optx.Bisection(1e-12, 1e-12), 1.0, options={"lower": 0.0, "upper": 2.0}).value)
    fixed = eqx.filter_jit(lambda: optx.fixed_point(lambda y, _: jnp.cos(y), optx.FixedPointIteration(1e-10, 1e-10), jnp.array(0.5)).value)
    derivative = jax.jit(jax.jacfwd(lambda p: optx.root_find(system, optx.Newton(1e-10, 1e-10), jnp.array([0.5, 0.5]), p).value))

    def step():
        start = jnp.array([1.0, 0.1])
        found = lm(start)
        return {"newton": newton(1.0), "lm": found.value, "steps": found.stats["num_steps"], "dogleg": dogleg(start), "bfgs": bfgs(start),
                "bisection": bisect(), "fixed_point": fixed(), "implicit_derivative": derivative(1.0)}

    return step


@workload(library="lineax", rtol=1e-8, x64=True, why="well-conditioned systems in double precision, iterative solvers to 1e-10")
def lineax_solvers():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import lineax as lx
    a = jax.random.normal(jax.random.key(0), (24, 24)) / 5 + 2 * jnp.eye(24)
    spd = a @ a.T + jnp.eye(24)
    tall = jax.random.normal(jax.random.key(1), (40, 24))
    b, c = jax.random.normal(jax.random.key(2), (24,)), jax.random.normal(jax.random.key(3), (40,))
    positive = lx.MatrixLinearOperator(spd, lx.positive_semidefinite_tag)
    solvers = {"lu": (a, lx.LU(), b), "qr": (tall, lx.QR(), c), "svd": (tall, lx.SVD(), c), "gmres": (a, lx.GMRES(1e-10, 1e-10), b),
               "bicgstab": (a, lx.BiCGStab(1e-10, 1e-10), b), "auto": (tall, lx.AutoLinearSolver(well_posed=None), c)}
    runs = {name: eqx.filter_jit(lambda m, v, s=s: lx.linear_solve(lx.MatrixLinearOperator(m), v, s).value) for name, (_, s, _) in solvers.items()}
    cg = eqx.filter_jit(lambda v: lx.linear_solve(positive, v, lx.CG(1e-10, 1e-10)).value)
    cholesky = eqx.filter_jit(lambda v: lx.linear_solve(positive, v, lx.Cholesky()).value)
    tridiagonal = eqx.filter_jit(lambda d, l, u, v: lx.linear_solve(lx.TridiagonalLinearOperator(d, l, u), v).value)
    gradient = eqx.filter_jit(jax.grad(lambda m: jnp.sum(lx.linear_solve(lx.MatrixLinearOperator(m), b, lx.LU()).value ** 2)))
    operator = lx.FunctionLinearOperator(lambda v: a @ v + 0.1 * jnp.roll(v, 1), jax.ShapeDtypeStruct((24,), jnp.float64))
    matrix_free = eqx.filter_jit(lambda v: lx.linear_solve(operator, v, lx.GMRES(1e-10, 1e-10)).value)

    def step():
        out = {name: runs[name](m, v) for name, (m, _, v) in solvers.items()}
        return {**out, "cg": cg(b), "cholesky": cholesky(b), "matrix_free": matrix_free(b), "gradient": gradient(a),
                "tridiagonal": tridiagonal(jnp.full(24, 4.0), jnp.ones(23), jnp.ones(23), b)}

    return step


@workload(library="mpax", rtol=1e-3, x64=True, atol=1e-3, why="the first-order LP solver stops at a relative gap of 1e-4")
def mpax_linear_program():
    import jax.numpy as jnp
    import numpy as np
    from mpax import create_lp, raPDHG
    rng = np.random.default_rng(0)
    a = rng.random((6, 10))
    b = a @ rng.random(10)
    c = rng.random(10) + 0.1

    def step():
        lp = create_lp(c, np.ones((1, 10)), np.array([3.0]), a, 0.3 * b, np.zeros(10), np.full(10, 5.0), use_sparse_matrix=False)
        solver = raPDHG(eps_abs=1e-6, eps_rel=1e-6, verbose=False)
        result = solver.optimize(lp)
        return {"objective": jnp.dot(jnp.asarray(c), result.primal_solution), "sum": jnp.sum(result.primal_solution), "status": int(result.termination_status)}

    return step


@workload(library="kfac-jax", rtol=5e-3, atol=1e-5, why="K-FAC inverts damped curvature blocks, which enlarges rounding")
def kfac_training():
    import jax
    import jax.numpy as jnp
    import kfac_jax
    from kfac_jax._src import tag_graph_matcher
    x, y = regression(2, 128)

    def evaluate(equation, values):
        out = equation.primitive.bind(*values, **equation.primitive.get_bind_params(equation.params))
        return out if isinstance(out, list) else [out]

    tag_graph_matcher.eval_jaxpr_eqn = evaluate  # kfac-jax 0.0.8 unpacks the parameters as JAX before 0.10 gave them

    def loss(parameters, batch):
        inputs, targets = batch
        out = mlp(parameters, inputs)
        kfac_jax.register_squared_error_loss(out, targets)
        return jnp.mean((out - targets) ** 2)

    def step():
        optimiser = kfac_jax.Optimizer(jax.value_and_grad(loss), l2_reg=1e-3, use_adaptive_learning_rate=True, use_adaptive_momentum=True,
                                       use_adaptive_damping=True, initial_damping=1.0, num_burnin_steps=0, multi_device=False)
        parameters = mlp_parameters(jax.random.key(0), [8, 16, 1])
        state = optimiser.init(parameters, jax.random.key(1), (x, y))
        losses = []
        for i in range(6):
            parameters, state, stats = optimiser.step(parameters, state, jax.random.key(i), batch=(x, y), global_step_int=i)
            losses.append(stats["loss"])
        return {"losses": jnp.stack(losses)}

    return step
