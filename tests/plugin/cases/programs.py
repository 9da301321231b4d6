"""Small programs in the style that people write JAX in: functions that call functions, rules of their own, loops in loops.

Each returns its results, which are held against XLA's plugin's.
"""
import functools

import jax
import jax.numpy as jnp
from jax import lax

from . import case, rand


@jax.jit
def _power(x, n):
    return lax.fori_loop(0, n, lambda i, v: v * x, jnp.ones_like(x))


@case(peer=True)
def one_loop_called_from_many_places():
    """The callee's computations are shared until somebody changes one of them."""
    def thrice(x):
        return _power(x, 2) + _power(x, 3) - _power(_power(x, 2), 2)

    def in_branches(x, k):
        return lax.switch(k, [lambda v: _power(v, 2), lambda v: _power(v, 5), thrice], x)

    x = rand(5)
    run = jax.jit(lambda x: [in_branches(x, k) for k in range(3)] + [thrice(x), lax.fori_loop(0, 3, lambda i, v: _power(v, i) * 0.5 + thrice(v), x)])
    batched = jax.jit(jax.vmap(in_branches))(jnp.stack([x, x * 2, x - 1]), jnp.arange(3))
    return {**{f"r{i}": v for i, v in enumerate(run(x))}, "batched": batched, "gradient": jax.jit(jax.jacfwd(thrice))(x)}


@case(peer=True, rtol=1e-4)
def rules_of_its_own():
    """custom_jvp and custom_vjp called from several places, with closures, in loops and under vmap."""
    @jax.custom_jvp
    def softplus(x):
        return jnp.log1p(jnp.exp(x))
    softplus.defjvp(lambda p, t: (softplus(*p), jax.nn.sigmoid(p[0]) * t[0]))

    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def solve(a, steps):
        return lax.fori_loop(0, steps, lambda i, y: 0.5 * (y + a / y), jnp.ones_like(a))

    solve.defvjp(lambda a, steps: (solve(a, steps), solve(a, steps)), lambda steps, y, g: (g * 0.5 / y,))

    def f(x):
        def body(c, v):
            c = softplus(c) + jnp.sqrt(solve(v * v + 1, 8))
            return c, solve(c * c + 2, 3)
        c, ys = lax.scan(body, x[0], x)
        return jnp.sum(ys) + softplus(c)

    x = rand(3, 6)
    return {"value": jax.jit(jax.vmap(f))(x), "gradient": jax.jit(jax.vmap(jax.grad(f)))(x), "hessian": jax.jit(jax.hessian(lambda v: softplus(v) * softplus(v * 2).sum()))(0.3)}


@case(peer=True, rtol=1e-4)
def rematerialised_scan_of_scan():
    def inner(c, w):
        return jnp.tanh(c * w + 0.1), jnp.sum(c)

    @jax.checkpoint
    def outer(c, ws):
        c, sums = lax.scan(inner, c, ws)
        return c, (sums, jnp.max(c))

    def loss(c, ws):
        c, (sums, tops) = lax.scan(jax.checkpoint(outer, prevent_cse=False), c, ws)
        d, _ = lax.scan(outer, c * 0.5, ws, reverse=True)
        return jnp.sum(sums * tops[:, None]) + jnp.sum(c * d)

    c, ws = rand(4), rand(3, 5, 4)
    return {"value": jax.jit(loss)(c, ws), "gradient": jax.jit(jax.grad(loss, 1))(c, ws), "jvp": jax.jit(lambda: jax.jvp(loss, (c, ws), (c, ws)))()[1],
            "second": jax.jit(jax.grad(lambda s: jax.grad(lambda t: loss(c * t, ws))(s)))(0.7)}


@case(peer=True)
def cond_in_while_and_while_in_cond():
    def collatz(n):
        def body(s):
            n, steps, peak = s
            n = lax.cond(n % 2 == 0, lambda v: v // 2, lambda v: 3 * v + 1, n)
            return n, steps + 1, jnp.maximum(peak, n)
        return lax.while_loop(lambda s: (s[0] != 1) & (s[1] < 200), body, (n, 0, n))

    def searched(x):
        return lax.cond(x > 0, lambda v: lax.while_loop(lambda a: jnp.abs(a) < 50, lambda a: a * 1.7, v), lambda v: lax.cond(v < -1, lambda u: -u, lambda u: collatz(7)[1] * u, v), x)

    xs = jnp.array([0.3, -0.4, -3.0, 49.9])
    return {"one": jnp.stack(jax.jit(collatz)(27)), "many": jnp.stack(jax.jit(jax.vmap(collatz))(jnp.arange(1, 30)), 1), "searched": jax.jit(jax.vmap(searched))(xs), "each": jnp.stack([jax.jit(searched)(v) for v in xs])}


@case(peer=True)
def loops_that_stop_on_flags():
    """What the condition alone reads, what the body alone writes, what neither touches; flags by and, or, not, any."""
    x = jnp.arange(8.0)

    def body(s):
        v, done, count, untouched, both = s
        v = v * 0.5
        return v, v < 0.4, count + 1, untouched, ~both & (count < 3)

    run = jax.jit(lambda x: lax.while_loop(lambda s: ~jnp.all(s[1]), body, (x, jnp.zeros(8, bool), 0, x * 3, False)))
    v, done, count, untouched, both = run(x)
    newton = lax.while_loop(lambda s: ~(s[2] | s[3]) & ~jnp.isnan(s[0]),
                            lambda s: (s[0] - (s[0] ** 2 - 2) / (2 * s[0]), s[1] + 1, jnp.abs(s[0] ** 2 - 2) < 1e-5, s[1] >= 50), (3.0, 0, False, False))
    batched = jax.jit(jax.vmap(lambda a: lax.while_loop(lambda s: ~s[1], lambda s: (s[0] * 2 + 1, s[0] > a), (a, False))))(jnp.arange(5.0))
    swapped = lax.while_loop(lambda s: s[2] < 5, lambda s: (s[1], s[0], s[2] + 1), (x, -x, 0))
    nested = lax.while_loop(lambda s: ~s[1], lambda s: lax.while_loop(lambda t: ~t[1], lambda t: (t[0] + 1, t[0] % 4 == 3), (s[0], s[0] > 20)), (0, False))
    return {"v": v, "done": done, "count": count, "untouched": untouched, "both": both, "newton": newton[0], "found": newton[2], "lost": newton[3], "batched": batched[0], "flags": batched[1],
            "swapped": swapped[0], "other": swapped[1], "nested": nested[0], "nested_flag": nested[1]}


@case(peer=True, rtol=1e-4)
def batched_loops_and_their_gradients():
    def forward(x, n):
        return lax.fori_loop(0, n, lambda i, v: jnp.sin(v) + x[i % 3], x)

    x, n = rand(4, 3), jnp.array([0, 1, 5, 2])
    fixed = jax.jit(jax.vmap(jax.grad(lambda v: jnp.sum(lax.fori_loop(0, 4, lambda i, u: jnp.sin(u) + v[i % 3], v)))))
    ragged = jax.vmap(lambda m: lax.while_loop(lambda s: s[0] < m, lambda s: (s[0] + 1, s[1].at[s[0]].set(s[0] * m)), (0, jnp.zeros(6, jnp.int32))))
    return {"forward": jax.jit(jax.vmap(forward))(x, n), "gradient": fixed(x), "tangent": jax.jit(lambda: jax.jvp(lambda v: jax.vmap(forward)(v, n), (x,), (x,))[1])(),
            "ragged": jax.jit(ragged)(n)[1], "twice": jax.jit(jax.vmap(jax.vmap(forward, (0, None)), (None, 0)))(x, n)}


@case(peer=True, rtol=1e-4)
def scans_by_association():
    def compose(a, b):
        return a[0] @ b[0], jnp.einsum("...i,...ij->...j", a[1], b[0]) + b[1]

    m, v = rand(11, 3, 3), rand(11, 3)
    first = jax.jit(lambda m, v: lax.associative_scan(compose, (m, v)))(m, v)
    decay = jax.jit(lambda a, x: lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, x), reverse=True))(jnp.full(20, 0.9), jnp.arange(20.0))
    longest = jax.jit(lambda x: lax.associative_scan(jnp.maximum, x, axis=1))(rand(4, 9))
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(lax.associative_scan(compose, (m, v))[1] ** 2)))(m)
    return {"m": first[0], "v": first[1], "decay": decay[1], "longest": longest, "gradient": gradient}


@case(peer=True)
def reducers_shared_and_of_ones_own():
    def argbest(x, axis):
        i = lax.broadcasted_iota(jnp.int32, x.shape, axis)
        def pick(a, b):
            better = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
            return jnp.where(better, b[0], a[0]), jnp.where(better, b[1], a[1])
        return lax.reduce((x, i), (jnp.float32(-jnp.inf), jnp.int32(2 ** 30)), pick, (axis,))

    def moments(x):
        return lax.reduce((x, x * x, jnp.ones_like(x)), (0.0, 0.0, 0.0), lambda a, b: tuple(p + q for p, q in zip(a, b)), (0, 1))

    x = jnp.round(rand(6, 7) * 4)
    window = lax.reduce_window((x, -x), (0.0, 0.0), lambda a, b: (a[0] + b[0], jnp.minimum(a[1], b[1])), (2, 3), (1, 2), "SAME")
    def step(c, row):
        return jnp.maximum(c, jnp.sum(row)) + jnp.max(row), (jnp.sum(row), jnp.max(row), jnp.sum(jnp.where(row > 0, row, 0)))
    c, rows = jax.jit(lambda x: lax.scan(step, 0.0, x))(x)
    return {"best0": argbest(x, 0)[0], "where0": argbest(x, 0)[1], "where1": jax.jit(lambda x: argbest(x, 1)[1])(x), "moments": jnp.stack(jax.jit(moments)(x)), "w0": window[0], "w1": window[1],
            "c": c, "rows": jnp.stack(rows), "and": jnp.all(x > -4, 0), "or": jnp.any(x > 3, 1), "xor": lax.reduce(x.astype(jnp.int32), 0, lax.bitwise_xor, (0, 1)), "product": jnp.prod(x[:, :3] + 0.5, 0)}


@case(peer=True, rtol=0, atol=0)
def integers_that_wrap_around():
    def run(dtype):
        big = jnp.array(jnp.iinfo(dtype).max, dtype)
        low = jnp.array(jnp.iinfo(dtype).min, dtype)
        x = jnp.array([1, 3, 7, 100, 127], dtype)
        step, iterations = lax.while_loop(lambda s: (s[1] < 40) & (s[0] <= big - 3), lambda s: (s[0] + 3, s[1] + 1), (big - 20, 0))
        back, down = lax.while_loop(lambda s: (s[0] > low) & (s[1] < 40), lambda s: (s[0] - 7, s[1] + 1), (low + 22, 0))
        total = lax.fori_loop(0, 10, lambda i, v: v * 3 + i.astype(dtype), x)
        shifted = lax.shift_right_logical(x * 31, jnp.array(2, dtype)) + lax.shift_left(x, jnp.array(6, dtype))
        return {"step": step, "iterations": iterations, "back": back, "down": down, "total": total, "sum": jnp.sum(x * x, dtype=dtype), "shifted": shifted, "cumulative": jnp.cumprod(x), "negated": -low, "abs": jnp.abs(low)}

    return {f"{d.__name__}.{k}": v for d in (jnp.int8, jnp.uint8, jnp.int16, jnp.uint16, jnp.int32, jnp.uint32) for k, v in jax.jit(functools.partial(run, d))().items()}


@case(peer=True)
def loops_over_what_was_given_away():
    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(a, b, n):
        def body(i, s):
            a, b = s
            return b + a[::-1] * 0.5, a.at[i % 6].add(b[i % 6])
        return lax.fori_loop(0, n, body, (a, b))

    @functools.partial(jax.jit, donate_argnums=0)
    def swap(s):
        return s["b"], {"a": s["a"] + 1, "kept": s["kept"]}

    a, b = jnp.arange(6.0), jnp.ones(6)
    for n in range(5):
        a, b = step(a, b, n)
    first, rest = swap({"a": a, "b": b, "kept": jnp.arange(3)})
    return {"first": first, "a": rest["a"], "kept": rest["kept"]}


@case(peer=True, rtol=1e-12, atol=1e-12)
def doubles_beside_floats():
    with jax.enable_x64(True):
        x = jnp.linspace(0.0, 1.0, 9, dtype=jnp.float64)
        wide = jax.jit(lambda v: lax.scan(lambda c, t: (c + t.astype(jnp.float32).astype(jnp.float64) / 3, c.astype(jnp.float32)), jnp.float64(0), v))(x)
        long = jax.jit(lambda n: lax.fori_loop(jnp.int64(2 ** 33), n, lambda i, s: s + i, jnp.int64(0)))(jnp.int64(2 ** 33 + 5))
        index = x[jnp.array([2 ** 33, 3, -1], jnp.int64) % 9]
        count = jax.jit(lambda: lax.while_loop(lambda s: s[0] < 2 ** 40, lambda s: (s[0] * 2, s[1] + 1), (jnp.int64(3), jnp.int32(0))))()
        out = {"carry": wide[0], "narrow": wide[1], "long": long, "index": index, "count": count[1], "product": jax.jit(jnp.matmul)(jnp.outer(x, x), jnp.outer(x, x + 1)), "complex": jnp.fft.fft(x)}
    narrow = jax.jit(lambda v: v * 2)(jnp.arange(3.0))
    assert narrow.dtype == jnp.float32
    return {**out, "after": narrow}


@case(peer=True, rtol=1e-4)
def many_functions_in_functions():
    """Two to the fifth calls of one leaf, each with its own constants, and a tower whose levels are jitted."""
    leaf = jax.jit(lambda x, k: jnp.sin(x) * k + lax.cond(k > 1, lambda v: v * 2, lambda v: v - 1, x))

    def tower(level, x, k):
        if level == 0:
            return leaf(x, k)
        f = jax.jit(functools.partial(tower, level - 1))
        return f(x, k) + 0.5 * f(x * 0.7, k + 1)

    x = rand(4)
    return {"value": jax.jit(functools.partial(tower, 5))(x, 0.0), "gradient": jax.jit(jax.jacrev(functools.partial(tower, 3)))(x, 0.0), "again": jax.vmap(jax.jit(functools.partial(tower, 2)), (0, None))(jnp.stack([x, -x]), 1.0)}


@case(peer=True, rtol=1e-4)
def updates_in_place_in_loops():
    def sieve(n):
        def cross(i, s):
            return lax.cond(s[i], lambda v: lax.fori_loop(2, (n - 1) // i + 1, lambda k, u: u.at[k * i].set(False), v), lambda v: v, s)
        return lax.fori_loop(2, n, cross, jnp.ones(n, bool).at[:2].set(False))

    def table(x):
        def row(i, d):
            return lax.fori_loop(1, 7, lambda j, e: e.at[i, j].set(jnp.minimum(jnp.minimum(e[i - 1, j], e[i, j - 1]) + 1, e[i - 1, j - 1] + jnp.abs(x[i - 1] - x[j - 1]))), d)
        return lax.fori_loop(1, 7, row, jnp.zeros((7, 7)).at[0].set(jnp.arange(7.0)).at[:, 0].set(jnp.arange(7.0)))

    def ring(x):
        def body(s, v):
            buffer, place = s
            buffer = lax.dynamic_update_slice(buffer, v[None], (place,))
            return (buffer, (place + 1) % 4), jnp.mean(buffer)
        return lax.scan(body, (jnp.zeros(4), 0), x)

    def both(x):
        def body(i, s):
            a, b = s
            return a.at[i].set(b[i]), b.at[i].add(a[(i + 1) % 6])
        return lax.fori_loop(0, 6, body, (x, x))

    x = rand(6)
    (buffer, place), means = jax.jit(ring)(rand(9))
    histogram = jax.jit(lambda k: lax.fori_loop(0, 40, lambda i, h: h.at[k[i]].add(1), jnp.zeros(5, jnp.int32)))(jnp.arange(40) ** 2 % 5)
    return {"sieve": jax.jit(sieve, static_argnums=0)(50), "table": jax.jit(table)(x), "gradient": jax.jit(jax.grad(lambda x: jnp.sum(ring(x)[1] ** 2)))(rand(9)), "buffer": buffer, "place": place, "means": means,
            "both": jnp.stack(jax.jit(both)(x)), "histogram": histogram}


@case(peer=True, rtol=1e-4)
def solvers_as_people_write_them():
    def conjugate_gradient(a, b):
        def body(s):
            x, r, p, rr, i = s
            ap = a @ p
            alpha = rr / jnp.vdot(p, ap)
            x, r = x + alpha * p, r - alpha * ap
            new = jnp.vdot(r, r)
            return x, r, r + new / rr * p, new, i + 1
        return lax.while_loop(lambda s: (s[3] > 1e-8) & (s[4] < 30), body, (jnp.zeros_like(b), b, b, jnp.vdot(b, b), 0))[0]

    def line_search(f, x, d):
        slope = jnp.vdot(jax.grad(f)(x), d)
        def body(s):
            t, _, i = s
            t = t * 0.5
            return t, f(x + t * d) <= f(x) + 1e-4 * t * slope, i + 1
        return lax.while_loop(lambda s: ~s[1] & (s[2] < 20), body, (4.0, False, 0))

    def descend(x):
        def f(x):
            return jnp.sum((x - 1) ** 2) + jnp.sum(x[1:] * x[:-1]) ** 2
        def body(s):
            x, _, i = s
            d = -jax.grad(f)(x)
            t, found, _ = line_search(f, x, d)
            return x + t * d, ~found | (jnp.linalg.norm(d) < 1e-3), i + 1
        return lax.while_loop(lambda s: ~s[1] & (s[2] < 8), body, (x, False, 0))

    def bisect(f, low, high):
        def body(s):
            low, high, done = s
            middle = 0.5 * (low + high)
            left = jnp.sign(f(middle)) != jnp.sign(f(low))
            return jnp.where(left, low, middle), jnp.where(left, middle, high), high - low < 1e-4
        return lax.while_loop(lambda s: ~s[2], body, (low, high, False))

    a = rand(5, 5)
    a, b = a @ a.T + jnp.eye(5), rand(5)
    solve = lambda a, b: lax.custom_linear_solve(lambda v: a @ v, b, lambda _, v: conjugate_gradient(a, v), symmetric=True)
    x, stopped, _ = jax.jit(descend)(rand(4))
    low, high, done = jax.jit(jax.vmap(lambda k: bisect(lambda v: v ** 3 - k, 0.0, 3.0)))(jnp.arange(1.0, 5.0))
    return {"cg": jax.jit(conjugate_gradient)(a, b), "implicit": jax.jit(jax.grad(lambda b: jnp.sum(solve(a, b) ** 2)))(b), "x": x, "stopped": stopped, "low": low, "high": high, "done": done}


@case(peer=True, rtol=0, atol=0)
def random_numbers_in_loops():
    def walk(key):
        def body(s):
            key, place, steps, outside = s
            key, sub = jax.random.split(key)
            place = place + jax.random.choice(sub, jnp.array([-1, 1]), (3,))
            return key, place, steps + 1, jnp.any(jnp.abs(place) > 4)
        return lax.while_loop(lambda s: ~s[3] & (s[2] < 100), body, (key, jnp.zeros(3, jnp.int32), 0, False))

    def shuffle(key, x):
        def body(i, s):
            key, x = s
            key, sub = jax.random.split(key)
            j = jax.random.randint(sub, (), 0, i + 1)
            a, b = x[i], x[j]
            return key, x.at[i].set(b).at[j].set(a)
        return lax.fori_loop(0, 8, lambda k, s: body(7 - k, s), (key, x))[1]

    keys = jax.random.split(jax.random.PRNGKey(3), 4)
    _, place, steps, outside = jax.jit(jax.vmap(walk))(keys)
    rejected = jax.jit(lambda k: lax.while_loop(lambda s: s[1] < 0.9, lambda s: (jax.random.fold_in(s[0], 1), jax.random.uniform(s[0])), (k, 0.0))[1])(keys[0])
    return {"place": place, "steps": steps, "outside": outside, "shuffled": jax.jit(jax.vmap(shuffle, (0, None)))(keys, jnp.arange(8)), "rejected": rejected}


@case(peer=True)
def results_that_are_arguments_or_constants():
    """The same value twice, an argument straight through, constants, empty arrays, tuples of nothing."""
    f = jax.jit(lambda x, y: (x, x, y, x + 0, jnp.zeros(3), 7, (), {"e": jnp.zeros((0, 4)), "s": x[:0].sum(), "m": jnp.concatenate([x[:0], y])}))
    x, y = jnp.arange(4.0), jnp.ones(4)
    out = jax.tree.leaves(f(x, y)) + jax.tree.leaves(jax.jit(lambda c: lax.fori_loop(0, 3, lambda i, s: (s[1], s[0], jnp.float32(5), s[3]), c))((x, y, 0.0, jnp.zeros((2, 0)))))
    none = jax.jit(lambda x: lax.fori_loop(0, 0, lambda i, v: v * 0, x))(x)
    once = jax.jit(lambda n: lax.fori_loop(0, n, lambda i, v: (v[0], v[0]), (x, y)))(0)
    return {**{f"r{i}": v for i, v in enumerate(out)}, "none": none, "once0": once[0], "once1": once[1]}
