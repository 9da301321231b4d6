"""Parameters and results of sizes that their devices do not divide, by a host that is not JAX, through the C ABI.

  uneven.py PLUGIN.so OPTION=VALUE...     runs each program below on four devices; a line each, then 'all right'

Shards are of equal size, rounded up; what fills up the last ones is noise here, and must reach no result.
"""
import sys

import numpy as np
import pypjrt

F32 = 11
N = 4
NOISE = np.float32(1e30)

HEAD = "module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {\n  func.func public @main("
# A name; arguments and results as (dims, sharding, tiles along each dimension); the body; what it means.
PROGRAMS = [
    ("rows of 10 by 4", [((10, 3), "{devices=[4,1]<=[4]}", (4, 1))], [((10, 3), "{devices=[4,1]<=[4]}", (4, 1))],
     "%r0 = stablehlo.tanh %a0 : tensor<10x3xf32>", lambda a: (np.tanh(a),)),
    ("their sum", [((10, 3), "{devices=[4,1]<=[4]}", (4, 1))], [((3,), "{replicated}", (1,))],
     "%z = stablehlo.constant dense<0.0> : tensor<f32>\n%r0 = stablehlo.reduce(%a0 init: %z) applies stablehlo.add across "
     "dimensions = [0] : (tensor<10x3xf32>, tensor<f32>) -> tensor<3xf32>", lambda a: (a.sum(0),)),
    ("a product over 7", [((6, 7), "{devices=[1,4]<=[4]}", (1, 4)), ((7, 5), "{devices=[4,1]<=[4]}", (4, 1))],
     [((6, 5), "{devices=[2,2]<=[4]}", (2, 2))],
     "%r0 = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] : (tensor<6x7xf32>, tensor<7x5xf32>) -> tensor<6x5xf32>",
     lambda a, b: (a @ b,)),
    ("one row by 4, and 5 by 4 twice", [((1, 8), "{devices=[4,1]<=[4]}", (4, 1)), ((5,), "{devices=[4]<=[4]}", (4,))],
     [((1, 8), "{devices=[1,4]<=[4]}", (1, 4)), ((5,), "{devices=[4]<=[4]}", (4,))],
     "%r0 = stablehlo.negate %a0 : tensor<1x8xf32>\n%r1 = stablehlo.reverse %a1, dims = [0] : tensor<5xf32>",
     lambda a, b: (-a, b[::-1])),
    ("one way in, another way out", [((9, 10), "{devices=[4,1]<=[4]}", (4, 1))], [((9, 10), "{devices=[1,4]<=[4]}", (1, 4))],
     "%r0 = stablehlo.exponential %a0 : tensor<9x10xf32>", lambda a: (np.exp(a),)),
    ("even along one dimension only", [((8, 7), "{devices=[2,2]<=[4]}", (2, 2))], [((8, 7), "{devices=[2,2]<=[4]}", (2, 2))],
     "%r0 = stablehlo.add %a0, %a0 : tensor<8x7xf32>", lambda a: (a + a,)),
]


def text(arguments, results, body):
    kind = lambda dims: "tensor<" + "".join(f"{d}x" for d in dims) + "f32>"
    ins = ", ".join(f'%a{i}: {kind(d)} {{mhlo.sharding = "{s}"}}' for i, (d, s, _) in enumerate(arguments))
    outs = ", ".join(f'{kind(d)} {{mhlo.sharding = "{s}"}}' for d, s, _ in results)
    back = ", ".join(f"%r{i}" for i in range(len(results))) + " : " + ", ".join(kind(d) for d, _, _ in results)
    return f"{HEAD}{ins}) -> ({outs}) {{\n{body}\nreturn {back}\n  }}\n}}\n"


def place(dims, tiles, device):
    """The shape of a shard, and where its elements are in the whole array."""
    shape = tuple(-(-d // t) for d, t in zip(dims, tiles))
    at = np.unravel_index(device, tiles) if np.prod(tiles) == N else (0,) * len(tiles)
    return shape, tuple(slice(a * s, max(min(d, (a + 1) * s), a * s)) for a, s, d in zip(at, shape, dims))


def shard(x, tiles, device):
    shape, at = place(x.shape, tiles, device)
    out = np.full(shape, NOISE, np.float32)
    part = x[at]
    out[tuple(slice(0, n) for n in part.shape)] = part
    return out


def main():
    options = dict(o.split("=") for o in sys.argv[2:])
    client = pypjrt.Client.create(sys.argv[1], options={k: int(v) for k, v in options.items()})
    rng = np.random.default_rng(1)
    for name, arguments, results, body, means in PROGRAMS:
        xs = [rng.uniform(-1, 1, d).astype(np.float32) for d, _, _ in arguments]
        how = pypjrt.CompileOptions(num_partitions=N, use_spmd_partitioning=True)
        program = client.compile(text(arguments, results, body), options=how)
        rows = []
        for k in range(N):
            parts = [shard(x, tiles, k) for x, (_, _, tiles) in zip(xs, arguments)]
            with client.device(k) as device:
                rows.append([client.buffer_from_host(p, F32, p.shape, device=device) for p in parts])
        outs = program.execute_sharded(rows)
        for r, want in enumerate(means(*xs)):
            dims, _, tiles = results[r]
            for k in range(N):
                shape, at = place(dims, tiles, k)
                got = outs[k][r]
                assert tuple(got.dimensions) == shape, f"{name}: a shard of {tuple(got.dimensions)}, expected {shape}"
                data = np.frombuffer(bytes(got.to_host()), np.float32).reshape(shape)
                part = want[at]
                np.testing.assert_allclose(data[tuple(slice(0, n) for n in part.shape)], part, rtol=1e-5, atol=1e-5, err_msg=name)
        print(f"{name}: right", flush=True)
    print("all right", flush=True)


if __name__ == "__main__":
    main()
