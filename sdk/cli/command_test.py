"""command_test.py BACKPLANE PLUGIN.so FAKES_DIR [XLA.so]: tests the command as users call it.

XLA.so is a plugin we did not build; cases with it are left out where the file does not exist.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

import numpy as np

BACKPLANE, PLUGIN, FAKES = sys.argv[1:4]
XLA = sys.argv[4] if len(sys.argv) > 4 and os.path.exists(sys.argv[4]) else None

MATMUL = """
module @mm {
  func.func public @main(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) -> tensor<2x2xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.exponential %0 : tensor<2x2xf32>
    return %1 : tensor<2x2xf32>
  }
}
"""
HLO = """HloModule two, entry_computation_layout={(f32[4]{0})->(f32[4]{0}, f32[])}

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY main {
  x = f32[4]{0} parameter(0)
  z = f32[] constant(0)
  t = f32[4]{0} multiply(x, x)
  s = f32[] reduce(t, z), dimensions={0}, to_apply=sum
  ROOT out = (f32[4]{0}, f32[]) tuple(t, s)
}
"""


def run(*args, code=0, stdin="", env=None):
    """Standard output of the command, which must end with `code`."""
    done = subprocess.run([BACKPLANE, *map(str, args)], input=stdin, capture_output=True, text=True, timeout=60,
                          env=os.environ | (env or {}))
    assert done.returncode == code, f"{args}: ended with {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_json(*args, **kw):
    return json.loads(run(*args, "--json", **kw))


def error_of(*args, code, **kw):
    """The message of an error in JSON form."""
    return run_json(*args, code=code, **kw)["error"]["message"]


def test_help_and_completion(tmp):
    for words in (["--help"], ["run", "--help"], ["diff", "--help"], ["--version"]):
        assert run(*words).strip()
    assert "Exit codes" in run("--help")
    run(code=2)
    run("nonsense", code=2)
    run("run", code=2)
    run("convert", "x", "--to", "nothing", code=2)
    run("completion", "csh", code=2)
    script = tmp / "complete.bash"
    script.write_text(run("completion", "bash") + 'COMP_WORDS=(backplane co); COMP_CWORD=1; _backplane; echo "${COMPREPLY[@]}"\n'
                      'COMP_WORDS=(backplane convert x --to ""); COMP_CWORD=4; _backplane; echo "${COMPREPLY[@]}"\n')
    lines = subprocess.run(["bash", script], capture_output=True, text=True, check=True).stdout.split("\n")
    assert lines[0].split() == ["compile", "convert", "conform", "completion"], lines
    assert lines[1].split() == ["stablehlo", "bytecode", "hlo", "proto"], lines
    assert run("completion", "zsh").startswith("#compdef backplane")
    assert "complete -c backplane" in run("completion", "fish")


def test_wrong_command_lines(tmp):
    """Exit code 2, and one line that names the subcommand and its help; with --json as JSON."""
    mm = tmp / "mm.mlir"
    for words, told in (
            (["nonsense"], "no subcommand 'nonsense'"), ([], "subcommand"), (["run"], "run: plugin is required"), (["run", PLUGIN, mm, "--nothing"], "--nothing is not expected"),
            (["run", PLUGIN, mm, "--limt", "3"], "--limt 3 are not expected"), (["new-plugin", "cpu"], "hosts know already"),
            (["run", PLUGIN, mm, "--limit", "-1"], "--limit: '-1': expected a number of at least 0"), (["run", PLUGIN, mm, "--seed", "x"], "--seed"),
            (["run", PLUGIN, mm, "--timeout", "nan"], "--timeout"), (["run", PLUGIN, mm, "--timeout", "-1"], "--timeout"),
            (["run", PLUGIN, mm, "-o", "devices"], "expected name=value"), (["run", PLUGIN, mm, "--save", "x.txt"], ".npy or .npz"),
            (["bench", mm, PLUGIN, "--runs", "0"], "--runs"), (["compile", PLUGIN, mm, "--replicas", "99999999999"], "--replicas"),
            (["opt"], "no program given"), (["trace"], "nothing to run"), (["fuzz"], "one or two plugins"), (["replay", mm, "--until", "-3"], "--until"),
            (["convert", mm, "--to", "proto"], "JSON output cannot contain bytes"), (["diff", mm, PLUGIN], "two plugins")):
        message = error_of(*words, code=2)
        assert told in message, (words, message)
        if words[:1] == ["convert"]:  # without --json it may
            continue
        done = subprocess.run([BACKPLANE, *map(str, words)], capture_output=True, text=True, timeout=60)
        assert done.stdout == "" and done.stderr.startswith("backplane: ") and done.stderr.count("\n") == 1, (words, done)


def test_inputs_that_are_none(tmp):
    """What is wrong with a file or an input is said in words that name it, with exit code 3."""
    mm = tmp / "mm.mlir"
    np.save(tmp / "objects.npy", np.array([{}], dtype=object))
    (tmp / "noise.bin").write_bytes(bytes(range(256)) * 10)
    for words, told in (
            (["run", PLUGIN, mm, "-i", "zzz"], "no .npy or .npz file, none of random"), (["run", PLUGIN, mm, "-i", "random=nan..1"], "two finite numbers"),
            (["run", PLUGIN, mm, "-i", "random=-inf..inf"], "two finite numbers"), (["run", PLUGIN, mm, "-i", "{1,2}"], "literal of f32[2,3]"),
            (["run", PLUGIN, mm, "-i", tmp / "objects.npy"], "has no element type here"), (["run", PLUGIN, mm, "-i", tmp / "none.npy"], "No such file"),
            (["run", mm, PLUGIN], "a shared library or executable, expected a program"), (["inspect", tmp / "noise.bin"], "not a program: neither StableHLO"),
            (["inspect", tmp], "Is a directory"), (["run", PLUGIN, mm, "--python", tmp / "none"], "no such Python environment"),
            (["run", "cpu", tmp / "none.mlir"], "No such file")):
        message = error_of(*words, code=3)
        assert told in message, (words, message)
    (tmp / "gone.json").write_text(json.dumps({"library_path": "gone/plugin.so"}))
    for words in (["run", "/no/such.so", mm], ["inspect", "/no/such.so"], ["bench", mm, "/no/such.so"], ["trace", mm, "-p", "/no/such.so"]):
        assert error_of(*words, code=3) == "/no/such.so: no such file", words
    assert error_of("inspect", tmp / "gone.json", code=3) == f"{tmp}/gone/plugin.so: no such file, which is named by {tmp}/gone.json"
    # Python's brackets are as good as braces.
    rows = "[[1, 2, 3], [4, 5, 6]]"
    assert run("run", PLUGIN, mm, "-i", rows, "-i", "ones") == run("run", PLUGIN, mm, "-i", rows.replace("[", "{").replace("]", "}"), "-i", "ones")
    # A name that is no plugin, but a file: how to say that.
    done = subprocess.run([BACKPLANE, "run", "mm.mlir", "mm.mlir"], cwd=tmp, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "say ./mm.mlir" in done.stderr, done
    # A library is one by its contents, whatever it is called.
    os.symlink(PLUGIN, tmp / "library")
    assert run_json("inspect", tmp / "library")["usable"]
    # Names are bytes.
    odd = os.fsencode(tmp) + b"/\xff\xfe.mlir"
    message = json.loads(subprocess.run([BACKPLANE, "inspect", "--json", odd], capture_output=True, timeout=60).stdout)["error"]["message"]
    assert message.endswith("\ufffd\ufffd.mlir: No such file or directory"), message
    pathlib.Path(os.fsdecode(odd)).write_text(MATMUL)
    assert subprocess.run([BACKPLANE, "run", PLUGIN, odd], capture_output=True, timeout=60).returncode == 0


def test_output_that_does_not_arrive(tmp):
    """A full disk is an error; a reader that has enough is none of ours; closed files do no harm."""
    for words in (["inspect", tmp / "mm.mlir"], ["run", PLUGIN, tmp / "mm.mlir"], ["convert", tmp / "mm.mlir", "--to", "hlo"], ["run", "--json", PLUGIN, tmp / "mm.mlir"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BACKPLANE, *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 3 and "No space left" in done.stderr, (words, done)
    (tmp / "large.mlir").write_text("func.func @main() -> tensor<1000000xf32> {\n  %0 = stablehlo.iota dim = 0 : tensor<1000000xf32>\n  return %0 : tensor<1000000xf32>\n}\n")
    command = subprocess.Popen([BACKPLANE, "run", PLUGIN, tmp / "large.mlir", "--limit", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout.read(10) == b"result 0: "
    command.stdout.close()
    assert command.wait(60) == -signal.SIGPIPE and command.stderr.read() == b""
    command.stderr.close()
    done = subprocess.run(f'"{BACKPLANE}" run "{PLUGIN}" "{tmp}/mm.mlir" --save "{tmp}/closed.npy" <&- >&- 2>&-', shell=True, timeout=60)
    assert done.returncode == 0 and np.load(tmp / "closed.npy").shape == (2, 2)


def test_colour(tmp):
    program = tmp / "mm.mlir"
    assert "\033[" not in run("inspect", program)
    assert "\033[" in run("inspect", program, "--color", "always")
    assert "\033[" not in run("inspect", program, "--json", "--color", "always")


def test_inspect_plugin(tmp):
    facts = run_json("inspect", PLUGIN)
    assert facts["usable"] and facts["stage"] == "done"
    assert facts["api_version"][0] == 0 and facts["slots"]["missing"] == []
    assert facts["symbols"] == ["GetPjrtApi"], facts["symbols"]
    assert facts["attributes"]["stablehlo_current_version"][0] == 1
    assert facts["missing_libraries"] == [] and "libc.so.6" in facts["needed"]
    assert any(e["name"] == "Layouts" for e in facts["extensions"])
    assert "usable" in run("inspect", PLUGIN)
    assert "devices" not in run_json("inspect", PLUGIN, "--no-client")
    # Plugins with defects are reported and do no harm.
    for kind, words in {"crash_load": "SIGSEGV while it was opened", "abort_init": "in PJRT_Plugin_Initialize",
                        "init_fails": "not plugged in", "no_symbol": "does not export GetPjrtApi",
                        "missing": "it needs libfakevendor.so", "crash_client": "in PJRT_Client_Create"}.items():
        facts = run_json("inspect", f"{FAKES}/{kind}.so", code=1)
        assert words in facts["error"]["message"] and not facts["usable"], (kind, facts["error"])
        assert words in run("inspect", f"{FAKES}/{kind}.so", code=1)
    facts = run_json("inspect", f"{FAKES}/hang_client.so", "--timeout", "0.5", code=1)
    assert facts["error"]["code"] == "DEADLINE_EXCEEDED" and facts["seconds"] < 10
    assert "no such plugin" in error_of("inspect", "nobody", code=3)


def test_plugins(tmp):
    (tmp / "manifests").mkdir()
    (tmp / "manifests/mine.json").write_text(json.dumps({"library_path": PLUGIN}))
    (tmp / "manifests/bad.json").write_text("{")
    env = {"BACKPLANE_PLUGIN_PATH": str(tmp / "manifests"), "PJRT_NAMES_AND_LIBRARY_PATHS": f"named:{PLUGIN}"}
    listed = run_json("plugins", env=env)
    assert [p["name"] for p in listed["plugins"]][:2] == ["named", "mine"], listed
    assert len(listed["problems"]) == 1
    assert run_json("inspect", "mine", env=env)["usable"]
    assert run_json("run", "named", tmp / "mm.mlir", env=env)["results"][0]["shape"] == "f32[2,2]"


def test_inspect_program(tmp):
    facts = run_json("inspect", tmp / "mm.mlir")
    assert facts["form"] == "stablehlo text" and facts["result"].startswith("f32[2,2]")
    assert facts["flops"] >= 24, facts
    assert {o["name"] for o in facts["operations"]} >= {"dot", "exponential", "parameter"}
    assert run("inspect", tmp / "two.hlo", "--text").startswith("HloModule two")
    run("inspect", tmp / "two.hlo", "--graph", tmp / "two.svg")
    drawn = ET.parse(tmp / "two.svg").getroot()
    titles = [t.text for t in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 8 and any("multiply" in t for t in titles), titles
    assert run("inspect", "-", stdin=MATMUL) == run("inspect", tmp / "mm.mlir")
    (tmp / "bad.mlir").write_text("module { broken")
    assert "bad.mlir" in error_of("inspect", tmp / "bad.mlir", code=3)
    error_of("inspect", tmp / "none.mlir", code=3)


def test_run(tmp):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    w = np.asfortranarray(np.array([[1, 0], [0, 1], [1, -1]], np.float32))
    np.save(tmp / "x.npy", x)
    np.savez_compressed(tmp / "in.npz", w=w, other=x)
    want = np.exp(x @ w)
    run("run", PLUGIN, tmp / "mm.mlir", "-i", tmp / "x.npy", "-i", f"{tmp}/in.npz:w", "--save", tmp / "out.npz", "--picture", tmp / "out.png")
    np.testing.assert_allclose(np.load(tmp / "out.npz")["result_0"], want, rtol=1e-6)
    assert (tmp / "out.png").read_bytes()[1:4] == b"PNG"
    run("run", PLUGIN, tmp / "mm.mlir", "-i", f"1:{tmp}/in.npz:w", "-i", f"0:{tmp}/x.npy", "--output", tmp / "out.npy")
    np.testing.assert_allclose(np.load(tmp / "out.npy"), want, rtol=1e-6)
    results = run_json("run", PLUGIN, tmp / "two.hlo", "-i", "{1,2,3,4}")["results"]
    assert results[0]["text"] == "f32[4] {1, 4, 9, 16}" and results[1]["text"] == "f32[] 30", results
    assert results[0]["statistics"]["max"] == 16
    run("run", PLUGIN, tmp / "two.hlo", "--save", tmp / "several.npy")
    assert np.load(tmp / "several.0.npy").shape == (4,) and np.load(tmp / "several.1.npy").shape == ()
    assert run("run", PLUGIN, tmp / "mm.mlir", "--seed", "5") == run("run", PLUGIN, tmp / "mm.mlir", "--seed", "5")
    assert run("run", PLUGIN, tmp / "mm.mlir", "--seed", "5") != run("run", PLUGIN, tmp / "mm.mlir", "--seed", "6")
    assert "parameter 0 is f32[2,3]" in error_of("run", PLUGIN, tmp / "mm.mlir", "-i", f"{tmp}/in.npz:w", code=3)
    assert "picture" in error_of("run", PLUGIN, tmp / "two.hlo", "--picture", tmp / "x.png", code=3)
    assert "SIGABRT" in error_of("run", f"{FAKES}/crash_client.so", tmp / "mm.mlir", code=4)
    # A type that numpy lacks goes out as raw elements and in again.
    (tmp / "bf.mlir").write_text(MATMUL.replace("f32", "bf16"))
    run("run", PLUGIN, tmp / "bf.mlir", "-i", "ones", "-i", "ones", "--save", tmp / "bf.npy")
    assert np.load(tmp / "bf.npy").dtype.itemsize == 2
    (tmp / "id.mlir").write_text("func.func @main(%x: tensor<2x2xbf16>) -> tensor<2x2xbf16> { return %x : tensor<2x2xbf16> }")
    run("run", PLUGIN, tmp / "id.mlir", "-i", tmp / "bf.npy")


SEVERAL = """HloModule several, replica_count=4, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  ROOT s = f32[8]{0} all-reduce(x), replica_groups={{0,1,2,3}}, to_apply=sum
}
"""


def test_run_in_several_processes(tmp):
    (tmp / "several.hlo").write_text(SEVERAL)
    if not os.path.exists(os.path.join(os.path.dirname(PLUGIN), "libbackplane_gloo.so")):
        return
    told = run_json("run", PLUGIN, tmp / "several.hlo", "--processes", "2", "-o", "cpu_device_count=2")
    assert told["compared"] and told["differing"] == 0 and len(told["devices"]) == 4, told
    texts = {d["results"][0]["text"] for d in told["devices"]}
    assert len(texts) == 1, texts
    ones = run_json("run", PLUGIN, tmp / "several.hlo", "--processes", "4", "-i", "ones", "--no-compare")
    assert not ones["compared"] and ones["devices"][3]["results"][0]["statistics"]["min"] == 4, ones
    assert "needs 4 devices, there are 2" in error_of("run", PLUGIN, tmp / "several.hlo", "--processes", "2", code=4)
    message = error_of("run", PLUGIN, tmp / "several.hlo", "--processes", "4", "--single-option", "cpu_device_count=2", code=4)
    assert "--single-option" in message and "2 devices" in message, message
    error_of("run", PLUGIN, tmp / "several.hlo", "--processes", "2", "--save", tmp / "x.npy", code=2)


def wreck(call, way):
    return {"BACKPLANE_WRECK_OVER": PLUGIN, "BACKPLANE_WRECK": f"{call}:{way}"}


def test_plugin_that_goes_wrong_while_it_works(tmp):
    """Whatever a plugin does to its process, the command ends with code 4 and says which plugin, what and in which call."""
    broken, mm = f"{FAKES}/wreck.so", tmp / "mm.mlir"
    for call, way, code, words in (
            ("PJRT_Plugin_Initialize", "abort", "ABORTED", "crashed with SIGABRT in PJRT_Plugin_Initialize"),
            ("PJRT_Client_Create", "segv", "ABORTED", "crashed with SIGSEGV in PJRT_Client_Create"),
            ("PJRT_Client_Compile", "abort", "ABORTED", "crashed with SIGABRT in PJRT_Client_Compile"),
            ("PJRT_Client_BufferFromHostBuffer", "exit", "ABORTED", "ended the process with status 0 in PJRT_Client_BufferFromHostBuffer"),
            ("PJRT_LoadedExecutable_Execute", "quit", "ABORTED", "ended the process with status 7 in PJRT_LoadedExecutable_Execute"),
            ("PJRT_LoadedExecutable_Execute", "throw", "ABORTED", "crashed with SIGABRT in PJRT_LoadedExecutable_Execute"),
            ("PJRT_LoadedExecutable_Execute", "thread", "ABORTED", "crashed with SIGSEGV in PJRT_LoadedExecutable_Execute"),
            ("PJRT_Buffer_ToHostBuffer", "segv", "ABORTED", "crashed with SIGSEGV in PJRT_Buffer_ToHostBuffer"),
            ("PJRT_Client_Destroy", "abort", "ABORTED", "crashed with SIGABRT in PJRT_Client_Destroy"),
            ("PJRT_Client_Create", "hang", "DEADLINE_EXCEEDED", "did not come up within 0.5 s, in PJRT_Client_Create"),
            ("PJRT_Client_Compile", "spin", "DEADLINE_EXCEEDED", "did not come back within 0.5 s in PJRT_Client_Compile"),
            ("PJRT_Event_Await", "hang", "DEADLINE_EXCEEDED", "did not come back within 0.5 s in PJRT_Event_Await")):
        limits = ["--timeout", "0.5", "--call-timeout", "0.5"] if code == "DEADLINE_EXCEEDED" else []
        told = run_json("run", broken, mm, *limits, code=4, env=wreck(call, way))["error"]
        assert told == {"code": code, "message": f"{broken}: {words}"}, (call, way, told)
    # The same for the others that open plugins, and for the second plugin of two.
    aborts = wreck("PJRT_LoadedExecutable_Execute", "abort")
    for words in (["bench", mm, PLUGIN, broken, "--runs", "2"], ["diff", mm, PLUGIN, broken]):
        assert "wreck.so: crashed with SIGABRT in PJRT_LoadedExecutable_Execute" in error_of(*words, code=4, env=aborts)
    assert "SIGSEGV in PJRT_Client_Compile" in error_of("compile", broken, mm, code=4, env=wreck("PJRT_Client_Compile", "segv"))
    (tmp / "call.mlir").write_text('func.func @main() -> tensor<f32> { %0 = stablehlo.custom_call @nobody_knows_this() : () -> tensor<f32>\n return %0 : tensor<f32> }')
    assert "in the functions that read an error" in error_of("run", broken, tmp / "call.mlir", code=4, env=wreck("PJRT_Error_Message", "segv"))


def test_plugin_that_goes_wrong_at_the_end(tmp):
    # The computed results are printed nevertheless.
    done = subprocess.run([BACKPLANE, "run", f"{FAKES}/wreck.so", tmp / "two.hlo", "-i", "ones"], capture_output=True, text=True, timeout=60,
                          env=os.environ | wreck("PJRT_Client_Create", "late"))
    assert done.returncode == 4 and "result 1: f32[] 4" in done.stdout, done
    assert "crashed with SIGSEGV at the end of the process, its work done" in done.stderr, done.stderr


def children_of(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid):
    for _ in range(100):
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_stopped_from_outside(tmp):
    """Ctrl-C ends both processes, and so does killing the parent."""
    for number, group in ((signal.SIGINT, True), (signal.SIGKILL, False), (signal.SIGTERM, False)):
        command = subprocess.Popen([BACKPLANE, "run", f"{FAKES}/wreck.so", tmp / "mm.mlir"], env=os.environ | wreck("PJRT_Client_Compile", "hang"),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        for _ in range(200):
            if children := children_of(command.pid):
                break
            time.sleep(0.02)
        time.sleep(0.3)
        (os.killpg if group else os.kill)(command.pid, number)
        output, _ = command.communicate(timeout=20)
        assert command.returncode == -number, (number, command.returncode, output)
        assert children and all(gone(c) for c in children), (number, children)
        assert "crashed" not in output, output


def test_trace(tmp):
    told = run_json("trace", tmp / "mm.mlir", "--plugin", PLUGIN, "--output", tmp / "traced")
    assert told["exit_code"] == 0 and len(told["traces"]) == 1, told
    assert "LoadedExecutable_Execute" in (tmp / "traced.json").read_text()
    assert "<!doctype html>" in (tmp / "traced.html").read_text().lower()
    # Options of a manifest are passed to the client, for all hosts.
    (tmp / "two.json").write_text(json.dumps({"library_path": PLUGIN, "create_options": {"cpu_device_count": 2}}))
    run("trace", tmp / "mm.mlir", "--plugin", tmp / "two.json", "--output", tmp / "optioned")
    (tmp / "odd.json").write_text(json.dumps({"library_path": PLUGIN, "create_options": {"no_such": "option"}}))
    done = subprocess.run([BACKPLANE, "trace", tmp / "mm.mlir", "--plugin", tmp / "odd.json", "--output", tmp / "odd"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 4 and "create option no_such: unknown" in done.stderr, done
    show = ["--", sys.executable, "-c", "import json, os; n, p = os.environ['PJRT_NAMES_AND_LIBRARY_PATHS'].split(':'); print(n, json.load(open(p)))"]
    for words, env in ((["--plugin", tmp / "two.json"], {}), ([], {"PJRT_NAMES_AND_LIBRARY_PATHS": f"two:{tmp}/two.json"})):
        told = run("trace", "--layers", "validate", *words, *show, env=env)
        assert told.startswith("two {") and "'create_options': {'cpu_device_count': 2}" in told and "layers_0.so" in told, told
    assert "neither a command nor a program" in error_of("trace", tmp / "none", "--plugin", PLUGIN, code=3)


def test_in_process(tmp):
    """For debuggers: no child, so the crash is the command's own."""
    assert run("run", PLUGIN, tmp / "mm.mlir", "--in-process", "--seed", "5") == run("run", PLUGIN, tmp / "mm.mlir", "--seed", "5")
    run("run", f"{FAKES}/wreck.so", tmp / "mm.mlir", "--in-process", code=-signal.SIGABRT, env=wreck("PJRT_Client_Compile", "abort"))


def test_conform(tmp):
    only = ["--only", "^abi[.]", "--only", "operations.add/layout", "--quiet"]
    out = run("conform", PLUGIN, "--profile", "reference", *only, "--json", tmp / "now.json", "--html", tmp / "now.html", "--junit", tmp / "now.xml")
    assert "conformant: " in out and "NOT" not in out, out
    told = json.loads((tmp / "now.json").read_text())
    assert told["good"] and len(told["checks"]) > 15 and told["facts"]["platform"] == "cpu", told["facts"]
    assert ET.parse(tmp / "now.xml").getroot().get("failures") == "0"
    assert "<!doctype html>" in (tmp / "now.html").read_text()
    # The report on standard output, said in either of two ways; and compared with the earlier one.
    for words in (["conform", PLUGIN, *only, "--json", "-"], ["--json", "conform", PLUGIN, *only, "--baseline", tmp / "now.json"]):
        assert json.loads(run(*words))["kit"] == 1
    env = {"PJRT_NAMES_AND_LIBRARY_PATHS": f"named:{PLUGIN}"}
    assert "conformant" in run("conform", "named", "--only", "abi.table_size", env=env)
    assert "operations.add/" in run("conform", "--list")
    run("conform", code=2)
    run("conform", PLUGIN, "--only", "nothing_like_it", code=2)
    run("conform", PLUGIN, "--jobs", "-1", code=2)
    run("conform", "nobody", code=3)
    run("conform", f"{FAKES}/no_symbol.so", code=3)
    # Where no client can be made there is nothing to judge: one sentence, and soon.
    for fake, limits, words in (("crash_client", [], "no client: the process died of SIGABRT in PJRT_Client_Create"),
                                ("init_fails", [], "no client: "), ("hang_client", ["--slow", "0.02"], "no client: hung: no result within 1 s, in PJRT_Client_Create")):
        done = subprocess.run([BACKPLANE, "conform", f"{FAKES}/{fake}.so", *limits], capture_output=True, text=True, timeout=60)
        assert done.returncode == 3 and words in done.stderr and done.stderr.count("\n") == 1 and done.stdout == "", (fake, done)
    out = run("conform", f"{FAKES}/wreck.so", "--only", "execute.output_order", code=1, env=wreck("PJRT_LoadedExecutable_Execute", "segv"))
    assert "SIGSEGV in PJRT_LoadedExecutable_Execute" in out, out
    assert "--baseline" in run("conform", "--help") and "Exit status" in run("conform", "--help")


def test_compile(tmp):
    told = run_json("compile", PLUGIN, tmp / "mm.mlir", "--optimized", "--save", tmp / "exe.bin")
    assert told["outputs"] == ["f32[2,2]"] and "dot" in told["optimized"]
    assert (tmp / "exe.bin").stat().st_size > 0
    assert "compiled in" in run("compile", PLUGIN, tmp / "mm.mlir")
    (tmp / "call.mlir").write_text('func.func @main() -> tensor<f32> { %0 = stablehlo.custom_call @nobody_knows_this() : () -> tensor<f32>\n return %0 : tensor<f32> }')
    error_of("run", PLUGIN, tmp / "call.mlir", code=4)


def test_convert(tmp):
    text = run("convert", tmp / "mm.mlir", "--to", "hlo")
    assert text.startswith("HloModule mm")
    (tmp / "mm.hlo").write_text(text)
    run("convert", tmp / "mm.hlo", "--to", "proto", "-O", tmp / "mm.pb")
    run("convert", tmp / "mm.pb", "--to", "bytecode", "--stablehlo-version", "1.0.0", "-O", tmp / "mm.mlirbc")
    assert (tmp / "mm.mlirbc").read_bytes()[:4] == b"ML\xefR"
    assert "stablehlo.dot_general" in run("convert", tmp / "mm.mlirbc", "--to", "stablehlo")
    prints = {run_json("inspect", tmp / f"mm.{form}")["fingerprint"] for form in ("mlir", "hlo", "pb", "mlirbc")}
    assert len(prints) == 1, prints
    assert run_json("convert", tmp / "mm.mlir", "--to", "hlo")["text"] == text
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        module = stablehlo.deserialize_portable_artifact(context, (tmp / "mm.mlirbc").read_bytes())
        assert "stablehlo.dot_general" in str(module)
    error_of("convert", tmp / "mm.mlir", "--to", "bytecode", "--stablehlo-version", "99.0.0", code=3)


def test_opt(tmp):
    (tmp / "dead.hlo").write_text("HloModule d\n\nENTRY e {\n  a = f32[] parameter(0)\n  unused = f32[] negate(a)\n  b = f32[] constant(2)\n  c = f32[] constant(3)\n"
                                  "  d = f32[] add(b, c)\n  ROOT r = f32[] multiply(a, d)\n}\n")
    told = run_json("opt", tmp / "dead.hlo", "-p", "fold-constants,remove-dead-code")
    assert [s["pass"] for s in told["steps"]] == ["fold-constants", "remove-dead-code"]
    assert told["steps"][0]["changed"] and told["instructions_before"] == 6 and told["steps"][1]["instructions"] == 3, told["steps"]
    assert "negate" in told["before"] and "negate" not in told["after"]
    assert "constant(5)" in told["after"]
    out = run("opt", tmp / "dead.hlo", "--before", "--each")
    assert "// before: 6 instructions" in out
    assert run("opt", "-", stdin=run("opt", tmp / "dead.hlo"))  # what it prints can be read again
    assert "common" in run("opt", "--list").split()
    listed = {p["name"]: p for p in run_json("opt", "--list")["passes"]}
    assert listed["inline-calls"]["required"] and "fold-constants" in listed["common"]["runs"]
    told = run_json("opt", tmp / "dead.hlo", "--disable", "remove-dead-code")
    assert any(step["pass"] == "remove-dead-code" and step["disabled"] and not step["changed"] for step in told["steps"])
    assert "cannot be left out" in error_of("opt", tmp / "dead.hlo", "--disable", "inline-calls", code=3)
    assert "no pass 'x'" in error_of("opt", tmp / "dead.hlo", "-p", "x", code=3)


def test_diff_and_bench(tmp):
    told = run_json("diff", tmp / "mm.mlir", PLUGIN, PLUGIN)
    assert told["agree"] and told["results"][0]["difference"]["max_ulp"] == 0
    run("diff", tmp / "mm.mlir", PLUGIN, code=2)
    told = run_json("bench", tmp / "mm.mlir", PLUGIN, "--runs", "5", "--warmup", "1")
    assert told["plugins"][0]["runs"] == 5 and told["plugins"][0]["min_seconds"] > 0
    assert "median" in run("bench", tmp / "mm.mlir", PLUGIN, "--runs", "3")
    if XLA is None:
        return
    told = run_json("diff", tmp / "mm.mlir", PLUGIN, XLA, "--ulp", "4")
    assert told["agree"], told
    # HLO text goes to the other vendor as a proto.
    assert run_json("run", XLA, tmp / "two.hlo", "-i", "{1,2,3,4}")["results"][1]["text"] == "f32[] 30"
    # The product is exact on both; the last bits of a hyperbolic tangent are each platform's own.
    (tmp / "tanh.mlir").write_text("""
func.func @main(%x: tensor<1000xf32>) -> tensor<1000xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<1000xf32>
  %1 = stablehlo.tanh %0 : tensor<1000xf32>
  %2 = stablehlo.add %1, %0 : tensor<1000xf32>
  return %2 : tensor<1000xf32>
}""")
    told = run_json("diff", tmp / "tanh.mlir", PLUGIN, XLA, "--bisect", code=1)
    first = told["first_differences"][0]
    assert not told["agree"] and " tanh(" in first["instruction"] and first["compared"] == 2, first
    assert first["alone_differs"] and 0 < first["alone"]["max_ulp"] < 20, first
    assert "first differs at instruction 2" in run("diff", tmp / "tanh.mlir", PLUGIN, XLA, "-b", code=1)
    assert run_json("diff", tmp / "tanh.mlir", PLUGIN, XLA, "--ulp", "20")["agree"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        for variable in ("PJRT_NAMES_AND_LIBRARY_PATHS", "BACKPLANE_PLUGIN_PATH", "VIRTUAL_ENV"):
            os.environ.pop(variable, None)
        for variable in ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS"):
            os.environ[variable] = str(pathlib.Path(folder) / "xdg")
        # In a build with a sanitizer a crash is to be a crash still, and what a vendor's plugin leaves behind is not ours to judge.
        os.environ["ASAN_OPTIONS"] = "handle_segv=0:handle_abort=0:detect_leaks=0"
        failed = 0
        for name, test in list(globals().items()):
            if not name.startswith("test_"):
                continue
            tmp = pathlib.Path(folder) / name
            tmp.mkdir()
            (tmp / "mm.mlir").write_text(MATMUL)
            (tmp / "two.hlo").write_text(HLO)
            try:
                test(tmp)
                print(f"ok      {name}")
            except Exception as error:  # one failing test leaves the others their turn
                failed += 1
                print(f"FAILED  {name}: {type(error).__name__}: {error}")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
