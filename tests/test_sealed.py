"""Sealed sums: what one record changes is what they say, and nothing else opens or makes them."""

import ast
import copy
import math
import pickle
import re
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import pytest
from releases import PACKAGE
from scipy import sparse

from skdpdyn.core.expansion import Expansion, Levels, NumberColumn
from skdpdyn.core.losses import below, logistic, squared
from skdpdyn.core.noise import generators, noisy
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import Sealed, SealedCells, SealedCounts, opened, stacked
from skdpdyn.data.coded import Coded
from skdpdyn.data.local import LocalRows, counts_of_columns, rows_of
from skdpdyn.data.persons import by_person
from skdpdyn.data.row_map import RowMap
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.data.tally import RowTally, TalliedRows, means
from skdpdyn.inference.directions import Coordinates
from skdpdyn.inference.scored import ScoredRows
from skdpdyn.training.parameters import within

pytestmark = pytest.mark.every_case

# --- who makes sealed sums, and who opens them ----------------------------------------------------

HOMES = "skdpdyn.core.sealed", "skdpdyn.core.noise"
MAKE = {
    "core/sealed.py",
    "data/base.py",
    "data/coded.py",
    "data/local.py",  # counts of columns whose rows come in portions
    "data/tally.py",
    "inference/scored.py",
}
OPEN = {
    "core/sealed.py",
    "core/noise.py",
    "core/spending.py",  # which levels occur
    "data/base.py",
    "solvers/steps.py",  # steps whose iterates are not released
    "solvers/minimise.py",
}
ADD_NOISE = {"core/spending.py", "solvers/steps.py", "solvers/sufficient_statistics.py"}
RELEASE = {  # what is no sum over records, and has a theorem of its own
    "core/noise.py",
    "solvers/steps.py",
    "solvers/objective_perturbation.py",
    "solvers/output_perturbation.py",
    "audit/replay.py",
}


NAME = {
    "core/noise.py",  # which adds noise for that of a sealed sum
    "core/spending.py",  # the threshold of a vocabulary, and the noise to expect
    "core/objective.py",  # what records of runs and perturbed minimisers say
    "core/rules.py",  # the strength of a budget
    "solvers/runs.py",
    "solvers/batches.py",  # what records say
    "solvers/noisy_gd.py",
    "solvers/dp_sgd.py",  # how large a batch pays
    "solvers/objective_perturbation.py",
    "solvers/output_perturbation.py",
    "audit/replay.py",
}


class Read(NamedTuple):
    """What a file imports of sealed sums and of noise, and all that it calls and asks for."""

    imported: set[str]
    called: set[str]  # by a bare name, or by a method of it
    methods: set[str]
    attributes: set[str]


@cache
def package():
    """Return what each file of the package does, by its name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        imported = {
            alias.name for node in imports if node.module in HOMES for alias in node.names
        } | {
            # a module as a whole has all of them
            "opened"
            for node in imports
            for alias in node.names
            if f"{node.module}.{alias.name}" in HOMES
        }
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        bare = {getattr(function, "id", "") for function in calls}
        owners = {getattr(getattr(function, "value", None), "id", "") for function in calls}
        methods = {getattr(function, "attr", "") for function in calls}
        attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        name = path.relative_to(PACKAGE).as_posix()
        found[name] = Read(imported, imported & (bare | owners), methods, attributes)
    return found


def those(condition):
    """Return the files of which a condition holds."""
    return {name for name, read in package().items() if condition(read)}


def test_only_sources_of_rows_make_sealed_sums():
    kinds = {"Sealed", "SealedCounts", "SealedCells", "SealedProducts"}
    assert those(lambda read: read.called & kinds) <= MAKE


def test_only_sources_of_rows_read_sums_that_are_not_sealed():
    readers = those(lambda read: read.attributes & {"summed", "open_sums"})
    assert {name.partition("/")[0] for name in readers} == {"data"}


def test_only_noise_opens_sealed_sums():
    assert those(lambda read: "opened" in read.imported) <= OPEN
    assert those(lambda read: any("__value" in name for name in read.attributes)) == {
        "core/sealed.py"
    }
    assert those(lambda read: "noisy" in read.imported) <= ADD_NOISE
    assert those(lambda read: "release" in read.imported) <= RELEASE


def test_the_page_of_trust_lists_who_makes_opens_and_draws():
    page = (PACKAGE.parent / "doc" / "trust.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"``([\w/]+\.py)``", page))
    assert listed | {"audit/replay.py"} >= MAKE | OPEN | ADD_NOISE | RELEASE  # which shows noise


def test_no_release_names_a_sensitivity():
    """Where one is named, there is no sum over records, or nothing is released by it."""
    named = those(lambda read: read.methods & {"sum_sensitivity", "sensitivity"})
    assert {name for name in named if not name.startswith("privacy/")} <= NAME


REFUSED = {
    "float": float,
    "int": int,
    "bool": bool,
    "array": np.asarray,
    "sum": np.sum,
    "list": list,
    "len": len,
    "equals": lambda sealed: sealed == 123.0,
    "less": lambda sealed: sealed < 123.0,
    "plus": lambda sealed: sealed + 1,
    "times itself": lambda sealed: sealed * sealed,
    "of numpy": lambda sealed: np.float64(2) / sealed,
    "unpacked": lambda sealed: [*sealed],
    "pickled": pickle.dumps,
    "copied": copy.deepcopy,
    "hashed": hash,
    "vars": vars,
}


@pytest.mark.parametrize("use", REFUSED)
@pytest.mark.parametrize("kind", [Sealed, SealedCounts, lambda value: SealedCells([value])])
def test_nothing_else_reads_one(kind, use):
    sealed = kind([123.0, 456.0])
    with pytest.raises(TypeError) as refusal:
        REFUSED[use](sealed)
    assert "123" not in str(refusal.value)
    assert "123" not in f"{sealed} {sealed!r} {sealed / 2} {sealed[1:]}"


def test_public_numbers_and_places_keep_what_a_record_changes():
    sealed = Sealed([1.0, 2.0], 3.0, 1.5, 0.25)
    ways = (sealed / -2, 1.5), (sealed / 0.5, 6.0), (sealed * 2, 6.0), (sealed * 0.5, 1.5)
    for found, norm in (*ways, (sealed[:1], 3.0)):
        assert (found.norm, found.apart, found.rounding) == (norm, 1.5, 0.25)
    assert sealed.sensitivity("add_remove") == 3.75
    assert sealed.sensitivity("replace_one") == 5.25
    assert opened(sealed / -2).tolist() == [-0.5, -1.0]


# --- maps of cells --------------------------------------------------------------------------------


def test_cells_stay_in_their_columns():
    """SealedCells of two columns never become one, of which a record would be in twice."""
    cells = SealedCells(np.arange(12.0).reshape(3, 4))
    merged = cells.merged(np.array([[0, 0, 1, -1], [1, 1, 1, 1], [-1, -1, -1, 0]]), 2)
    assert opened(merged).tolist() == [1.0, 2.0, 0.0, 22.0, 11.0, 0.0]
    assert merged.norm == cells.norm == math.sqrt(3)
    with pytest.raises(ValueError, match="no cell 2 among 2"):
        cells.merged(np.array([0, 1, 2, 0]), 2)
    assert cells.columns([0, 2]).norm == math.sqrt(2)
    assert cells.only(np.array([1, 2, 9])).norm == math.sqrt(2)  # of two columns
    assert cells.at(5).sensitivity("replace_one") == 1
    both = cells.with_columns(np.array([True, False, False]), SealedCells(np.ones((3, 4))))
    assert opened(both)[:5].tolist() == [1.0, 1.0, 1.0, 1.0, 4.0]
    assert opened(cells.without([0, 11])).sum() == 55


# --- the algebra: each statistic of each source ---------------------------------------------------

N, D = 24, 3
ENDS = np.vstack(
    [
        np.eye(D)[0],
        -np.eye(D)[0],
        np.eye(D)[1],
        np.ones(D) / math.sqrt(D),
        -np.ones(D) / math.sqrt(D),
        np.zeros(D),
        1e6 * np.ones(D),
    ]
)
TARGETS = 0.0, 1.0, -1.0, 900.0
FAR = np.array([30.0, -20.0, 10.0, 5.0])


class InOrder(StreamedRows):
    """Rows that are read in order."""

    def __init__(self, X, y, _):
        super().__init__(X.shape)
        self._data = X, y

    def read(self):
        """Give out all rows."""
        yield self._data


def of_persons(X, y, weight, equal=False, most=4):
    """Return rows of persons, of whom the first has four, and the others two."""
    codes = np.maximum(np.arange(len(X)) // 2, 1) - 1
    if len(X) < N:  # without the first
        return rows_of(X[3:], y[3:], np.arange(N - 4) // 2, most, equal=equal)
    X = X.copy()
    y = y.copy()
    X[:4] = X[0]
    y[:4] = y[0]
    weights = np.ones(N)
    weights[:4] = weight
    return rows_of(X, y, codes, most, equal=equal, weight=weights)


def weighted(X, y, weight):
    """Return rows with a weight each, in [0, 1]."""
    weights = np.append([weight], np.linspace(0.25, 1, N - 1))[N - len(X) :]
    return LocalRows(X, y, weights)


SOURCES = {
    "dense": lambda X, y, _: LocalRows(X, y),
    "single": lambda X, y, _: LocalRows(X.astype(np.float32), y),
    "csr": lambda X, y, _: LocalRows(sparse.csr_array(X), y),
    "streamed": InOrder,
    "persons": of_persons,
    "equal persons": partial(of_persons, equal=True, most=2),
    "weighted": weighted,
}


def mapped(rows, matrix=False, centre=True):
    """Return rows under a map that spreads them."""
    plain = rows.is_sparse
    centred = np.full(D, 0.1) if centre and not plain else None
    weights = np.array([1.0, 2.0, 0.5])
    if matrix and not plain:
        weights = np.diag(weights) + 0.1
    return rows.with_map(RowMap(centred, weights, norm=0.7, radius=1.0))


def objective(rows, loss=squared, clip=1.5):
    """Return a problem whose gradients keep room for their rounding."""
    return Objective(
        loss,
        n_samples=rows.n_records,
        n_features=D,
        data_norm=1.0,
        clip=clip,
        intercept_scaling=0.5,
        exact=True,
        most_rows=rows.most_rows,
    )


def projection():
    """Return a public sketch."""
    return sparse.csr_array(np.array([[1.0, 0.0], [0.0, -1.0], [1.0, 0.0]]))


GRID = np.array([[-1.0, 1.0]] * D)
STATISTICS = {
    "rows within": lambda rows: rows.counts("norms", np.array([0.5, 2.0])).at(0),
    "rows within each": lambda rows: rows.counts("norms", np.array([0.1, 2.0])),
    "lengths within": lambda rows: mapped(rows).counts("lengths", np.array([0.5, 1.5])).at(0),
    "classes": lambda rows: rows.class_counts(2),
    "octaves": lambda rows: rows.octave_counts(),
    "parts": lambda rows: rows.part_counts(GRID, np.ones(D, bool)),
    "parts of one": lambda rows: rows.part_counts(GRID, np.arange(D) < 1).columns([0]),
    "octaves of targets": lambda rows: rows.octave_counts("targets"),
    "targets": lambda rows: rows.target_sum(),
    "targets from 0": lambda rows: rows.target_sum(positive=True),
    "weights": lambda rows: rows.weight_total(),
    "sums": lambda rows: rows.column_sums(0.7),
    "squares": lambda rows: mapped(rows).column_squares(),
    "moment": lambda rows: mapped(rows, matrix=True).second_moment(),
    "moment with a constant": lambda rows: mapped(rows, centre=False).second_moment(0.5),
    "sketch": lambda rows: mapped(rows).sketched_moment(projection(), 0.5),
    "eigenvalue": lambda rows: mapped(rows).second_moment().largest_eigenvalue(rows.n_records),
    "products": lambda rows: mapped(rows, centre=False).products_with_targets(1.25**0.5, 0.5),
    "gradient": lambda rows: rows.gradient(objective(rows), FAR),
    "gradient of a map": lambda rows: mapped(rows).gradient(objective(rows, logistic, 9.0), -FAR),
    "residuals": lambda rows: mapped(rows).residual_sum(objective(rows), 1.0, FAR),
    "counts below": lambda rows: mapped(rows).residual_sum(objective(rows, below(0.3)), 0.7, FAR),
}
DENSE = {"octaves", "parts", "parts of one", "moment with a constant", "products", "eigenvalue"}
NEAR = {
    ("rows within each", "replace_one"): 0.7,  # who is within the first is within the second
    ("eigenvalue", "replace_one"): 0.9,
    ("eigenvalue", "add_remove"): 0.9,
    ("weights", "replace_one"): 0.0,
    ("sketch", "replace_one"): 0.85,
}


def neighbours(source):
    """Yield rows whose first record, or person, takes each of some ends; at last without it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, D)) / math.sqrt(D)
    y = rng.choice(TARGETS[:2], N)
    for row, target in product(ENDS, TARGETS):
        one = X.copy()
        of_one = y.copy()
        one[0] = row
        of_one[0] = target
        yield source(one, of_one, 1.0)
    yield source(X, y, 0.0)
    yield source(X[1:], y[1:], None)


WAYS = [
    (source, name)
    for source, name in product(SOURCES, STATISTICS)
    if not (name in DENSE and source == "csr")
]


@pytest.mark.parametrize(("source", "name"), WAYS)
def test_a_record_changes_what_a_sum_says(source, name):
    found = [STATISTICS[name](rows) for rows in neighbours(SOURCES[source])]
    check(found, name)


def check(found, name, near=0.95):
    """Hold what sums are apart against what they say; the last one is without the record."""
    values = np.array([opened(one).ravel() for one in found])
    assert np.all(np.isfinite(values))
    values = values[:, np.ptp(values, axis=0) > 0]
    pairs = {
        "replace_one": product(values[:-1], values[:-1]),
        "add_remove": product(values[:-1], values[-1:]),
    }
    for relation, of_relation in pairs.items():
        limit = max(one.sensitivity(relation) for one in found)
        moved = max(float(np.linalg.norm(one - other)) for one, other in of_relation)
        assert moved <= limit * (1 + 1e-12), relation
        assert moved >= NEAR.get((name, relation), near) * limit, (relation, moved / limit)


def test_a_record_changes_counts_of_columns_that_come_in_portions():
    """As often as they come, and by its weight; also where they come at once."""

    def counted(edges, X, y, weight):
        del y
        weights = np.append([weight], np.linspace(0.25, 1, N - 1))[N - len(X) :]
        portions = [
            (slice(*pair), partial(lambda first, last, j: X[first:last, j], *pair))
            for pair in pairwise((0, *edges, len(X)))
        ]
        octaves = lambda _, rows: rows.octave_counts()  # noqa: E731
        return counts_of_columns(portions, range(D), octaves, len(X), weights)

    found = [list(neighbours(partial(counted, edges))) for edges in ((), (5, 11))]
    check(found[1], "portions")
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(opened(one), opened(other))


def test_a_gradient_that_leaves_no_room_for_its_rounding_cannot_be_released():
    rows = LocalRows(ENDS, np.zeros(len(ENDS)))
    (generator,) = generators(None)
    for exact in (True, False):
        sealed = rows.gradient(replace(objective(rows), exact=exact), FAR)
        assert sealed.norm == objective(rows).lipschitz
        if exact:
            assert noisy(sealed, 1.0, "add_remove", generator).std == sealed.norm
        else:
            with pytest.raises(ValueError, match="scale=inf"):
                noisy(sealed, 1.0, "add_remove", generator)


# --- the algebra: rows of cells -------------------------------------------------------------------

TABLES = Expansion(
    (NumberColumn(-1.0, 1.0), Levels(("a", "b", "c")), NumberColumn(0.0, 4.0)),
    2,
    1.0,
    full_levels=2.0,
)
OF_CELLS = {
    "cells": lambda rows: rows.cell_counts(),
    "cells of numbers": lambda rows: rows.cell_counts().only(TABLES.cells_of_numbers),
    "sums": lambda rows: rows.column_sums(TABLES.row_norm),
    "moment": lambda rows: rows.second_moment(),
    "lengths within": lambda rows: rows.counts("lengths", np.array([0.75])).at(0),
}
WIDTH = {"sums": 0.4, "moment": 0.5, "lengths within": 0.0}  # tables are not tight


@pytest.mark.parametrize("name", OF_CELLS)
@pytest.mark.parametrize("persons", [False, True])
def test_a_record_of_cells_changes_what_a_sum_says(persons, name):
    rng = np.random.default_rng(0)
    sizes = [column.n_cells for column in TABLES.columns]
    codes = np.column_stack([rng.integers(0, size - 1, N) for size in sizes])
    owners = np.maximum(np.arange(N) // 2, 1) - 1
    first = slice(0, 4 if persons else 1)
    row_map = RowMap(None, np.ones(TABLES.n_features), norm=1.0, radius=TABLES.row_norm)
    found = []
    for ends in product((0, 5, sizes[0] - 1), range(3), (0, sizes[2] // 2, sizes[2] - 2)):
        codes[first] = ends
        cells = Coded(codes.astype(TABLES.code_dtype), TABLES)
        rows = rows_of(cells, np.zeros(N), owners if persons else None, 4)
        found.append(OF_CELLS[name](rows.with_map(row_map)))
    rest = Coded(codes[first.stop :].astype(TABLES.code_dtype), TABLES)
    owners = owners[first.stop :] - 1
    rows = rows_of(rest, np.zeros(N - first.stop), owners if persons else None, 4)
    found.append(OF_CELLS[name](rows.with_map(row_map)))
    check(found, name, WIDTH.get(name, 0.8))


def test_tables_that_are_longer_than_they_say_are_shortened():
    """What bounds a row of cells is not what is declared of its tables, but these themselves."""
    codes = np.zeros((N, len(TABLES.columns)), TABLES.code_dtype)
    assert TABLES.longest <= TABLES.row_norm <= 1.5 * TABLES.longest
    long = replace(TABLES)
    vars(long)["tables"] = [9 * table for table in TABLES.tables]
    for expansion, shortened in ((TABLES, False), (long, True)):
        rows = rows_of(Coded(codes, expansion), np.zeros(N), None, 1)
        total = rows.column_sums(TABLES.row_norm)
        assert np.linalg.norm(opened(total)) <= N * TABLES.row_norm * (1 + 1e-12)
        assert np.isclose(np.linalg.norm(opened(total)), N * TABLES.row_norm) == shortened


# --- the algebra: what a likelihood says of rows --------------------------------------------------

OF_LIKELIHOODS = {
    "gradient": lambda rows, numbers: rows.gradient(numbers[:, None], 0.7, np.ones((1, D + 1))),
    "curvature": lambda rows, numbers: rows.curvature(
        lambda a, b: np.abs(numbers), 0.25, np.ones((1, D + 1))
    ),
    "curvatures": lambda rows, numbers: rows.curvature(
        lambda a, b: np.abs(numbers) / (1 + (a != b)), 0.25, np.ones((2, D + 1))
    ),
    "scores": lambda rows, numbers: rows.scores(numbers[:, None], 0.7, np.ones((1, D + 1))),
}


@pytest.mark.parametrize("name", OF_LIKELIHOODS)
@pytest.mark.parametrize("of_records", [SOURCES["dense"], of_persons, weighted])
@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_a_record_changes_what_a_likelihood_says(spread, of_records, name):
    """Whatever the likelihood says of its rows: terms beyond their limit are cut, and NaN.

    Rows that coordinates lengthen weigh less, so that gradients of them are shorter than may be.
    """
    terms = np.random.default_rng(0).uniform(-1, 1, N)
    *neighbouring, without = neighbours(of_records)
    found = []
    for rows in (*neighbouring, without):
        plain = rows.with_map(RowMap(None, np.ones(D), norm=1.0, radius=1.0))
        scored = ScoredRows(plain, Coordinates(np.zeros(D), spread * np.eye(D), 0.5), 1.0)
        numbers = terms[N - len(rows.y) :].copy()
        for end in (None,) if rows is without else (9.0, -9.0, 0.1, math.nan):
            if end is not None:
                numbers[: N - len(without.y)] = end
            found.append(OF_LIKELIHOODS[name](scored, numbers))
    check(found, name, 0.9 if spread == 1 else 0.25)


def test_rows_in_time_count_once_it_is_known_which_keep_a_person_bounded():
    """A person with four rows that say the same adds no more than is said of a few."""
    y = np.append(np.zeros(4), np.ones(N - 4))
    rows = of_persons(np.tile(ENDS[0], (N, 1)), y, 1.0, equal=True)
    plain = rows.with_map(RowMap(None, np.ones(D), norm=1.0, radius=1.0))
    scored = ScoredRows(plain, Coordinates(np.zeros(D), np.eye(D), 0.5), 1.0, in_time=True)
    terms = np.where(rows.y > 0, -0.01, 0.99)
    theta = np.ones((1, D + 1))

    def sums():
        gradient = scored.gradient(terms[:, None], 1.0, theta)
        return gradient, scored.scores(terms[:, None], 1.0, theta)

    assert [float(np.abs(opened(one)).sum()) for one in sums()] == [0.0, 0.0]
    scored.row_weights(terms, np.full(N, 0.01), 1.0, 0.25)
    for one, of_others in zip(sums(), (0.2, 1e-3), strict=True):
        assert 0.5 * one.norm < np.linalg.norm(opened(one)) <= one.norm * (1 + of_others)


# --- the algebra: numbers that rows have by themselves --------------------------------------------

TREE = np.vstack([np.kron(np.eye(2), np.ones(4)), np.kron(np.eye(4), np.ones(2)), np.eye(8)])
FACTORS = np.array([math.sqrt(2), 1.0, 1.0, math.sqrt(2), 1.0, 1.0, 1.0, 1.0])
TALLIES = {
    "sum": lambda tally, a, b, place: tally.sum(a),
    "signed sum": lambda tally, a, b, place: tally.sum(4 * b, -1.0),
    "columns": lambda tally, a, b, place: tally.columns(np.column_stack([4 * b, 4 * b])),
    "columns from 0": lambda tally, a, b, place: tally.columns(np.column_stack([a, a]), 0.0),
    "by place": lambda tally, a, b, place: tally.by_place(a, place, 8),
    "moments": lambda tally, a, b, place: tally.moments(b),
    "signed": lambda tally, a, b, place: tally.signed(
        np.column_stack([4 * b, 0 * b]), 0.7, [place, (place + 3) % 8], [8, 8]
    ),
    "counts": lambda tally, a, b, place: tally.counts(place, 8),
    "one count": lambda tally, a, b, place: tally.counts(place, 8).at(3),
    "tree": lambda tally, a, b, place: tally.by_strategy(place, TREE),
    "at several": lambda tally, a, b, place: tally.at_several(
        [place, np.where(np.isin(place, (0, 3)), -1, (place + 5) % 8)], FACTORS, math.sqrt(2)
    ),
    "within": lambda tally, a, b, place: tally.within(a, np.array([0.1, 0.4])),
    "one within": lambda tally, a, b, place: tally.within(a, np.array([0.1, 0.4])).at(1),
    "stacked": lambda tally, a, b, place: stacked(
        [tally.sum(a), tally.moments(b), tally.by_place(a, place, 8)]
    ),
    "stacked places": lambda tally, a, b, place: stacked(
        [tally.sum(b + 0.5), tally.by_place(a, place, 8)]
    ),
    "targets of rows": lambda tally, a, b, place: TalliedRows(
        np.nan_to_num(a), np.ones(a.size), tally
    ).target_sum(positive=True),
}
OWNERS = {"record": None, "person": np.maximum(np.arange(N) // 2, 1)}
OF_TALLIES = {"within": 0.7, "stacked": 0.87, "moments": 0.9, "total": 0.0}


@pytest.mark.parametrize("name", TALLIES)
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("part", [None, 1.0, 7.0])
def test_a_record_changes_what_a_tally_says(owner, part, name):
    """Parts of weights above 1 count as 1."""
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 1, N)
    b = rng.uniform(-0.5, 0.5, N)
    place = rng.integers(0, 8, N)
    owners = OWNERS[owner]
    first = slice(0, 1 if owners is None else 4)
    weights = None if part is None else np.full(N, part)
    found = []
    ends = (0.0, 1.0, 7.0, math.nan), (-0.5, 0.0, 0.48, -9.0, 0.02), (0, 3, 7, -1, 99)
    for numbers in product(*ends):
        for of_rows, end in zip((a, b, place), numbers, strict=True):
            of_rows[first] = end
        found.append(TALLIES[name](RowTally.by(N, owners, weights), a, b, place))
    rest = slice(first.stop, N)
    left = None if owners is None else owners[rest]
    tally = RowTally.by(N - first.stop, left, None if weights is None else weights[rest])
    found.append(TALLIES[name](tally, a[rest], b[rest], place[rest]))
    check(found, name, OF_TALLIES.get(name, 0.95))


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS)
def test_a_weight_moves_the_weight_of_all_by_1(owners):
    """From 0 to its bound, and beyond it no more."""
    found = []
    for weight in (0.0, 1.0, 2999.0):
        part = np.full(N, 0.5)
        part[: 1 if owners is None else 4] = weight
        found.append(RowTally.by(N, owners, part).total())
    low, *others = map(float, (opened(one) for one in found))
    assert [high - low for high in others] == pytest.approx([1.0, 1.0], rel=1e-12)
    assert found[0].sensitivity("replace_one") == pytest.approx(1.0, rel=1e-12)


def test_a_record_twice_at_a_place_does_not_count():
    """Nor one whose factors are longer together than is said."""
    places = [np.array([0, 1, 1, 2]), np.array([-1, 2, 1, 3])]
    found = RowTally(4).at_several(places, FACTORS[:4], math.sqrt(2))
    assert opened(found).tolist() == [math.sqrt(2), 1.0, 1.0, 0.0]


# --- weights --------------------------------------------------------------------------------------


def test_a_weight_follows_from_its_own_row_and_public_bounds():
    weights = np.linspace(0.1, 20, 50)
    found = within((0.5, 10.0), weights, 50)
    assert found.tolist() == [min(max(weight, 0.5), 10.0) / 10.0 for weight in weights.tolist()]
    for other in (0.0, 1e300):
        weights[0] = other
        assert within((0.5, 10.0), weights, 50)[1:].tolist() == found[1:].tolist()


def test_rows_of_a_record_weigh_at_most_1():
    X = np.ones((4, 1))
    _, persons, weight = by_person(np.array([0, 1, 0, 0]), 3)
    rows = LocalRows(X, np.zeros(4), weight, persons=persons, most_rows=3)
    for factor in (7.0, math.nan, -1.0):
        weights = rows.weighted_by(np.array([factor, 1.0, 1.0, 1.0])).weight
        assert np.all(weights <= rows.weight)
        assert np.all(weights >= 0)
    alike = LocalRows(X, np.zeros(4), weight, persons=persons, most_rows=5).weighted_alike()
    np.testing.assert_allclose(alike.weight, 1 / 5, rtol=1e-14)  # though nobody has so many
    for wrong in (None, np.ones(4), np.array([0.5, 1.0, 0.25, 0.26])):
        with pytest.raises(ValueError, match="rows of a person must add up to at most 1"):
            LocalRows(X, np.zeros(4), wrong, persons=persons, most_rows=3)


def test_scores_of_other_processes_are_clipped_again():
    found = means([0.5, 30.0, math.nan, -9.0], 10)
    assert opened(found).tolist() == [0.5, 1.0, 0.0, 0.0]
    assert found.sensitivity("replace_one") == pytest.approx(0.1)
