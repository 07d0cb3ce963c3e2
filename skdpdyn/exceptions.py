"""Warnings and errors of the library."""

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

__all__ = [
    "BudgetExceededError",
    "CalibrationError",
    "ClusterError",
    "ConvergenceError",
    "PrivacyLeakWarning",
    "PrivacyUtilityWarning",
    "PrivacyWeakWarning",
    "UnsupportedMechanismError",
]

_PACKAGE = str(Path(__file__).parent)


def optional(module: str, extra: str) -> Any:
    """Import an optional library, or raise an error with the line to paste."""
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError:
        line = f'{library} is needed: pip install "skdpdyn[{extra}]"'
    raise ImportError(line, name=library)


def warn(text: str, category: type[Warning]) -> None:
    """Warn of the line outside of this package that led here, however deep it is below."""
    frame = sys._getframe(1)
    level = 2
    outermost = 2
    while frame.f_back is not None:
        frame = frame.f_back
        level = level + 1
        if frame.f_code.co_filename.startswith(_PACKAGE):
            outermost = level
    warnings.warn(text, category, stacklevel=outermost + 1)


class PrivacyLeakWarning(UserWarning):
    """Something public was taken from the data, or the noise is not secret."""


class PrivacyUtilityWarning(UserWarning):
    """The budget pays for no more than a constant model, or not even for that."""


class PrivacyWeakWarning(UserWarning):
    """The budget itself promises little: epsilon above 20, or delta above one record in n."""


class UnsupportedMechanismError(ValueError):
    """No theorem covers this mechanism: a hypothesis fails, or its kind is unknown."""


class CalibrationError(ValueError):
    """No noise meets the budget, or the budget cannot be represented."""


class ConvergenceError(RuntimeError):
    """No minimiser could be certified to the tolerance that the privacy proof needs."""


class ClusterError(RuntimeError):
    """A cluster lost its workers, or does not answer; the text quotes no record."""

    quotes_no_record = True


class BudgetExceededError(ValueError):
    """A reservation would pass the cap of its ledger."""
