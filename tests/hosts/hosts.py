"""hosts.py --plugin PATH [PATTERN...]: installs other vendors' hosts, runs programs on our plugin in each, and prints the results.

Every host gets a virtual environment under build/hosts, made of packages by name and version, and kept; a name that ends
in a matching pattern is installed and run, all of them without one. Results are merged into out/hosts.json, so that hosts
can be run one at a time; --docs writes the table of docs/hosts.md from that file. The exit status is 1 when something
failed that list_of_hosts.KNOWN does not name, or when what it names passed.
"""
import argparse
import hashlib
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
sys.path.insert(0, str(HERE))

from list_of_hosts import HOSTS, KNOWN  # noqa: E402
import stand_ins  # noqa: E402

BEGIN, END = "<!-- hosts: begin -->", "<!-- hosts: end -->"
FOREIGN = ("JAX_", "XLA_", "PJRT_", "TF_", "TORCH_", "BACKPLANE_", "PYTHON", "VIRTUAL_ENV", "LD_")


def find_python(wanted):
    """The path of an interpreter of one of these minor versions, from the search path or from pyenv; None without one."""
    kept = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    for minor in wanted:
        candidates = [f"python3.{minor}", *sorted(kept.glob(f"3.{minor}.*/bin/python"), reverse=True), sys.executable, "/usr/bin/python3"]
        for candidate in filter(None, map(shutil.which, map(str, candidates))):
            asked = subprocess.run([candidate, "-c", "import ensurepip, sys; print(sys.version_info.minor)"], capture_output=True, text=True)
            if asked.returncode == 0 and asked.stdout.strip() == str(minor):
                return candidate
    return None


def install(host, folder):
    """The environment's interpreter; makes the environment unless one of the same packages stands there."""
    place = folder / host.name
    stamp, digest = place / "installed", hashlib.sha256(repr((host.packages, host.without_dependencies)).encode()).hexdigest()
    python = place / "bin/python"
    if stamp.exists() and stamp.read_text() == digest:
        return python
    found = find_python(host.python)
    if found is None:
        raise RuntimeError(f"needs Python {' or '.join(f'3.{m}' for m in host.python)}, which is not here")
    print(f"{host.name}: installing", flush=True)
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([found, "-m", "venv", place], check=True)
    for packages, flags in ((host.without_dependencies, ["--no-deps"]), (host.packages, [])):
        if packages:
            done = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *flags, *packages], capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    if host.without_dependencies:
        stand_ins.make(place)
    stamp.write_text(digest)
    return python


def environment(host, road, plugin, folder):
    """The variables of a road to the plugin; nothing that the caller's shell set for a host."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    env.update(PYTHONDONTWRITEBYTECODE="1", PYTHONFAULTHANDLER="1", OPENBLAS_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="2",
               JAX_TRACEBACK_FILTERING="off", BACKPLANE_HOSTS_ROAD=road, BACKPLANE_HOSTS_PLUGIN=str(plugin))
    env["BACKPLANE_HOSTS_EXPECT"] = "backplane"  # in the platform's version
    config = folder / "plugin.json"
    config.write_text(json.dumps({"library_path": str(plugin), "create_options": {"cpu_device_count": 4}}))
    env.update(PJRT_NAMES_AND_LIBRARY_PATHS=f"backplane:{config}", JAX_PLATFORMS="backplane")
    if road == "package":
        env.update(JAX_PLATFORMS="backplane,cpu", PYTHONPATH=str(ROOT / "sdk/python"))
    return env | host.environment


def reason(status, output):
    """In one line, why a program failed."""
    if status == 124:
        return "took too long"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Abort|Interrupt)\b.*", line)]
    fatal = [line for line in lines if re.search(r"\bF\d{4} |Fatal Python error|Check fail|libprotobuf FATAL|terminate called|Assertion `", line)]
    text = (fatal or told or lines or [""])[0 if fatal else -1]
    return (f"signal {-status}: " if status < 0 else "") + text[:300]


def run_road(host, road, python, opt, folder):
    """Status, seconds and reason of each program of a road."""
    modules = host.roads[road]
    server = subprocess.Popen(["nice", "-n", str(opt.nice), python, "-B", str(HERE / "run.py"), *modules], cwd=folder, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(errors := open(folder / "server.txt", "w+")),
                              env=environment(host, road, opt.plugin, folder))
    results = {}
    try:
        first = server.stdout.readline()
        if not first:
            errors.seek(0)
            return {"import": {"status": server.wait(), "seconds": 0, "reason": reason(server.wait(), errors.read())}}
        for name in json.loads(first)["programs"]:
            if opt.only and not re.search(opt.only, name):
                continue
            output = opt.out / "hosts" / host.name / f"{road}-{name}.txt"
            output.parent.mkdir(parents=True, exist_ok=True)
            server.stdin.write(f"{name} {opt.limit} {output}\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            found = results[name] = {"status": answer["status"], "seconds": answer["seconds"]}
            if answer["status"] != 0:
                found["reason"] = reason(answer["status"], output.read_text(errors="replace"))
                known = KNOWN.get((host.name, road, name))
                print(f"  {host.name} {road} {name}: {'known: ' + known if known else found['reason']}", flush=True)
    finally:
        server.stdin.close()
        server.wait()
    return results


def summary(results):
    return f"{sum(r['status'] == 0 for r in results.values())} of {len(results)}"


def unexpected(every):
    """Failures that are not known, and known ones that pass."""
    found = []
    for host in HOSTS:
        for road, results in every.get(host.name, {}).get("roads", {}).items():
            for name, result in results.items():
                known = (host.name, road, name) in KNOWN
                if (result["status"] == 0) == known and not (road in host.peers and result["status"] != 0):
                    found.append(f"{host.name} {road} {name}: {'passes, though KNOWN names it' if known else result['reason']}")
    return found


def table(every):
    """The matrix as Markdown, with the reason of each failure under it."""
    lines = ["| host | Python | needs | programs that ran |", "|---|---|---|---|"]
    notes = []
    for host in HOSTS:
        entry = every.get(host.name)
        if entry is None:
            continue
        if "error" in entry:
            lines.append(f"| {host.title} | – | {host.needs} | not run: {entry['error']} |")
            continue
        ran = "; ".join(f"{host.road_names[road]}: **{summary(results)}**" for road, results in entry["roads"].items())
        lines.append(f"| {host.title} | {entry['python']} | {host.needs or 'nothing'} | {ran} |")
        for road, results in entry["roads"].items():
            for name, result in results.items():
                if result["status"] != 0:
                    why = KNOWN.get((host.name, road, name)) or result["reason"].replace("|", "\\|")
                    notes.append(f"- {host.title}, {host.road_names[road]}, `{name}`: {why}")
    return "\n".join(lines + ([""] + ["What failed:", ""] + notes if notes else [])) + "\n"


def write_docs(every):
    page = ROOT / "docs/hosts.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table(every)}{END}{rest.split(END, 1)[1]}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("patterns", nargs="*", help="expressions that match the names of hosts")
    p.add_argument("--plugin", type=pathlib.Path, required=True)
    p.add_argument("--list", action="store_true", help="print the names and end")
    p.add_argument("--only", help="an expression: the programs to run; the results are not kept")
    p.add_argument("--road", help="bare, package, ...: that road alone; the results are not kept")
    p.add_argument("--limit", type=float, default=180, help="seconds for one program")
    p.add_argument("--nice", type=int, default=10)
    p.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/hosts", help="of the environments")
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "out")
    p.add_argument("--docs", action="store_true", help="write the table of docs/hosts.md from what was kept")
    opt = p.parse_args()
    opt.plugin, opt.out = opt.plugin.resolve(), opt.out.resolve()
    chosen = [h for h in HOSTS if not opt.patterns or any(re.search(pattern, h.name) for pattern in opt.patterns)]
    if opt.list:
        print("\n".join(h.name for h in chosen))
        return 0
    if not chosen:
        raise SystemExit(f"no host matches; there are: {', '.join(h.name for h in HOSTS)}")
    kept = opt.out / "hosts.json"
    every = json.loads(kept.read_text()) if kept.exists() else {}
    opt.folder.mkdir(parents=True, exist_ok=True)
    now = {}
    for host in chosen:
        begin = time.monotonic()
        try:
            python = install(host, opt.folder.resolve())
        except RuntimeError as e:
            now[host.name] = {"error": str(e)}
            print(f"{host.name}: {e}", flush=True)
            continue
        version = subprocess.run([python, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True).stdout.strip()
        entry = now[host.name] = {"python": version, "plugin": hashlib.sha256(opt.plugin.read_bytes()).hexdigest()[:16], "roads": {}}
        for road in host.roads:
            if opt.road in (None, road):
                with tempfile.TemporaryDirectory() as folder:
                    entry["roads"][road] = run_road(host, road, python, opt, pathlib.Path(folder))
        print(f"{host.name}: " + "; ".join(f"{road} {summary(r)}" for road, r in entry["roads"].items()) + f" ({time.monotonic() - begin:.0f} s)", flush=True)
        if not (opt.only or opt.road):
            every[host.name] = entry
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(every, indent=1) + "\n")
    if opt.docs:
        write_docs(every)
    wrong = unexpected(now)
    missing = [f"{name}: {entry['error']}" for name, entry in now.items() if "error" in entry]
    print("\n".join(["", *table(now).splitlines(), "", *wrong, *missing]))
    programs = [r for entry in now.values() for results in entry.get("roads", {}).values() for r in results.values()]
    print(f"{len(programs) - len(wrong)} passed, {len(wrong) + len(missing)} failed")
    return 1 if wrong or missing or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
