"""Tests that the code in the tutorial is real: each fenced block of docs/writing_a_plugin.md and docs/embedding.md names a file and
occurs in it, line for line."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TUTORIAL = ROOT / "docs/writing_a_plugin.md"
BLOCK = re.compile(r"^```(\S*)[ ]*(\S*)\n(.*?)^```$", re.M | re.S)


def problems(text, read):
    """One message for each block of `text` that is not in the file it names; `read` gives a file's text or None."""
    found = []
    for language, name, code in BLOCK.findall(text):
        if not name:
            found.append(f"a block of {language or 'no language'} names no file:\n{code}")
        elif read(name) is None:
            found.append(f"{name}: no such file")
        elif f"\n{code}" not in f"\n{read(name)}":
            found.append(f"{name}: does not hold\n{code}")
    return found


def self_check():
    files = {"a.cc": "int a;\nint b;\nint c;\n"}
    good = ["```cpp a.cc\nint a;\nint b;\n```\n", "```cpp a.cc\nint c;\n```\n"]
    bad = ["```cpp a.cc\nint a;\nint c;\n```\n", "```cpp b.cc\nint a;\n```\n", "```cpp\nint a;\n```\n", "```cpp a.cc\nnt a;\n```\n"]
    assert not any(problems(t, files.get) for t in good)
    assert all(problems(t, files.get) for t in bad)


def main():
    self_check()
    text = TUTORIAL.read_text()
    both = text + (ROOT / "docs/embedding.md").read_text()
    found = problems(both, lambda name: (ROOT / name).read_text() if (ROOT / name).is_file() else None)
    count = len(BLOCK.findall(text))
    used = {name for _, name, _ in BLOCK.findall(text)}
    for needed in ("samples/backend/kernels.cc", "samples/backend/my_backend.cc", "samples/backend/my_device.cc",
                   "samples/queue_backend/client.cc", "samples/queue_backend/programs.cc"):
        if needed not in used:
            found.append(f"{TUTORIAL.name}: shows nothing of {needed}")
    lines = sum(len((ROOT / f"samples/backend/{n}").read_text().splitlines()) for n in ("kernels.h", "kernels.cc", "my_backend.cc"))
    if lines >= 250:
        found.append(f"the sample has {lines} lines, promised are fewer than 250")
    print("\n".join(found) if found else f"tutorial: {count} blocks stand in their files; the sample has {lines} lines")
    return 1 if found else 0


sys.exit(main())
