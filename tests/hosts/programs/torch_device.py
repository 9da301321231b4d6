"""Loads the plugin under test into torch_xla, and compares results with eager torch on the CPU."""
import os

import torch
import torch_xla
import torch_xla.runtime as xr
from torch_xla.experimental import plugins

devices = 1


class Plugin(plugins.DevicePlugin):
    """The plugin under test, with as many devices as the program wants."""

    def library_path(self):
        return os.environ["BACKPLANE_HOSTS_PLUGIN"]

    def client_create_options(self):
        return {"cpu_device_count": devices}


def start(count=1):
    """Chooses the backend of this process: ours, or torch_xla's own."""
    global devices
    devices = count
    if os.environ["BACKPLANE_HOSTS_ROAD"] == "own":
        os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES=str(count))
        return
    os.environ["PJRT_DEVICE"] = "BACKPLANE"
    plugins.use_dynamic_plugins()
    plugins.register_plugin("BACKPLANE", Plugin())


def begin(count=1):
    """To be called before anything else: starts the backend, which must be the plugin under test where that is the road."""
    own = os.environ["BACKPLANE_HOSTS_ROAD"] == "own"
    start(count)
    if count > 1:
        xr.use_spmd()
    assert float((torch.ones(2, device="xla") + 1).sum()) == 4
    assert xr.addressable_runtime_device_count() == count
    mapped = os.environ["BACKPLANE_HOSTS_PLUGIN"] in open("/proc/self/maps").read()
    assert mapped != own and xr.device_type() == ("CPU" if own else "BACKPLANE"), (mapped, xr.device_type())


def close(got, want, rtol=1e-4, atol=1e-5):
    """Compares values, shapes and types; copies `got` to the CPU first."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want), (len(got), len(want))
        for g, w in zip(got, want):
            close(g, w, rtol, atol)
        return
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=rtol, atol=atol)


def both(function, *tensors, rtol=1e-4, atol=1e-5):
    """Runs `function` on the device and on the CPU."""
    there = [t.to(torch_xla.device()) if isinstance(t, torch.Tensor) else t for t in tensors]
    close(function(*there), function(*tensors), rtol, atol)
