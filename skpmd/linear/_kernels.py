"""Compiled exponentials and logarithms of short vectors, which kernels of this package call.

A kernel that was compiled with them does not see that they change: empty ``__pycache__`` then.
"""

import numpy as np
from numba import njit

LANES = 128  # Rows that are handled side by side, so that their vectors stay in the first cache.
AT_ONCE = 64  # Particles whose probabilities are added up before the sum goes on in float64.
# Wrappers for calls from C take time to compile.
KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
# Constants of e^x in single precision: literals would make the arithmetic double.
_MIN_EXPONENT, _ROUNDER, _LOG2E = np.float32(-87.0), np.float32(12582912.0), np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_E6, _E5, _E4 = np.float32(1.9875691e-4), np.float32(1.3981999e-3), np.float32(8.3334519e-3)
_E3, _E2, _E1 = np.float32(4.1665795e-2), np.float32(1.6666665e-1), np.float32(0.5)
_ONE, _BIAS, _FRACTION = np.float32(1.0), np.int32(127), np.int32(23)


@njit(**KERNEL)
def exponential(x, shifted, length):
    """e^x of up to 128 numbers x <= 0 in place; ``shifted`` is scratch space of the same length.

    The polynomial is written out over a short vector, which the compiler turns into SIMD code: a
    call to libm for each element is six times slower. It is exact to a few units in the last place.
    """
    bits = shifted.view(np.int64)
    magic = 6755399441055744.0  # Adding 1.5 * 2^52 rounds to an integer in the low bits.
    for j in range(length):
        shifted[j] = max(x[j], -700.0) * 1.4426950408889634 + magic
    for j in range(length):
        # e^x = 2^k e^r with |r| <= log(2) / 2, and e^r is its Taylor series to r^12 / 12!.
        bounded = max(x[j], -700.0)
        k = shifted[j] - magic
        r = bounded - k * 0.693147180369123816490 - k * 1.90821492927058770002e-10
        p = 1 / 39916800.0 + r * (1 / 479001600.0)
        p = 1 / 3628800.0 + r * p
        p = 1 / 362880.0 + r * p
        p = 1 / 40320.0 + r * p
        p = 1 / 5040.0 + r * p
        p = 1 / 720.0 + r * p
        p = 1 / 120.0 + r * p
        p = 1 / 24.0 + r * p
        p = 1 / 6.0 + r * p
        p = 0.5 + r * p
        p = 1.0 + r * p
        x[j] = 1.0 + r * p
    for j in range(length):
        bits[j] = (bits[j] + 1023) << 52  # This builds 2^k in the exponent field.
    for j in range(length):
        x[j] *= shifted[j]


@njit(**KERNEL)
def logarithm(x, exponent, power, length):
    """Logarithm of up to 128 positive numbers x = 2^k f in place, f from 2^(-1/2) to 2^(1/2).

    Arrays that callers make once leave it a quarter of the time that arrays of its own do.
    """
    bits = power.view(np.int64)
    for j in range(length):
        power[j] = x[j] * 1.4142135623730951
    for j in range(length):
        bits[j] = (bits[j] >> 52) - 1023
    for j in range(length):
        exponent[j] = bits[j]
    for j in range(length):
        bits[j] = (1023 - bits[j]) << 52  # This builds 2^-k.
    for j in range(length):
        # log f = 2 atanh(q) with q = (f - 1) / (f + 1) and |q| < 0.172.
        f = x[j] * power[j]
        q = (f - 1.0) / (f + 1.0)
        t = q * q
        p = 1 / 19.0 + t * (1 / 21.0)
        p = 1 / 17.0 + t * p
        p = 1 / 15.0 + t * p
        p = 1 / 13.0 + t * p
        p = 1 / 11.0 + t * p
        p = 1 / 9.0 + t * p
        p = 1 / 7.0 + t * p
        p = 1 / 5.0 + t * p
        p = 1 / 3.0 + t * p
        x[j] = exponent[j] * 0.6931471805599453 + 2.0 * q * (1.0 + t * p)


@njit(**KERNEL)
def single_exponential(x, shifted, length):
    """e^x of up to 128 float32 numbers x <= 0 in place, to 1e-7; as `exponential`."""
    bits = shifted.view(np.int32)
    for j in range(length):
        shifted[j] = max(x[j], _MIN_EXPONENT) * _LOG2E + _ROUNDER
    for j in range(length):
        k = shifted[j] - _ROUNDER
        r = max(x[j], _MIN_EXPONENT) - k * _LN2_HIGH - k * _LN2_LOW
        p = _E5 + r * _E6
        p = _E4 + r * p
        p = _E3 + r * p
        p = _E2 + r * p
        p = _E1 + r * p
        x[j] = _ONE + r + r * r * p
    for j in range(length):
        bits[j] = (bits[j] + _BIAS) << _FRACTION
    for j in range(length):
        x[j] *= shifted[j]
