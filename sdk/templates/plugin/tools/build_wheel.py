"""The build backend of the wheel (PEP 517). It needs no other Python packages: it builds the plugin with CMake and packs its Python
package.

CMake reads its usual environment variables: CMAKE_PREFIX_PATH is the prefix where Backplane is installed.
"""
import base64
import hashlib
import pathlib
import re
import subprocess
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = "@name@"
VERSION = re.search(r"project\(\S+ VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
TAG = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
INFO = f"{NAME}-{VERSION}.dist-info"


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cmake", "-S", str(ROOT), "-B", folder], check=True)
        subprocess.run(["cmake", "--build", folder], check=True)
    files = {p.relative_to(ROOT / "python").as_posix(): p.read_bytes() for p in sorted((ROOT / "python").rglob("*"))
             if p.is_file() and p.suffix in (".py", ".so")}
    files[f"{INFO}/METADATA"] = (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n"
                                 f"Summary: PJRT plugin for JAX\nRequires-Dist: jax\n").encode()
    files[f"{INFO}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode()
    files[f"{INFO}/entry_points.txt"] = f"[jax_plugins]\n{NAME} = jax_plugins.{NAME}\n".encode()
    rows = [f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(d).digest()).rstrip(b'=').decode()},{len(d)}" for n, d in files.items()]
    files[f"{INFO}/RECORD"] = ("\n".join(rows) + f"\n{INFO}/RECORD,,\n").encode()
    wheel = f"{NAME}-{VERSION}-{TAG}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            out.writestr(name, data)
    return wheel
