"""Neural networks: flax linen and nnx, equinox, haiku, keras, jraph, e3nn-jax, orbax, chex, neural PDE solvers."""
from protocol import workload
from workloads.optimisers import flat, regression


def images(count=16, size=16, seed=0):
    import numpy as np
    rng = np.random.default_rng(seed)
    return rng.random((count, size, size, 3), dtype=np.float32), rng.integers(0, 10, count).astype(np.int32)


def tokens(batch=4, length=32, words=64, seed=0):
    import numpy as np
    return np.random.default_rng(seed).integers(0, words, (batch, length)).astype(np.int32)


@workload(library="flax linen", rtol=2e-3, why="10 steps of Adam on a CNN with batch statistics and dropout, float32")
def linen_cnn():
    import jax
    import jax.numpy as jnp
    import optax
    from flax import linen as nn
    from flax.training import train_state
    x, y = images()

    class State(train_state.TrainState):
        statistics: dict

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            for width in (8, 16):
                x = nn.Conv(width, (3, 3), use_bias=False)(x)  # the gradient of a bias here is all rounding, of which Adam makes steps of full length
                x = nn.BatchNorm(use_running_average=not train)(x)
                x = nn.max_pool(nn.gelu(x), (2, 2), (2, 2))
            x = nn.Dropout(0.3, deterministic=not train)(x.reshape(x.shape[0], -1))
            return nn.Dense(10)(x)

    net = Net()

    @jax.jit
    def update(state, key):
        def loss(p):
            logits, new = net.apply({"params": p, "batch_stats": state.statistics}, x, train=True, rngs={"dropout": key}, mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), new["batch_stats"]
        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=gradients).replace(statistics=statistics), value

    evaluate = jax.jit(lambda s: net.apply({"params": s.params, "batch_stats": s.statistics}, x, train=False))

    def step():
        variables = net.init(jax.random.key(0), x, train=False)
        state = State.create(apply_fn=net.apply, params=variables["params"], tx=optax.adam(1e-3), statistics=variables["batch_stats"])
        losses = []
        for i in range(10):
            state, value = update(state, jax.random.key(i))
            losses.append(value)
        return {"losses": jnp.stack(losses), "logits": evaluate(state), **flat(state.statistics, "s")}

    return step


@workload(library="flax linen", rtol=2e-4, why="a recurrent net and its gradient over 40 steps, float32")
def linen_recurrent():
    import jax
    import jax.numpy as jnp
    from flax import linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, lengths):
            x = nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(16)), nn.RNN(nn.GRUCell(16)))(x, seq_lengths=lengths)
            return nn.Dense(3)(nn.LayerNorm()(x))

    net = Net()
    x, lengths = jax.random.normal(jax.random.key(1), (5, 40, 6)), jnp.array([40, 12, 33, 7, 25])
    run = jax.jit(jax.value_and_grad(lambda p: jnp.sum(net.apply(p, x, lengths) ** 2)))

    def step():
        value, gradients = run(net.init(jax.random.key(0), x, lengths))
        return {"value": value, **flat(gradients)}

    return step


@workload(library="flax linen", rtol=1e-3, why="forward and gradient of four scanned, rematerialised layers, float32")
def linen_transformer_scan_remat():
    import jax
    import jax.numpy as jnp
    import optax
    from flax import linen as nn
    data = tokens()

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, mask):
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x), mask=mask)
            return x + nn.Dense(32)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x)))), None

    class Net(nn.Module):
        @nn.compact
        def __call__(self, t):
            x = nn.Embed(64, 32)(t) + self.param("position", nn.initializers.normal(0.02), (32, 32))
            blocks = nn.scan(nn.remat(Block), variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=nn.broadcast, length=4)
            x, _ = blocks()(x, nn.make_causal_mask(t))
            return nn.Dense(64)(nn.RMSNorm()(x))

    net = Net()

    @jax.jit
    def run(p):
        def loss(p):
            return optax.softmax_cross_entropy_with_integer_labels(net.apply(p, data)[:, :-1], data[:, 1:]).mean()
        return jax.value_and_grad(loss)(p)

    def step():
        value, gradients = run(net.init(jax.random.key(0), data))
        return {"value": value, **flat(gradients)}

    return step


def gpt(nnx, decode=False):
    import jax.numpy as jnp

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.norm1, self.norm2 = nnx.LayerNorm(48, rngs=rngs), nnx.LayerNorm(48, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(num_heads=4, in_features=48, decode=decode, rngs=rngs)
            self.up, self.down = nnx.Linear(48, 96, rngs=rngs), nnx.Linear(96, 48, rngs=rngs)
            self.dropout = nnx.Dropout(0.1, rngs=rngs)

        def __call__(self, x, mask=None):
            x = x + self.attention(self.norm1(x), mask=mask)
            return x + self.dropout(self.down(nnx.gelu(self.up(self.norm2(x)))))

    class Gpt(nnx.Module):
        def __init__(self, rngs):
            self.embed, self.position = nnx.Embed(64, 48, rngs=rngs), nnx.Embed(64, 48, rngs=rngs)
            self.blocks = nnx.List([Block(rngs) for _ in range(2)])
            self.head = nnx.Linear(48, 64, rngs=rngs)

        def __call__(self, t, places, mask=None):
            x = self.embed(t) + self.position(places)
            for block in self.blocks:
                x = block(x, mask)
            return self.head(x)

    return Gpt(nnx.Rngs(0)), jnp


@workload(library="flax nnx", rtol=2e-3, why="8 steps of AdamW on a small GPT with dropout, float32")
def nnx_gpt_training():
    import optax
    from flax import nnx
    data = tokens(4, 32)

    @nnx.jit
    def update(model, optimiser):
        def loss(model):
            t = data[:, :-1]
            logits = model(t, nnx_arange(t), nnx.make_causal_mask(t))
            return optax.softmax_cross_entropy_with_integer_labels(logits, data[:, 1:]).mean()
        value, gradients = nnx.value_and_grad(loss)(model)
        optimiser.update(model, gradients)
        return value

    def nnx_arange(t):
        import jax.numpy as jnp
        return jnp.arange(t.shape[1])[None, :]

    def step():
        model, jnp = gpt(nnx)
        optimiser = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
        return {"losses": jnp.stack([update(model, optimiser) for _ in range(8)])}

    return step


@workload(library="flax nnx", rtol=1e-4, why="greedy decoding with a cache; tokens are exact, the last logits float32")
def nnx_gpt_decode_with_cache():
    from flax import nnx

    @nnx.jit
    def next_token(model, t, place):
        logits = model(t, place)
        return logits.argmax(-1).astype("int32"), logits

    def step():
        model, jnp = gpt(nnx, decode=True)
        model.eval()
        for block in model.blocks:
            block.attention.init_cache((2, 24, 48))
        t, out = jnp.array([[3], [11]], jnp.int32), []
        for i in range(20):
            t, logits = next_token(model, t, jnp.full((2, 1), i))
            out.append(t[:, 0])
        return {"tokens": jnp.stack(out), "logits": logits}

    return step


@workload(library="equinox", rtol=1e-3, why="30 filtered training steps of a GRU classifier by Adam, float32")
def equinox_gru_training():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax

    class Classifier(eqx.Module):
        cell: eqx.nn.GRUCell
        head: eqx.nn.Linear
        hidden: int = eqx.field(static=True)

        def __init__(self, key):
            a, b = jax.random.split(key)
            self.hidden = 12
            self.cell, self.head = eqx.nn.GRUCell(2, self.hidden, key=a), eqx.nn.Linear(self.hidden, 1, key=b)

        def __call__(self, xs):
            final, _ = jax.lax.scan(lambda h, x: (self.cell(x, h), None), jnp.zeros(self.hidden), xs)
            return jax.nn.sigmoid(self.head(final))

    t = jnp.linspace(0, 6, 16)
    sign = jnp.where(jnp.arange(24) % 2 == 0, 1.0, -1.0)
    x = jnp.stack([jnp.stack([jnp.sin(t * (1 + i / 50)), s * jnp.cos(t * (1 + i / 50))], -1) for i, s in enumerate(sign)])
    y = (sign > 0).astype(jnp.float32)
    optimiser = optax.adam(1e-2)

    @eqx.filter_jit(donate="all-except-first")
    def update(data, model, state):
        def loss(m):
            p = jax.vmap(m)(data[0])[:, 0]
            return -jnp.mean(data[1] * jnp.log(p) + (1 - data[1]) * jnp.log(1 - p))
        value, gradients = eqx.filter_value_and_grad(loss)(model)
        updates, state = optimiser.update(gradients, state)
        return eqx.apply_updates(model, updates), state, value

    def step():
        model = Classifier(jax.random.key(0))
        state = optimiser.init(eqx.filter(model, eqx.is_array))
        losses = []
        for _ in range(30):
            model, state, value = update((x, y), model, state)
            losses.append(value)
        return {"losses": jnp.stack(losses), "p": jax.vmap(model)(x)}

    return step


@workload(library="equinox", rtol=1e-4, why="one forward and one gradient, float32; runtime errors are raised on both")
def equinox_state_errors_loops():
    import equinox as eqx
    import equinox.internal as eqxi
    import jax
    import jax.numpy as jnp
    model, state = eqx.nn.make_with_state(lambda key: eqx.nn.Sequential([
        eqx.nn.Conv2d(3, 4, 3, key=key), eqx.nn.BatchNorm(4, axis_name="batch", mode="ema"), eqx.nn.Lambda(jax.nn.relu),
        eqx.nn.SpectralNorm(eqx.nn.Conv2d(4, 2, 3, key=key), "weight", key=key), eqx.nn.AdaptiveAvgPool2d(2)]))(jax.random.key(0))
    x = jnp.asarray(images(6)[0]).transpose(0, 3, 1, 2)
    run = eqx.filter_jit(lambda m, s, x: jax.vmap(m, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, s))

    @eqx.filter_jit
    def checked(x):
        return eqx.error_if(x, jnp.any(x < 0), "negative")

    @eqx.filter_jit
    @jax.grad
    def loop(x):
        final = eqxi.while_loop(lambda c: c[0] < 12, lambda c: (c[0] + 1, jnp.sin(c[1]) + x), (0, x), max_steps=16, kind="checkpointed", checkpoints=3)
        return final[1]

    def step():
        out, new = run(model, state, x)
        try:
            jax.block_until_ready(checked(jnp.array([1.0, -1.0])))
            raised = False
        except Exception as e:
            raised = "negative" in str(e)
        return {"out": out, "raised": raised, "gradient": loop(0.4), "passed": checked(jnp.ones(2)), **flat(new, "s")}

    return step


@workload(library="haiku", rtol=2e-3, atol=1e-5, why="two training steps of a ResNet-18 with batch statistics, float32")
def haiku_resnet18():
    import haiku as hk
    import jax
    import jax.numpy as jnp
    import optax
    x, y = images(8, 32)
    net = hk.transform_with_state(lambda x, train: hk.nets.ResNet18(10)(x, train))
    optimiser = optax.sgd(1e-3, momentum=0.9)

    @jax.jit
    def update(parameters, state, moments):
        def loss(p):
            logits, new = net.apply(p, state, None, x, True)
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), new
        (value, state_), gradients = jax.value_and_grad(loss, has_aux=True)(parameters)
        updates, moments = optimiser.update(gradients, moments)
        return optax.apply_updates(parameters, updates), state_, moments, value

    def step():
        parameters, state = jax.jit(net.init, static_argnums=2)(jax.random.PRNGKey(0), x, True)
        moments, losses = optimiser.init(parameters), []
        for _ in range(2):
            parameters, state, moments, value = update(parameters, state, moments)
            losses.append(value)
        return {"losses": jnp.stack(losses), "logits": net.apply(parameters, state, None, x, False)[0]}

    return step


@workload(library="haiku", rtol=1e-4, why="an LSTM unrolled dynamically with its gradient, float32")
def haiku_lstm():
    import haiku as hk
    import jax
    import jax.numpy as jnp

    def forward(x):
        core = hk.DeepRNN([hk.LSTM(16), jax.nn.relu, hk.GRU(8)])
        out, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
        return hk.BatchApply(hk.Linear(2))(out)

    net = hk.without_apply_rng(hk.transform(forward))
    x = jax.random.normal(jax.random.PRNGKey(1), (30, 4, 5))
    run = jax.jit(jax.value_and_grad(lambda p: jnp.mean(net.apply(p, x) ** 2)))

    def step():
        value, gradients = run(net.init(jax.random.PRNGKey(0), x))
        return {"value": value, **flat(gradients)}

    return step


@workload(library="keras", rtol=5e-3, why="one epoch of a CNN by Adam, float32", environment={"KERAS_BACKEND": "jax"})
def keras_cnn():
    import keras
    import numpy as np
    x, y = images(64, 12)

    def step():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Input((12, 12, 3)), keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.BatchNormalization(),
                                  keras.layers.MaxPooling2D(), keras.layers.SeparableConv2D(8, 3, padding="same"), keras.layers.GlobalAveragePooling2D(),
                                  keras.layers.Dropout(0.2), keras.layers.Dense(10, activation="softmax")])
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
        return {"losses": np.array(history.history["loss"], np.float32), "prediction": model.predict(x[:8], verbose=0)}

    return step


@workload(library="keras", rtol=5e-3, why="two epochs of recurrent and attention layers, float32", environment={"KERAS_BACKEND": "jax"})
def keras_sequence():
    import keras
    import numpy as np
    data = tokens(32, 20, 50)

    def step():
        keras.utils.set_random_seed(0)
        inputs = keras.Input((20,), dtype="int32")
        x = keras.layers.Embedding(50, 16)(inputs)
        x = keras.layers.Bidirectional(keras.layers.LSTM(8, return_sequences=True))(x)
        x = x + keras.layers.MultiHeadAttention(2, 8)(x, x)
        x = keras.layers.GRU(8)(keras.layers.LayerNormalization()(x))
        model = keras.Model(inputs, keras.layers.Dense(1)(x))
        model.compile(keras.optimizers.AdamW(1e-2, clipnorm=1.0), "mse")
        history = model.fit(data, data.mean(1, dtype=np.float32) / 50, batch_size=8, epochs=2, verbose=0, shuffle=False)
        return {"losses": np.array(history.history["loss"], np.float32)}

    return step


@workload(library="jraph", rtol=1e-4, why="two message-passing layers with segment sums and their gradient, float32")
def jraph_graph_network():
    import jax
    import jax.numpy as jnp
    import jraph
    import numpy as np
    rng = np.random.default_rng(0)

    def random_graph(nodes, edges):
        return jraph.GraphsTuple(nodes=rng.standard_normal((nodes, 8)).astype(np.float32), edges=rng.standard_normal((edges, 4)).astype(np.float32),
                                 senders=rng.integers(0, nodes, edges), receivers=rng.integers(0, nodes, edges),
                                 globals=np.zeros((1, 2), np.float32), n_node=np.array([nodes]), n_edge=np.array([edges]))

    graph = jax.tree.map(jnp.asarray, jraph.pad_with_graphs(jraph.batch_np([random_graph(10, 30), random_graph(7, 12), random_graph(15, 40)]), 40, 100, 4))
    keys = jax.random.split(jax.random.key(0), 8)
    weights = {"edge": jax.random.normal(keys[0], (4 + 8 + 8 + 2, 4)), "node": jax.random.normal(keys[1], (8 + 4 + 4 + 2, 8)),
               "global": jax.random.normal(keys[2], (8 + 4 + 2, 2)), "gat": jax.random.normal(keys[3], (8, 8))}

    def loss(w):
        net = jraph.GraphNetwork(update_edge_fn=lambda e, s, r, g: jnp.tanh(jnp.concatenate([e, s, r, g], -1) @ w["edge"]),
                                 update_node_fn=lambda n, s, r, g: jnp.tanh(jnp.concatenate([n, s, r, g], -1) @ w["node"]),
                                 update_global_fn=lambda n, e, g: jnp.tanh(jnp.concatenate([n, e, g], -1) @ w["global"]))
        gat = jraph.GAT(attention_query_fn=lambda n: n @ w["gat"], attention_logit_fn=lambda s, r, e: jnp.sum(s * r, -1, keepdims=True) / 8,
                        node_update_fn=jax.nn.leaky_relu)
        g = gat(net(graph))
        mask = jraph.get_node_padding_mask(graph)
        return jnp.sum((g.nodes * mask[:, None]) ** 2), g

    run = jax.jit(jax.value_and_grad(loss, has_aux=True))

    def step():
        (value, g), gradients = run(weights)
        return {"value": value, "globals": g.globals, "softmax": jraph.segment_softmax(jnp.arange(12.0), jnp.arange(12) % 5, 5), **flat(gradients)}

    return step


@workload(library="e3nn-jax", rtol=1e-4, why="spherical harmonics and tensor products in float32")
def e3nn_equivariant():
    import e3nn_jax as e3nn
    import jax
    import jax.numpy as jnp
    positions = jax.random.normal(jax.random.key(0), (20, 3))
    features = e3nn.normal("8x0e + 4x1o + 2x2e", jax.random.key(1), (20,))

    @jax.jit
    def run(positions, features):
        harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", positions, normalize=True)
        product = e3nn.tensor_product(features, harmonics, filter_ir_out=["0e", "1o", "2e"])
        gated = e3nn.norm_activation(e3nn.tensor_square(features).filter(["0e"]), [jax.nn.silu])
        return product.array, gated.array, e3nn.bessel(jnp.linalg.norm(positions, axis=-1), 8, 2.0)

    def energy(p):
        return jnp.sum(run(p, features)[0] ** 2)

    force = jax.jit(jax.grad(energy))

    def step():
        product, gated, radial = run(positions, features)
        rotation = e3nn.angles_to_matrix(0.3, 0.7, -0.2)
        return {"product": product, "gated": gated, "radial": radial, "force": force(positions), "wigner": e3nn.Irreps("1o + 2e").D_from_matrix(rotation)}

    return step


@workload(library="orbax-checkpoint", rtol=0.0, atol=0.0, why="what is restored is what was saved, bit for bit")
def orbax_save_restore():
    import os

    import jax
    import jax.numpy as jnp
    import orbax.checkpoint as ocp
    counter = iter(range(1000))

    def step():
        tree = {"w": jnp.arange(12.0).reshape(3, 4) / 8, "half": jnp.arange(6, dtype=jnp.bfloat16), "count": jnp.int32(7),
                "nested": [jnp.ones((2, 2), jnp.int8), {"z": jnp.array([1 + 2j, 3 - 1j], jnp.complex64)}]}
        path = os.path.abspath(f"checkpoint{next(counter)}")
        with ocp.StandardCheckpointer() as saver:
            saver.save(path, tree)
            saver.wait_until_finished()
            back = saver.restore(path, jax.tree.map(lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=v.sharding), tree))
        return {k: v.astype(jnp.float32) if v.dtype == jnp.bfloat16 else v for k, v in flat(jax.tree.map(lambda v: v + v, back)).items()}

    return step


@workload(library="chex", rtol=1e-6, why="checks and elementwise work in float32")
def chex_checks():
    import chex
    import jax
    import jax.numpy as jnp

    @chex.dataclass
    class State:
        x: chex.Array
        n: chex.Array

    @chex.chexify
    @jax.jit
    def checked(x):
        chex.assert_tree_all_finite(x)
        return jnp.sqrt(x)

    @jax.jit
    @chex.assert_max_traces(n=2)
    def advance(s):
        return s.replace(x=s.x * 1.1, n=s.n + 1)

    def step():
        good = checked(jnp.arange(4.0))
        checked.wait_checks()
        try:
            checked(jnp.array([1.0, jnp.inf]))
            checked.wait_checks()
            raised = False
        except Exception:
            raised = True
        s = State(x=jnp.arange(3.0), n=jnp.int32(0))
        for _ in range(5):
            s = advance(s)
        chex.assert_trees_all_close(s.x, s.x)
        return {"good": good, "raised": raised, "x": s.x, "n": s.n}

    return step
