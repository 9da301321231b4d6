"""A random JAX program as a tree of functions and statements, and its text.

A statement is one call of JAX: a template of Python text, the variables that it reads, the functions that it is given. Names
of variables are unique in a program, so that an inner function may read what stands around it.
"""
import copy
import dataclasses


@dataclasses.dataclass
class Function:
    """`params` and `results`: a name each, or a list of names for a tuple."""
    name: str
    params: list
    body: list = dataclasses.field(default_factory=list)
    results: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Statement:
    """`code` with {0}, {1} for `reads`, {f0} for `functions`, and a field for each of `numbers`, which shrinking makes smaller."""
    writes: list
    code: str
    reads: list = dataclasses.field(default_factory=list)
    functions: list = dataclasses.field(default_factory=list)
    numbers: dict = dataclasses.field(default_factory=dict)
    types: list = dataclasses.field(default_factory=list)  # (shape, dtype) of what it writes
    unpack: bool = False  # a tuple also where it is of one


@dataclasses.dataclass
class Shared:
    """A function at the top of a program, which is called from many places."""
    function: Function
    kind: str      # the key of DECORATIONS
    inputs: list   # (shape, dtype)
    outputs: list


@dataclasses.dataclass
class Program:
    seed: int
    x64: bool
    arguments: list                    # (name, shape, dtype, range of values, number that its values are drawn by)
    shared: list
    main: Function
    donated: list = dataclasses.field(default_factory=list)  # numbers of arguments
    sharded: list = dataclasses.field(default_factory=list)  # numbers of arguments that are split over the mesh
    mesh: bool = False


def names(group):
    for g in group:
        if isinstance(g, list):
            yield from g
        else:
            yield g


def functions_of(statement_or_program):
    """All functions, outer before inner."""
    if isinstance(statement_or_program, Program):
        roots = [s.function for s in statement_or_program.shared] + [statement_or_program.main]
    else:
        roots = list(statement_or_program.functions)
    for f in roots:
        yield f
        for s in f.body:
            yield from functions_of(s)


def free(function):
    """What a function reads from around it, in order."""
    bound, out = set(names(function.params)), []

    def read(name):
        if name not in bound and name not in out:
            out.append(name)
    for s in function.body:
        for n in reads(s):
            read(n)
        bound.update(s.writes)
    for n in names(function.results):
        read(n)
    return out


def reads(statement):
    out = list(dict.fromkeys(statement.reads))
    for f in statement.functions:
        out += [n for n in free(f) if n not in out]
    return out


def group_text(group):
    return ", ".join(f"({', '.join(g)},)" if isinstance(g, list) else g for g in group)


def render_function(f, indent=""):
    heads, opened = [], []
    for k, p in enumerate(f.params):
        heads.append(f"{f.name}_{k}" if isinstance(p, list) else p)
        if isinstance(p, list) and p:
            opened.append(f"{indent}    {', '.join(p)}, = {f.name}_{k}")
    lines = [f"{indent}def {f.name}({', '.join(heads)}):"] + opened
    for s in f.body:
        lines += render(s, indent + "    ")
    return lines + [f"{indent}    return {group_text(f.results)}"]


def render(s, indent=""):
    lines = []
    for f in s.functions:
        lines += render_function(f, indent)
    fields = {f"f{k}": f.name for k, f in enumerate(s.functions)}
    text = s.code.format(*s.reads, **fields, **s.numbers)
    return lines + [f"{indent}{', '.join(s.writes)}{',' if s.unpack else ''} = {text}"]


# How a function at the top of a program becomes something that is called: {f} is its name.
DECORATIONS = {
    "plain": "{f}",
    "jit": "jax.jit({f})",
    "jit in jit": "jax.jit(lambda *a: jax.jit({f})(*a))",
    "checkpoint": "jax.checkpoint({f})",
    "inline": "jax.jit({f}, inline=True)",
    "custom_jvp": "with_jvp({f})",
    "custom_vjp": "with_vjp({f})",
}

HELPERS = {
    "fit": '''
def fit(v, shape, dtype):
    """v in another shape and type: elements repeated or left out, numbers kept small."""
    v, to = jnp.asarray(v), jnp.dtype(dtype)
    if jnp.issubdtype(v.dtype, jnp.complexfloating) and not jnp.issubdtype(to, jnp.complexfloating):
        v = v.real
    if to == jnp.bool_:
        v = v > 0
    elif jnp.issubdtype(to, jnp.integer) and jnp.issubdtype(v.dtype, jnp.floating):
        v = jnp.clip(jnp.round(v), 0, 100)
    elif jnp.issubdtype(to, jnp.floating) and v.dtype != jnp.bool_:
        v = v.astype(to)
        v = v / (1 + 0.125 * jnp.abs(v))
    return jnp.resize(v, shape).astype(to)
''',
    "with_jvp": '''
def with_jvp(f):
    g = jax.custom_jvp(f)

    @g.defjvp
    def rule(primals, tangents):
        return g(*primals), jax.jvp(f, primals, tangents)[1]
    return g
''',
    "with_vjp": '''
def with_vjp(f):
    g = jax.custom_vjp(f)

    def forward(*a):
        return f(*a), a

    def backward(a, t):
        return jax.vjp(f, *a)[1](t)
    g.defvjp(forward, backward)
    return g
''',
}

HEAD = '''"""A random composition of JAX functions, seed {seed}: {command}

Set JAX_PLATFORMS and run it on two plugins; both print the same, but for rounding.
"""
import jax
import jax.numpy as jnp
import numpy as np
from functools import partial
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.config.update("jax_enable_x64", {x64})
'''

TAIL = '''

if __name__ == "__main__":
    for result in jax.tree.leaves(build(jax.devices())(*arguments())):
        print(np.asarray(result))
'''


def argument_text(seed, k, shape, dtype, fill):
    rng = f"np.random.default_rng([{seed}, {k}])"
    if dtype == "bool":
        return f"{rng}.integers(0, 2, {shape}).astype('bool')"
    if dtype.startswith("complex"):
        return f"({rng}.uniform(-2, 2, {shape}) + 1j * {rng}.uniform(-2, 2, {shape})).astype('{dtype}')"
    if dtype.startswith(("int", "uint")):
        low, high = fill
        return f"{rng}.integers({low}, {high}, {shape}).astype('{dtype}')"
    low, high = fill
    text = f"{rng}.uniform({low}, {high}, {shape})"
    return f"jnp.asarray({text}, 'bfloat16')" if dtype == "bfloat16" else f"np.asarray({text}, '{dtype}')"


def source(p):
    """The complete program: build(devices) gives the function that a host calls, arguments() what it is called with."""
    inner = []
    for s in p.shared:
        inner += render_function(s.function, "    ")
        decorated = DECORATIONS[s.kind].format(f=s.function.name)
        if decorated != s.function.name:
            inner.append(f"    {s.function.name} = {decorated}")
    inner += render_function(p.main, "    ")
    text = "\n".join(inner)
    out = HEAD.format(seed=p.seed, command=f"./dev fuzz-jax --seed {p.seed} --count 1", x64=p.x64)
    for name, helper in HELPERS.items():
        if f"{name}(" in text:
            out += helper
    out += "\n\ndef build(devices):\n"
    if p.mesh:
        out += "    mesh = Mesh(np.array(devices[:4]).reshape(2, 2), ('x', 'y'))\n"
    out += text + "\n"
    options = f", donate_argnums={tuple(p.donated)}" if p.donated else ""
    if p.mesh:
        places = ", ".join("NamedSharding(mesh, PartitionSpec('x'))" if k in p.sharded else "NamedSharding(mesh, PartitionSpec())"
                           for k in range(len(p.arguments)))
        options += f", in_shardings=({places},)"
    out += f"    return jax.jit({p.main.name}{options})\n\n\ndef arguments():\n    return [\n"
    for _, shape, dtype, fill, k in p.arguments:
        out += f"        {argument_text(p.seed, k, shape, dtype, fill)},\n"
    return out + "    ]\n" + TAIL


def clone(p):
    return copy.deepcopy(p)


def size(p):
    """Statements, functions and numbers: what shrinking makes less of."""
    return sum(len(f.body) for f in functions_of(p)) + len(p.arguments) + len(list(names(p.main.results)))
