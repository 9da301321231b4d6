"""Writes the programs beside it: portable artifacts of several versions, and the same programs as pretty and generic text.

Needs jax 0.10. Run it in this folder; the files it writes are committed, so that the tests need no Python.
"""

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lib import _jax
from jax._src.lib.mlir import ir
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
jax.config.update("jax_include_full_tracebacks_in_locations", False)

NEWEST = "1.17.0"
# Programs that exist in every version, and the versions at which the layout or an op changed.
EVERYWHERE = ("add", "dot", "gather", "reduce_scatter_sort", "math")
VERSIONS = ("0.9.0", "0.10.0", "0.12.0", "0.14.0", "0.15.0", "0.17.0", "0.19.0", "1.0.0", "1.1.0", "1.4.0", "1.5.0", "1.6.0",
            "1.9.0", "1.10.0", "1.13.0", "1.14.0", "1.16.0")

x = jnp.ones((4, 8), jnp.float32)
y = jnp.ones((8, 3), jnp.float32)
square = jnp.eye(3, dtype=jnp.float32) * 2 + 1
programs = {}


def program(name, fn, *args, **jit):
    programs[name] = (fn, args, jit)


def formats():
    out = []
    for name in ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz",
                 "float8_e5m2fnuz", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn", "int2", "uint2",
                 "int4", "uint4", "int8", "uint8", "int16", "uint16", "uint32", "complex64", "bool"):
        values = np.array([[0, 1, 1], [1, 0, 1]]) if name == "bool" else np.array([[1, 1, 1], [0, 1, 1]])
        if name not in ("bool", "uint2", "int2"):
            values = values * 2
        out.append(jnp.asarray(values).astype(name))
    return out


program("add", lambda a, b: a + b, x, x)
program("dot", lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ()))), x, y)
program("gather", lambda a, i: (a[i], lax.gather(
    a, i[:, None], lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 8), mode="clip")), x, jnp.array([1, 2]))
program("reduce_scatter_sort", lambda a, i: (a.sum(0), jnp.argmax(a, 1), a.at[i].add(1.0), jnp.sort(a, 1)), x, jnp.array([1, 2]))
program("math", lambda a: (jnp.exp(a), jnp.log(a), jnp.tanh(a), lax.rsqrt(a), jnp.sin(a), jnp.cos(a), lax.cbrt(a),
                           lax.logistic(a), jnp.log1p(a), jnp.expm1(a), jnp.sqrt(a), lax.erf(a)), x)
program("control", lambda p, i, a: (
    lax.cond(p, lambda: a + 1, lambda: a * 2), lax.switch(i, [lambda z: z, lambda z: z + 1, lambda z: z * z], a),
    lax.fori_loop(0, 5, lambda k, s: s + a * k, a), lax.scan(lambda c, z: (c + z, c * z), jnp.zeros(8), a)), True, 1, x)
program("convolution", lambda a, k: lax.conv_general_dilated(
    a, k, (2, 1), ((1, 1), (0, 2)), rhs_dilation=(2, 1), dimension_numbers=("NHWC", "HWIO", "NHWC"),
    precision="highest"), jnp.ones((1, 8, 8, 3)), jnp.ones((3, 3, 3, 4)))
program("windows", jax.grad(lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()),
        jnp.ones((1, 4, 4, 2)))
program("shapes", lambda a, i: (
    a.T, a[1:3, ::2], jnp.concatenate([a, a]), jnp.pad(a, ((1, 2), (0, 3))), a[::-1], a.reshape(2, 16),
    lax.dynamic_slice(a, (i, 0), (2, 3)), lax.dynamic_update_slice(a, jnp.zeros((1, 8)), (i, 0))), x, 1)
program("integers", lambda a, b: (a & b, a | b, a ^ b, ~a, a << b, a >> b, lax.clz(a), lax.population_count(a), a // b, a % b),
        jnp.arange(4), jnp.arange(4) + 1)
program("formats", formats)
program("convert", lambda a: tuple(a.astype(v.dtype) for v in formats() if v.dtype != jnp.complex64), x)
program("special_values", lambda: (jnp.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, 3.14159274], jnp.float32),
                                   jnp.array([1 + 2j, np.inf - 0.5j], jnp.complex64), jnp.zeros((0, 3)),
                                   jnp.array([True] * 9 + [False] * 8), jnp.full((17,), True)))
program("large_constant", lambda a: a + jnp.asarray(np.arange(160, dtype=np.float32).reshape(5, 32)), jnp.ones((5, 32)))
program("random", lambda k: (jax.random.normal(k, (5,)), jax.random.permutation(k, 7)), jax.random.PRNGKey(0))
program("rng_bits", lambda k: lax.rng_bit_generator(k, (3, 2)), jnp.ones(4, jnp.uint32))
program("fft", lambda a: (jnp.fft.fft(a), jnp.fft.rfft(a), jnp.fft.irfft(jnp.fft.rfft(a))), jnp.arange(16.0))
program("lapack", lambda a: (jnp.linalg.cholesky(a), jnp.linalg.svd(a), jnp.linalg.eigh(a), jnp.linalg.solve(a, a)), square)
program("triangular", lambda a: lax.linalg.triangular_solve(a, a, left_side=True, lower=True, transpose_a=True), square)
program("top_k", lambda a: lax.top_k(a, 3), x)
program("composites", lambda a: (lax.asin(a), lax.sinh(a), lax.erf(a)), x)
program("donate", lambda a, b: (a + 1, b), x, x, donate_argnums=(0,))
program("callback", lambda a: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(a.shape, a.dtype), a), x)
program("ordered_callback", lambda a: jax.experimental.io_callback(
    np.sin, jax.ShapeDtypeStruct(a.shape, a.dtype), a, ordered=True), x)
program("dot_algorithm", lambda a, b: lax.dot(a, b, precision=lax.DotAlgorithmPreset.BF16_BF16_F32_X3), x, y)
program("accuracy", lambda a: lax.exp(a, accuracy=lax.Tolerance(atol=1e-5, rtol=0.0, ulps=2)), x)
program("barrier", lambda a: lax.optimization_barrier((a, a + 1)), x)
program("complex", lambda a: (jnp.abs(lax.complex(a, a)), jnp.real(jnp.conj(lax.complex(a, a))), lax.bitcast_convert_type(a, jnp.int32),
                              lax.reduce_precision(a, 5, 10), jnp.clip(a, 0, 1), jnp.where(a > 0, a, 0)), x)
program("nested_calls", lambda a: jax.jit(lambda z: jax.jit(jnp.cumsum)(z) + 1)(a), jnp.arange(8.0))

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
sharded = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(mesh, P("a", "b")))
one = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("a", "b"))
on_one = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(one, P("a", "b")))


def mapped(fn, on, out, **options):
    return lambda a: jax.shard_map(fn, mesh=on, in_specs=P("a", "b"), out_specs=out, **options)(a)


program("sharding", lambda a, b: lax.with_sharding_constraint(a @ b, NamedSharding(mesh, P(None, "b"))), sharded, sharded)
program("sharding_one", lambda a: lax.with_sharding_constraint(a * 2, NamedSharding(one, P(None, "b"))), on_one)
program("collectives", mapped(lambda z: lax.psum(z, "a") + lax.ppermute(z, "a", [(0, 1), (1, 0)]), mesh, P("a", "b"), check_vma=False), sharded)
program("all_gather", mapped(lambda z: lax.all_gather(z, "a", tiled=True), mesh, P(None, "b"), check_vma=False), sharded)
program("all_to_all", mapped(lambda z: lax.all_to_all(z, "b", 0, 1, tiled=True), mesh, P("a", "b")), sharded)
program("reduce_scatter", mapped(lambda z: lax.psum_scatter(z, "b", tiled=True), mesh, P(("a", "b"), None)), sharded)
program("axis_index", mapped(lambda z: z + lax.axis_index("a"), mesh, P("a", "b")), sharded)
# The manual computation's borders are casts between types as VHLO and as the builtin dialect write them.
program("manual_formats", jax.shard_map(lambda *zs: [lax.rev(z, (0,)) for z in zs], mesh=mesh, in_specs=P(None, None), out_specs=P(None, None),
                                        check_vma=False), *formats())
program("manual_one", mapped(lambda z: lax.psum(z, "a"), one, P(None, "b")), on_one)


def write(path, data):
    with open(path, "wb" if isinstance(data, bytes) else "w") as f:
        f.write(data)


def main():
    wanted = sys.argv[1:]
    for name, (fn, args, jit) in programs.items():
        if wanted and name not in wanted:
            continue
        module = jax.jit(fn, **jit).lower(*args).compiler_ir("stablehlo")
        for version in (*VERSIONS, NEWEST) if name in EVERYWHERE else (NEWEST,):
            try:
                artifact = _jax.mlir.serialize_portable_artifact(module, version, True)
            except Exception:
                continue  # the program needs an op that this version lacks
            write(f"{name}.{version}.bc", artifact)
        with module.context:
            read = _jax.mlir.deserialize_portable_artifact(artifact)
            if isinstance(read, (str, bytes)):
                read = ir.Module.parse(read)
            for form, generic in (("pretty", False), ("generic", True)):
                text = read.operation.get_asm(enable_debug_info=True, print_generic_op_form=generic)
                write(f"{name}.{form}.mlir", text)


main()
