"""The candidates of a private search: tunable parameters, and how one is drawn and built."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from skdpdyn.linear_model.base import PrivateLinearModel
from skdpdyn.model_selection._costs import costed, with_parameters
from skdpdyn.training.base import quoting_no_records, refuse_dates
from skdpdyn.training.foreign import SILENCE, own_copy
from skdpdyn.training.sources import sources_of

PUBLIC = ("classes", "target_bounds")
# the budget, and what is public
NOT_TUNED = ("epsilon", "delta", "adjacency", "random_state", *PUBLIC)


@dataclass(frozen=True, eq=False)
class Candidates:
    """An estimator and the values of its parameters to choose from."""

    estimator: Any
    distributions: Any

    def _grids(self):
        """Return the candidates as a list of dicts, checked."""
        grids = self.distributions
        grids = [grids] if isinstance(grids, Mapping) else grids
        if (
            not isinstance(grids, (list, tuple))
            or not grids
            or not all(isinstance(grid, Mapping) for grid in grids)
        ):
            raise TypeError(
                f"param_distributions={self.distributions!r} must be a dict or a list of dicts"
            )
        for name, values in (item for grid in grids for item in grid.items()):
            if not isinstance(name, str):
                raise TypeError(
                    f"param_distributions holds {name!r}: names of parameters are needed"
                )
            if name.rpartition("__")[2] in NOT_TUNED:
                raise ValueError(
                    f"param_distributions holds {name!r}: {', '.join(NOT_TUNED)} are the "
                    "budget's or public, and not tuned. "
                    "Pass epsilon and delta to the search, the others to the estimator"
                )
            listed = (
                isinstance(values, (Sequence, np.ndarray))
                and not isinstance(values, str)
                and len(values)
            )
            if not (listed or hasattr(values, "rvs")):
                raise ValueError(
                    f"param_distributions[{name!r}]={values!r} must be a list or an array of "
                    "values, at least one, or have rvs"
                )
        return grids

    def is_grid(self):
        """Return whether all values are listed, so that every candidate is known."""
        return not any(hasattr(values, "rvs") for grid in self._grids() for values in grid.values())

    def pool(self):
        """Return all candidates of a grid; of distributions, the estimator as it is."""
        return list(ParameterGrid(self._grids())) if self.is_grid() else [{}]

    def given(self):
        """Return the sources of all that is listed, see `skdpdyn.training.sources`."""
        values = [clone(self.estimator)] + [
            clone(value, safe=False)
            for grid in self._grids()
            for listed in grid.values()
            if not hasattr(listed, "rvs")
            for value in listed
        ]
        return tuple(dict.fromkeys(sources_of(values, "param_distributions")))

    def draw(self, generator):
        """Draw a candidate."""
        if self.is_grid():
            grid = ParameterGrid(self._grids())
            return grid[int(generator.integers(len(grid)))]
        grids = self._grids()
        grid = grids[generator.integers(len(grids))]
        # of a copy: one that counts its calls would count trials, and draw each by another law
        drawn = {
            name: own_copy(values).rvs(random_state=generator)
            if hasattr(values, "rvs")
            else values[int(generator.integers(len(values)))]
            for name, values in sorted(grid.items())
        }
        of_law = {name: value for name, value in drawn.items() if hasattr(grid[name], "rvs")}
        if any(sources_of(of_law, "")):
            raise ValueError(
                f"param_distributions draws models for {sorted(of_law)} from a distribution: list "
                "them, so that it is known what a search was given"
            )
        return drawn

    def build(self, candidate, budget, public, seed):
        """Build the estimator with a candidate's parameters and the budget of a trial."""
        # a clone of some steps is the step itself, as an earlier trial left it
        estimator = with_parameters(own_copy(self.estimator), own_copy(candidate))
        model, base = private_model(estimator), private_model(self.estimator)
        for name in PUBLIC:  # a candidate may be a whole step
            tuned, public_value = getattr(model, name, None), getattr(base, name, None)
            if tuned is not None and (
                public_value is None
                or not np.array_equal(np.unique(tuned), np.unique(public_value))
            ):
                raise ValueError(
                    f"{name}={tuned!r} of a candidate: what is public is not tuned. Pass {name} "
                    "to the estimator alone"
                )
            if public_value is not None:
                model.set_params(**{name: public_value})
        model.set_params(**budget, **public, random_state=seed)
        for whole in (self.estimator, estimator):
            if any(
                getattr(part, "_skl_callbacks", None)
                for part in (whole, *whole.get_params().values())
            ):
                raise ValueError(
                    "callbacks would be told of every trial: pass an estimator without them"
                )
        # Output or cached files of each trial would reveal the number of trials
        quiet = {"verbose": False, "memory": None}
        names = [(name, name.rpartition("__")[2]) for name in estimator.get_params()]
        return estimator.set_params(**{name: quiet[last] for name, last in names if last in quiet})


def private_model(estimator):
    """Return the private linear model at the end of an estimator."""
    model = costed(estimator)
    if not isinstance(model, PrivateLinearModel):
        raise ValueError(
            f"{model!r} cannot be searched: pass a model of skdpdyn.linear_model, or a Pipeline "
            "that ends in one"
        )
    return model


def last_step(estimator):
    """Return the model of an estimator, which is its last step if it is a pipeline."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def n_columns(estimator, rows):
    """Return the number of columns that reach the model."""
    if isinstance(estimator, Pipeline):
        if len(estimator.steps) > 1:
            with SILENCE:
                before, rows = own_copy((clone(estimator[:-1]), rows))
                rows = quoting_no_records(before.fit_transform, rows)
        return n_columns(estimator.steps[-1][1], rows)
    refuse_dates(rows)
    rows = quoting_no_records(
        check_array, rows, accept_sparse=True, dtype=None, ensure_all_finite=False
    )
    return rows.shape[1]
