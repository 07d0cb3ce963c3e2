"""Samplers of batches: who is in a step, drawn from the same generator as the noise."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from skdpdyn.kernels.later import entry, generator_type, inner, readonly, types, writable

_UNIFORM = 2.0**53  # a generator's uniform numbers are the multiples of its inverse
_DIGITS = 20  # of 53 bits
_MOST_BITS = 52  # of the number of rows in a block


@inner
def _number_in_block(generator, law):
    """Draw the number of candidates in a block, from the digits of its distribution function.

    The first number that exceeds a uniform one is looked for.
    """
    digit = generator.random() * _UNIFORM
    c = 0
    while c < law.size and digit > law[c]:
        c += _DIGITS
    if c < law.size and digit == law[c]:
        return _number_by_all_digits(generator, law, digit, c)
    return c // _DIGITS


@inner
def _number_by_all_digits(generator, law, first, c):
    """Go on where the first digit does not decide: nearly never."""
    digits = np.empty(_DIGITS)
    digits[0] = first
    for i in range(1, _DIGITS):
        digits[i] = generator.random() * _UNIFORM
    while c < law.size:
        i = 0
        while i + 1 < _DIGITS and digits[i] == law[c + i]:
            i += 1
        if digits[i] < law[c + i]:
            break
        c += _DIGITS
    return c // _DIGITS


def draw_poisson(generator, step, numbers, index, batch):
    """Draw each row with exactly the same probability, independently; see `PoissonBatches`."""
    block = np.int64(numbers[0])
    threshold = numbers[1]
    law = numbers[2:]
    unit = block / _UNIFORM
    places = np.empty(law.size // _DIGITS + 1, np.int64)
    size = 0
    for start in range(0, index.size, block):
        before = size
        for c in range(_number_in_block(generator, law)):
            i = -1
            fraction = 0.0
            while i < c:  # another place than those before
                number = generator.random() * block
                places[c] = np.int64(number)
                i = 0
                fraction = number - places[c]
                while i < c and places[i] != places[c]:
                    i += 1
            # the rest is the beginning of another uniform number, whose end nearly never counts
            stays = fraction + unit <= threshold
            if not stays and fraction < threshold:
                stays = generator.random() * unit < threshold - fraction
            row = start + places[c]
            if stays and row < index.size:
                j = size  # rows of a block are put in order
                while j > before and index[j - 1] > np.uintp(row):
                    index[j] = index[j - 1]
                    j -= 1
                index[j] = np.uintp(row)
                size += 1
    batch[0] = 0
    batch[1] = size


def draw_fresh(generator, step, numbers, index, batch):
    """Draw a uniform set of rows: the start of a shuffle of any permutation."""
    size = np.int64(numbers[0])
    for i in range(size):
        left = index.size - i
        number = np.int64(generator.random() * _UNIFORM)
        # reject, so that all remainders are equally likely
        while number >= np.int64(_UNIFORM) - np.int64(_UNIFORM) % left:
            number = np.int64(generator.random() * _UNIFORM)
        j = i + number % left
        index[i], index[j] = index[j], index[i]
    batch[0] = 0
    batch[1] = size


@cache
def compiled_draw(draw):
    """Compile a sampler."""
    index = writable(np.uintp)
    numbers = types.int64, readonly(np.float64), index, writable(np.int64)
    return entry(types.void(generator_type(), *numbers))(draw)


def _drawn(draw, numbers, index, generator):
    """Return who is in a step, by its number, as the sampler draws it."""
    draw = compiled_draw(draw)
    batch = np.empty(2, np.int64)

    def chosen(step):
        draw(generator, step, numbers, index, batch)
        return index[batch[0] : batch[1]].view(np.intp)

    return chosen


@cache
def law_of_block(k):
    """Return the distribution function of the number of candidates among 2^k, in digits.

    Numbers are Binomial(2^k, 2^-k). Each value of the function has 20 digits of 53 bits, the most
    significant first. It is rounded down, by at most 2^-1060; a last value of 1 is left out.
    """
    bits = 53 * _DIGITS
    more = 128  # for what is rounded away on the way
    unit = 1 << (bits + more)
    block = 1 << k
    part = unit - (unit >> k)  # (1 - 2^-k) ** (2^k), by squares
    for _ in range(k):
        part = part * part >> (bits + more)
    if k == 0:  # one candidate
        return np.zeros(_DIGITS)
    law = []
    total = 0
    for number in range(block):
        total += part
        if total >> more >= (1 << bits) - 1:
            break
        law += [
            float((total >> (more + bits - 53 * (i + 1))) & ((1 << 53) - 1)) for i in range(_DIGITS)
        ]
        part = part * (block - number) // ((number + 1) * (block - 1))
    return np.array(law)


@dataclass(frozen=True)
class PoissonBatches:
    """Poisson batches: each row independently with probability ``sampling_probability``.

    The probability is exact. It is 2^-k times a number above 1/2 that a uniform number of 53 bits
    is below with exactly that probability. Candidates, each row with probability 2^-k, are drawn in
    blocks of 2^k rows: their number by its distribution function, whose digits are known up to
    2^-1060, and then as many different places. So a batch takes a few uniform
    numbers for each of its rows. (A probability below 2^-52 is rounded down to a multiple of
    2^-105.) Of a batch of more than ``largest_batch``, so many rows are drawn uniformly.
    """

    sampling_probability: float
    largest_batch: int | None = None

    @property
    def numbers(self):
        """Return the state of the sampler: block, probability of a candidate, and their law."""
        k = min(max(0, -math.frexp(self.sampling_probability)[1]), _MOST_BITS)
        threshold = math.floor(math.ldexp(self.sampling_probability, k) * _UNIFORM) / _UNIFORM
        return np.concatenate([[2.0**k, threshold], law_of_block(k)])

    def drawn(self, n_samples, generator) -> Callable[[int], np.ndarray]:
        """Return who is in a step, as a function of its number; valid until the next one."""
        drawn = _drawn(draw_poisson, self.numbers, np.empty(n_samples, np.uintp), generator)
        most = n_samples if self.largest_batch is None else self.largest_batch

        def chosen(step):
            batch = drawn(step)
            if batch.size > most:
                batch = np.sort(generator.permutation(batch)[:most])
            return batch

        return chosen


@dataclass(frozen=True)
class FreshBatches:
    """Fresh batches: a uniform set of ``size`` rows in every step, independent of other steps."""

    size: int

    def drawn(self, n_samples, generator) -> Callable[[int], np.ndarray]:
        """Return who is in a step, as a function of its number; valid until the next one."""
        index = np.arange(n_samples, dtype=np.uintp)
        return _drawn(draw_fresh, np.array([float(self.size)]), index, generator)


@dataclass(frozen=True, eq=False)
class FixedBatches:
    """Take ``size`` rows at a time in the same order in every epoch; the last batch may be short.

    ``permutation`` is the order of the rows; None: as they are.
    """

    size: int
    permutation: np.ndarray | None = None

    def drawn(self, n_samples, generator) -> Callable[[int], np.ndarray]:
        """Return who is in a step, as a function of its number."""
        index = np.arange(n_samples) if self.permutation is None else self.permutation
        starts = range(0, n_samples, self.size)

        def chosen(step):
            first = starts[step % len(starts)]
            return index[first : first + self.size]

        return chosen


Batches = PoissonBatches | FreshBatches | FixedBatches
"""Any of the samplers."""
