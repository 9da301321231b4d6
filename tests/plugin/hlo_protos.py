"""hlo_protos.py PLUGIN.so: programs of format "hlo" as torch_xla and TensorFlow hand them over.

Their instructions carry layouts that the compile options do not ask for, and factorizations are custom calls that XLA's
compilers take apart. What the programs mean is told by numpy; XLA's plugin agrees.
"""
import ctypes
import sys

import numpy as np
import pypjrt
from jaxlib import _hlo

F32 = 11  # PJRT's number
RNG = np.random.default_rng(7)


def f32(*dims):
    return RNG.standard_normal(dims).astype(np.float32)


X, W, B = f32(16, 10), f32(32, 10), f32(32)
CASES = [
    # A linear layer as torch_xla writes it: the weight is known to its writer column by column.
    ("linear", """HloModule linear, entry_computation_layout={(f32[16,10]{1,0}, f32[32,10]{0,1}, f32[32]{0})->f32[16,32]{0,1}}
ENTRY e {
  x = f32[16,10]{1,0} parameter(0)
  w = f32[32,10]{0,1} parameter(1)
  t = f32[10,32]{1,0} transpose(w), dimensions={1,0}
  d = f32[16,32]{1,0} dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[32]{0} parameter(2)
  s = f32[16,32]{0,1} broadcast(b), dimensions={1}
  ROOT r = f32[16,32]{0,1} add(d, s)
}""", [X, W, B], lambda x, w, b: x @ w.T + b),
    ("transpose", """HloModule transpose, entry_computation_layout={(f32[32,10]{0,1})->f32[10,32]{0,1}}
ENTRY e {
  w = f32[32,10]{0,1} parameter(0)
  ROOT t = f32[10,32]{0,1} transpose(w), dimensions={1,0}
}""", [W], lambda w: w.T),
    ("reduce", """HloModule reduce
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  w = f32[32,10]{0,1} parameter(0)
  z = f32[] constant(0)
  r = f32[32]{0} reduce(w, z), dimensions={1}, to_apply=sum
  c = f32[32,10]{0,1} broadcast(r), dimensions={0}
  k = f32[32,10]{0,1} copy(w)
  ROOT d = f32[32,10]{0,1} multiply(c, k)
}""", [W], lambda w: w.sum(1, keepdims=True) * w),
    ("loop", """HloModule loop
body {
  s = (s32[], f32[32,10]{0,1}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  w = f32[32,10]{0,1} get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  v = f32[32,10]{0,1} reverse(w), dimensions={0}
  u = f32[32,10]{0,1} add(v, w)
  ROOT r = (s32[], f32[32,10]{0,1}) tuple(n, u)
}
condition {
  s = (s32[], f32[32,10]{0,1}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  w = f32[32,10]{0,1} parameter(0)
  t = (s32[], f32[32,10]{0,1}) tuple(zero, w)
  l = (s32[], f32[32,10]{0,1}) while(t), condition=condition, body=body
  ROOT r = f32[32,10]{0,1} get-tuple-element(l), index=1
}""", [W], lambda w: 4 * (w + w[::-1])),
    # R of a QR factorization; signs as LAPACK has them.
    ("qr", """HloModule qr
ENTRY e {
  a = f32[3,16,10]{2,1,0} parameter(0)
  q = (f32[3,16,10]{2,1,0}, f32[3,10]{1,0}) custom-call(a), custom_call_target="Qr"
  r = f32[3,16,10]{2,1,0} get-tuple-element(q), index=0
  t = f32[3,10,10]{2,1,0} slice(r), slice={[0:3], [0:10], [0:10]}
  i = s32[3,10,10]{2,1,0} iota(), iota_dimension=1
  j = s32[3,10,10]{2,1,0} iota(), iota_dimension=2
  u = pred[3,10,10]{2,1,0} compare(i, j), direction=LE
  z = f32[] constant(0)
  zz = f32[3,10,10]{2,1,0} broadcast(z), dimensions={}
  ROOT s = f32[3,10,10]{2,1,0} select(u, t, zz)
}""", [f32(3, 16, 10)], lambda a: np.linalg.qr(a, mode="r")),
    ("q", """HloModule q
ENTRY e {
  a = f32[16,10]{1,0} parameter(0)
  q = (f32[16,10]{1,0}, f32[10]{0}) custom-call(a), custom_call_target="Qr"
  r = f32[16,10]{1,0} get-tuple-element(q), index=0
  t = f32[10]{0} get-tuple-element(q), index=1
  ROOT s = f32[16,10]{1,0} custom-call(r, t), custom_call_target="ProductOfElementaryHouseholderReflectors"
}""", [X], lambda a: np.linalg.qr(a)[0]),
    ("eigh", """HloModule eigh
ENTRY e {
  a = f32[2,9,9]{2,1,0} parameter(0)
  q = (f32[2,9,9]{2,1,0}, f32[2,9]{1,0}) custom-call(a), custom_call_target="Eigh", backend_config="1,1,100,0.000001"
  ROOT w = f32[2,9]{1,0} get-tuple-element(q), index=1
}""", [f32(2, 9, 9)], lambda a: np.linalg.eigvalsh(a, "L")),
    ("constant", """HloModule constant
ENTRY e {
  a = f32[2,3]{1,0} parameter(0)
  k = f32[2,3]{0,1} constant({{1,2,3},{4,5,6}})
  ROOT s = f32[2,3]{0,1} add(a, k)
}""", [f32(2, 3)], lambda a: a + np.float32([[1, 2, 3], [4, 5, 6]])),
]


class HloPlugin(pypjrt.Plugin):
    """Names every program's format "hlo"."""
    def args(self, name, **values):
        if name == "PJRT_Program":
            self.format = ctypes.create_string_buffer(b"hlo", 3)
            values.update(format=ctypes.cast(self.format, ctypes.c_void_p), format_size=3)
        return super().args(name, **values)


def main():
    client = pypjrt.Client.create(HloPlugin(sys.argv[1]))
    for name, text, arguments, expected in CASES:
        proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        executable = client.compile(proto)
        want = expected(*arguments)
        with client.device(0) as device:
            row = [client.buffer_from_host(a, F32, a.shape, device=device) for a in arguments]
        outputs = executable.execute_sharded([row])
        assert tuple(outputs[0][0].dimensions) == want.shape, name
        got = np.frombuffer(bytes(outputs[0][0].to_host()), np.float32).reshape(want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=name)
        print(name)
    print("all right")


if __name__ == "__main__":
    main()
