"""Layouts of the C headers as text.

Reads the preprocessed header for the names of structs, fields and enumerators, then lets the C compiler say where they are.
One snapshot is a list of lines, in the order of the header:

    slot N NAME                  the N-th function of the PJRT table
    value NAME N                 an enumerator
    struct NAME SIZE STRUCT_SIZE sizeof, and the published size ('-' where there is none)
      field NAME OFFSET SIZE     members of unnamed unions stand beside the other fields

usage: snapshot.py write [--cc CC]     writes the snapshots of the present headers, and first_sizes.h
       snapshot.py print HEADER...     prints the layout of other headers, found relative to the include paths -I
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ABI = ROOT / "api" / "abi"


class Layout:
    """What a set of headers defines, in the order of definition."""

    def __init__(self):
        self.slots = []    # names
        self.values = {}   # enumerator -> value
        self.structs = {}  # name -> (size, struct_size or None, [(field, offset, size)])

    def lines(self):
        out = [f"slot {i} {n}" for i, n in enumerate(self.slots)]
        out += [f"value {n} {v}" for n, v in self.values.items()]
        for name, (size, ssize, fields) in self.structs.items():
            out.append(f"struct {name} {size} {'-' if ssize is None else ssize}")
            out += [f"  field {f} {o} {s}" for f, o, s in fields]
        return out

    @staticmethod
    def parse(text):
        lay, fields = Layout(), None
        for line in text.splitlines():
            w = line.split()
            if not w or w[0] == "#":
                continue
            if w[0] == "slot":
                assert int(w[1]) == len(lay.slots), line
                lay.slots.append(w[2])
            elif w[0] == "value":
                lay.values[w[1]] = int(w[2])
            elif w[0] == "struct":
                fields = []
                lay.structs[w[1]] = (int(w[2]), None if w[3] == "-" else int(w[3]), fields)
            elif w[0] == "field":
                fields.append((w[1], int(w[2]), int(w[3])))
            else:
                raise ValueError(f"unknown line: {line}")
        return lay


def _matching(text, i):
    depth = 0
    for j in range(i, len(text)):
        depth += {"{": 1, "}": -1}.get(text[j], 0)
        if depth == 0:
            return j
    raise ValueError("unbalanced braces")


def _field_names(body):
    """The names of the fields, those of unnamed unions included."""
    names, i, start = [], 0, 0
    while i < len(body):
        if body[i] == "{":
            end = _matching(body, i)
            names += _field_names(body[i + 1:end])
            i = start = body.index(";", end) + 1
            continue
        if body[i] == ";":
            decl = body[start:i].strip()
            if decl:
                m = re.search(r"\(\s*\*\s*(\w+)\s*\)", decl) or re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)?$", decl)
                names.append(m.group(1))
            start = i + 1
        i += 1
    return names


def read_headers(headers, includes, cc="cc"):
    """The layout of everything that `headers` define whose name has one of the prefixes of the C APIs."""
    prelude = "".join(f'#include "{h}"\n' for h in headers)
    inc = [f"-I{p}" for p in includes]
    pre = subprocess.run([cc, "-std=c11", "-E", "-P", *inc, "-x", "c", "-"], input=prelude, text=True, check=True,
                         stdout=subprocess.PIPE).stdout
    ours = re.compile(r"(PJRT|PLUGIN|JAX|XLA_FFI|Backplane|SLICE_FAILURE)_")
    structs, enumerators, sized, typedefs = {}, [], set(), set()
    for m in re.finditer(r"\bstruct\s+(\w+)\s*\{", pre):
        if ours.match(m.group(1)):
            structs[m.group(1)] = _field_names(pre[m.end():_matching(pre, m.end() - 1)])
    for m in re.finditer(r"\btypedef\s+struct\s*\{", pre):  # older headers
        end = _matching(pre, m.end() - 1)
        name = re.match(r"\s*(\w+)", pre[end + 1:]).group(1)
        if ours.match(name):
            structs[name] = _field_names(pre[m.end():end])
            typedefs.add(name)
    for m in re.finditer(r"\benum\b\s*\w*\s*\{([^}]*)\}", pre):
        for item in re.split(r",(?=\s*(?:[A-Za-z_]\w*\s*(?:[=,]|$)))", m.group(1)):
            name = item.split("=")[0].strip().rstrip(",")
            if name.endswith("_STRUCT_SIZE"):
                sized.add(name[:-len("_STRUCT_SIZE")])
            elif name and ours.match(name):
                enumerators.append(name)

    prog = prelude + "#include <stdio.h>\n#define F(s, f) printf(\"  field %s %zu %zu\\n\", #f, offsetof(s, f), " \
                     "sizeof(((s*)0)->f));\nint main(void) {\n"
    for e in enumerators:
        prog += f'  printf("value %s %lld\\n", "{e}", (long long){e});\n'
    for s, fields in structs.items():
        tag = s if s in typedefs else f"struct {s}"
        size = f'"%zu", (size_t){s}_STRUCT_SIZE' if s in sized else '"-"'
        prog += f'  printf("struct %s %zu ", "{s}", sizeof({tag})); printf({size}); printf("\\n");\n'
        prog += "".join(f"  F({tag}, {f})\n" for f in fields)
    prog += "  return 0;\n}\n"
    with tempfile.TemporaryDirectory() as tmp:
        src, exe = pathlib.Path(tmp) / "layout.c", pathlib.Path(tmp) / "layout"
        src.write_text(prog)
        subprocess.run([cc, "-std=c11", "-w", *inc, str(src), "-o", str(exe)], check=True)
        lay = Layout.parse(subprocess.run([str(exe)], check=True, text=True, stdout=subprocess.PIPE).stdout)
    if "PJRT_Api" in structs:
        lay.slots = [f for f in structs["PJRT_Api"] if f.startswith("PJRT_")]
    return lay


def version(header, prefix):
    text = (ROOT / header).read_text()
    return tuple(int(re.search(rf"#define {prefix}_{p} (\d+)", text).group(1)) for p in ("MAJOR", "MINOR"))


def present(cc="cc"):
    """The snapshots that belong to the headers as they are: file name -> text."""
    core = read_headers(["api/pjrt_c_api.h"], [ROOT], cc)
    ffi = read_headers(["api/ffi_c_api.h"], [ROOT], cc)
    own = read_headers(["api/backplane_c_api.h"], [ROOT], cc)
    ext = read_headers(sorted(str(p.relative_to(ROOT)) for p in (ROOT / "api" / "extensions").glob("*.h")), [ROOT], cc)
    for lay in (own, ext):
        lay.slots = []
        lay.values = {k: v for k, v in lay.values.items() if k not in core.values}
        lay.structs = {k: v for k, v in lay.structs.items() if k not in core.structs}
    major, minor = version("api/pjrt/base.h", "PJRT_API")
    fmajor, fminor = version("api/ffi_c_api.h", "XLA_FFI_API")
    return {
        f"pjrt_{major}_{minor}.txt": _text(f"PJRT C API {major}.{minor}", core),
        "extensions.txt": _text(f"Extensions of the PJRT C API as of {major}.{minor}", ext),
        f"ffi_{fmajor}_{fminor}.txt": _text(f"XLA FFI C ABI {fmajor}.{fminor}", ffi),
        "backplane.txt": _text("The private extension of Backplane plugins", own),
    }


def history():
    """The snapshots of all minors, oldest first: [((major, minor), Layout)]."""
    out = []
    for p in ABI.glob("pjrt_*.txt"):
        out.append((tuple(int(x) for x in p.stem.split("_")[1:]), Layout.parse(p.read_text())))
    return sorted(out, key=lambda e: e[0])


def first_sizes():
    """The header that says with which size each struct was first published, as far back as there are snapshots."""
    first = {}
    for (major, minor), lay in history():
        for name, (_, ssize, _) in lay.structs.items():
            if ssize is not None:
                first.setdefault(name, (ssize, minor))
    head = """// The smallest size with which each struct of the PJRT C API may arrive: its published size in the oldest minor that has a
// snapshot. A host of that minor is served; whoever passes less is at fault. Written by api/abi/snapshot.py.
#ifndef BACKPLANE_API_FIRST_SIZES_H_
#define BACKPLANE_API_FIRST_SIZES_H_

enum {
"""
    body = ",\n".join(f"  {n}_FIRST_SIZE = {s}  /* 0.{m} */" for n, (s, m) in sorted(first.items()))
    return head + body.replace("  /*", " /*") + "\n};\n\n#endif  // BACKPLANE_API_FIRST_SIZES_H_\n"


def _text(title, lay):
    return f"# {title}, 64-bit. Written by snapshot.py.\n" + "\n".join(lay.lines()) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("command", choices=["write", "print"])
    ap.add_argument("headers", nargs="*")
    ap.add_argument("-I", dest="includes", action="append", default=[])
    ap.add_argument("--title", default="layout")
    ap.add_argument("--cc", default="cc")
    a = ap.parse_args()
    if a.command == "write":
        for name, text in present(a.cc).items():
            (ABI / name).write_text(text)
            print(name, len(text.splitlines()))
        (ROOT / "api" / "first_sizes.h").write_text(first_sizes())
    else:
        sys.stdout.write(_text(a.title, read_headers(a.headers, a.includes, a.cc)))


if __name__ == "__main__":
    main()
