"""A host in Rust: fastatomstruct trains a MACE potential on the plugin and computes forces with it."""
import os
import tempfile

import numpy as np

from programs import program


def structures(count):
    """Small clusters with the energies and forces of a pair potential in closed form."""
    from ase import Atoms
    from ase.calculators.morse import MorsePotential
    rng = np.random.default_rng(0)
    made = []
    for _ in range(count):
        a = Atoms("Ar4", np.array([[0, 0, 0], [1.2, 0, 0], [0, 1.2, 0], [0, 0, 1.2]]) + rng.normal(0, 0.08, (4, 3)))
        a.calc = MorsePotential(r0=1.3, epsilon=0.5)
        a.info["REF_energy"], a.arrays["REF_forces"] = a.get_potential_energy(), a.get_forces()
        a.calc = None
        made.append(a)
    return made


@program
def potential():
    """Training lowers the error; the trained forces are the slope of the trained energy, by differences."""
    from fastatomstruct import mace_rust_train
    from fastatomstruct.mace_rust_backend import FastMACErustCalculator
    plugin = os.environ["BACKPLANE_HOSTS_PLUGIN"]
    with tempfile.TemporaryDirectory() as folder:
        data = structures(12)
        config = {"r_max": 3.0, "hidden_irreps": "4x0e + 4x1o", "num_interactions": 2, "max_num_epochs": 3, "lr": 0.01, "batch_size": 4, "seed": 1, "E0s": "average"}
        told = mace_rust_train.train(data, config, f"{folder}/model", pjrt_plugin=plugin)
        assert plugin in open("/proc/self/maps").read(), "the plugin was not opened"
        losses = [epoch["loss"] for epoch in told["history"]]
        assert len(losses) == 3 and min(losses[1:]) < 0.1 * losses[0], losses
        atoms = data[0].copy()
        atoms.calc = FastMACErustCalculator(f"{folder}/model", pjrt_plugin=plugin)
        forces, step = atoms.get_forces(), 1e-3
        for atom, axis in ((0, 0), (1, 2), (3, 1)):
            sides = []
            for sign in (1, -1):
                moved = data[0].copy()
                moved.positions[atom, axis] += sign * step
                moved.calc = atoms.calc
                sides.append(moved.get_potential_energy())
            np.testing.assert_allclose(forces[atom, axis], (sides[1] - sides[0]) / (2 * step), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(forces.sum(0), 0, atol=1e-6)
