"""Unmodified JAX on each plugin: the cases of tests/plugin/cases."""
import numpy as np
import pytest

import cases
import cases.basic
import cases.control
import cases.linear_algebra
import cases.runtime
import cases.several_devices


@pytest.mark.parametrize("name", list(cases.CASES))
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
