"""Models of the arena, a module for each package.

It ``NEEDS`` packages (none: this environment), and has ``MODELS``, each with the relation of its
promise: "both", or "none" without privacy. ``fitted(name, table, ask)`` returns what predicts.
"""
