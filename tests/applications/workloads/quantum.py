"""Quantum dynamics and circuits, tensor networks: dynamiqs, jaxquantum, qujax, tensornetwork."""
from protocol import workload


@workload(library="dynamiqs", x64=True, rtol=1e-6, why="adaptive solvers with tolerance 1e-8 in double precision")
def dynamiqs_cat_qubit():
    import dynamiqs as dq
    import jax
    import jax.numpy as jnp
    dq.set_precision("double")
    dq.set_progress_meter(False)
    n = 12
    a = dq.destroy(n)
    times = jnp.linspace(0, 1.0, 9)
    tight = dq.method.Tsit5(rtol=1e-9, atol=1e-9)

    def population(alpha, kappa):
        two_photon = jnp.sqrt(kappa) * (a @ a - alpha**2 * dq.eye(n))
        found = dq.mesolve(0.3 * a.dag() @ a, [two_photon, 0.1 * a], dq.fock(n, 0), times, exp_ops=[a.dag() @ a, dq.parity(n)], method=tight)
        return found.expects, found.final_state.to_jax()

    values = jax.jit(population)
    gradient = jax.jit(jax.grad(lambda alpha, kappa: population(alpha, kappa)[0][0, -1].real, argnums=(0, 1)))

    def driven(omega):
        h = dq.modulated(lambda t: omega * jnp.cos(2.0 * t), dq.sigmax()) + 0.5 * dq.sigmaz()
        return dq.sesolve(h, dq.basis(2, 0), times, exp_ops=[dq.sigmaz()], method=tight).expects

    def step():
        expects, state = values(1.2, 1.0)
        g = gradient(1.2, 1.0)
        expansion = dq.mesolve(0.3 * a.dag() @ a, [0.5 * a], dq.coherent(n, 0.8), times, exp_ops=[a.dag() @ a], method=dq.method.Expm()).expects
        batch = dq.sesolve(jnp.linspace(0.5, 1.5, 4)[:, None, None] * dq.sigmax() + dq.sigmaz(), dq.basis(2, 0), times, exp_ops=[dq.sigmaz()], method=tight).expects
        return {"expects": expects, "state": state, "by alpha": g[0], "by kappa": g[1], "driven": jax.vmap(driven)(jnp.linspace(0.2, 2.0, 5)),
                "expm": expansion, "batch": batch, "wigner": dq.wigner(dq.coherent(n, 1.0), npixels=21)[2]}

    return step


@workload(library="jaxquantum", x64=True, rtol=1e-6, why="adaptive solvers in double precision")
def jaxquantum_solvers():
    import jax
    import jax.numpy as jnp
    import jaxquantum as jqt
    n = 10

    def decay(kappa):
        a = jqt.destroy(n)
        initial = (jqt.basis(n, 2) + jqt.basis(n, 0)).unit()
        states = jqt.mesolve(0.2 * a.dag() @ a, initial @ initial.dag(), jnp.linspace(0, 2, 11), c_ops=jqt.Qarray.from_list([jnp.sqrt(kappa) * a]))
        return jnp.real(jqt.overlap(a.dag() @ a, states))

    values, slopes = jax.jit(decay), jax.jit(jax.grad(lambda kappa: decay(kappa)[-1]))

    def step():
        z, x = jqt.sigmaz(), jqt.sigmax()
        h = jqt.tensor(z, jqt.identity(2)) + 0.7 * jqt.tensor(x, x)
        energies, propagator = jqt.eigenenergies(h), jqt.expm(-0.3j * h)
        return {"decay": values(0.4), "slope": slopes(0.4), "energies": energies, "propagator": propagator.data,
                "trace": jqt.ptrace(jqt.tensor(jqt.basis(2, 0), jqt.basis(3, 1)).to_dm(), 0).data}

    return step


@workload(library="qujax", rtol=1e-4, why="40 steps of gradient descent on a circuit, float32")
def qujax_circuits():
    import jax
    import jax.numpy as jnp
    import qujax
    qubits, depth = 5, 3
    gates, places, parameters, k = [], [], [], 0
    for _ in range(depth):
        for q in range(qubits):
            gates += ["Rx", "Rz"]
            places += [[q], [q]]
            parameters += [[k], [k + 1]]
            k += 2
        for q in range(qubits - 1):
            gates.append("CZ")
            places.append([q, q + 1])
            parameters.append([])
    state = qujax.get_params_to_statetensor_func(gates, places, parameters, qubits)
    energy_of = qujax.get_statetensor_to_expectation_func([["Z", "Z"]] * (qubits - 1) + [["X"]] * qubits, [[q, q + 1] for q in range(qubits - 1)] + [[q] for q in range(qubits)],
                                                          jnp.concatenate([jnp.full(qubits - 1, -1.0), jnp.full(qubits, -0.5)]))
    density = qujax.get_params_to_densitytensor_func(gates, places, parameters, qubits)
    energy = lambda p: energy_of(state(p))
    descend = jax.jit(lambda p: jax.lax.scan(lambda p, _: ((lambda v, g: (p - 0.05 * g, v))(*jax.value_and_grad(energy)(p))), p, None, 40))

    def step():
        start = jax.random.uniform(jax.random.key(1), (k,))
        found, energies = descend(start)
        return {"energies": energies, "state": state(found), "density": jax.jit(density)(start), "hessian": jax.jit(jax.hessian(energy))(start)}

    return step


@workload(library="tensornetwork", rtol=1e-4, why="contractions and decompositions of small tensors, float32")
def tensornetwork_contractions():
    import jax
    import jax.numpy as jnp
    import tensornetwork as tn
    tn.set_default_backend("jax")

    @jax.jit
    def ring(tensors):
        nodes = [tn.Node(t) for t in tensors]
        for i, node in enumerate(nodes):
            node[1] ^ nodes[(i + 1) % len(nodes)][0]
        return tn.contractors.greedy(nodes, output_edge_order=[node[2] for node in nodes]).tensor

    def split(m):
        node = tn.Node(m)
        left, right, _ = tn.split_node(node, [node[0], node[1]], [node[2]], max_singular_values=2)
        return (left @ right).tensor

    gradient = jax.jit(jax.grad(lambda tensors: jnp.sum(jnp.sin(ring(tensors)))))

    def step():
        tensors = list(jax.random.normal(jax.random.key(0), (5, 3, 3, 2)) * 0.5)
        dense = jax.random.normal(jax.random.key(1), (4, 4, 3))
        return {"ring": ring(tensors), "split": jax.jit(split)(dense)} | {f"gradient {i}": g for i, g in enumerate(gradient(tensors))}

    return step
