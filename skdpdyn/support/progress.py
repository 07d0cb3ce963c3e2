"""Progress with the time left, from public numbers alone.

What is told is how many of a known number of steps are done. That number follows from the plan, or
from what was released before, and nothing here is given a record or what else was computed from
one. The time that steps take is no part of what a guarantee promises: it may depend on the records,
as it does for anybody with a watch.
"""

import time
from typing import Any, Self

_LINES = 10  # printed by a run without a progress bar


class Progress:
    """Show how much of a run is done: by a bar where tqdm is installed, else by lines.

    Parameters
    ----------
    total : int
        Number of steps of the run, from the plan or from what was released.
    unit : str, default="step"
        Name of the counted things.
    verbose : int, default=0
        0: nothing is told.

    Examples
    --------
    >>> from skdpdyn.support.progress import Progress
    >>> with Progress(2, verbose=0) as told:
    ...     told(1)
    """

    def __init__(self, total: int, unit: str = "step", verbose: Any = 0) -> None:
        self._total = total
        self._unit = unit
        self._is_shown = bool(verbose) and total > 0
        self._bar: Any = None
        self._next = 1  # how many steps are done when something is told again

    def __enter__(self) -> Self:
        if self._is_shown:
            self._bar = _bar(self._total, self._unit)
            self._start = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, done: int) -> None:
        """Show the number of steps that are done, if it is time."""
        if not self._is_shown or done < self._next:
            return
        share = 100 if self._bar is not None else _LINES
        news = done * share // self._total + 1  # the next per cent, or tenth
        self._next = max(done + 1, -(-news * self._total // share))
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        else:
            seconds = (time.perf_counter() - self._start) * (self._total - done) / done
            print(f"{self._unit} {done} of {self._total}{_time_left(seconds)}", flush=True)


def _bar(total, unit):
    """Return a bar of tqdm, or None where it is not installed."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, unit=unit)


def _time_left(seconds):
    if seconds < 1:
        return ""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f", about {hours} h {minutes:02d} min left"
    return f", about {minutes} min {seconds:02d} s left" if minutes else f", about {seconds} s left"
