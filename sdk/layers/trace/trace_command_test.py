"""trace_command_test.py BACKPLANE PLUGIN.so: what `backplane trace` writes of a program and of a host, judged as a whole.

The host is this file again (with --host): it speaks the C ABI itself, so that what it called is known to the call.
"""
import collections
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

PROGRAM = """module @twice {
  func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %x, %x : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
"""
THREADS, EACH = 3, 40


def host():
    """Asks the plugin's attributes in threads of its own, once with a wrong device, and ends."""
    library = ctypes.CDLL(os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"].split(":", 1)[1])
    library.GetPjrtApi.restype = ctypes.POINTER(ctypes.c_uint64)
    table = library.GetPjrtApi()

    def call(slot, *words):
        args = (ctypes.c_uint64 * 16)(*words)
        return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(table[5 + slot])(args), args

    assert call(3, 16)[0] is None  # PJRT_Plugin_Initialize

    def ask():
        for _ in range(EACH):
            assert call(4, 32)[0] is None  # PJRT_Plugin_Attributes

    threads = [threading.Thread(target=ask) for _ in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    error, args = call(10, 88)  # PJRT_Client_Create
    assert error is None
    client = args[8]
    assert call(11, 24, 0, client)[0] is None  # PJRT_Client_Destroy


def trace(backplane, plugin, tmp, *command):
    """The trace's events, those of the page, and standard output."""
    done = subprocess.run([backplane, "trace", "--plugin", plugin, "--output", tmp / "t", "--json", *command],
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    # Among what the program prints.
    told, _ = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index('{\n  "exit_code"'))
    assert told["exit_code"] == 0 and len(told["traces"]) == 1, told
    one = told["traces"][0]
    text = pathlib.Path(one["json"]).read_text()
    page = pathlib.Path(one["html"]).read_text()
    loaded = json.loads(text)
    assert loaded["otherData"]["dropped"] == "0"
    assert {e["pid"] for e in loaded["traceEvents"]} == {int(one["process"])}
    return loaded["traceEvents"], page


def check_form(events):
    """Each thread has a name, its calls are nested or disjoint, and each span ends once, in time."""
    calls = [e for e in events if e["ph"] == "X"]
    named = {e["tid"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {e["tid"] for e in calls} <= named
    for tid in named:
        open_until = []
        slack = 0.002  # microseconds: two roundings
        for e in sorted((c for c in calls if c["tid"] == tid), key=lambda c: (c["ts"], -c["dur"])):
            assert e["ts"] >= 0 and e["dur"] >= 0, e
            while open_until and open_until[-1] <= e["ts"] + slack:
                open_until.pop()
            assert not open_until or e["ts"] + e["dur"] <= open_until[-1] + slack, e
            open_until.append(e["ts"] + e["dur"])
    begins = {e["id"]: e for e in events if e["ph"] == "b"}
    ends = {e["id"]: e for e in events if e["ph"] == "e"}
    assert len(begins) == sum(e["ph"] == "b" for e in events) and begins.keys() == ends.keys()
    for i, b in begins.items():
        assert (b["name"], b["cat"], b["tid"]) == (ends[i]["name"], ends[i]["cat"], ends[i]["tid"]) and ends[i]["ts"] >= b["ts"], b
    return collections.Counter(e["name"] for e in calls), list(begins.values())


def check_page(page, events):
    """The page has the same calls and spans, by number, and asks for nothing from elsewhere."""
    assert page.lower().lstrip().startswith("<!doctype html>") and "/*DATA*/" not in page and "http" not in page
    functions = json.loads(re.search(r"functions:(\[[^\]]*\])", page).group(1))
    rows = json.loads(re.search(r"events:(\[\[.*?\]\])", page).group(1))
    assert collections.Counter(functions[r[2]] for r in rows if r[1] == 0) == collections.Counter(e["name"] for e in events if e["ph"] == "X")
    assert sum(r[1] != 0 for r in rows) == sum(e["ph"] == "b" for e in events)
    longest = max((e for e in events if e["ph"] == "X"), key=lambda e: e["dur"])
    assert any(functions[r[2]] == longest["name"] and abs(r[4] / 1e3 - longest["dur"]) < 0.5 for r in rows), longest


def test_a_session(backplane, plugin, tmp):
    """The session of `record` is next to the trace, its name is printed, and it can be replayed."""
    (tmp / "twice.mlir").write_text(PROGRAM)
    for _ in range(2):  # the first run's session is not the second's
        done = subprocess.run([backplane, "trace", "--plugin", plugin, "-O", tmp / "r", "--layers", "record", tmp / "twice.mlir"],
                              capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        session, = re.findall(r"^trace: (.*\.bprec) \(for backplane replay\)$", done.stderr, re.M)
        assert pathlib.Path(session).parent == tmp and pathlib.Path(session).name.startswith("r."), session
    told = subprocess.run([backplane, "replay", session, "-p", plugin], capture_output=True, text=True, timeout=100)
    assert told.returncode == 0 and "1 identical" in told.stdout + told.stderr, told.stdout + told.stderr


def test_a_program(backplane, plugin, tmp):
    (tmp / "twice.mlir").write_text(PROGRAM)
    events, page = trace(backplane, plugin, tmp, tmp / "twice.mlir")
    calls, spans = check_form(events)
    check_page(page, events)
    assert calls["Plugin_Initialize"] == calls["Client_Create"] == calls["Client_Destroy"] == calls["Client_Compile"] == 1, calls
    assert calls["LoadedExecutable_Execute"] == calls["Client_BufferFromHostBuffer"] == 1, calls
    # What was given was given back: the argument and the result.
    assert calls["Buffer_Destroy"] == 2 and calls["LoadedExecutable_Destroy"] == 1, calls
    by_name = {e["name"]: e["args"] for e in events if e["ph"] == "X"}
    assert by_name["Client_Compile"]["bytes"] == len(PROGRAM) and by_name["Client_Compile"]["program"] == "twice"
    assert by_name["Client_BufferFromHostBuffer"]["bytes"] == 24
    assert by_name["LoadedExecutable_Execute"]["arguments"] == 1 and by_name["LoadedExecutable_Execute"]["program"] == "twice"
    kinds = collections.Counter(s["cat"] for s in spans)
    assert kinds["execution"] == 1 and kinds["copy to device"] == 1 and kinds["copy to host"] == calls["Buffer_ToHostBuffer"] - \
        sum(e["name"] == "Buffer_ToHostBuffer" and "bytes" not in e["args"] for e in events if e["ph"] == "X"), (kinds, calls)
    execution = next(s for s in spans if s["cat"] == "execution")
    assert execution["name"] == "twice" and execution["args"]["device"] == 0
    launch = next(e for e in events if e["ph"] == "X" and e["name"] == "LoadedExecutable_Execute")
    # Its thread is the one that saw its end: the caller where the result was there at once, else one of the plugin's.
    assert execution["ts"] == launch["ts"], "a span begins with its call"


def test_a_host_of_several_threads(backplane, plugin, tmp):
    events, page = trace(backplane, plugin, tmp, "--", sys.executable, "-B", __file__, "--host")
    calls, spans = check_form(events)
    check_page(page, events)
    assert calls == {"Plugin_Initialize": 1, "Plugin_Attributes": THREADS * EACH, "Client_Create": 1, "Client_Destroy": 1}, calls
    assert not spans
    # A thread that has ended may have given its number to the next.
    by_thread = collections.Counter(e["tid"] for e in events if e["ph"] == "X" and e["name"] == "Plugin_Attributes")
    assert all(n % EACH == 0 for n in by_thread.values()), by_thread
    main = next(e["tid"] for e in events if e["ph"] == "X" and e["name"] == "Client_Create")
    assert main not in by_thread


def main():
    if sys.argv[1] == "--host":
        return host()
    backplane, plugin = sys.argv[1:3]
    for name in [n for n in os.environ if n.startswith(("BACKPLANE_", "PJRT_", "JAX_"))]:
        del os.environ[name]
    for test in (test_a_program, test_a_host_of_several_threads, test_a_session):
        with tempfile.TemporaryDirectory() as tmp:
            test(backplane, plugin, pathlib.Path(tmp))
        print("ok", test.__name__)


if __name__ == "__main__":
    main()
