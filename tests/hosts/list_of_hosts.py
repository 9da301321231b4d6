"""The hosts that `./dev hosts` runs: what to install, how each comes to the plugin, which programs it runs.

Versions of numpy, SciPy and ml_dtypes are those of a host's own time where newer ones would hide what its users meet.
`jax.export` up to 0.5 needs absl-py, which its wheel does not name.
"""
import dataclasses

JAX_BARE = ("jax_basic", "jax_numeric", "jax_runtime")
JAX_PACKAGE = (*JAX_BARE, "jax_package")


@dataclasses.dataclass(frozen=True)
class Host:
    name: str  # of its environment's folder
    title: str  # in the table
    python: tuple  # minor versions of Python 3 that will do, the best first
    packages: tuple
    roads: dict  # name of the road: modules of programs
    road_names: dict  # as the table has them
    needs: str = ""  # what its users have to set
    environment: dict = dataclasses.field(default_factory=dict)
    without_dependencies: tuple = ()  # packages installed alone; libraries that they miss are replaced by empty ones
    peers: tuple = ()  # roads that are not ours: what they fail is told, and is no failure


def jax(version, python, *more, needs="", environment=None):
    return Host(name=f"jax-{version}", title=f"JAX {version}", python=python, needs=needs, environment=environment or {},
                packages=(f"jax=={version}", f"jaxlib=={version}", "flatbuffers", *(more or ("scipy",))),
                roads={"bare": JAX_BARE, "package": JAX_PACKAGE}, road_names={"bare": "bare", "package": "with the package"})


HOSTS = [
    jax("0.4.30", (11, 10, 9), "numpy==1.26.4", "scipy==1.13.1", "ml_dtypes==0.4.0", "absl-py",
        needs="`ENABLE_PJRT_COMPATIBILITY=1`", environment={"ENABLE_PJRT_COMPATIBILITY": "1"}),
    jax("0.4.35", (11, 10), "numpy==2.1.3", "scipy==1.14.1", "ml_dtypes==0.5.0", "absl-py"),
    jax("0.4.38", (11, 10), "numpy==2.2.1", "scipy==1.15.0", "ml_dtypes==0.5.0", "absl-py"),
    jax("0.6.2", (11, 12)),
    jax("0.8.3", (11, 12)),
    jax("0.9.2", (11, 12)),
    jax("0.10.2", (11, 12)),
    jax("0.12.0", (12, 13, 14)),
    Host(name="torch_xla-2.9.0", title="torch_xla 2.9.0", python=(11, 12), without_dependencies=("torch==2.9.0", "torch_xla==2.9.0"),
         packages=("filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "absl-py", "pyyaml", "requests", "numpy", "scipy"),
         roads={"plugin": ("torch_eager", "torch_models"), "own": ("torch_eager", "torch_models")},
         road_names={"plugin": "our plugin", "own": "its own CPU backend"}, peers=("own",),
         needs="a `DevicePlugin`, or `PJRT_DEVICE=LIBRARY PJRT_LIBRARY_PATH=… PJRT_DYNAMIC_PLUGINS=1`"),
    Host(name="tensorflow-2.21.0", title="TensorFlow 2.21.0, imported before JAX 0.10.2", python=(11, 12),
         packages=("tensorflow-cpu==2.21.0", "jax==0.10.2", "jaxlib==0.10.2", "scipy", "flatbuffers"),
         roads={"bare": ("tensorflow_first", "jax_basic"), "package": ("tensorflow_first", "jax_basic", "jax_package")},
         road_names={"bare": "bare", "package": "with the package"}),
    Host(name="fastatomstruct-2.0.0", title="fastatomstruct 2.0.0, a host in Rust", python=(11, 12), packages=("fastatomstruct==2.0.0", "ase"),
         roads={"plugin": ("rust_host",)}, road_names={"plugin": "our plugin"}, needs="`FASTATOMSTRUCT_NO_TELEMETRY=1`, which turns its telemetry off",
         environment={"FASTATOMSTRUCT_NO_TELEMETRY": "1"}),
]

# (host, road, program): why it fails, and that it is not ours.
KNOWN = {}
