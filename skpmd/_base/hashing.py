"""Random-looking bits that depend on nothing but the numbers hashed (splitmix64)."""

import numpy as np

INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix_bits(z):
    """Mix the bits of an array of uint64: the finaliser of splitmix64, a bijection."""
    z = (z ^ (z >> np.uint64(30))) * _MULTIPLIERS[0]
    z = (z ^ (z >> np.uint64(27))) * _MULTIPLIERS[1]
    return z ^ (z >> np.uint64(31))


def hashed_uniforms(X):
    """Numbers in (0, 1) that the bytes of each row determine."""
    state = np.zeros(len(X), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in X.T:
            bits = (column + 0.0).view(np.uint64)  # -0.0 and 0.0 are equal
            state = mix_bits(state ^ bits) + INCREMENT
    return (mix_bits(state) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
