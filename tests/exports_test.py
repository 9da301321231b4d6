"""exports_test.py PLUGIN.so [--max-mib N]: the plugin exports GetPjrtApi and nothing else, and is of moderate size."""
import argparse
import os
import subprocess
import sys


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
    if mib >= opt.max_mib:
        print(f"expected less than {opt.max_mib} MiB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
