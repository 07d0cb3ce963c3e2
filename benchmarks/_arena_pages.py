"""README's and the docs' tables, and the figure of ranks, of the lines of ``doc/arena.csv``."""

import numpy as np
import pandas as pd

from benchmarks._common import ROOT, TABLES

DOC = ROOT / "doc"
OURS = "linear", "additive", "linear undeclared", "additive undeclared"
START = "<!-- arena: written by python -m benchmarks arena --pages -->"
END = "<!-- end -->"
EPSILONS = 0.1, 0.3, 1.0, 3.0, 10.0
DASHES = {"boosting without privacy": "-", "additive without privacy": ":"}
DASHES |= {"linear without privacy": "--", "constant": "-."}
AT_ONE = "accuracy", "auc", "log_loss", "ece", "ratio", "r2", "seconds", "megabytes"


def read(path):
    """Return the lines with a score each, AUC or R2, those without privacy at every epsilon."""
    lines = pd.read_csv(path)
    lines = lines[(lines["splits"] > 0) & lines["epsilon"].isin([*EPSILONS, np.nan])]
    for end in ("", "_error"):
        lines[f"score{end}"] = lines[f"auc{end}"].fillna(lines[f"r2{end}"])
    without = lines["relation"] == "none"
    lines["label"] = lines["model"].where(without, lines["model"] + ", " + lines["relation"])
    copies = [lines[~without]] + [lines[without].assign(epsilon=epsilon) for epsilon in EPSILONS]
    lines = pd.concat(copies, ignore_index=True)
    own = ~lines["model"].isin(OURS)
    relation = lines["relation"] != "replace_one"
    orders = own, lines["relation"] == "none", lines["model"] == "constant", relation
    lines["place"] = sum(one.to_numpy(int) << (3 - at) for at, one in enumerate(orders))
    names = [*TABLES, *sorted(set(lines["table"]) - set(TABLES))]
    lines["number"] = lines["table"].map(names.index)
    return lines.sort_values(["number", "place", "label", "epsilon"])


def write_pages(path):
    """Write all that is made of the lines."""
    lines = read(path)
    (DOC / "arena_scores.txt").write_text(scores(lines))
    (DOC / "arena_estimates.txt").write_text(estimates(lines))
    (DOC / "arena_losses.txt").write_text(losses(lines))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    before, _, rest = readme.partition(START)
    text = f"{before}{START}\n{readme_table(lines)}{END}{rest.partition(END)[2]}"
    (ROOT / "README.md").write_text(text, encoding="utf-8")
    draw(lines)


def scores(lines):
    """Return AUC or R2 by epsilon: a block for each table, and a line for each model."""
    text = ""
    for table, block in lines.groupby("table", sort=False):
        name = "AUC" if block["r2"].isna().all() else "R2"
        text += f"{f'{table}, {name}':<34}" + "".join(f"{e:>15g}" for e in EPSILONS) + "\n"
        for label, own in block.groupby("label", sort=False):
            found = {line.epsilon: _score(line) for line in own.itertuples()}
            shown = EPSILONS if own["relation"].iloc[0] != "none" else EPSILONS[:1]
            cells = "".join(f"{found.get(epsilon, ''):>15}" for epsilon in shown)
            text += f"{label:<34}{cells}".rstrip() + "\n"
        text += "\n"
    return text


def _score(line):
    """Return a score with its standard error, which a single split has not."""
    text = f"{line.score:.3f} +-{line.score_error:.3f}".removesuffix(" +-nan")
    return f"{line.score:.0f}" if line.score < -9 else text


def estimates(lines):
    """Return all scores at epsilon 1, and what a fit takes."""
    text = ""
    for table, block in lines[lines["epsilon"] == 1].groupby("table", sort=False):
        text += f"{table:<34}" + "".join(f"{name:>10}" for name in AT_ONE) + "\n"
        for label, values in block.set_index("label")[list(AT_ONE)].iterrows():
            cells = ("" if np.isnan(value) else f"{value:.3f}" for value in values)
            text += f"{label:<34}{''.join(f'{cell:>10}' for cell in cells)}".rstrip() + "\n"
        text += "\n"
    return text


def losses(lines):
    """Return where others are ahead of ours, and what nothing declared and boosting leave."""
    rivals = lines[~lines["model"].isin(OURS) & (lines["relation"] != "none")]
    text = ""
    for own in ("additive", "linear"):
        text += _ahead(f"A private rival is ahead of our {own} model", rivals, lines, own)
    linear, additive = (lines[lines["model"] == model] for model in ("linear", "additive"))
    text += _ahead("Our linear model is ahead of our additive one", linear, lines, "additive", 2)
    text += _ahead("Given facts beat bought ones", additive, lines, "additive undeclared", 2)
    heads = "".join(f"{f'at {epsilon:g}':>10}" for epsilon in EPSILONS)
    text += "What boosting without privacy has over our additive model, replace_one\n"
    text += f"  {'table':<11}{'boosting':>10}{heads}\n"
    best = additive[additive["relation"] == "replace_one"].set_index(["table", "epsilon"])["score"]
    boosting = lines[lines["model"] == "boosting without privacy"]
    for table, score in boosting.drop_duplicates("table").set_index("table")["score"].items():
        gaps = (score - best.get((table, epsilon), np.nan) for epsilon in EPSILONS)
        text += f"  {table:<11}{score:>10.3f}" + "".join(f"{gap:>+10.3f}" for gap in gaps) + "\n"
    return text


def _ahead(title, theirs, lines, own, errors=0.0):
    """Return cells in which others are ahead of one of our models by so many standard errors."""
    ours = lines[lines["model"] == own]
    pairs = theirs.merge(ours, on=["table", "epsilon", "relation"], suffixes=("", "_ours"))
    pairs["gap"] = pairs["score"] - pairs["score_ours"]
    pairs["gap"] /= np.hypot(pairs["score_error"], pairs["score_error_ours"])
    ahead = pairs[pairs["gap"] > errors]
    more = f" by more than {errors:g} standard errors" if errors else ""
    text = f"{title}{more}, AUC or R2: {len(ahead)} of {len(pairs)} cells\n"
    for one in ahead.itertuples():
        text += f"  {one.table:<11}epsilon {one.epsilon:<5g}{one.label:<33}{_score(one)} over "
        text += f"{one.score_ours:.3f}, {one.gap:.1f} errors\n"
    return text + "\n"


def readme_table(lines):
    """Return the table of README, a line for each table."""
    heads = {
        "linear .1": ("linear, replace_one", 0.1),
        "linear 1": ("linear, replace_one", 1.0),
        "GAM .1": ("additive, replace_one", 0.1),
        "GAM 1": ("additive, replace_one", 1.0),
        "GAM 1†": ("additive, add_remove", 1.0),
        "DP-EBM 1†": ("DP-EBM, add_remove", "DP-EBM rate .2, add_remove", 1.0),
        "linear ‡": ("linear without privacy", 1.0),
        "boosting ‡": ("boosting without privacy", 1.0),
    }
    text = "| table | " + " | ".join(heads) + " |\n|---|" + "---|" * len(heads) + "\n"
    for table, block in lines.groupby("table", sort=False):
        found = block.set_index(["label", "epsilon"])["score"]
        keys = ([(label, key[-1]) for label in key[:-1]] for key in heads.values())
        cells = (f"{found.reindex(some).max():.3f}".replace("nan", "") for some in keys)
        name = "AUC" if block["r2"].isna().all() else "R²"
        text += f"| {table}, {name} | " + " | ".join(cells) + " |\n"
    return text


def draw(lines):
    """Draw mean ranks over tables by epsilon, of models with lines at all, by relation."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    names = list(dict.fromkeys(lines["model"]))
    handles = {}
    for axis, relation in zip(axes, ("add_remove", "replace_one"), strict=True):
        some = lines[lines["relation"].isin([relation, "none"])]
        some = some[some.groupby("model")["epsilon"].transform("nunique") == len(EPSILONS)]
        some = some.assign(rank=some.groupby(["table", "epsilon"])["score"].rank(ascending=False))
        for model, own in some.groupby("model", sort=False):
            ranks = own.groupby("epsilon")["rank"].mean()
            style = {"ls": DASHES.get(model, "-"), "linewidth": 2.5 if model in OURS else 1.2}
            tint = colormaps["tab20"](names.index(model))
            style |= {"color": "black"} if model in DASHES else {"color": tint, "marker": "o"}
            (handles[model],) = axis.plot(ranks.index, ranks, **style)
        axis.set(title=f"{relation} (black: without privacy)", xscale="log", xlabel="epsilon")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes[0].set(ylabel="mean rank over tables; 1 is the best", ylim=axes[0].get_ylim()[::-1])
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(DOC / "arena_ranks.png", dpi=110)
