"""install_test.py --build DIR: Backplane from the user's side.

Installs the build with DESTDIR and a prefix of its own, so what lies there is used from a place nobody configured: by
find_package, by pkg-config from C11, as a subproject, and by the project that `backplane new-plugin` makes, whose plugin
JAX opens and the kit judges. Each step stands alone as --only NAME; the time of each is printed.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PREFIX = "/opt/backplane-1"


def run(*command, cwd=None, env=None, fails=False):
    """Output of a command; its words in the error when its status is not the one expected."""
    r = subprocess.run([str(c) for c in command], cwd=cwd, env=os.environ | (env or {}), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (r.returncode != 0) == fails, f"{' '.join(map(str, command))}: status {r.returncode}\n{r.stdout[-6000:]}\n{r.stderr[-6000:]}"
    return r.stdout + r.stderr


class Install:
    def __init__(self, opt, folder):
        self.opt, self.folder = opt, folder
        self.prefix = folder / "dest" / PREFIX[1:]
        self.reference = self.prefix / "lib/backplane/plugins/pjrt_backplane_reference.so"

    def cmake(self, source, build, *arguments, target=None, env=None):
        run(self.opt.cmake, "-G", "Ninja", "-S", source, "-B", build, *arguments, env=env)
        run(self.opt.cmake, "--build", build, *(["--target", target] if target else []), env=env)

    def install(self):
        run(self.opt.cmake, "--install", self.opt.build, "--prefix", PREFIX, env={"DESTDIR": str(self.folder / "dest")})
        assert list((self.folder / "dest").iterdir()) == [self.folder / "dest/opt"], "files outside the prefix"

    def contents(self):
        for name in ("bin/backplane", "include/backplane/api/pjrt_c_api.h", "include/backplane/sdk/backend/mixed/mixed_backend.h",
                     "include/backplane/core/ops/op_table.def", "lib/libbp_host.a", "lib/libbp_shim.a", "lib/cmake/Backplane/BackplaneConfig.cmake",
                     "lib/pkgconfig/backplane-host.pc", "lib/backplane/plugins/pjrt_backplane_cpu.so", "lib/backplane/plugins/libdnnl.so.3",
                     "share/backplane/plugins.d/cpu.json", "share/backplane/plugins.d/tpu_emulator.json", "share/backplane/templates/plugin/.github/workflows/ci.yml",
                     "share/backplane/conformance/levels/jax-min.txt", "share/man/man1/backplane.1", "share/man/man1/backplane-new-plugin.1",
                     "share/bash-completion/completions/backplane", "share/zsh/site-functions/_backplane",
                     "share/fish/vendor_completions.d/backplane.fish", "share/doc/Backplane/docs/embedding.md", "share/doc/Backplane/LICENSE",
                     "share/doc/Backplane/NOTICE", "lib/backplane/layers/pjrt_backplane_layers.so"):
            assert (self.prefix / name).is_file(), f"{name} is missing"
        files = [p for p in self.prefix.rglob("*") if p.is_file()]
        strays = [str(p) for p in files if re.search(r"_test\.(h|cc)$|/testdata/|gtest|\.o$|__pycache__", str(p))]
        assert not strays, strays[:5]
        # Nothing that is text says where it was built or where it was meant to go.
        for p in files:
            if p.suffix in (".cmake", ".pc", ".json", ".h", ".1", ".map", ".cc", ".def"):
                text = p.read_text(errors="replace")
                for place in (str(ROOT), str(self.opt.build), str(self.folder)):
                    assert place not in text, f"{p}: names {place}"
        # Every header that is installed finds what it includes.
        include = self.prefix / "include/backplane"
        for p in include.rglob("*.h"):
            for name in re.findall(r'^#include "([^"]+)"', p.read_text(), re.M):
                ours = name.split("/")[0] in ("api", "core", "sdk")
                assert not ours or (include / name).is_file(), f"{p}: includes {name}, which is not installed"
        for name in ("cpu", "reference", "tpu_emulator"):
            dynamic = run("readelf", "-d", self.prefix / f"lib/backplane/plugins/pjrt_backplane_{name}.so")
            paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic)
            assert paths == ["$ORIGIN"], f"{name}: looks for libraries in {paths}"
        linked = run("ldd", self.prefix / "lib/backplane/plugins/pjrt_backplane_cpu.so", env={"LD_LIBRARY_PATH": ""})
        assert f"libdnnl.so.3 => {self.prefix}/lib/backplane/plugins/libdnnl.so.3" in linked.replace("/./", "/"), linked
        for page in sorted((self.prefix / "share/man/man1").iterdir()):
            told = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page) if shutil.which("man") else page.read_text()
            assert "warning" not in told and len(told) > 300, f"{page.name}: {told[:500]}"

    def command(self):
        env = {"XDG_DATA_DIRS": str(self.prefix / "share"), "XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder),
               "VIRTUAL_ENV": "", "PJRT_NAMES_AND_LIBRARY_PATHS": "", "BACKPLANE_PLUGIN_PATH": ""}
        command = self.prefix / "bin/backplane"
        found = {p["name"]: p["library"] for p in json.loads(run(command, "plugins", "--json", env=env))["plugins"]}
        for name in ("cpu", "reference", "tpu_emulator"):
            assert os.path.samefile(found[name], self.prefix / f"lib/backplane/plugins/pjrt_backplane_{name}.so"), found
        # Found once where the data folders name the prefix too, and without them from the command's own place.
        bare = env | {"XDG_DATA_DIRS": str(self.folder)}
        for variables in (env, bare):
            names = [p["name"] for p in json.loads(run(command, "plugins", "--json", env=variables))["plugins"]]
            assert sorted(names) == sorted(set(names)) and {"cpu", "reference"} <= set(names), names
        program = self.folder / "twice.mlir"
        program.write_text("func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.add %x, %x : tensor<2xf32>\n"
                           "  return %0 : tensor<2xf32>\n}\n")
        for name in ("cpu", "reference", "tpu_emulator"):
            log = run(command, "compile", name, program, "--log", env=env)
            assert "add" in log, log
        # The layers are found from the command's own place.
        run(command, "trace", program, "--plugin", "cpu", "--output", self.folder / "traced", env=env)
        assert "LoadedExecutable_Execute" in (self.folder / "traced.json").read_text()
        # Its data is its own: a level that only the prefix has.
        (self.prefix / "share/backplane/conformance/levels/only-here.txt").write_text("# A level of this test\nabi.version\n")
        run(command, "conform", "reference", "--level", "only-here", env=env)
        run("bash", "-c", f"source {self.prefix}/share/bash-completion/completions/backplane && complete -p backplane")

    def find_package(self):
        build = self.folder / "find_package"
        self.cmake(HERE / "find_package", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DSAMPLES={ROOT}/samples")
        assert "3.0000 -2.0000" in run(build / "use_host", self.reference)
        run(build / "use_abi", self.reference, ROOT / "samples/c_host/program.mlir")
        told = run(build / "use_core")
        assert "multiply" in told and "{1, 4, 9}" in told, told

    def pkg_config(self):
        env = {"PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}

        def flags(*arguments):
            return run("pkg-config", *arguments, env=env).split()
        out = self.folder / "c11"
        run(self.opt.compiler, "-std=c11", "-pedantic-errors", "-Wall", "-Werror", *flags("--cflags", "backplane-pjrt-abi"),
            ROOT / "samples/c_host/main.c", "-o", out, *flags("--libs", "backplane-pjrt-abi"), "-ldl", "-lm")
        run(out, self.reference, ROOT / "samples/c_host/program.mlir")
        run(self.opt.cxx, "-std=c++20", *flags("--cflags", "backplane-core"), HERE / "find_package/core.cc", "-o", self.folder / "pc_core",
            *flags("--libs", "backplane-core"))
        assert "{1, 4, 9}" in run(self.folder / "pc_core")
        assert str(self.prefix) in run("pkg-config", "--variable=plugindir", "backplane-host", env=env)

    def subproject(self):
        """The C host is built and run. Of the C++ host what would be built is looked at, and built where --whole says so."""
        build = self.folder / "subproject"
        self.cmake(HERE / "subproject", build, f"-DBACKPLANE={ROOT}", "-DCMAKE_BUILD_TYPE=Debug", "-DBACKPLANE_PRECOMPILE=OFF", target="use_abi")
        run(build / "use_abi", self.reference, ROOT / "samples/c_host/program.mlir")
        # Not `ninja -n`: where folders are globbed it plans to configure again, and no further.
        plan = run("ninja", "-C", build, "-t", "commands", "use_host")
        archives = set(re.findall(r"lib\w+\.a\b", plan))
        assert archives == {"libbp_host.a"}, f"for one host these would be built: {archives}"
        run(self.opt.cmake, "--build", build, "--target", "backplane/sdk/host/CMakeFiles/bp_host.dir/status.cc.o")
        if self.opt.whole:
            run(self.opt.cmake, "--build", build, "--target", "use_host")
            assert "3.0000 -2.0000" in run(build / "use_host", self.reference)

    def new_plugin(self):
        command, project = self.prefix / "bin/backplane", self.folder / "my_chip"
        told = run(command, "new-plugin", "my_chip", "--dir", project)
        assert "src/backend.cc" in told, told
        assert "has files in it" in run(command, "new-plugin", "my_chip", "--dir", project, fails=True)
        assert "may have letters" in run(command, "new-plugin", "my-chip", cwd=self.folder, fails=True)
        assert not (self.folder / "my-chip").exists()
        left = [str(p) for p in project.rglob("*") if p.is_file() and re.search(r"@(name|Name|NAME|version)@", f"{p}{p.read_text()}")]
        assert not left, left
        # As its CI file builds it, word for word.
        self.without_plugins(project)
        told = self.in_ci(project, self.ci_steps(project)["build and test"])
        assert re.search(r"conform \.+ +Passed", told) and re.search(r"jax \.+ +Passed", told), told
        symbols = run("nm", "-D", "--defined-only", project / "python/jax_plugins/my_chip/my_chip.so").split("\n")
        assert [s.split()[-1] for s in symbols if s] == ["GetPjrtApi"], symbols

    def ci_steps(self, project):
        """The commands of the project's CI file, by the names of their steps."""
        text = (project / ".github/workflows/ci.yml").read_text()
        steps = {}
        for name, block, line in re.findall(r"^ +- name: (.+)\n +run: (?:\|\n((?: {10}.*\n)+)|(.+)\n)", text, re.M):
            steps[name] = re.sub(r"^ {10}", "", block, flags=re.M) if block else line
        assert text.count(" run:") == len(steps) == 4, f"a step that is not looked at: {list(steps)}"
        return steps

    def in_ci(self, project, commands):
        """Commands of the CI file, as they are written, in the project's folder. JAX comes from here and not from an index."""
        python = self.folder / "ci_bin"
        python.mkdir(exist_ok=True)
        (python / "python3").unlink(missing_ok=True)
        (python / "python3").symlink_to(sys.executable)
        packages = [p for p in sys.path if p.endswith("-packages")]
        return run("bash", "-e", "-c", commands, cwd=project,
                   env={"PATH": f"{python}:{pathlib.Path(self.opt.cmake).parent}:{os.environ['PATH']}", "PYTHONPATH": ":".join(packages), "PIP_NO_INDEX": "1",
                        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "CC": self.opt.compiler, "CXX": self.opt.cxx})

    def without_plugins(self, project):
        """What the CI file makes of Backplane's sources: configured and installed as it says. What would be built is what this build has."""
        steps = self.ci_steps(project)
        packages = re.sub(r"\\\n", " ", steps["tools"]).split("--no-install-recommends")[1].split()
        if shutil.which("apt-cache") and "Candidate: (none)" not in run("apt-cache", "policy", "cmake"):
            known = run("apt-cache", "policy", *packages)
            missing = [p for p in packages if not re.search(rf"^{re.escape(p)}:\n.*\n +Candidate: [^(]", known, re.M)]
            assert not missing, f"no packages of Debian: {missing}"
        configure, build, install = steps["Backplane, without its plugins and tests"].strip().split("\n")
        assert build == "cmake --build backplane/build", build
        folder = self.folder / "without_plugins"
        assert configure.count("-S backplane ") == configure.count("-B backplane/build ") == install.count("--install backplane/build ") == 1
        self.in_ci(project, configure.replace("-S backplane ", f"-S {ROOT} ").replace("-B backplane/build ", f"-B {folder} "))
        targets = run("ninja", "-C", folder, "-t", "targets", "all")
        of_all = set(run("ninja", "-C", folder, "-t", "commands", "all").split())  # not the benches, which are built by name
        outputs = [o for o in re.findall(r"^(\S+): (?:C|CXX)_\S*(?:LINKER|LIBRARY)", targets, re.M) if o in of_all]
        assert any(o.endswith("bin/backplane") for o in outputs) and not [o for o in outputs if "plugins/" in o], outputs
        for output in outputs:
            (folder / output).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.opt.build / output, folder / output)
        shutil.copytree(self.opt.build / "install/pages", folder / "install/pages")
        self.in_ci(project, install.replace("backplane/build", str(folder)))

    def wheel(self):
        """The project's wheel, found by JAX's own discovery where nothing else tells of the plugin."""
        project, site = self.folder / "my_chip", self.folder / "site"
        self.in_ci(project, self.ci_steps(project)["wheel"])
        wheel, = (project / "dist").glob("my_chip-0.1.0-py3-none-linux_*.whl")
        run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, wheel)
        program = "import jax; d = jax.devices('my_chip'); print(d[0].platform, jax.jit(lambda x: x + x)(jax.device_put(3.0, d[0])))"
        told = run(sys.executable, "-c", program, cwd=self.folder, env={"PYTHONPATH": str(site), "JAX_PLATFORMS": ""})
        assert "my_chip 6.0" in told, told
        program = "import jax; print(jax.default_backend())"
        assert "cpu" in run(sys.executable, "-c", program, cwd=self.folder, env={"PYTHONPATH": str(site), "JAX_PLATFORMS": ""})


STEPS = ("install", "contents", "command", "find_package", "pkg_config", "subproject", "new_plugin", "wheel")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--cmake", type=pathlib.Path, default=pathlib.Path(shutil.which("cmake")))
    p.add_argument("--compiler", default="cc", help="the C compiler")
    p.add_argument("--cxx", default="c++", help="the C++ compiler")
    p.add_argument("--only", action="append", choices=STEPS, help="these steps; may be repeated")
    p.add_argument("--whole", action="store_true", help="the subproject's C++ library too, which takes a minute of both cores")
    p.add_argument("--keep", type=pathlib.Path, help="work in this folder and leave it")
    opt = p.parse_args()
    opt.build = opt.build.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        work = Install(opt, opt.keep.resolve() if opt.keep else pathlib.Path(temporary).resolve())
        work.folder.mkdir(parents=True, exist_ok=True)
        for step in opt.only or STEPS:
            start = time.monotonic()
            getattr(work, step)()
            print(f"{step}: {time.monotonic() - start:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
