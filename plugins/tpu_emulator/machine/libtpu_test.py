"""libtpu_test.py --tool TOOL: compares the layout rule and the clock with the maker's compiler, on random programs.

Needs JAX and an installed libtpu, which compiles ahead of time without a TPU; exits with status 77 (skipped) without them.
Neither comes with this repository. TOOL is tpu_machine_tool of the build. `--seed` reproduces a run.
"""
import argparse
import importlib.util
import math
import os
import random
import re
import statistics
import subprocess
import sys

SKIPPED = 77
TOPOLOGIES = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "tpu7x": "tpu7x:2x2x1"}
TYPES = {
    "f32": "float32", "bf16": "bfloat16", "f16": "float16", "s32": "int32", "u32": "uint32", "s16": "int16", "u16": "uint16",
    "s8": "int8", "u8": "uint8", "pred": "bool_", "s4": "int4", "u4": "uint4", "f8e5m2": "float8_e5m2", "f8e4m3fn": "float8_e4m3fn",
    "s64": "int64", "f64": "float64", "c64": "complex64",
}
PASSES = {"default": 1, "high": 3, "highest": 6}


def ask(tool, lines):
    """Returns the tool's answers, one for each line."""
    done = subprocess.run([tool], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines), (len(answers), len(lines))
    return answers


class Compiler:
    def __init__(self):
        import jax
        import jax.numpy as jnp
        from jax.experimental import topologies

        jax.config.update("jax_enable_x64", True)
        self.jax, self.jnp = jax, jnp
        self.shardings = {}
        for name, topology in TOPOLOGIES.items():
            devices = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
            self.shardings[name] = jax.sharding.SingleDeviceSharding(devices[0])

    def compiled(self, machine, function, arguments):
        sharding = self.shardings[machine]
        jit = self.jax.jit(function, in_shardings=sharding, out_shardings=sharding, keep_unused=True)
        return jit.lower(*arguments).compile()

    def text(self, machine, function, arguments):
        return self.compiled(machine, function, arguments).as_text()

    def array(self, name, dims):
        return self.jax.ShapeDtypeStruct(tuple(dims), getattr(self.jnp, TYPES[name]))


def draw_shape(rng):
    rank = rng.randint(0, 6)
    while True:
        dims = [round(math.exp(rng.uniform(0, math.log(3000 if rank < 3 else 300)))) for _ in range(rank)]
        if math.prod(dims) < 2**24:
            return dims


def check_layouts(compiler, tool, rng, count):
    """Compares random arrays, some dozens per program, on alternating machines. Returns the differences."""
    wrong, drawn = [], 0
    while drawn < count:
        machine = list(TOPOLOGIES)[drawn // 50 % 5]
        arrays = [(rng.choice(sorted(TYPES)), draw_shape(rng)) for _ in range(min(50, count - drawn))]
        program = compiler.compiled(machine, lambda *xs: 0, [compiler.array(*a) for a in arrays])
        entry = re.search(r"entry_computation_layout=\{\((.*)\)->", program.as_text().splitlines()[0]).group(1)
        found = re.findall(r"(\w+)\[([\d,]*)\](\{[^}]*\})?", re.sub(r"/\*.*?\*/", "", entry))
        assert len(found) == len(arrays), (len(found), len(arrays))
        shapes = [f"{t} {'x'.join(map(str, d)) or '-'}" for t, d in arrays]
        ours = ask(tool, ["layout " + s for s in shapes])
        bytes_theirs, bytes_ours = program.memory_analysis().argument_size_in_bytes, sum(map(int, ask(tool, ["bytes " + s for s in shapes])))
        if bytes_theirs != bytes_ours:
            wrong.append(f"{machine} {shapes}: the compiler says {bytes_theirs} bytes, we say {bytes_ours}")
        for (name, dims), (_, their_dims, theirs), our in zip(arrays, found, ours):
            assert their_dims == ",".join(map(str, dims)), (their_dims, dims)
            if theirs != our:
                wrong.append(f"{machine} {name}{dims}: the compiler says {theirs}, we say {our}")
        drawn += len(arrays)
    return wrong


def draw_matmul(rng):
    def size():
        value = math.exp(rng.uniform(math.log(8), math.log(12000)))
        return max(8, round(value / 128) * 128) if rng.random() < 0.5 else max(2, round(value))

    while True:
        m, n, k = size(), size(), size()
        batch = rng.choice([2, 4, 8]) if rng.random() < 0.1 else 1
        precision = rng.choice(["default"] * 6 + ["high", "highest"])
        operand = "f32" if precision != "default" else rng.choice(["bf16", "bf16", "bf16", "f32", "s8"])
        result = {"f32": "f32", "s8": "s32"}.get(operand) or rng.choice(["bf16", "f32"])
        if max(m, n, k) >= 1024 and batch * m * n * k < (2**32 if precision != "default" else 2**38) and batch * max(m * n, m * k, k * n) < 2**27:
            return dict(batch=batch, m=m, n=n, k=k, operand=operand, result=result, precision=precision)


def product(compiler, spec, a, b):
    batch = ((0,), (0,)) if spec["batch"] > 1 else ((), ())
    first = len(batch[0])
    return compiler.jax.lax.dot_general(a, b, (((first + 1,), (first,)), batch), precision=spec["precision"],
                                        preferred_element_type=getattr(compiler.jnp, TYPES[spec["result"]]))


def space(shape):
    return "vmem" if "S(1)" in shape else "cmem" if "S(3)" in shape else "hbm"


def recorded(compiler, machine, spec):
    """Returns the compiler's cycles for the single product of a program, and the memory spaces of operands and result."""
    lead = [spec["batch"]] if spec["batch"] > 1 else []
    operands = [lead + [spec["m"], spec["k"]], lead + [spec["k"], spec["n"]]]
    text = compiler.text(machine, lambda a, b: product(compiler, spec, a, b), [compiler.array(spec["operand"], d) for d in operands])
    holding, computation, shapes, kernels = set(), None, {}, []
    for line in text.splitlines():
        opened = re.match(r"(ENTRY )?%(\S+) \(.*\{$", line)
        if opened:
            computation = "ENTRY" if opened.group(1) else opened.group(2)
        elif computation != "ENTRY":
            if " convolution(" in line:
                holding.add(computation)
        else:
            found = re.match(r"\s*(?:ROOT )?%(\S+) = (.*?) ([a-z-]+)\((.*?)\)", line)
            if found:
                shapes[found.group(1)] = found.group(2)
                calls = re.search(r"calls=%([^\s,]+)", line)
                if calls and calls.group(1) in holding:
                    kernels.append((line, found))
    if len(kernels) != 1:
        return None  # several kernels, or none on the array
    line, found = kernels[0]
    sides = [math.prod(d) for d in operands]
    spaces = [None, None]
    for name in found.group(4).split(","):
        shape = shapes.get(name.strip().lstrip("%"), "")
        dims = re.match(r"\w+\[([\d,]*)\]", shape)
        elements = math.prod(int(d) for d in dims.group(1).split(",") if d) if dims else 0
        for i in (0, 1):
            if elements == sides[i] and spaces[i] is None:
                spaces[i] = space(shape)
                break
    if None in spaces:
        return None
    return int(re.search(r'"estimated_cycles":"(\d+)"', line).group(1)), spaces + [space(found.group(2))]


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    return {index: rank for rank, index in enumerate(order)}


def check_matmuls(compiler, tool, rng, count):
    """Compares `count` random products per machine. Returns the accuracy limits that are not met."""
    missed = []
    for machine in TOPOLOGIES:
        questions, theirs = [], []
        while len(theirs) < count:
            spec = draw_matmul(rng)
            answer = recorded(compiler, machine, spec)
            if answer is None:
                continue
            cycles, spaces = answer
            questions.append(f"matmul {machine} {spec['batch']} {spec['m']} {spec['n']} {spec['k']} {spec['operand']} {spec['operand']} "
                             f"{spec['result']} {PASSES[spec['precision']]} {' '.join(spaces)}")
            theirs.append(cycles)
        ours = [int(a) for a in ask(tool, questions)]
        errors = [abs(o / t - 1) for o, t in zip(ours, theirs)]
        a, b, mean = ranks(theirs), ranks(ours), (count - 1) / 2
        correlation = sum((a[i] - mean) * (b[i] - mean) for i in range(count)) / sum((r - mean) ** 2 for r in range(count))
        within = sum(e <= 0.35 for e in errors) / count
        line = f"{machine}: {count} products, median error {statistics.median(errors):.3f}, within 35 % {within:.2f}, rank correlation {correlation:.3f}"
        print(line, flush=True)
        if statistics.median(errors) > 0.10 or within < 0.9 or correlation < 0.95:
            worst = max(range(count), key=errors.__getitem__)
            missed.append(f"{line}; worst: {questions[worst]}: {theirs[worst]} estimated, {ours[worst]} ours")
    return missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--shapes", type=int, default=500)
    parser.add_argument("--products", type=int, default=30, help="for each machine")
    arguments = parser.parse_args()
    if not importlib.util.find_spec("libtpu") or not importlib.util.find_spec("jax"):
        print("skipped: no libtpu here")
        return SKIPPED
    os.environ.update(TPU_SKIP_MDS_QUERY="1", JAX_PLATFORMS="cpu", ALLOW_MULTIPLE_LIBTPU_LOAD="1")
    print(f"seed {arguments.seed}", flush=True)
    rng = random.Random(arguments.seed)
    compiler = Compiler()
    wrong = check_layouts(compiler, arguments.tool, rng, arguments.shapes)
    print(f"{arguments.shapes} layouts, {len(wrong)} differ", flush=True)
    if arguments.products:
        wrong += check_matmuls(compiler, arguments.tool, rng, arguments.products)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
