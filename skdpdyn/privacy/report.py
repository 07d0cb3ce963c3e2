"""The budget report: what was spent, on which theorem, against which attacker, and what it does not cover."""

import html
from dataclasses import dataclass, fields

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy.serialization import to_dict

FALSE_POSITIVE_RATES = (0.01, 0.001)

NEIGHBOURS = {
    "replace_one": "one record changed at will; the number of records is public",
    "add_remove": "one record's contribution there or not; the public normaliser stays",
}

NOT_COVERED = (
    "whatever else was done with the same records: scaling by their mean or range, looking, tuning, fits that were discarded",
    "groups: k records of one person cost more than one, k mu where the guarantee has a mu; epsilon and delta grow faster",
    "inferences from the population, which hold for people who are not in the data too",
    "those who can read memory, timings or intermediate iterates of the training process",
)


@dataclass(frozen=True)
class PrivacyReport:
    """What a release cost and what was assumed; ``str`` for text, ``as_dict`` for JSON, HTML in notebooks.

    Attributes
    ----------
    sections : dict of str to dict
        Title to entries, in the order in which they are shown.
    stored : dict
        Record and guarantee as `to_dict` stores them, for checking later.
    """

    sections: dict
    stored: dict

    def as_dict(self):
        """Plain dict of str, float, list and dict, which JSON takes."""
        return {**self.sections, "stored": self.stored}

    def __str__(self):
        lines = []
        for title, entries in self.sections.items():
            lines.append(title)
            lines += [f"  {name}: {_shown(value)}" for name, value in entries.items()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self):
        rows = []
        for title, entries in self.sections.items():
            rows.append(f'<tr><th colspan="2" style="text-align:left">{html.escape(title)}</th></tr>')
            for name, value in entries.items():
                cells = (html.escape(text) for text in (name, _shown(value)))
                rows.append("<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>")
        return f"<table>{''.join(rows)}</table>"


def _shown(value):
    if isinstance(value, list):
        return "; ".join(map(_shown, value)) or "nothing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def privacy_report(mechanism, guarantee, *, delta, bound, alternatives=None, public=(), randomness="not told", leaks=()):
    """Report on a release, from public values only.

    Parameters
    ----------
    mechanism : record
        What ran.
    guarantee : Guarantee
        What it costs.
    delta : float
        Where epsilon is reported.
    bound : str
        Name of the accountant that proved the guarantee.
    alternatives : dict or None, default=None
        Other accountants' guarantees or errors, as ``tightest(...).alternatives``.
    public : sequence of str, default=()
        What was taken as public.
    randomness : str, default="not told"
        Where the noise came from, and against whom that protects.
    leaks : sequence of str, default=()
        What the guarantee does not hold for in this very run.

    Returns
    -------
    PrivacyReport

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent, privacy_report, tightest
    >>> m = NoisyGradientDescent(n_steps=500, noise_multiplier=250.0, step_size=0.02, strong_convexity=1.0, smoothness=4.0)
    >>> best = tightest(m)
    >>> report = privacy_report(m, best.guarantee, delta=1e-6, bound=best.bound)
    >>> round(report.as_dict()["attacker"]["true positive rate at 1% false positives"], 6)
    0.011111
    """
    leaks = [*leaks, *getattr(guarantee, "leaks", ())]
    guarantee = getattr(guarantee, "guarantee", guarantee)  # of `tightest`, or of a total
    spent = {
        "neighbours": f"{guarantee.adjacency}: {NEIGHBOURS[guarantee.adjacency]}",
        "epsilon": float(guarantee.epsilon(delta)),
        "delta": float(delta),
    }
    if hasattr(guarantee, "mu"):
        spent["mu"] = float(guarantee.mu)
    reached = 1 - np.asarray(guarantee.tradeoff(np.array(FALSE_POSITIVE_RATES)))
    attacker = {"largest advantage (true minus false positive rate)": float(guarantee.advantage)}
    for rate, tpr in zip(FALSE_POSITIVE_RATES, reached.tolist(), strict=True):
        attacker[f"true positive rate at {100 * rate:g}% false positives"] = tpr
    theorem = {"bound": bound, "hypotheses checked on": type(mechanism).__name__}
    theorem |= {field.name: _summary(getattr(mechanism, field.name)) for field in fields(mechanism)}
    others = {name: _other(other, delta) for name, other in (alternatives or {}).items()}
    sections = {
        "spent": spent,
        "attacker": attacker,
        "theorem": theorem,
        "other bounds": others,
        "assumed": {"public": [*public], "randomness": randomness, "not private in this run": leaks},
        "not protected against": {str(number): text for number, text in enumerate(NOT_COVERED, 1)},
    }
    stored = {"mechanism": to_dict(mechanism), "guarantee": to_dict(guarantee)}
    return PrivacyReport({title: entries for title, entries in sections.items() if entries}, stored)


def _summary(value):
    if isinstance(value, np.ndarray):
        return f"{value.size} values from {value.min():.6g} to {value.max():.6g}"
    return value if value is None or isinstance(value, (int, float)) else str(value)


def _other(other, delta):
    return str(other) if isinstance(other, UnsupportedMechanismError) else float(other.epsilon(delta))
