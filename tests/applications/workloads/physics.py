"""Fluids, atmospheres, neurons, stars, gravitational waves, particle physics: jax-cfd, dinosaur, phiflow, jaxley, brainstate,
jaxoplanet, ripplegw, s2fft, jax-galsim, jax-healpy, pyhf, torax, coordax."""
from protocol import workload


@workload(library="jax-cfd", rtol=1e-3, why="30 steps of a smooth flow, float32")
def cfd_turbulence():
    import jax
    import jax.numpy as jnp
    import jax_cfd.base as cfd
    import jax_cfd.spectral as spectral
    grid = cfd.grids.Grid((48, 48), domain=((0, 2 * jnp.pi), (0, 2 * jnp.pi)))
    dt = cfd.equations.stable_time_step(2.0, 0.5, 1e-3, grid)
    advance = cfd.equations.semi_implicit_navier_stokes(1.0, 1e-3, dt, grid)
    finite = jax.jit(cfd.funcutils.trajectory(cfd.funcutils.repeated(advance, 5), 6))
    equation = spectral.equations.NavierStokes2D(1e-3, grid, smooth=True)
    modal = jax.jit(cfd.funcutils.trajectory(cfd.funcutils.repeated(spectral.time_stepping.crank_nicolson_rk4(equation, dt), 5), 6))

    def step():
        velocity = cfd.initial_conditions.filtered_velocity_field(jax.random.PRNGKey(42), grid, 2.0, 4)
        _, path = finite(velocity)
        vorticity = cfd.finite_differences.curl_2d(velocity).data
        _, spectra = modal(jnp.fft.rfftn(vorticity))
        return {"u": path[0].data, "v": path[1].data, "vorticity": jnp.fft.irfftn(spectra, axes=(1, 2))}

    return step


@workload(library="dinosaur", rtol=1e-3, why="20 steps of shallow water on a sphere, float32")
def dinosaur_shallow_water():
    import jax
    import jax.numpy as jnp
    from dinosaur import spherical_harmonic
    grid = spherical_harmonic.Grid.T21()

    @jax.jit
    def transforms(x):
        modal = grid.to_modal(x)
        gradient = grid.cos_lat_grad(modal)
        return modal, grid.to_nodal(modal), grid.to_nodal(grid.laplacian(modal)), jnp.stack([grid.to_nodal(g) for g in gradient])

    @jax.jit
    def diffuse(x):
        modal = grid.to_modal(x)
        return grid.to_nodal(jax.lax.fori_loop(0, 20, lambda i, m: m + 1e-3 * grid.laplacian(m), modal))

    def step():
        lon, sin_lat = grid.nodal_mesh
        x = jnp.cos(3 * lon) * (1 - sin_lat**2) + sin_lat
        modal, back, laplacian, gradient = transforms(x)
        return {"modal": modal, "back": back, "laplacian": laplacian, "gradient": gradient, "diffused": diffuse(x), "integral": grid.integrate(x),
                "derivative": jax.jit(jax.grad(lambda x: jnp.sum(grid.to_nodal(grid.inverse_laplacian(grid.to_modal(x))) ** 2)))(x)}

    return step


@workload(library="phiflow", rtol=1e-3, why="a few steps of smoke, pressure solved to 1e-5, float32")
def phiflow_smoke():
    from phi.jax import flow

    def advance(velocity, smoke):
        inflow = flow.Sphere(x=16, y=6, radius=3)
        smoke = flow.advect.mac_cormack(smoke, velocity, 1.0) + 0.2 * flow.resample(inflow, to=smoke, soft=True)
        velocity = flow.advect.semi_lagrangian(velocity, velocity, 1.0) + flow.resample(smoke * (0, 0.1), to=velocity)
        velocity, _ = flow.fluid.make_incompressible(velocity, (), flow.Solve("CG", 1e-5, 1e-5, x0=None))
        return velocity, smoke

    def step():
        velocity = flow.StaggeredGrid((0, 0), 0, x=32, y=32, bounds=flow.Box(x=32, y=32))
        smoke = flow.CenteredGrid(0, flow.ZERO_GRADIENT, x=32, y=32, bounds=flow.Box(x=32, y=32))
        for _ in range(3):
            velocity, smoke = advance(velocity, smoke)
        return {"smoke": smoke.values.native("x,y"), "velocity": velocity.at_centers().values.native("x,y,vector")}

    return step


@workload(library="jaxley", x64=True, rtol=1e-7, why="implicit Euler of Hodgkin-Huxley cells in double precision")
def jaxley_neurons():
    import jax
    import jax.numpy as jnp
    import jaxley as jx
    from jaxley.channels import HH
    from jaxley.synapses import IonotropicSynapse
    compartment = jx.Compartment()
    branch = jx.Branch(compartment, ncomp=2)
    cells = [jx.Cell(branch, parents=[-1, 0, 0]) for _ in range(2)]
    net = jx.Network(cells)
    net.insert(HH())
    jx.connect(net.cell(0).branch(0).loc(1.0), net.cell(1).branch(0).loc(0.0), IonotropicSynapse())
    net.cell(0).branch(1).loc(0.5).stimulate(jx.step_current(i_delay=0.5, i_dur=2.0, i_amp=0.8, delta_t=0.025, t_max=6.0))
    net.cell([0, 1]).branch(0).loc(0.5).record()
    net.make_trainable("HH_gNa")
    net.make_trainable("IonotropicSynapse_gS")
    parameters = net.get_parameters()
    run = jax.jit(lambda p: jx.integrate(net, params=p, t_max=6.0, delta_t=0.025))
    gradient = jax.jit(jax.grad(lambda p: jnp.mean(jx.integrate(net, params=p, t_max=3.0, delta_t=0.025, checkpoint_lengths=[11, 11]) ** 2)))
    return lambda: {"voltages": run(parameters)} | {f"gradient {i}": g for i, g in enumerate(jax.tree.leaves(gradient(parameters)))}


@workload(library="brainstate", rtol=1e-4, why="a recurrent network over 20 steps and its gradient, float32")
def brainstate_networks():
    import brainstate as bst
    import jax
    import jax.numpy as jnp

    class Net(bst.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = bst.nn.GRUCell(3, 12)
            self.out = bst.nn.Linear(12, 2)

        def update(self, x):
            return self.out(self.cell(x))

    def step():
        bst.random.seed(1)
        net = Net()
        bst.nn.init_all_states(net, batch_size=4)
        weights = net.states(bst.ParamState)
        x = jax.random.normal(jax.random.key(0), (20, 4, 3))

        def loss():
            bst.nn.reset_all_states(net, batch_size=4)
            return jnp.mean(bst.transform.for_loop(net.update, x) ** 2)

        gradients, value = bst.transform.jit(lambda: bst.transform.grad(loss, weights, return_value=True)())()
        bst.nn.reset_all_states(net, batch_size=4)
        outputs = bst.transform.jit(lambda: bst.transform.for_loop(net.update, x))()
        return {"loss": value, "outputs": outputs} | {f"gradient {i}": g for i, g in enumerate(jax.tree.leaves(gradients))}

    return step


@workload(library="jaxoplanet", x64=True, rtol=1e-9, why="closed forms and fixed quadrature in double precision")
def jaxoplanet_light_curves():
    import jax
    import jax.numpy as jnp
    from jaxoplanet.light_curves import limb_dark_light_curve
    from jaxoplanet.orbits import TransitOrbit
    from jaxoplanet.orbits.keplerian import Central, System
    from jaxoplanet.starry import Surface, Ylm
    from jaxoplanet.starry.light_curves import surface_light_curve
    t = jnp.linspace(-0.1, 0.1, 101)

    def transit(p):
        orbit = TransitOrbit(period=3.0, duration=p[0], time_transit=0.0, impact_param=p[1], radius_ratio=p[2])
        return limb_dark_light_curve(orbit, jnp.array([0.3, 0.2]))(t)

    def system(p):
        whole = System(Central(mass=1.0, radius=1.0)).add_body(period=p[0], eccentricity=p[1], omega_peri=0.3, time_transit=0.0, radius=0.1, impact_param=0.2)
        return limb_dark_light_curve(whole, jnp.array([0.1, 0.3]))(t)

    def map_curve(inc):
        surface = Surface(inc=inc, obl=0.2, period=27.0, u=(0.1, 0.1), y=Ylm.from_dense(jnp.array([1.0, 0.2, -0.3, 0.1])))
        return jax.vmap(lambda x: surface_light_curve(surface, r=0.1, x=x, y=0.1, z=10.0, theta=x))(jnp.linspace(-1.2, 1.2, 15))

    def step():
        p = jnp.array([0.12, 0.3, 0.1])
        return {"transit": jax.jit(transit)(p), "slopes": jax.jit(jax.jacrev(transit))(p), "system": jax.jit(system)(jnp.array([2.0, 0.3])),
                "system slopes": jax.jit(jax.jacfwd(system))(jnp.array([2.0, 0.3])), "map": jax.jit(map_curve)(1.2)}

    return step


@workload(library="ripplegw", x64=True, rtol=1e-7, why="closed forms with large phases in double precision")
def ripple_waveforms():
    import jax
    import jax.numpy as jnp
    import ripplegw
    from ripplegw.registry import list_waveforms, waveform
    frequencies = jnp.arange(20.0, 512.0, 1.0)
    base = {"M_c": 28.0, "eta": 0.24, "s1_z": 0.2, "s2_z": -0.1, "d_L": 440.0, "t_c": 0.0, "phase_c": 0.3, "iota": 0.5, "lambda_1": 200.0, "lambda_2": 300.0,
            "s1_x": 0.1, "s1_y": 0.05, "s2_x": -0.1, "s2_y": 0.02, "chi_1": 0.2}
    models = {name: waveform(name) for name in list_waveforms(domain="FD") if name in ("IMRPhenomD", "TaylorF2", "IMRPhenomXAS", "IMRPhenomD_NRTidalv2")}

    values = {name: {k: jnp.asarray(base[k]) for k in model.parameter_names} for name, model in models.items()}
    strain = {name: jax.jit(lambda p, model=model: model(frequencies, p)) for name, model in models.items()}
    slope = {name: jax.jit(jax.grad(lambda p, model=model: jnp.sum(jnp.abs(model(frequencies, p)["p"]) ** 2) * 1e40)) for name, model in models.items()}

    def step():
        results = {}
        for name in models:
            results |= {f"{name} {k}": v for k, v in strain[name](values[name]).items()}
            results |= {f"{name} by {k}": g for k, g in slope[name](values[name]).items() if k in ("M_c", "eta", "d_L")}
        return results

    return step


@workload(library="s2fft", x64=True, rtol=1e-9, why="spherical transforms in double precision")
def s2fft_transforms():
    import jax
    import jax.numpy as jnp
    import numpy as np
    import s2fft
    limit = 12

    def step():
        rng = np.random.default_rng(0)
        flm = s2fft.utils.signal_generator.generate_flm(rng, limit)
        results = {}
        for sampling in ("mw", "dh", "gl"):
            field = s2fft.inverse_jax(jnp.asarray(flm), limit, sampling=sampling)
            results |= {f"{sampling} field": field, f"{sampling} back": s2fft.forward_jax(field, limit, sampling=sampling)}
        results["gradient"] = jax.grad(lambda x: jnp.sum(jnp.abs(s2fft.inverse_jax(x * flm, limit)) ** 2))(jnp.linspace(0.5, 1.5, 2 * limit - 1))
        wigner = s2fft.utils.signal_generator.generate_flmn(rng, 6, 2)
        results["wigner"] = s2fft.wigner.inverse_jax(jnp.asarray(wigner), 6, 2)
        return results

    return step


@workload(library="jax-galsim", x64=True, rtol=1e-6, why="images by FFT in double precision, kept as float32")
def galsim_images():
    import jax
    import jax.numpy as jnp
    import jax_galsim as galsim

    sizes = galsim.GSParams(minimum_fft_size=128, maximum_fft_size=128)

    @jax.jit
    def draw(radius, g1):
        galaxy = galsim.Exponential(flux=1000.0, half_light_radius=radius).shear(g1=g1, g2=0.1)
        whole = galsim.Convolve([galaxy, galsim.Gaussian(flux=1.0, half_light_radius=0.7)]).withGSParams(sizes)
        return whole.drawImage(nx=32, ny=32, scale=0.2, method="auto").array

    @jax.jit
    def draw_real(sigma):
        return galsim.Gaussian(flux=3.0, sigma=sigma).shift(0.2, -0.1).drawImage(nx=16, ny=16, scale=0.3, method="no_pixel").array

    slope = jax.jit(jax.jacfwd(draw_real))
    return lambda: {"image": draw(1.2, 0.05), "real": draw_real(1.0), "slope": slope(1.0)}


@workload(library="jax-healpy", x64=True, rtol=1e-10, why="pixel indices are integers, angles in double precision")
def healpy_pixels():
    import jax
    import jax.numpy as jnp
    import jax_healpy as jhp

    def step():
        pixels = jnp.arange(12 * 16**2)
        theta, phi = jhp.pix2ang(16, pixels)
        keys = jax.random.split(jax.random.key(0))
        t, p = jnp.arccos(jax.random.uniform(keys[0], (500,), jnp.float64, -0.99, 0.99)), jax.random.uniform(keys[1], (500,), jnp.float64, 0.01, 6.2)
        return {"theta": theta, "phi": phi, "vectors": jnp.stack(jhp.pix2vec(16, pixels)), "pixels": jhp.ang2pix(32, t, p), "nested": jhp.ang2pix(32, t, p, nest=True),
                "ring to nest": jhp.ring2nest(16, pixels), "nest to ring": jhp.nest2ring(16, pixels)}

    return step


@workload(library="pyhf", x64=True, rtol=1e-4, why="minima found by SciPy with derivatives from JAX in double precision")
def pyhf_limits():
    import jax.numpy as jnp
    import pyhf
    pyhf.set_backend("jax", pyhf.optimize.scipy_optimizer())
    model = pyhf.simplemodels.uncorrelated_background([12.0, 11.0, 5.0], [50.0, 52.0, 40.0], [3.0, 7.0, 4.0])
    data = [51.0, 48.0, 42.0] + model.config.auxdata

    def step():
        observed, expected = pyhf.infer.hypotest(1.0, data, model, test_stat="qtilde", return_expected_set=True)
        best, value = pyhf.infer.mle.fit(data, model, return_fitted_val=True)
        return {"observed": observed, "expected": jnp.stack(expected), "best": best, "value": value, "log density": model.logpdf(jnp.asarray(model.config.suggested_init()), jnp.asarray(data))}

    return step


@workload(library="coordax", rtol=1e-5, why="labelled arrays over jax.numpy, float32")
def coordax_fields():
    import coordax as cx
    import jax
    import jax.numpy as jnp

    def step():
        x, y = cx.LabeledAxis("x", jnp.linspace(0, 1, 8)), cx.LabeledAxis("y", jnp.arange(5.0))
        field = cx.field(jax.random.normal(jax.random.key(0), (8, 5)), x, y)
        other = cx.field(jnp.arange(5.0), y)
        mean = cx.cmap(jnp.mean)(field.untag("x"))
        smooth = jax.jit(lambda f: cx.cmap(lambda v: jnp.convolve(v, jnp.ones(3) / 3, "same"))(f.untag(x)).tag(x))(field)
        return {"product": (field * other).data, "mean": mean.data, "smooth": smooth.order_as("x", "y").data, "sine": jnp.sin(1.0) + cx.cmap(jnp.sin)(field).data}

    return step


@workload(library="torax", x64=True, rtol=1e-5, why="a short run of tokamak transport in double precision; the solver stops at a tolerance")
def torax_transport():
    import numpy as np
    import torax
    from torax.examples import basic_config
    config = dict(basic_config.CONFIG)
    config["numerics"] = dict(config.get("numerics") or {}, t_final=0.3, fixed_dt=0.1)
    config["time_step_calculator"] = {"calculator_type": "fixed"}

    def step():
        data, _ = torax.run_simulation(torax.ToraxConfig.from_dict(config), progress_bar=False)
        profiles = data["profiles"]
        return {name: np.asarray(profiles[name]) for name in ("T_i", "T_e", "psi", "n_e", "q") if name in profiles}

    return step
