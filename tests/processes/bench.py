"""Collectives over several processes beside those of JAX's own CPU client with Gloo, in runs that take turns."""
import argparse
import collections
import sys

from run import Run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plugin")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="1024,1048576,67108864")
    parser.add_argument("--option", action="append", default=[])
    a = parser.parse_args()
    best = collections.defaultdict(lambda: [float("inf")] * 4)
    for _ in range(a.rounds):
        for which, plugin in enumerate((a.plugin, None)):
            run = Run("bench.py", plugin, a.processes, 1, a.option if plugin else (), [f"sizes={a.sizes}"]).wait(400)
            assert all("DONE" in o for o in run.outputs), "\n".join(o[-1500:] for o in run.outputs)
            for line in run.outputs[0].splitlines():
                if line.startswith("TIME "):
                    _, name, size, _, least, _, median = line.split()
                    row = best[name, int(size)]
                    row[which] = min(row[which], float(least))
                    row[2 + which] = min(row[2 + which], float(median))
    print(f"{a.processes} processes, microseconds of a call: smallest (median); ratio below 1: the plugin is faster")
    for (name, size), (ours, theirs, our_median, their_median) in best.items():
        print(f"{name:15} {size:9} bytes: plugin {ours:9.0f} ({our_median:9.0f})  JAX with Gloo {theirs:9.0f} ({their_median:9.0f})"
              f"  ratio {ours / theirs:.2f} ({our_median / their_median:.2f})")


if __name__ == "__main__":
    sys.exit(main())
