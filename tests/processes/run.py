"""Starts one program in several processes, for the tests of this folder."""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


# Several processes on one machine, which is what MPI's tests are; --enable-recovery: a process that is killed does not
# end the others.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "--bind-to", "none"]


class Run:
    """The processes of one program. `outputs` has what each has printed, once `wait` has returned. With the create option
    transport=mpi mpirun starts them; `codes` has its code for each then."""

    def __init__(self, program, plugin, processes, devices=1, options=(), arguments=(), prefix=(), coordinator=None,
                 per_process=None, count_as=None):
        port = free_port()
        self.started = time.monotonic()
        self.processes = []
        env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONDONTWRITEBYTECODE="1")
        env["PYTHONPATH"] = os.pathsep.join([str(FOLDER.parents[1] / "sdk" / "python"), env.get("PYTHONPATH", "")])
        self.output_files, contexts = [], []
        for i in range(processes):
            command = [*(prefix[i] if prefix else ()), sys.executable, str(FOLDER / "programs" / program),
                       f"--process={i}", f"--processes={count_as or processes}", f"--devices={devices}", f"--port={port}"]
            command += [f"--plugin={plugin}"] if plugin else []
            command += [f"--coordinator={coordinator}"] if coordinator else []
            command += [f"--option={o}" for o in options] + [f"--argument={x}" for x in arguments]
            command += per_process(i) if per_process else []
            if processes > 1 and "transport=mpi" in options:
                self.output_files.append(tempfile.NamedTemporaryFile("r", errors="replace"))
                contexts += [":"] * bool(contexts) + ["-n", "1", "sh", "-c", 'f=$1; shift; exec "$@" > "$f" 2>&1', "sh",
                                                      self.output_files[-1].name, *command]
                continue
            self.start(command, env)
        if contexts:
            self.start(MPIRUN + contexts, env)

    def start(self, command, env):
        self.processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                               errors="replace"))

    def wait(self, seconds):
        """Waits for all. A process that does not end in time is killed; its code is "timeout"."""
        self.outputs, self.codes = [], []
        end = time.monotonic() + seconds
        for p in self.processes:
            try:
                out = p.communicate(timeout=max(0.1, end - time.monotonic()))[0]
                code = p.returncode
            except subprocess.TimeoutExpired:
                p.kill()
                out, code = p.communicate()[0], "timeout"
            self.outputs.append(out)
            self.codes.append(code)
        if self.output_files:
            self.codes *= len(self.output_files)
            self.outputs = [f.read() + f"mpirun: {out}" for f in self.output_files]
        self.seconds = time.monotonic() - self.started
        return self

    def kill(self):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
                p.wait()


def result_lines(outputs):
    return sorted(line for out in outputs for line in out.splitlines() if line.startswith("RESULT "))
