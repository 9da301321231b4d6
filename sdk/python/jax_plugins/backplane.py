"""JAX's plugin discovery imports every module of the namespace package jax_plugins and calls its initialize()."""
from backplane_jax import initialize

__all__ = ["initialize"]
