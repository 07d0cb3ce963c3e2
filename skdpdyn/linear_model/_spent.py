"""What a notebook shows of a fitted estimator: its parameters, and what the fit spent."""

import html

from sklearn import get_config
from sklearn.utils import estimator_html_repr


class SpentReprMixin:
    """Representations with a line on the budget below them, once there is a ``privacy_``."""

    def _spent(self):
        """One line: what the fit spent, and on what it does not hold."""
        line = f"spent: epsilon={self.epsilon_:.6g}, delta={self.delta_:.3g} ({self.privacy_.adjacency}, bound {self.bound_})"
        return line + "".join(f"; NOT PRIVATE: {leak}" for leak in self.leaks_)

    def _repr_html_(self):
        diagram = estimator_html_repr(self)
        return f"{diagram}<pre>{html.escape(self._spent())}</pre>" if hasattr(self, "privacy_") else diagram

    def _repr_mimebundle_(self, **kwargs):
        bundle = {"text/plain": f"{self!r}\n{self._spent()}" if hasattr(self, "privacy_") else repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._repr_html_()
        return bundle
