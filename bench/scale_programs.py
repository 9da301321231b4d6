"""Kinds of programs of growing size: StableHLO text of about n instructions, and the arrays to run it on.

  chain    x = sin(x) * w + i, each step after the last
  wide     independent sums over one array, added up
  outputs  the same sums, each a result of its own
  mlp      a training step: layers forward and backward, a new weight for each
  update   rows of one array, each written in place from the one before it
  calls    a few functions called from many places, each function calling others
"""
import numpy as np

FAMILIES = ("chain", "wide", "outputs", "mlp", "update", "calls")


class Text:
    """A function's body in the making: each instruction gets the next number."""

    def __init__(self):
        self.lines, self.count = [], 0

    def add(self, line):
        name = f"%v{self.count}"
        self.lines.append(f"    {name} = {line}")
        self.count += 1
        return name

    def constant(self, value, type="tensor<f32>"):
        return self.add(f"stablehlo.constant dense<{value}> : {type}")

    def spread(self, x, type, dims=""):
        source = "tensor<f32>" if dims == "" else type_of_dims(type, dims)
        return self.add(f"stablehlo.broadcast_in_dim {x}, dims = [{dims}] : ({source}) -> {type}")

    def binary(self, op, a, b, type):
        return self.add(f"stablehlo.{op} {a}, {b} : {type}")

    def unary(self, op, a, type):
        return self.add(f"stablehlo.{op} {a} : {type}")

    def dot(self, a, b, contract, types):
        return self.add(f"stablehlo.dot_general {a}, {b}, contracting_dims = [{contract[0]}] x [{contract[1]}] : ({types[0]}, {types[1]}) -> {types[2]}")

    def sum(self, x, zero, dims, source, result):
        return self.add(f"stablehlo.reduce({x} init: {zero}) applies stablehlo.add across dimensions = [{dims}] : ({source}, tensor<f32>) -> {result}")


def type_of_dims(type, dims):
    shape = type[len("tensor<"):-1].split("x")
    kept = [shape[int(d)] for d in dims.split(",")]
    return f"tensor<{'x'.join(kept + shape[-1:])}>"


def function(text, arguments, results, name="main", visibility="public"):
    """arguments: their types; results: pairs of value and type."""
    head = ", ".join(f"%a{k}: {t}" for k, t in enumerate(arguments))
    types = ", ".join(t for _, t in results)
    values = ", ".join(v for v, _ in results)
    return "\n".join([f"  func.func {visibility} @{name}({head}) -> ({types}) {{", *text.lines, f"    return {values} : {types}", "  }"])


def module(functions):
    return "module @scale {\n" + "\n".join(functions) + "\n}\n"


def array(*shape):
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(np.float32) / 4


def chain(n):
    t, type = Text(), "tensor<1024xf32>"
    x = "%a0"
    for i in range(n // 5):
        x = t.binary("add", t.binary("multiply", t.unary("sine", x, type), "%a1", type), t.spread(t.constant(f"{i / n:.9e}"), type), type)
    return module([function(t, [type, type], [(x, type)])]), [array(1024), array(1024)]


def sums(t, n, type, steps):
    zero = t.constant("0.0")
    return [t.sum(t.binary("multiply", "%a0", t.spread(t.constant(f"{1 + i / n:.9e}"), type), type), zero, "0, 1", type, "tensor<f32>") for i in range(n // steps)]


def wide(n):
    t, type = Text(), "tensor<16x64xf32>"
    total = None
    for s in sums(t, n, type, 5):
        total = s if total is None else t.binary("add", total, s, "tensor<f32>")
    return module([function(t, [type], [(total, "tensor<f32>")])]), [array(16, 64)]


def outputs(n):
    t, type = Text(), "tensor<16x64xf32>"
    return module([function(t, [type], [(s, "tensor<f32>") for s in sums(t, n, type, 4)])]), [array(16, 64)]


def mlp(n):
    """Per layer: 4 instructions forward, 11 backward and for the new weights."""
    t, layers = Text(), max(1, (n - 2) // 15)
    x, w, b = "tensor<8x16xf32>", "tensor<16x16xf32>", "tensor<16xf32>"
    values = ["%a0"]
    for k in range(layers):
        y = t.dot(values[-1], f"%a{1 + 2 * k}", (1, 0), (x, w, x))
        y = t.binary("add", y, t.spread(f"%a{2 + 2 * k}", x, "1"), x)
        values.append(t.unary("tanh", y, x))
    zero, one, rate = t.constant("0.0"), t.constant("1.0", x), t.constant("0.01", w)
    rate_b = t.constant("0.01", b)
    gradient, results = values[-1], []
    for k in reversed(range(layers)):
        slope = t.binary("subtract", one, t.binary("multiply", values[k + 1], values[k + 1], x), x)
        gradient = t.binary("multiply", gradient, slope, x)
        dw = t.dot(values[k], gradient, (0, 0), (x, x, w))
        db = t.sum(gradient, zero, "0", x, b)
        results += [(t.binary("subtract", f"%a{2 + 2 * k}", t.binary("multiply", db, rate_b, b), b), b),
                    (t.binary("subtract", f"%a{1 + 2 * k}", t.binary("multiply", dw, rate, w), w), w)]
        gradient = t.dot(gradient, f"%a{1 + 2 * k}", (1, 1), (x, w, x))
    types = [x] + [w, b] * layers
    return module([function(t, types, results[::-1])]), [array(8, 16)] + [array(16, 16), array(16)] * layers


def update(n):
    t, rows, type, row = Text(), 256, "tensor<256x64xf32>", "tensor<1x64xf32>"
    x, zero = "%a0", t.constant(0, "tensor<i32>")
    for i in range(n // 5):
        k = i % (rows - 1)
        r = t.add(f"stablehlo.slice {x} [{k}:{k + 1}, 0:64] : ({type}) -> {row}")
        r = t.binary("add", t.unary("sine", r, row), r, row)
        at = t.constant(k + 1, "tensor<i32>")
        x = t.add(f"stablehlo.dynamic_update_slice {x}, {r}, {at}, {zero} : ({type}, {row}, tensor<i32>, tensor<i32>) -> {type}")
    return module([function(t, [type], [(x, type)])]), [array(256, 64)]


def calls(n):
    """Eight functions of nine instructions, each calling two of eight smaller ones of four; inlined they are about n."""
    type, functions = "tensor<512xf32>", []
    for k in range(8):
        t = Text()
        c = t.constant(f"{k + 1}.5", type)
        x = t.binary("multiply", t.unary("tanh", t.binary("add", "%a0", c, type), type), c, type)
        functions.append(function(t, [type], [(x, type)], f"small{k}", "private"))
    for k in range(8):
        t = Text()
        x = t.unary("cosine", t.binary("multiply", "%a0", "%a1", type), type)
        x = t.add(f"func.call @small{k}({x}) : ({type}) -> {type}")
        x = t.binary("subtract", x, t.unary("abs", "%a1", type), type)
        x = t.add(f"func.call @small{(k + 3) % 8}({x}) : ({type}) -> {type}")
        x = t.binary("maximum", x, t.binary("multiply", "%a1", "%a0", type), type)
        functions.append(function(t, [type, type], [(x, type)], f"large{k}", "private"))
    t, x = Text(), "%a0"
    for i in range(max(1, n // 15)):
        x = t.add(f"func.call @large{i % 8}({x}, %a1) : ({type}, {type}) -> {type}")
    return module([function(t, [type, type], [(x, type)])] + functions), [array(512), array(512)]


def make(family, n):
    return globals()[family](n)
