"""Our headers against witnesses that others made: pypjrt's generated layouts, the FFI header that jaxlib ships, and the
table of XLA's CPU plugin. Run by the Python that has these packages.

usage: witness_test.py [CC]
"""

import ctypes
import importlib.util
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import snapshot  # noqa: E402

CC = "cc"

# Extensions whose headers pypjrt does not have, by the prefixes of their names.
NOT_IN_PYPJRT = ("PJRT_Transfers_", "PJRT_CrossHostTransfers_", "PJRT_ExecutableMetadata", "PJRT_HostAllocator_",
                 "PJRT_HostMemoryAllocator_")
OURS_ALONE = {"PJRT_Extension_Type_PrivateRange"}


def package(name):
    return pathlib.Path(importlib.util.find_spec(name).origin).parent


def fields_of(cls, base=0):
    """[(name, offset, size)] of a ctypes struct, with the members of unnamed unions."""
    out, unnamed = [], set(getattr(cls, "_anonymous_", ()))
    for name, ctype, *_ in cls._fields_:
        field = getattr(cls, name)
        if name in unnamed:
            out += fields_of(ctype, base + field.offset)
        else:
            out.append((name, base + field.offset, field.size))
    return out


class WitnessTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        from pypjrt import _abi
        # As old as the witnesses: the snapshot of the newest minor that pypjrt has, which test_older_is_prefix_of_newer
        # of abi_test.py holds against the newer ones.
        exact = {version: abi for version, _ in snapshot.history() for abi, same in [_abi.load(*version)] if same}
        cls.minor, cls.pypjrt = max(exact.items())
        cls.ours = snapshot.Layout()
        texts = {n: t for n, t in snapshot.present(CC).items() if not n.startswith(("ffi_", "pjrt_"))}
        texts["pjrt"] = (snapshot.ABI / "pjrt_{}_{}.txt".format(*cls.minor)).read_text()
        texts["ffi"] = (snapshot.ABI / "ffi_0_3.txt").read_text()
        for text in texts.values():
            lay = snapshot.Layout.parse(text)
            cls.ours.slots += lay.slots
            cls.ours.values.update(lay.values)
            cls.ours.structs.update(lay.structs)

    def test_pypjrt(self):
        abi = self.pypjrt
        self.assertGreaterEqual(self.minor, (0, 114))
        self.assertEqual({n: i for i, n in enumerate(self.ours.slots)}, abi.SLOT)

        theirs = {n: c for n, c in vars(abi).items() if isinstance(c, type) and issubclass(c, ctypes.Structure)
                  and c is not ctypes.Structure and not n.startswith("_")}
        num_fields = 0
        for name, cls in theirs.items():
            with self.subTest(struct=name):
                self.assertIn(name, self.ours.structs)
                size, _, fields = self.ours.structs[name]
                self.assertEqual(fields, fields_of(cls))
                self.assertEqual(size, ctypes.sizeof(cls))
                num_fields += len(fields)
        sizes = {n: s for n, (_, s, _) in self.ours.structs.items() if s is not None}
        num_sizes = num_values = 0
        for name, value in vars(abi).items():
            if not isinstance(value, int) or not name.startswith(("PJRT_", "PLUGIN_", "XLA_FFI_", "SLICE_")):
                continue
            with self.subTest(value=name):
                if name.endswith("_STRUCT_SIZE"):
                    self.assertEqual(sizes.get(name[:-len("_STRUCT_SIZE")]), value)
                    num_sizes += 1
                elif not name.endswith(("_API_MAJOR", "_API_MINOR")):
                    self.assertEqual(self.ours.values.get(name), value)
                    num_values += 1

        # The other way: what we define and the witness does not.
        def known(n):
            return n.startswith(NOT_IN_PYPJRT) or n.startswith("Backplane_") or n in OURS_ALONE
        self.assertEqual([n for n in self.ours.structs if n not in theirs and not known(n)], [])
        self.assertEqual([n for n in self.ours.values if not hasattr(abi, n) and not known(n)], [])
        self.assertGreater(len(theirs), 300)
        print(f"pypjrt: {len(abi.SLOT)} slots, {len(theirs)} structs, {num_fields} fields, {num_sizes} published sizes, "
              f"{num_values} enumerators equal")

    def test_jaxlib_ffi_header(self):
        include = package("jaxlib") / "include"
        theirs = snapshot.read_headers(["xla/ffi/api/c_api.h"], [include], CC)
        minor = snapshot.version(include / "xla/ffi/api/c_api.h", "XLA_FFI_API")[1]
        mine = snapshot.Layout.parse((snapshot.ABI / f"ffi_0_{minor}.txt").read_text())
        self.assertEqual(mine.structs, theirs.structs)
        self.assertEqual(mine.values, theirs.values)
        self.assertGreaterEqual(len(theirs.structs), 34)
        print(f"jaxlib: {len(theirs.structs)} structs, {sum(len(f) for _, _, f in theirs.structs.values())} fields, "
              f"{len(theirs.values)} enumerators equal")

    def test_xla_cpu_plugin(self):
        """Its table reads through our layout, and it accepts the sizes of our argument structs and refuses one byte."""
        lib = ctypes.CDLL(str(package("lammps_jax_pjrt_cpu") / "pjrt_c_api_cpu_plugin.so"))
        lib.GetPjrtApi.restype = ctypes.c_void_p
        api = lib.GetPjrtApi()
        table = {f: o for f, o, _ in self.ours.structs["PJRT_Api"][2]}
        version = {f: o for f, o, _ in self.ours.structs["PJRT_Api_Version"][2]}
        self.assertEqual(ctypes.c_size_t.from_address(api).value, self.ours.structs["PJRT_Api"][1])
        at = api + table["pjrt_api_version"]
        self.assertEqual(ctypes.c_int.from_address(at + version["major_version"]).value, 0)
        self.assertGreaterEqual(ctypes.c_int.from_address(at + version["minor_version"]).value, 114)
        for name in self.ours.slots:
            self.assertTrue(ctypes.c_void_p.from_address(api + table[name]).value, name)

        def call(name, **values):
            size, ssize, fields = self.ours.structs[name + "_Args"]
            args = ctypes.create_string_buffer(size)
            where = {f: (o, s) for f, o, s in fields}
            for f, v in {"struct_size": ssize, **values}.items():
                o, s = where[f]
                args[o:o + s] = v.to_bytes(s, "little")
            fn = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(ctypes.c_void_p.from_address(api + table[name]).value)
            err = fn(ctypes.addressof(args))
            return err, {f: int.from_bytes(args[o:o + s], "little") for f, (o, s) in where.items()}

        def message(err):
            _, out = call("PJRT_Error_Message", error=err)
            text = ctypes.string_at(out["message"], out["message_size"]).decode()
            call("PJRT_Error_Destroy", error=err)
            return text

        self.assertIsNone(call("PJRT_Plugin_Initialize")[0])
        err, _ = call("PJRT_Plugin_Attributes", struct_size=1)
        self.assertIn(f"expected {self.ours.structs['PJRT_Plugin_Attributes_Args'][1]}, got 1", message(err))
        err, out = call("PJRT_Plugin_Attributes")
        self.assertIsNone(err)
        nv_size, _, nv = self.ours.structs["PJRT_NamedValue"]
        off = {f: o for f, o, _ in nv}
        names = []
        for i in range(out["num_attributes"]):
            one = out["attributes"] + i * nv_size
            names.append(ctypes.string_at(ctypes.c_void_p.from_address(one + off["name"]).value,
                                          ctypes.c_size_t.from_address(one + off["name_size"]).value).decode())
        self.assertIn("stablehlo_current_version", names)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        CC = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
