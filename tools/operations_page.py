"""operations_page.py --run-cases TOOL --plugin cpu=PATH --plugin reference=PATH [--check]

Writes docs/operations.md: every operation by every element type, and what each plugin of this build does with it. The
programs are those of conformance/cases/ops; what is compiled and what interpreted is read from the compile log. With
--check nothing is written, and the exit status says whether the page that is there is the one that would be.
"""
import argparse
import collections
import concurrent.futures
import csv
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "operations.md"
TYPES = ("pred s2 s4 s8 s16 s32 s64 u2 u4 u8 u16 u32 u64 f4e2m1fn f8e3m4 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0fnu "
         "f16 bf16 f32 f64 c64 c128").split()
# Types that nearly always share a fate stand in one column; where they do not, the cell says so.
COLUMNS = [("pred", "pred"), ("s2 s4 u2 u4", "s2 s4 u2 u4"), ("s8 s16 s32 s64", "s8-s64"), ("u8 u16 u32 u64", "u8-u64"), ("f4e2m1fn", "f4"),
           ("f8e3m4 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e4m3fnuz f8e5m2 f8e5m2fnuz", "f8"), ("f8e8m0fnu", "e8m0"), ("f16 bf16", "f16 bf16"),
           ("f32 f64", "f32 f64"), ("c64 c128", "c64 c128")]
LINE = re.compile(r"interpreted: (\S+) .*?: (.*)")

HEAD = """# Operations

This page lists, for each operation and element type, whether the CPU plugin compiles, interprets or refuses it. `tools/operations_page.py`
generates the page from the programs in `conformance/cases/ops` and the compile logs of the plugins; a test fails if it is out of date. The
entries of the tables mean:

| | |
|---|---|
| **c** | compiled: machine code, or a call into a library |
| *i* | interpreted: the evaluator runs at least one instruction of the program; the reasons are listed below the tables |
| c/*i* | compiled in some of the forms or types that were tried, interpreted in others |
| n | not implemented |
| – | refused: the programs of this row are invalid for this element type. Mostly the operation itself does not accept the type; in a few rows another operation of the program does not (the program of `Call` also subtracts) |
| | not tried |

If the types of one column have different entries, the cell names them. If the type of the result is not that of the operand (`convert`,
`compare`, `is_finite`), the column is that of the operand's type; for an operation without operands it is that of the result's type. Rows are
those of `conformance/ops.csv`.

The reference plugin evaluates every operation by its definition. The end of the page lists operations for which it accepts other element types
than the CPU plugin.
"""


def run(tool, plugin, path):
    command = [str(tool), str(path), str(ROOT / "conformance" / "cases" / "ops"), "--table", "--option", "cpu_device_count=8"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"operations_page: {plugin}: {' '.join(command)} ended with {result.returncode}: {result.stderr[-500:]}")
    table = collections.defaultdict(list)
    for line in result.stdout.splitlines():
        row, case, kind, verdict, why = line.split("\t")
        table[row, kind].append((case, verdict, why))
    return table


def mark(verdicts):
    """Returns one mark for all forms of a cell. Ignores rejected forms if another one is accepted."""
    kinds = {v for _, v, _ in verdicts}
    if not kinds:
        return ""
    if "compiled" in kinds:
        return "c/*i*" if "interpreted" in kinds else "**c**"
    if "interpreted" in kinds:
        return "*i*"
    return "n" if "unimplemented" in kinds else "–"


def cell(table, row, types):
    marks = {t: mark(table.get((row, t), [])) for t in types}
    by_mark = collections.defaultdict(list)
    for t, m in marks.items():
        by_mark[m].append(t)
    if len(by_mark) == 1:
        return next(iter(by_mark))
    return ", ".join(f"{m}: {' '.join(ts)}" for m, ts in by_mark.items() if m)


def interpreted(table, rows):
    """opcode -> reason -> types, of every line of the compile logs."""
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for (row, kind), verdicts in table.items():
        if row not in rows:
            continue
        for _, verdict, why in verdicts:
            for line in why.split(" | ") if verdict == "interpreted" else ():
                m = LINE.search(line)
                found[m.group(1) if m else row][m.group(2) if m else line].add(kind)
    return found


def page(tables):
    rows = list(csv.DictReader((ROOT / "conformance" / "ops.csv").open(newline="")))
    cpu, reference = tables["cpu"], tables["reference"]
    out = [HEAD]
    for category in dict.fromkeys(r["category"] for r in rows):
        out.append(f"\n## {category.replace('-', ' ').capitalize()}\n")
        out.append("| operation | " + " | ".join(title for _, title in COLUMNS) + " |")
        out.append("|---|" + "---|" * len(COLUMNS))
        for r in rows:
            if r["category"] == category:
                out.append(f"| {r['row']} | " + " | ".join(cell(cpu, r["row"], types.split()) for types, _ in COLUMNS) + " |")
    names = {r["row"] for r in rows}
    out.append("\n## What the CPU plugin interprets\n")
    found = interpreted(cpu, names)
    if not found:
        out.append("Nothing.")
    for opcode in sorted(found):
        for reason in sorted(found[opcode]):
            kinds = sorted(found[opcode][reason], key=TYPES.index)
            out.append(f"- `{opcode}`: {reason} ({' '.join(kinds)})")
    out.append("\n## Where the reference plugin differs\n")
    taken = ("compiled", "interpreted")
    lines = []
    for r in rows:
        only = {"cpu": [], "reference": []}
        for t in TYPES:
            a, b = ({v in taken for _, v, _ in table.get((r["row"], t), [])} for table in (cpu, reference))
            if (True in a) != (True in b):
                only["cpu" if True in a else "reference"].append(t)
        for plugin, types in only.items():
            if types:
                lines.append(f"- {r['row']}: only the {plugin} plugin takes {' '.join(types)}")
    out += lines or ["Nowhere."]
    return "\n".join(out) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--run-cases", type=pathlib.Path, required=True)
    p.add_argument("--plugin", action="append", required=True, help="NAME=PATH, of cpu and reference")
    p.add_argument("--check", action="store_true")
    opt = p.parse_args()
    plugins = dict(x.split("=", 1) for x in opt.plugin)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        tables = dict(zip(plugins, pool.map(lambda kv: run(opt.run_cases, *kv), plugins.items())))
    text = page(tables)
    if not opt.check:
        PAGE.write_text(text)
        return 0
    old = PAGE.read_text() if PAGE.exists() else ""
    if old == text:
        return 0
    new_lines, old_lines = text.splitlines(), old.splitlines()
    for line in [f"- {l}" for l in old_lines if l not in new_lines][:20] + [f"+ {l}" for l in new_lines if l not in old_lines][:20]:
        print(line)
    print(f"{PAGE.relative_to(ROOT)} is out of date; run tools/operations_page.py without --check")
    return 1


if __name__ == "__main__":
    sys.exit(main())
