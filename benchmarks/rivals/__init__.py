"""Models of the arena, a module for each package: what it needs, its models, and how they fit.

``NEEDS`` are packages of an environment of its own (empty: this one), ``MODELS`` the relation of
each model's promise (``both`` where it has one for either, ``none`` without privacy), and
``fitted(name, table, ask)`` fits a model to a table and returns a function that predicts, of rows,
probabilities of the second class or targets. ``ask`` has epsilon, delta, relation and seed.
"""
