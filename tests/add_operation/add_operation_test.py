"""add_operation_test.py --source TREE --build FOLDER --cli backplane --run-cases TOOL --plugin NAME=PATH...

Follows docs/adding_an_operation.md: takes the page's lines into a copy of the files that they belong to, compiles what that
changes, links the command and the plugins with it, and runs the new operation: its cases on each plugin, and a program as
StableHLO text and as portable bytecode.

Only sources that the page changes and those that expand the operation table are compiled. That is enough because the new line
is the table's last one: an object that knows only the enumerators, from a header, stays right.
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

PAGE = "docs/adding_an_operation.md"
TABLE = "core/ops/op_table.def"
# Headers that expand the table, into enumerators and declarations alone. An object that includes another one would have to be
# compiled again, too.
HEADERS = {"core/ir/ops/elementwise.h", "core/ops/op_info.h", "sdk/codegen/vector_math.h"}
# A header that expands the table into code. The few sources that include it are compiled.
CODE_HEADER = "core/ops/elementwise_loops.h"
BLOCK = re.compile(r"^<!-- (\S+)(?: before: (.*?))? -->\n```\w*\n(.*?)^```$", re.M | re.S)
MAX_FILES = 6


def fail(text):
    sys.exit(f"add_operation_test: {text}")


def run(command, **options):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if result.returncode != 0:
        shown = command if isinstance(command, str) else shlex.join(command)
        fail(f"exit status {result.returncode}:\n{shown[:2000]}\n{result.stdout[-6000:]}")
    return result.stdout


def edit(source, copy):
    """Writes the files that the page changes into `copy`; returns their names."""
    files = {}
    for name, before, text in BLOCK.findall((source / PAGE).read_text()):
        if not before:
            files[name] = text
            continue
        lines = (files.get(name) or (source / name).read_text()).splitlines(keepends=True)
        matches = [i for i, line in enumerate(lines) if line.rstrip("\n") == before]
        if len(matches) != 1:
            fail(f"{PAGE}: {name} has {len(matches)} lines {before!r}, expected 1")
        files[name] = "".join(lines[:matches[0]]) + text + "".join(lines[matches[0]:])
    if not 3 <= len(files) <= MAX_FILES:
        fail(f"{PAGE} changes {len(files)} files, expected at most {MAX_FILES}")
    for name, text in files.items():
        path = copy / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return set(files)


def table_users(source):
    """The sources and headers, tests aside, that expand the operation table."""
    found = set()
    for room in ("core", "sdk", "plugins"):
        for path in (source / room).rglob("*"):
            if path.suffix in (".cc", ".h") and not path.stem.endswith("_test") and f'"{TABLE}"' in path.read_text():
                found.add(path.relative_to(source).as_posix())
    return found


def includers(source, headers):
    """The sources in core, tests aside, that include one of these headers, also through another header."""
    texts = {p.relative_to(source).as_posix(): p.read_text() for p in (source / "core").rglob("*")
             if p.suffix in (".cc", ".h") and not p.stem.endswith("_test")}
    reached = set(headers)
    while True:
        more = {n for n, text in texts.items() if n not in reached and any(f'#include "{h}"' in text for h in reached)}
        if not more:
            return {n for n in reached if n.endswith(".cc")}
        reached |= more


def sources_of(entry, source):
    """The sources that a command compiles: several when it compiles a batch."""
    path = pathlib.Path(entry["file"])
    if path.suffix != ".cxx":
        return {path: str(path)}
    return {pathlib.Path(p): p for p in re.findall(r'#include "(.*)"', path.read_text())}


def compile_all(source, build, copy, wanted, log):
    """Compiles the batches that hold the wanted sources. Returns object -> archive that the old object is in."""
    objects = {}
    missing = set(wanted)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        parts = sources_of(entry, source)
        names = {p.relative_to(source).as_posix() for p in parts if p.is_relative_to(source)}
        match = re.search(r" -o (\S+)/CMakeFiles/(bp_\w+)\.dir/(\S+\.o) ", entry["command"])
        if not names & wanted or match is None:
            continue
        folder, library, name = match.groups()
        # A batch of the copy's files where there is one.
        text = "".join(f'#include "{copy / n if (copy / n).exists() else source / n}"\n' for n in sorted(names))
        batch = copy / f"{library}_{name.replace('/', '_')}.cxx"
        batch.write_text(text)
        target = batch.with_suffix(".o")
        command = entry["command"].replace(f" -I{source} ", f" -I{copy} -I{source} ", 1)
        command = command.replace(f" -c {entry['file']}", f" -c {batch}").replace(match.group(0), f" -o {target} ")
        start = time.monotonic()
        run(command, shell=True, cwd=build)
        log(f"{library}: {', '.join(sorted(names & wanted))}: {time.monotonic() - start:.0f} s")
        objects[target] = f"{folder}/lib{library}.a"
        missing -= names
    if missing:
        fail(f"no command compiles {', '.join(sorted(missing))}")
    return objects


def link(build, target, objects, copy, log):
    """Links what the build has at `target` with the new objects in front of their archives."""
    name = target.relative_to(build).as_posix()
    command = run(["ninja", "-C", str(build), "-t", "commands", "-s", name]).splitlines()[-1]
    new = [str(o) for o, archive in objects.items() if archive in command.split()]
    if not new:
        fail(f"{name} is linked with none of {', '.join(objects.values())}")
    out = copy / target.name
    command, count = re.subn(rf" -o {re.escape(name)} ", f" -o {out} {' '.join(new)} ", command, count=1)
    if count != 1:
        fail(f"no '-o {name}' in: {command[:500]}")
    command = command.split(" && ")[1]  # the command itself, without what CMake puts around it
    start = time.monotonic()
    run(command, shell=True, cwd=build)
    log(f"{name}: {time.monotonic() - start:.0f} s")
    return out


PROGRAM = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.cube %x : tensor<4xf32>
  %1 = stablehlo.add %0, %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
INPUT, EXPECTED = "{-3, -1, 1, 2}", [-30.0, -2.0, 2.0, 10.0]


def check_programs(cli, plugins, copy):
    text = copy / "cube.mlir"
    text.write_text(PROGRAM)
    artifact = copy / "cube.mlirbc"
    run([str(cli), "convert", str(text), "--to", "bytecode", "-O", str(artifact)])
    if b"cube_v1" not in artifact.read_bytes():
        fail("the artifact has no op cube_v1")
    back = run([str(cli), "convert", str(artifact), "--to", "stablehlo"])
    if "stablehlo.cube" not in back:
        fail(f"read back from the artifact:\n{back}")
    hlo = run([str(cli), "convert", str(artifact), "--to", "hlo"])
    if " cube(" not in hlo:
        fail(f"as HLO text:\n{hlo}")
    for name, plugin in plugins.items():
        for program in (text, artifact):
            out = run([str(cli), "run", str(plugin), str(program), "-i", INPUT])
            found = [float(x) for x in re.findall(r"-?[\d.]+", out[out.find("{"):])]
            if found != EXPECTED:
                fail(f"{program.name} on {name} gives {found}, expected {EXPECTED}:\n{out}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--source", type=pathlib.Path, required=True)
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--cli", type=pathlib.Path, required=True)
    p.add_argument("--run-cases", type=pathlib.Path, required=True)
    p.add_argument("--plugin", action="append", required=True, help="NAME=PATH of a plugin of the build")
    opt = p.parse_args()
    log = lambda line: print(line, flush=True)
    with tempfile.TemporaryDirectory(prefix="backplane_add_operation_") as folder:
        copy = pathlib.Path(folder)
        changed = edit(opt.source, copy)
        users = table_users(opt.source)
        headers = {u for u in users if u.endswith(".h")} - {CODE_HEADER}
        if headers != HEADERS:
            fail(f"headers that expand {TABLE}: {sorted(headers)}, expected {sorted(HEADERS)}")
        wanted = {f for f in changed | users if f.endswith(".cc")}
        wanted |= includers(opt.source, {CODE_HEADER} | {f for f in changed if f.endswith(".h")})
        log(f"the page changes {len(changed)} files: {', '.join(sorted(changed))}")
        objects = compile_all(opt.source, opt.build, copy, wanted, log)
        cli = link(opt.build, opt.cli, objects, copy, log)
        plugins = {}
        for plugin in opt.plugin:
            name, path = plugin.split("=", 1)
            plugins[name] = link(opt.build, pathlib.Path(path), objects, copy, log)
        check_programs(cli, plugins, copy)
        for name, plugin in plugins.items():
            cases = copy / "conformance/cases/ops"
            log(f"{name}: {run([str(opt.run_cases), str(plugin), str(cases), '--ours']).strip().splitlines()[-1]}")
            table = run([str(opt.run_cases), str(plugin), str(cases), "--table"])
            if name == "cpu" and ("interpreted" in table or "compiled" not in table):
                fail(f"not all of it is compiled on cpu:\n{table}")
    log("done")


if __name__ == "__main__":
    main()
