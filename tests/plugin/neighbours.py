"""neighbours.py local|global PLUGIN.so...: opens all in this process, makes a client of each, runs a program on each, twice."""
import ctypes
import math
import os
import struct
import sys

import pypjrt

PROGRAM = """
module @m {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.multiply %x, %y : tensor<4xf32>
    %1 = stablehlo.tanh %0 : tensor<4xf32>
    %2 = stablehlo.add %0, %1 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}
"""
F32 = 11


def run(client):
    x, y = [0.5, -1.0, 2.0, 0.0], [1.0, 0.25, -0.5, 3.0]
    with client.device(0) as device:
        args = [client.buffer_from_host(bytearray(struct.pack("4f", *v)), F32, [4], device) for v in (x, y)]
    got = struct.unpack("4f", client.compile(PROGRAM)(*args)[0].to_host())
    want = [a * b + math.tanh(a * b) for a, b in zip(x, y)]
    assert all(abs(g - w) < 1e-5 for g, w in zip(got, want)), (got, want)


def main():
    mode = {"local": os.RTLD_LOCAL, "global": os.RTLD_GLOBAL}[sys.argv[1]] | os.RTLD_NOW
    for path in sys.argv[2:]:
        ctypes.CDLL(path, mode)
    clients = [pypjrt.Client.create(path) for path in sys.argv[2:]]
    for _ in range(2):
        for path, client in zip(sys.argv[2:], clients):
            run(client)
            print(f"{os.path.basename(path)}: right", flush=True)
    for client in clients:
        client.close()


if __name__ == "__main__":
    main()
