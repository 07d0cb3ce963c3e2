"""The problem that a request trains on, of public numbers alone."""

from dataclasses import replace

from skdpdyn.core.objective import Objective, n_parameters_of, row_norm_of
from skdpdyn.core.rules import strength_of
from skdpdyn.privacy import Budget
from skdpdyn.training.conditioning import LARGEST_SPREAD
from skdpdyn.training.start import largest_start
from skdpdyn.training.values import Request


def objective_of(request: Request, training: Budget) -> Objective:
    """Return the problem of a request and the budget of training; "auto" becomes numbers."""
    solver = request.solver
    recipe = request.recipe
    scaling = request.scaling
    loss = recipe.loss(request)
    data_norm = 1.0 if recipe.maps else request.data_norm
    if request.clip is not None:
        clip = request.clip / request.data_norm if recipe.maps else request.clip
    else:
        n_parameters = n_parameters_of(loss, request.n_features, scaling)
        mu = solver.gaussian_mu(training, n_parameters)
        strength = strength_of(request.n_samples, mu, training.adjacency)
        clip = solver.auto_clip(loss, recipe.clip(request, n_parameters, strength))
        clip *= row_norm_of(data_norm, scaling)
    objective = Objective(
        loss,
        request.n_samples,
        request.n_features,
        data_norm,
        alpha=request.alpha or 0.0,
        clip=clip,
        intercept_scaling=scaling,
        spread=LARGEST_SPREAD if recipe.maps and request.may_have_matrix else 1.0,
        most_rows=request.most_rows,
        start_norm=largest_start(data_norm, scaling) if request.start else 0.0,
    )
    if request.alpha is not None:
        return objective
    return replace(objective, alpha=recipe.alpha(request, objective, training))
