"""Runs cases in a process of its own: names come as JSON lines on stdin, one JSON answer each goes to stdout.

  worker.py ROAD PLUGIN.so      ROAD says how the plugin is made known to JAX:
    env           PJRT_NAMES_AND_LIBRARY_PATHS=plugin:PATH, the plain road
    env4, env8    the same by a configuration file that asks for so many devices
    package       backplane_jax.register, beside JAX's own CPU client
    package8      the same with eight devices
    package_cpu   backplane_jax.register under the name cpu, in the place of JAX's own
    discovered    the plain road under the name cpu, the package only where JAX's discovery finds it
    overtaken     the same, where somebody else has taken JAX's place for custom calls before

The emulator of a tiled TPU keeps its platform's name on each of them, and always has the package, without which JAX
neither donates nor calls back on a name that it does not know. Products are taken with `highest` precision there, so that
the cases' tolerances hold; the rounding of its default is tested by separate cases.

The HIP plugin keeps its platform's name, too. It runs on its emulated runtime, which has one device, or four or eight.
"""
import json
import os
import pathlib
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).resolve().parent


TORUS = {"env4": "2x2", "env8": "2x4", "package8": "2x4"}


def make_emulator_known(road, plugin):
    os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
    os.environ["JAX_PLATFORMS"] = "tiledtpu"
    sys.path.insert(0, str(HERE.parent.parent / "sdk" / "python"))
    if road in TORUS:
        os.environ["TILEDTPU_TOPOLOGY"] = TORUS[road]
    if road.startswith("package"):
        import backplane_jax
        backplane_jax.register(plugin, "tiledtpu")
        return
    os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"tiledtpu:{plugin}"
    if road == "overtaken":
        from jaxlib import xla_client
        xla_client.register_custom_call_handler("cpu", xla_client._xla.register_custom_call_target)


def make_hip_known(road, plugin):
    os.environ.setdefault("BACKPLANE_HIP_PLATFORM", "emulated")
    os.environ["HIPEMU_DEVICES"] = {"env4": "4", "env8": "8", "package8": "8"}.get(road, "1")
    sys.path.insert(0, str(HERE.parent.parent / "sdk" / "python"))
    if road.startswith("package"):
        os.environ["JAX_PLATFORMS"] = "hip,cpu"
        import backplane_jax
        backplane_jax.register(plugin, "hip")
        return
    os.environ.update(PJRT_NAMES_AND_LIBRARY_PATHS=f"hip:{plugin}", JAX_PLATFORMS="hip,cpu")
    if road == "overtaken":
        from jaxlib import xla_client
        xla_client.register_custom_call_handler("cpu", xla_client._xla.register_custom_call_target)


def make_known(road, plugin):
    """Sets the environment before JAX is imported; registers the plugin where the road is the package's."""
    if "tpu_emulator" in pathlib.Path(plugin).name:
        make_emulator_known(road, plugin)
    elif "_hip" in pathlib.Path(plugin).name:
        make_hip_known(road, plugin)
    elif road == "env":
        os.environ.update(PJRT_NAMES_AND_LIBRARY_PATHS=f"plugin:{plugin}", JAX_PLATFORMS="plugin")
    elif road in ("env4", "env8"):
        config = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
        json.dump({"library_path": plugin, "create_options": {"cpu_device_count": int(road[3:])}}, config)
        config.close()
        os.environ.update(PJRT_NAMES_AND_LIBRARY_PATHS=f"plugin:{config.name}", JAX_PLATFORMS="plugin")
    elif road in ("discovered", "overtaken"):
        os.environ.update(PJRT_NAMES_AND_LIBRARY_PATHS=f"cpu:{plugin}", JAX_PLATFORMS="cpu")
        sys.path.insert(0, str(HERE.parent.parent / "sdk" / "python"))
        if road == "overtaken":
            from jaxlib import xla_client
            xla_client.register_custom_call_handler("cpu", xla_client._xla.register_custom_call_target)
    elif road in ("package", "package8", "package_cpu"):
        name = "cpu" if road == "package_cpu" else "backplane"
        os.environ["JAX_PLATFORMS"] = "cpu" if road == "package_cpu" else "backplane,cpu"
        sys.path.insert(0, str(HERE.parent.parent / "sdk" / "python"))
        import backplane_jax
        backplane_jax.register(plugin, name, options={"cpu_device_count": 8} if road == "package8" else None)
    else:
        raise ValueError(f"unknown road {road!r}")


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints goes to stderr
    make_known(*sys.argv[1:3])
    sys.path.insert(0, str(HERE))
    import numpy as np
    import cases
    import cases.attention
    import cases.basic
    import cases.control
    import cases.linear_algebra
    import cases.models
    import cases.programs
    import cases.runtime
    import cases.several_devices
    import cases.sharded_models
    import cases.tiled_tpu
    import jax

    def answer(**what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    device = jax.devices()[0]
    answer(ready=f"{device.client.platform} {device.client.platform_version}")
    for line in sys.stdin:
        name, path = json.loads(line)
        try:
            result = cases.CASES[name].function()
            if result is not None:
                np.savez(path, **{k: np.asarray(v) for k, v in result.items()})
            answer(ok=True, results=result is not None)
        except Exception:
            answer(error=traceback.format_exc(limit=-4)[-4000:])


if __name__ == "__main__":
    main()
