"""Fast transforms over all cells: Walsh-Hadamard, and sums over cells that share a hash value.

Both transforms take the last binary or g-ary digit of a place, sum over it and put the new digit
first. After as many stages as there are digits all are back in their order, and every stage reads
and writes long runs whichever digit it works on.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats

# Odd, and below 2^32: rows are below 2^31, so that products stay below 2^63.
_MULTIPLIERS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F)
_FEWEST_VALUES, _FEWEST_ENTRIES = 5, 1 << 11  # from these on waves are faster


def walsh_hadamard(array: ArrayLike) -> Floats:
    """Σ_x array[x]·(−1)^popcount(x & j) for every j, in K·log2 K additions.

    Args:
        array: Any leading axes; the last has a power of two entries, K.

    Example:
        >>> walsh_hadamard([1.0, 2.0, 3.0, 4.0])
        array([10., -2., -4.,  0.])
    """
    result = np.array(array, dtype=np.float64)
    size = result.shape[-1]
    if size & (size - 1) or not size:
        raise ValueError(f"the last axis must have a power of two entries, got {size}")
    other = np.empty_like(result)
    for _ in range(size.bit_length() - 1):
        even, odd = result[..., 0::2], result[..., 1::2]
        np.add(even, odd, out=other[..., : size // 2])
        np.subtract(even, odd, out=other[..., size // 2 :])
        result, other = other, result
    return result


def digit_products(table: Floats, prime: int, *, sign: int = 1) -> Floats:
    """Σ_x table[v − sign·(a·x), x] for every v and a: sums over cells that share a hash value.

    Cells x and hashes a are numbers of s digits in base g; a·x is the sum of the products of their
    digits modulo g, and v counts modulo g too. Takes s·g² additions of arrays of g^s entries, or
    for large tables Fourier transforms, whose sums are exact but for rounding.

    Args:
        table: Any leading axes, then v with g entries, then x with g^s entries.
        prime: g.
        sign: +1 or −1.

    Example:
        >>> table = np.zeros((2, 4))
        >>> table[0] = [1.0, 2.0, 3.0, 4.0]  # cells 00, 01, 10, 11
        >>> digit_products(table, 2)[1]  # who has hash value 1, for a = 00, 01, 10, 11
        array([0., 6., 7., 5.])
    """
    *lead, _, size = table.shape
    digits = _digits(size, prime)
    if prime >= _FEWEST_VALUES and prime * size >= _FEWEST_ENTRIES:
        return _by_waves(table, prime, digits, sign)
    rest = size // prime
    for _ in range(digits):
        split = table.reshape(*lead, prime, rest, prime)
        by_digit = [np.ascontiguousarray(split[..., x]) for x in range(prime)]
        result = np.zeros((*lead, prime, prime, rest))
        for a in range(prime):
            for x, part in enumerate(by_digit):
                shift = sign * a * x % prime
                result[..., shift:, a, :] += part[..., : prime - shift, :]
                if shift:
                    result[..., :shift, a, :] += part[..., prime - shift :, :]
        table = result.reshape(*lead, prime, size)
    return table


def _by_waves(table: Floats, prime: int, digits: int, sign: int) -> Floats:
    """The same in Fourier space, exact but for rounding: wave w of v turns cell x by w·(a·x)/g.

    So all sums of a wave are one transform over the digits of x, read at w times a.
    """
    from scipy import fft

    waves: NDArray[np.complex128] = fft.rfft(table, axis=-2)
    grid = waves.reshape(*waves.shape[:-1], *(prime,) * digits)
    turned = fft.fftn(grid, axes=tuple(range(grid.ndim - digits, grid.ndim)), overwrite_x=True)
    held = turned.reshape(waves.shape)
    number = np.arange(prime // 2 + 1)[:, None]
    result: Floats = fft.irfft(held[..., number, _multiples(prime, digits, sign)], prime, axis=-2)
    return result


@lru_cache(maxsize=16)
def _multiples(prime: int, digits: int, sign: int) -> NDArray[np.int32]:
    """For wave w and hash a, the number whose digits are those of a times w modulo g."""
    size = prime**digits
    wave = np.arange(prime // 2 + 1)[:, None]
    number = np.zeros((len(wave), size), dtype=np.int32)
    for place in range(digits):
        digit = np.arange(size) // prime**place % prime
        number += (sign * wave * digit % prime * prime**place).astype(np.int32)
    number.setflags(write=False)
    return number


def _digits(size: int, base: int) -> int:
    """How many digits a number below `size`, a power of the base, has."""
    count = 0
    while size > 1:
        size, left = divmod(size, base)
        if left:
            raise ValueError(f"the last axis must have a power of {base} entries")
        count += 1
    return count


def scattered(rank: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of a block's first cell, second and so on: each of 1..order − 1 once, scattered.

    Each step can be undone on numbers below the next power of two, and leaves 0 where it is: high
    bits go into low ones, and an odd multiplier carries low bits into high ones. Where the order is
    no power of two, what comes out too large goes in again until it does not, which can be undone
    as well: all of that lies on one cycle.

    Args:
        rank: Numbers from 1 to order − 1, or from 0 where row 0 is somebody's.
        order: Up to 2^31, one for each number or one for all.

    Example:
        >>> scattered(np.arange(1, 8), np.full(7, 8)).tolist()
        [1, 4, 3, 6, 2, 7, 5]
        >>> scattered(np.arange(1, 7), np.array(7)).tolist()
        [1, 4, 3, 6, 2, 5]
    """
    last = order - 1
    for shift in (1, 2, 4, 8, 16):
        last = last | last >> shift  # the last number below the next power of two
    half = (np.bitwise_count(last).astype(np.int64) + 1) // 2
    row = np.asarray(rank)
    for multiplier in _MULTIPLIERS:
        row = ((row ^ row >> half) * multiplier) & last
    scrambled: NDArray[np.int64] = np.asarray(row ^ row >> half)
    outside = scrambled >= order
    if np.any(outside):
        orders = np.broadcast_to(order, scrambled.shape)
        scrambled[outside] = scattered(scrambled[outside], orders[outside])
    return scrambled
