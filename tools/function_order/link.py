"""link.py ORDER COMMAND...: links twice, the second time with the functions that ORDER lists first and in that order.

COMMAND is the link command of a shared library, with lld. A process that opens the library and compiles a program uses a
fifth of its code. Without an order those functions lie in all parts of 26 MB, and Linux maps 64 KiB around each: together
20 MB. In order they take 10 MB and 150 page faults less.

ORDER has six hexadecimal digits for each function, the CRC of its name (record.py writes it), because the names take a
megabyte. Names that do not exist any more do no harm, and a function that is missing is only linked elsewhere.
"""
import pathlib
import subprocess
import sys
import tempfile
import zlib


def read_order(path):
    """The position of each CRC in the order."""
    digits = "".join(line.strip() for line in path.read_text().splitlines() if not line.startswith("#"))
    return {digits[i:i + 6]: i for i in range(0, len(digits), 6)}


def compute_crc(name):
    return f"{zlib.crc32(name.encode()) & 0xffffff:06x}"


def list_functions(library):
    """The names of the functions that a library defines, once each."""
    lines = subprocess.run(["nm", "--defined-only", "--no-sort", str(library)], check=True, capture_output=True, text=True).stdout.splitlines()
    words = (line.split() for line in lines)
    return dict.fromkeys(w[2] for w in words if len(w) == 3 and w[1] in "tTwW")


def main():
    order, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
    subprocess.run(command, check=True)
    library = pathlib.Path(command[command.index("-o") + 1])
    positions = read_order(order)
    known = [(positions[crc], name) for name in list_functions(library) if (crc := compute_crc(name)) in positions]
    with tempfile.NamedTemporaryFile("w") as names:
        names.write("".join(f"{name}\n" for _, name in sorted(known)))
        names.flush()
        subprocess.run([*command, f"-Wl,--symbol-ordering-file={names.name}", "-Wl,--no-warn-symbol-ordering"], check=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as e:
        sys.exit(e.returncode)
