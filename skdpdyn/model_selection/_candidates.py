"""The candidates of a private search: tunable parameters, and how one is drawn and built."""

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from skdpdyn.core.columns import Frame
from skdpdyn.core.expansion import bounds_by_column
from skdpdyn.core.schema import apply_schema
from skdpdyn.linear_model.base import PrivateLinearModel
from skdpdyn.model_selection._steps import costed, with_parameters
from skdpdyn.model_selection._trials import name_of
from skdpdyn.privacy.checks import is_auto, quoted
from skdpdyn.training.base import quoting_no_records
from skdpdyn.training.foreign import SILENCE, own_copy
from skdpdyn.training.sources import sources_of
from skdpdyn.training.targets import listed

PUBLIC = ("classes", "target_bounds")
# the budget, and what is public
NOT_TUNED = ("epsilon", "delta", "adjacency", "random_state", "quantile", *PUBLIC)


@dataclass(frozen=True, eq=False)
class Candidates:
    """An estimator and the values of its parameters to choose from."""

    estimator: Any
    listed: Any

    @cached_property
    def grid(self):
        """All candidates, equally likely."""
        grids = [self.listed] if isinstance(self.listed, dict) else self.listed
        if not (isinstance(grids, list | tuple) and all(isinstance(grid, dict) for grid in grids)):
            raise TypeError(f"param_grid={quoted(self.listed)} must be a dict of lists, or several")
        grid = ParameterGrid(self.listed)
        for name in (name for part in grid.param_grid for name in part):
            if not isinstance(name, str) or name.rpartition("__")[2] in NOT_TUNED:
                raise ValueError(
                    f"param_grid holds {name!r}: names of parameters are needed. "
                    f"{', '.join(NOT_TUNED)} are the budget's or public, and not tuned: pass "
                    "epsilon and delta to the search, the others to the estimator"
                )
        if not len(grid):
            raise ValueError(
                f"param_grid={quoted(self.listed)} holds no candidate: list a value for each name"
            )
        return grid

    def sources(self):
        """Return the sources of all that is listed, see `skdpdyn.training.sources`."""
        listed = [value for candidate in self.grid for value in candidate.values()]
        values = [clone(self.estimator), *(clone(value, safe=False) for value in listed)]
        return tuple(dict.fromkeys(sources_of(values, "param_grid")))

    def draw(self, generator):
        """Draw a candidate."""
        return self.grid[int(generator.integers(len(self.grid)))]

    def build(self, candidate, budget, facts, seed):
        """Build the estimator with a candidate's parameters, the budget of a trial, and facts."""
        # a clone of some steps is the step itself, as an earlier trial left it
        estimator = with_parameters(own_copy(self.estimator), own_copy(candidate))
        model = private_model(estimator)
        base = public_model(self.estimator)
        for name in PUBLIC:  # a candidate may be a whole step
            tuned, public_value = (listed(getattr(owner, name, None)) for owner in (model, base))
            if tuned is not None and (
                public_value is None
                or not np.array_equal(np.unique(tuned), np.unique(public_value))
            ):
                raise ValueError(
                    f"{name}={quoted(tuned)} of a candidate: what is public is not tuned. Pass "
                    f"{name} to the estimator alone"
                )
        lent = self._lent(candidate, model, base, facts)
        model.set_params(**budget, **lent, random_state=seed)
        for either in (self.estimator, estimator):
            if any(
                getattr(part, "_skl_callbacks", None)
                for part in (either, *either.get_params().values())
            ):
                raise ValueError(
                    "callbacks would be told of every trial: pass an estimator without them"
                )
        # Output or cached files of each trial would reveal the number of trials
        quiet = {"verbose": False, "memory": None}
        names = [(name, name.rpartition("__")[2]) for name in estimator.get_params()]
        return estimator.set_params(**{name: quiet[last] for name, last in names if last in quiet})

    def _lent(self, candidate, model, base, facts):
        """Return facts for a candidate; those of columns only if its columns are the same."""
        lent = {name: fact for name, fact in facts.items() if hasattr(model, name)}
        stem = name_of("", self.estimator)
        same = all(name.startswith(stem) or f"{name}__" == stem for name in candidate)
        if not (same and _takes_bounds(model, base)):
            bounds = lent.pop("bounds", None)
            if same and isinstance(bounds, dict):  # of an additive model, whose columns are named
                lent["bounds"] = bounds | _own_bounds(model, list(bounds))
        if "categories" in lent and not same:
            lent["categories"] = None if is_auto(model.categories) else model.categories
        weights = getattr(model, "class_weight", None)
        if isinstance(weights, dict) and "classes" in facts and listed(base.classes) is None:
            # a fit ignores those of others, where classes are bought
            labels = set(facts["classes"].tolist())
            lent["class_weight"] = {
                label: weight for label, weight in weights.items() if label in labels
            }
        return lent


def _takes_bounds(model, base):
    """Return whether a model would buy the same bounds as ``base``, so that it takes those."""
    if not is_auto(model.bounds):
        if not (isinstance(model.bounds, dict) and isinstance(base.bounds, dict)):
            return False
        same = model.bounds.keys() == base.bounds.keys()
        return same and all(
            np.array_equal(pair, base.bounds[key]) for key, pair in model.bounds.items()
        )
    free = is_auto(model.data_norm) and is_auto(model.conditioning) and model.start is None
    return free or model.family.expand is not None


def _own_bounds(model, columns):
    """Return the bounds that a model has itself, by the names of columns of numbers."""
    if isinstance(model.bounds, dict):
        return model.bounds
    pairs = bounds_by_column(model.bounds, "bounds", len(columns))
    return dict(zip(columns, map(tuple, pairs.tolist()), strict=True))


def private_model(estimator):
    """Return the private linear model at the end of an estimator."""
    model = costed(estimator)
    last = last_step(estimator)
    if last is not model or not isinstance(model, PrivateLinearModel):
        raise ValueError(
            f"{quoted(last)} cannot be searched: pass a model of skdpdyn.linear_model, or a "
            "Pipeline that ends in one"
        )
    return model


def last_step(estimator):
    """Return the model of an estimator, which is its last step if it is a pipeline."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def public_model(estimator):
    """Return a copy of the private linear model with the parameters of its schema."""
    return apply_schema(copy(private_model(estimator)))


def reaching(estimator, rows):
    """Return the rows that reach the model of an estimator."""
    if not isinstance(estimator, Pipeline):
        return rows
    if len(estimator.steps) > 1:
        with SILENCE:
            before, rows = own_copy((clone(estimator[:-1]), rows))
            rows = quoting_no_records(before.fit_transform, rows)
    return reaching(estimator.steps[-1][1], rows)


def n_columns(estimator, rows):
    """Return the number of columns that reach the model."""
    options = {"accept_sparse": True, "dtype": None, "ensure_all_finite": False}
    rows = reaching(estimator, rows)
    frame = Frame.of(rows)
    if frame is not None:
        return len(frame.kinds)
    return quoting_no_records(check_array, rows, **options).shape[1]
