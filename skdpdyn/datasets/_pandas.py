"""Data frames, which are an extra."""

from typing import Any


def pandas() -> Any:
    """Return the module pandas, or raise an error with the line to paste."""
    try:
        import pandas
    except ImportError:
        raise ImportError(
            'as_frame=True needs pandas: pip install "skdpdyn[plot]", or pass as_frame=False',
            name="pandas",
        ) from None
    return pandas
