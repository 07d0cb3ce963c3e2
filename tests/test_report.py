"""Papers for an auditor: a report agrees with its record, and forged ones are refused."""

import copy
import json
import math
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline, make_pipeline
from spending import once
from test_bounds_travel import RECORDS
from test_models import LOGISTIC
from test_solvers_conformance import DEFAULTS, model

import skdpdyn
from skdpdyn import PrivateGAMClassifier, PrivateLogisticRegression
from skdpdyn.__main__ import main
from skdpdyn.evaluation import evaluate
from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.inference import private_regression
from skdpdyn.model_selection import PrivateSearchCV, total_privacy
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler
from skdpdyn.privacy import (
    Assumed,
    Budget,
    Composition,
    Gaussian,
    GaussianDP,
    Ledger,
    check_report,
    composition,
    privacy_report,
    report as report_module,
    tightest,
)
from skdpdyn.privacy.deployment import schema
from skdpdyn.privacy.serialization import checksum, to_dict

SCHEMA = json.loads((Path(__file__).parents[1] / "doc" / "report_schema.json").read_text())


def validate(value, schema=SCHEMA):
    """Hold a value against a JSON Schema, dates included."""
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    kind(schema, format_checker=kind.FORMAT_CHECKER).validate(value)


def numbers(value, path=()):
    """The paths of all numbers in nested dicts and lists."""
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for name, entry in entries for found in numbers(entry, (*path, name))]
    return [path] if isinstance(value, int | float) else []


def changed(report, path, change):
    """A copy in which one entry was changed."""
    report = inner = copy.deepcopy(report)
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = change(inner.get(path[-1]) if isinstance(inner, dict) else inner[path[-1]])
    return report


def resealed(report):
    """The report with a checksum that its content has."""
    content = {name: value for name, value in report.items() if name != "checksum"}
    return {**content, "checksum": checksum(content)}


@cache
def report_of(record):
    best = tightest(record)
    shown = {"alternatives": best.alternatives, "assumed": Assumed(public=["n=7"])}
    return privacy_report(record, best.guarantee, delta=1e-6, bound=best.bound, **shown)


def card_code(card):
    return re.search(r"```python\n(.*?)```", card, flags=re.DOTALL).group(1)


@pytest.mark.parametrize(("case", "name"), DEFAULTS)
def test_reports_of_all_solvers_follow_the_schema_and_pass_the_check(case, name, tmp_path):
    X, y = case.data(20)
    report = model(case, name).fit(X, y).privacy_report()
    validate(report.as_dict(), SCHEMA)
    spent = report.as_dict()["spent"]
    if "mu" in spent:
        told = GaussianDP(spent["mu"], failure=spent.get("failure", 0.0))
        assert told.epsilon(spent["delta"]) == pytest.approx(spent["epsilon"])
    report.to_json(tmp_path / "report.json")
    assert check_report((tmp_path / "report.json").read_text()) == report.as_dict()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_reports_of_all_records(record, monkeypatch):
    for name in ("proof_of", "privacy_report"):  # of the same record, some forty times
        monkeypatch.setattr(report_module, name, once(getattr(report_module, name)))
    report = report_of(record).as_dict()
    validate(report, SCHEMA)
    check_report(json.loads(json.dumps(report)))
    numeric = [path for path in numbers(report) if path[0] in ("spent", "attacker", "theorem")]
    for path in numeric:
        with pytest.raises(ValueError, match=r"spent|attacker|theorem|guarantee|mechanism"):
            check_report(resealed(changed(report, path, lambda value: value * 1.001 + 0.001)))


def test_a_fit_that_learns_a_map_of_rows_passes_the_check(tmp_path):
    """It declares a little more than its record costs; neither less nor much more passes."""
    X, y = LOGISTIC.data(2000)
    fitted = LOGISTIC.model(epsilon=1.0, delta=1e-6, conditioning="auto").fit(X, y)
    assert fitted.conditioning_ is not None
    report = fitted.privacy_report()
    assert check_report(report.to_json()) == report.as_dict()
    card = report.to_model_card()
    exec(card_code(card), {"model": fitted})
    command = re.search("`python -m skdpdyn (.*) report.json`", card)[1]
    report.to_json(tmp_path / "report.json")
    assert main([command, str(tmp_path / "report.json")]) == 0
    for factor in (1 - 1e-8, 1 + 1e-7):
        declared = GaussianDP(fitted.privacy_.mu * factor)
        forged = privacy_report(fitted.mechanism_, declared, delta=1e-6, bound="composition")
        with pytest.raises(ValueError, match="not what composition proves"):
            check_report(forged.to_json())


def test_reports_of_scaler_and_search():
    X, y = LOGISTIC.data(60)
    scaler = PrivateScaler(0.5, 1e-4).fit(X)
    budget = {"epsilon": 2.0, "delta": 1e-4, "expected_trials": 2}
    search = PrivateSearchCV(LOGISTIC.model(), {"clip": ["auto", 0.5]}, **budget).fit(X, y)
    for fitted in (scaler, search):
        report = fitted.privacy_report()
        validate(report.as_dict(), SCHEMA)
        check_report(report.to_json())
        assert fitted.bound_ in report.to_model_card()


@pytest.fixture(scope="module")
def fitted():
    X, y = LOGISTIC.data()
    return LOGISTIC.model().fit(X, y)


def test_no_number_can_be_changed(fitted):
    """By the last bit or by much, with the old checksum; by a thousandth, with a new one."""
    report = fitted.privacy_report().as_dict()
    paths = numbers(report)
    assert len(paths) > 15
    assert {path[0] for path in paths} == {"spent", "attacker", "theorem", "other bounds", "stored"}
    changes = [lambda x: math.nextafter(x, math.inf), lambda x: -x - 1, str, lambda x: None]
    for path in paths:
        for change in changes:
            with pytest.raises(ValueError):  # noqa: PT011
                check_report(changed(report, path, change))
        with pytest.raises(ValueError, match=r"stored|spent|attacker|theorem|other bounds"):
            check_report(resealed(changed(report, path, lambda value: value * 1.001 + 1e-3)))
    texts = ("assumed", "public", 0), ("assumed", "randomness"), ("not protected against", "1")
    for path in texts:
        with pytest.raises(ValueError, match="checksum"):
            check_report(changed(report, path, lambda text: text + "0"))
    for name in report:
        if name != "other bounds":
            with pytest.raises(ValueError, match=r"no report|checksum"):
                check_report({other: value for other, value in report.items() if other != name})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("theorem", "bound"), "composition", "is not what composition proves"),
        (("theorem", "bound"), "magic", "theorem, bound: 'magic'"),
        (("theorem", "colour"), "red", "theorem, colour: it is no entry"),
        (("spent", "delta"), "inf", "spent, delta"),
        (("stored", "guarantee"), to_dict(Gaussian(3.0)), "is none"),
        *[(("stored", "version"), of, "stored, version=.* must be 3") for of in (2, 4, True, "3")],
        (("stored", "mechanism"), {"type": "Exec"}, "stored, mechanism: type='Exec'"),
        (("stored", "mechanism"), None, "not what last_iterate proves"),
        (("other bounds", "composition"), "no theorem", "other bounds, composition"),
        (("other bounds", "recursion"), 0.5, "other bounds, recursion"),
        (("other bounds", "magic"), 0.5, "theorem, bound: 'magic'"),
        (("assumed", "more"), "x", "no report"),
        (("other bounds",), [], "no report"),
    ],
)
def test_forged_reports_are_refused_with_a_good_checksum(fitted, path, value, message):
    report = changed(fitted.privacy_report().as_dict(), path, lambda _: value)
    with pytest.raises(ValueError, match=message):
        check_report(resealed(report))


def test_the_guarantee_of_another_run_is_refused(fitted):
    """All numbers follow from the guarantee, but the guarantee does not from the record."""
    better = GaussianDP(fitted.privacy_.mu / 2)
    report = privacy_report(fitted.mechanism_, better, delta=1e-4, bound=fitted.bound_)
    with pytest.raises(ValueError, match="is not what last_iterate proves"):
        check_report(report.as_dict())
    assert "not that of the record alone" in report.to_model_card()


@pytest.mark.system
def test_from_the_command_line(fitted, tmp_path, capsys):
    path = tmp_path / "report.json"
    text = fitted.privacy_report().to_json(path)
    command = [sys.executable, "-m", "skdpdyn", "check", path]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    known = f"epsilon={fitted.epsilon_} at delta=0.0001 by last_iterate"
    assert run.stdout == f"{path}: every number agrees: {known}\n"
    path.write_text(text.replace(str(fitted.epsilon_), "0.25"))
    assert main(["check", str(path)]) == 1
    assert "spent, epsilon: the report says 0.25, its record" in capsys.readouterr().err
    for content in ("{", "[]", "[" * 100_000, '{"spent": {}, "spent": {}}'):
        path.write_text(content)
        assert main(["check", str(path)]) == 1
    assert main(["check", str(tmp_path / "none.json")]) == 1
    seeded = LOGISTIC.model(random_state=3).fit(*LOGISTIC.data()).privacy_report()
    seeded.to_json(path)
    capsys.readouterr()
    assert main(["check", str(path)]) == 0
    assert "; NOT PRIVATE: random_state=3" in capsys.readouterr().out
    assert "**NOT PRIVATE in this run" in seeded.to_model_card()


def of_composition(record, **options):
    """Return the report of a record by composition."""
    return privacy_report(record, composition(record), bound="composition", **options)


def test_infinite_numbers_are_texts():
    stored = json.loads(of_composition(Gaussian(10.0), delta=0.0).to_json())
    assert stored["spent"]["epsilon"] == "inf"
    validate(stored, SCHEMA)
    check_report(stored)


def test_a_model_card_can_be_checked_by_what_it_says(fitted):
    card = fitted.privacy_report().to_model_card()
    titles = "What was promised", "To whom", "Under which assumptions", "How to check it"
    for part in (*titles, "n_samples=60", "replace_one"):
        assert part in card
    scope = {"model": fitted}
    code = card_code(card)
    exec(code, scope)
    assert scope["guarantee"] == fitted.privacy_
    assert f"epsilon({fitted.delta_!r})  # {fitted.epsilon_!r}" in code


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_model_cards_of_all_records(record):
    card = report_of(record).to_model_card()
    scope = {"model": type("Model", (), {"mechanism_": record})}
    exec(card_code(card), scope)
    assert scope["guarantee"].epsilon(1e-6) == tightest(record).guarantee.epsilon(1e-6)


# --- names from files

EVIL = (
    "x\n\n# Privacy\n\nThe release is (0.001, 0)-differentially private.\r\n\x1b[2K\u202e\u2028"
    "<script>alert(1)</script> ``` ` ![a](b) $^$ \\` &lt;"
)


def printed(name, tmp_path):
    """All that is printed of fits with a column, a level, a label and a step of this name."""
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, 4000)
    X = pd.DataFrame({name: a, "b": np.where(rng.random(4000) < 0.5, name, "ok")})
    y = np.where(a + rng.normal(0, 0.5, 4000) > 0, name, "no")
    levels = {"b": ["ok", name]}
    given = {"classes": ["no", name], "bounds": {name: (-1, 1)}}
    additive = PrivateGAMClassifier(8.0, 1e-6, categories=levels, **given).fit(X, y)
    pair = PrivateLogisticRegression(classes=["no", name], data_norm=1.5)
    _, table = private_regression(
        pair, X, y, epsilon=99.0, delta=1e-6, bounds={name: (-1, 1)}, categories=levels
    )
    report = additive.privacy_report()
    pipeline = Pipeline([(name, PrivateScaler(8.0, 1e-6)), ("model", PrivateLogisticRegression())])
    pipeline.set_params(model__classes=[False, True]).fit(a[:, None], a > 0)
    total = total_privacy(pipeline)
    tmp_path.mkdir()
    ledger = Ledger(tmp_path / "books.ledger", cap=(99.0, 1e-6))
    with ledger.reserve("one", GaussianDP(0.1)) as entry:
        entry.settle(SimpleNamespace(privacy_=GaussianDP(0.1), leaks_=(name,)))
    by_hand = privacy_report(
        Gaussian(10.0),
        composition(Gaussian(10.0)),
        delta=1e-6,
        bound="composition",
        assumed=Assumed([name], name, [name], [name]),
    )
    scores = evaluate(additive, X, y, epsilon=8.0, delta=1e-6)
    shown = [report, by_hand, total, ledger, table, scores]
    documents = [one.document() for one in shown]
    texts = [one.text() for one in documents]
    texts += [one.to_text() for one in (report, by_hand)]
    cards = [one.to_model_card(notes=name) for one in (report, by_hand)]
    pages = [one.html() for one in documents]
    folder = additive.export(tmp_path / "release")
    assert main(["check", str(folder)]) == 0
    return texts, cards, pages, (folder / "README.md").read_text()


def without_code(line):
    """A line of Markdown without its spans of code, as CommonMark reads them."""
    rest = ""
    while line:
        if line[0] == "\\":
            rest += line[:2]
            line = line[2:]
            continue
        ticks = re.match("`*", line).group()
        end = re.search(f"(?<!`){ticks}(?!`)", line[len(ticks) :]) if ticks else None
        if end:
            line = line[len(ticks) + end.end() :]
            continue
        rest += ticks or line[0]
        line = line[len(ticks) or 1 :]
    return rest


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
def test_names_forge_no_line_of_what_is_printed(tmp_path, capsys):
    evil_texts, evil_cards, evil_pages, readme = printed(EVIL, tmp_path / "evil")
    texts, cards, pages, _ = printed("plain", tmp_path / "plain")
    evil_texts.append(capsys.readouterr().out)
    for text in (*evil_texts, *evil_cards, readme):
        assert all(map(str.isprintable, text.split("\n")))
    for evil, plain in zip([*evil_texts[:-1], *evil_cards], [*texts, *cards], strict=True):
        assert len(evil.split("\n")) == len(plain.split("\n"))
    for card in (*evil_cards, readme):
        assert "script" in card
        for line in card.replace(f"```python\n{card_code(card)}```", "").split("\n"):
            assert not re.search(r"(?<!\\)[<\[&`]", without_code(line).replace("\\\\", "")), line
    for page, plain in zip(evil_pages, pages, strict=True):
        assert "<script" not in page
        assert "\x1b" not in page
        assert page.count("<") == plain.count("<")


# --- shown in notebooks and pages


def test_a_report_shows_what_was_spent_first_and_folds_the_rest(fitted):
    report = fitted.privacy_report()
    page = report._repr_html_()
    text = report.to_text()
    shown, folded = page.split("<details>", maxsplit=1)
    missed = math.floor(1000 * fitted.privacy_.tradeoff(0.01)) / 10
    assert f"<b>ε={fitted.epsilon_:.6g}</b>" in shown
    assert f"<b>{missed:g} %</b>of members, at least, are missed by an attacker" in shown
    nothing = (
        "No leak found in this fit. Steps before it are not checked: see total_privacy(pipeline)."
    )
    for view in (shown, text, report.to_model_card()):
        assert nothing in view
    assert "differentially private" in report.to_model_card().splitlines()[2]
    for title in ("theorem", "other bounds", "assumed", "not protected against"):
        assert f"<summary>{title}</summary>" in folded
        assert title not in shown.replace("NOT PRIVATE", "")
    others = report.sections["other bounds"].items()
    refused = [name for name, value in others if "no theorem" in str(value)]
    assert refused
    for name in refused:
        assert f"{name}:" not in text
        assert f"<td>{name}</td>" not in page
    assert "<td>composition</td>" in folded
    seeded = LOGISTIC.model(random_state=3).fit(*LOGISTIC.data()).privacy_report()
    assert 'class="skdpdyn-leak">NOT PRIVATE: random_state=3' in seeded._repr_html_()
    assert nothing not in str(seeded)


@pytest.mark.parametrize("delta", [1e-6, 1e-12])
def test_all_that_is_shown_says_the_mu_of_the_budget(delta):
    """Where levels are bought, that is so except with a probability that delta includes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(size=2000), "b": rng.choice(list("xyz"), 2000)})
    y = rng.random(2000) < frame["a"]
    for categories in ({"b": list("xyz")}, "auto"):
        bounds = {"a": (0, 1)} if categories != "auto" else "auto"
        model = PrivateGAMClassifier(epsilon=1.0, delta=delta, categories=categories, bounds=bounds)
        report = model.fit(frame, y).privacy_report()
        failure = model.privacy_.failure
        assert bool(failure) == (categories == "auto")
        said = f", except with probability {failure:.6g}" if failure else ""
        mu = f"{math.floor(100 * Budget(1.0, delta).mu) / 100:g}"
        registered = entries(report.to_registry(**DEPLOYMENT))
        for text, words in (
            (str(report), rf", mu {mu}\d*{said}, for one record"),
            (report.to_text(), rf"mu: {mu}\d*{said}\n"),
            (report.to_model_card(), rf"and {mu}\d*-Gaussian differentially private{said}\."),
            (registered["privacy_parameters_details"], rf"^{mu}\d*-Gaussian .* private{said};"),
        ):
            assert re.search(words.replace("+", "[+]"), text)
        validate(report.as_dict(), SCHEMA)
        assert check_report(report.as_dict())["spent"].get("failure", 0.0) == failure


def test_displays_follow_the_reader_in_light_and_dark(fitted, tmp_path):
    ledger = Ledger(tmp_path / "books.json", cap=(4.0, 1e-6))
    with ledger.reserve("one <b>", fitted.privacy_) as entry:
        entry.settle(fitted)
    with pytest.warns(PrivacyLeakWarning):
        seeded = LOGISTIC.model(random_state=3).fit(*LOGISTIC.data())
    total = total_privacy(make_pipeline(BoundsScaler((0, 1)), seeded))
    for shown in (fitted.privacy_report(), total, ledger):
        page = shown._repr_html_()
        assert "@media (prefers-color-scheme: dark)" in page
        assert "var(--sklearn-color-background" in page
        assert page.count("of members, at least, are missed") >= 2
        assert page.startswith('<div class="skdpdyn-display">')
    assert "one &lt;b&gt;" in ledger._repr_html_()
    assert f'<progress value="{ledger.epsilon / 4:.4f}">' in ledger._repr_html_()
    page = total._repr_html_()
    assert f"<b>ε={seeded.epsilon_:.6g}</b>together, at δ = 0.0001" in page
    assert "NOT PRIVATE: random_state=3" in page


# --- the registry of deployments

DEPLOYMENT = {
    "name": "Length of stay",
    "data_curators": ["A hospital"],
    "description": "Coefficients of a regression.",
    "intended_use": "Planning of beds.",
    "data_product_region": "Sweden",
    "publication_date": "2026-03-31",
    "data_product_sector": "Healthcare",
    "release_type_details": "The records are not used again.",
    "preprocessing_and_hyperparameter_tuning": "None but for public bounds.",
    "access_control": "Two statisticians, on one server.",
    "justification": "Beds are counted in tens.",
    "registry_authors": ["A statistician"],
}


def entries(record):
    """All fields of a record, by name."""
    return {
        name: value for section in record["deployment"].values() for name, value in section.items()
    }


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_the_registry_takes_reports_of_all_records(record):
    report = report_of(record)
    registered = report.to_registry(**DEPLOYMENT)
    validate(json.loads(json.dumps(registered)), schema())
    spent = report.sections["spent"]
    found = entries(registered)
    assert found["privacy_parameters"] == {"epsilon": spent["epsilon"], "delta": 1e-6}
    assert "n=7" in found["unprotected_quantities"]
    assert skdpdyn.__version__ in found["mechanisms"]
    assert found["mechanisms"].endswith("Access control: Two statisticians, on one server.")


def test_the_card_and_the_page_have_the_fields_of_the_registry(fitted):
    report = fitted.privacy_report()
    found = entries(report.to_registry(**DEPLOYMENT))
    card = report.to_model_card(**DEPLOYMENT)
    page = report._repr_html_()
    for name, value in found.items():
        assert f"- {name.replace('_', ' ')}: " in card
        assert f"<td>{name.replace('_', ' ')}</td>" in page
        if isinstance(value, str):
            assert value.splitlines()[0] in card
    assert "- intended use: not stated" in report.to_model_card()


def test_a_record_of_the_registry_names_what_is_missing_or_wrong(fitted):
    report = fitted.privacy_report()
    with pytest.raises(ValueError, match="than a report knows: give") as error:
        report.to_registry()
    assert set(DEPLOYMENT) == set(re.sub(".* give ", "", str(error.value)).split(", "))
    for name, value, message in (
        ("colour", "red", "colour: no field of a deployment"),
        ("data_product_sector", "Fishing", "must be one of Technology, Healthcare"),
        ("registry_authors", "A statistician", "must be a list of names"),
        ("publication_date", "31.3.2026", "must be a date"),
        ("justification", "", "must be a text"),
    ):
        with pytest.raises(ValueError, match=message):
            report.to_registry(**DEPLOYMENT | {name: value})
    infinite = of_composition(Gaussian(10.0), delta=0.0)
    with pytest.raises(ValueError, match="epsilon is infinite at this delta"):
        infinite.to_registry(**DEPLOYMENT)


def test_reports_have_the_promise_first_and_equal_parts_once(fitted):
    report = of_composition(Composition((Gaussian(20.0),) * 28 + (Gaussian(10.0),)), delta=1e-6)
    text = report.to_text()
    card = report.to_model_card()
    page = report._repr_html_()
    assert text.splitlines()[1].startswith("  epsilon: ")
    for line in ("protected: one record", "neighbours: replace_one", "trusted: whoever runs"):
        assert line in text
    assert "neighbours: replace_one" in page.split("<details>")[0]
    assert len(str(report).splitlines()) <= 6
    once = "Gaussian: 28 times Gaussian(noise_multiplier=20, adjacency=replace_one)"
    for shown in (text, card):
        assert shown.count("noise_multiplier=20,") == shown.count("28 times") > 0
        assert once in shown
    assert check_report(report.to_json())
