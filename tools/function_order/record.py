"""record.py PLUGIN ORDER < COMMANDS: writes into ORDER which functions of a plugin programs call.

Each line of the standard input is a shell command that uses the plugin; `{plugin}` in it is replaced by the path of a copy
in which each function begins with a breakpoint. trap.c removes a breakpoint when it is met, and notes it: so each function
costs one signal. A command may take a few seconds more than without. Functions that all commands call come first, then
those of at least a third, then those of at least a tenth, each in the order of the first calls. link.py reads ORDER.

Record it again after a change of LLVM's release or when much of the compiler was rewritten: about 90 programs of different
kinds (bench/workloads.py) give a good order. PLUGIN must be linked with its symbols.
"""
import collections
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

from link import compute_crc

BREAKPOINT = 0xCC
MOST_SIGNALS = 400_000  # as in trap.c


def list_sections(plugin):
    """For each section of code its number, address and offset in the file."""
    sections = {}
    for line in subprocess.run(["readelf", "-SW", str(plugin)], check=True, capture_output=True, text=True).stdout.splitlines():
        words = line.replace("[ ", "[").split()
        if len(words) > 5 and words[1].startswith(".text"):
            sections[words[0].strip("[]")] = (int(words[3], 16), int(words[4], 16))
    return sections


def list_functions(plugin):
    """The names of the functions by their offsets in the file."""
    sections, names = list_sections(plugin), {}
    for line in subprocess.run(["readelf", "-sW", str(plugin)], check=True, capture_output=True, text=True).stdout.splitlines():
        words = line.split()
        if len(words) == 8 and words[3] == "FUNC" and words[6] in sections and int(words[2], 0) > 0:
            address, offset = sections[words[6]]
            names.setdefault(int(words[1], 16) - address + offset, []).append(words[7])
    return names


def record(command, folder, plugin):
    """The offsets of the functions that one command calls, in the order of the first calls."""
    log = folder / "calls"
    log.unlink(missing_ok=True)
    env = os.environ | {"BACKPLANE_TRAP_ORIGINAL": str(plugin), "BACKPLANE_TRAP_LOG": str(log), "LD_PRELOAD": str(folder / "trap.so")}
    run = subprocess.run(command.replace("{plugin}", str(folder / "trapped_plugin.so")), shell=True, env=env, stdout=subprocess.DEVNULL)
    if run.returncode != 0 or not log.exists():
        sys.exit(f"record: status {run.returncode}: {command}")
    data = log.read_bytes()
    count = min(struct.unpack_from("<I", data)[0], MOST_SIGNALS)
    return list(dict.fromkeys(struct.unpack_from(f"<{count}I", data, 4)))


def main():
    plugin, order = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    commands = [line.strip() for line in sys.stdin if line.strip()]
    names = list_functions(plugin)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        source = pathlib.Path(__file__).with_name("trap.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(folder / "trap.so"), str(source)], check=True)
        data = bytearray(plugin.read_bytes())
        for offset in names:
            data[offset] = BREAKPOINT
        (folder / "trapped_plugin.so").write_bytes(data)
        uses, first = collections.Counter(), {}
        for command in commands:
            for position, offset in enumerate(record(command, folder, plugin)):
                uses[offset] += 1
                first[offset] = min(first.get(offset, position), position)
    shares = [len(commands), len(commands) / 3, len(commands) / 10]
    chosen = [o for o in uses if uses[o] >= shares[-1] and o in names]
    chosen.sort(key=lambda o: (next(i for i, share in enumerate(shares) if uses[o] >= share), first[o], o))
    digits = "".join(compute_crc(names[o][0]) for o in chosen)
    text = "# The functions of the CPU plugin that programs call first: CRCs of their names (tools/function_order/link.py).\n"
    order.write_text(text + "".join(digits[i:i + 120] + "\n" for i in range(0, len(digits), 120)))
    print(f"{len(uses)} functions called, {len(chosen)} of them by a tenth of {len(commands)} programs or more")


if __name__ == "__main__":
    main()
