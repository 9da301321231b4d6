"""Attention in the ways in which programs write it; the CPU plugin computes most of them in one pass."""
import jax
import jax.numpy as jnp

from . import case, rand


def _arrays(heads=4, groups=4, rows=48, keys=80, depth=16, dtype=jnp.float32):
    return [jnp.asarray(rand(2, n, h, depth, seed=s)).astype(dtype) for s, (n, h) in enumerate(((rows, heads), (keys, groups), (keys, groups)))]


@case(peer=True, rtol=2e-5, atol=2e-6)
def options_of_dot_product_attention():
    q, k, v = _arrays()
    mask = jnp.asarray(rand(2, 1, 48, 80, seed=5) > -0.5)
    bias = rand(1, 4, 48, 80, seed=6)
    lengths = jnp.array([17, 80])
    cases = {
        "plain": {}, "causal": dict(is_causal=True), "scale": dict(scale=0.3), "mask": dict(mask=mask), "bias": dict(bias=bias),
        "mask_bias_causal": dict(mask=mask, bias=bias, is_causal=True), "lengths": dict(key_value_seq_lengths=lengths),
        "window": dict(local_window_size=(7, 3)), "window_causal": dict(local_window_size=(9, 0), is_causal=True),
        "masked_rows": dict(mask=mask.at[0, 0, 5].set(False)),
    }
    results = {name: jax.jit(lambda q, k, v, o=options: jax.nn.dot_product_attention(q, k, v, **o))(q, k, v) for name, options in cases.items()}
    grouped = _arrays(groups=2)
    results["grouped"] = jax.jit(lambda *a: jax.nn.dot_product_attention(*a, is_causal=True))(*grouped)
    results["one_head_of_keys"] = jax.jit(lambda *a: jax.nn.dot_product_attention(*a, mask=mask))(*_arrays(groups=1))
    return results


@case(peer=True, rtol=2e-2, atol=2e-2)
def attention_of_narrow_types():
    """Scores in f32, as the function of JAX computes them, and in the type of the arrays."""
    def narrow(q, k, v):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)

    results = {f"causal_{causal}": jax.jit(lambda *a, c=causal: jax.nn.dot_product_attention(*a, is_causal=c))(*_arrays(dtype=jnp.bfloat16)) for causal in (False, True)}
    results |= {t.__name__: jax.jit(narrow)(*_arrays(dtype=t)) for t in (jnp.bfloat16, jnp.float16)}
    return {name: r.astype(jnp.float32) for name, r in results.items()}


def _layer(p, x, mask):
    """As layers for JAX write it: projections, heads, masked scores, softmax, heads joined."""
    q, k, v = (jnp.einsum("btc,chd->bthd", x, p[n]) + p[n + "b"] for n in "qkv")
    scores = jnp.einsum("bqhd,bkhd->bhqk", q / jnp.sqrt(q.shape[-1]), k)
    weights = jax.nn.softmax(jnp.where(mask, scores, jnp.finfo(x.dtype).min))
    return jnp.einsum("bthd,hdc->btc", jnp.einsum("bhqk,bkhd->bqhd", weights, v), p["o"])


def _parameters():
    return {**{n: rand(32, 4, 8, seed=s) * 0.2 for s, n in enumerate("qkv")}, **{n + "b": rand(4, 8, seed=s) * 0.1 for s, n in enumerate("qkv")}, "o": rand(4, 8, 32) * 0.2}


@case(peer=True, rtol=2e-4, atol=2e-5)
def attention_layer_and_its_gradient():
    """The backward pass reads the probabilities, so a training step computes them as before."""
    p, x = _parameters(), rand(2, 40, 32)
    mask = jnp.tril(jnp.ones((40, 40), bool))
    loss = lambda p, x: (_layer(p, x, mask) ** 2).mean()
    value, (of_p, of_x) = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(p, x)
    return {"layer": jax.jit(_layer)(p, x, mask), "value": value, "of_x": of_x, **{f"of_{n}": g for n, g in of_p.items()}}


@case(peer=True, rtol=2e-4, atol=2e-5)
def attention_in_transformations():
    """Batched by vmap, in a scan over layers, recomputed in the backward pass, and with a query at a time."""
    p, x = _parameters(), rand(3, 2, 40, 32)
    mask = jnp.ones((40, 40), bool)
    stacked = jax.tree.map(lambda a: jnp.stack([a, a * 0.5]), p)
    scanned = jax.jit(lambda ps, x: jax.lax.scan(lambda y, p: (y + _layer(p, y, mask), None), x, ps)[0])
    loss = lambda x: jax.checkpoint(lambda x: _layer(p, x, mask))(x).sum()
    q, k, v = rand(1, 1, 4, 8), rand(1, 64, 4, 8, seed=1), rand(1, 64, 4, 8, seed=2)
    return {"vmap": jax.jit(jax.vmap(_layer, (None, 0, None)))(p, x, mask), "scan": scanned(stacked, x[0]), "checkpoint": jax.jit(jax.grad(loss))(x[0]),
            "token": jax.jit(lambda *a: jax.nn.dot_product_attention(*a, key_value_seq_lengths=jnp.array([33])))(q, k, v)}


@case(peer=True, rtol=2e-5, atol=2e-6, only="cpu|reference|hip")
def attention_with_infinities():
    """Masks of -inf, rows without any key, and NaNs in values that the mask hides."""
    q, k, v = (jnp.swapaxes(a, 1, 2) for a in _arrays(rows=80))
    allowed = jnp.tril(jnp.ones((80, 80), bool)).at[3].set(False)
    run = jax.jit(lambda q, k, v, fill: jax.nn.softmax(jnp.where(allowed, q @ jnp.swapaxes(k, -1, -2), fill)) @ v)
    return {"rows": run(q, k, v, -jnp.inf), "low": run(q, k, v, -1e9), "hidden": run(q, k, v.at[0, 0, 79].set(jnp.nan), -1e9),
            "infinite": run(q, k, v.at[0, 1, 70, 2].set(jnp.inf), -jnp.inf)}


def _attend(q, k, v):
    return jax.nn.softmax(q @ k.T / 4) @ v


@case(peer=True, rtol=2e-5, atol=2e-6)
def attention_of_slices_with_other_readers():
    """A loop over heads reads slices of arrays that are read elsewhere too, so a slice may or may not be an array of its own."""
    x, q, joint = rand(32, 2, 16), rand(32, 4, 16, seed=1), rand(32, 3, 16, seed=2)
    transposed = jax.jit(lambda x: (lambda y: (_attend(y[0], y[0], y[0]), y))(jnp.transpose(x, (1, 0, 2))))
    other = jax.jit(lambda q, x: (lambda y: (_attend(q, y[1], q), jnp.sin(y)))(jnp.transpose(x, (1, 0, 2))))
    part = jax.jit(lambda j: (lambda y: (_attend(y[0], y[0], y[0]), y[1] + y[2]))(jnp.transpose(j, (1, 0, 2))))
    results = {"transposed": transposed(x), "other": other(q[:, 0], x), "part": part(joint)}
    for name, repeat in {"repeat": lambda a: jnp.repeat(a, 2, axis=1), "tile": lambda a: jnp.tile(a, (1, 2, 1))}.items():
        heads = jax.jit(lambda q, k, f=repeat: (lambda r: [_attend(q[:, h], r[:, h], r[:, 3 - h]) for h in range(4)])(f(k)))
        results[name] = heads(q, x)
        results[name + "_kept"] = jax.jit(lambda q, k, f=repeat: (lambda r: (_attend(q, r[:, 3], q), r))(f(k)))(q[:, 0], x)
    long = rand(2000, 2, 16, seed=3)
    results["long"] = jax.jit(lambda q, x: (lambda y: (_attend(q, y[1], x[:, 0]), jnp.sin(y)))(jnp.transpose(x, (1, 0, 2))))(q[:24, 0], long)
    return {f"{name}_{n}": leaf for name, result in results.items() for n, leaf in enumerate(jax.tree.leaves(result))}


@case(peer=True, rtol=2e-2, atol=2e-2, only="cpu|reference|hip")
def attention_with_infinite_scores():
    """Scores that a conversion makes infinite, so that the results are NaN; and a mask of NaNs."""
    q, k, v = rand(33, 16), rand(192, 16, seed=1), rand(192, 16, seed=2)
    narrow = jax.jit(lambda q, k, v, bias, t: jax.nn.softmax((q @ k.T + bias).astype(t).astype(jnp.float32)) @ v, static_argnums=4)
    results = {"low": narrow(q, k, v, jnp.float32(-1e9), "float16"), "high": narrow(q * 1e5, k, v, jnp.float32(0), "float16")}
    i, j = (jax.lax.broadcasted_iota(jnp.int32, (33, 192), d) for d in (0, 1))
    results["nan"] = jax.jit(lambda q, k, v: jax.nn.softmax(jnp.where(i + 31 >= j, q @ k.T, jnp.nan)) @ v)(q, k, v)
    return results
