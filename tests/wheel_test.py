"""wheel_test.py --build DIR [--peer XLA.so]: the wheel is built, installed into a fresh environment, and used there.

The environment sees the packages of the Python that runs this test (JAX, numpy ...) but nothing of the source tree or the
build folder; no network is used.
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
import socket
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What a plain Linux has, as the manylinux policies list it; everything else has to be in the wheel.
SYSTEM = re.compile(r"^(libc|libm|libdl|libpthread|librt|ld-linux-x86-64|libgcc_s|libstdc\+\+|libz)\.so\.\d+$")

OWNERS = {"libdnnl": "oneDNN", "libabsl": "abseil", "libzstd": "zstd", "libgomp": "libgomp", "libgloo": "Gloo",
          "libhiredis": "hiredis", "libibverbs": "rdma-core", "libnl": "libnl"}
# What is the machine's own on purpose: mpirun and the library of its processes have to be of one installation.
FROM_THE_MACHINE = {"libbackplane_mpi.so": {"libmpi.so.40"}}

USE = r"""
import os, pathlib, sys
import jax, jax.numpy as jnp, numpy as np
import backplane

site = pathlib.Path(backplane.__file__).resolve().parent.parent
ours, reference, own = (jax.devices(p)[0].client for p in ("backplane", "backplane_reference", "cpu"))
assert jax.devices()[0].client is ours, "the CPU plugin is not the default"
assert "backplane cpu" in ours.platform_version and "backplane reference" in reference.platform_version
assert "backplane" not in own.platform_version, own.platform_version
for name in ("tpu_emulator", "hip"):
    assert f"pjrt_backplane_{name}" not in open("/proc/self/maps").read(), f"{name} was loaded though nobody asked for it"

x = np.arange(16, dtype=np.float32).reshape(4, 4)
spd = x @ x.T + np.eye(4, dtype=np.float32)
for platform in ("backplane", "backplane_reference", "cpu"):
    with jax.default_device(jax.devices(platform)[0]):
        got = jax.jit(lambda a: (a @ a.T, jnp.sin(a).sum(), jnp.sort(a, 1)))(x)
        np.testing.assert_allclose(got[0], x @ x.T, rtol=1e-6)
        np.testing.assert_allclose(got[1], np.sin(x).sum(), rtol=1e-5)
        np.testing.assert_allclose(jnp.linalg.cholesky(spd), np.linalg.cholesky(spd), rtol=1e-3)  # LAPACK, out of jaxlib
        back = jax.jit(lambda a: jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((4, 4), jnp.float32), a))(x)
        np.testing.assert_allclose(back, 2 * x)

# A handler of somebody's own, by the helper: jaxlib's, under a second name.
from jaxlib import lapack
backplane.register_handler("my_potrf", next(capsule for name, capsule, _ in lapack.registrations()["cpu"] if name == "lapack_spotrf_ffi"))
call = jax.ffi.ffi_call("my_potrf", (jax.ShapeDtypeStruct((4, 4), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)),
                        input_layouts=[(1, 0)], output_layouts=[(1, 0), ()])
factor, info = jax.jit(lambda a: call(a, uplo=np.uint8(ord("L"))))(spd)
assert int(info) == 0
np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(spd), rtol=1e-3)

mapped = {line.split(None, 5)[-1].strip() for line in open("/proc/self/maps") if ".so" in line}
mine = sorted(m for m in mapped if any(w in m for w in ("libdnnl", "libabsl", "pjrt_backplane")))
assert mine and all(m.startswith(str(site)) for m in mine), [m for m in mine if not m.startswith(str(site))]
assert any("libdnnl" in m for m in mine)
print("JAX", jax.__version__, len(mine), "libraries of the wheel in use")
"""

EMULATOR = r"""
import jax, jax.numpy as jnp, numpy as np
assert [d.platform for d in jax.devices()] == ["tiledtpu"] * 4 and jax.devices()[3].coords == [1, 1, 0], jax.devices()
assert jax.devices()[0].device_kind == "TPU v6 lite" and jax.devices("cpu")[0].platform == "cpu"
x = np.arange(16, dtype=np.float32).reshape(4, 4)
spd = x @ x.T + np.eye(4, dtype=np.float32)
np.testing.assert_allclose(jnp.linalg.eigvalsh(spd), np.linalg.eigvalsh(spd), rtol=1e-3, atol=1e-3)
back = jax.jit(lambda a: jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((4, 4), jnp.float32), a))(x)
np.testing.assert_allclose(back, 2 * x)
there = jax.device_put(x)
assert there.on_device_size_in_bytes() == 4 * 128 * 4 and there.format.layout.tiling == ((4, 128),), there.format
jax.jit(lambda a: a + 1, donate_argnums=0)(there).block_until_ready()
assert there.is_deleted()
print("the emulator, too")
"""

# Compiled here for a GPU that this machine lacks, and run in another process, on an emulated one.
AHEAD = r"""
import pickle
import jax, jax.numpy as jnp
from jax.experimental import topologies
from jax.experimental.serialize_executable import serialize
(device,) = topologies.get_topology_desc("gfx942", platform="hip").devices
spec = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=jax.sharding.SingleDeviceSharding(device))
compiled = jax.jit(lambda a: jax.nn.softmax(a @ a.T)).lower(spec).compile()
pickle.dump(serialize(compiled), open("program.pickle", "wb"))
assert "hip" not in jax.devices()[0].platform, jax.devices()
print("compiled for", device.device_kind)
"""

HIP = r"""
import pickle
import jax, jax.numpy as jnp, numpy as np
from jax.experimental.serialize_executable import deserialize_and_load
assert [d.platform for d in jax.devices()] == ["hip"] * 2, jax.devices()
program = deserialize_and_load(*pickle.load(open("program.pickle", "rb")), execution_devices=jax.devices()[:1])
x = np.random.RandomState(1).rand(16, 16).astype("f")
e = np.exp(x @ x.T - (x @ x.T).max(1, keepdims=True))
np.testing.assert_allclose(program(x), e / e.sum(1, keepdims=True), rtol=1e-5)
np.testing.assert_allclose(jnp.linalg.eigvalsh(x @ x.T), np.linalg.eigvalsh(x @ x.T), rtol=1e-3, atol=1e-3)
back = jax.jit(lambda a: jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((16, 16), jnp.float32), a))(x)
np.testing.assert_allclose(back, 2 * x)
there = jax.device_put(x)
jax.jit(lambda a: a + 1, donate_argnums=0)(there).block_until_ready()
assert there.is_deleted()
print("an emulated GPU, too")
"""

# One of two processes, over the transport of the adapter in the wheel.
PROCESS = r"""
import os, sys
import jax
from jax._src import xla_bridge
import backplane
transport, port = sys.argv[1], sys.argv[2]
rank = int(sys.argv[3] if len(sys.argv) > 3 else os.environ["OMPI_COMM_WORLD_RANK"])
xla_bridge.register_plugin("two", priority=900, library_path=backplane.plugins()["cpu"],
                           options={"transport": transport, "connect_timeout_seconds": 100})
jax.config.update("jax_platforms", "two")
jax.distributed.initialize(f"localhost:{port}", 2, rank)
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
whole = np.arange(200000, dtype=np.float32).reshape(2, -1)
x = jax.make_array_from_callback(whole.shape, NamedSharding(mesh, P("x")), lambda index: whole[index])
total = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))(x)
np.testing.assert_array_equal(total.addressable_data(0), whole.sum(0, keepdims=True))
mapped = open("/proc/self/maps").read()
assert f"site-packages/backplane/plugins/libbackplane_{transport}.so" in mapped
assert transport != "gloo" or "site-packages/backplane_pjrt.libs/libgloo" in mapped
print("two processes over", transport)
"""

PROGRAM = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def check_contents(path):
    """The wheel's own consistency: names, digests, sizes, tags; nothing that does not belong in it."""
    assert re.fullmatch(r"backplane_pjrt-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl", path.name), path.name
    assert path.stat().st_size < 100 << 20, f"{path.stat().st_size} bytes"
    with zipfile.ZipFile(path) as wheel:
        names = {n for n in wheel.namelist() if not n.endswith("/")}
        info = next(n for n in names if n.endswith(".dist-info/RECORD")).rsplit("/", 1)[0]
        recorded = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(f"{info}/RECORD").decode()))}
        assert set(recorded) == names, set(recorded) ^ names
        for name, (digest, size) in recorded.items():
            if name == f"{info}/RECORD":
                continue
            data = wheel.read(name)
            assert int(size) == len(data), name
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), name
        assert "Root-Is-Purelib: false" in wheel.read(f"{info}/WHEEL").decode()
        for wanted in ("backplane/plugins/pjrt_backplane_cpu.so", "backplane/plugins/pjrt_backplane_reference.so",
                       "backplane/plugins/pjrt_backplane_tpu_emulator.so", "backplane/bin/backplane",
                       "backplane/plugins/pjrt_backplane_hip.so", "backplane/plugins/libhipemu.so",
                       "backplane/__init__.py", "backplane_jax/__init__.py", "jax_plugins/backplane.py",
                       "backplane/share/backplane/conformance/levels/jax-min.txt", "backplane/layers/pjrt_backplane_layers.so",
                       "backplane/share/backplane/templates/plugin/.github/workflows/ci.yml"):
            assert wanted in names, wanted
        told = wheel.read(f"{info}/METADATA").decode()
        assert "\nLicense-Expression: Apache-2.0\n" in told, told[:500]
        for name in re.findall(r"^License-File: (.*)$", told, re.M):
            assert len(wheel.read(f"{info}/licenses/{name}")) > 500, name
        assert "Apache License" in wheel.read(f"{info}/licenses/LICENSE").decode()
        assert "jax_plugins/__init__.py" not in names, "jax_plugins is everybody's namespace"
        # Whoever's work is carried along, its terms are too.
        for library in {n.split("/", 1)[1] for n in names if n.startswith("backplane_pjrt.libs/")}:
            owner = next((owner for start, owner in OWNERS.items() if library.startswith(start)), None)
            assert owner, f"{library}: whose is it?"
            assert len(wheel.read(f"{info}/licenses/{owner}.txt")) > 500, owner
        odd = [n for n in names if (n.endswith("_test.py") and "/templates/" not in n) or "__pycache__" in n or ".cpython-" in n]
        assert not odd, odd
        return len(names), sum(i.file_size for i in wheel.infolist())


def without(path, names, folder):
    """A copy of the wheel without some files. auditwheel cannot be told that these need the machine's own libraries."""
    copy = folder / "copy" / path.name
    copy.parent.mkdir()
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(copy, "w") as part:
        for item in whole.infolist():
            data = whole.read(item)
            if item.filename.endswith(".dist-info/RECORD"):
                rows = data.decode().splitlines(keepends=True)
                data = "".join(row for row in rows if pathlib.PurePath(row.split(",")[0]).name not in names).encode()
            if pathlib.PurePath(item.filename).name not in names:
                part.writestr(item, data)
    return copy


def check_libraries(site):
    """Every file finds what it needs in the wheel or in a plain Linux, and has no path of this machine in it."""
    inside = {p.name for p in (site / "backplane_pjrt.libs").iterdir()}
    count = 0
    for path in [*site.glob("backplane/plugins/*.so"), *site.glob("backplane/layers/*.so"), site / "backplane/bin/backplane", *(site / "backplane_pjrt.libs").iterdir()]:
        table = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
        missing = [n for n in re.findall(r"\(NEEDED\).*\[(.*)\]", table) if n not in inside and not SYSTEM.match(n)
                   and n not in FROM_THE_MACHINE.get(path.name, ())]
        assert not missing, f"{path.name} needs {missing}"
        for place in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", table):
            assert all(p.startswith("$ORIGIN") for p in place.split(":")), f"{path.name} looks in {place}"
        count += 1
    return count


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--peer", type=pathlib.Path, default=pathlib.Path("none"), help="a plugin we did not build")
    opt = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        made = subprocess.run([sys.executable, "-B", ROOT / "tools/wheel/build.py", "--build", opt.build, "--out", folder, "--level", "1"],
                              check=True, capture_output=True, text=True)
        wheel = pathlib.Path(made.stdout.strip())
        files, size = check_contents(wheel)
        shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", without(wheel, FROM_THE_MACHINE, folder)], check=True, capture_output=True, text=True).stdout
        tag = re.search(r"manylinux_\d+_\d+_x86_64", wheel.name).group(0)
        assert re.search(rf'consistent\s+with the following platform tag: "{tag}"', shown), shown

        env = folder / "env"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", env], check=True)
        site = next((env / "lib").glob("python*/site-packages"))
        (site / "peers.pth").write_text(sysconfig.get_path("purelib") + "\n")
        subprocess.run([sys.executable, "-m", "pip", "--python", env / "bin/python", "install", "-q", "--no-deps", "--no-index",
                        "--disable-pip-version-check", wheel], check=True)
        libraries = check_libraries(site)

        # Elsewhere than in the tree, with nothing set that leads back to it.
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PJRT_", "BACKPLANE_", "PYTHON", "LD_", "VIRTUAL_ENV"))}
        plain["PYTHONDONTWRITEBYTECODE"] = "1"

        def run(*words, code=0, **more):
            done = subprocess.run([str(w) for w in words], cwd=folder, env=plain | more, capture_output=True, text=True, timeout=240)
            assert done.returncode == code, f"{words[:2]}: status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            return done.stdout

        told = run(env / "bin/python", "-c", USE)
        assert "too" in run(env / "bin/python", "-c", EMULATOR, JAX_PLATFORMS="tiledtpu", TILEDTPU_CHIP="v6e", TILEDTPU_TOPOLOGY="2x2")
        assert "gfx942" in run(env / "bin/python", "-c", AHEAD)
        assert "too" in run(env / "bin/python", "-c", HIP, JAX_PLATFORMS="hip", BACKPLANE_HIP_PLATFORM="emulated", BACKPLANE_HIP_TARGET="gfx942")
        # A name that the user gave to a plugin of theirs is left alone, and others stand beside ours.
        if (peer := opt.peer.resolve()).exists():
            run(env / "bin/python", "-c", "import jax; assert 'backplane' not in jax.devices('backplane')[0].client.platform_version; "
                "assert 'backplane' in jax.devices('backplane_reference')[0].client.platform_version; "
                "assert float((jax.numpy.ones(3) + 1).sum()) == 6", PJRT_NAMES_AND_LIBRARY_PATHS=f"backplane:{peer}")

        # Several processes. Whether the build has the adapters depends on the libraries of the machine.
        transports = [name for name in ("gloo", "mpi") if (opt.build / f"plugins/libbackplane_{name}.so").exists()]
        for name in transports:
            assert (site / f"backplane/plugins/libbackplane_{name}.so").exists(), name
            with socket.socket() as free:
                free.bind(("localhost", 0))
                port = free.getsockname()[1]
            if name == "gloo":
                words = [env / "bin/python", "-c", PROCESS, name, str(port)]
                other = subprocess.Popen([str(w) for w in [*words, "1"]], cwd=folder, env=plain)
                assert "over gloo" in run(*words, "0")
                assert other.wait(100) == 0
            elif shutil.which("mpirun"):
                assert run("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2", env / "bin/python", "-c",
                           PROCESS, name, str(port)).count("over mpi") == 2

        command = env / "bin/backplane"
        listed = run(command, "plugins")
        for name in ("cpu", "reference", "tpu_emulator", "hip"):
            assert re.search(rf"^{name} .*manifest", listed, re.M), listed
        (folder / "add.mlir").write_text(PROGRAM)
        for name in ("cpu", "reference", "tpu_emulator"):
            assert run(command, "run", name, folder / "add.mlir", "-i", "{1,2,3,4}").strip() == "result 0: f32[4] {2, 4, 6, 8}"
        assert run(command, "run", "hip", folder / "add.mlir", "-i", "{1,2,3,4}", "-o", "platform=emulated").strip() == "result 0: f32[4] {2, 4, 6, 8}"
        assert "gfx90a" in run(command, "compile", "hip", folder / "add.mlir", "--target", "gfx90a", "--print", "resources")
        assert run(env / "bin/python", "-m", "backplane", "--version").startswith("backplane ")
        # The kit's cases and levels are the wheel's own: a level that nobody else has is found.
        (site / "backplane/share/backplane/conformance/levels/only-here.txt").write_text("# A level\nabi.version\n")
        assert "only-here" in run(command, "conform", "reference", "--level", "only-here", "--quiet")
        judged = run(command, "conform", "cpu", "--suite", "abi,lifecycle", "--quiet")
        assert "conformant: " in judged and "NOT" not in judged, judged
        # What the command brings along: a project from the templates, and the layers.
        made = run(command, "new-plugin", "my_chip")
        assert "my_chip/src/backend.cc" in made and "find_package(Backplane" in (folder / "my_chip/CMakeLists.txt").read_text(), made
        run(command, "trace", folder / "add.mlir", "--plugin", "cpu", "--output", folder / "traced")
        assert "Client_Compile" in (folder / "traced.json").read_text()
        print(f"{wheel.name}: {wheel.stat().st_size >> 20} MiB, {files} files of {size >> 20} MiB, {libraries} ELF files; {told.strip()}; transports: {', '.join(transports) or 'none'}")


if __name__ == "__main__":
    main()
