"""InterpretML: DP-EBM by default and with longer steps, and its additive model without privacy."""

from interpret import glassbox, privacy

NEEDS = ["interpret-core[required]==0.7.8", "pandas"]
MODELS = {
    "DP-EBM": "add_remove",
    "DP-EBM rate .2": "add_remove",
    "additive without privacy": "none",
}
PACKAGE = "interpret-core"


def fitted(name, table, ask):
    """Fit an additive model of InterpretML."""
    binary = table.target_bounds is None
    kind = "ExplainableBoosting" + ("Classifier" if binary else "Regressor")
    types = ["continuous" if column in table.bounds else "nominal" for column in table.X]
    options = {"feature_types": types, "n_jobs": 1, "random_state": ask["seed"]}
    if name.startswith("DP-EBM"):
        numbers = {list(table.X).index(column): pair for column, pair in table.bounds.items()}
        options |= {"epsilon": ask["epsilon"], "delta": ask["delta"], "privacy_bounds": numbers}
        options["random_state"] = None  # with a seed its noise is not private
        options |= {"learning_rate": 0.2} if name.endswith("rate .2") else {}
        names = "privacy_target_min", "privacy_target_max"
        options |= {} if binary else dict(zip(names, table.target_bounds, strict=True))
        model = getattr(privacy, f"DP{kind}")(**options)
    else:
        model = getattr(glassbox, kind)(interactions=0, **options)
    model.fit(table.X, table.y)
    return (lambda X: model.predict_proba(X)[:, 1]) if binary else model.predict
