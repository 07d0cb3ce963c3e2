"""What the project says of itself in several places agrees, and names what exists."""

import ast
import inspect
import re
import tomllib
from pathlib import Path

import pytest

import skdpdyn

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_version_everywhere():
    version = PROJECT["version"]
    assert skdpdyn.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", changes, re.M)[0] == version
    assert f"| {'.'.join(version.split('.')[:2])} | yes |" in (ROOT / "SECURITY.md").read_text()


def test_the_workflow_runs_every_python_from_the_oldest_on():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    versions = re.findall(r'"(3\.\d+)"', workflow)
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert "bash .ci/run" in workflow


def test_the_second_run_is_on_the_oldest_versions_that_are_allowed():
    extras = PROJECT["optional-dependencies"].values()
    allowed = "\n".join(["\n".join(part) for part in (PROJECT["dependencies"], *extras)])
    least = dict(re.findall(r"^([\w-]+)(?:\[.*\])? >= ([\d.]+)$", allowed, re.M))
    pins = re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / ".ci/oldest.txt").read_text(), re.M)
    pins = {name: re.sub(r"(\.0)+$", "", version) for name, version in pins if name in least}
    assert pins == {name: re.sub(r"(\.0)+$", "", least[name]) for name in pins}
    assert {"numpy", "scipy", "scikit-learn", "numba", "randomgen"} <= pins.keys()


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"]
)
def test_links_and_names_of_files_lead_somewhere(page):
    text = (ROOT / page).read_text()
    links = [link.partition("#")[0] for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text)]
    names = re.findall(r"(?:examples|benchmarks|skdpdyn|tests|doc)/[\w/.-]+\.(?:py|txt|rst)", text)
    missing = [name for name in links + names if name and not (ROOT / name).exists()]
    assert not missing


def test_the_readme_has_two_commands():
    """The first installs and runs the main example; ``.ci/run`` runs the second, the tests."""
    commands = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.M)
    assert len(commands) == 2
    assert "pytest" in commands[1]


def test_lines_of_pages_have_at_most_100_columns():
    """Rendered code blocks are cut off beyond that; ruff reads the lines of code."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "doc").rglob("*.rst"), *(ROOT / ".ci").iterdir()]
    pages = [page for page in pages if not {"generated", "gallery"} & {*page.parts}]
    pages = [page for page in pages if page.name not in ("audit.rst", "sg_execution_times.rst")]
    lines = {page.name: page.read_text(encoding="utf-8").splitlines() for page in pages}
    long = [(name, line) for name in lines for line in lines[name] if len(line) > 100]
    assert len(pages) > 30
    assert not long


def test_every_public_name_stands_in_the_api_page():
    """Classes and functions of all that ``skdpdyn.`` offers, which loads on first use."""
    listed = re.findall(r"^   (?:\w+\.)*(\w+)$", (ROOT / "doc/api.rst").read_text(), re.M)
    offered = [getattr(skdpdyn, name) for name in dir(skdpdyn)]
    modules = [skdpdyn, *filter(inspect.ismodule, offered)]
    names = set()
    for module in modules:
        own = [name for name, one in vars(module).items() if inspect.getmodule(one) is module]
        for name in getattr(module, "__all__", own):
            one = getattr(module, name)
            if (inspect.isclass(one) or inspect.isfunction(one)) and name[0] != "_":
                names.add(name)
    assert {"evaluation", "inference", "data"} < set(dir(skdpdyn))
    assert len(names) > 80
    assert not names.difference(listed), "doc/api.rst lacks these"


OWN = {"self", "cls"}
PROTOCOLS = {"_repr_html_", "_repr_mimebundle_", "_replace", "_getframe"}
"""Names with a leading underscore that others define, and that are no secret."""
PRIVATE = {
    1: "accounting_scale conftest export mutations places privacy_guarantees release row_map"
    " streamed ways",
    2: "accounting_tails bits ledger minimise noisy_sgd objective_perturbation progress releases"
    " selection",
    3: "files jit noise persons rounding",
    4: "parquet rival_solvers",
    6: "bounds_exact",
    7: "model_selection",
    19: "cluster",
}
"""Files of tests by how many private names of the package they read. None may rise."""


def private_names(path):
    """Yield private names that a file of tests takes from the package, or patches in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) not in OWN:
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skdpdyn"):
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Constant) and str(node.value).startswith("skdpdyn."):
            names = str(node.value).split(".") if " " not in node.value else []
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            called = getattr(node.func, "attr", getattr(node.func, "id", None))
            text = getattr(node.args[1], "value", None)
            names = [text] if called in ("setattr", "getattr", "object") else []
        for name in names:
            is_private = isinstance(name, str) and name[:1] == "_" and name[:2] != "__"
            if is_private and name not in PROTOCOLS:
                yield name


def test_no_file_of_tests_reads_more_private_names():
    """What a test reads cannot be changed without it: read public names where there are some."""
    allowed = {name: n for n, names in PRIVATE.items() for name in names.split()}
    found = {path.stem: len(list(private_names(path))) for path in (ROOT / "tests").glob("*.py")}
    found = {name.removeprefix("test_"): n for name, n in found.items()}
    risen = {name: n for name, n in found.items() if n > allowed.get(name, 0)}
    assert not risen, f"more private names than before: {risen}"


def test_the_page_of_questions_names_tests_that_exist():
    page = (ROOT / "doc" / "guide" / "nist.rst").read_text(encoding="utf-8")
    named = re.findall(r"``(tests/\w+\.py)(?:::(\w+))?``", page)
    assert len(named) > 12
    for file, name in named:
        assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8"), (file, name)
    assert page.count("   * - ") == 13 + 1  # and the head


def test_pages_show_more_than_true():
    """At most one output in eight is a bare True or False: a page shows numbers and tables."""
    pages = [ROOT / "README.md", *(ROOT / "doc").rglob("*.rst")]
    text = "\n".join(page.read_text() for page in pages)
    outputs = re.findall(r"^ *(?:>>>|\.\.\.) .*\n *(?!>>>|\.\.\.)(\S.*)$", text, re.M)
    bare = [output for output in outputs if output in ("True", "False")]
    assert 8 * len(bare) <= len(outputs) > 80


def test_few_first_lines_say_what():
    """First lines of docstrings name the thing; "what" in one is a sign of a riddle."""
    first = []
    for path in (ROOT / "skdpdyn").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                first += (ast.get_docstring(node) or "").splitlines()[:1]
    assert len([line for line in first if re.search(r"\bwhat\b", line, re.I)]) <= 15


HOMEMADE = {
    r"maps? of rows": "preprocessing, or conditioning",
    r"\bshortened\b": "scaled down",
    r"\bmade[- ]up\b": "simulated",
    r"\bgaps? (in|of) (a|the) (column|cell)|columns? with gaps|cells? that nobody": "missing value",
    r"\b(penal|normal|standard)is(e|es|ed|ing)\b": "American spelling, as in scikit-learn",
    r"\bflags\b": "booleans",
    r"tells? nothing": "holds no information",
    r"mean (row|person)\b": "average row, average person",
    r"\bbends? (hazards|coefficients|estimates|probabilities)": "biases",
    r"in the place of": "instead of",
}
"""Words of our own, and the term that a reader can search for."""


def test_pages_use_the_terms_of_the_field():
    """The glossary defines each term. Code, and names in it, may use other words."""
    glossary = (ROOT / "doc/project/glossary.rst").read_text()
    terms = ["sensitivity", "adjacency", "dtype", "category", "person", "preprocessing"]
    terms += ["privacy budget", "missing value", "warm start", "confidence interval"]
    terms += ["standard error", "bought"]
    assert [term for term in terms if f"\n   {term}\n" not in glossary] == []
    found = []
    for page in [ROOT / "README.md", *(ROOT / "doc").rglob("*.rst")]:
        if {"generated", "gallery"} & {*page.parts}:
            continue
        text = page.read_text(encoding="utf-8")
        text = re.sub(r"^ *>>>.*\n(?: *\S.*\n)*|``[^`]*``|`[^`]*`|^    .*$", " ", text, flags=re.M)
        text = " ".join(text.split())
        for word, term in HOMEMADE.items():
            found += [(page.name, match[0], term) for match in re.finditer(word, text)]
    assert found == []
