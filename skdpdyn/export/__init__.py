"""Models for others: release folders by `io`, and ONNX by `onnx`."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Load a module on first use: both import packages that are slow to load."""
    if name not in ("io", "onnx"):
        raise AttributeError(f"module 'skdpdyn.export' has no attribute {name!r}")
    return import_module(f"skdpdyn.export.{name}")
