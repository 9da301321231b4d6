"""build.py --build DIR [--out DIR] [--level N]: a wheel of what DIR holds, for Linux, any Python 3.10 or newer.

The wheel has the plugins, the layers, the command with the kit's cases and levels and the templates of `backplane
new-plugin`, and the Python packages of sdk/python. auditwheel
copies every shared library that a plain Linux lacks (oneDNN, OpenMP, abseil ...) into it, under names of their own, makes
each file look for them beside itself, and names the wheel after the oldest Linux it runs on. Prints the wheel's path.
"""
import argparse
import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAME = "backplane_pjrt"
PLUGINS = ("cpu", "reference", "tpu_emulator", "hip")
# The adapters for several processes, as far as the build has them. Gloo is copied into the wheel; MPI has to be the one
# whose mpirun starts the program, so the machine's own is used.
TRANSPORTS = ("gloo", "mpi")
NOT_COPIED = ("libmpi.so.40",)
DATE = (1980, 1, 1, 0, 0, 0)  # the same tree gives the same bytes


# Whose work the wheel carries, and where its terms lie: with oneDNN's own package, and as Debian's packages bring them.
NOTICES = {
    "oneDNN": [pathlib.Path(sys.prefix) / "share/doc/onednn" / name for name in ("LICENSE", "THIRD-PARTY-PROGRAMS")],
    "LLVM": ["/usr/share/doc/llvm-19-dev/copyright"],
    "abseil": ["/usr/share/doc/libabsl-dev/copyright"],
    "zstd": ["/usr/share/doc/libzstd-dev/copyright"],
    "libgomp": ["/usr/share/doc/libgomp1/copyright"],
    "CLI11": ["/usr/share/doc/libcli11-dev/copyright"],
}
# Gloo, and what it needs, where it is installed.
NOTICES |= {name: [place] for name, package in (("Gloo", "libgloo0"), ("hiredis", "libhiredis0.14"), ("rdma-core", "libibverbs1"), ("libnl", "libnl-3-200"))
            if (place := pathlib.Path(f"/usr/share/doc/{package}/copyright")).exists()}


def license_files():
    """Our own terms, and those of what the wheel carries; each lies in the wheel's folder of licenses."""
    return ["LICENSE", "NOTICE", *(f"{name}.txt" for name in NOTICES)]


def version():
    """The project's version, as its CMakeLists.txt says it."""
    return re.search(r"project\(Backplane VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def metadata(number):
    files = "".join(f"License-File: {name}\n" for name in license_files())
    return f"""Metadata-Version: 2.4
Name: {NAME.replace('_', '-')}
Version: {number}
Summary: PJRT plugins for JAX and other hosts, and the command that runs, compares and judges any plugin
License-Expression: Apache-2.0
{files}Requires-Python: >=3.10
Provides-Extra: jax
Requires-Dist: jax ; extra == 'jax'
Requires-Dist: scipy ; extra == 'jax'
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3 :: Only
Description-Content-Type: text/markdown

{(ROOT / 'sdk/python/README.md').read_text()}"""


ENTRY_POINTS = """[console_scripts]
backplane = backplane.__main__:main

[jax_plugins]
backplane = jax_plugins.backplane
"""


def environment():
    """In which auditwheel runs, and finds patchelf beside itself. The time makes its zip file the same each time."""
    return os.environ | {"SOURCE_DATE_EPOCH": "315532800", "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}


def strip(source, target):
    """A copy without the symbols that only a debugger reads."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "--strip-unneeded", "-o", str(target), str(source)], check=True)
    target.chmod(0o755)


def stage(build, folder):
    """Lays the files out as they are to be in site-packages."""
    package = folder / "backplane"
    for source in ("backplane", "backplane_jax", "jax_plugins"):
        shutil.copytree(ROOT / "sdk/python" / source, folder / source, ignore=shutil.ignore_patterns("*_test.py", "__pycache__"))
    for name in PLUGINS:
        strip(build / f"plugins/pjrt_backplane_{name}.so", package / f"plugins/pjrt_backplane_{name}.so")
        (package / "plugins.d").mkdir(exist_ok=True)
        (package / f"plugins.d/{name}.json").write_text(f'{{"library_path": "../plugins/pjrt_backplane_{name}.so"}}\n')
    strip(build / "plugins/libhipemu.so", package / "plugins/libhipemu.so")  # beside the HIP plugin, which looks for it there
    for name in TRANSPORTS:  # beside the plugins, which look for them there
        if (adapter := build / f"plugins/libbackplane_{name}.so").exists():
            target = package / f"plugins/libbackplane_{name}.so"
            strip(adapter, target)
            # The build names the folder of this machine's MPI in it; auditwheel names that of the wheel where it is needed.
            subprocess.run(["patchelf", "--remove-rpath", str(target)], check=True, env=environment())
    strip(build / "bin/backplane", package / "bin/backplane")
    # Beside the command, where `backplane trace` and `backplane new-plugin` look.
    strip(build / "layers/pjrt_backplane_layers.so", package / "layers/pjrt_backplane_layers.so")
    for part in ("cases", "levels", "profiles"):
        shutil.copytree(ROOT / "conformance" / part, package / "share/backplane/conformance" / part)
    shutil.copytree(ROOT / "sdk/templates", package / "share/backplane/templates", ignore=shutil.ignore_patterns("__pycache__"))


def write(folder, path, number, level):
    """The files of `folder` as a wheel, with the metadata a wheel has."""
    info = f"{NAME}-{number}.dist-info"
    files = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
    texts = {f"{info}/METADATA": metadata(number), f"{info}/entry_points.txt": ENTRY_POINTS, f"{info}/top_level.txt": "backplane\nbackplane_jax\njax_plugins\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: backplane\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"}
    for name in ("LICENSE", "NOTICE"):
        texts[f"{info}/licenses/{name}"] = (ROOT / name).read_text()
    for name, places in NOTICES.items():
        texts[f"{info}/licenses/{name}.txt"] = "\n\n".join(pathlib.Path(place).read_text(errors="replace") for place in places)
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as wheel:
        for name in [*files, *texts]:
            data = files[name].read_bytes() if name in files else texts[name].encode()
            item = zipfile.ZipInfo(name, DATE)
            item.compress_type = zipfile.ZIP_DEFLATED
            executable = name in files and os.access(files[name], os.X_OK)
            item.external_attr = (0o100755 if executable else 0o100644) << 16
            wheel.writestr(item, data, compresslevel=level)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.writerow([name, f"sha256={digest}", len(data)])
        rows.writerow([f"{info}/RECORD", "", ""])
        wheel.writestr(zipfile.ZipInfo(f"{info}/RECORD", DATE), record.getvalue())


def repair(wheel, out, level):
    """auditwheel's wheel, in `out`. Our own build folder is where it finds oneDNN; the rest is the system's."""
    before = set(out.glob("*.whl"))
    command = [sys.executable, "-m", "auditwheel", "repair", str(wheel), "--wheel-dir", str(out), "--zip-compression-level", str(level)]
    command += [word for library in NOT_COPIED for word in ("--exclude", library)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment())
    if run.returncode != 0:
        raise SystemExit(f"auditwheel repair: status {run.returncode}\n{run.stdout}\n{run.stderr}")
    made = sorted(set(out.glob("*.whl")) - before) or sorted(out.glob(f"{NAME}-*manylinux*.whl"), key=os.path.getmtime)
    return made[-1]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, required=True, help="a build folder, with plugins/ and bin/")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    p.add_argument("--level", type=int, default=6, help="of compression: 0 to 9")
    opt = p.parse_args()
    number = version()
    opt.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        stage(opt.build.resolve(), folder / "tree")
        plain = folder / f"{NAME}-{number}-py3-none-linux_x86_64.whl"
        write(folder / "tree", plain, number, 0)
        print(repair(plain, opt.out.resolve(), opt.level))


if __name__ == "__main__":
    main()
