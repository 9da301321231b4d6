"""exports_test.py PLUGIN.so [--max-mib N]: the plugin exports GetPjrtApi and nothing else, refers to nothing that a host's
libraries may define otherwise, and is of moderate size."""
import argparse
import os
import re
import subprocess
import sys


# A host may have loaded any library globally, and its definitions take precedence over those of our libraries. Allowed
# are versioned functions of the C, C++, math, compiler and OpenMP runtimes, of which a process has one; abseil, whose
# symbol names contain its release (Debian's have a name of their own); oneDNN's C interface; and weak hooks of zstd.
VERSIONS = ("GLIBC_", "GLIBCXX_", "CXXABI_", "GCC_", "OMP_", "GOMP_", "LIBC_")
NAMES = re.compile(r"__gmon_start__|_ITM_\w+|ZSTD_trace_\w+|dnnl_\w+|_Z\w*4absl(\d+lts_\d+|7debian\d+)\w*|__(asan|tsan|ubsan|sanitizer|interceptor)_\w+|__cxa_\w+")


def foreign(plugin):
    """Undefined symbols that a host's library could answer in place of ours."""
    lines = subprocess.run(["nm", "-D", "--undefined-only", plugin], check=True, capture_output=True, text=True).stdout.splitlines()
    out = []
    for line in filter(str.strip, lines):
        name, _, version = line.split()[-1].partition("@")
        if not version.lstrip("@").startswith(VERSIONS) and not NAMES.fullmatch(name):
            out.append(name)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("plugin")
    p.add_argument("--max-mib", type=float, default=100)
    opt = p.parse_args()
    lines = subprocess.run(["nm", "-D", "--defined-only", opt.plugin], check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = [line.split()[-1].split("@")[0] for line in lines if line.strip()]
    mib = os.path.getsize(opt.plugin) / 2**20
    print(f"{os.path.basename(opt.plugin)}: {mib:.1f} MiB, exports {' '.join(symbols[:20])}{' ...' if len(symbols) > 20 else ''}")
    if symbols != ["GetPjrtApi"]:
        print(f"expected GetPjrtApi alone, found {len(symbols)} symbols")
        return 1
    others = foreign(opt.plugin)
    if others:
        print(f"refers to {len(others)} symbols that a host may have of its own: {' '.join(others[:10])}")
        return 1
    if mib >= opt.max_mib:
        print(f"expected less than {opt.max_mib} MiB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
