"""Rules that "auto" stands for: every constant of a default, by public numbers.

Most rules depend on the strength s = n mu / f, where f is 2 under "replace_one" and 1 under
"add_remove": a sum of one number of each record, each in [-1, 1], has that many standard
deviations of the noise that the whole budget buys. Others depend on the number of columns, or of
parameters with intercepts, and of outputs. Nothing here was measured on the data that a fit is
given.
"""

import math

from scipy.special import ndtri

from skdpdyn.privacy.guarantees import Adjacency
from skdpdyn.privacy.schedules import MIN_STEPS

MOST_MATRIX_COLUMNS = 1000
MOST_EXPANDED = 1800
"""The largest number of features of additive models that is mapped by blocks.

With 2,080 in place of 1,360 letters score the same at epsilon 1 and 10.
"""


# Shares of mu^2, and limits, of what is no fit; those of tables by `python -m benchmarks intervals`
LOG_LOSS_SHARE = 0.3  # of an evaluation of more than two classes
COORDINATES_SHARE = 0.15  # of a table, for coordinates in which rows are alike
# Steps of a table. Early ones need to find the place only; the last ones measure
CUT_SHARE = 0.003
MEASURED_CUT_SHARE = 0.02  # of the last residuals, where R^2 follows from their squares
LOOK_SHARES = {1: 0.02, 2: 0.08}  # by step, for counts of what lies beyond the limit
MOST_BIAS = 0.25  # of what is beyond it, over the deviation of the last gradient
START_SHARE = 0.01
LIMIT_SHARE = 0.006
DISPERSION_SHARE = 0.03
LEFT_OUT_SHARE = 0.03
SCORES_SHARE = 0.15
GRADIENT_SHARES = (0.03, 0.045, 0.075, 0.15, 0.45)
CURVATURE_SHARES = (0.025, 0.025, 0.025, 0.05, 0.125)


def strength_of(n_samples: int, mu: float, adjacency: Adjacency) -> float:
    """Return s = n mu / f: the sum over all records, in standard deviations of the noise."""
    return n_samples * mu / adjacency.sum_sensitivity(1.0)


# --- the map of rows ------------------------------------------------------------------------------
# Shares of mu^2, chosen together on Adult, MAGIC, California, flights and MNIST at epsilon 0.1 and
# 1: half or double of each moves accuracy by at most 0.3 points.


LEAST_STRENGTH = 20.0
"""The strength from which on rows are mapped.

Below it what is learnt is noise (digits, wine, sonar, cancer, boston).
"""


def matrix_strength(n_features: int) -> float:
    """Return the strength from which on a full second moment pays.

    MAGIC gains 2.7 points by it; digits lose 1.0 at a strength of 2.6 a column.
    """
    return 5.0 * n_features if n_features <= MOST_MATRIX_COLUMNS else math.inf


FINER_PART = 0.3
"""Part of the share of ranges that splits those that do not reach 0, such as years."""


LEAST_RANGES_STRENGTH = 22.0
"""The strength over the root of the number of columns from which on linear models buy their ranges.

Below it noise hides an octave that has half of a column's numbers. Of columns as they are, R^2 of
housing at epsilon 0.05 under replace_one (31) is .17, and in bought ranges .51; abalone's at 0.2
(25) is .34 and .38. Swedish claims at 0.2 (16) have .72 and .57, letters at 0.05 (22) an AUC of
.74 and .70.
"""


def ranges_share(strength: float, n_columns: int) -> float:
    """Return the share of mu^2 of the ranges of columns.

    The part of the numbers that can be told from noise is in proportion to the root of this number
    of columns over s and the root of the share: it falls slower than s, and what is cut off
    vanishes. With at most half of the largest share, AUC of MAGIC at epsilon 0.1 under replace_one
    is .05 lower, and telco's .04: a column that noise hides is cut off, and teaches nothing.
    """
    scarce = 400 * math.sqrt(n_columns) / strength
    return max(0.035 * min(max(scarce, math.sqrt(scarce)), 4.0), 0.005)


def data_norm(n_features: int, is_bought: bool) -> float:
    """Return the public bound on the norm of a row.

    Rows of columns in [-1, 1] are within the root of their number, and where a typical length is
    bought of them (``is_bought``), a bound that is too large costs nothing. Elsewhere the noise is
    in proportion to it.
    """
    return math.sqrt(n_features) if is_bought else 1.0


def room_of_rows(strength: float) -> float:
    """Return how long rows of columns without bounds may be, over the root of their number.

    Of columns of mean 0 and deviation 1 nearly half of the rows are longer than the root: five of
    them, shortened to it, have slopes 13 % too large with any number of records, and with this
    .3 %. On nine tables at epsilon 0.3 to 3, in [-1, 1] or standardized, scores do not change.
    """
    return max(1.0, strength / 50.0)


def radius_share(strength: float) -> float:
    """Return the share of mu^2 of a typical length of rows, which all that follows rests on."""
    return min(max(40 / strength**2, 0.005), 0.1)


def length_share(strength: float) -> float:
    """Return the share of mu^2 of a quantile of lengths, which all steps rest on."""
    return min(max(100 / strength**2, 0.005), 0.05)


LEAST_SPREAD = 0.2
LEAST_LENGTH = 0.7
"""The least typical length of expanded rows that are centred, in units of the longest row, and of
mapped ones, in units of the root mean square that surely is there."""


MEAN_SHARE = 0.04
"""The share of mu^2 of the mean of the rows."""


def variances_share(is_sparse: bool) -> float:
    """Return the share of mu^2 of the variances of columns."""
    return 0.1 if is_sparse else 0.04


MOMENTS_SHARE = 0.1
"""The share of mu^2 of a full second moment."""


NOTHING = 0.01
"""The noise on a second moment, over the mean of all directions, up to which those that show
nothing are left out: constant and repeated columns, with large budgets.

Without it steps last as long as such a direction would take, and keep noise in all others: rates at
epsilon 1e6 are .02 to .18 of their deviation off. Log losses and D^2 of five tables at epsilon 3 to
100 are as with a tenth; with 0.05 a quantile of housing loses .007 of D^2, one of bike .002. Where
noise is larger, what it hides is needed: without it log losses at epsilon 1 are .05 worse (housing,
Adult), for a difference of latitude and longitude is hidden.
"""


def map_share(with_matrix: bool) -> float:
    """Return the share of mu^2 of the whole map where the steps do not depend on the map.

    The rounded sum of the shares. It does not depend on sparsity, so the spending does not.
    """
    return 0.2 if with_matrix else 0.1


def radius_quantile(strength: float) -> float:
    """Return the part of the rows that are not shortened before anything is learnt.

    The rows that are shortened become few as fast as the noise.
    """
    return max(0.9, 1 - 70 / strength)


def sampled_lengths(noise_multiplier: float, quantile: float) -> float:
    """Return how many rows are enough for a quantile of lengths on the way to a map.

    The noise is 4 % of the rows beyond it at the most, and chance less.
    """
    return max(8192.0, 50.0 * noise_multiplier) / (2 * (1 - quantile))


def _least_cut(strength, largest):
    """Return the least part of the rows to shorten, ``largest`` where records are few.

    It is 4 deviations of the noise that the least share of lengths buys: a count of all rows but
    fewer may not be told from one of all.
    """
    return min(70 / strength, largest)


def kept_length(strength: float, n_features: int, is_bounded: bool) -> float:
    """Return the part of mapped rows that keep their length.

    A half loses less to noise than it bends, below a strength of 80 a column; beyond, rows that are
    shortened become few as fast as the noise, and faster from 15,000 a column on: at epsilon 1e6
    20 rows of 20,000 are .1 of a deviation off without. Long rows that are scaled down bend a
    linear target (age: R^2 0.37 at 0.5). ``is_bounded``: whether the loss has a bound on its slope.
    """
    lost = 0.5 if is_bounded else 0.15
    a_column = 80 * n_features / strength
    few = math.inf if is_bounded else 7.5 * a_column
    part = lost * min(1.0, math.sqrt(a_column), few, (50 * a_column) ** 2)
    return 1 - max(part, _least_cut(strength, lost))


def longest_kept(quantile: float) -> float:
    """Return the largest length that rows may keep, over their root mean square.

    No more than 1 - quantile of all rows are longer, whatever their tails (Chebyshev). With 4 at
    any strength, coefficients stay 3 % too large for columns of Student's t with 3 degrees of
    freedom.
    """
    return max(4.0, 1 / math.sqrt(max(1 - quantile, 1e-9)))


def kept_length_of_curves(strength: float, n_features: int) -> float:
    """Return the part of mapped rows that keep their length where curves are learnt by squares.

    R^2 of California's value at epsilon 0.1 to 1, and abalone's, gains .006 on average over a part
    of 0.1, and .02 to .04 at 0.3; a part that falls as slowly as that of classes costs Swedish
    claims .01 at 100.
    """
    return 1 - 0.3 * min(1.0, 40 * n_features / strength)


def kept_length_of_rates(strength: float, n_features: int) -> float:
    """Return the part of mapped rows that keep their length where rates are learnt.

    Shorter rows bend the logarithm of a rate (Swedish claims: D^2 0.718 at 0.5, 0.751 at 0.95),
    but the noise on larger norms is more than that below a strength of 100 a column, of 10 columns
    at least.
    """
    ample = 100.0 * max(n_features, 10)
    scarce = ample / strength
    if scarce > 1:
        return 0.5
    return 1 - max(0.05 * min(math.sqrt(scarce), (50 * scarce) ** 2), _least_cut(strength, 0.05))


def kept_weight(strength: float, n_features: int) -> float:
    """Return the part of mapped rows that keep their weight in a regression table.

    Of columns with a long tail, 0.9 has intervals 5 % narrower than 0.95 at a strength of 4,000.
    The rest vanishes as the strength grows, so that estimates become those of all rows alike.
    """
    return 1 - min(100.0 * n_features / strength, 0.1)


def most_row_curvature(strength: float, n_parameters: int, part: float) -> float:
    """Return the largest curvature of a row in a table, in units of that of the longest full one.

    Rows up to so many times as long as the longest full one weigh the inverse of their length,
    longer ones that of its square. With up to 8 in place of 2 a dummy of 3 % beside four normal
    columns is half as wide (at epsilon 1, of 20,000 records 17 -> 11 times as wide as without
    privacy, of 100,000 5.0 -> 2.6), and these are as wide. But noise on curvature is more of what
    it hides where usual rows have a small ``part`` of the bound: tables of overdispersed counts are
    a quarter wider then, and rare outcomes are not answered. The norm of that noise grows with the
    root of the number of parameters: of Adult's 28 coefficients at epsilon 3, and 38 at 10, 25 and
    34 are answered, and 22 and 30 if twice as many parameters allow for half as much. It grows no
    faster than the strength, so that more of a budget never hides what less has seen.
    """
    scarce = 250.0 * n_parameters * max(1.0, math.sqrt(n_parameters / 6))
    ample = part * strength / scarce
    return max(1.0, min(strength / (500.0 * n_parameters), 2.0), min(ample, 8.0))


def room_of_curvature(strength: float, n_parameters: int) -> float:
    """Return the growth of the largest curvature of a row, beyond which it weighs less.

    With more records noise is less, and rows with large means have their weight: at epsilon 1e6
    errors of a Poisson table are 6 % too large without it, and estimates .4 of them off.
    """
    return math.sqrt(max(1.0, strength / (3000.0 * n_parameters)))


ROOM_OF_TABLES = 8.0
"""How many times as wide as what is seen the ranges are that a table buys.

It conditions rows, so that width costs nothing: slopes of log-normal columns are covered in .68 to
.83 without room, in .92 to .96 with this, and are as wide.
"""


def room_to_grow(strength: float, n_parameters: int) -> float:
    """Return the growth of a table's limits, so that the cut part vanishes with more records.

    Of costs with exponential errors, a fixed limit covers slopes in 57 % at n = 100,000.
    """
    return max(1.0, strength / (300.0 * n_parameters)) ** 0.35


def softness(strength: float) -> float:
    """Return the second moment below which a direction of expanded rows is left as it is.

    A direction's weight is 1/sqrt(max(second moment, 0) + this), so that noise is not scaled up. A
    hard threshold at the noise's operator norm undoes the decay of cosines (California above
    180,000 at epsilon 0.1: 0.804 with it, 0.833).
    """
    return 10.0 / strength


# --- additive models ------------------------------------------------------------------------------
# ``strength`` is that of the whole budget, ``n_columns`` are columns of numbers.


def expands(strength: float, n_columns: int) -> bool:
    """Return whether records are enough for curves."""
    return strength >= 10.0 * max(n_columns, 1)


def strength_of_curves(strength: float, flatness: float) -> float:
    """Return the strength that the number of features of curves follows from.

    ``flatness`` is 4 p (1 - p) of a class, about the number of its records over that of even
    classes. Twice as much is what counts, so that classes of 15 % and more change nothing. With a
    class of 3 to 17 % of seven tables, at epsilon 0.1 to 3, AUC gains .012 and log loss 1 % on
    average (once as much: .002; three times: .009), and AUC .07 at 310 events.
    """
    return strength * min(1.0, 2.0 * flatness)


def least_of_products(strength: float) -> float:
    """Return the strength a column from which on distributions are bought, and columns multiplied.

    By both MAGIC gains .010 of AUC at 122, letters .027 at 115 and King County's prices .030 of R^2
    at 118. Where all records together are weak products lengthen rows more than they tell: abalone
    loses .027 at 114.
    """
    return 90.0 if strength >= 900.0 else 120.0


ORDERS = (1000.0, 10), (200.0, 6), (0.0, 2)
"""Strengths a column, and the order of products from there on, if there are any.

R^2 of hourly rentals is .71 with 2, .74 with 4 and .77 with 6 at 310 a column; at 1,700 .85 with 6
and .88 with 10. Tables with noisy labels gain or lose up to .005. Between 2 and 6, see
`least_of_fourth_order`.
"""


def least_of_fourth_order(strength: float) -> float:
    """Return the strength a column from which on products are of order 4.

    At 115 to 150 R^2 of hourly rentals, with 1,460 in all, gains .02; King County's prices, letters
    and MAGIC gain or lose up to .002. Where all records together are weak the products lengthen
    rows more than they tell: California's value, at 124 with 990 in all, loses .012.
    """
    return 115.0 if strength >= 1200.0 else 150.0


def buys_distributions(strength: float, n_columns: int) -> bool:
    """Return whether records are enough for distributions of columns."""
    return n_columns > 0 and strength >= least_of_products(strength) * n_columns


def orders_of_products(strength: float, n_columns: int) -> tuple[int, ...]:
    """Return the largest a b of products of cosines of frequencies a and b, most wanted first."""
    if not buys_distributions(strength, n_columns):
        return ()
    fourth = least_of_fourth_order(strength), 4
    orders = sorted([*ORDERS, fourth], reverse=True)
    return tuple(order for least, order in orders if strength >= least * n_columns)


FINE_ORDERS = 48, 36, 24, 18, 12, 8
"""Orders of the products of a pair that is drawn finely, most wanted first.

R^2 of California's value at epsilon 10 with the place alone is .748 at 6, .778 at 24, .792 at 48
and .803 at 72, which takes three times as long.
"""


MOST_FINE = 200
"""The largest number of products of a pair that is drawn finely."""


def fine_products(strength: float) -> float:
    """Return how many products are enough for pairs that are drawn finely.

    More of them gain where two columns act together, and cost where they do not: California's value
    gains .02 to .04 of R^2 at a strength of 3,000 with 80 in place of 3, and Adult's age and hours
    lose .003 of AUC at 2,000 with 40.
    """
    return strength / 50.0


def looks(strength: float, n_columns: int, is_bounded: bool) -> bool:
    """Return whether a look that chooses pairs is taken unasked, beside all pairs of numbers.

    A strength beyond the number of records counts as that. Three splits: from 500 a column on R^2
    of diamonds gains .023 to .033 at epsilon 1 to 10, bikes' .052 and .011 at 3 and 10, King
    County's prices' .010 and .008, California's values' .004; below, at 1, these lose .006.
    Classes tell less of a record. From 2,000 a column on AUC of flights gains .005 and .019 at 3
    and 10, California's .005 and Adult's .000 at 10; below, at 3, Adult's gains .001, California's
    loses .001, MAGIC's .002.
    """
    return strength >= (2000.0 if is_bounded else 500.0) * n_columns


LEAST_LOOKED_AT = 50.0
"""The least strength a column from which on a look that is asked for is taken."""


FIRST_RUN_SHARE = 0.07
"""The share of mu^2 of the curves whose residuals are looked at."""


LOOK_SHARE = 0.06
"""The share of mu^2 of the sums of residuals in the cells of pairs."""


MOST_PAIRS = 10
"""The largest number of pairs that a look keeps unasked."""


MOST_LOOKED_AT = 600
"""The largest number of cells of a pair that a look sums residuals in."""


GROUPS = 4
"""The number of groups that a look sees numbers in, besides missing ones."""


LEAST_PART = 0.005
"""The least part of the records in a group that a look believes."""


LOOK_LIMIT = 0.2
"""The bound on residuals of numbers in a look, in units of training.

The sign of a residual tells as much as its size, and has less noise than most of training.
"""


FALSE_PAIRS = 0.02
"""The chance that noise alone makes a look keep a pair."""


MOST_SHARED = 40
"""The largest number of values of a column that are levels since many records share them."""


def full_levels(strength: float) -> float:
    """Return the number of levels of a column up to which the feature of a level is 1.

    In a column of L more levels it is the root of this over L. Every column of levels lengthens
    rows, and with them the noise, alike. What steps learn of a level is in proportion to its part
    of the records, about 1/L; what is best to learn while noise is larger, to the square of that.
    At epsilon 0.1 R^2 of Swedish claims rises by .06 under add_remove and by .09 under replace_one.
    Of 1,500 made up records with four columns of eight levels it rises by .09 and .30 where a
    number tells all, and changes by -.01 and +.05 where one of these columns tells most. With a
    half of this the latter loses .12, and the former gains .04 more.
    """
    return strength / 10.0


def cosines_of_scales(n_scales: int) -> int:
    """Return the largest number of cosines of each scale."""
    return max(2, min(8, 600 // max(n_scales, 1)))


def cosines_of_curves(strength: float, n_columns: int, n_scales: int) -> int:
    """Return the number of cosines of each scale in additive models.

    Where records are few two are enough: at a strength of 20 a column they gain, over eight, 1.1
    points on California and on MAGIC, and 0.02 of R^2 on California's value. At 30 to 60 a column
    three gain 0.2 to 0.6 on MAGIC, 0.013 of R^2, and lose at most 0.3 points on California.
    """
    if strength < 60.0 * n_columns:
        return 3 if strength >= 30.0 * n_columns else 2
    return cosines_of_scales(n_scales)


def decay_of_cosines(strength: float, n_columns: int) -> float:
    """Return the power of a frequency that its cosine is divided by, in additive models.

    It falls where records are many. At 50 to 120 a column 1 in place of 1.5 gains .03 to .04 of R^2
    on hourly rentals and King County's prices, .01 of AUC on phoneme and letters, and loses at most
    .005 on housing; at 20 a column it loses .025 there, and .01 of AUC on telco and California.
    """
    a_column = max(strength, 1.0) / max(n_columns, 1)
    return min(max(1.5 - 0.5 * math.log2(a_column / 25.0), 1.0), 1.5)


DISTRIBUTIONS_SHARE = 0.05
"""The share of mu^2 of the distributions of columns."""


LEVELS_SHARE = 0.05
"""The share of mu^2 of the levels of columns."""


def levels_share(strength: float, n_columns: int) -> float:
    """Return the share of mu^2 of the levels of so many columns of an additive model.

    So much that a level of a tenth of the records stands out. Swedish claims (1,396 records, four
    columns, a strength of 196) at epsilon 1 lose .030 of R^2 to given facts with an eighth, .038
    with a sixteenth, .018 with this, and .019 with a quarter. Telco, of sixteen columns, at 700
    loses .002 with a seventh, and .0015 with this.
    """
    return min(max(LEVELS_SHARE, 1700 * n_columns / strength**2), 0.2)


FAILURE_SHARE = 0.1
"""The part of delta that levels of single records take, which may show.

The threshold hardly depends on it, and neither does what the rest of delta pays for.
"""


DISTRIBUTION_STEPS = 1 / 64, 2.0
"""The least part of the records in a step of a distribution, and in deviations."""


# --- targets --------------------------------------------------------------------------------------


CLASS_COUNTS_SHARE = 0.01
"""The share of mu^2 of the number of records of each class, for their weights."""


def class_share(strength: float, n_outputs: int) -> float:
    """Return the share of mu^2 of the base rate of classes, which training starts from.

    So much that its standard deviation, 0.5 / (s sqrt(share)), is 0.06 where records are few, and
    enough to tell the rarer one of two classes. Pen digits lose 2 points at epsilon 0.1 where ten
    classes take as much.
    """
    to_tell = 1 / math.sqrt(strength) if n_outputs == 1 else 0.0
    return min(max(80 / strength**2, to_tell, 0.02), 0.5)


FACTS_STRENGTH = 100.0
"""The least strength that pays for noisy counts that tell classes, or bounds of targets."""


def target_range_share(strength: float) -> float:
    """Return the share of mu^2 of the bounds of targets, large enough that few are clipped.

    Of 1,000 normal targets at epsilon 1 (a strength of 118) R^2 is .8285 with .085, .828 with twice
    as much, .830 in bounds taken from the targets, and .62 with half of this. Of 10,000 costs of
    which 96 % are 0, at epsilon 2, the others are seen in 6 of 6 fits, and in none with .007.
    """
    x = 1e3 / strength
    return min(max(0.01 * max(x, math.sqrt(x)), min(0.05 * x, 0.05), 0.002), 0.1)


def mean_target_share(strength: float) -> float:
    """Return the share of mu^2 of the mean of targets."""
    return min(max(250 / strength**2, 0.01), 0.2)


def rate_share(strength: float) -> float:
    """Return the share of mu^2 of the rate of counts, which may be far below 1."""
    return min(max(200 / strength, 0.02), 0.15)


LEAST_RATE = 3.0
"""The least rate, or share of a class, that can be told from 0, in deviations."""


LEAST_FLAT_STRENGTH = 8.0
"""The least strength times flatness that pays for slopes of counts.

Flatness is the rate of counts in their unit. Below it the base rate takes what training leaves:
Swedish claims (a rate of 0.05) of 3,000 records at epsilon 0.3 have a deviance of 0.303 with
slopes, 0.295 without.
"""


def scale_share(strength: float) -> float:
    """Return the share of mu^2 of counts of targets in octaves, which their scale follows from.

    So much that a cell of a hundredth of the targets is seen from a strength of 1,000 on: of 10,000
    records of which 4 % have a cost, sums of predictions are right at epsilon 1, and a quarter of
    the costs with a hundredth.
    """
    return min(max(30 / strength, 0.01), 0.05)


def cost_of_limit(n_parameters: int) -> float:
    """Return the noise of sums of products, over the limit on targets and the strength.

    The limit is chosen by it: of five parameters it costs R^2 nothing, of abalone's eleven .001 to
    .004, and .02 with half of this.
    """
    return 4.0 * math.sqrt(n_parameters)


RATE_SCALE_SHARE = 0.01
"""The share of mu^2 of a scale of counts."""


def calibration_share(strength: float) -> float:
    """Return the share of mu^2 of the mean residual after training; 0: it is not bought."""
    return 0.02 if strength >= 200 else 0.0


def residuals_share(strength: float) -> float:
    """Return the share of mu^2 of the quantile of residuals after training.

    The part of the targets below predictions is then off by .006 of 20,000 records at epsilon 1.
    """
    return min(max(0.02, 10 / strength), 0.15)


COUNTS_OF_RESIDUALS = 6
"""The number of counts that find a quantile of residuals.

With 4 skewed residuals are .004 off at epsilon 10, where 6 and 8 are off by less than .0005.
"""


SHIFT_PRIOR = 0.15
"""Deviation of the shift to a quantile of residuals, in units of the scale of targets."""


DOUBT_OF_FAR_PARTS = 0.15
"""How far a part of the records may be from that of a normal law, over its distance from the
quantile: of skewed residuals, whose other quantiles say little of this one."""


# Slope and level of models of means; chosen on five tables and eight made-up ones, each at four
# budgets, and looked at on nine others
LEAST_STRENGTH_OF_LINE = 400.0
"""The strength from which on they are bought of steps: below, noise is as large as what is off."""


LINE = 0.03, 0.02
"""Their shares of mu^2. At epsilon 0.3 diamonds lose .010 of R^2 with a third, .0015 with these."""


LINE_OF_FEW = 0.05, 0.10
"""The same where nearly all targets are at one place, and training learns less."""


DROWNED_LEVEL = 0.33
"""The noise of the level, over the deviation of targets, beyond which neither is bought."""


PRIOR_OF_BEND = 0.6, 0.3
"""Mean and deviation of the cut variance of predictions, over that of released moments."""


LEAST_BEND = 0.15
"""The least such part that is believed."""


PRIOR_OF_TURN = (0.06, 0.3, 1.0), (0.3, 0.5, 0.2)
"""Deviations of a slope's error, over 1 - R^2, and their weights, before any is seen.

One scale for all costs .02 to .6 of R^2 at epsilon 0.1 to 0.3.
"""


PRIOR_OF_LEVEL = (0.03, 0.1, 0.3), (0.4, 0.4, 0.2)
"""The same of a level's, over the deviation of targets: it is off by .02 to .25 of that."""


DOUBTFUL_MEAN = 0.1
"""How far a mean may be off, over its distance from the nearer bound, before a fit warns."""


def time_of_few(deviation: float) -> float:
    """Return the factor of the time of training where nearly all targets are at one place.

    ``deviation`` is that of targets in the unit of residuals. For a rate p the factor is (4 p)^2:
    gradients over the unit are p where the deviation is the root of p, and the square of a
    prediction's noise goes with the time. Correlations with the true mean of an outcome of 3 % are
    .94 with it, .50 without.
    """
    return min(max((4 * deviation**2) ** 2, 0.01), 1.0)


def slope_share(strength: float, n_outputs: int, n_parameters: int) -> float:
    """Return the share of mu^2 of the slope of residuals after training; 0: it is not bought.

    Log losses of several classes are 3 to 13 % lower with it on digits, pen digits and MNIST at a
    strength of 1 to 4 a parameter, and 1 to 3 % higher from 14 on.
    """
    if n_outputs == 1:
        return 0.03 if strength >= 200 else 0.0
    return 0.03 if 400 <= strength < 8 * n_parameters else 0.0


MEAN_ROW_SHARE = 0.05
"""Part of mu^2 for the sums by which predictions of persons' rows become those of a mean row."""


MEAN_ROW_PRIOR = 1.0
"""Deviation of the shift from a mean person's to a mean row's log odds, before any is seen."""


SLOPE_PRIOR = 0.15, 0.25
"""Deviations of a shift of raw predictions, and of a change of their slope, before any is seen."""


SLOPE_PRIOR_OF_CLASSES = 0.5
"""The second of several classes, whose bounds on residuals bend probabilities more."""


SLOPES = 0.3, 2.0
"""The least and the largest slope."""


def rate_calibration_share(strength: float) -> float:
    """Return the share of mu^2 of the mean residual of rates; 0: it is not bought."""
    return min(max(400 / strength, 0.01), 0.3) if strength >= 200 else 0.0


def count_quantile(strength: float) -> float:
    """Return the part of the counts that are not cut off, for their mean and their unit.

    Counts that are cut off become few as fast as the noise.
    """
    return max(0.95, 1 - 45 / strength)


def target_quantile(strength: float) -> float:
    """Return the part of the targets whose distance from the centre is within the scale.

    Where records are few it is farther from all of them than noise may hide.
    """
    return 1 - min(max(0.05 * math.sqrt(1e3 / strength), 0.05), 0.1)


# --- the problem ----------------------------------------------------------------------------------


def intercept_scaling(is_mapped: bool) -> float:
    """Return the constant of the intercept column, in units of ``data_norm``.

    A small column leaves the norm to the features: 0.25 was chosen on public data sets of 160 to
    36,000 rows at epsilon 0.1 to 10. On mapped rows, whose largest second moment is 0.02 to 0.4, it
    would be the one that limits steps (flights' log loss 0.510 at 0.25, 0.507 at 0.15; at 0.1 Adult
    and MAGIC lose 0.1 points).
    """
    return 0.15 if is_mapped else 0.25


def logistic_clip(n_parameters: int, strength: float) -> float:
    """Return the bound on a logistic residual: none from a strength of 160 a parameter on.

    Half of the largest halves the noise, and bends probabilities towards a half. Without a bound,
    0.6 to 1.3 points of accuracy are lost at epsilon 0.1.
    """
    return min(max(0.5 * (strength / (10 * n_parameters)) ** 0.25, 0.5), 1.0)


def softmax_clip(n_parameters: int, strength: float) -> float:
    """Return the bound on the norm of a softmax residual: none from 640 a parameter on."""
    return math.sqrt(2) * min(max(0.5 * (strength / (40 * n_parameters)) ** 0.25, 0.5), 1.0)


HINGE_CLIP = 1.0
"""The bound on a hinge residual: clipped lower, Adult loses 0.2 to 0.6 points."""


RATE_CLIP = 1.0
"""The bound on a residual of counts, in their unit.

A lower bound makes rates too low: counts are skewed.
"""


def ridge_clip(n_parameters: int, strength: float) -> float:
    """Return the bound on a residual of rows that are not mapped, in half-ranges of the target.

    More parameters take more noise. From a strength of 20 a parameter on noise matters less, and
    the bound grows. Chosen on thirteen public data sets of 7 to 156 columns, epsilon 0.1 to 10.
    """
    ample = max(1.0, strength / (20.0 * n_parameters))
    return min(max(2.5 / n_parameters, 1 / 16) * ample, 1 / 4)


def mapped_ridge_clip(n_parameters: int, strength: float) -> float:
    """Return the bound on a residual of mapped rows, in units of the scale of targets.

    It grows without end: residuals of any law are clipped less and less; but slowly from 1 on,
    where hardly any are. At 100,000 rows of 20 columns R^2 loses .004 with it, .010 where it goes
    on as fast; with 0.5 skewed targets lose .010.
    """
    a_parameter = strength / n_parameters
    fast = 0.25 * max(1.0, math.sqrt(a_parameter / 10))
    return min(fast, max(1.0, (a_parameter / 1600) ** 0.25))


HUBER_WIDTH = 0.25
"""The width of Huber's loss of rows that are not mapped, in half-ranges of the target."""


MAPPED_HUBER_WIDTH = 0.5
"""The same of mapped rows, in units of the scale of targets: a deviation of normal ones.

Where half of their variance is explained it is 1.4 deviations of residuals, at which Huber's loss
has 96 % of the efficiency of squares. It follows no budget, so neither does what is learnt.
"""


def sparse_clip(strength: float, n_features: int) -> float:
    """Return the factor of a bound on residuals of mapped sparse rows (news at epsilon 0.1)."""
    return 0.4 if n_features > strength else 1.0


# --- training -------------------------------------------------------------------------------------


WEIGHTS_SHARE = 0.005
"""Part of mu^2 for the sum of weights: of 10,000 records at epsilon 1 it tells it to 0.7 %."""


FORGETTING = 0.1
"""Alpha times the training time: too weak to matter, but strongly convex."""


SETTLED = 3.0
"""Alpha times the training time beyond which a penalty undoes what training adds.

What is left undone is exp(-3), and noise by composition grows with time: MAGIC at epsilon 1 and
10 times the alpha that makes this 1 has a log loss of 0.462, and 0.465 without the limit.
"""


def curvature_share(is_sparse: bool) -> float:
    """Return the share of mu^2 of the largest eigenvalue of mapped rows."""
    return 0.002 if is_sparse else 0.005


def training_time(strength: float, n_parameters: int, n_outputs: int, is_bounded: bool) -> float:
    """Return the training time on mapped rows, in units of `conditioned_time`.

    Half or double costs 0.1 points at epsilon 1, 0.5 at 0.1. A squared loss, whose residuals have
    the scale of the target, needs less. What training leaves undone in a direction of curvature h
    is exp(-h T): so where the noise is small, T grows faster than the strength, for a while.
    """
    if n_outputs > 1:
        return min(max(math.sqrt(strength / (40 * n_parameters / n_outputs)), 1.0), 8.0)
    factor = min(max((strength / (12 * n_parameters)) ** 0.25, 1.0), 4.0)
    return factor if is_bounded else 0.6 * factor


def time_of_rare(strength: float, flatness: float, n_parameters: int) -> float:
    """Return the factor of the time of training where a class, or an event, is rare.

    Gradients are in proportion to the flatness, the rate of counts in their unit or 4 p (1 - p) of
    a class; noise is not: so is the time that pays until records are many.
    """
    return min(1.0, flatness * max(1.0, strength / (3.0 * n_parameters)))


LEAST_TIME_OF_RARE = 0.5
"""The least such factor of classes.

It knows no strength of slopes: of five tables with a rare class, epsilon 0.1 to 1, California's
(3 %) at 0.3 has a log loss of .132 without a limit and .117 with this one, the constant's is .143;
flights more than two hours late have one 3 % below the constant's without, and at it with this.
"""


LEAST_NARROWING = 60.0
"""The strength a parameter from which on the kink of a loss narrows step by step.

D^2 of quantiles .1, .5 and .9, four to six splits, with and without: at 100 to 150 diamonds .731
and .716, King County .409 and .404, bike .220 and .215, housing .412 and .409; at 24 to 48 diamonds
.697 and .706, housing .388 and .393, 5,000 made up rows .671 and .691.
"""


TIME_OF_NARROWING = 1.7
"""The training time of steps whose kink narrows, over that of others."""


def kinks(strength: float, n_parameters: int) -> tuple[float, ...]:
    """Return the half-width of the kink in each step, in the scale of targets; (): the loss's own.

    Steps are as long as the kink is wide: wide ones bring predictions near, and a kink narrower
    than residuals moves no quantile. It falls from a half, by the root of 2 every six steps, to
    where noise is as large. With 8 or 16 steps an octave, or one width to each step, scores are
    the same.
    """
    if strength < LEAST_NARROWING * n_parameters:
        return ()
    least = min(max(n_parameters / strength, 0.003), 0.5)
    falls = math.ceil(2 * math.log2(0.5 / least))
    return tuple(max(0.5 * 2 ** (-k / 2), least) for k in range(falls + 1) for _ in range(6))


def started_time(strength: float, n_parameters: int) -> float:
    """Return the factor of the time of training that starts from a model of before.

    Adult from a model of 300 public rows, six splits: at epsilon 0.03 accuracy is 0.818 at a factor
    of 0.3, and 0.801 without a start; at 0.1 0.823 at 0.6, and 0.819 without. The whole time
    forgets the start. With more records it matters less.
    """
    return min(max(0.3 * math.sqrt(strength / n_parameters), 0.3), 1.0)


def steepness_of_rates(rate: float, unit: float, part: float) -> float:
    """Return the curvature of the loss of counts that limits steps, in the unit of residuals.

    It is the rate over that unit, at each row: 1.5 times the geometric mean of that at the base
    rate, and at a rate whose counts are ``unit`` beyond it at a quantile, ``part``, of their own
    (r + z sqrt(r)). On twelve problems at epsilon 0.1 to 10, logarithms of rates with a
    deviation of 0.5 to 2 among them, D^2 is as with 8 times the curvature at the base rate, or
    better, in a third of the steps; with 3 times it, training diverges at a deviation of 1.5.
    """
    z = float(ndtri(part))
    highest = ((math.sqrt(z**2 + 4 * (rate + unit)) - z) / 2) ** 2
    return 1.5 * math.sqrt(rate * max(highest, rate)) / unit


LONG_STEP = 1.9
"""The step on mapped rows over the reciprocal of the learnt curvature.

1 and 4 train alike where steps are cooled; 2 is the limit.
"""


def momentum_steps(strength: float, is_equal: bool) -> float:
    """Return c: about sqrt(c R) steps with momentum do the work of R plain ones.

    On Adult, MAGIC and pen digits (a clipped softmax) at epsilon 0.1, 1 and 10, five seeds each,
    scores with 12 are within two standard errors of those with 24; Adult at 10 loses 0.04 points.
    exp(-c/2) of a deviation is left, so that c grows with the logarithm of the strength: raw
    predictions of three classes at a strength of 1e7 are .02 of their deviation off with 12.
    """
    return 4.5 if is_equal else 12.0 + 2 * math.log(max(1.0, strength / 1e5))


STEPS_SAVED = 3.2
"""The most plain steps that one with momentum stands for if all directions are alike.

More momentum, here it is .52, overshoots where curvature falls on the way: that of 9 plain steps
leaves slopes of margins 84 % too large, with any budget.
"""


def with_momentum(plain: float, strength: float, is_equal: bool) -> tuple[int, float, float]:
    """Return steps that do the work of plain ones, their momentum b, and their relative length.

    If one output is learnt and all directions are alike, steps are 1 + b times as long, so that n
    of them move as far as n (1 + b)/(1 - b) plain ones: sqrt(4.5 R) and a few of these leave
    0.1 % of coefficients undone of R = 64. 2 (1 + b) is the limit, and the learnt curvature is too
    near to it elsewhere: three classes have a log loss 0.25 above the least at a strength of 1e7,
    and Adult's at epsilon 0.3 is 0.003 higher.
    """
    c = momentum_steps(strength, is_equal)
    few = max(c / 2 + math.sqrt(c * (c / 4 + plain)), plain / STEPS_SAVED)
    enough = few if is_equal else math.sqrt(c * plain)
    n_steps = max(math.ceil(min(plain, enough)), MIN_STEPS)
    left = max(1 - n_steps / plain, 0.0)
    return (n_steps, left / (2 - left), 2 / (2 - left)) if is_equal else (n_steps, left, 1.0)


def most_steps(strength: float) -> float:
    """Return the largest number of plain steps on mapped rows.

    Time grows with the rows and no faster: where the noise would let pay for more (pen digits,
    flights and Adult at epsilon 100 and 1,000: up to 14,000), accuracies are within 0.001 and log
    losses within 0.005 of those of as many steps; with 1,000 they lose 0.005 and 0.02. That limit
    grows with the strength, so that what is left undone vanishes.
    """
    return 3000.0 * max(1.0, math.sqrt(strength / 1e4))


ENOUGH_STEPS = 64.0
"""The number of plain steps that are enough if all directions are alike and one output is learnt.

Longer training gains nothing there (MAGIC and California at epsilon 10, 50 columns alike at
1,000,000 rows). What they leave undone is exp(-90), and more of them would keep more noise.
"""


ENOUGH_STEPS_OF_CURVES = 256.0
"""The number of plain steps that is enough for curves, whose directions differ.

With 64 training and held-out scores are equal at epsilon 10: small directions are never learnt.
King County's prices gain .032 of R^2, hourly rentals .014, letters .004 of AUC.
"""


LEAST_ALIKE = 0.05
"""The least second moment of half of the directions of curves, over the largest, for steps."""


TIME_OF_SQUARES = 0.7
"""The factor of the time of training of curves by squares.

At epsilon 1 diamonds gain .005 to .009 of R^2 over the whole time, California's value .004, and
hourly rentals lose .004.
"""


def time_of_sample(strength: float, n_samples: int, moment: float, flatness: float) -> float:
    """Return the factor of the time of training of curves where chance is more than noise.

    Noise moves a prediction by time over strength; the chance of a sample moves it by time times
    the deviation of residuals, 0.3 of their bound and the root of ``flatness``, their variance over
    that of even classes, and the root of ``moment`` over the number of records. ``moment`` is a
    mean second moment of mapped rows, weighted by itself. Both together are as noise alone at a
    lower strength. Without it telco's log loss rises from .423 at epsilon 1 to .450 at 10; with it
    it falls to .420. Phoneme and California's prices lose up to .001.
    """
    return 1 / math.sqrt(1 + 0.3**2 * strength**2 * flatness * moment / n_samples)


STEPS_OF_SLOW = 6.4
"""The number of plain steps over the ratio of the largest curvature to that of most directions.

The length of a step suits the largest curvature, which may be the intercept's. The rows have less
where columns are many, or where a few long rows keep their length. exp(-9) of their coefficients is
left undone.
"""


def enough_steps_of_margins(strength: float) -> float:
    """Return how many plain steps are enough for margins.

    The better they are, the fewer are at the kink, which alone has curvature. Of 200,000 records of
    six normal columns, at epsilon 1,000, slopes that are within 5.7 % with 64 are within .1 %.
    """
    return ENOUGH_STEPS * max(1.0, strength / 1e4) ** 0.25


def enough_steps_of_rates(strength: float) -> float:
    """Return how many plain steps are enough for counts.

    They are fewer, for the curvature is hardly anywhere below that at the base rate. They grow with
    the logarithm of the strength, so that what is left undone vanishes. At 500,000 records of 5
    columns, epsilon 1 and 10, coefficients are within 1 and 0.3 % where logarithms of rates have a
    deviation of 1; with 12 they stay 2 and 1 % short, and with 34 noise is as large.
    """
    return 15.0 + 2.0 * math.log10(max(1.0, strength / 5e3))


def products_strength(n_features: int) -> float:
    """Return the strength from which on noisy sums of products serve a squared loss as steps do.

    The noise on products of d columns counts d times as much as that on products with a target, and
    no residual is bounded. At 94 a column R^2 is .009 below that of steps, at 100 to 137 between
    .003 below and .005 above, from 179 on between .0015 below (abalone) and .006 above: 8 to 50
    columns, independent and with a common factor, normal and skewed targets, and three tables.
    """
    return 150.0 * n_features if n_features <= MOST_MATRIX_COLUMNS else math.inf


TARGET_FACTOR = 0.4
"""The largest target in a sum of products, in units of the longest row."""


LONGEST_COOLED = 3.0
"""The largest factor of the time of cooled steps: longer training gains little."""


# --- other solvers --------------------------------------------------------------------------------


LEAST_EPOCHS = 16
"""The least number of passes over batches.

On Adult at epsilon 0.1 and 1, accuracy is within 0.001 of full batches, which take 95 and 1,592
passes; with one epoch, 0.01 and 0.003 below.
"""


def batch_noise(is_poisson: bool) -> float:
    """Return the noise on a fresh batch's sum, over the effect of a record, that is enough.

    Sampling amplifies nearly in full there.
    """
    return 4.0 if is_poisson else 2.0


LEAST_BATCH = 64
"""The least expected number of records of a Poisson batch."""


def shrinkage(n_parameters: int, signal: float) -> float:
    """Return alpha times the training time where the objective is perturbed.

    The penalty alone keeps the noise out of the directions that the data leave flat. Chosen on
    public data sets of 208 to 70,000 rows and 8 to 20,000 columns at epsilon 0.1 to 10.
    """
    return 2.5 * (n_parameters / signal**2) ** 0.2


TILT = 0.25
"""The largest part of epsilon that the Jacobian of objective perturbation may have."""
