"""ahead_of_time_test.py BACKPLANE HIP.so REFERENCE.so: the command compiles for GPUs that the machine lacks and shows their code;
the page of `gpu-report`; and the compile cache."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

COMMAND, HIP, REFERENCE = (os.path.abspath(path) for path in sys.argv[1:4])

PROGRAM = """
module @layer {
  func.func public @main(%x: tensor<64x128xf16>, %w: tensor<128x64xf16>, %b: tensor<64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf16>, tensor<128x64xf16>) -> tensor<64x64xf32>
    %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %2 = stablehlo.add %0, %1 : tensor<64x64xf32> loc("jit(f)/<add> & \\"quotes\\"")
    %3 = stablehlo.tanh %2 : tensor<64x64xf32>
    return %3 : tensor<64x64xf32>
  }
}
"""
HTML = "{http://www.w3.org/1999/xhtml}"


class Ahead(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = pathlib.Path(self.folder.name)
        (self.at / "layer.mlir").write_text(PROGRAM)

    def run_command(self, *words, code=0, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("BACKPLANE_", "HIPEMU_", "PJRT_"))}
        done = subprocess.run([COMMAND, *map(str, words)], cwd=self.at, env=clean | environment, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout if code == 0 else done.stderr

    def compile(self, target, *words, **more):
        return self.run_command("compile", HIP, "layer.mlir", "--target", target, *words, **more)

    def test_the_code_of_each_kind_of_gpu(self):
        for target, instruction in (("gfx942", "v_mfma_f32_16x16x16_f16"), ("gfx1100", "v_wmma_f32_16x16x16_f16"), ("gfx1030", "s_endpgm"),
                                    ("sm_80", ".target sm_80")):
            with self.subTest(target):
                self.assertIn(instruction, self.compile(target, "--print", "isa"))
        self.assertIn('target triple = "amdgcn-amd-amdhsa"', self.compile("gfx90a", "--print", "ir"))
        whole = self.compile("gfx942", "--print", "all")
        self.assertEqual([whole.index(part) >= 0 for part in ("target triple", "s_endpgm", "waves/SIMD")], [True] * 3)

    def test_resources(self):
        lines = self.compile("gfx942", "--print", "resources").splitlines()
        self.assertRegex(lines[0], r"target gfx942, waves of 64 threads, \d+ kernels?")
        head, rows = lines[1].split(), [line.split() for line in lines[2:]]
        self.assertEqual(head[:11], ["kernel", "threads", "blocks", "VGPRs", "AGPRs", "SGPRs", "LDS", "scratch", "spilled", "waves/SIMD", "code"])
        self.assertTrue(rows)
        for row in rows:
            self.assertRegex(row[0], r"^k_[0-9a-f]{16}$")
            vgprs, scratch, spilled, waves = int(row[3]), int(row[7]), int(row[8]), int(row[9])
            self.assertTrue(0 < vgprs <= 512 and 1 <= waves <= 8, row)
            self.assertEqual((scratch, spilled), (0, 0))

    def test_without_print_the_command_shows_what_it_shows_for_every_plugin(self):
        shown = json.loads(self.run_command("--json", "compile", HIP, "layer.mlir", "--target", "gfx942", "--print", "resources"))
        self.assertEqual(shown["outputs"], ["f32[64,64]"])
        self.assertGreater(shown["code_bytes"], 0)
        self.assertIn("waves/SIMD", shown["resources"])
        self.assertIn("compiled in", self.compile("gfx942", "--save", "layer.executable"))
        self.assertGreater((self.at / "layer.executable").stat().st_size, 1000)

    def test_refusals(self):
        self.assertRegex(self.compile("gfx1", code=4), r"no target \"gfx1\"; those known: gfx906, .*sm_90, sm_90a, host")
        self.assertIn("--log needs a client", self.compile("gfx942", "--log", code=4))
        self.assertIn("code text: no form", self.run_command("compile", REFERENCE, "layer.mlir", "--print", "isa", code=4))
        # Nothing but the topology was asked for, so no GPU is looked for; a client needs one.
        self.assertIn("no client", self.run_command("compile", HIP, "layer.mlir", "-o", "platform=amd", "-o", "library=/nowhere.so", code=4))

    def page(self, target):
        told = self.run_command("gpu-report", "layer.mlir", "--plugin", HIP, "--target", target, "--out", "page.html")
        text = (self.at / "page.html").read_text()
        self.assertTrue(text.startswith("<!DOCTYPE html>"))
        return told, text, ElementTree.fromstring(text.split("\n", 1)[1])

    def test_the_page(self):
        told, text, page = self.page("gfx942")
        self.assertIn("layer.mlir on gfx942", told)
        self.assertIn("AMD Instinct MI300X", told)
        self.assertIn("AMD, data sheet of Instinct MI300X", text)
        self.assertNotRegex(text.replace('xmlns="http://www.w3.org/1999/xhtml"', ""), r"https?://|src=|url\(|@import|<script|<link")
        self.assertIn("prefers-color-scheme: dark", text)
        report = json.loads(self.run_command("compile", HIP, "layer.mlir", "--target", "gfx942", "--print", "report"))
        rows = page.findall(f".//{HTML}tbody/{HTML}tr")
        self.assertEqual(len(rows), len(report["launches"]))
        heads = ["".join(cell.itertext()) for cell in page.findall(f".//{HTML}thead/{HTML}tr/{HTML}th")]
        for row, launch in zip(rows, report["launches"]):
            cells = dict(zip(heads, ["".join(cell.itertext()) for cell in row.findall(f"{HTML}td")]))
            self.assertEqual(len(row.findall(f"{HTML}td")), len(heads))
            self.assertEqual(cells["bound"], launch["bound"])
            self.assertEqual(cells["times"], str(launch["executions"]))
            if launch["kind"] == "kernel":
                kernel = report["kernels"][launch["kernel"]]
                self.assertEqual((cells["VGPRs"], cells["waves"]), (str(kernel["vgprs"]), str(kernel["occupancy"])))
                self.assertIn(kernel["name"], cells["launch"])
                self.assertEqual(cells["plan"], kernel["plan"])
        # What links within the page refer to is there.
        ids = {e.get("id") for e in page.iter()}
        targets = [e.get("href") for e in page.iter(f"{HTML}a")]
        self.assertTrue(targets and all(t[0] == "#" and t[1:] in ids for t in targets), targets)
        self.assertIn('jit(f)/<add> & "quotes"', "".join(page.itertext()))

    def test_the_page_of_a_target_without_peaks(self):
        told, text, page = self.page("gfx11-generic")
        self.assertNotIn("least time", told)
        self.assertIn("No peaks are known", text)
        self.assertEqual(page.findall(f".//{HTML}a"), [])

    def test_json_contains_the_document(self):
        shown = json.loads(self.run_command("--json", "gpu-report", "layer.mlir", "--plugin", HIP, "--target", "gfx90a", "--out", "p.html"))
        self.assertEqual(shown["page"], "p.html")
        report = shown["report"]
        self.assertEqual((report["format"], report["version"], report["target"]), ("backplane.gpu_report", 1, "gfx90a"))
        self.assertEqual(report["totals"]["flops"] >= 2 * 64 * 128 * 64, True)

    def test_compile_cache(self):
        words = ("compile", HIP, "layer.mlir", "--log", "-o", "platform=emulated", "-o", "target=gfx942", "-o", "compile_cache_directory=cache")
        stored = lambda: sorted(p.name for p in (self.at / "cache").iterdir())
        self.assertNotIn("loaded from serialized form", self.run_command(*words))
        first = stored()
        self.assertEqual(len(first), 1)
        self.assertIn("loaded from serialized form", self.run_command(*words))
        self.assertEqual(stored(), first)
        # Another target is another entry.
        other = [w.replace("gfx942", "gfx1100") for w in words]
        self.assertNotIn("loaded from serialized form", self.run_command(*other))
        self.assertEqual(len(stored()), 2)
        # A damaged entry is compiled again.
        for path in (self.at / "cache").iterdir():
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        self.assertNotIn("loaded from serialized form", self.run_command(*words))
        self.assertIn("loaded from serialized form", self.run_command(*words))
        # Results are those of the program.
        inputs = ("-i", "random", "--seed", "3") if "--seed" in self.run_command("run", "--help") else ()
        run = ("run", HIP, "layer.mlir", *inputs, "-o", "platform=emulated", "-o", "target=gfx942")
        self.assertEqual(self.run_command(*run), self.run_command(*run, "-o", "compile_cache_directory=cache"))

    def test_compile_cache_without_a_client(self):
        environment = {"BACKPLANE_COMPILE_CACHE_DIRECTORY": str(self.at / "shared")}
        first = self.compile("gfx942", "--print", "resources", **environment)
        self.assertEqual(len(list((self.at / "shared").iterdir())), 1)
        self.assertEqual(self.compile("gfx942", "--print", "resources", **environment), first)
        self.assertEqual(len(list((self.at / "shared").iterdir())), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
