"""The command `backplane`. Replaces this process by the program of that name, which finds the plugins of this package under the
names `cpu`, `reference` and `tpu_emulator`."""
import os
import sys

import backplane


def main():
    program = backplane.command_path()
    # Plugins in the folders that the user names take precedence.
    folders = [f for f in os.environ.get("BACKPLANE_PLUGIN_PATH", "").split(":") if f]
    os.environ["BACKPLANE_PLUGIN_PATH"] = ":".join(folders + [backplane.manifests()])
    os.execv(program, ["backplane", *sys.argv[1:]])


if __name__ == "__main__":
    main()
