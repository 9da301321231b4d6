"""Compiles one StableHLO program with the plugin that JAX was given, and runs it: two lines of JSON, results to a file.

  scale_worker.py PROGRAM ARGUMENTS.npz RESULTS.npz
"""
import json
import os
import resource
import sys
import time

import jax
import numpy as np
from jax._src.compiler import get_compile_options
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo


def portable(text):
    """What JAX hands to a plugin: no text is read in the time that counts."""
    with mlir.make_ir_context():
        version = hlo.get_version_from_compatibility_requirement(hlo.StablehloCompatibilityRequirement.WEEK_4)
        return hlo.serialize_portable_artifact(ir.Module.parse(text), version)


def main():
    program, arguments, results = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    jax.jit(lambda x: x * 2)(np.float32(1)).block_until_ready()
    device = jax.devices()[0]
    with np.load(arguments) as arrays:
        buffers = [jax.device_put(arrays[name], device) for name in arrays.files]
    code = portable(open(program).read())
    options, devices = get_compile_options(num_replicas=1, num_partitions=1), xla_client.DeviceList((device,))
    start, start_cpu = time.perf_counter(), time.process_time()
    executable = device.client.compile_and_load(code, devices, options)
    answer(seconds=time.perf_counter() - start, cpu=time.process_time() - start_cpu,
           peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    steps, values = [], None
    while len(steps) < 3 or (len(steps) < 50 and sum(steps) < 0.5):
        start = time.perf_counter()
        values = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        jax.block_until_ready([v[0] for v in values])
        steps.append(time.perf_counter() - start)
    np.savez(results, *(np.asarray(v[0]) for v in values))
    answer(step=min(steps))


if __name__ == "__main__":
    main()
