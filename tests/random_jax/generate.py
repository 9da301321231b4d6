"""Random programs: the same for a seed everywhere.

A program grows statement by statement. JAX itself says what a statement's result is (`jax.eval_shape` on its text), and a
statement that JAX refuses is dropped: so the vocabulary needs no rules of its own about shapes and types.
"""
import random

import jax
import numpy as np

import tree
import vocabulary as words

DIMS = [1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8]
MOST_ELEMENTS = 3000


def is_float(dtype):
    return dtype in ("float32", "float64", "float16", "bfloat16")


def is_integer(dtype):
    return dtype.startswith(("int", "uint"))


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seed, self.counter, self.depth = seed, 0, 0
        self.x64 = self.random.random() < 0.35
        self.mesh = self.random.random() < 0.18
        self.narrow = not self.x64 or self.random.random() < 0.4  # floats of less than 64 bits, by which all is judged
        self.shared = []
        self.namespace = {}
        self.arguments = []

    # ---- small things
    def one(self, items):
        return self.random.choice(items)

    def chance(self, percent):
        return self.random.random() * 100 < percent

    def name(self, kind="v"):
        self.counter += 1
        return f"{kind}{self.counter}"

    def dtype(self):
        common = ["int32"] * 4 + ["bool", "uint8", "int8", "uint32", "int16"]
        if self.narrow:
            common += ["float32"] * 6 + ["complex64"] + ["bfloat16"] * self.chance(15)
        return self.one(common + (["float64"] * 8 + ["int64"] * 5 + ["complex128"] if self.x64 else []))

    def shape(self, least=0, most=3):
        if self.mesh and self.chance(60):
            return tuple([self.one([2, 4])] + [self.one([2, 4, 3]) for _ in range(self.random.randint(0, 1))])
        if self.chance(4):
            return (self.one([257, 600, 1030]),)
        return tuple(self.one(DIMS) for _ in range(self.random.randint(least, most)))

    # ---- what a statement is
    def types_of(self, statement, env):
        """The types of what it writes, or None where JAX refuses it or it is too large."""
        used = [n for n in tree.reads(statement) if n in env]
        lines = [f"def probe({', '.join(used)}):"] + tree.render(statement, "    ")
        lines.append(f"    return ({', '.join(statement.writes)},)")
        space = self.namespace
        try:
            exec("\n".join(lines), space)  # noqa: S102
            out = jax.eval_shape(space["probe"], *[jax.ShapeDtypeStruct(*env[n]) for n in used])
        except Exception:  # whatever JAX has against it
            return None
        types = []
        for o in out:
            if not hasattr(o, "shape") or int(np.prod(o.shape)) > MOST_ELEMENTS or len(o.shape) > 4 or 0 in o.shape:
                return None
            dtype = str(o.dtype)
            if not (is_float(dtype) or is_integer(dtype) or dtype in ("bool", "complex64", "complex128")):
                return None
            types.append((tuple(o.shape), dtype))
        return types

    def add(self, block, env, code, reads=(), functions=(), numbers=None, outputs=None):
        """`outputs`: of how many elements the tuple is that the statement gives; none: it is no tuple."""
        statement = tree.Statement([self.name() for _ in range(outputs or 1)], code, list(reads), list(functions), dict(numbers or {}),
                                   unpack=outputs is not None)
        types = self.types_of(statement, env)
        if types is None:
            return None
        statement.types = types
        block.append(statement)
        for n, t in zip(statement.writes, types):
            env[n] = t
        return statement.writes

    # ---- values
    def pick(self, env, fits=lambda shape, dtype: True):
        found = [n for n, (shape, dtype) in env.items() if fits(shape, dtype)]
        return found[max(self.random.randrange(len(found)), self.random.randrange(len(found)))] if found else None

    def fit(self, block, env, name, to):
        """A variable of that type made of another one."""
        if name is None or env[name] == to:
            return name
        out = self.add(block, env, "fit({0}, %r, %r)" % to, [name])
        return out[0] if out else None

    def scalar_int(self, block, env, low=0, high=6):
        """An int32 in that range which the compiler does not know."""
        v = self.pick(env, lambda s, d: is_integer(d) and s == ())
        if v is None:
            v = self.pick(env, lambda s, d: is_integer(d))
            if v is None:
                return None
            v = (self.add(block, env, "jnp.max({0})", [v]) or [None])[0]
            if v is None:
                return None
        out = self.add(block, env, "jnp.clip({0}, 0, 100).astype('int32') %% %d + %d" % (high - low + 1, low), [v])
        return out[0] if out else None

    # ---- functions
    def function(self, env, params, steps, results, kind="f", see_outside=40):
        """params: groups of types. results: called with (block, env, names of params) for the groups of results, or None."""
        f = tree.Function(self.name(kind), [], [], [])
        inner = {n: t for n, t in env.items() if self.chance(see_outside)} if see_outside else {}
        for group in params:
            if isinstance(group, list):
                fresh = [self.name("a") for _ in group]
                f.params.append(fresh)
                inner.update(zip(fresh, group))
            else:
                fresh = self.name("a")
                f.params.append(fresh)
                inner[fresh] = group
        self.depth += 1
        self.grow(f.body, inner, steps)
        self.depth -= 1
        out = results(f.body, inner, f.params)
        if out is None:
            return None
        f.results = out
        return f

    def carried(self, types, fixed=None):
        """Results of a loop's body: what it carries in the same types, in one of the ways that loops do that."""
        def make(block, env, params):
            group = next(p for p in params if isinstance(p, list))
            out = []
            for k, (name, t) in enumerate(zip(group, types)):
                way = self.random.random()
                same = [n for n, o in zip(group, types) if o == t and n != name]
                if fixed is not None and k in fixed:
                    out.append(name)
                elif way < 0.12:
                    out.append(name)  # passed on
                elif way < 0.30 and same:
                    out.append(self.one(same))  # exchanged
                elif way < 0.36 and out and any(t == u for u in types[:k]):
                    out.append(out[types.index(t)])  # the same value twice
                else:
                    v = self.fit(block, env, self.pick(env), t)
                    if v is None:
                        return None
                    out.append(v)
            return [out]
        return make

    def single(self, to):
        def make(block, env, params):
            v = self.fit(block, env, self.pick(env), to)
            return None if v is None else [v]
        return make

    def several(self, most=2):
        def make(block, env, params):
            last = list(env)
            return None if not last else [[self.one(last[-6:]) for _ in range(self.random.randint(1, most))]]
        return make

    # ---- statements
    def grow(self, block, env, steps):
        for _ in range(steps):
            for _ in range(6):
                if self.step(block, env):
                    break

    def step(self, block, env):
        if not env:
            return self.add(block, env, "jnp.arange({n})", numbers={"n": self.random.randint(1, 6)})
        simple = self.depth >= 3 or self.chance(45 if self.depth == 0 else 70)
        if not simple:
            return self.one([self.loop, self.loop, self.while_loop, self.while_loop, self.scan, self.scan, self.cond, self.switch,
                             self.vmap, self.vmap, self.map, self.derivative, self.derivative, self.derivative, self.call, self.call, self.call, self.call,
                             self.jit])(block, env)
        return self.one([self.arithmetic] * 6 + [self.reduction] * 3 + [self.move] * 3 + [self.index, self.place, self.place,
                        self.product, self.sorted, self.compare, self.cast, self.from_random] + ([self.over_mesh] * 4 if self.mesh else []))(block, env)

    def arithmetic(self, block, env):
        x = self.pick(env)
        shape, dtype = env[x]
        kinds = {True: (words.FLOAT_1, words.FLOAT_2)}.get(is_float(dtype))
        if kinds is None:
            kinds = (words.INTEGER_1, words.INTEGER_2) if is_integer(dtype) else (words.BOOL_1, words.BOOL_2) if dtype == "bool" else \
                (words.COMPLEX_1, words.COMPLEX_2)
        if self.chance(45):
            return self.add(block, env, self.one(kinds[0]), [x])
        y = self.pick(env, lambda s, d: d == dtype and (s == shape or s == ())) if self.chance(80) else self.fit(block, env, self.pick(env), (shape, dtype))
        return y and self.add(block, env, self.one(kinds[1]), [x, y])

    def reduction(self, block, env):
        x = self.pick(env, lambda s, d: len(s) > 0 and not d.startswith("complex"))
        if x is None:
            return None
        shape, dtype = env[x]
        table = words.REDUCE_BOOL if dtype == "bool" else words.REDUCE_NUMBER + (words.REDUCE_FLOAT if is_float(dtype) else [])
        return self.add(block, env, self.one(table), [x], numbers={"axis": self.random.randrange(len(shape))})

    def move(self, block, env):
        x = self.pick(env, lambda s, d: len(s) > 0)
        return x and self.add(block, env, self.one(words.MOVE), [x], numbers={"k": self.random.randint(0, 2)})

    def index(self, block, env):
        x, i = self.pick(env, lambda s, d: len(s) > 0), self.pick(env, lambda s, d: d in ("int32", "int64", "uint8"))
        return x and i and self.add(block, env, self.one(words.INDEX), [x, i])

    def place(self, block, env):
        x, i = self.pick(env, lambda s, d: len(s) > 0), self.pick(env, lambda s, d: d in ("int32", "int64", "uint8") and s == ())
        return x and i and self.add(block, env, self.one(words.INDEXED), [x, i])

    def product(self, block, env):
        x = self.pick(env, lambda s, d: len(s) > 0 and (is_float(d) or d in ("int32", "complex64")))
        if x is None:
            return None
        shape, dtype = env[x]
        y = self.pick(env, lambda s, d: d == dtype and len(s) > 0 and s[0] == shape[0])
        return y and self.add(block, env, self.one(words.PRODUCT), [x, y])

    def sorted(self, block, env):
        x = self.pick(env, lambda s, d: len(s) > 0 and (is_float(d) or is_integer(d)))
        if x is None:
            return None
        y = self.pick(env, lambda s, d: s == env[x][0] and (is_float(d) or is_integer(d)))
        return y and self.add(block, env, self.one(words.SORTED), [x, y])

    def compare(self, block, env):
        x = self.pick(env, lambda s, d: not d.startswith("complex"))
        y = x and self.pick(env, lambda s, d: (s, d) == env[x])
        return y and self.add(block, env, self.one(words.COMPARE), [x, y])

    def cast(self, block, env):
        return self.fit(block, env, self.pick(env), (self.shape(), self.dtype()))

    def from_random(self, block, env):
        seed = self.scalar_int(block, env, 0, 60)
        return seed and self.add(block, env, self.one(words.RANDOM).replace("{shape}", repr(self.shape(1, 2))), [seed])

    def over_mesh(self, block, env):
        x = self.pick(env, lambda s, d: len(s) > 0 and s[0] % 2 == 0 and (is_float(d) or d == "int32"))
        return x and self.add(block, env, self.one(words.MESH), [x])

    # ---- control
    def state(self, block, env, most=4):
        chosen = [self.pick(env) for _ in range(self.random.randint(1, most))]
        if self.chance(15):
            chosen.append(chosen[0])  # one value carried twice
        if self.chance(30):
            zeros = self.add(block, env, "jnp.zeros(%r, %r)" % env[chosen[0]])
            if zeros:
                chosen[0] = zeros[0]
        return chosen, [env[n] for n in chosen]

    def loop(self, block, env):
        names, types = self.state(block, env)
        body = self.function(env, [((), "int32"), list(types)], self.random.randint(1, 4), self.carried(types), "body")
        if body is None:
            return None
        if self.chance(50):
            n = self.scalar_int(block, env)
            if n is None:
                return None
            return self.add(block, env, "lax.fori_loop(0, {%d}, {f0}, (%s,))" % (len(names), self.fields(names)), names + [n], [body], outputs=len(names))
        low = self.one([0, 0, 1, -2])
        return self.add(block, env, "lax.fori_loop(%d, {n}, {f0}, (%s,))" % (low, self.fields(names)), names, [body],
                        {"n": self.random.randint(0, 6)}, outputs=len(names))

    @staticmethod
    def fields(names, first=0):
        return ", ".join("{%d}" % (first + k) for k in range(len(names)))

    def while_loop(self, block, env):
        """A counter that ends it at the latest, and what else a condition may ask: a flag, a sum, an element, a narrow counter."""
        names, types = self.state(block, env, 3)
        way = self.one(["count", "flag", "flag", "flag only", "sum", "narrow", "limit", "limit"])
        start = {"flag": ["0", "False"], "flag only": ["0", "False"], "narrow": ["0", "jnp.int8(%d)" % self.random.randint(-128, 127)],
                 "limit": ["0", "jnp.int32({%d})" % len(names)]}.get(way, ["0"])
        limit = self.scalar_int(block, env) if way == "limit" else None
        if way == "limit" and limit is None:
            return None
        control = [((), "int32")] + {"flag": [((), "bool")], "flag only": [((), "bool")], "narrow": [((), "int8")],
                                     "limit": [((), "int32")]}.get(way, [])
        all_types = control + types
        n, step = self.random.randint(0, 7), self.random.randint(1, 120)
        watched = self.random.randrange(len(types))

        def goes_on(inner_block, inner, params):
            p = params[0]
            text = {"count": "{0} < {n}", "flag": "({0} < {n}) & ~{1}", "flag only": "~{1}", "limit": "{0} < {1}",
                    "sum": "({0} < {n}) & (jnp.sum({1}) < 40)", "narrow": "({0} < {n}) & ({1} < jnp.int8(115))"}[way]
            reads = [p[0], p[len(control) + watched] if way == "sum" else p[1] if len(control) > 1 else p[0]]
            out = self.add(inner_block, inner, text, reads, numbers={"n": n})
            return out and [out[0]]
        depth, self.depth = self.depth, 9
        condition = self.function(env, [list(all_types)], 0, goes_on, "go_on", 0)
        self.depth = depth

        def goes(inner_block, inner, params):
            p = params[0]
            count = self.add(inner_block, inner, "{0} + 1", [p[0]])
            if count is None:
                return None
            out = [count[0]]
            if way == "flag":
                x = self.pick(inner, lambda s, d: is_integer(d) or is_float(d))
                flag = x and self.add(inner_block, inner, "jnp.sum({0}) > %s" % self.one(["0", "1.3", "7"]), [x])
                if not flag:
                    return None
                out += flag
            elif way == "flag only":
                flag = self.add(inner_block, inner, "{0} >= {n}", [count[0]], numbers={"n": n})
                if not flag:
                    return None
                out += flag
            elif way == "narrow":
                narrow = self.add(inner_block, inner, "{0} + jnp.int8({n})", [p[1]], numbers={"n": step})
                if not narrow:
                    return None
                out += narrow
            elif way == "limit":
                out.append(p[1])
            rest = self.carried(all_types[len(out):])(inner_block, inner, [p[len(out):]])
            return rest and [out + rest[0]]
        # The control elements are not among what the body computes with, most of the time.
        body = self.function(env, [list(all_types)], self.random.randint(1, 4), goes, "body")
        if condition is None or body is None:
            return None
        code = "lax.while_loop({f0}, {f1}, (%s, %s))" % (", ".join(start), self.fields(names))
        return self.add(block, env, code, names + ([limit] if limit else []), [condition, body], outputs=len(all_types))

    def scan(self, block, env):
        names, types = self.state(block, env, 3)
        xs = self.pick(env, lambda s, d: len(s) > 0 and s[0] <= 8)
        if xs is None:
            return None
        row = (env[xs][0][1:], env[xs][1])

        def results(inner_block, inner, params):
            carry = self.carried(types)(inner_block, inner, params)
            return carry and [carry[0], self.pick(inner)]
        body = self.function(env, [list(types), row], self.random.randint(1, 4), results, "row")
        if body is None:
            return None
        options = self.one(["", "", ", reverse=True", ", unroll=2", ", unroll=True"])
        over = "{%d}" % len(names)
        if body.params[1] not in [n for s in body.body for n in tree.reads(s)] and self.chance(30):
            over, options = "None, length={n}", options.replace("unroll=True", "unroll=3")
            body.params[1] = "_"
        code = "jax.tree.leaves(lax.scan({f0}, (%s,), %s%s))" % (self.fields(names), over, options)
        return self.add(block, env, code, names + [xs], [body], {"n": self.random.randint(1, 5)}, outputs=len(names) + 1)

    def cond(self, block, env):
        names, types = self.state(block, env, 3)
        to = [self.one([env[self.pick(env)], (self.shape(), self.dtype())]) for _ in range(self.random.randint(1, 2))]

        def results(inner_block, inner, params):
            out = [self.fit(inner_block, inner, self.pick(inner), t) for t in to]
            return None if None in out else [out]
        branches = [self.function(env, types, self.random.randint(0, 3), results, "branch") for _ in range(2)]
        if None in branches:
            return None
        if self.chance(15):
            branches[1] = None
        p = self.pick(env, lambda s, d: d == "bool" and s == ())
        test = "{%d}" % len(names)
        if p is None:
            p = self.pick(env, lambda s, d: is_integer(d) or is_float(d))
            test = "jnp.sum({%d}) > 1" % len(names)
            if p is None:
                return None
        second = "{f0}" if branches[1] is None else "{f1}"
        return self.add(block, env, "lax.cond(%s, {f0}, %s, %s)" % (test, second, self.fields(names)), names + [p],
                        [b for b in branches if b is not None], outputs=len(to))

    def switch(self, block, env):
        names, types = self.state(block, env, 2)
        to = env[self.pick(env)]
        branches = [self.function(env, types, self.random.randint(0, 2), self.single(to), "branch") for _ in range(self.random.randint(1, 3))]
        which = self.scalar_int(block, env, 0, 3)
        if None in branches or which is None:
            return None
        listed = ", ".join("{f%d}" % k for k in range(len(branches)))
        return self.add(block, env, "lax.switch({%d}, [%s], %s)" % (len(names), listed, self.fields(names)), names + [which], branches)

    def vmap(self, block, env):
        x = self.pick(env, lambda s, d: len(s) > 0)
        if x is None:
            return None
        shape, dtype = env[x]
        y = self.pick(env, lambda s, d: len(s) > 0 and s[0] == shape[0]) if self.chance(60) else self.pick(env)
        split = len(env[y][0]) > 0 and env[y][0][0] == shape[0]
        inner = (env[y][0][1:], env[y][1]) if split else env[y]
        f = self.function(env, [(shape[1:], dtype), inner], self.random.randint(1, 4), lambda b, e, p: [self.pick(e)], "lane")
        if f is None:
            return None
        code = "jax.vmap({f0}, in_axes=(0, %s)%s)({0}, {1})" % ("0" if split else "None", self.one(["", "", ", out_axes=-1"]))
        return self.add(block, env, code, [x, y], [f])

    def map(self, block, env):
        x = self.pick(env, lambda s, d: 0 < len(s) and s[0] <= 8)
        if x is None:
            return None
        f = self.function(env, [(env[x][0][1:], env[x][1])], self.random.randint(1, 3), lambda b, e, p: [self.pick(e)], "row")
        return f and self.add(block, env, "lax.map({f0}, {0}%s)" % self.one(["", "", ", batch_size=2"]), [x], [f])

    def jit(self, block, env):
        names, types = self.state(block, env, 2)
        f = self.function(env, types, self.random.randint(1, 4), self.several(), "part")
        return f and self.add(block, env, "%s({f0})(%s)" % (self.one(["jax.jit", "jax.checkpoint", "jax.jit"]), self.fields(names)), names, [f],
                              outputs=len(f.results[0]))

    def derivative(self, block, env):
        """A function of one float array, differentiated in one of the ways there are; of a shared function as well."""
        x = self.pick(env, lambda s, d: d in ("float32", "float64") and int(np.prod(s)) <= 40)
        if x is None:
            return None
        t = env[x]
        same = [s for s in self.shared if len(s.inputs) == 1 and s.inputs[0] == t and len(s.outputs) == 1 and s.outputs[0][1] == t[1]]
        functions, f = [], None
        if same and self.chance(50):
            f = self.one(same).function.name
        else:
            made = self.function(env, [t], self.random.randint(1, 3), self.single((self.one([t[0], (), (3,)]), t[1])), "smooth")
            if made is None:
                return None
            functions, f = [made], "{f0}"
        ways = ["jax.grad(lambda a: jnp.sum(%s(a)))({0})", "jax.value_and_grad(lambda a: jnp.mean(%s(a)))({0})[1]",
                "jax.jvp(%s, ({0},), (jnp.ones_like({0}),))[1]", "jax.vjp(%s, {0})[1](%s({0}))[0]", "jax.jacfwd(%s)({0})", "jax.jacrev(%s)({0})",
                "jax.linearize(%s, {0})[1]({0})", "jax.grad(lambda a: jnp.sum(jax.checkpoint(%s)(a)))({0})",
                "jax.grad(lambda a: jnp.sum(jax.grad(lambda b: jnp.sum(%s(b) * a))(a)))({0})"]
        if int(np.prod(t[0])) <= 5:
            ways += ["jax.hessian(lambda a: jnp.sum(%s(a)))({0})"]
        code = self.one(ways)
        return self.add(block, env, code.replace("%s", f), [x], functions)

    def call(self, block, env):
        """One function at the top called from here, once or twice."""
        if not self.shared:
            return None
        s = self.one(self.shared)
        for _ in range(self.random.randint(1, 2)):
            given = []
            for t in s.inputs:
                near = [n for n, o in env.items() if o == t]
                v = self.one(near) if near and self.chance(75) else self.fit(block, env, self.pick(env), t)
                if v is None:
                    return None
                given.append(v)
            batched = self.chance(10) and len(given) == 1
            code = "jax.vmap(%s)(jnp.stack([{0}, {0}]))" % s.function.name if batched else "%s(%s)" % (s.function.name, self.fields(given))
            if len(s.outputs) > 1 and not batched:
                out = self.add(block, env, code, given, outputs=len(s.outputs))
            else:
                out = self.add(block, env, code if len(s.outputs) == 1 else code + "[0]", given)
            if out is None:
                return None
        return out

    # ---- complete programs
    def make_shared(self):
        floats = self.chance(50)  # nothing else, for functions with derivatives of their own
        wide = "float32" if self.narrow and (not self.x64 or self.chance(30)) else "float64"
        inputs = [(self.shape(0, 2), wide if floats else self.one(["float32", "int32", "float32"] if not self.x64 else ["float64", "int64", "float32" if self.narrow else "float64"]))
                  for _ in range(self.random.randint(1, 3))]
        outputs = []

        def results(block, env, params):
            out = []
            if not env:
                return None
            for k in range(self.random.randint(1, 2)):
                v = self.pick(env)
                if k == 0 and self.chance(70):
                    v = self.fit(block, env, v, inputs[0])
                elif floats:
                    v = self.fit(block, env, v, (env[v][0], wide))
                if v is None:
                    return None
                out.append(v)
            outputs.extend(env[n] for n in out)
            return out
        f = self.function({}, inputs, self.random.randint(2, 6), results, "shared", 0)
        if f is None or not f.body:
            return
        kind = self.one(list(tree.DECORATIONS) + (["custom_jvp", "custom_vjp"] if floats else ["jit", "jit"]))
        if kind in ("custom_jvp", "custom_vjp") and not all(is_float(t[1]) for t in inputs + outputs):
            kind = "jit"
        s = tree.Shared(f, kind, inputs, outputs)
        text = "\n".join(tree.render_function(f)) + "\n"
        decorated = tree.DECORATIONS[kind].format(f=f.name)
        try:
            exec(text + f"{f.name} = {decorated}\n", self.namespace)  # noqa: S102
            jax.eval_shape(self.namespace[f.name], *[jax.ShapeDtypeStruct(*t) for t in inputs])
        except Exception:
            return
        self.shared.append(s)

    def make(self):
        jax.config.update("jax_enable_x64", self.x64)
        exec(tree.HEAD.format(seed=0, command="", x64=self.x64) + "".join(tree.HELPERS.values()), self.namespace)  # noqa: S102
        if self.mesh:
            self.namespace["mesh"] = jax.sharding.Mesh(np.array(jax.devices("cpu")[:4]).reshape(2, 2), ("x", "y"))
        for _ in range(self.one([0, 1, 1, 2, 3])):
            self.make_shared()
        env, main = {}, tree.Function("main", [], [], [])
        for k in range(self.random.randint(1, 5)):
            dtype = self.one(["float32" if self.narrow else "float64", "int32"]) if k < 2 and self.chance(50) else self.dtype()
            shape = self.shape() if self.chance(80) or dtype == "bool" else ()
            fill = (-2, 2) if not is_integer(dtype) else (0, 7) if dtype.startswith("u") or self.chance(60) else (-9, 9)
            name = self.name("x")
            self.arguments.append((name, shape, dtype, fill, k))
            main.params.append(name)
            env[name] = (shape, dtype)
        given = list(env)
        self.grow(main.body, env, self.random.randint(3, 10))
        for _ in range(6 if self.mesh else 0):
            if self.over_mesh(main.body, env):
                break
        read = {n for s in main.body for n in tree.reads(s)}
        results = [n for n in env if n not in read and n not in given][-6:]
        for _ in range(2):
            if self.chance(35):
                results.append(self.one(list(env)))  # an argument, or the same value twice
        main.results = [results or given[:1]]
        p = tree.Program(self.seed, self.x64, self.arguments, self.shared, main, mesh=self.mesh)
        if self.chance(35):
            p.donated = [k for k in range(len(given)) if self.chance(60)]
        if self.mesh:
            p.sharded = [k for k, (_, shape, _, _, _) in enumerate(self.arguments) if shape and shape[0] % 2 == 0 and self.chance(70)]
        tidy(p)
        return p


def tidy(p):
    """Removes unused statements and shared functions."""
    changed = True
    while changed:
        changed = False
        for f in tree.functions_of(p):
            wanted = set(tree.names(f.results))
            for s in f.body:
                wanted.update(tree.reads(s))
            kept = [s for s in f.body if any(n in wanted for n in s.writes)]
            changed = changed or len(kept) != len(f.body)
            f.body = kept
        texts = [s.code for f in tree.functions_of(p) for s in f.body]
        kept = [s for s in p.shared if any(f"{s.function.name}(" in t or f"({s.function.name}" in t for t in texts)]
        changed = changed or len(kept) != len(p.shared)
        p.shared = kept


def generate(seed):
    return Maker(seed).make()


if __name__ == "__main__":
    import sys
    print(tree.source(generate(int(sys.argv[1]))))

