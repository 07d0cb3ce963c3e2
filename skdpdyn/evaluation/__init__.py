"""Scores of a model on private records: all metrics and curves follow from one noisy histogram.

A test score is a release like any other. `evaluate` counts the records in bins of their score and
by label, adds noise to the counts once, and computes all else from these: accuracy, recall and
precision at every threshold, the ROC curve, the calibration curve. Each number has an interval,
because the distribution of the noise is public.
"""

from skdpdyn.evaluation.curves import PrivateCalibrationDisplay, PrivateRocCurveDisplay
from skdpdyn.evaluation.estimates import Estimate
from skdpdyn.evaluation.prediction import PredictionInterval, prediction_interval
from skdpdyn.evaluation.results import (
    ClassEvaluation,
    PairedEvaluation,
    PrivateEvaluation,
    QuantileEvaluation,
    RateEvaluation,
    RegressionEvaluation,
    ScoreEvaluation,
)
from skdpdyn.evaluation.scoring import evaluate

__all__ = [
    "ClassEvaluation",
    "Estimate",
    "PairedEvaluation",
    "PredictionInterval",
    "PrivateCalibrationDisplay",
    "PrivateEvaluation",
    "PrivateRocCurveDisplay",
    "QuantileEvaluation",
    "RateEvaluation",
    "RegressionEvaluation",
    "ScoreEvaluation",
    "evaluate",
    "prediction_interval",
]
