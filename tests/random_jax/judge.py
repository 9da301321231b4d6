"""Decides whether two results of a program are equal up to rounding.

No bound is carried along the program. Instead JAX's own client runs it again from arguments that are moved by a few units in
the last place: what that changes in a result, rounding may change too. An element may differ by `FACTOR` times the greatest
change seen, and by `UNITS` units in the last place of the element and of the array's mean square, for what is rounded
between: sums may be added in any order, functions may be wrong by a few units. An element that a move changes by more than
`TELLING` of its array's size, or an integer or truth value that it changes at all, hangs on rounding and is not compared: an
argmax between equals, a loop that goes on while a sum is below a limit. Integers and truth values else agree to the bit.

Units are those of the narrowest float type that the program's text names: a number of f64 may have been one of f32 before.
"""
import numpy as np

FACTOR = 16
UNITS = {"float64": 2000, "float32": 300, "float16": 24, "bfloat16": 12, "complex64": 300, "complex128": 2000}
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "complex64": 2.0**-23, "complex128": 2.0**-52}
TELLING = 0.02


def narrowest(source):
    """The float type of the least digits that occurs in a program."""
    for dtype, words in (("bfloat16", ["bfloat16"]), ("float16", ["float16"]), ("float32", ["float32", "complex64"])):
        if any(w in source for w in words):
            return dtype
    return "float64"


def moved(array, rng, narrow):
    """The same argument a few units in the last place away."""
    dtype = str(array.dtype)
    if dtype not in EPSILON:
        return array
    unit = max(EPSILON[dtype], EPSILON[narrow] / (4 if "16" in narrow else 1)) * 8
    wide = np.asarray(array).astype("complex128" if dtype.startswith("complex") else "float64")
    return (wide * (1 + unit * rng.uniform(-1, 1, wide.shape))).astype(array.dtype)


def compare(expected, others, found, narrow="float64"):
    """expected, found: arrays; others: what moved arguments gave; narrow: what `narrowest` says. -> (what is wrong or "", compared, undecided)"""
    if len(expected) != len(found):
        return f"{len(found)} results, {len(expected)} expected", 0, 0
    compared = undecided = 0
    for k, (e, f) in enumerate(zip(expected, found)):
        if e.shape != f.shape or e.dtype != f.dtype:
            return f"result {k}: {f.dtype}{list(f.shape)}, {e.dtype}{list(e.shape)} expected", compared, undecided
        dtype, rest = str(e.dtype), [o[k] for o in others]
        if dtype not in EPSILON:
            decided = np.ones(e.shape, bool)
            for o in rest:
                decided &= o == e
            wrong = decided & (e != f)
        else:
            wide = "complex128" if dtype.startswith("complex") else "float64"
            e, f, rest = e.astype(wide), f.astype(wide), [o.astype(wide) for o in rest]
            with np.errstate(all="ignore"):
                finite = np.isfinite(e)
                size = float(np.sqrt(np.mean(np.square(np.abs(e[finite]))))) if finite.any() else 0.0
                change, decided = np.zeros(e.shape), np.ones(e.shape, bool)
                for o in rest:
                    change = np.maximum(change, np.where(finite, np.abs(o - e), 0))
                    decided &= np.isfinite(o) == finite
                # What one element does under a move its neighbours may do under another.
                change = np.maximum(change, np.median(change) if change.size else 0)
                decided &= change <= TELLING * np.maximum(np.abs(np.where(finite, e, 0)), size) + 1e-30
                rounding = max(UNITS[t] * EPSILON[t] for t in (dtype, narrow))
                bound = FACTOR * change + rounding * (np.where(finite, np.abs(e), 0) + size) + 1e-30
                same = np.where(finite, np.abs(f - e) <= bound, (e == f) | (np.isnan(e) & np.isnan(f)))
            wrong = decided & ~same
        compared += int(decided.sum())
        undecided += int(decided.size - decided.sum())
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return (f"result {k} {dtype}{list(e.shape)}: {int(wrong.sum())} elements, {list(at)} expected {e[at]}, found {f[at]}", compared, undecided)
    return "", compared, undecided
