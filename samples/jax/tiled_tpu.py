"""tiled_tpu.py [--plugin EMULATOR.so] [--chip v5e] [--topology 2x2] [--steps 5]: a training step on the emulated TPUs.

A small network, its batch split over the torus' first axis and its hidden features over the second. Prints where the
devices are, how each parameter lies in memory and what its padding costs, what a step needs, and whether it learns.
Without --plugin JAX finds the emulator by itself, from the installed package or PJRT_NAMES_AND_LIBRARY_PATHS.
"""
import argparse
import os
import pathlib
import sys
import time


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plugin", type=pathlib.Path)
    p.add_argument("--chip", default="v5e")
    p.add_argument("--topology", default="2x2")
    p.add_argument("--steps", type=int, default=5)
    return p.parse_args()


def main():
    opt = parse()
    os.environ.update(JAX_PLATFORMS="tiledtpu", TILEDTPU_CHIP=opt.chip, TILEDTPU_TOPOLOGY=opt.topology)
    if opt.plugin:
        os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"tiledtpu:{opt.plugin.resolve()}"
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk/python"))
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P

    devices = jax.devices()
    print(f"{len(devices)} x {devices[0].device_kind}: " + " ".join(str(tuple(d.coords)) for d in devices))
    columns = 2 if len(devices) % 2 == 0 else 1
    mesh = jax.make_mesh((len(devices) // columns, columns), ("batch", "features"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def put(x, *spec):
        return jax.device_put(x, NamedSharding(mesh, P(*spec)))

    rng = np.random.default_rng(0)
    sizes = {"embed": (784, 500, None, "features"), "hidden": (500, 300, "features", None), "head": (300, 10, None, None)}
    params = {name: put(jnp.asarray(rng.normal(size=(a, b)) / np.sqrt(a), jnp.bfloat16), *spec) for name, (a, b, *spec) in sizes.items()}
    params["scale"] = put(np.ones(500, np.float32), "features")
    x = put(jnp.asarray(rng.normal(size=(64, 784)), jnp.bfloat16), "batch", None)
    y = put(rng.integers(0, 10, 64).astype(np.int32), "batch")

    print("\nparameter     shard                 layout                         dense      padded")
    for name, value in params.items():
        shard = value.addressable_shards[0].data
        tiles = "".join(f"({','.join(map(str, t))})" for t in shard.format.layout.tiling)
        order = ",".join(map(str, shard.format.layout.major_to_minor[::-1]))
        shape = f"{shard.dtype.name}[{','.join(map(str, shard.shape))}]"
        size = shard.on_device_size_in_bytes()
        print(f"{name:12}  {shape:20}  {{{order}:T{tiles}}}".ljust(64), f"{shard.nbytes:9,} {size:9,}  {size / shard.nbytes:.2f}x")

    def loss(p, x, y):
        h = jax.nn.relu(x @ p["embed"]) * p["scale"].astype(jnp.bfloat16)
        logits = (jax.nn.relu(h @ p["hidden"]) @ p["head"]).astype(jnp.float32)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))

    def step(p, x, y):
        value, grads = jax.value_and_grad(loss)(p, x, y)
        return jax.tree.map(lambda a, g: (a - 0.1 * g).astype(a.dtype), p, grads), value

    # With the layouts of the results given, the new parameters reuse the memory of the old ones.
    shardings = jax.tree.map(lambda v: v.sharding, params)
    compiled = jax.jit(step, donate_argnums=0, out_shardings=(shardings, None)).lower(params, x, y).compile()
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    print(f"\na step on each device: {memory.argument_size_in_bytes:,} bytes of arguments, {memory.alias_size_in_bytes:,} of them given back, "
          f"{memory.temp_size_in_bytes:,} between")
    print(f"its time on the chip: {cost['optimal_seconds'] * 1e6:.1f} us, {cost['kernels']:.0f} kernels; " +
          ", ".join(f"{unit} {cost[f'{unit} seconds'] * 1e6:.2f} us" for unit in ("mxu", "vpu", "hbm", "ici") if f"{unit} seconds" in cost))

    losses, start = [], time.perf_counter()
    for _ in range(opt.steps):
        before = params
        params, value = compiled(params, x, y)
        losses.append(float(value))
    assert all(v.is_deleted() for v in before.values()), "the old parameters are still there: donation did not take place"
    print(f"\n{opt.steps} steps in {time.perf_counter() - start:.2f} s of the host's time; loss " + " ".join(f"{v:.3f}" for v in losses))
    return 0 if losses[-1] < losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
