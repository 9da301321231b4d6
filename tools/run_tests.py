"""run_tests.py --build DIR [PATTERN]: CTest, then the Python tests on each built plugin; one closing line counts both.

The closing line is `N passed, N failed`, alone. The exit status is 0 when at least one test ran and none failed.
"""
import argparse
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read_junit(path):
    """(passed, names of those that did not) of a JUnit file; a file that is not there counts as one failure."""
    if not path.exists():
        return 0, [f"{path.name}: no report was written"]
    passed, failed = 0, []
    for case in ET.parse(path).getroot().iter("testcase"):
        name, skipped = case.get("name"), case.find("skipped")
        if skipped is not None and "SKIP_" in (skipped.get("message") or ""):
            continue  # said so itself; what could not be started is "notrun" as well
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") in ("fail", "notrun"):
            failed.append(name)
        elif skipped is None:
            passed += 1
    return passed, failed


def sanitizer_environment(build):
    """Returns the environment in which Python can open a plugin of this build: preloads the runtime of a sanitizer."""
    cache = (build / "CMakeCache.txt").read_text()
    kinds = re.search(r"^BACKPLANE_SANITIZE:STRING=(.*)$", cache, re.M)
    kinds = kinds.group(1).split(",") if kinds else []
    runtime = "asan" if "address" in kinds else "tsan" if "thread" in kinds else ""
    if not runtime:
        return None
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M).group(1)
    library = f"libclang_rt.{runtime}-{platform.machine()}.so" if "clang" in compiler else f"lib{runtime}.so"
    # The C++ library comes along: the sanitizer looks for its throw when it starts, and Python itself has none.
    path = " ".join(subprocess.run([compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
                    for name in (library, "libstdc++.so"))
    # Leaks are looked for in the C++ tests: an interpreter leaves things behind on purpose.
    return os.environ | {"LD_PRELOAD": path, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}


def run(command, report, env=None):
    report.unlink(missing_ok=True)
    status = subprocess.run([str(c) for c in command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL).returncode
    passed, failed = read_junit(report)
    return status, passed, failed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    p.add_argument("pattern", nargs="?", help="CTest names by regular expression, Python cases by part of their name")
    opt = p.parse_args()
    build = (ROOT / opt.build).resolve()
    start = time.monotonic()
    os.environ["BACKPLANE_VERIFY_PASSES"] = "1"  # a pass that leaves a wrong module is named, in every program and plugin

    ctest = ["ctest", "--test-dir", build, "-j", opt.jobs, "--output-on-failure", "--output-junit", build / "ctest.xml"]
    _, passed, failed = run(ctest + (["-R", opt.pattern] if opt.pattern else []), build / "ctest.xml")

    plugins = dict(line.split("=", 1) for line in (build / "plugins.txt").read_text().split())
    if plugins:
        report = build / "pytest.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", f"--junit-xml={report}", "tests/plugin"]
        command += [f"--plugin={name}={path}" for name, path in plugins.items()]
        status, ok, bad = run(command + (["-k", opt.pattern] if opt.pattern else []), report, sanitizer_environment(build))
        if status not in (0, 1, 5) and not bad:  # 5: the pattern chose none of them
            bad = [f"pytest ended with status {status}"]
        passed, failed = passed + ok, failed + bad

    print(f"\n{time.monotonic() - start:.0f} s" + (", plugins: " + " ".join(plugins) if plugins else ""))
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed", flush=True)
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
