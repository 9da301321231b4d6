"""Wrong input through the C ABI, in a process of its own: an error each time, and never a crash.

  bad_input.py PLUGIN.so errors                       the list below; one line each, then 'all told'
  bad_input.py PLUGIN.so mutate FORM SEED COUNT       mutated programs, FORM is bytecode or text; compiles each, runs none
"""
import ctypes
import os
import random
import re
import resource
import struct
import sys

import pypjrt
from pypjrt import errors

F32, S32 = 11, 4

ADD = """
module @m {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
DONATE = ADD.replace("%x: tensor<4xf32>,", "%x: tensor<4xf32> {tf.aliasing_output = 0 : i32},")



def calls(levels, times):
    """A function that calls the next so many times, and so on."""
    text = "module @m {\n"
    for level in range(levels):
        name = "public @main" if level == 0 else f"private @f{level}"
        text += f"  func.func {name}(%v0: tensor<f32>) -> tensor<f32> {{\n"
        for k in range(times):
            text += f"    %v{k + 1} = func.call @f{level + 1}(%v{k}) : (tensor<f32>) -> tensor<f32>\n"
        text += f"    return %v{times} : tensor<f32>\n  }}\n"
    return text + f"  func.func private @f{levels}(%x: tensor<f32>) -> tensor<f32> {{\n    return %x : tensor<f32>\n  }}\n}}\n"


# Programs that must not compile: what the message must match, and the codes that are right for it.
CALLER = (errors.InvalidArgument,)
REFUSED = {
    "empty": ("", r".", CALLER),
    "noise": ("\x00\x01\x02 nonsense", r".", CALLER),
    "unfinished": (ADD[:120], r".", CALLER),
    "unknown dialect": (ADD.replace("stablehlo.add", "mydialect.frob"), r"mydialect", CALLER + (errors.Unimplemented,)),
    "unknown op": (ADD.replace("stablehlo.add %x, %y", "stablehlo.frobnicate %x, %y"), r"frobnicate", CALLER + (errors.Unimplemented,)),
    "unknown value": (ADD.replace("%x, %y :", "%x, %zz :"), r"zz", CALLER),
    "wrong result type": (ADD.replace("add %x, %y : tensor<4xf32>", "add %x, %y : tensor<5xf32>"), r"[45]", CALLER),
    "no main": ("module { func.func @f() { return } func.func @g() { return } }", r"main", CALLER),
    "contracting dims differ": ("""
module @m {
  func.func public @main(%x: tensor<4x8xf32>, %y: tensor<7x2xf32>) -> tensor<4x2xf32> {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<7x2xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
}
""", r"dot.*8.*7", CALLER),
    "2^40 elements": ("""
module @m {
  func.func public @main() -> tensor<1099511627776xf32> {
    %0 = stablehlo.iota dim = 0 : tensor<1099511627776xf32>
    return %0 : tensor<1099511627776xf32>
  }
}
""", r"1099511627776|4398046511104|bytes|memory", CALLER + (errors.ResourceExhausted,)),
    "2^62 elements": (ADD.replace("4x", "4611686018427387904x"), r"\d", CALLER + (errors.ResourceExhausted,)),
    "thirty functions that double": (calls(30, 2), r"call_budget", (errors.ResourceExhausted,)),
    "calls five hundred deep": (calls(500, 1), r"nested", (errors.ResourceExhausted,)),
    "negative dimension": (ADD.replace("4x", "-4x"), r".", CALLER),
}


def expect(name, pattern, kinds, function):
    try:
        function()
    except kinds as e:
        text = str(e)
        assert re.search(pattern, text, re.S), f"{name}: the message does not match {pattern!r}: {text}"
        print(f"{name}: {text.splitlines()[0][:150]}", flush=True)
        return
    except errors.PjrtError as e:
        raise AssertionError(f"{name}: expected one of {[k.__name__ for k in kinds]}, got {type(e).__name__}: {e}") from None
    raise AssertionError(f"{name}: no error")


def check_errors(path):
    plugin = pypjrt.Plugin(path)
    client = pypjrt.Client(plugin)
    for name, (text, pattern, kinds) in REFUSED.items():
        def compile_and_run(text=text):
            executable = client.compile(text)
            if name == "2^40 elements":  # compiling may promise what running cannot keep
                executable()
        expect(name, pattern, kinds, compile_and_run)
    with client.device(0) as device:
        def put(dtype=F32, dims=(4,), data=None):
            return client.buffer_from_host(bytearray(data or struct.pack("4f", 1, 2, 3, 4)), dtype, list(dims), device)

        add = client.compile(ADD)
        expect("too few arguments", r"1.*2|2.*1", CALLER, lambda: add(put()))
        expect("too many arguments", r"3.*2|2.*3", CALLER, lambda: add(put(), put(), put()))
        expect("wrong shape", r"f32\[", CALLER, lambda: add(put(), put(dims=(2, 2))))
        expect("wrong element type", r"s32", CALLER, lambda: add(put(), put(dtype=S32)))

        def deleted():
            b = put()
            plugin.call("PJRT_Buffer_Delete", plugin.args("PJRT_Buffer_Delete_Args", buffer=b.address))
            add(b, put())

        expect("deleted buffer", r"delet", CALLER + (errors.FailedPrecondition,), deleted)
        donate = client.compile(DONATE)
        x, y = put(), put()
        assert struct.unpack("4f", donate(x, y)[0].to_host()) == (2, 4, 6, 8)

        def donated_again():
            x._state = pypjrt.client.State.LIVE  # pypjrt knows; the plugin must know too
            donate(x, y)

        expect("donated buffer", r"donat|delet", CALLER + (errors.FailedPrecondition,), donated_again)
        expect("the same buffer donated and read", r"donat|twice|same", CALLER, lambda: donate(y, y))
        expect("read a deleted buffer", r"delet", CALLER + (errors.FailedPrecondition,), lambda: read_deleted(plugin, put()))
    expect("absent device", r"99", CALLER + (errors.NotFound,), lambda: client.lookup_device(99))
    expect("unknown create option", r"no_such_option", CALLER, lambda: pypjrt.Client(plugin, options={"no_such_option": 1}))
    for cut in range(1, 6):
        expect(f"compile options cut at {cut}", r".", CALLER, lambda: compile_with(plugin, client, b"\x1a\x04\x20\x01\x28\x01"[:cut]))
    expect("unknown format", r"frmt", CALLER + (errors.Unimplemented,), lambda: compile_with(plugin, client, b"", b"frmt"))
    got = add(*(client.buffer_from_host(bytearray(struct.pack("4f", 1, 2, 3, 4)), F32, [4], d) for d in [first_device(client)] * 2))[0]
    assert struct.unpack("4f", got.to_host()) == (2, 4, 6, 8), "the client does not work any more"
    print("all told")


def first_device(client):
    with client.device(0) as d:
        return type(d)(d._plugin, d.address)


def read_deleted(plugin, buffer):
    plugin.call("PJRT_Buffer_Delete", plugin.args("PJRT_Buffer_Delete_Args", buffer=buffer.address))
    out = bytearray(16)
    at = ctypes.addressof(ctypes.c_char.from_buffer(out))
    args = plugin.args("PJRT_Buffer_ToHostBuffer_Args", src=buffer.address, dst=at, dst_size=16)
    plugin.call("PJRT_Buffer_ToHostBuffer", args)
    pypjrt.Event(plugin, args.event).consume()


def compile_with(plugin, client, options, fmt=b"mlir"):
    code = ADD.encode()
    keep = [ctypes.create_string_buffer(b, max(1, len(b))) for b in (code, fmt, options)]
    at = [ctypes.cast(k, ctypes.c_void_p) for k in keep]
    program = plugin.args("PJRT_Program", code=at[0], code_size=len(code), format=at[1], format_size=len(fmt))
    plugin.call("PJRT_Client_Compile", plugin.args("PJRT_Client_Compile_Args", client=client.address, program=ctypes.addressof(program),
                                                   compile_options=at[2], compile_options_size=len(options)))


# ---- mutations ------------------------------------------------------------------------------------------------------


def programs(form):
    """Real programs as JAX sends them: small, of many kinds of operation."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import export, lax
    v, m = np.zeros(8, np.float32), np.zeros((8, 8), np.float32)
    functions = [
        (jax.grad(lambda w, x: jnp.tanh(x @ w).sum()), m, m),
        (lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 2), (0, x)), v),
        (lambda x: (jnp.sort(x), jnp.argsort(x), lax.top_k(x, 3)), v),
        (lambda x: x.at[jnp.array([1, 3])].add(2.0)[::2], v),
        (lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"), np.zeros((1, 2, 6, 6), np.float32), np.zeros((3, 2, 3, 3), np.float32)),
        (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"), m),
        (lambda k: jax.random.normal(jax.random.wrap_key_data(k), (4,)), np.zeros(2, np.uint32)),
        (lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), v),
        (lambda x: jnp.fft.rfft(x), v),
        (lambda x: lax.scan(lambda c, e: (c + e, c * e), 0.0, x), v),
    ]
    out = []
    for f, *args in functions:
        exported = export.export(jax.jit(f))(*args)
        out.append(exported.mlir_module_serialized if form == "bytecode" else exported.mlir_module().encode())
    return out


def mutate(rng, data, others):
    """One to four small damages: bytes changed, cut, repeated, swapped, or spliced in from another program."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if len(data) < 8:
            break
        kind, i = rng.randrange(8), rng.randrange(len(data))
        n = min(rng.choice((1, 1, 2, 4, 16, 64)), len(data) - i)
        if kind == 0:
            data[i] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[i] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del data[i:i + n]
        elif kind == 3:
            data[i:i] = data[i:i + n]
        elif kind == 4:
            del data[i:]
        elif kind == 5:
            j = rng.randrange(len(data) - n + 1)
            data[i:i + n], data[j:j + n] = data[j:j + n], data[i:i + n]
        elif kind == 6:
            other = rng.choice(others)
            j = rng.randrange(len(other))
            data[i:i + n] = other[j:j + n]
        else:
            digits = [k for k, b in enumerate(data) if 48 <= b <= 57]
            if digits:
                data[rng.choice(digits)] = rng.choice(b"0123456789-")
    return bytes(data)


def check_mutations(path, form, seed, count):
    originals = programs(form)
    client = pypjrt.Client(pypjrt.Plugin(path))
    for program in originals:
        client.compile(program)
    if "san.so" not in os.environ.get("LD_PRELOAD", ""):  # a sanitizer's shadow takes more address space than any limit
        resource.setrlimit(resource.RLIMIT_AS, (12 << 30, resource.RLIM_INFINITY))
    rng, refused = random.Random(seed), 0
    for i in range(count):
        program = mutate(rng, rng.choice(originals), originals)
        print(f"mutation {i}", flush=True)  # the last line tells which one it was
        with open(os.environ["MUTATION_FILE"], "wb") as f:
            f.write(program)
        try:
            client.compile(program).close()
        except errors.PjrtError as e:
            assert str(e).strip(), "an error without words"
            refused += 1
    assert refused > count // 2, f"only {refused} of {count} were refused"
    print(f"{refused} of {count} refused")


if __name__ == "__main__":
    if sys.argv[2] == "errors":
        check_errors(sys.argv[1])
    else:
        check_mutations(sys.argv[1], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
