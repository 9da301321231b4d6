"""pytest --plugin NAME=PATH: every case on every plugin named, in worker processes that are shared and replaced when one dies."""
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 180  # seconds for one case


def pytest_addoption(parser):
    parser.addoption("--plugin", action="append", default=[], metavar="NAME=PATH", help="a plugin to test; may be repeated")


def pytest_generate_tests(metafunc):
    if "plugin" in metafunc.fixturenames and not hasattr(metafunc.module, "pytest_generate_tests"):
        plugins = [p.split("=", 1) for p in metafunc.config.getoption("--plugin")]
        metafunc.parametrize("plugin", [path for _, path in plugins], ids=[name for name, _ in plugins], scope="session")


def xla_plugin():
    """The path of XLA's CPU plugin, the peer."""
    import importlib.util
    spec = importlib.util.find_spec("lammps_jax_pjrt_cpu")
    return str(pathlib.Path(spec.origin).parent / "pjrt_c_api_cpu_plugin.so")


class Died(Exception):
    """The worker ended or was silent."""


class Worker:
    def __init__(self, road, plugin):
        self.errors = tempfile.TemporaryFile()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PJRT_"))}
        env.update(TF_CPP_MIN_LOG_LEVEL="2", PYTHONDONTWRITEBYTECODE="1", PYTHONFAULTHANDLER="1")
        self.process = subprocess.Popen([sys.executable, str(HERE / "worker.py"), road, plugin], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, env=env)
        self.buffer = b""
        self.read(LIMIT)

    def read(self, limit):
        end = time.monotonic() + limit
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise Died(f"no answer in {limit} s\n{self.tail()}")
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise Died(f"the process ended with status {self.process.wait()}\n{self.tail()}")
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def ask(self, name, path):
        try:
            self.process.stdin.write((json.dumps([name, path]) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() says how it ended
        return self.read(LIMIT)

    def tail(self, size=3000):
        self.errors.seek(0)
        return self.errors.read()[-size:].decode(errors="replace")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


class Workers:
    """One live process for each (road, plugin)."""

    def __init__(self, folder):
        self.live, self.folder, self.count, self.peers = {}, folder, 0, {}

    def run(self, case, plugin):
        """The path of the case's results, or None; AssertionError with the case's own words when it failed."""
        key = (case.road, plugin)
        self.count += 1
        path = f"{self.folder}/{self.count}.npz"
        try:
            if key not in self.live:
                self.live[key] = Worker(*key)
            answer = self.live[key].ask(case.name, path)
        except Died as e:
            if key in self.live:
                self.live.pop(key).close()
            raise AssertionError(str(e)) from None
        if "error" in answer:
            raise AssertionError("\n" + answer["error"])
        return path if answer["results"] else None

    def run_on_peer(self, case):
        if case.name not in self.peers:
            self.peers[case.name] = self.run(case, xla_plugin())
        return self.peers[case.name]

    def close(self):
        for w in self.live.values():
            w.close()


@pytest.fixture(scope="session")
def workers(tmp_path_factory):
    pool = Workers(tmp_path_factory.mktemp("results"))
    yield pool
    pool.close()
