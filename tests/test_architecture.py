"""The house: who may import whom, what loads what, and what every public docstring says."""

import ast
import fnmatch
import importlib
import inspect
import os
import pickle
import re
import subprocess
import sys
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pytest
import sklearn.base
from mutations import MUTATIONS, place

import skdpdyn
from skdpdyn import PrivateGAMClassifier, PrivateLogisticRegression
from skdpdyn.linear_model import PrivateLinearModel

pytestmark = pytest.mark.every_case

PACKAGE = Path(skdpdyn.__file__).parent

# Imports go from larger numbers to smaller ones. The second number orders one folder: its contract
# and its kernels, then its leaves, then the __init__ that lists them. A name goes before a pattern,
# and a long pattern before a short one.
LAYERS = {
    (0, 0): (
        "core/__init__ exceptions privacy/_types support/__init__ support/blas support/chunks "
        "support/progress support/startup support/stored training/__init__"
    ),
    (0, 1): (
        "privacy/_logarithms privacy/_numerics privacy/checks privacy/disk privacy/display "
        "privacy/stored support/lazy support/threads"
    ),
    (0, 2): "core/columns privacy/arguments privacy/fields privacy/needs",
    (1, 0): "privacy/guarantees",
    (1, 1): (
        "core/sealed privacy/budget privacy/loss_grids privacy/mixtures privacy/regret "
        "privacy/renyi privacy/sampled"
    ),
    (1, 2): "privacy/rounded",
    (2, 0): "privacy/mechanisms privacy/releases privacy/schedules",
    (2, 1): "privacy/accountants/registry privacy/laplace",
    (2, 3): "privacy/numerical",
    (3, 0): "privacy/accountants/*",
    (4, 0): "privacy/accountants/__init__",
    (
        5,
        0,
    ): "privacy/calibration privacy/filters privacy/sequences privacy/serialization privacy/words",
    (5, 1): "privacy/charges privacy/deployment privacy/journal privacy/proofs",
    (5, 2): "privacy/books privacy/card",
    (5, 3): "privacy/report",
    (5, 4): "privacy/ledger",
    (6, 0): "core/rules data/ranges kernels/__init__ kernels/asked kernels/jit privacy/__init__",
    (6, 0, 5): "kernels/later",
    (6, 1): (
        "kernels/ball kernels/cells kernels/normals kernels/ready kernels/release kernels/sums "
        "kernels/vectors"
    ),
    (6, 2): "core/expansion core/losses core/noise kernels/gradients",
    (6, 3): "core/objective core/schema kernels/statistics",
    (6, 4): "core/rounding data/cluster/__init__ training/sources",
    (6, 5): "data/rows kernels/products",
    (6, 6): "data/persons data/row_map kernels/*",
    (6, 7): "data/base data/products",
    (6, 8): "core/spending data/local",
    (6, 9): (
        "data/coded data/streamed data/tally training/cells training/conditioning training/ranges"
    ),
    (6, 10): "data/cluster/worker data/files",
    (6, 11): "data/__init__ data/cluster/driver data/lookups data/parquet",
    (6, 12): "data/cluster/dask",
    (7, 0): "solvers/minimise solvers/steps",
    (7, 1): "solvers/runs",
    (7, 2): "solvers/base",
    (7, 3): "solvers/batches",
    (7, 4): "solvers/*",
    (7, 5): "solvers/__init__",
    (8, 0): "datasets/_tables training/base",
    (8, 1): "training/foreign training/targets",
    (8, 2): "training/additive training/parameters training/start",
    (8, 3): "training/values",
    (8, 4): "training/reading",
    (8, 5): "training/parts training/silent",
    (8, 4, 5): "training/problem",
    (8, 5, 5): "training/line training/look training/residuals training/slope",
    (8, 6): "training/counts training/recipe",
    (8, 7): "training/plan",
    (8, 7, 5): "training/facts",
    (8, 7, 6): "training/purchase",
    (8, 7, 7): "preprocessing training/completion",
    (8, 8): "export/onnx training/fit",
    (8, 8, 1): "export/io",
    (8, 8, 2): "export/__init__",
    (8, 9): "linear_model/base linear_model/shapes",
    (8, 10): "linear_model/*",
    (8, 11): "linear_model/gam",
    (8, 12): "linear_model/__init__",
    (9, 0): "datasets/_*",
    (9, 1): "datasets/__init__ model_selection/_steps",
    (9, 2): "model_selection/_*",
    (9, 3): "model_selection/_candidates model_selection/_searches",
    (9, 4): "model_selection/*",
    (9, 5): "model_selection/__init__",
    (9, 5, 1): "audit/results",
    (9, 5, 2): "audit/one_fit",
    (9, 5, 3): "audit/replay",
    (9, 5, 4): "audit/kinds",
    (9, 6): "audit/__init__ inspection",
    (9, 7): "evaluation/estimates planning",
    (9, 7, 1): "evaluation/bins evaluation/curves",
    (9, 8): "evaluation/results",
    (9, 9): "evaluation/parts",
    (9, 9, 1): "evaluation/numbers",
    (9, 9, 2): "evaluation/paired",
    (9, 9, 3): "evaluation/counts",
    (9, 10): "evaluation/prediction evaluation/scoring",
    (9, 11): "evaluation/__init__",
    (9, 12): "inference/directions inference/histories inference/levels",
    (9, 12, 5): "inference/scored inference/splines",
    (9, 13): "inference/scoring inference/table",
    (9, 14): "inference/*",
    (9, 15): "inference/planned",
    (9, 16): "inference/__init__",
    (10, 0): "__init__",
    (10, 1): "__main__",
}
PLACES = [(name, layer) for layer, names in LAYERS.items() for name in names.split()]
PLACES.sort(key=lambda place: ("*" in place[0], -len(place[0])))


class Module:
    """A source file: its dotted name, its number, and every import in it, inside functions too."""

    def __init__(self, path):
        self.path = path.relative_to(PACKAGE).as_posix()
        dotted = ".".join(("skdpdyn", *path.relative_to(PACKAGE).with_suffix("").parts))
        self.name = dotted.removesuffix(".__init__")
        self.tree = ast.parse(path.read_text(encoding="utf-8"))

    @property
    def layer(self):
        name = self.path.removesuffix(".py")
        for pattern, layer in PLACES:
            same_depth = pattern.count("/") == name.count("/")
            if same_depth and fnmatch.fnmatchcase(name, pattern):
                return layer
        return None

    @cached_property
    def _found(self):
        """Triples (node, line, dotted name) of every import."""
        typing = set()
        if self.path.endswith("__init__.py"):  # which shows type checkers what it loads on use
            parts = filter(_is_typing, ast.walk(self.tree))
            typing = {id(node) for part in parts for node in ast.walk(part)}
        found = []
        for node in ast.walk(self.tree):
            if id(node) in typing:
                continue
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif _called_name(node) in ("import_module", "__import__"):
                name = node.args[0]
                names = [name.value if isinstance(name, ast.Constant) else "?"]
            else:
                continue
            found += [(node, node.lineno, name) for name in names]
        return found

    def imports(self):
        """Pairs (line, dotted name) of all imported names: ``from a.b import c`` is a.b.c."""
        return [(line, name) for _, line, name in self._found]

    def imports_at_load(self):
        """The imports that run when the module is loaded."""
        functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        inside = [node for node in ast.walk(self.tree) if isinstance(node, functions)]
        later = {id(node) for function in inside for node in ast.walk(function)}
        return [(line, name) for node, line, name in self._found if id(node) not in later]


def _is_typing(node):
    return isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"


def _called_name(node):
    """The name of what a node calls, None where it calls nothing."""
    called = getattr(node, "func", None)
    return getattr(called, "id", None) or getattr(called, "attr", None)


def _dotted(node):
    """``a.b.c`` of nested attributes, or None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := _dotted(node.value)):
        return f"{head}.{node.attr}"
    return None


@cache
def modules():
    """The files of the package by name: read in the first test that asks, not in every process."""
    return {module.name: module for module in map(Module, sorted(PACKAGE.rglob("*.py")))}


def _module_of(dotted):
    """The module of the package that an imported dotted name is, or lives in."""
    while dotted not in modules():
        dotted = dotted.rpartition(".")[0]
    return modules()[dotted]


def _is_in(name, package):
    return name == package or name.startswith(package + ".")


def _is_in_any(name, packages):
    return any(_is_in(name, package) for package in packages)


def each(values):
    """Hold a law for each of ``values()`` in one test: thousands of cases take longer than laws."""

    def law(hold):
        def test():
            broken = []
            for value in values():
                try:
                    hold(value)
                except (AssertionError, pytest.fail.Exception) as error:
                    broken.append(str(error))
            assert not broken, "\n".join(broken)

        test.__doc__ = hold.__doc__
        return test

    return law


each_module = each(lambda: modules().values())


@each_module
def test_every_module_has_a_number(module):
    assert module.layer is not None, (
        f"skdpdyn/{module.path} is not in LAYERS: add it there, and to the picture in "
        "doc/architecture.rst, with the number that "
        "says what it may import"
    )


def test_the_top_level_is_small():
    """Twenty files and folders of source: what else there is has a room."""
    entries = {name.split(".")[1] for name in modules() if "." in name} | {"__init__"}
    assert len(entries) <= 20, sorted(entries)


@pytest.mark.smoke
@each_module
def test_imports_go_down(module):
    for line, name in module.imports():
        if not _is_in(name, "skdpdyn"):
            continue
        target = _module_of(name)
        if module.layer is None or target.layer is None:
            continue  # the test above says so
        allowed = target.layer < module.layer
        assert allowed, (
            f"skdpdyn/{module.path}:{line} (layer {module.layer}) imports {name} (layer "
            f"{target.layer}): "
            "imports go from larger numbers to smaller ones only"
        )


def test_files_that_are_trusted_import_no_others():
    page = (PACKAGE.parent / "doc" / "trust.rst").read_text(encoding="utf-8")
    default, _ = page.split(".. list-table:: Beyond a default fit")
    listed = {name for name in re.findall(r"``([\w/]+\.py)``", default) if "tests/" not in name}
    paths = {module.path: module for module in modules().values()}
    reached = {
        _module_of(name).path
        for path in listed
        for _, name in paths[path].imports()
        if _is_in(name, "skdpdyn")
    }
    reached = {path for path in reached if not path.endswith("__init__.py")}  # lists of names
    assert reached <= set(re.findall(r"``([\w/]+\.py)``", page))


def _room(name):
    """Return the folder or the file of the package that a module stands in."""
    return name.removeprefix("skdpdyn.").partition(".")[0]


@pytest.mark.smoke
def test_no_circle_of_rooms():
    rooms = {_room(name): set() for name in modules() if name != "skdpdyn"}
    for module in modules().values():
        if module.name != "skdpdyn":
            names = [n for _, n in module.imports_at_load() if _is_in(n, "skdpdyn")]
            rooms[_room(module.name)] |= {_room(_module_of(name).name) for name in names}
    while free := {name for name, targets in rooms.items() if not targets & rooms.keys() - {name}}:
        rooms = {name: targets for name, targets in rooms.items() if name not in free}
    assert not rooms, f"these rooms import each other in a circle, or lean on one: {sorted(rooms)}"


@each(lambda: [m for m in modules().values() if _is_in(m.name, "skdpdyn.privacy")])
def test_privacy_stands_on_its_own(module):
    names = [name for _, name in module.imports()]
    rooms = "skdpdyn.privacy", "skdpdyn.exceptions"
    foreign = [one for one in names if _is_in(one, "skdpdyn") and not _is_in_any(one, rooms)]
    assert not foreign, f"privacy imports nothing of skdpdyn but exceptions, not {foreign}"
    at_load = [name for _, name in module.imports_at_load()]
    for imported, allowed in (
        (at_load, {"numpy", "scipy"}),
        (names, {"numpy", "scipy", "dp_accounting", "matplotlib"}),  # inside functions
    ):
        heavy = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
        assert heavy <= allowed | {"skdpdyn"}, f"{module.path} loads {heavy}, not {allowed} alone"


JUDGES = {"privacy", "accountants", "judge", "least_noise", "most_steps", "calibrate"}
JUDGES |= {"last_iterate_mu", "*"}
JUDGING = "accountants", "calibration", "sequences"  # modules


@each(lambda: [m for m in modules().values() if _is_in(m.name, "skdpdyn.solvers")])
def test_who_describes_does_not_judge(module):
    accountants = set(importlib.import_module("skdpdyn.privacy.accountants").__all__)
    for line, name in module.imports():
        if not _is_in(name, "skdpdyn.privacy"):
            continue
        what = name.rpartition(".")[2]
        judging = [f"skdpdyn.privacy.{module}" for module in JUDGING]
        judges = what in accountants | JUDGES or _is_in_any(name, judging)
        assert not judges, f"skdpdyn/{module.path}:{line}: solvers never see an accountant: {name}"


@each_module
def test_numba_only_where_kernels_are(module):
    names = [name for _, name in module.imports()]
    used = [name for name in names if _is_in(name, "numba") or _is_in(name, "llvmlite")]
    kernels = module.path.startswith("kernels/")
    assert kernels or not used, f"skdpdyn/{module.path} imports {used}: compile it in kernels/"


@each_module
def test_randomness_comes_from_one_module(module):
    # where it comes from, and is shaped
    if module.path in ("core/noise.py", "kernels/normals.py", "kernels/release.py"):
        return
    sources = ("random", "secrets", "numpy.random", "randomgen", "os.urandom", "scipy.stats")
    names = [name for _, name in module.imports()]
    imported = [name for name in names if _is_in_any(name, sources)]
    assert not imported, f"skdpdyn/{module.path} imports {imported}: randomness is of core/noise.py"
    type_only = set()
    if module.path == "kernels/jit.py":
        asked = [n for n in ast.walk(module.tree) if _called_name(n) == "typeof"]
        type_only = {id(node) for call in asked for node in ast.walk(call)}
    for node in ast.walk(module.tree):
        used = _dotted(node) if isinstance(node, ast.Attribute) else None
        if used in ("np.random", "numpy.random", "os.urandom") and id(node) not in type_only:
            pytest.fail(f"skdpdyn/{module.path}:{node.lineno} uses {used}, not core/noise.py")


# Names that have one meaning, see "Words" in doc/architecture.rst, and the folders that have no
# use for it
WORDS = {
    "bound": ("kernels/", "data/"),
    "curvature": ("data/", "linear_model/", "model_selection/"),
    "order": ("kernels/", "data/"),
    "rng": ("",),
}


@each_module
def test_a_name_has_one_meaning(module):
    names = [(node.id, node) for node in ast.walk(module.tree) if isinstance(node, ast.Name)]
    names += [(node.arg, node) for node in ast.walk(module.tree) if isinstance(node, ast.arg)]
    rooms = {name: WORDS.get(name, ()) for name, _ in names}
    used = [pair for pair in names if module.path.startswith(rooms[pair[0]])]
    wrong = [f"{name} in line {node.lineno}" for name, node in used]
    assert not wrong, f"skdpdyn/{module.path} has another meaning for {wrong}"


def _is_private(name):
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


# What base classes of scikit-learn keep to themselves: a call through self would be found only
# when a release drops it
BASES = filter(inspect.isclass, vars(sklearn.base).values())
INHERITED = {name for base in BASES for name in dir(base) if _is_private(name)}


@cache
def inherited_private():
    """Private names of scikit-learn's base classes that the package defines no function of."""
    nodes = (node for module in modules().values() for node in ast.walk(module.tree))
    return INHERITED - {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


@each_module
def test_only_public_names_of_scikit_learn(module):
    for line, name in module.imports():
        if _is_in(name, "sklearn"):
            private = any(map(_is_private, name.split(".")))
            assert not private, f"skdpdyn/{module.path}:{line} imports {name}, a private name"
    local = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.ImportFrom) and _is_in(node.module or "", "sklearn"))
        or (
            isinstance(node, ast.Import)
            and any(_is_in(alias.name, "sklearn") for alias in node.names)
        )
        for alias in node.names
    }
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Attribute) or not _is_private(node.attr):
            continue
        dotted = _dotted(node) or f"?.{node.attr}"
        place = f"skdpdyn/{module.path}:{node.lineno} uses {dotted}"
        assert dotted.partition(".")[0] not in local, f"{place}, a private name"
        assert node.attr not in inherited_private(), (
            f"skdpdyn/{module.path}:{node.lineno} uses {dotted}, which scikit-learn's base "
            "classes keep private"
        )


def _loaded_by(statement):
    program = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


EXTRAS = {"dp_accounting", "matplotlib", "torch", "cupy"}
COMPILED = EXTRAS | {"numba", "llvmlite"}
THEORY = EXTRAS | {"numba", "sklearn", "pandas", "randomgen"}
LOADS = [  # what a statement loads, and what it does not
    ("import skdpdyn.privacy; skdpdyn.privacy.tightest", {"numpy", "scipy"}, THEORY),
    ("import skdpdyn; skdpdyn.__version__; assert 'inspection' in dir(skdpdyn)", set(), THEORY),
    ("import skdpdyn; skdpdyn.privacy.GaussianDP; skdpdyn.solvers.NoisyGD", {"scipy"}, COMPILED),
    ("from skdpdyn import PrivateRidge, preprocessing", {"sklearn"}, COMPILED),
]


@pytest.mark.system
@pytest.mark.parametrize(("statement", "loads", "never"), LOADS)
def test_what_is_loaded(statement, loads, never):
    loaded = _loaded_by(statement)
    assert loads <= loaded
    assert not loaded & never


@pytest.mark.system
def test_predictions_of_stored_models_load_no_compiler(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    known = {"classes": [False, True], "bounds": (-1, 1)}
    kinds = PrivateLogisticRegression, PrivateGAMClassifier
    models = [kind(1.0, **known).fit(X, X[:, 0] > 0) for kind in kinds]
    (tmp_path / "models").write_bytes(pickle.dumps((models, X)))
    statement = (
        "import pickle\n"
        f"models, X = pickle.load(open({str(tmp_path / 'models')!r}, 'rb'))\n"
        "for model in models: model.predict_proba(X), model.predict(X[:1])"
    )
    loaded = _loaded_by(statement)
    assert "sklearn" in loaded
    assert not loaded & COMPILED


# Docstrings. What is exported here is documented in full; everything else that is public agrees
# with its own signature.

ROOMS = [
    *("privacy", "solvers", "linear_model", "data", "datasets", "preprocessing", "model_selection"),
    *("inspection", "inference", "evaluation", "export.onnx", "planning"),
]
PUBLIC_MODULES = ["skdpdyn", *(f"skdpdyn.{room}" for room in ROOMS)]


def _defined_in(module):
    named = vars(module).items()
    return [name for name, one in named if getattr(one, "__module__", None) == module.__name__]


@cache
def exported():
    """Every public class and function by its place."""
    objects = {}
    for module in map(importlib.import_module, PUBLIC_MODULES):
        public = [name for name in _defined_in(module) if not name.startswith("_")]
        names = getattr(module, "__all__", None) or public
        values = [getattr(module, name) for name in names]
        values = [v for v in values if inspect.isclass(v) or inspect.isroutine(v)]
        objects |= {f"{v.__module__}.{v.__qualname__}": v for v in values}
    return objects


def _is_ours(member):
    """Whether the package wrote a method or property: no field, nothing that scikit-learn made."""
    function = member.fget if isinstance(member, property) else member
    return inspect.isroutine(function) and _is_in(function.__module__ or "", "skdpdyn")


@cache
def documented():
    """Every public class, function, method and property that the package defines."""
    objects = {}
    for module in map(importlib.import_module, modules()):
        for name in _defined_in(module):
            value = getattr(module, name)
            if name.startswith("_") or not (inspect.isclass(value) or inspect.isroutine(value)):
                continue
            objects[f"{module.__name__}.{name}"] = value
            if inspect.isclass(value):
                members = {n: getattr(value, n) for n in vars(value) if not n.startswith("_")}
                prefix = f"{module.__name__}.{name}"
                objects |= {
                    f"{prefix}.{n}": member for n, member in members.items() if _is_ours(member)
                }
    return objects


def _sections(docstring):
    """Sections of a numpydoc docstring by title."""
    title = r"^([A-Z][A-Za-z ]+)\n-{3,}\n"
    parts = re.split(title, inspect.cleandoc(docstring), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _parameters(section):
    """Pairs (name, type) of a Parameters section, in order; ``a, b : float`` is two."""
    entries = [line for line in section.splitlines() if line and not line.startswith(" ")]
    pairs = [entry.partition(" : ")[::2] for entry in entries]
    return [(name.strip(), kind.strip()) for names, kind in pairs for name in names.split(",")]


def _signature(value):
    parameters = list(inspect.signature(value).parameters.values())
    return parameters[1:] if parameters and parameters[0].name == "self" else parameters


def _value(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return float(text) if text in ("inf", "-inf", "nan") else text


def _check_parameters(name, value, section):
    documented = _parameters(section)
    signature = _signature(value)
    names = [n.lstrip("*") for n, _ in documented]
    assert names == [p.name for p in signature], f"{name}: not the parameters of the signature"
    for (parameter, kind), declared in zip(documented, signature, strict=True):
        if kind == "None":  # ignored, there for scikit-learn's sake
            continue
        described, has_default, default = kind.partition("default=")
        assert described.strip(" ,"), f"{name}: {parameter} has no type"
        assert bool(has_default) == (declared.default is not declared.empty), (
            f"{name}: {parameter} : {kind!r} must say default= exactly where the signature has "
            "a default"
        )
        if has_default:
            right = _value(default) == declared.default
            assert right, f"{name}: {parameter} is documented as {kind!r}, not {declared.default!r}"


def _is_abstract(value):
    return any(getattr(member, "__isabstractmethod__", False) for member in vars(value).values())


@each(documented)
def test_docstring_agrees_with_signature(name):
    value = documented()[name]
    docstring = (value.fget if isinstance(value, property) else value).__doc__
    # by dataclass
    generated = inspect.isclass(value) and docstring and docstring.startswith(f"{value.__name__}(")
    assert docstring, f"{name} has no docstring"
    assert not generated, f"{name} has no docstring"
    sections = _sections(docstring)
    if "Parameters" in sections:
        _check_parameters(name, value, sections["Parameters"])


def _entries(docstring, title):
    """Entries of a section, each as one line."""
    section = _sections(docstring or "").get(title, "")
    return {" ".join(entry.split()) for entry in re.split(r"^(?=\S)", section, flags=re.MULTILINE)}


@each(lambda: [name for name in exported() if "linear_model" in name])
def test_a_docstring_does_not_repeat_what_bases_describe(name):
    """`skdpdyn.training.base.described` adds it, so that each text has one place."""
    value = exported()[name]
    if not (inspect.isclass(value) and issubclass(value, PrivateLinearModel)):
        return
    own = ast.get_docstring(ast.parse(inspect.getsource(value)).body[0])
    for title in ("Parameters", "Attributes"):
        bases = [base.__doc__ for base in value.__mro__[1:]]
        repeated = {entry for base in bases for entry in _entries(base, title)}
        assert not (_entries(own, title) & repeated) - {""}, name


@each(exported)
def test_exported_name_is_documented_in_full(name):
    value = exported()[name]
    sections = _sections(value.__doc__ or "")
    if inspect.isclass(value) and (_is_abstract(value) or issubclass(value, Exception)):
        return
    assert ">>> " in sections.get("Examples", ""), f"{name} has no Examples section with code in it"
    if "Adjacency" in name:  # an enum: its members, not its signature
        return
    assert ("Parameters" in sections) == bool(_signature(value)), f"{name}: its parameters"


# The disk cache of numba

FIT = """
import gc
import numpy as np
from numba.core.registry import CPUDispatcher
from scipy import sparse
from skdpdyn import PrivateLogisticRegression, PrivateSoftmaxRegression

X = np.random.default_rng(0).uniform(-1, 1, (600, 3))
for rows in (X, sparse.csr_array(X)):
    for model in (PrivateLogisticRegression, PrivateSoftmaxRegression):
        model(classes=[False, True], n_jobs=2).fit(rows, X[:, 0] > 0)
for kernel in [k for k in gc.get_objects() if isinstance(k, CPUDispatcher)]:
    if kernel.py_func.__module__.startswith("skdpdyn.") and kernel._cache.cache_path:
        if any(kernel.stats.cache_misses.values()):
            print(kernel.py_func.__name__)
"""


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") == "1", reason="needs compiled kernels"
)
def test_second_process_hits_the_disk_cache(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FIT]
    compiled = []
    for _ in range(2):
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        compiled.append(set(run.stdout.split()))
    assert {"_some_chunks", "_logistic_residual", "_softmax_residual"} <= compiled[0]
    assert not compiled[1], "compiled again, although an earlier process had done it"


def test_faults_that_are_planted_by_hand_have_their_place():
    """``python tests/mutations.py`` plants them; a test alone would take minutes."""
    lost = []
    for mutation in MUTATIONS:
        try:
            place(mutation, PACKAGE)
        except LookupError as error:
            lost.append(str(error))
    assert not lost, "\n".join(lost)
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 70


def test_editors_see_what_is_loaded_lazily():
    """Types are marked as there, and what type checkers import is what the package offers."""
    assert (PACKAGE / "py.typed").exists()
    seen = {}
    for node in modules()["skdpdyn"].tree.body:
        if isinstance(node, ast.If) and node.test.id == "TYPE_CHECKING":
            imported = [(part.module, alias.name) for part in node.body for alias in part.names]
            seen |= {name: f"{module}.{name}" for module, name in imported}
    assert set(seen) == set(dir(skdpdyn)) - {"__version__"}
    for name, source in seen.items():
        module, _, attribute = source.rpartition(".")
        assert getattr(importlib.import_module(module), attribute) is getattr(skdpdyn, name)
