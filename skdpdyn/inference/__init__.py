"""Standard errors and confidence intervals for coefficients that are learnt with noise."""

from skdpdyn.inference.planned import PlannedTable, PlannedTables, plan_table
from skdpdyn.inference.regression import private_regression
from skdpdyn.inference.splines import Curve
from skdpdyn.inference.survival import IncidenceCurve, SurvivalCurve, person_periods
from skdpdyn.inference.table import PrivateSummary, WaldTest

__all__ = [
    "Curve",
    "IncidenceCurve",
    "PlannedTable",
    "PlannedTables",
    "PrivateSummary",
    "SurvivalCurve",
    "WaldTest",
    "person_periods",
    "plan_table",
    "private_regression",
]
