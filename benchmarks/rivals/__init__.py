"""Models of the arena, a module for each package; beside them solvers of the literature.

It ``NEEDS`` packages (none: this environment), and has ``MODELS``, each with the relation of its
promise: "both", or "none" without privacy. ``fitted(name, table, ask)`` returns what predicts.
``bassily_sgd`` and ``dp_svrg`` are `skdpdyn.solvers.Solver`s of Table 1, see `benchmarks.theory`.
"""
