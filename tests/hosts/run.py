"""run.py MODULE...: runs programs of this folder's `programs`, each in a process of its own, forked from this one.

This process imports the host and starts no client of it, so what is forked is a host that has just been imported. Names
come on stdin, one to a line, with the seconds that the program may take and the file for what it prints; for each, a JSON
line goes to stdout: the exit status of its process (negative: the signal that ended it; 124: it took too long) and the seconds.
"""
import importlib
import json
import os
import pathlib
import signal
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def run(function, output):
    """In the forked process: everything printed goes to `output`. Does not return."""
    status = 1
    try:
        os.setsid()
        with open(output, "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def wait(pid, limit):
    """The exit status of the process, which is ended with all that it started after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return 124
        time.sleep(0.02)


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from programs import PROGRAMS
    for module in sys.argv[1:]:
        importlib.import_module(f"programs.{module}")
    answers.write(json.dumps({"programs": list(PROGRAMS)}) + "\n")
    answers.flush()
    for line in sys.stdin:
        name, limit, output = line.split(None, 2)
        begin = time.monotonic()
        pid = os.fork()
        if pid == 0:
            run(PROGRAMS[name], output.strip())
        status = wait(pid, float(limit))
        answers.write(json.dumps({"name": name, "status": status, "seconds": round(time.monotonic() - begin, 1)}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
