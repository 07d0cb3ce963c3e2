"""What is public of targets, bought: labels of classes, and bounds of numbers.

Plans rest on them, so that they are bought first.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import ndtri

from skdpdyn.core import rules
from skdpdyn.core.spending import Share
from skdpdyn.training.family import Part
from skdpdyn.training.parts import CLASS_COUNTS, FALSE, warn_of_others
from skdpdyn.training.ranges import bought_ranges
from skdpdyn.training.targets import Target, numbers_of

_FAR = 1e-6  # probability that bounds are far too wide, where nothing can be learnt
_RANGES = "range of targets", "finer range of targets"
_PAIRS = [0, 1], [-1, 1], [1, 2]


class ClassLabels(Part):
    """Classes, and how many records each has: one noisy count for each label of a public list.

    A record is in one of the cells -1, 0, 1, ... and "other", so that it adds a unit vector, and
    another in its place moves two counts by 1. A person adds a convex combination of unit vectors.
    The list, the counts and all that follows from them is post-processing. Records of labels that
    are no class keep their place and weigh nothing.
    """

    fact = "classes"

    def share(self, request):
        """See `Part.share`: that of a base rate of two classes, whatever their number will be."""
        return {CLASS_COUNTS: Share(rules.class_share(request.strength, 1))}

    def learn(self, learning, spending):
        """See `Part.learn`: the plan has rested on it."""

    def first(self, model, reading, request, spending):
        """See `Part.first`: with the classes that show."""
        targets = model.family.targets
        rows = reading.rows(request.most_rows)
        counts = rows.class_counts(targets.n_cells)
        noisy = spending.release(CLASS_COUNTS, counts, spending.per_square)
        std = spending.per_square * spending.noise_multiplier(CLASS_COUNTS)
        classes, others = classes_of(noisy, std, targets.most > 2)
        if others:
            warn_of_others(classes)
        cells = classes + 1
        codes = np.full(targets.n_cells, -1)
        codes[cells] = np.arange(classes.size)
        target = replace(
            targets.of(model, None, classes),
            values=reading.target.values,
            encode=reading.target.encode,
            bought=True,
            codes=codes,
            class_counts=(noisy[cells], std),
            total=max(float(noisy[cells].sum()), std) if others else None,
        )
        return replace(reading, target=target)


def classes_of(counts: np.ndarray, std: float, several: bool) -> tuple[np.ndarray, bool]:
    """Return the classes that noisy counts show, and whether they show other labels too.

    Parameters
    ----------
    counts : ndarray of shape (n_cells,)
        Noisy counts of the labels -1, 0, 1, ..., and of all others.
    std : float
        Standard deviation of their noise.
    several : bool
        Whether there may be more than two classes.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        The first of the lists [0, 1], [-1, 1] and [1, 2] outside of which nothing stands out;
        otherwise, of several, 0 or 1 to the largest label that does.
    others : bool
        Whether a label that is no class stands out.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.training.facts import classes_of
    >>> classes_of(np.array([1.0, 0.0, 950.0, 60.0, -2.0]), std=3.0, several=False)
    (array([1, 2]), False)
    """
    threshold = -std * ndtri(FALSE / counts.size)
    shown = np.flatnonzero(counts >= threshold) - 1
    last = counts.size - 2
    for pair in _PAIRS:
        if np.all(np.isin(shown, pair)):
            return np.array(pair), False
    labels = shown[(shown >= 0) & (shown < last)]
    if not several or labels.size == 0 or labels.max() < 2:
        return np.array(_PAIRS[0]), True
    classes = np.arange(0 if 0 in labels else 1, labels.max() + 1)
    return classes, bool(shown[0] == -1 or shown[-1] == last)


class TargetRange(Part):
    """Bounds of targets that are numbers: the range of a column of one number a record."""

    fact = "target_bounds"

    def share(self, request):
        """See `Part.share`."""
        size = rules.target_range_share(request.strength)
        parts = size * (1 - rules.FINER_PART), size * rules.FINER_PART
        return dict(zip(_RANGES, map(Share, parts), strict=True))

    def learn(self, learning, spending):
        """See `Part.learn`: the plan has rested on it."""

    def first(self, model, reading, request, spending):
        """See `Part.first`."""
        targets = model.family.targets
        as_read = reading.target.as_read
        y = None if as_read[0] is None else numbers_of(as_read[0])
        target = Target(y, request.loss, {}, encode=numbers_of)
        rows = replace(reading, target=target).rows(request.most_rows)
        parts = partial(rows.part_counts, of="targets")
        counts = rows.octave_counts("targets"), parts
        of_rows = rows.n_records, rows.dtype.name
        pairs = bought_ranges(*counts, spending, *of_rows, _RANGES, _FAR)
        bounds = targets.usable(*pairs[0].tolist())
        target = replace(targets.of(model, as_read, bounds), bought=True)
        return replace(reading, target=target)


LABELS = ClassLabels()
TARGET_RANGE = TargetRange()
