"""Ranges of columns of numbers, estimated from two vectors of noisy counts.

A column is counted in public cells: 0, and for each sign the octaves (2^(k - 1), 2^k], so that 1
and other powers of two are ends of cells; far from 1 a cell has 32 octaves, up to the end of a
float's useful range.

All else follows from the noisy counts. A range runs from the first to the last cell that stands out
of the noise; an end that is within a quarter of the other becomes 0. A second release splits what
the first left wide: large cells into octaves, and ranges that do not reach 0 (years, coordinates)
into equal parts. So are two neighbouring octaves that stand out, of pressures around 1,024, or of
years beside an octave of noise, unless what the parts show is clearly less. Where nothing is wide,
the second release measures what the first did.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtri

from skdpdyn.core import rules
from skdpdyn.core.sealed import SealedCells
from skdpdyn.core.spending import Share, Spending
from skdpdyn.data.ranges import LARGEST_POWER
from skdpdyn.kernels.asked import N_OCTAVES, PARTS

RANGES = "ranges of columns"
FINER_RANGES = "finer ranges of columns"
_POWERS = -40, 64  # between these powers of two a cell is an octave
_FALSE = 1e-4  # probability that a range is far too wide, where nothing can be learnt
_FALSE_OF_TARGETS = 1e-5
_WIDTHS = 2, 4  # cells that are looked at together, where none stands out by itself
_BESIDE = 2.0  # deviations of the noise from which on a cell beside those seen is one, too
_KEPT = 0.98  # part of the numbers of two octaves that the parts seen hold, or the range is from 0
_HIDDEN = 0.02  # part of the records, measured, from which on an octave beside those seen is one


def shares_of_ranges(strength: float, n_columns: int) -> dict[str, Share]:
    """Return the shares of mu^2 for the ranges of columns."""
    size = rules.ranges_share(strength, n_columns)
    return {
        RANGES: Share(size * (1 - rules.FINER_PART)),
        FINER_RANGES: Share(size * rules.FINER_PART),
    }


def bought_ranges(
    octaves: SealedCells,
    parts: Callable[[np.ndarray, np.ndarray], SealedCells],
    spending: Spending,
    n_records: int,
    dtype: str = "float64",
    names: tuple[str, str] = (RANGES, FINER_RANGES),
    *,
    of_targets: bool = False,
) -> np.ndarray:
    """Return the ranges of columns, of which ``spending`` buys the counts.

    Parameters
    ----------
    octaves : SealedCells of shape (n_columns, N_OCTAVES)
        Counts of each column, see `skdpdyn.data.base.Rows.octave_counts`.
    parts : callable
        Of ends of shape (n_columns, 2), and which columns are split, the counts of each column's
        `PARTS` equal parts, see `skdpdyn.data.base.Rows.part_counts`.
    spending : Spending
        Has the shares of `shares_of_ranges`.
    n_records : int
        Number of records, or of persons.
    dtype : str, default="float64"
        Precision of the columns.
    names : tuple of str, default=("ranges of columns", "finer ranges of columns")
        Names of the two shares that pay.
    of_targets : bool, default=False
        Whether few numbers that are cut off matter: all octaves beside those seen count that are
        probably more than noise, and two that do not reach 0 are not split as one is. Noise is seen
        as a number far away in fewer fits.

    Returns
    -------
    ndarray of shape (n_columns, 2)
        Targets of which 0 alone is seen have NaN; such columns have [-1, 1], which holds flags.
    """
    ranges = _found(octaves, parts, spending, n_records, LARGEST_POWER[dtype], names, of_targets)
    return ranges if of_targets else np.where(np.isnan(ranges), [-1.0, 1.0], ranges)


def widened(pair: Sequence[float], room: float) -> tuple[float, float]:
    """Return a range that is that many times as wide; an end at 0 stays.

    Examples
    --------
    >>> from skdpdyn.training.ranges import widened
    >>> widened((0.0, 16.0), 8.0), widened((90.0, 110.0), 2.0)
    ((0.0, 128.0), (80.0, 120.0))
    """
    low, high = pair
    more = (high - low) * (room - 1) / (1 if 0 in (low, high) else 2)
    largest = 2.0 ** LARGEST_POWER["float64"]
    low = max(low - more, -largest) if low else low
    return low, min(high + more, largest) if high else high


def seen(pair: Sequence[float], room: float) -> tuple[float, float]:
    """Return the range that `widened` has made so many times as wide.

    Examples
    --------
    >>> from skdpdyn.training.ranges import seen
    >>> seen((0.0, 128.0), 8.0), seen((80.0, 120.0), 2.0)
    ((0.0, 16.0), (90.0, 110.0))
    """
    low, high = pair
    if 0 in (low, high):
        return low / room, high / room
    middle = (low + high) / 2
    half = (high - low) / (2 * room)
    return middle - half, middle + half


def _found(octaves, parts, spending, n_records, power, names, of_targets):
    """Buy both releases, and return the ranges that they show; NaN for 0 alone."""
    false = _FALSE_OF_TARGETS if of_targets else _FALSE
    starts = _starts(power)
    ordered = _in_order(power)
    cells = np.where(ordered < 0, -1, np.searchsorted(starts, ordered, "right") - 1)
    of_cells = octaves.merged(cells, starts.size - 1)
    counts, std = spending.release(names[0], of_cells)
    noisy = counts.reshape(octaves.n_columns, -1) / std
    is_small = np.diff(starts) == 1
    # of targets a few large ones have much of the sum
    hidden = 0.0 if of_targets else _HIDDEN * n_records / std
    found = _Octaves(_ends_above_noise(noisy, false, is_small, hidden), power)
    total = np.take_along_axis(noisy, found.of_octaves, axis=1).sum(axis=1)
    total *= spending.noise_multiplier(names[0]) / spending.noise_multiplier(names[1])
    pairs = found.pairs & (not of_targets) & (total >= 2 * PARTS)
    narrow = found.narrow | pairs
    if np.any(narrow | found.has_large):
        finer = _finer(found, octaves, ordered, parts, narrow)
        ranges, kept = _split(found, finer, spending, names[1], false, narrow)
        total *= math.sqrt(octaves.n_columns / np.sum(narrow | found.has_large))
        cuts = pairs & (kept < _KEPT * total)
        return _with_rare_flags(np.where(cuts[:, None], found.from_zero, ranges))
    noisy, less = _measured_again(noisy, of_cells, spending, names)
    ends = _ends_above_noise(noisy, false, is_small, hidden * less)
    return _Octaves(ends, power).from_zero


def _measured_again(noisy, of_cells, spending, names):
    """Return counts from both releases, in deviations, and how much less noise they have."""
    counts, std = spending.release(names[1], of_cells)
    again = counts.reshape(noisy.shape) / std
    first, second = (math.sqrt(spending.shares[name].size) for name in names)
    both = math.hypot(first, second)
    return (first * noisy + second * again) / both, both / first


class _Octaves:
    """The first and the last cell of each column that the first release shows, and their ranges.

    ``whole`` runs from the beginning of the first to the end of the last, ``from_zero`` is what
    `_from_zero` makes of it.
    """

    def __init__(self, of_octaves, power):
        starts = _starts(power)
        self.of_octaves = of_octaves
        self.zero = 2.0**-power
        self.ends = _ends(power)
        self.first = starts[of_octaves]
        self.sizes = np.diff(starts)[of_octaves]  # of both ends' cells, in octaves
        self.whole = self.ends[self.first + [0, 1] * self.sizes]
        self.from_zero = _from_zero(self.whole, self.zero)
        self.large = self.sizes > 1
        self.has_large = self.large.any(axis=1)
        self.alike = of_octaves[:, 0] == of_octaves[:, 1]
        self.narrow = ~self.has_large & _beyond_zero(self.from_zero)
        neighbours = of_octaves[:, 1] == of_octaves[:, 0] + 1
        self.pairs = ~self.has_large & _beyond_zero(self.whole) & neighbours

    def ranges(self, narrow):
        """Return the ranges of columns, of narrow ones as they are seen."""
        return np.where(narrow[:, None], self.whole, self.from_zero)


def _beyond_zero(ranges):
    """Return whether ranges do not reach 0."""
    return (ranges[:, 0] > 0) | (ranges[:, 1] < 0)


def _finer(found, octaves, ordered, parts, narrow):
    """Return counts of two times `PARTS` cells of each column.

    They are the octaves of the first and the last cell, if these are large, or first the parts of a
    narrow range.
    """
    places = np.full((octaves.n_columns, ordered.size), -1)
    once = ~(found.alike[:, None] & [False, True])
    for column, end in np.argwhere(found.large & once):
        inside = ordered - found.first[column, end]
        is_in = (ordered >= 0) & (inside >= 0) & (inside < found.sizes[column, end])
        places[column, is_in] = end * PARTS + inside[is_in]
    finer = octaves.merged(places, 2 * PARTS)
    if not np.any(narrow):
        return finer
    of_narrow = parts(found.ranges(narrow), narrow)
    return finer.with_columns(narrow, of_narrow.merged(np.arange(PARTS), 2 * PARTS))


def _split(found, finer, spending, name, false, narrow):
    """Buy finer counts of large cells and of narrow columns; return ranges and their counts.

    The count of a range is the noisy count of the parts that are seen, in deviations of the noise,
    and a deviation more.
    """
    split = narrow | found.has_large
    ranges = found.ranges(narrow)
    n_columns = len(ranges)
    counts, std = spending.release(name, finer.columns(split))
    noisy = np.zeros((n_columns, 2, PARTS))
    noisy[split] = counts.reshape(-1, 2, PARTS) / std
    of_parts = np.zeros((n_columns, 2, 2), np.int64)  # of each end, the first and last part
    of_parts[split] = _ends_above_noise(noisy[split].reshape(-1, PARTS), false).reshape(-1, 2, 2)
    of_parts[found.alike, 1] = of_parts[found.alike, 0]
    last = found.sizes - 1
    of_ends = np.where(found.large, np.minimum(of_parts[:, [0, 1], [0, 1]], last), [0, 0])
    of_large = _from_zero(found.ends[found.first + of_ends + [0, 1]], found.zero)
    width = (ranges[:, 1] - ranges[:, 0]) / PARTS
    of_narrow = ranges[:, :1] + (of_parts[:, 0] + [0, 1]) * width[:, None]
    places = np.arange(PARTS)
    seen = (places >= of_parts[:, 0, :1]) & (places <= of_parts[:, 0, 1:])
    kept = np.sum(noisy[:, 0], axis=1, where=seen) + np.sqrt(seen.sum(axis=1))
    return np.where(narrow[:, None], of_narrow, of_large), kept


def _with_rare_flags(ranges):
    """Return ranges with 0 in those in which 1, or -1, alone is seen: flags that are rarely 0."""
    of_one = 1 - 0.5 / PARTS  # the last part of (1/2, 1]
    low, high = ranges.T
    low = np.where((low >= of_one) & (high == 1), 0.0, low)
    high = np.where((high <= -of_one) & (low == -1), 0.0, high)
    return np.stack([low, high], axis=-1)


def _in_order(power):
    """Return the place of each octave among those from the least to the largest values.

    The place of what is no number is -1. What is beyond the useful range counts as its end, what is
    too near to 0 as 0.
    """
    sign, exponent = np.divmod(np.arange(N_OCTAVES), N_OCTAVES // 2)
    size = np.clip(exponent - (1023 - power), -1, 2 * power - 1)  # -1: 0
    places = 2 * power + np.where(sign == 0, 1 + size, -1 - size)
    places[size < 0] = 2 * power
    places[exponent == N_OCTAVES // 2 - 1] = -1
    return places


def _ends(power):
    """Return where octaves end, from the least to the largest values."""
    sizes = 2.0 ** np.arange(-power, power + 1)
    return np.concatenate([-sizes[::-1], sizes])


def _starts(power):
    """Return which octaves are the first of the cells of the first release, and where all end."""
    least, largest = _POWERS
    powers = np.arange(least, largest + 1)
    below = np.arange(least - PARTS, -power, -PARTS)[::-1]
    beyond = np.arange(largest + PARTS, power, PARTS)
    places = np.concatenate([[-power], below, powers, beyond, [power]]) + power
    return np.concatenate([2 * power - places[::-1], 2 * power + 1 + places])


def _ends_above_noise(noisy, false, is_small=None, hidden=0.0):
    """Return the first and the last cell of each row that stand out of noise of deviation 1.

    Cells beside them are added while they are probably more than noise, or, where records are many,
    surely: what is cut off then are few records. Then one octave more is
    added if its count is above ``hidden``: a range that is twice as wide costs less than one that
    cuts off many numbers. ``is_small`` says which cells are single octaves; if no cell stands out,
    cells of both signs are counted together, and if still none does, the range is [-1, 1]. With
    None the cells are parts of one range, and the strongest is taken if none stands out.
    """
    least = -ndtri(false / noisy.size)
    beside = float(np.clip(hidden, _BESIDE, -ndtri(_FALSE)))
    ends = np.zeros((len(noisy), 2), np.int64)
    for row, cells in enumerate(noisy):
        pair = _standing_out(cells, least)
        if pair is None:
            strongest = (int(np.argmax(cells)),) * 2
            pair = strongest if is_small is None else _folded(cells, least, is_small)
        first, last = _widened(*pair, (cells > beside) & (is_small is None or is_small))
        if is_small is not None and first < last:
            doubt = is_small & (cells > hidden)
            zero = cells.size // 2
            first -= int(0 < first < zero and doubt[first - 1])
            last += int(zero < last < cells.size - 1 and doubt[last + 1])
        ends[row] = first, last
    return ends


def _widened(first, last, beside):
    """Return the first and the last cell of a range with those beside it that belong to it."""
    while first > 0 and beside[first - 1]:
        first -= 1
    while last < beside.size - 1 and beside[last + 1]:
        last += 1
    return first, last


def _standing_out(cells, least):
    """Return the first and the last cell that stand out, alone or with neighbours, or None.

    Of those that do not stand out alone, the two, or four, that do so most are taken: where most
    numbers are 0, the others spread over octaves.
    """
    shown = [*np.flatnonzero(cells > least)]
    others = np.where(cells > least, 0.0, cells)
    for width in _WIDTHS:
        sums = np.convolve(others, np.ones(width), "valid")
        place = int(np.argmax(sums))
        if sums[place] > least * math.sqrt(width):
            shown += [place, place + width - 1]
            break
    return (int(min(shown)), int(max(shown))) if shown else None


def _folded(cells, least, is_small):
    """Return what `_standing_out` does of sizes, with the signs that are likely to occur.

    Where nothing stands out, return the octaves of [-1, 1].
    """
    zero = cells.size // 2
    positive = cells[zero + 1 :]
    negative = cells[:zero][::-1]
    pair = _standing_out((positive + negative) / math.sqrt(2), least)
    if pair is None:  # too few records
        to_one = int(np.argmax(is_small[zero + 1 :])) - _POWERS[0]
        return zero - to_one, zero + to_one
    first, last = pair
    likely = _BESIDE * math.sqrt(last - first + 1)
    has_positive, has_negative = (
        float(np.sum(sizes[first : last + 1])) > likely for sizes in (positive, negative)
    )
    start = zero - 1 - last if has_negative else zero + 1 + first
    return start, zero + 1 + last if has_positive else zero - 1 - first


def _from_zero(ranges, zero):
    """Return ranges of which an end within a quarter of the other is 0; up to ``zero`` all is 0.

    Where 0 alone is seen, other numbers are too few to be: NaN.
    """
    low, high = ranges.T
    alone = (low >= -zero) & (high <= zero)
    low = np.where((low >= -zero) & (low <= high / 4), 0.0, low)
    high = np.where((high <= zero) & (high >= low / 4), 0.0, high)
    return np.where(alone[:, None], np.nan, np.stack([low, high], axis=-1))
