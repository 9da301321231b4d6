"""Checks every #include of ours against the dependency table of ARCHITECTURE.md.

An include of ours is written from the repository root (`#include "core/types/shape.h"`). The file's room is the
longest key of RULES that its path starts with; the included path must start with one of the rooms allowed there.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Inside the core types, then ops, then ir depend on each other, relayout on types, and the others on all of them.
TYPES, OPS, IR = ["core/types"], ["core/types", "core/ops"], ["core/types", "core/ops", "core/ir"]
CORE = ["core"]

# What every folder but api may include: headers on abseil and the standard library alone.
BASE = "base"

RULES = {
    "api": ["api"],
    "base": [],
    "core/types": TYPES,
    "core/relayout": ["core/relayout", "core/types"],
    "core/ops": OPS,
    "core/ir": IR,
    "core": CORE,
    "sdk/backend": ["sdk/backend", "core"],
    "sdk/compiler": ["sdk/compiler", "sdk/backend", "core"],
    "sdk/codegen": ["sdk/codegen", "sdk/compiler", "core"],
    "sdk/engine/thunks": ["sdk/engine/thunks", "sdk/engine/codegen", "sdk/engine/kernels", "sdk/engine/runtime", "sdk/compiler", "sdk/backend", "core"],
    "sdk/engine": ["sdk/engine", "sdk/compiler", "sdk/codegen", "sdk/backend", "core"],
    "sdk/shim": ["sdk/shim", "sdk/backend", "core", "api"],
    "sdk/host": ["sdk/host", "api"],
    "sdk/layers": ["sdk/layers", "sdk/host", "api"],
    "sdk/report": ["sdk/report", "core"],
    "sdk/testing": ["sdk/testing", "sdk/host", "sdk/backend", "sdk/shim", "core", "api"],
    "sdk/cli": ["sdk/cli", "sdk/host", "sdk/layers", "sdk/report", "conformance/kit", "api", "core"],  # core: to read programs
    "plugins": ["sdk/backend", "sdk/compiler", "sdk/codegen", "sdk/engine", "sdk/report", "core"],  # and the plugin's own folder, added below
    "conformance": ["conformance", "sdk/host", "api"],
    "samples": ["api", "sdk/host"],
    "samples/backend": ["samples/backend", "sdk/backend", "core"],
    "samples/queue_backend": ["samples/queue_backend", "samples/backend", "sdk/backend", "core"],
    "tests": ["tests", "api", "core", "sdk", "plugins", "conformance"],
}
# A test may use what the core offers for reading programs, whatever room it stands in; and the tests of sdk rooms may
# use the testing room. Benches are tests of speed. Files named _testing help tests.
TEST_FILE = re.compile(r"_(test|testing|bench)\.(cc|c|h)$")
TEST_EXTRA = {"core": ["core"], "sdk": ["sdk/testing", "sdk/host", "core", "api"], "plugins": ["sdk/testing", "sdk/host", "sdk/shim", "api"],
              "samples": ["sdk/testing", "sdk/host", "api"], "api": []}

ROOMS = ("api/", "base/", "core/", "sdk/", "plugins/", "conformance/", "samples/", "tests/", "bench/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    best = max((r for r in RULES if path == r or path.startswith(r + "/")), key=len, default=None)
    return best


def allowed(path):
    room = room_of(path)
    if room is None:
        return None
    extra = []
    if room == "plugins":
        extra.append("/".join(path.split("/")[:2]))
    if TEST_FILE.search(path):
        extra += TEST_EXTRA.get(path.split("/")[0], [])
    return RULES[room] + extra + ([BASE] if room != "api" else [])


def violations(path, text):
    """One message for each line of `text`, the content of the file `path`, that breaks the table."""
    found = []
    may = allowed(path)
    for number, line in enumerate(text.splitlines(), 1):
        m = INCLUDE.match(line)
        if not m:
            continue
        style, target = m.groups()
        ours = target.startswith(ROOMS)
        where = f"{path}:{number}"
        if ours and style == "<":
            found.append(f"{where}: '{target}' is ours, write it in quotes")
        if style == '"' and not ours and (ROOT / path).parent.joinpath(target).exists():
            found.append(f"{where}: '{target}' is written from its folder, expected from the repository root")
        if not ours or may is None:
            continue
        if not any(target.startswith(room + "/") for room in may):
            found.append(f"{where}: {room_of(path)} may not include '{target}'; allowed: {', '.join(may)}")
    return found


def sources():
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "*.h", "*.cc", "*.c"],
                           check=True, capture_output=True, text=True).stdout.split()
    return [n for n in names if (ROOT / n).is_file()]


def self_check():
    """The rule itself: these lines must be refused, and these accepted."""
    refused = [("core/types/x.h", '#include "core/ops/op.h"'), ("core/ir/x.cc", '#include "core/passes/pass.h"'),
               ("core/eval/x.cc", '#include "sdk/backend/backend.h"'), ("sdk/host/x.cc", '#include "core/types/shape.h"'),
               ("plugins/cpu/x.cc", '#include "plugins/reference/x.h"'), ("plugins/cpu/x.cc", '#include "api/pjrt_c_api.h"'), ("plugins/cpu/x.cc", '#include "sdk/shim/shim.h"'),
               ("conformance/kit/x.cc", '#include "core/ir/module.h"'), ("samples/c_host/x.c", '#include "sdk/shim/shim.h"'),
               ("api/x.h", '#include "core/types/shape.h"'), ("core/eval/x.cc", '#include <core/types/shape.h>'),
               ("sdk/codegen/x.cc", '#include "sdk/engine/jit/jit.h"'), ("sdk/engine/thunks/x.cc", '#include "sdk/engine/compiler/program.h"'), ("sdk/compiler/x.cc", '#include "sdk/engine/codegen/kernel.h"'),
               ("sdk/compiler/x.cc", '#include "sdk/codegen/ir_target.h"')]
    accepted = [("core/passes/x.cc", '#include "core/text/parser.h"'), ("sdk/shim/x.cc", '#include "api/pjrt_c_api.h"'),
                ("plugins/cpu/x.cc", '#include "plugins/cpu/y/y.h"'), ("core/ir/x_test.cc", '#include "core/text/parser.h"'),
                ("core/eval/x.cc", '#include <vector>')]
    return ([f"self check: '{line}' in {path} should be refused" for path, line in refused if not violations(path, line)] +
            [f"self check: '{line}' in {path} should be accepted" for path, line in accepted if violations(path, line)])


def main():
    names = sources()
    found = self_check()
    for name in names:
        found += violations(name, (ROOT / name).read_text(errors="replace"))
    print("\n".join(found) if found else f"include rule: {len(names)} files keep it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
