"""Copies arrays of other libraries that JAX gets by DLPack and cannot use in place.

jaxlib uses an array in place if it can. Otherwise (if the address is not aligned, the dimensions have another order, or `copy=True`)
it copies the array in a way that works only with its own clients and fails with ours. This module then copies the array, which must
be in host memory, with numpy.
"""
import ctypes
import functools

import ml_dtypes
import numpy as np

from . import pjrt

_CPU, _BFLOAT = 1, 4
_AT = {b"dltensor": 0, b"dltensor_versioned": 32}  # offset of the DLTensor in the object of a capsule with this name
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # DLDataTypeCode to numpy's letters


class _Tensor(ctypes.Structure):  # DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]

    def dtype(self):
        """Returns the numpy type of the elements; None if numpy has no such type."""
        if self.code == _BFLOAT and self.bits == 16:
            return np.dtype(ml_dtypes.bfloat16)
        try:
            return np.dtype(f"{_KINDS[self.code]}{self.bits // 8}")
        except (KeyError, TypeError):
            return None

    def copy(self):
        """Returns the values in a new numpy array; None if they are not in host memory or numpy has no such type."""
        dtype = self.dtype()
        if self.device_type != _CPU or self.lanes != 1 or dtype is None or dtype.itemsize * 8 != self.bits:
            return None
        shape = tuple(self.dims[i] for i in range(self.rank))
        if 0 in shape:
            return np.zeros(shape, dtype)
        first = np.frombuffer((ctypes.c_uint8 * dtype.itemsize).from_address(self.data + self.byte_offset), np.uint8).view(dtype)
        strides = [self.strides[i] * dtype.itemsize for i in range(self.rank)] if self.strides else None
        if strides is None:
            strides = [dtype.itemsize * int(np.prod(shape[i + 1:], dtype=np.int64)) for i in range(self.rank)]
        return np.lib.stride_tricks.as_strided(first, shape, strides).copy()


def copy_where_jaxlib_cannot():
    """Wraps jaxlib's import function, so that the array is copied here if the import fails with the error described above."""
    import jax
    from jaxlib import xla_client
    inner = xla_client._xla.dlpack_managed_tensor_to_buffer
    if getattr(inner, "copies_for_plugins", False):
        return

    @functools.wraps(inner)
    def imported(capsule, device=None, *rest, **named):
        try:
            return inner(capsule, device, *rest, **named)
        except RuntimeError as e:  # the base class of jaxlib's error in all versions
            at = _AT.get(pjrt.capsule_name(capsule))
            if device is None or at is None or "HostBufferSemantics" not in str(e):
                raise
            # jaxlib has not consumed the capsule, so its array exists until the caller drops the capsule.
            values = _Tensor.from_address(pjrt.capsule_pointer(capsule) + at).copy()
            if values is None:
                raise
        with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):  # JAX checks the type afterwards
            return jax.device_put(values, device)

    imported.copies_for_plugins = True
    xla_client._xla.dlpack_managed_tensor_to_buffer = imported
