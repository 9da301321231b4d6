"""Models with named axes, quantized products, augmented images: penzai, qwix, augmax."""
from protocol import workload


@workload(library="penzai", rtol=1e-4, why="a forward pass and its gradient, float32")
def penzai_transformer():
    import jax
    import jax.numpy as jnp
    from penzai import pz
    from penzai.models.transformer.variants import llamalike_common as common
    config = common.LlamalikeTransformerConfig(num_kv_heads=2, query_head_multiplier=2, embedding_dim=16, projection_dim=8, mlp_hidden_dim=32, num_decoder_blocks=2, vocab_size=40,
                                               mlp_variant="swiglu", tie_embedder_and_logits=False)
    model = common.build_llamalike_transformer(config, init_base_rng=jax.random.key(0))
    _, values = pz.unbind_params(model, freeze=True)
    bare, _ = pz.unbind_params(model, freeze=True)

    def loss(values, tokens):
        bound = pz.bind_variables(bare, values)
        logits = bound(pz.nx.wrap(tokens, "seq"), token_positions=pz.nx.arange("seq", tokens.shape[0])).unwrap("seq", "vocabulary")
        return jnp.mean(jax.nn.logsumexp(logits[:-1], -1) - jnp.take_along_axis(logits[:-1], tokens[1:, None], 1)[:, 0])

    both = jax.jit(jax.value_and_grad(loss))

    def step():
        value, g = both(values, jax.random.randint(jax.random.key(1), (12,), 0, 40))
        return {"loss": value} | {f"gradient {i}": x for i, x in enumerate(jax.tree.leaves(g))}

    return step


@workload(library="qwix", rtol=1e-4, why="products of fp8 with float32 scales; the largest integer of a channel would be a tie of rounding")
def qwix_quantized():
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import qwix

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(8)(nn.relu(nn.Dense(32)(x)))

    def step():
        x = jax.random.normal(jax.random.key(1), (6, 16))
        results = {}
        for weights, activations in (("float8_e4m3fn", "float8_e4m3fn"),):
            model = qwix.quantize_model(Model(), qwix.QtProvider([qwix.QtRule(weight_qtype=weights, act_qtype=activations)]))
            params = model.init(jax.random.key(0), x)
            value, g = jax.jit(jax.value_and_grad(lambda p: jnp.mean(model.apply(p, x) ** 2)))(params)
            results |= {f"{weights} value": value, f"{weights} out": model.apply(params, x)} | {f"{weights} gradient {i}": leaf for i, leaf in enumerate(jax.tree.leaves(g))}
        return results

    return step


@workload(library="augmax", rtol=1e-4, why="interpolation at random places and filters, float32")
def augmax_images():
    import augmax
    import jax
    import jax.numpy as jnp
    chain = augmax.Chain(augmax.RandomCrop(20, 20), augmax.HorizontalFlip(), augmax.Rotate(), augmax.GaussianBlur(), augmax.ColorJitter(), augmax.Rotate90())
    apply = jax.jit(jax.vmap(chain))
    return lambda: {"images": apply(jax.random.split(jax.random.PRNGKey(7), 4), jax.random.uniform(jax.random.key(0), (4, 28, 28, 3)))}
