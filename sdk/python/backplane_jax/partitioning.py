"""jax.experimental.custom_partitioning: passes the program of a partition to our plugins in a form that they read.

JAX registers its callbacks with every plugin that has the extension. They return MLIR bytecode of the StableHLO dialect, whose
encoding depends on the version of jaxlib. This module converts it to text, which is stable.
"""
import logging

from . import pjrt

logger = logging.getLogger("backplane_jax")

EXTENSION_CUSTOM_PARTITIONER = 2


def follow_jax():
    """Makes JAX register our callbacks for each of our plugins, after JAX has registered its own. Must not be called while JAX
    registers its callbacks."""
    from jax._src import xla_bridge
    try:
        from jax._src import custom_partitioning  # the import registers JAX's callbacks
    except ImportError:  # the module's place up to JAX 0.4.33
        from jax.experimental import custom_partitioning
    xla_bridge.register_plugin_callbacks(lambda c_api: _install(custom_partitioning, c_api))


def _install(custom_partitioning, c_api):
    table = pjrt.Table(c_api)
    if table.extension(pjrt.EXTENSION_BACKPLANE) is None or table.extension(EXTENSION_CUSTOM_PARTITIONER) is None:
        return
    try:
        from jax._src.interpreters import mlir
        from jax._src.lib import xla_client
        from jax._src.lib.mlir import ir

        def partition(*args):
            bytecode, operands, result = custom_partitioning._custom_partitioning_partition(*args)
            with mlir.make_ir_context():
                text = str(ir.Module.parse(bytecode))
            return text.encode(), operands, result

        xla_client.register_custom_call_partitioner(
            custom_partitioning._CUSTOM_PARTITIONING_CALL_NAME,
            custom_partitioning._custom_partitioning_propagate_user_sharding,
            partition,
            custom_partitioning._custom_partitioning_infer_sharding_from_operands,
            can_side_effecting_have_replicated_sharding=True,
            c_api=c_api,
        )
    except Exception as e:
        logger.warning("custom partitioning: not available: %s", e)
