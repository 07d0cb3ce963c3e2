"""Records of small runs: a test says what is different in its own."""

from skdpdyn.privacy import (
    CyclicBatches,
    NoisyGradientDescent,
    OnePass,
    PoissonSubsampled,
    WithoutReplacement,
)

STEPS = {"step_size": 0.5, "strong_convexity": 0.1, "smoothness": 1.0}
BATCHES = {"n_samples": 100, "batch_size": 10, "n_epochs": 4, "noise_multiplier": 3.0, **STEPS}
PASS = {"n_samples": 40, "noise": 2.0, "step_size": 0.5, "lipschitz": 1.0, "smoothness": 0.5}


def descent(**changes):
    return NoisyGradientDescent(**{"n_steps": 40, "noise_multiplier": 8.0, **STEPS, **changes})


def cyclic(**changes):
    return CyclicBatches(**{**BATCHES, **changes})


def fresh(**changes):
    return WithoutReplacement(**{**BATCHES, **changes})


def poisson(**changes):
    run = {"sampling_probability": 0.1, "noise_multiplier": 2.0, "n_steps": 40}
    return PoissonSubsampled(**{**run, **changes})


def one_pass(**changes):
    return OnePass(**{**PASS, "diameter": 1.0, **changes})
