"""Shrinks a failing program as far as it still fails in the same way."""
import time

import generate
import tree


def places(p):
    """(number of the function, number of the statement), the last first."""
    found = []
    for k, f in enumerate(tree.functions_of(p)):
        found += [(k, n) for n in range(len(f.body))]
    return found[::-1]


def function_at(p, k):
    return list(tree.functions_of(p))[k]


def without_unread_arguments(p):
    read = {n for s in p.main.body for n in tree.reads(s)} | set(tree.names(p.main.results))
    kept = [k for k, a in enumerate(p.arguments) if a[0] in read] or [0]
    p.donated = [kept.index(k) for k in p.donated if k in kept]
    p.sharded = [kept.index(k) for k in p.sharded if k in kept]
    p.arguments = [p.arguments[k] for k in kept]
    p.main.params = [p.main.params[k] for k in kept]


def candidates(p):
    """Smaller programs, the boldest first; None where a step does not apply."""
    results = p.main.results[0]
    for k in range(len(results)):
        if len(results) > 1:
            c = tree.clone(p)
            c.main.results = [[results[k]]]
            yield c
    for k in range(len(results)):
        if len(results) > 2:
            c = tree.clone(p)
            c.main.results = [results[:k] + results[k + 1:]]
            yield c
    for simple in ("donated", "sharded"):
        if getattr(p, simple):
            c = tree.clone(p)
            setattr(c, simple, [])
            yield c
    for k, s in enumerate(p.shared):
        if s.kind != "plain":
            c = tree.clone(p)
            c.shared[k].kind = "plain"
            yield c
    # Zeros for what a statement computes.
    for k, n in places(p):
        s = function_at(p, k).body[n]
        if s.code.startswith("jnp.zeros("):
            continue
        c = tree.clone(p)
        f = function_at(c, k)
        f.body[n:n + 1] = [tree.Statement([w], "jnp.zeros(%r, %r)" % t, types=[t]) for w, t in zip(s.writes, s.types)]
        yield c
    # What a loop computes for an element that it carries: the element as it was.
    for k, f in enumerate(tree.functions_of(p)):
        groups = [g for g in f.params if isinstance(g, list)]
        if len(groups) != 1 or not f.results or not isinstance(f.results[0], list) or len(f.results[0]) != len(groups[0]):
            continue
        for e, name in enumerate(groups[0]):
            if f.results[0][e] != name:
                c = tree.clone(p)
                function_at(c, k).results[0][e] = name
                yield c
    for k, n in places(p):
        number = function_at(p, k).body[n].numbers.get("n", 0)
        for less in {0, 1, number // 2}:
            if less < number:
                c = tree.clone(p)
                function_at(c, k).body[n].numbers["n"] = less
                yield c


def shrink(p, fails, tries=200, seconds=180):
    """`fails(program)`: whether it still shows what is looked for. -> (smallest program, tries taken)"""
    end, tried, better = time.monotonic() + seconds, 0, True
    while better:
        better = False
        for c in candidates(p):
            if tried >= tries or time.monotonic() > end:
                return p, tried
            generate.tidy(c)
            without_unread_arguments(c)
            if tree.source(c) == tree.source(p):
                continue
            tried += 1
            if fails(c):
                p, better = c, True
                break
    return p, tried
