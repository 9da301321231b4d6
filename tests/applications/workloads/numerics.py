"""Quadrature, polynomials, matrix-free linear algebra, signatures, quadratic programs, system identification, tensor notation: quadax, orthax,
matfree, traceax, signax, qpax, jax-sysid, tensorly, einx, sympy2jax."""
from protocol import workload


@workload(library="quadax", x64=True, rtol=1e-8, why="adaptive quadrature with tolerance 1e-10 in double precision")
def quadax_quadrature():
    import jax
    import jax.numpy as jnp
    import quadax
    peak = lambda t, a: jnp.exp(-a * (t - 0.3) ** 2) * jnp.cos(10 * t)
    options = dict(epsabs=1e-10, epsrel=1e-10)
    rules = {"gk": quadax.quadgk, "cc": quadax.quadcc, "ts": quadax.quadts, "romberg": quadax.romberg, "rombergts": quadax.rombergts}
    found = {name: jax.jit(lambda a, rule=rule: rule(peak, jnp.array([0.0, 1.0]), (a,), **options)[0]) for name, rule in rules.items()}
    slope = jax.jit(jax.grad(lambda a: quadax.quadgk(peak, jnp.array([0.0, 1.0]), (a,), **options)[0]))
    infinite = jax.jit(lambda a: quadax.quadgk(lambda t: jnp.exp(-a * t * t), jnp.array([-jnp.inf, jnp.inf]), **options)[0])
    over_many = jax.jit(jax.vmap(found["gk"]))
    vector = jax.jit(lambda a: quadax.quadgk(lambda t: jnp.stack([jnp.sin(a * t), t**a, jnp.log1p(t)]), jnp.array([0.0, 2.0]), **options)[0])

    def step():
        t = jnp.linspace(0, 3, 101)
        return {name: f(4.0) for name, f in found.items()} | {
            "slope": slope(4.0), "infinite": infinite(2.0), "many": over_many(jnp.linspace(1.0, 300.0, 7)), "vector": vector(1.5),
            "simpson": quadax.simpson(jnp.sin(t), x=t), "running": quadax.cumulative_simpson(jnp.cos(t), x=t)}

    return step


@workload(library="orthax", x64=True, rtol=1e-9, why="polynomial arithmetic and roots in double precision")
def orthax_polynomials():
    import jax
    import jax.numpy as jnp
    import orthax
    families = {"chebyshev": ("cheb", orthax.chebyshev), "legendre": ("leg", orthax.legendre), "hermite": ("herm", orthax.hermite),
                "laguerre": ("lag", orthax.laguerre), "polynomial": ("poly", orthax.polynomial)}

    def step():
        a, b = jnp.array([0.5, -1.0, 2.0, 0.25, 1.0]), jnp.array([1.0, 0.5, 0.25])
        x, results = jnp.linspace(-1, 1, 23), {}
        for name, (short, module) in families.items():
            get = lambda what: getattr(module, short + what)
            product = jax.jit(get("mul"))(a, b)
            results |= {f"{name} value": jax.jit(get("val"))(x, product), f"{name} derivative": jax.jit(get("der"))(product), f"{name} integral": get("int")(product),
                        f"{name} fit": get("fit")(x, jnp.exp(x), 5), f"{name} slope": jax.grad(lambda c: jnp.sum(get("val")(x, c) ** 2))(a),
                        f"{name} basis": get("vander")(x, 4), f"{name} quotient": get("div")(product, b)[0]}
            if name != "polynomial":
                results[f"{name} nodes"], results[f"{name} weights"] = get("gauss")(9)
            roots = jnp.asarray(get("roots")(jnp.array([0.1, -1.0, 0.2, 1.0])))
            results[f"{name} roots"] = jnp.sort(roots.real)
        return results

    return step


@workload(library="matfree", x64=True, rtol=1e-8, why="Lanczos with full orthogonalization in double precision")
def matfree_lanczos():
    import jax
    import jax.numpy as jnp
    from matfree import decomp, eig, funm, lstsq, stochtrace
    n = 40
    a = jax.random.normal(jax.random.key(0), (n, n), jnp.float64)
    spd = a @ a.T / n + jnp.eye(n)
    matvec = lambda v, m: m @ v
    log_matvec = funm.funm_lanczos_sym(funm.dense_funm_sym_eigh(jnp.log), decomp.tridiag_sym(12))
    integrand = funm.monte_carlo_funm_sym_logdet(decomp.tridiag_sym(10))
    estimate = stochtrace.estimator_monte_carlo(integrand, stochtrace.sampler_normal(jnp.ones(n), num=8))
    logdet = jax.jit(lambda m, key: estimate(matvec, key, m))
    gradient = jax.jit(jax.grad(lambda m: estimate(matvec, jax.random.key(1), m)))
    least = jax.jit(lambda b: lstsq.lsmr(atol=1e-10, btol=1e-10)(lambda v: a.T @ v, b)[0])

    def step():
        v = jnp.linspace(-1, 1, n)
        values = eig.eigh_partial(decomp.tridiag_sym(n))(lambda u: spd @ u, v)[0]
        singular = eig.svd_partial(decomp.bidiag(n))(lambda u: a @ u, v)[1]
        return {"logarithm": jax.jit(lambda v, m: log_matvec(lambda u, m: m @ u, v, m))(v, spd), "logdet": logdet(spd, jax.random.key(1)), "gradient": gradient(spd),
                "least squares": least(v), "eigenvalues": values, "singular values": singular}

    return step


@workload(library="traceax", x64=True, rtol=1e-9, why="estimates of a trace with fixed keys in double precision")
def traceax_estimators():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import lineax
    import traceax
    n = 60

    def step():
        a = jax.random.normal(jax.random.key(0), (n, n), jnp.float64)
        operator = lineax.MatrixLinearOperator(a @ a.T, lineax.positive_semidefinite_tag)
        results = {}
        for kind in ("HutchinsonEstimator", "HutchPlusPlusEstimator", "XTraceEstimator", "XNysTraceEstimator"):
            estimator = getattr(traceax, kind)()
            results[kind] = eqx.filter_jit(lambda key, op: estimator.estimate(key, op, 18)[0])(jax.random.key(1), operator)
        results["several"] = jax.vmap(lambda key: traceax.HutchinsonEstimator().estimate(key, operator, 6)[0])(jax.random.split(jax.random.key(2), 5))
        return results

    return step


@workload(library="signax", rtol=1e-4, why="sums of products along a path, float32")
def signax_signatures():
    import jax
    import jax.numpy as jnp
    import signax

    def step():
        paths = jnp.cumsum(jax.random.normal(jax.random.key(0), (4, 30, 3)), 1) * 0.2
        whole = jax.jit(lambda p: signax.signature(p, 4))
        first, second = (signax.signature(part, 3, flatten=False) for part in (paths[0, :15], paths[0, 14:]))
        halves = signax.signature_combine(first, second)
        return {"signature": whole(paths), "gradient": jax.jit(jax.grad(lambda p: jnp.sum(jnp.sin(signax.signature(p, 3)))))(paths[0]),
                "log": jax.jit(lambda p: signax.logsignature(p, 3))(paths), "stream": signax.signature(paths[0], 3, stream=True)} | {f"halves {i}": h for i, h in enumerate(halves)}

    return step


@workload(library="qpax", x64=True, rtol=1e-6, why="interior points with tolerance 1e-8 in double precision")
def qpax_quadratic_programs():
    import jax
    import jax.numpy as jnp
    import qpax
    n, equal, less = 8, 3, 10
    keys = jax.random.split(jax.random.key(0), 6)
    root = jax.random.normal(keys[0], (n, n))
    q_matrix, q = root @ root.T + jnp.eye(n), jax.random.normal(keys[1], (n,))
    a, g = jax.random.normal(keys[2], (equal, n)), jax.random.normal(keys[3], (less, n))
    b, h = a @ jnp.ones(n), g @ jnp.ones(n) + 0.5

    solve = jax.jit(lambda q: qpax.solve_qp(q_matrix, q, a, b, g, h))
    primal = jax.jit(jax.vmap(lambda q: qpax.solve_qp_primal(q_matrix, q, a, b, g, h)))
    gradient = jax.jit(jax.grad(lambda q: jnp.sum(qpax.solve_qp_primal(q_matrix, q, a, b, g, h) ** 2)))

    def step():
        found = solve(q)
        x = found[0] if isinstance(found, tuple) else found.x
        return {"x": x, "several": primal(jnp.stack([q, 2 * q, -q])), "gradient": gradient(q)}

    return step


@workload(library="jax-sysid", x64=True, rtol=1e-5, why="200 steps of Adam from the same start in double precision")
def sysid_linear_model():
    import jax.numpy as jnp
    import numpy as np
    from jax_sysid.models import LinearModel
    rng = np.random.default_rng(0)
    u = rng.standard_normal((150, 1))
    y, x = np.zeros((150, 1)), np.zeros(2)
    for t in range(150):
        y[t] = x[0] + 0.01 * rng.standard_normal()
        x = np.array([[0.8, 0.2], [-0.1, 0.7]]) @ x + np.array([0.5, 1.0]) * u[t, 0]

    def step():
        model = LinearModel(2, 1, 1, seed=1)
        model.loss(rho_x0=1e-3, rho_th=1e-2)
        model.optimization(adam_epochs=200, lbfgs_epochs=0, iprint=-1)
        model.fit(y, u)
        predicted = model.predict(jnp.zeros(2), u)[0]
        return {"predicted": predicted} | {f"parameter {i}": p for i, p in enumerate(model.params)}

    return step


@workload(library="tensorly", x64=True, rtol=1e-6, why="alternating least squares from the same start in double precision")
def tensorly_decompositions():
    import jax
    import jax.numpy as jnp
    import tensorly as tl
    from tensorly.decomposition import parafac, tensor_train, tucker
    tl.set_backend("jax")

    def step():
        factors = [jax.random.normal(k, (n, 3), jnp.float64) for k, n in zip(jax.random.split(jax.random.key(0), 3), (6, 7, 8))]
        x = jnp.einsum("ir,jr,kr->ijk", *factors)
        cp = parafac(x, 3, init="svd", n_iter_max=20, tol=0)
        core = tucker(x, [2, 2, 2], n_iter_max=10)
        train = tensor_train(x, [1, 3, 3, 1])
        return {"cp": tl.cp_to_tensor(cp), "tucker": tl.tucker_to_tensor(core), "train": tl.tt_to_tensor(train), "unfolded": tl.unfold(x, 1),
                "mode": tl.tenalg.mode_dot(x, factors[0].T, 0), "khatri-rao": tl.tenalg.khatri_rao(factors)}

    return step


@workload(library="einx", rtol=1e-5, why="tensor notation over jax.numpy, float32")
def einx_notation():
    import einx
    import jax
    import jax.numpy as jnp

    def step():
        x = jax.random.normal(jax.random.key(0), (4, 6, 10))
        w = jax.random.normal(jax.random.key(1), (10, 8))
        picked = jnp.array([[0, 3], [5, 1], [2, 2], [4, 0]])
        attention = jax.jit(lambda q, k, v: einx.dot("b q k h, b k (h c) -> b q (h c)", einx.softmax("b q [k] h", einx.dot("b q (h c), b k (h c) -> b q k h", q, k, h=2)), v))
        return {"dot": einx.dot("b s [c], [c] d -> b s d", x, w), "mean": einx.mean("b [s] c", x), "split": einx.id("b (s t) c -> (b t) s c", x, t=2),
                "get": einx.get_at("b [s] c, b k -> b k c", x, picked), "sort": einx.sort("b [s] c", x), "attention": attention(x, x, x),
                "gradient": jax.grad(lambda x: jnp.sum(einx.logsumexp("b [s] c", x)))(x), "where": einx.where("b s c, , b s c", x > 0, 0.0, x)}

    return step


@workload(library="sympy2jax", rtol=1e-5, why="a few arithmetic operations in float32")
def sympy2jax_expressions():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import sympy
    import sympy2jax
    x, y = sympy.symbols("x y")
    expressions = [sympy.diff(sympy.sin(x * y) * sympy.exp(-x**2), x), sympy.sqrt(x**2 + y**2),
                   sympy.series(sympy.cos(x), x, 0, 8).removeO(), sympy.Max(x, y) - sympy.Min(x, 2 * y), 2.5 * x**3 + sympy.Rational(1, 3) * y]
    module = sympy2jax.SymbolicModule(expressions)
    values = eqx.filter_jit(lambda m, a, b: jnp.stack([jnp.broadcast_to(v, a.shape) for v in m(x=a, y=b)]))
    gradient = eqx.filter_jit(eqx.filter_grad(lambda m, a, b: jnp.sum(values(m, a, b) ** 2)))

    def step():
        a, b = jnp.linspace(-1, 2, 17), jnp.linspace(0.5, 1.5, 17)
        leaves = jax.tree.leaves(eqx.filter(gradient(module, a, b), eqx.is_array))
        return {"values": values(module, a, b)} | {f"gradient {i}": g for i, g in enumerate(leaves)}

    return step
