"""Data movement, as programs of one operation: our plugin, XLA's and memcpy in alternation.

Prints for each the times of both plugins, their ratio, and the bandwidth of ours as a part of memcpy's: the result's
bytes copied by one thread of this process. Values must be equal to the last bit. Lists at the end where ours takes more
than 1.1 of XLA's time; writes out/movement.json.
"""
import pathlib
import statistics
import sys
import tempfile
import time

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "samples" / "jax"))

SIZES = {"16K": 1 << 14, "1M": 1 << 20, "64M": 1 << 26}
TYPES = {"s8": np.int8, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "c64": np.complex64}


class Movement:
    """A workload of bench/worker.py whose arguments are created on demand."""
    tolerance = 0

    def __init__(self, name, function, type_name, *shapes):
        self.name, self.function, self.type, self.shapes = name, function, TYPES[type_name], shapes

    @property
    def arguments(self):
        def one(i, shape):
            values = np.random.default_rng(i).integers(-100, 100, shape)
            return values.astype(np.float32).astype(self.type) if self.type == ml_dtypes.bfloat16 else values.astype(self.type)
        return tuple(one(i, s) for i, s in enumerate(self.shapes))


def rectangle(elements):
    """Two powers of two, the second no less than the first."""
    rows = 1 << ((elements.bit_length() - 1) // 2)
    return rows, elements // rows


def all_workloads():
    out = []

    def add(name, function, type_name, *shapes):
        out.append(Movement(name, function, type_name, *shapes))

    for label, size in SIZES.items():
        for t in TYPES:
            width = np.dtype(TYPES[t]).itemsize
            n = size // width
            r, c = rectangle(n)
            add(f"transpose {t} {label}", lambda x: x.T, t, (r, c))
            if t in ("s8", "bf16", "f32"):
                add(f"transpose odd {t} {label}", lambda x: x.T, t, (r - 1, c + 1))
                for p in ((0, 2, 1), (1, 0, 2), (2, 0, 1), (2, 1, 0), (1, 2, 0)):
                    a, b = rectangle(n // 16)
                    add(f"transpose {''.join(map(str, p))} {t} {label}", lambda x, p=p: x.transpose(p), t, (16, a, b) if p == (0, 2, 1) else (a, 16, b))
                pixels = n // 64
                h, w = rectangle(pixels)
                add(f"transpose nhwc-nchw {t} {label}", lambda x: x.transpose(0, 3, 1, 2), t, (1, h, w, 64))
                add(f"transpose nchw-nhwc {t} {label}", lambda x: x.transpose(0, 2, 3, 1), t, (1, 64, h, w))
                add(f"transpose heads {t} {label}", lambda x: x.transpose(0, 2, 1, 3), t, (1, n // 512, 8, 64))
        for t in ("s8", "f32"):
            n = size // np.dtype(TYPES[t]).itemsize
            r, c = rectangle(n)
            half = (r // 2, c)
            add(f"copy {t} {label}", jnp.copy, t, (r, c))
            add(f"concatenate rows {t} {label}", lambda a, b: jnp.concatenate([a, b], 0), t, half, half)
            add(f"concatenate columns {t} {label}", lambda a, b: jnp.concatenate([a, b], 1), t, (r, c // 2), (r, c // 2))
            add(f"concatenate columns odd {t} {label}", lambda a, b: jnp.concatenate([a, b], 1), t, (r, c // 2 - 3), (r, c // 2 + 3))
            add(f"pad {t} {label}", lambda x: jnp.pad(x, ((1, 1), (3, 5))), t, (r - 2, c - 8))
            add(f"pad rows {t} {label}", lambda x: jnp.pad(x, ((8, 8), (0, 0))), t, (r - 16, c))
            add(f"slice rows {t} {label}", lambda x: x[3:-3], t, (r + 6, c))
            add(f"slice columns {t} {label}", lambda x: x[:, 3:-5], t, (r, c + 8))
            add(f"slice stride 2 {t} {label}", lambda x: x[:, ::2], t, (r, 2 * c))
            add(f"reverse rows {t} {label}", lambda x: x[::-1], t, (r, c))
            add(f"reverse columns {t} {label}", lambda x: x[:, ::-1], t, (r, c))
            add(f"broadcast rows {t} {label}", lambda x, r=r, c=c: jnp.broadcast_to(x, (r, c)), t, (c,))
            add(f"broadcast columns {t} {label}", lambda x, r=r, c=c: jnp.broadcast_to(x[:, None], (r, c)), t, (r,))
            add(f"update slice {t} {label}", lambda x, u: lax.dynamic_update_slice(x, u, (1, 2)), t, (r, c), (r // 2, c // 2))
    return out


def main():
    import main_job
    import run

    opt, plugins = run.options(__doc__, 0.05)

    def memcpy(size):
        source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
        times, end = [], time.perf_counter() + opt.slice
        while len(times) < 5 or time.perf_counter() < end:
            start = time.perf_counter()
            np.copyto(target, source)
            times.append(time.perf_counter() - start)
        return min(times)

    rows, failures = [], []
    print(f"{'':34}{'ours':>11}{'xla':>11}{'ratio min':>11}{'median':>8}{'of memcpy':>11}")
    with tempfile.TemporaryDirectory() as scratch:
        workers = {road: main_job.Worker(road, plugins[road], "movement:" + opt.pattern, script=HERE / "worker.py") for road in main_job.PLUGINS}
        for name in workers["xla"].hello["names"]:
            try:
                row = run.measure(name, 0, workers, opt, scratch)
            except main_job.Failed as e:
                failures.append(f"{name}: {e}")
                break
            with np.load(f"{scratch}/ours.npz") as values:
                size = sum(values[f].nbytes for f in values.files)
            row["memcpy"] = memcpy(size)
            rows.append(row)
            if not row["right"]:
                failures.append(f"{name}: values differ by {row['difference']:.2g}")
            print(f"{name:34}{main_job.show(row['step']['ours']['min']):>11}{main_job.show(row['step']['xla']['min']):>11}{row['ratio_min']:11.2f}{row['ratio_median']:8.2f}"
                  f"{row['memcpy'] / row['step']['ours']['min']:11.2f}{'' if row['right'] else '  WRONG'}", flush=True)
        for w in workers.values():
            w.close()
    if rows:
        slow = sorted((r for r in rows if min(r["ratio_min"], r["ratio_median"]) > 1.1), key=lambda r: -r["ratio_min"])
        print(f"\n{len(rows)} operations, {statistics.geometric_mean(r['ratio_min'] for r in rows):.2f} of XLA's time in the geometric mean; above 1.1 of it:")
        for r in slow:
            print(f"  {r['name']:34}{r['ratio_min']:6.2f}{r['ratio_median']:6.2f}")
    return run.finish(opt.out / "movement.json", rows, failures)


if __name__ == "__main__":
    sys.exit(main())
