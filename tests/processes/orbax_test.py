"""Checkpoints by orbax from several processes: a run in which a process is killed, started again, goes on from the last
checkpoint and computes the bits of a run without a failure. Needs orbax-checkpoint in the Python that runs this."""
import argparse
import sys
import tempfile

from run import Run


def lines(run, word):
    return [[line for line in o.splitlines() if line.startswith(word)] for o in run.outputs]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plugin")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--devices", type=int, default=2, help="of each process")
    parser.add_argument("--option", action="append", default=["collective_timeout_seconds=20"])
    a = parser.parse_args()

    def start(folder, *arguments):
        return Run("orbax_checkpoint.py", a.plugin, a.processes, a.devices, a.option,
                   [f"folder={folder}", "steps=6", *arguments]).wait(300)

    for how in ("async=0", "async=1"):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            whole = start(one, how)
            assert all("DONE" in o for o in whole.outputs), whole.outputs[0][-1500:]
            harmed = start(two, how, "die=3")
            for errors in lines(harmed, "ERROR ")[:-1]:
                assert errors and f"process {a.processes - 1} is lost" in errors[0], harmed.outputs[0][-1500:]
            again = start(two, how)
            for i, resumed in enumerate(lines(again, "RESUMED ")):
                assert resumed and "DONE" in again.outputs[i], again.outputs[i][-1500:]
                got, want = lines(again, "STEP ")[i], lines(whole, "STEP ")[i]
                assert 0 < len(got) < len(want) and got == want[-len(got):], (got, want)
            print(f"{how}: {resumed[0]}, and the bits of the run without a failure")


if __name__ == "__main__":
    sys.exit(main())
