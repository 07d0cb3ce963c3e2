"""Real data inside the package, with public bounds."""

from skdpdyn.datasets._adult import load_adult
from skdpdyn.datasets._flights import load_flights

__all__ = ["load_adult", "load_flights"]
