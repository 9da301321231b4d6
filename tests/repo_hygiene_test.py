"""Checks that the repository has no machine paths, leftovers or oversized files."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 1000
MAX_BYTES = 1_000_000
LONG_BY_NATURE = re.compile(r"^api/pjrt_c_api\.h$|^api/abi/|\.(json|mlir|hlo|txt|svg)$")
CODE = re.compile(r"\.(h|cc|c|py|sh|cmake)$|(^|/)(CMakeLists\.txt|dev|run)$")

# Assembles each pattern here, so that this file does not match it.
PATTERNS = {
    "a path of one machine": re.compile(r"(?<![\w.$}])/" + "(work|root|home)" + r"/\w"),
    "a registry's host": re.compile(r"\b(py" + r"pi\.org|files\.python" + r"hosted\.org|deb\.deb" + r"ian\.org|index\.cr" + r"ates\.io)\b"),
    "work left for later": re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b"),
    "a merge mark": re.compile(r"^(<{7}|>{7}) ", re.M),
}


def problems(name, data):
    """One message for each thing wrong with the file `name` of content `data`."""
    found = []
    if len(data) > MAX_BYTES:
        found.append(f"{name}: {len(data)} bytes, at most {MAX_BYTES}")
    if b"\0" in data:
        return found
    text = data.decode("utf-8", errors="replace")
    lines = text.count("\n")
    if lines > MAX_LINES and not LONG_BY_NATURE.search(name):
        found.append(f"{name}: {lines} lines, at most {MAX_LINES}")
    if CODE.search(name):
        if text and not text.endswith("\n"):
            found.append(f"{name}: no line end at its end")
        if "\r" in text:
            found.append(f"{name}: carriage returns")
    for what, pattern in PATTERNS.items():
        m = pattern.search(text)
        if m:
            found.append(f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {what}: '{m.group(0).strip()}'")
    return found


def self_check():
    bad = {"a.cc": b"int x;", "b.cc": b"// TO" + b"DO later\n", "c.md": b"see /wo" + b"rk/x\n", "d.cc": b"\n" * 1001, "e.txt": b"x" * 1_000_001}
    good = {"a.cc": b"int x;\n", "b.md": b"out/work/x and ${ROOT}/home\n", "c.json": b"\n" * 5000}
    return ([f"self check: {n} should be refused" for n, d in bad.items() if not problems(n, d)] +
            [f"self check: {n}: {problems(n, d)}" for n, d in good.items() if problems(n, d)])


def main():
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    names = [n for n in names if (ROOT / n).is_file()]
    found = self_check()
    for name in names:
        found += problems(name, (ROOT / name).read_bytes())
    print("\n".join(found) if found else f"hygiene: {len(names)} files are clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
