"""The models of samples/jax in small: a transformer that trains and generates, and a ResNet."""
import functools
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from . import case, close, rand

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "samples" / "jax"))
import models  # noqa: E402

VOCABULARY, CONTEXT, WIDTH, HEADS = 29, 24, 32, 4


def tokens(batch, length, seed=11):
    return np.random.default_rng(seed).integers(0, VOCABULARY, (batch, length)).astype(np.int32)


@functools.lru_cache
def parameters(layers):
    return jax.jit(lambda: models.gpt_init(5, VOCABULARY, CONTEXT, WIDTH, layers))()


@case(peer=True, rtol=1e-4, atol=1e-4)
def transformer_block():
    """One block with its gradients: projections, attention under a mask, normalization, gelu."""
    params = parameters(1)
    loss = jax.jit(jax.value_and_grad(functools.partial(models.gpt_loss, heads=HEADS)))
    value, gradients = loss(params, tokens(2, CONTEXT + 1))
    hidden, _ = jax.jit(lambda p, t: models.gpt_blocks(p, t, HEADS))(params, tokens(2, CONTEXT))
    leaves = jax.tree.leaves(gradients)
    return {"loss": value, "hidden": hidden, **{f"gradient{i}": g for i, g in enumerate(leaves)}}


def resnet_block_loss(params, x):
    y = jax.nn.relu(models.conv_norm(x, params["a"], 2))
    y = jax.nn.relu(models.conv_norm(y, params["b"]) + models.conv_norm(x, params["shortcut"], 2))
    return jnp.mean(jnp.square(y)), y


@case(peer=True, rtol=1e-4, atol=1e-4)
def resnet_block():
    """A block that halves the image, with the gradients by weights and image."""
    def convolution(size, inputs, outputs, seed):
        return {"w": rand(size, size, inputs, outputs, seed=seed), "scale": 1 + rand(outputs, seed=seed + 1) / 4,
                "shift": rand(outputs, seed=seed + 2), "mean": rand(outputs, seed=seed + 3), "var": 1 + rand(outputs, seed=seed + 4) / 2}

    params = {"a": convolution(3, 8, 16, 1), "b": convolution(3, 16, 16, 2), "shortcut": convolution(1, 8, 16, 3)}
    (value, y), (by_params, by_x) = jax.jit(jax.value_and_grad(resnet_block_loss, argnums=(0, 1), has_aux=True))(params, rand(2, 9, 10, 8, seed=4))
    return {"loss": value, "y": y, "by_x": by_x, **{f"gradient{i}": g for i, g in enumerate(jax.tree.leaves(by_params))}}


def losses_of_training(batch_sharding, state_sharding, steps=4):
    state = jax.device_put(jax.jit(models.adam_init)(parameters(2)), state_sharding)
    step = jax.jit(functools.partial(models.adam_step, heads=HEADS), donate_argnums=0)
    losses = []
    for i in range(steps):
        state, loss = step(state, jax.device_put(tokens(4, CONTEXT + 1, seed=i), batch_sharding))
        losses.append(float(loss))
    return np.array(losses, np.float32)


@case(road="env4", peer=True, rtol=1e-4, atol=1e-4)
def transformer_trains_on_two_devices():
    """Adam steps with the batch on two devices have the losses of one device."""
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    together = losses_of_training(NamedSharding(mesh, P("data")), NamedSharding(mesh, P()))
    alone = losses_of_training(jax.devices()[0], jax.devices()[0])
    close(together, alone, rtol=1e-4)
    return {"losses": alone}


@case(peer=True, rtol=1e-4, atol=1e-4)
def transformer_generates():
    """A prompt, then token by token with a cache that is updated in place."""
    params, prompt = parameters(2), tokens(1, 5)
    token, logits, cache = jax.jit(lambda p, t: models.gpt_prefill(p, t, HEADS, CONTEXT))(params, prompt)
    decode = jax.jit(lambda p, c, t, i: models.gpt_decode(p, c, t, i, HEADS), donate_argnums=1)
    all_tokens, all_logits = [int(token)], [logits]
    for position in range(5, 11):
        token, logits, cache = decode(params, cache, token, position)
        all_tokens.append(int(token))
        all_logits.append(logits)
    return {"tokens": np.array(all_tokens), "logits": np.stack(all_logits)}


@case(peer=True, rtol=1e-4, atol=1e-3)
def resnet18_infers():
    return {"logits": jax.jit(models.resnet)(models.resnet_init(5), rand(1, 32, 32, 3, seed=6))}
