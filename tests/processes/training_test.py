"""Training over several processes gives the losses of one process with as many devices, bit for bit."""
import argparse
import sys

from run import Run


def losses(run):
    assert all("DONE" in o for o in run.outputs), "\n".join(o[-1500:] for o in run.outputs)
    lines = [[line for line in o.splitlines() if line.startswith("STEP ")] for o in run.outputs]
    assert all(x == lines[0] for x in lines), "the processes disagree"
    return lines[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plugin")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--option", action="append", default=[])
    a = parser.parse_args()
    for layout in ("data", "tensor", "both"):
        arguments = [f"layout={layout}", f"steps={a.steps}"]
        one = losses(Run("training.py", a.plugin, 1, a.processes * a.devices, arguments=arguments).wait(280))
        several = losses(Run("training.py", a.plugin, a.processes, a.devices, a.option, arguments).wait(280))
        assert len(one) == a.steps and one == several, "\n".join(f"{x} | {y}" for x, y in zip(one, several) if x != y)
        print(f"{layout}: {a.steps} losses are equal bit for bit; the last: {one[-1]}")


if __name__ == "__main__":
    sys.exit(main())
