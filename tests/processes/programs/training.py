"""Trains a small transformer, data-parallel, tensor-parallel or both, and prints the loss of every step with all its
bits. Arguments: steps, layout (data, tensor, both), checkpoint (a folder: written after every step, and resumed from),
pause (seconds between steps), width (of the layers; with 256 the arrays are large enough for shared memory)."""
import os
import time

import session

a = session.start(__doc__)
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

WIDTH = int(a.arguments.get("width", 32))
HEADS, FEATURES, TOKENS, BATCH, WORDS = 8, 2 * WIDTH, 16, 16, 64
layout, steps = a.arguments.get("layout", "both"), int(a.arguments.get("steps", 10))
n = len(jax.devices())
data = {"data": n, "tensor": 1, "both": n // 2}[layout]
mesh = Mesh(np.array(jax.devices()).reshape(data, n // data), ("data", "tensor"))

SPECS = {"embed": P(), "query": P(None, "tensor"), "key": P(None, "tensor"), "value": P(None, "tensor"),
         "out": P("tensor"), "up": P(None, "tensor"), "down": P("tensor")}
SHAPES = {"embed": (WORDS, WIDTH), "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH), "value": (WIDTH, WIDTH),
          "out": (WIDTH, WIDTH), "up": (WIDTH, FEATURES), "down": (FEATURES, WIDTH)}


def norm(x):
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def forward(p, tokens):
    x = p["embed"][tokens]
    h = norm(x)
    split = lambda w: (h @ w).reshape(*h.shape[:2], -1, WIDTH // HEADS).transpose(0, 2, 1, 3)
    q, k, v = split(p["query"]), split(p["key"]), split(p["value"])
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(WIDTH // HEADS).astype(np.float32)
    scores = jnp.where(np.tril(np.ones((TOKENS, TOKENS), bool)), scores, -1e9)
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(*h.shape[:2], -1)
    x = x + jax.lax.psum(mixed @ p["out"], "tensor")
    x = x + jax.lax.psum(jax.nn.gelu(norm(x) @ p["up"]) @ p["down"], "tensor")
    return norm(x) @ p["embed"].T


def loss_of(p, tokens):
    logits = forward(p, tokens)
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), tokens[:, 1:, None], axis=-1)
    return -jnp.mean(picked)


def step(p, tokens):
    loss, gradients = jax.value_and_grad(lambda p: jax.lax.pmean(loss_of(p, tokens), "data"))(p)
    return jax.tree.map(lambda w, g: w - 0.1 * g, p, gradients), loss


train = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(SPECS, P("data")), out_specs=(SPECS, P())),
                donate_argnums=0)
first = 0
random = np.random.default_rng(0)
host = {k: (random.standard_normal(s) * 0.1).astype(np.float32) for k, s in SHAPES.items()}
folder = a.arguments.get("checkpoint")
if folder:
    done = sorted(int(f[5:-4]) for f in os.listdir(folder) if f.startswith("step.") and f.endswith(".npz"))
    if done:
        first = done[-1] + 1
        host = dict(np.load(f"{folder}/step.{done[-1]}.npz"))
        print(f"RESUMED at step {first}", flush=True)
params = {k: session.sharded(mesh, v, *SPECS[k]) for k, v in host.items()}
gather = jax.jit(lambda p: p, out_shardings=jax.sharding.NamedSharding(mesh, P()))
try:
    for i in range(first, steps):
        tokens = np.random.default_rng(i).integers(0, WORDS, (BATCH, TOKENS)).astype(np.int32)
        params, loss = train(params, session.sharded(mesh, tokens, "data"))
        value = np.asarray(loss.addressable_data(0))
        print(f"STEP {i} loss {float(value):.6f} bits {value.tobytes().hex()}", flush=True)
        if folder:
            whole = {k: np.asarray(v.addressable_data(0)) for k, v in gather(params).items()}
            if a.process == 0:
                with open(f"{folder}/new.{os.getpid()}", "wb") as f:
                    np.savez(f, **whole)
                os.replace(f.name, f"{folder}/step.{i}.npz")
        time.sleep(float(a.arguments.get("pause", 0)))
except Exception as error:
    print(f"ERROR at {time.time():.3f}", " ".join(str(error).split()), flush=True)
    time.sleep(3 if a.process == 0 else 1)  # when process 0 ends, jax.distributed ends the others
    os._exit(3)
print("DONE", flush=True)
