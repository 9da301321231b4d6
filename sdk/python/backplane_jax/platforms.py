"""Registers the platform names of our accelerators with JAX, as it knows those of TPUs and GPUs.

JAX decides by the platform's name whether it donates, how it calls back into Python, which linear algebra it lowers, and what
it caches. An unknown name only has the rules for all platforms. `adopt` adds the others for a name:

- donation, and the persistent compilation cache;
- callbacks into Python as on a TPU: each operand is sent to the host, and each result is received. (The other way, a custom
  call, is open only to the names that jaxlib knows: it adds the callables to the execution for those alone.)
- JAX's CPU rule for each operation without a rule for all platforms (eigenvalues, printing, sparse products ...), and for
  factorizations whose common rule calls the maker's compiler: these run in LAPACK, on the host;
- transfers to and from host memory inside a program;
- JAX's own CPU client, which callbacks and libraries need, as on the host of a TPU or GPU;
- on `tiledtpu`, Pallas kernels, which JAX's TPU interpreter runs, because their code is for another compiler.

Everything depends on the name, so other platforms in the same process do not change. JAX has no public interface for most of
this. The steps are independent of each other: if a later JAX breaks one, there is a warning and only that feature is missing.
"""
import functools
import logging

TILED_TPU = "tiledtpu"
HIP = "hip"

logger = logging.getLogger("backplane_jax")

# For these primitives, JAX's rule for all platforms calls targets that only a TPU's own compiler knows, or emits thousands of
# operations.
FACTORIZATIONS = frozenset({"geqrf", "householder_product", "lu", "ormqr", "svd", "tridiagonal_solve"})
# These primitives are lowered as on a TPU, so that the operation states the memory of its result.
LIKE_A_TPU = frozenset({"device_put"})

_adopted = set()


def adopt(platform):
    """Makes JAX treat `platform` as one that it knows, if it is one of ours. Does not affect other platforms. A second call for a
    platform does nothing."""
    if platform not in (TILED_TPU, HIP) or platform in _adopted:
        return
    _adopted.add(platform)
    for what, step in (("donation", _donate), ("lowering rules", _add_rules), ("callbacks into Python", _add_callbacks),
                       ("the compilation cache", _add_cache), ("JAX's CPU client", _keep_cpu),
                       ("kernels in Pallas", _interpret_kernels)):
        try:
            step(platform)
        except Exception as e:
            logger.warning("%s: not available on %s: %s", what, platform, e)


def _donate(platform):
    from jax._src.interpreters import mlir
    if platform not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(platform)


class Rules(dict):
    """A platform's lowering rules by primitive: those registered for it, and those that it takes over from `cpu` and `tpu`.

    The rules to take over are looked up at each use, because modules of JAX register their rules when they are imported.
    """

    def __init__(self, own, common, cpu, tpu):
        super().__init__(own)
        self._common, self._cpu, self._tpu = common, cpu, tpu

    def _taken_over(self, primitive):
        if primitive.name in LIKE_A_TPU and primitive in self._tpu:
            return self._tpu[primitive]
        if primitive in self._cpu and (primitive not in self._common or primitive.name in FACTORIZATIONS):
            return self._cpu[primitive]
        return None

    def __contains__(self, primitive):
        return super().__contains__(primitive) or self._taken_over(primitive) is not None

    def __missing__(self, primitive):
        rule = self._taken_over(primitive)
        if rule is None:
            raise KeyError(primitive)
        return rule


def _add_rules(platform):
    from jax._src.interpreters import mlir
    by_platform = mlir._platform_specific_lowerings
    by_platform[platform] = Rules(by_platform[platform], mlir._lowerings, by_platform["cpu"], by_platform["tpu"])


class _AsTpu:
    """Wraps the context of a module so that its platform is `tpu`. All other attributes are those of the wrapped context."""
    platforms = ("tpu",)

    def __init__(self, context):
        self._context = context

    def __getattr__(self, name):
        return getattr(self._context, name)


def _add_callbacks(platform):
    from jax._src import callback
    plain = callback.emit_python_callback

    @functools.wraps(plain)
    def emit_python_callback(ctx, *args, **kwargs):
        if tuple(ctx.module_context.platforms) == (platform,):
            ctx = ctx.replace(module_context=_AsTpu(ctx.module_context))
        return plain(ctx, *args, **kwargs)

    from jax.interpreters import mlir as public  # some rules take the function from here
    callback.emit_python_callback = public.emit_python_callback = emit_python_callback


class _CachedAsTpu:
    """Stands for a client in JAX's check whether the platform may use the compilation cache: its platform is on JAX's list."""
    platform = "tpu"

    def __init__(self, client):
        self.supports_executable_serialization = getattr(client, "supports_executable_serialization", True)


def _add_cache(platform):
    """Enables the compilation cache. Its entries are not mixed up with those of other platforms or machines, because the key contains the
    platform's name and its version, which identifies the machine."""
    from jax._src import compilation_cache
    plain = compilation_cache.is_cache_used

    @functools.wraps(plain)
    def is_cache_used(backend):
        return plain(_CachedAsTpu(backend) if backend.platform == platform else backend)

    compilation_cache.is_cache_used = is_cache_used


def _named():
    """Returns the platforms that the user names in JAX_PLATFORMS; the first one is the default."""
    import jax
    return (jax.config.jax_platforms or "").split(",")


def _keep_cpu(platform):
    """If the user names our platform but not `cpu`, appends `cpu` to the list. JAX's CPU client is then available, but runs only
    programs that request it."""
    import jax
    if platform in _named() and "cpu" not in _named():
        jax.config.update("jax_platforms", ",".join([*_named(), "cpu"]))


def _interpret_kernels(platform):
    """Makes Pallas interpret TPU kernels if the emulator is the default platform. The setting also applies to programs on JAX's CPU client,
    where kernels can only be interpreted anyway."""
    from jax._src import config
    mode = config.pallas_tpu_interpret_mode_context_manager
    if platform == TILED_TPU and _named()[0] == platform and mode.value is None:
        from jax._src.pallas.mosaic.interpret.params import InterpretParams
        mode.set_global(InterpretParams())
