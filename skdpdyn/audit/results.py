"""Results of audits: a claim beside a measured value, part by part."""

import textwrap
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from skdpdyn.privacy.display import Document, Shown, axes_or_new

__all__ = ["ROUNDING", "Audit", "Finding", "audited"]

ROUNDING = 1e-6  # part of a distance that the rounding of sums may add


@dataclass(frozen=True)
class Finding:
    """Claim of one part, and its measured value.

    Attributes
    ----------
    name : str
        Name of the part in the record.
    claimed : float
        Largest value that the claim allows.
    measured : float
        What was measured: exact in a replay, a lower limit of one fit.
    """

    name: str
    claimed: float
    measured: float

    @property
    def ratio(self) -> float:
        """Measured value over the claimed one."""
        return self.measured / self.claimed

    @property
    def holds(self) -> bool:
        """Whether no more was measured than is claimed."""
        return self.ratio <= 1 + ROUNDING


@dataclass(frozen=True, repr=False)
class Audit(Shown):
    """Claims of a configuration, beside measured values.

    Attributes
    ----------
    kind : str
        "replay" or "one fit".
    what : str
        The configuration.
    measure : str
        What the numbers of the findings are.
    findings : tuple of Finding
        The parts.
    epsilon, delta : float
        The claim of the whole fit.
    """

    kind: str
    what: str
    measure: str
    findings: tuple[Finding, ...]
    epsilon: float
    delta: float

    @property
    def passed(self) -> bool:
        """Whether nothing showed more than it claims. One fit can only fail to find a fault."""
        return all(finding.holds for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return kind, configuration, claim and parts as plain values, for JSON.

        Returns
        -------
        dict
        """
        return asdict(self)

    def document(self) -> Document:
        """Return claims and measures, for text and HTML.

        Returns
        -------
        Document
        """
        rows = [
            (
                finding.name,
                f"{finding.claimed:.4f}",
                f"{finding.measured:.4f}{'' if finding.holds else ' MORE'}",
            )
            for finding in self.findings
        ]
        verdict = "no more than claimed" if self.passed else "MORE THAN CLAIMED: report this"
        return Document(
            f"{self.kind} of {self.what}",
            [("", "claimed", "measured"), *rows],
            [
                f"measured: {self.measure}",
                f"claimed: epsilon={self.epsilon:.6g} at delta={self.delta:.3g}",
                verdict,
            ],
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw claimed against measured, a pair of bars for each part.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on; None: new ones.

        Returns
        -------
        matplotlib axes
        """
        ax = axes_or_new(ax, layout="constrained")
        places = np.arange(len(self.findings))
        for shift, name in ((-0.2, "claimed"), (0.2, "measured")):
            values = [getattr(finding, name) for finding in self.findings]
            ax.barh(places + shift, values, height=0.4, label=name)
        ax.set(yticks=places, yticklabels=[finding.name for finding in self.findings])
        ax.set(xlabel=self.measure, title=textwrap.fill(f"{self.kind} of {self.what}", 38))
        ax.invert_yaxis()
        ax.legend()
        return ax


def audited(kind: str, measure: str, fitted: Any, findings: list[Finding]) -> Audit:
    """Return the audit of a fitted configuration."""
    solver = f", solver {fitted.solver_}" if hasattr(fitted, "solver_") else ""
    shape = f"{fitted.n_samples_} x {fitted.n_features_in_}"
    configuration = f"{type(fitted).__name__} on {shape}{solver}"
    return Audit(kind, configuration, measure, tuple(findings), fitted.epsilon_, fitted.delta_)
