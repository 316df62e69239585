"""JAX and NumPyro on one thread and in float64; whoever needs them takes them from here."""

import os

# One thread for XLA; this only works before jax is loaded for the first time.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

try:
    import jax
    import jax.numpy as jnp
    from numpyro import diagnostics
    from numpyro.infer.hmc import hmc
except ImportError as error:
    raise ImportError('This needs NumPyro and JAX: pip install "skpmd[bench]"') from error

jax.config.update("jax_enable_x64", True)

__all__ = ["diagnostics", "hmc", "jax", "jnp"]
