"""Unmodified JAX on each plugin: the cases of tests/plugin/cases."""
import numpy as np

import cases
import cases.attention
import cases.basic
import cases.control
import cases.linear_algebra
import cases.models
import cases.programs
import cases.runtime
import cases.several_devices
import cases.sharded_models
import cases.tiled_tpu


def pytest_generate_tests(metafunc):
    """Each case on each plugin it is of."""
    plugins = [p.split("=", 1) for p in metafunc.config.getoption("--plugin")]
    pairs = [(path, name, which) for which, path in plugins for name, case in cases.CASES.items() if any(part in path for part in case.only.split("|"))]
    metafunc.parametrize("plugin,name", [p[:2] for p in pairs], ids=[f"{which}-{name}" for _, name, which in pairs], scope="session")


def test_jax(plugin, name, workers):
    case = cases.CASES[name]
    path = workers.run(case, plugin)
    assert case.peer == (path is not None), "a case returns arrays exactly when it has a peer"
    if path is None:
        return
    got, want = np.load(path), np.load(workers.run_on_peer(case))
    assert sorted(got.files) == sorted(want.files)
    for key in want.files:
        assert got[key].dtype == want[key].dtype, key
        np.testing.assert_allclose(got[key], want[key], rtol=case.rtol, atol=case.atol, err_msg=key)
