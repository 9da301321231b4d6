"""Three models in plain JAX. Nothing here knows which plugin runs it.

A GPT-2-style transformer (pre-norm blocks, learned positions, tied embedding) with its loss, an Adam step and a
one-token decoder with a key-value cache; and a ResNet-18 in inference form (NHWC, batch norm with stored statistics).
Parameters are nested dicts and lists of arrays.
"""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# ---- GPT ----------------------------------------------------------------------------------------------------------


def gpt_init(seed, vocab, context, width=256, layers=4):
    """Parameters from an integer seed; jit it, the random bits are made on the device."""
    keys = iter(jax.random.split(jax.random.key(seed), 2 + 4 * layers))

    def weight(rows, cols, scale):
        return scale * jax.random.normal(next(keys), (rows, cols), jnp.float32)

    def norm():
        return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}

    blocks = [{
        "norm1": norm(), "qkv": weight(width, 3 * width, width**-0.5), "qkv_bias": jnp.zeros(3 * width),
        "out": weight(width, width, (2 * layers * width) ** -0.5), "out_bias": jnp.zeros(width),
        "norm2": norm(), "up": weight(width, 4 * width, width**-0.5), "up_bias": jnp.zeros(4 * width),
        "down": weight(4 * width, width, (8 * layers * width) ** -0.5), "down_bias": jnp.zeros(width),
    } for _ in range(layers)]
    return {"embed": weight(vocab, width, 0.05), "position": weight(context, width, 0.02), "blocks": blocks, "norm": norm()}


def layer_norm(x, p):
    mean = x.mean(-1, keepdims=True)
    var = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * p["scale"] + p["shift"]


def mlp(x, p):
    return jax.nn.gelu(x @ p["up"] + p["up_bias"]) @ p["down"] + p["down_bias"]


def split_heads(x, p, heads):
    q, k, v = jnp.split(x @ p["qkv"] + p["qkv_bias"], 3, axis=-1)
    return (t.reshape(*t.shape[:-1], heads, -1) for t in (q, k, v))


def gpt_blocks(params, tokens, heads):
    """Hidden states [batch, time, width] and the keys and values of each layer."""
    time = tokens.shape[1]
    mask = jnp.tril(jnp.ones((time, time), bool))
    x = params["embed"][tokens] + params["position"][:time]
    cache = []
    for p in params["blocks"]:
        q, k, v = split_heads(layer_norm(x, p["norm1"]), p, heads)
        score = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        attention = jax.nn.softmax(jnp.where(mask, score, -1e9), axis=-1)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", attention, v).reshape(x.shape)
        x = x + mixed @ p["out"] + p["out_bias"]
        x = x + mlp(layer_norm(x, p["norm2"]), p)
        cache.append((k, v))
    return layer_norm(x, params["norm"]), cache


def gpt_loss(params, tokens, heads):
    """Mean cross entropy of each next token; tokens [batch, time + 1]."""
    hidden, _ = gpt_blocks(params, tokens[:, :-1], heads)
    log_p = jax.nn.log_softmax(hidden @ params["embed"].T)
    return -jnp.take_along_axis(log_p, tokens[:, 1:, None], axis=-1).mean()


def adam_init(params):
    return {"params": params, "m": jax.tree.map(jnp.zeros_like, params), "v": jax.tree.map(jnp.zeros_like, params), "step": jnp.int32(0)}


def adam_step(state, tokens, heads, peak_rate=1e-3, warm_up=10, b1=0.9, b2=0.99, eps=1e-6):
    """One training step, the rate rising over the first ones: the new state and the loss before it."""
    loss, grads = jax.value_and_grad(gpt_loss)(state["params"], tokens, heads)
    step = state["step"] + 1
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["m"], grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["v"], grads)
    t = step.astype(jnp.float32)
    rate = peak_rate * jnp.minimum(1.0, t / warm_up)
    c1, c2 = 1 - b1**t, 1 - b2**t
    params = jax.tree.map(lambda p, m, v: p - rate * (m / c1) / (jnp.sqrt(v / c2) + eps), state["params"], m, v)
    return {"params": params, "m": m, "v": v, "step": step}, loss


def gpt_prefill(params, tokens, heads, context):
    """Reads a prompt [1, time]; the next token, its logits and a cache with room for `context` positions."""
    hidden, layers = gpt_blocks(params, tokens, heads)
    logits = hidden[0, -1] @ params["embed"].T
    pad = ((0, context - tokens.shape[1]), (0, 0), (0, 0))
    cache = [(jnp.pad(k[0], pad), jnp.pad(v[0], pad)) for k, v in layers]
    return jnp.argmax(logits).astype(jnp.int32), logits, cache


def gpt_decode(params, cache, token, position, heads):
    """One token further: writes row `position` of the cache and attends to the rows up to it."""
    x = params["embed"][token] + params["position"][position]
    context = cache[0][0].shape[0]
    seen = jnp.arange(context) <= position
    new_cache = []
    for p, (keys, values) in zip(params["blocks"], cache):
        q, k, v = split_heads(layer_norm(x, p["norm1"]), p, heads)
        keys = lax.dynamic_update_slice(keys, k[None], (position, 0, 0))
        values = lax.dynamic_update_slice(values, v[None], (position, 0, 0))
        score = jnp.einsum("hd,thd->ht", q, keys) * q.shape[-1] ** -0.5
        attention = jax.nn.softmax(jnp.where(seen, score, -1e9), axis=-1)
        x = x + jnp.einsum("ht,thd->hd", attention, values).reshape(-1) @ p["out"] + p["out_bias"]
        x = x + mlp(layer_norm(x, p["norm2"]), p)
        new_cache.append((keys, values))
    logits = layer_norm(x, params["norm"]) @ params["embed"].T
    return jnp.argmax(logits).astype(jnp.int32), logits, new_cache


# ---- ResNet-18 ----------------------------------------------------------------------------------------------------

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels and first stride; two blocks each


def resnet_init(seed, classes=1000):
    """Parameters as numpy arrays, with batch-norm statistics as if it had been trained."""
    rng = np.random.default_rng(seed)

    def conv(size, cin, cout, gain=1.0):
        w = rng.standard_normal((size, size, cin, cout)) * (2.0 / (size * size * cin)) ** 0.5
        return {"w": w.astype(np.float32), "scale": (gain * rng.uniform(0.9, 1.1, cout)).astype(np.float32),
                "shift": rng.normal(0, 0.1, cout).astype(np.float32), "mean": rng.normal(0, 0.1, cout).astype(np.float32),
                "var": rng.uniform(0.8, 1.2, cout).astype(np.float32)}

    blocks, cin = [], 64
    for channels, _ in STAGES:
        for _ in range(2):
            block = {"a": conv(3, cin, channels), "b": conv(3, channels, channels, gain=0.4)}
            if cin != channels:
                block["shortcut"] = conv(1, cin, channels)
            blocks.append(block)
            cin = channels
    head = (rng.standard_normal((512, classes)) * 512**-0.5).astype(np.float32)
    return {"stem": conv(7, 3, 64), "blocks": blocks, "head": head, "head_bias": np.zeros(classes, np.float32)}


def conv_norm(x, p, stride=1):
    y = lax.conv_general_dilated(x, p["w"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return (y - p["mean"]) * lax.rsqrt(p["var"] + 1e-5) * p["scale"] + p["shift"]


def resnet(params, images):
    """Logits [batch, classes] of images [batch, height, width, 3]."""
    x = jax.nn.relu(conv_norm(images, params["stem"], 2))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    blocks = iter(params["blocks"])
    for _, first in STAGES:
        for stride in (first, 1):
            p = next(blocks)
            shortcut = conv_norm(x, p["shortcut"], stride) if "shortcut" in p else x
            y = jax.nn.relu(conv_norm(x, p["a"], stride))
            x = jax.nn.relu(conv_norm(y, p["b"]) + shortcut)
    return x.mean((1, 2)) @ params["head"] + params["head_bias"]
