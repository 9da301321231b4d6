"""profile_test.py BACKPLANE CPU_PLUGIN REFERENCE_PLUGIN: `backplane run --profile` as users call it."""
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

BACKPLANE, CPU, REFERENCE = sys.argv[1:4]
PROGRAM = """
module @mm {
  func.func public @main(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>) -> tensor<64x16xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
    %1 = stablehlo.exponential %0 : tensor<64x16xf32>
    return %1 : tensor<64x16xf32>
  }
}
"""


def run(*args, code=0):
    done = subprocess.run([BACKPLANE, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"{args}: ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        program, trace, page = (pathlib.Path(folder) / name for name in ("mm.mlir", "trace.json", "page.html"))
        program.write_text(PROGRAM)
        found = json.loads(run("run", CPU, program, "--profile", "--profile-runs", 4, "--profile-trace", trace, "--json"))
        profile = found["profile"]
        assert found["results"], "the results are missing"
        assert profile["runs"] == 4 and profile["flops_per_second"] > 0 and profile["bytes_per_second"] > 0, profile
        operations = profile["operations"]
        assert all(o["count"] == 4 and o["seconds"] > 0 and o["opcode"] for o in operations), operations
        assert sum(o["flops"] for o in operations) >= 2 * 64 * 32 * 16, operations
        assert sum(o["bytes_accessed"] for o in operations) >= 4 * (64 * 32 + 32 * 16 + 64 * 16), operations
        assert all(o["fraction_of_rates"] > 0 for o in operations), operations
        assert sum(o["seconds"] for o in operations) <= profile["seconds"], profile
        events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
        assert sum(e["name"] == operations[0]["name"] for e in events) == 4, events
        assert min(e["ts"] for e in events) == 0 and all(e["dur"] >= 0 for e in events), events
        table = run("run", CPU, program, "--profile")
        assert operations[0]["name"] in table and "10 runs" in table and "GFLOP/s" in table, table
        assert all(o["kernel"] for o in operations), operations
        # The page is well-formed, and its table has a row for each operation, with its kernel and why faster ones were not used.
        run("run", CPU, program, "--profile-page", page)
        html = xml.parse(page).getroot()
        name = "{http://www.w3.org/1999/xhtml}%s"
        rows = ["".join(row.itertext()) for row in html.iter(name % "tr")][1:]
        assert len(rows) == len(operations), rows
        for o in operations:
            (row,) = [r for r in rows if r.startswith(o["name"] + o["opcode"])]
            assert o["kernel"] in row and "B/s" in row and ("FLOP/s" in row) == (o["flops"] > 0), row
            assert ("not used, because:" in row) == (o["opcode"] == "dot"), row
        # A plugin that records whole programs only.
        (program_row,) = json.loads(run("run", REFERENCE, program, "--profile", "--json"))["profile"]["operations"]
        run("run", REFERENCE, program, "--profile-page", page)
        assert "mm" in "".join(xml.parse(page).getroot().itertext())
        assert program_row["name"] == "mm" and program_row["count"] == 10 and not program_row["opcode"], program_row
        run("run", CPU, program, "--profile", "--profile-runs", 0, code=2)


main()
