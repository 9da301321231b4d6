"""TensorFlow imported before JAX: its own libraries are in the process when the plugin is opened."""
import tensorflow as tf  # first, on purpose
import numpy as np

import jax  # noqa: E402
import jax.numpy as jnp

from programs import program
from programs.jax_basic import check_plugin, close, normal  # noqa: F401


@program
def side_by_side():
    """TensorFlow and JAX in turns, one's results in the other's hands."""
    x = normal(80, 6, 6)
    step = tf.function(lambda v: tf.nn.softmax(v @ tf.transpose(v)))
    for _ in range(3):
        theirs = step(tf.constant(x)).numpy()
        e = np.exp(x @ x.T - (x @ x.T).max(1, keepdims=True))
        close(theirs, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)
        ours = jax.jit(lambda v: jnp.tanh(v) @ v)(theirs)
        close(ours, np.tanh(theirs) @ theirs, rtol=1e-4, atol=1e-5)
        x = np.asarray(ours)


@program
def messages():
    """What TensorFlow writes and reads as protocol buffers, after the plugin has compiled and written its own."""
    compiled = jax.jit(lambda v: jnp.sin(v) + 1).lower(np.ones(3, np.float32)).compile()
    assert "HloModule" in compiled.as_text()
    graph = tf.function(lambda v: v * 2 + 1).get_concrete_function(tf.TensorSpec([3])).graph.as_graph_def()
    again = tf.compat.v1.GraphDef.FromString(graph.SerializeToString())
    assert again == graph and len(again.node) > 3
    example = tf.train.Example(features=tf.train.Features(feature={"a": tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2, 3]))}))
    assert tf.train.Example.FromString(example.SerializeToString()).features.feature["a"].int64_list.value[2] == 3
    close(compiled(np.ones(3, np.float32)), np.sin(np.ones(3)) + 1)
