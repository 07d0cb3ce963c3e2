"""InterpretML: DP-EBM with its defaults, and the additive model without privacy."""

from interpret import glassbox, privacy

NEEDS = ["interpret-core[required]==0.7.8", "pandas"]
MODELS = {"DP-EBM": "add_remove", "additive without privacy": "none"}
PACKAGE = "interpret-core"


def fitted(name, table, ask):
    """Fit an additive model of InterpretML."""
    binary = table.target_bounds is None
    kind = "ExplainableBoosting" + ("Classifier" if binary else "Regressor")
    types = ["continuous" if column in table.bounds else "nominal" for column in table.X]
    options = {"feature_types": types, "n_jobs": 1, "random_state": ask["seed"]}
    if name == "DP-EBM":
        numbers = {list(table.X).index(column): pair for column, pair in table.bounds.items()}
        options |= {"epsilon": ask["epsilon"], "delta": ask["delta"], "privacy_bounds": numbers}
        options["random_state"] = None  # with a seed its noise is not private
        if not binary:
            low, high = table.target_bounds
            options |= {"privacy_target_min": low, "privacy_target_max": high}
        model = getattr(privacy, f"DP{kind}")(**options)
    else:
        model = getattr(glassbox, kind)(interactions=0, **options)
    model.fit(table.X, table.y)
    return (lambda X: model.predict_proba(X)[:, 1]) if binary else model.predict
