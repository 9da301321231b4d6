"""Models over eight devices, each beside the same model on one: training with data and tensor parallelism, a pipeline,
ring attention, experts behind a ragged all-to-all; and many programs of several devices at once."""
import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from . import case, close, rand, same

N = 8
eight = functools.partial(case, road="env8")
loose = dict(rtol=2e-4, atol=2e-5)


def mesh(**axes):
    return Mesh(np.array(jax.devices()[:N]).reshape(tuple(axes.values())), tuple(axes))


def alone(tree):
    return jax.device_put(tree, jax.devices()[0])


# ---- a transformer

WIDTH, HEADS, VOCABULARY, LAYERS = 16, 4, 24, 2
SPLIT = {"embed": P(None, None), "q": P(None, None, "model", None), "k": P(None, None, "model", None),
         "v": P(None, None, "model", None), "o": P(None, "model", None, None), "up": P(None, None, "model"),
         "down": P(None, "model", None), "scale": P(None, None)}


def transformer_weights():
    size = WIDTH // HEADS
    shapes = {"embed": (VOCABULARY, WIDTH), "q": (LAYERS, WIDTH, HEADS, size), "k": (LAYERS, WIDTH, HEADS, size),
              "v": (LAYERS, WIDTH, HEADS, size), "o": (LAYERS, HEADS, size, WIDTH), "up": (LAYERS, WIDTH, 4 * WIDTH),
              "down": (LAYERS, 4 * WIDTH, WIDTH), "scale": (LAYERS, WIDTH)}
    return {k: rand(*s, seed=i, low=-0.3, high=0.3) + (1 if k == "scale" else 0) for i, (k, s) in enumerate(shapes.items())}


def transformer_loss(w, tokens):
    x = w["embed"][tokens[:, :-1]]
    t = x.shape[1]
    mask = jnp.tril(jnp.ones((t, t), bool))

    def layer(x, l):
        h = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * l["scale"]
        q, k, v = (jnp.einsum("btd,dhe->bhte", h, l[n]) for n in "qkv")
        a = jnp.where(mask, jnp.einsum("bhte,bhse->bhts", q, k) / 2, -1e9)
        x = x + jnp.einsum("bhts,bhse,hed->btd", jax.nn.softmax(a), v, l["o"])
        return x + jax.nn.gelu(x @ l["up"]) @ l["down"], None

    x, _ = lax.scan(layer, x, {k: v for k, v in w.items() if k != "embed"})
    logits = jax.nn.log_softmax(x @ w["embed"].T)
    return -jnp.mean(jnp.take_along_axis(logits, tokens[:, 1:, None], -1))


@eight
def transformer_data_and_tensor_parallel():
    m = mesh(data=2, model=4)
    w = transformer_weights()
    tokens = np.random.default_rng(5).integers(0, VOCABULARY, (8, 9)).astype(np.int32)

    def step(w, tokens):
        loss, g = jax.value_and_grad(transformer_loss)(w, tokens)
        return jax.tree.map(lambda a, b: a - 0.5 * b, w, g), loss

    places = {k: NamedSharding(m, s) for k, s in SPLIT.items()}
    split = jax.jit(step, in_shardings=(places, NamedSharding(m, P("data"))), out_shardings=(places, NamedSharding(m, P())))
    whole, parts = alone(w), jax.device_put(w, places)
    for iteration in range(3):
        whole, want = jax.jit(step)(whole, alone(tokens))
        parts, got = split(parts, tokens)
        close(got, want, **loose)
    for k in w:
        assert parts[k].sharding.is_equivalent_to(places[k], w[k].ndim), k
        close(parts[k], whole[k], **loose)


@eight
def transformer_by_hand():
    """The same loss with the collectives written out: parts of heads and of the wide layer on each device."""
    m = mesh(data=2, model=4)
    w = transformer_weights()
    tokens = np.random.default_rng(6).integers(0, VOCABULARY, (4, 7)).astype(np.int32)

    def body(w, tokens):
        x = w["embed"][tokens[:, :-1]]
        t = x.shape[1]
        mask = jnp.tril(jnp.ones((t, t), bool))
        for l in range(LAYERS):
            h = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w["scale"][l]
            q, k, v = (jnp.einsum("btd,dhe->bhte", h, w[n][l]) for n in "qkv")
            a = jax.nn.softmax(jnp.where(mask, jnp.einsum("bhte,bhse->bhts", q, k) / 2, -1e9))
            x = x + lax.psum(jnp.einsum("bhts,bhse,hed->btd", a, v, w["o"][l]), "model")
            x = x + lax.psum(jax.nn.gelu(x @ w["up"][l]) @ w["down"][l], "model")
        logits = jax.nn.log_softmax(x @ w["embed"].T)
        return lax.pmean(-jnp.mean(jnp.take_along_axis(logits, tokens[:, 1:, None], -1)), "data")

    f = jax.shard_map(body, mesh=m, in_specs=(SPLIT, P("data")), out_specs=P())
    got, grads = jax.jit(jax.value_and_grad(f))(w, tokens)
    want, expected = jax.jit(jax.value_and_grad(transformer_loss))(alone(w), alone(tokens))
    close(got, want, **loose)
    for k in w:
        close(grads[k], expected[k], **loose)


# ---- a pipeline

@eight
def pipeline_of_stages():
    """Eight stages, each on a device of its own; batches move on by one stage per iteration."""
    m = mesh(stage=N)
    w, batches = rand(N, 6, 6), rand(5, 3, 6, seed=1)

    def body(w, batches):
        stage, iterations = lax.axis_index("stage"), batches.shape[0] + N - 1

        def iterate(state, i):
            held, out = state
            fed = jnp.where(stage == 0, batches[jnp.minimum(i, batches.shape[0] - 1)], held)
            made = jnp.tanh(fed @ w[0])
            at = jnp.clip(i - N + 1, 0, batches.shape[0] - 1)
            out = jnp.where((stage == N - 1) & (i >= N - 1), out.at[at].set(made), out)
            return (lax.ppermute(made, "stage", [(k, (k + 1) % N) for k in range(N)]), out), None

        start = lax.pcast((jnp.zeros_like(batches[0]), jnp.zeros_like(batches)), "stage", to="varying")
        (_, out), _ = lax.scan(iterate, start, jnp.arange(iterations))
        return lax.psum(jnp.where(stage == N - 1, out, 0), "stage")

    f = jax.shard_map(body, mesh=m, in_specs=(P("stage"), P()), out_specs=P())

    def plain(w, batches):
        for k in range(N):
            batches = jnp.tanh(batches @ w[k])
        return batches

    close(jax.jit(f)(w, batches), jax.jit(plain)(alone(w), alone(batches)))
    loss = lambda g: jax.jit(jax.grad(lambda w, b: (g(w, b) ** 2).sum()))
    close(loss(f)(w, batches), loss(plain)(alone(w), alone(batches)), **loose)


# ---- ring attention

@eight
def ring_attention():
    """Keys and values rotate between the devices; each device adds them to the attention of its own queries."""
    m = mesh(ring=N)
    q, k, v = (rand(2, 32, 4, seed=s) for s in range(3))

    def body(q, k, v):
        n, t = lax.axis_index("ring"), q.shape[1]
        rows = n * t + jnp.arange(t)

        def iterate(state, i):
            k, v, high, total, out = state
            columns = (n - i) % N * t + jnp.arange(t)
            a = jnp.where(rows[:, None] >= columns, jnp.einsum("bte,bse->bts", q, k), -1e30)
            new = jnp.maximum(high, a.max(-1))
            p = jnp.where(rows[:, None] >= columns, jnp.exp(a - new[..., None]), 0)
            keep = jnp.exp(high - new)
            ring = [(d, (d + 1) % N) for d in range(N)]
            return (lax.ppermute(k, "ring", ring), lax.ppermute(v, "ring", ring), new, total * keep + p.sum(-1),
                    out * keep[..., None] + jnp.einsum("bts,bse->bte", p, v)), None

        start = (k, v, jnp.full_like(q[..., 0], -1e30), jnp.zeros_like(q[..., 0]), jnp.zeros_like(q))
        (_, _, _, total, out), _ = lax.scan(iterate, start, jnp.arange(N))
        return out / total[..., None]

    f = jax.shard_map(body, mesh=m, in_specs=P(None, "ring"), out_specs=P(None, "ring"))

    def plain(q, k, v):
        a = jnp.einsum("bte,bse->bts", q, k)
        return jnp.einsum("bts,bse->bte", jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(a.shape[1:], bool)), a, -1e30)), v)

    close(jax.jit(f)(q, k, v), jax.jit(plain)(*alone((q, k, v))), **loose)
    gradients = lambda g: jax.jit(jax.grad(lambda *x: jnp.cos(g(*x)).sum(), argnums=(0, 1, 2)))
    for got, want in zip(gradients(f)(q, k, v), gradients(plain)(*alone((q, k, v)))):
        close(got, want, **loose)


# ---- experts

@eight
def experts_behind_a_ragged_all_to_all():
    """Tokens travel to the device of their expert and back, as many from each device as there happen to be."""
    m = mesh(x=N)
    tokens = 6
    x = rand(N * tokens, 5)
    choice = np.random.default_rng(9).integers(0, N, N * tokens).astype(np.int32)
    choice[:tokens] = 3  # one device sends all of its own to one expert
    w = rand(N, 5, 5, seed=2)

    def body(x, choice, w):
        order = jnp.argsort(choice, stable=True)
        sizes = jnp.zeros(N, jnp.int32).at[choice].add(1)
        everybodys = lax.all_gather(sizes, "x")  # [from, to]
        me = lax.axis_index("x")
        starts = jnp.cumsum(sizes) - sizes
        # Where mine begin at each of the others: behind those of the devices before me.
        ahead = jnp.cumsum(everybodys, 0) - everybodys
        room = jnp.zeros((N * tokens, x.shape[1]), x.dtype)
        room = lax.pcast(room, "x", to="varying")
        came = lax.ragged_all_to_all(x[order], room, starts, sizes, ahead[me], everybodys[:, me], axis_name="x")
        made = jnp.tanh(came @ w[0])
        back = lax.ragged_all_to_all(made, jnp.zeros_like(x), ahead[:, me], everybodys[:, me],
                                     (jnp.cumsum(everybodys, 1) - everybodys)[:, me], sizes, axis_name="x")
        return jnp.zeros_like(x).at[order].set(back)

    f = jax.jit(jax.shard_map(body, mesh=m, in_specs=P("x"), out_specs=P("x"), check_vma=False))
    close(f(x, choice, w), np.tanh(np.einsum("td,tde->te", x.astype(np.float64), w[choice])))


@eight
def experts_behind_an_all_to_all():
    """The dense form: room for so many tokens at each expert, data and experts over one axis."""
    m = mesh(x=N)
    x, gate, w = rand(N * 4, 5), rand(5, N, seed=3), rand(N, 5, 5, seed=2)

    def route(x, gate):
        choice = jnp.argmax(x @ gate, -1)
        hot = jax.nn.one_hot(choice, N)
        slot = (jnp.cumsum(hot, 0) - 1) * hot
        return hot[..., None] * jax.nn.one_hot(slot.sum(-1).astype(jnp.int32), 4)[:, None, :]  # token, expert, slot

    def body(x, gate, w):
        way = route(x, gate)
        sent = jnp.einsum("tec,td->ecd", way, x)
        came = lax.all_to_all(sent, "x", 0, 0, tiled=True)
        made = jnp.tanh(jnp.einsum("ecd,df->ecf", came, w[0]))
        return jnp.einsum("tec,ecd->td", way, lax.all_to_all(made, "x", 0, 0, tiled=True))

    f = jax.shard_map(body, mesh=m, in_specs=(P("x"), P(), P("x")), out_specs=P("x"))
    plain = lambda x, gate, w: jnp.tanh(jnp.einsum("td,tdf->tf", x, w[jnp.argmax(x @ gate, -1)]))
    close(jax.jit(f)(x, gate, w), jax.jit(plain)(*alone((x, gate, w))), **loose)
    gradients = lambda g: jax.jit(jax.grad(lambda w: (g(x, gate, w) ** 2).sum()))
    close(gradients(f)(w), gradients(plain)(alone(w)), **loose)


# ---- sums that are put off

@eight
def sums_of_a_batch_in_parts_are_taken_once():
    """Gradients of small batches add up on each device, and one all-reduce after the last batch combines them."""
    m = jax.make_mesh((N,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    x, w = rand(3, N * 2, 4), [rand(4, 4, seed=s) for s in range(3)]
    with jax.set_mesh(m):
        @jax.custom_vjp
        def layer(x, w):
            return jnp.tanh(x @ w)
        def forward(x, w):
            y = layer(x, w)
            return y, (x, w, y)
        def backward(kept, g):
            x, w, y = kept
            g = g * (1 - y * y)
            return jnp.dot(g, w.T), jnp.dot(x.T, g, out_sharding=P(unreduced={"x"}))
        layer.defvjp(forward, backward)

        def loss(w, x):
            for a in w:
                x = layer(x, a)
            return jnp.sum(x)

        @jax.jit
        def step(w, xs):
            total = [jax.sharding.reshard(jnp.zeros_like(a), P(unreduced={"x"})) for a in w]
            add = lambda total, x: (jax.tree.map(jnp.add, total, jax.grad(loss)(w, x)), None)
            total, _ = lax.scan(add, total, xs)
            return [jax.sharding.reshard(t, P()) for t in total]

        ws = [jax.device_put(a, P(reduced={"x"})) for a in w]
        xs = jax.device_put(x, P(None, "x", None))
        got = step(ws, xs)
        text = step.lower(ws, xs).compile().as_text()
    plain = lambda w, x: jnp.sum(functools.reduce(lambda x, a: jnp.tanh(x @ a), w, x))
    want = jax.grad(lambda w: sum(plain(w, b) for b in alone(x)))(alone(w))
    for a, b in zip(got, want):
        close(a, b, **loose)
    # None in the loop; behind it one for each array, or one for all.
    assert " all-reduce(" not in text[:text.index("ENTRY")], text
    assert text.count(" all-reduce(") in (1, len(w)), text


# ---- many at once

@eight
def programs_at_once_in_different_orders():
    """Two threads start two programs of eight devices, each in its own order, over and over."""
    m = mesh(x=N)
    over = lambda body: jax.jit(jax.shard_map(body, mesh=m, in_specs=P("x"), out_specs=P("x")))
    f = over(lambda v: lax.psum(v, "x") + lax.ppermute(v, "x", [(k, (k + 3) % N) for k in range(N)]))
    g = over(lambda v: lax.all_to_all(v, "x", 1, 1, tiled=True) * 2)
    a, b = rand(N, 16), rand(N, 16, seed=4)
    want_f, want_g = np.asarray(f(a)), np.asarray(g(b))
    wrong = []

    def work(first):
        try:
            for iteration in range(15):
                outs = [(f(a), want_f), (g(b), want_g)] if first else [(g(b), want_g), (f(a), want_f)]
                for got, want in outs:
                    same(got, want)
        except Exception as e:  # reported by the thread that waits
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(k % 2 == 0,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(90)
        assert not t.is_alive(), "a program of several devices hangs"
    assert not wrong, wrong


@eight
def results_that_nobody_waits_for():
    """Runs whose results are dropped at once, and a client that goes on."""
    m = mesh(x=N)
    f = jax.jit(jax.shard_map(lambda v: lax.fori_loop(0, 20, lambda i, u: lax.pmean(u, "x") + v, v), mesh=m,
                              in_specs=P("x"), out_specs=P("x")))
    x = rand(N, 64)
    want = np.asarray(f(x))
    for _ in range(30):
        f(x)
    out = f(x)
    out.delete()
    same(f(x), want)


@case(road="package8")
def an_error_on_one_device_is_everybodys():
    """A callback fails on one device between two sums; all stop, and the devices go on working."""
    m = mesh(x=N)

    def fails_on(device):
        def look(k, v):
            if int(k) == device:
                raise ValueError("device five is out of order")
            return v
        return look

    def program(device):
        def body(v):
            v = lax.psum(v, "x") + v
            v = jax.pure_callback(fails_on(device), jax.ShapeDtypeStruct(v.shape, v.dtype), lax.axis_index("x"), v)
            return lax.psum(v, "x") + v
        return jax.jit(jax.shard_map(body, mesh=m, in_specs=P("x"), out_specs=P("x"), check_vma=False))

    x = rand(N, 3)
    good, bad = program(N), program(5)
    once = x + x.sum(0)
    for iteration in range(3):
        try:
            jax.block_until_ready(bad(x))
        except jax.errors.JaxRuntimeError as e:
            assert "out of order" in str(e), str(e)
        else:
            raise AssertionError("the error of one device was lost")
        close(good(x), once + once.sum(0), rtol=1e-4)


@case(road="package8", only="cpu|reference")
def order_that_a_program_asks_for():
    """control_dep: what is written first comes second, though no value goes from one to the other.

    Where a callback is a send and a receive, as on the emulator, only the ends of the receives wait for each other.
    """
    from jax.experimental import io_callback
    from jax.experimental.control_deps import control_dep
    seen = []

    def says(what):
        def write(v):
            seen.append(what)
            return v
        return write

    @jax.jit
    def f(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        a = io_callback(says("a"), shape, x)
        b = io_callback(says("b"), shape, x + 1)
        c = io_callback(says("c"), shape, x + 2)
        control_dep(c, a)
        control_dep(b * 2, c * 3)  # by way of values that are computed only for this
        control_dep(b, c)
        return a + b + c

    for iteration in range(3):
        seen.clear()
        close(f(np.float32(2)), 9)
        jax.effects_barrier()
        assert seen == ["b", "c", "a"], seen


@case
def calls_that_ask_to_stay():
    from jax.experimental.scheduling_groups import xla_metadata_call

    @xla_metadata_call(inlineable="false")
    def g(x):
        return jnp.sin(x) * 2, x.sum()

    def f(x):
        a, s = g(x)
        b, t = g(a)
        c, _ = lax.scan(lambda c, _: (g(c)[0], None), b, None, length=3)
        return (a + b * s + c * t).sum()

    x = rand(8)
    compiled = jax.jit(f).lower(x).compile()
    assert 'inlineable="false"' in compiled.as_text(), compiled.as_text()

    def plain(x):
        g = lambda x: (np.sin(x) * 2, x.sum())
        a, s = g(x)
        b, t = g(a)
        c = b
        for _ in range(3):
            c = g(c)[0]
        return (a + b * s + c * t).sum()

    close(compiled(x), plain(x.astype(np.float64)), rtol=1e-4)
    h = 1e-6
    wide = x.astype(np.float64)
    want = [(plain(wide + h * e) - plain(wide - h * e)) / (2 * h) for e in np.eye(8)]
    close(jax.jit(jax.grad(f))(x), want, rtol=1e-2, atol=1e-2)
    root = jax.jit(lambda x: g(x))
    close(root(x)[0], np.sin(x) * 2)
