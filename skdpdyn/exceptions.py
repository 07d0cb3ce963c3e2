"""Warnings and errors of the library."""


class PrivacyLeakWarning(UserWarning):
    """Something public was taken from the data, or the noise is not secret."""


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
