"""Collectives over several processes beside those of JAX's own CPU client with Gloo, or beside those of the plugin with
other options, in runs that take turns.

  bench.py PLUGIN.so
  bench.py PLUGIN.so --other shared_memory_megabytes=0
"""
import argparse
import collections
import sys

from run import Run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plugin")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="1024,1048576,67108864")
    parser.add_argument("--repeat", type=int, help="calls of each operation; not given: 60, or 7 of large ones")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE, a create option")
    parser.add_argument("--other", action="append", default=[], help="NAME=VALUE, a create option of the plugin's other runs")
    a = parser.parse_args()
    best = collections.defaultdict(lambda: [float("inf")] * 6)
    arguments = [f"sizes={a.sizes}"] + ([f"repeat={a.repeat}"] if a.repeat else [])
    other = "other options" if a.other else "JAX with Gloo"
    runs = [(a.plugin, a.option), (a.plugin, a.other) if a.other else (None, ())]
    for _ in range(a.rounds):
        for which, (plugin, options) in enumerate(runs):
            run = Run("bench.py", plugin, a.processes, 1, options, arguments).wait(400)
            assert all("DONE" in o for o in run.outputs), "\n".join(o[-1500:] for o in run.outputs)
            for line in run.outputs[0].splitlines():
                if line.startswith("TIME "):
                    _, name, size, _, least, _, median, _, cpu = line.split()
                    row = best[name, int(size)]
                    row[which] = min(row[which], float(least))
                    row[2 + which] = min(row[2 + which], float(median))
                    row[4 + which] = min(row[4 + which], float(cpu))
    print(f"{a.processes} processes, microseconds of a call: smallest (median; processor time of a process); ratio below 1: the plugin is faster")
    for (name, size), row in best.items():
        text = [f"{x:9.0f} ({y:9.0f}; {z:9.0f})" for x, y, z in zip(row[:2], row[2:4], row[4:])]
        ratios = [x / y for x, y in zip(row[::2], row[1::2])]
        print(f"{name:15} {size:9} bytes: plugin {text[0]}  {other} {text[1]}  ratio {ratios[0]:.2f} ({ratios[1]:.2f}; {ratios[2]:.2f})")


if __name__ == "__main__":
    sys.exit(main())
