"""broken_test.py --conform EXE --over PLUGIN.so --broken DIR: the kit finds each defect of caught_by.txt, by the check named
there and with a reason that names the defect; on the whole plugin underneath the same checks pass."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def defects():
    """(plugin, check, words, options) of each line."""
    for line in (HERE / "caught_by.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            plugin, check, words, *options = shlex.split(line)
            yield plugin, check, words, options


def judge(opt, plugin, checks, options, folder):
    """The outcomes by id, and the exit status, of the checks whose ids begin so."""
    # One plugin may be judged several times at once.
    report = pathlib.Path(folder) / f"{pathlib.Path(plugin).stem}.{len(checks)}.{checks[0].replace('/', '')}.json"
    only = "|".join(f"^{re.escape(c)}" + ("" if c.endswith("/") else "$") for c in checks)
    command = [opt.conform, plugin, "--only", only, "--profile", HERE / "strict.txt", "--json", report, "--quiet", "--jobs", "2", *options]
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=180, env=os.environ | {"BACKPLANE_BROKEN_OVER": opt.over})
    if not report.exists():
        return {}, run.returncode, run.stdout + run.stderr
    return {c["id"]: c for c in json.loads(report.read_text())["checks"]}, run.returncode, run.stdout + run.stderr


def problem_with(opt, folder, plugin, check, words, options):
    """What is wrong with how this defect was found, or nothing."""
    found, status, output = judge(opt, str(pathlib.Path(opt.broken) / f"broken_{plugin}.so"), [check], options, folder)
    failed = [c for c in found.values() if c["result"] == "fail"]
    if not found:
        return f"{plugin}: {check} did not run (status {status})\n{output}"
    if not failed:
        return f"{plugin}: {check} did not find it: {[(c['result'], c['detail']) for c in found.values()]}"
    if not any(words in c["detail"] for c in failed):
        return f"{plugin}: {check} does not name the defect ('{words}'): {failed[0]['detail']}"
    if status != 1:
        return f"{plugin}: status {status}, expected 1"
    print(f"{plugin}: {failed[0]['id']}: {failed[0]['detail'].splitlines()[0][:150]}", flush=True)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--conform", required=True)
    p.add_argument("--over", required=True)
    p.add_argument("--broken", required=True)
    opt = p.parse_args()
    listed = list(defects())
    problems = []
    built = {f.stem.removeprefix("broken_") for f in pathlib.Path(opt.broken).glob("broken_*.so")} & {f.stem for f in HERE.glob("*.cc")}
    problems += [f"{name}: has no line in caught_by.txt" for name in sorted(built - {d[0] for d in listed})]
    with tempfile.TemporaryDirectory() as folder:
        whole, status, output = judge(opt, opt.over, sorted({d[1] for d in listed}), [], folder)
        if status != 0 or any(c["result"] != "pass" for c in whole.values()):
            problems.append(f"the whole plugin: status {status}\n{output}")
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            problems += [r for r in pool.map(lambda d: problem_with(opt, folder, *d), listed) if r]
    print("\n".join(problems) if problems else f"{len(listed)} defects found; {len(whole)} checks pass on the whole plugin")
    return 1 if problems or len(listed) < 25 else 0


if __name__ == "__main__":
    sys.exit(main())
