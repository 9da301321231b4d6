"""Compares the results of one client with the oracle's, leaf by leaf."""
import numpy as np


def compare_leaf(got, want, rtol, atol):
    """Returns None if the leaf agrees, otherwise a sentence."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "biuSU":
        wrong = int(np.sum(got != want))
        return f"{wrong} of {want.size} values differ" if wrong else None
    if want.dtype.kind == "V":  # ml_dtypes, of which a file keeps the bytes
        return None if got.tobytes() == want.tobytes() else "bytes differ"
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    finite = np.isfinite(want)
    if not np.array_equal(np.isnan(got), np.isnan(want)) or not np.array_equal(got[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)]):
        return f"{int(np.sum(~np.isfinite(got)))} values are not finite, expected {int(np.sum(~finite))}, or at other places"
    if not finite.any():
        return None
    got, want = got[finite], want[finite]
    excess = np.abs(got - want) - (rtol * float(np.max(np.abs(want))) + atol)
    if np.max(excess) <= 0:
        return None
    i = int(np.argmax(excess))
    return f"{int(np.sum(excess > 0))} of {want.size} values differ: {got.flat[i]!r}, expected {want.flat[i]!r}"


def largest_error(got, want):
    """The largest difference in a file of results, relative to each leaf's largest value; for the table."""
    worst = 0.0
    for name in want.files:
        a, b = got[name], want[name]
        if b.dtype.kind not in "fc" or a.shape != b.shape:
            continue
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        a, b = a.astype(wide), b.astype(wide)
        both = np.isfinite(a) & np.isfinite(b)
        if both.any():
            worst = max(worst, float(np.max(np.abs(a[both] - b[both])) / max(1.0, np.max(np.abs(b[both])))))
    return worst


def compare(got, want, workload):
    """Returns a line for each leaf that differs; empty if the files agree."""
    if sorted(got.files) != sorted(want.files):
        return [f"results {sorted(got.files)}, expected {sorted(want.files)}"]
    if not want.files:
        return ["no results"]
    found = ((name, compare_leaf(got[name], want[name], workload.rtol, workload.atol)) for name in want.files)
    return [f"{name}: {what}" for name, what in found if what]
