"""The headers against their snapshots, the snapshots against each other, the change log against both.

usage: abi_test.py [CC [CXX]]
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import snapshot  # noqa: E402

CC, CXX = "cc", "c++"
OURS_ALONE = {"PJRT_Extension_Type_PrivateRange"}


def breaks(old, new):
    """Why `old` is not a prefix of `new`; empty when it is."""
    out = []
    if new.slots[:len(old.slots)] != old.slots:
        out.append("slots moved")
    out += [f"{n}: {v} became {new.values.get(n)}" for n, v in old.values.items() if new.values.get(n) != v]
    for name, (_, ssize, fields) in old.structs.items():
        if name not in new.structs:
            out.append(f"{name} is gone")
            continue
        _, nsize, nfields = new.structs[name]
        if nfields[:len(fields)] != fields:
            out.append(f"{name}: fields moved")
        if ssize is not None and (nsize is None or nsize < ssize):
            out.append(f"{name}: size {ssize} became {nsize}")
    return out


def additions(old, new):
    """Everything in `new` that `old` lacks, by name."""
    out = new.slots[len(old.slots):] + [v for v in new.values if v not in old.values]
    for name, (_, _, fields) in new.structs.items():
        if name not in old.structs:
            if not (name.endswith("_Args") and name[:-len("_Args")] in new.slots):
                out.append(name)
        elif name != "PJRT_Api":
            out += [f[0] for f in fields[len(old.structs[name][2]):]]
    return [n for n in out if n not in OURS_ALONE and not re.search(r"_Callback_Args$", n)]


def changelog():
    """[((major, minor), text of the entry)], as they stand in the file."""
    text = (snapshot.ROOT / "api" / "CHANGELOG.md").read_text()
    parts = re.split(r"^## (\d+)\.(\d+)\n", text, flags=re.M)[1:]
    return [((int(parts[i]), int(parts[i + 1])), parts[i + 2]) for i in range(0, len(parts), 3)]


class AbiTest(unittest.TestCase):
    maxDiff = None

    def test_headers_equal_their_snapshots(self):
        for name, text in snapshot.present(CC).items():
            self.assertEqual((snapshot.ABI / name).read_text(), text,
                             f"{name} differs: a change must raise the minor number; then run snapshot.py write")

    def test_newest_snapshot_is_that_of_the_header(self):
        self.assertEqual(snapshot.history()[-1][0], snapshot.version("api/pjrt/base.h", "PJRT_API"))

    def test_older_is_prefix_of_newer(self):
        hist = snapshot.history()
        self.assertGreaterEqual(len(hist), 11)
        for (old_v, old), (new_v, new) in zip(hist, hist[1:]):
            self.assertEqual(breaks(old, new), [], f"{old_v} to {new_v}")

    def test_the_prefix_check_sees_breaks(self):
        old = snapshot.Layout.parse("slot 0 A\nslot 1 B\nvalue V 1\nstruct S 16 16\n  field a 0 8\n  field b 8 8\n")
        grown = "slot 0 A\nslot 1 B\nslot 2 C\nvalue V 1\nvalue W 2\nstruct S 24 24\n  field a 0 8\n  field b 8 8\n" \
                "  field c 16 8\n"
        self.assertEqual(breaks(old, snapshot.Layout.parse(grown)), [])
        for was, becomes, why in [("slot 0 A\nslot 1 B", "slot 0 B\nslot 1 A", "slots moved"),
                                  ("value V 1", "value V 3", "V: 1 became 3"),
                                  ("field b 8 8", "field b 8 4", "S: fields moved"),
                                  ("struct S 24 24", "struct S 24 12", "S: size 16 became 12"),
                                  ("struct S 24", "struct T 24", "S is gone")]:
            self.assertEqual(breaks(old, snapshot.Layout.parse(grown.replace(was, becomes))), [why])

    def test_changelog_begins_with_the_version_of_the_header(self):
        log = changelog()
        self.assertEqual(log[0][0], snapshot.version("api/pjrt/base.h", "PJRT_API"))
        versions = [v for v, _ in log]
        self.assertEqual(versions, sorted(versions, reverse=True))

    def test_changelog_names_all_that_came(self):
        log, hist = changelog(), snapshot.history()
        count = 0
        for (old_v, old), (new_v, new) in zip(hist, hist[1:]):
            named = set(re.findall(r"`(\w+)`", "".join(t for v, t in log if old_v < v <= new_v)))
            new_names = additions(old, new)
            self.assertEqual([n for n in new_names if n not in named], [], f"{old_v} to {new_v}")
            count += len(new_names)
        self.assertGreater(count, 80)

    def test_first_sizes(self):
        self.assertEqual((snapshot.ROOT / "api" / "first_sizes.h").read_text(), snapshot.first_sizes())

    def test_numbers_that_hosts_rely_on(self):
        core, ffi = snapshot.history()[-1][1], snapshot.Layout.parse((snapshot.ABI / "ffi_0_5.txt").read_text())
        self.assertEqual(len(core.slots), 138)
        self.assertEqual(core.structs["PJRT_Api"][1], 1144)
        self.assertEqual(ffi.structs["XLA_FFI_CallFrame"][:2], (176, 168))
        self.assertEqual(ffi.structs["XLA_FFI_Metadata"][:2], (48, 36))
        self.assertEqual(ffi.structs["XLA_FFI_Api"][1], 208)

    def test_ffi_0_3_is_prefix_of_newest(self):
        """But for what was renamed, and a bundle that grew in the middle of the arguments of a registration."""
        renamed = (("XLA_FFI_Extension_Base", "XLA_FFI_InternalExtension"), ("XLA_FFI_Error_GetMessage", "XLA_FFI_Error_GetDetails"),
                   ("XLA_FFI_ExecutionContext_Get", "XLA_FFI_InvokeContext_Get"))
        text = (snapshot.ABI / "ffi_0_3.txt").read_text()
        for was, becomes in renamed:
            text = text.replace(was, becomes)
        new = snapshot.Layout.parse((snapshot.ABI / "ffi_0_5.txt").read_text())
        self.assertEqual(breaks(snapshot.Layout.parse(text), new), ["XLA_FFI_Handler_Register_Args: fields moved"])

    def test_every_header_stands_alone(self):
        headers = sorted(p.relative_to(snapshot.ROOT) for p in (snapshot.ROOT / "api").rglob("*.h"))
        self.assertGreaterEqual(len(headers), 38)
        strict = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{snapshot.ROOT}"]
        with tempfile.TemporaryDirectory() as tmp:
            for h in headers:
                for compiler, std, ext in ((CC, "c11", "c"), (CXX, "c++17", "cc")):
                    src = pathlib.Path(tmp) / f"one.{ext}"
                    src.write_text(f'#include "{h}"\n#include "{h}"\n')
                    got = subprocess.run([compiler, f"-std={std}", *strict, str(src)], text=True,
                                         stderr=subprocess.PIPE)
                    self.assertEqual(got.returncode, 0, f"{h} as {std}:\n{got.stderr}")

    def test_headers_include_freestanding_ones_only(self):
        for p in (snapshot.ROOT / "api").rglob("*.h"):
            for inc in re.findall(r"#include\s*([<\"][^>\"]+[>\"])", p.read_text()):
                self.assertTrue(inc in ("<stdbool.h>", "<stddef.h>", "<stdint.h>") or inc.startswith('"api/'), f"{p}: {inc}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        CC = sys.argv[1]
    if len(sys.argv) > 2:
        CXX = sys.argv[2]
    unittest.main(argv=sys.argv[:1])
