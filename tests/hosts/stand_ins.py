"""Stub libraries for those of a vendor that a wheel depends on and no program here calls.

torch's wheel names CUDA's libraries, three gigabytes that a machine without such a device loads and never enters. Each
gets a library of the same name beside those that name it, whose functions say that there is no device.
"""
import pathlib
import re
import subprocess
import tempfile

LIBRARIES = ("libcu", "libnv", "libnccl")
FUNCTIONS = re.compile(r"_*(cu|CU|nv|nccl)[A-Za-z]")


def _read(library, *options):
    return subprocess.run(["readelf", "-W", *options, library], capture_output=True, text=True, check=True).stdout


def _versions(library):
    """The file that has it, by the version that `library` wants."""
    found, name = {}, None
    for line in _read(library, "-V").splitlines():
        if m := re.search(r"File: (\S+)", line):
            name = m.group(1)
        elif name and (m := re.search(r"Name: (\S+)\s+Flags", line)):
            found[m.group(1)] = name
    return found


def _write(path, versions):
    """A shared library of that name with these functions, by version; of no version under None."""
    names = {name for those in versions.values() for name in those}
    # 100 is the runtime's and the driver's word for no device; what begins with underscores registers code at loading.
    code = "".join(f"long {name}(void) {{ return {0 if name.startswith('__') else 100}; }}\n" for name in sorted(names))
    script = "".join(f"{version} {{ {' '.join(name + ';' for name in sorted(those))} }};\n" for version, those in versions.items() if version)
    with tempfile.TemporaryDirectory() as scratch:
        (pathlib.Path(scratch) / "code.c").write_text(code)
        (pathlib.Path(scratch) / "versions").write_text(script)
        flags = [f"-Wl,--version-script={scratch}/versions"] if script else []
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-nostdlib", f"{scratch}/code.c", "-o", str(path), f"-Wl,-soname,{path.name}", *flags], check=True)


def make(environment):
    """Writes what the libraries of this environment's torch name of LIBRARIES, over what was written before."""
    folder = next(pathlib.Path(environment).glob("lib/python3*/site-packages/torch/lib"))
    functions = {}  # by library, by version
    for library in sorted(folder.glob("lib*.so")):
        needed = [n for n in re.findall(r"\(NEEDED\).*\[(.*)\]", _read(library, "-d")) if n.startswith(LIBRARIES)]
        for name in needed:
            functions.setdefault(name, {})
        owners = _versions(library)
        for symbol, version in re.findall(r" UND ([^\s@]+)(?:@(\S+))?", _read(library, "--dyn-syms")):
            owner = owners.get(version) if version else needed[0] if needed and FUNCTIONS.match(symbol) else None
            if owner and owner.startswith(LIBRARIES):
                functions.setdefault(owner, {}).setdefault(version or None, set()).add(symbol)
    for name, versions in functions.items():
        _write(folder / name, versions)
    return sorted(functions)
