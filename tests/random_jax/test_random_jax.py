"""Tests the generator of random JAX programs (deterministic, valid programs), the comparison and the shrinking."""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "4")

import jax  # noqa: E402
import numpy as np  # noqa: E402

import generate  # noqa: E402
import judge  # noqa: E402
import shrink  # noqa: E402
import tree  # noqa: E402


def test_same_program_for_a_seed():
    for seed in (3, 8):
        text = tree.source(generate.generate(seed))
        assert text == tree.source(generate.generate(seed))
        assert text != tree.source(generate.generate(seed + 1))


def test_what_is_generated():
    texts = [tree.source(generate.generate(seed)) for seed in range(100, 140)]
    for words in (["lax.while_loop("], ["lax.scan("], ["lax.fori_loop("], ["lax.cond("], ["lax.switch("], ["jax.vmap("], ["jax.grad("],
                  ["jax.jvp(", "jax.linearize(", "jax.vjp(", "jax.jacfwd("], ["with_jvp(", "with_vjp("], ["jax.checkpoint("], ["shard_map("],
                  ["donate_argnums"], ["jax.random."], [".at["], ['"jax_enable_x64", True'], ["(0, False,"]):
        assert any(word in t for word in words for t in texts), words
    # One function called from several places.
    assert sum(any(t.count(f"shared{k}(") > 2 for k in range(1, 400)) for t in texts) > 4


def run(program, change=lambda text: text):
    jax.config.update("jax_enable_x64", program.x64)
    space = {"__name__": "random_program"}
    exec(change(tree.source(program)), space)  # noqa: S102
    return [np.asarray(r) for r in jax.tree.leaves(space["build"](jax.devices())(*space["arguments"]()))]


def test_planted_defect_is_found_and_shrunk():
    """`while_loop` that negates the flag which its condition reads, as a plugin did: found, and little is left of the program."""
    broken = ("import jax.lax as _l\n_right = _l.while_loop\n"
              "def _wrong(c, b, s):\n"
              "    out = list(_right(c, b, s))\n"
              "    if len(out) > 1 and out[1].dtype == bool and out[1].shape == ():\n"
              "        out[1] = ~out[1]\n"
              "    return tuple(out)\n")

    def wrong(text):
        return text.replace("\ndef build(", "\n" + broken + "\ndef build(").replace("lax.while_loop(", "_wrong(")

    def fails(program):
        try:
            right = run(program)
            return bool(judge.compare(right, [right], run(program, wrong))[0])
        except Exception:
            return False
    for seed in range(1, 30):
        program = generate.generate(seed)
        if "(0, False," not in tree.source(program) or not fails(program):
            continue
        small, _ = shrink.shrink(program, fails, tries=60, seconds=60)
        assert tree.size(small) < tree.size(program)
        assert tree.source(small).count("while_loop(") == 1
        assert fails(small)
        return
    raise AssertionError("no program shows it")


def test_judge():
    e = np.array([1.0, 2.0, 3.0], np.float32)
    near, far = e * np.float32(1 + 1e-6), e * np.float32(1.01)
    assert judge.compare([e], [[e]], [near]) == ("", 3, 0)
    assert "3 elements" in judge.compare([e], [[e]], [far])[0]
    assert judge.compare([e], [[e * np.float32(1.005)]], [far])[0] == ""  # where a move changes as much, rounding may
    assert judge.compare([e], [[e * np.float32(2)]], [far]) == ("", 0, 3)  # where it changes everything, nothing is told
    whole = np.array([1, 2], np.int32)
    assert judge.compare([whole], [[whole]], [whole])[0] == ""
    assert "expected 2, found 3" in judge.compare([whole], [[whole]], [np.array([1, 3], np.int32)])[0]
    assert judge.compare([whole], [[np.array([1, 3], np.int32)]], [np.array([1, 3], np.int32)]) == ("", 1, 1)
    nan = np.array([np.nan, np.inf], np.float64)
    assert judge.compare([nan], [[nan]], [nan])[0] == ""
    assert judge.compare([nan], [[nan]], [np.array([0.0, np.inf])])[0] != ""
    wide = e.astype(np.float64)
    assert judge.compare([wide], [[wide]], [wide * (1 + 1e-6)])[0] != ""
    assert judge.compare([wide], [[wide]], [wide * (1 + 1e-6)], "float32")[0] == ""
    assert judge.narrowest("x, 'float64'") == "float64" and judge.narrowest("'float64' 'complex64'") == "float32"
    assert "1 results" in judge.compare([e, e], [[e, e]], [e])[0]
    assert "float64" in judge.compare([e], [[e]], [e.astype(np.float64)])[0]


def test_moved_arguments_stay_near():
    rng = np.random.default_rng(1)
    x = np.linspace(-2, 2, 100, dtype=np.float32)
    y = judge.moved(x, rng, "float32")
    assert y.dtype == x.dtype and (y != x).any() and np.abs(y - x).max() < 1e-5
    assert (judge.moved(np.arange(3), rng, "float32") == np.arange(3)).all()
