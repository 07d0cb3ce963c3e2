"""Size of the package: statements by room, names with two meanings, and what a fit enters.

``python -m benchmarks size``: statements are those of Python's grammar, without docstrings, and an
assignment of a written tuple to a tuple counts as one for each of its targets: ``a, b = x, y`` as
two, but for ``a, b = b, a``, which swaps. All together are at most 20,000, which is the only limit.
A room is a folder of the package, or a file beside the folders. Of a function are counted its lines
without its docstring, its ways, which are 1 and one for each `if`, conditional expression, loop,
`except`, `case`, `and`, `or`, and its parameters; of a class its methods. The largest are printed.

Tuples that are assigned to tuples, and names of classes that are defined twice, are printed: there
are none, which `tests/test_benchmarks.py` holds.

A circle are files that import one another, in functions and for type checkers too. An arrow up is
an import between rooms against what they import when they are loaded.

``--trace`` fits ``PrivateLogisticRegression(classes=[0, 1])`` to 10,000 x 20 records, a second
time in this process, and counts the functions and files of the package that the fit enters
(``sys.setprofile``: functions of Python that have a name, not what is compiled), each once, and
those that X passes through: called with an argument that is X's memory, as an array or as rows that
hold one. What reads a property of rows is none.

Minutes: 0.1, and 0.3 with ``--trace``; ``--quick`` changes nothing.
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks._common import ROOT, parser

PACKAGE = ROOT / "skdpdyn"
MOST_STATEMENTS = 20_000
LARGEST = 5  # functions and classes to print
WAYS = ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.match_case


def _is_docstring(node):
    """Return whether a statement is a text that stands alone."""
    value = getattr(node, "value", None)
    return isinstance(node, ast.Expr) and isinstance(getattr(value, "value", None), str)


def _lines(function):
    """Return how many lines a function has without its docstring."""
    first = function.body[0]
    of_docstring = first.end_lineno - first.lineno + 1 if _is_docstring(first) else 0
    return function.end_lineno - function.lineno + 1 - of_docstring


def _ways(function):
    """Return the number of ways through a function."""
    found = 1
    for node in ast.walk(function):
        found += isinstance(node, WAYS)
        found += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
    return found


def _parameters(function):
    """Return how many parameters a function has, without `self` and `cls`."""
    given = function.args
    names = [one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs]]
    names += [one.arg for one in (given.vararg, given.kwarg) if one]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _functions(tree, outer=()):
    """Yield each function with the names around it."""
    for node in ast.iter_child_nodes(tree):
        name = getattr(node, "name", None)
        if isinstance(node, ast.FunctionDef):
            yield ".".join([*outer, name]), node
        yield from _functions(node, (*outer, name) if name and hasattr(node, "body") else outer)


def packed(tree):
    """Return the assignments of a written tuple to a tuple that are no swaps."""
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.List)):
            continue
        values = sorted(map(ast.unparse, node.value.elts))
        targets = [target for target in node.targets if isinstance(target, ast.Tuple | ast.List)]
        if any(sorted(map(ast.unparse, target.elts)) != values for target in targets):
            found.append(node)
    return found


def statements(tree):
    """Return how many statements there are; a packed assignment counts at its length."""
    found = sum(isinstance(node, ast.stmt) and not _is_docstring(node) for node in ast.walk(tree))
    return found + sum(len(node.value.elts) - 1 for node in packed(tree))


def trees(package=PACKAGE):
    """Return the syntax tree of each file, by its place in the package."""
    return {
        path.relative_to(package): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(package.rglob("*.py"))
    }


def repeated_classes(files):
    """Return the names of classes that are defined twice, with the files that define them."""
    places = {}
    for place, tree in files.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(place.as_posix())
    return {name: found for name, found in places.items() if len(found) > 1}


def sizes(files):
    """Return the sizes of functions and classes by what is counted, each with its place."""
    found = {"lines": [], "ways": [], "parameters": [], "methods": []}
    for place, tree in files.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                n_methods = sum(isinstance(part, ast.FunctionDef) for part in node.body)
                found["methods"].append((n_methods, f"{place.as_posix()} {node.name}"))
        for name, function in _functions(tree):
            where = f"{place.as_posix()}:{function.lineno} {name}"
            found["lines"].append((_lines(function), where))
            found["ways"].append((_ways(function), where))
            found["parameters"].append((_parameters(function), where))
    return found


def _imports(package):
    """Return the files that each file imports, and those of them that it imports when loaded."""
    places = {
        path: path.relative_to(package.parent).with_suffix("") for path in package.rglob("*.py")
    }
    names = {
        ".".join(place.parts).removesuffix(".__init__"): path for path, place in places.items()
    }
    every = {}
    loaded = {}
    for path in places:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        later = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.Lambda) or _is_for_types(node)
            for part in ast.walk(node)
        }
        found = [(node, _named(node)) for node in ast.walk(tree)]
        found = [(node, names[_file_of(name, names)]) for node, of in found for name in of]
        every[path] = {target for _, target in found} - {path}
        loaded[path] = {target for node, target in found if id(node) not in later} - {path}
    return every, loaded


def _is_for_types(node):
    return isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"


def _named(node):
    """Return the dotted names of the package that a node imports."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skdpdyn"):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return [name for name in names if name.startswith("skdpdyn")]


def _file_of(name, names):
    """Return the name of the module that a dotted name is, or is in."""
    while name not in names:
        name = name.rpartition(".")[0]
    return name


def _reached(start, edges):
    """Return all that edges lead to from a start."""
    reached = set()
    to_do = [start]
    while to_do:
        new = edges[to_do.pop()] - reached
        reached |= new
        to_do += new
    return reached


def tangled(package=PACKAGE):
    """Return circles of files, and imports between rooms that run back up, as texts."""
    every, loaded = _imports(package)
    top = package / "__init__.py"  # loads everything by name

    def room(path):
        return path.relative_to(package).parts[0]

    reached = {path: _reached(path, every) for path in every}
    circles = {
        frozenset(other for other in reached[path] if path in reached[other])
        for path in every
        if path in reached[path]
    }
    rooms = {room(path): set() for path in loaded}
    for path in loaded.keys() - {top}:
        rooms[room(path)] |= {room(target) for target in loaded[path]}
    up = [
        f"{path.relative_to(package).as_posix()} imports {target.relative_to(package).as_posix()}"
        for path in every.keys() - {top}
        for target in every[path]
        if room(path) != room(target) and room(path) in _reached(room(target), rooms)
    ]
    texts = [", ".join(sorted(p.relative_to(package).as_posix() for p in one)) for one in circles]
    return sorted(texts), sorted(up)


class Walk:
    """What a call enters: functions and files of the package, and the calls that X passes."""

    def __init__(self, X):
        self.functions = set()
        self.files = set()
        self.calls = {}
        self._memory = X

    def __call__(self, frame, event, argument):
        """Note the start of a function of the package."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)):
            return
        place = Path(code.co_filename).relative_to(PACKAGE).as_posix()
        if not code.co_name.startswith("<"):  # no lambda, no comprehension
            self.functions.add((place, code.co_qualname))
        self.files.add(place)
        n_named = code.co_argcount + code.co_kwonlyargcount
        names = code.co_varnames[: n_named + bool(code.co_flags & 4) + bool(code.co_flags & 8)]
        given = [frame.f_locals[name] for name in names if name in frame.f_locals]
        is_read = isinstance(getattr(type(given[0]), code.co_name, None), property) if given else 0
        if not is_read and any(map(self._holds, given)):
            self.calls.setdefault(f"{place} {code.co_qualname}")

    def _holds(self, value):
        """Return whether a value is X's memory, or rows that hold it."""
        if isinstance(value, np.ndarray):
            return np.may_share_memory(value, self._memory)
        held = getattr(value, "__dict__", {}).values() if _is_rows(value) else ()
        return any(self._holds(one) for one in held)


def _is_rows(value):
    """Return whether a value is rows, as the package knows them."""
    from skdpdyn.data.base import Rows

    return isinstance(value, Rows)


def walk():
    """Return the walk of a default fit, after one that compiles."""
    from skdpdyn import PrivateLogisticRegression

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (10_000, 20)) / np.sqrt(20)
    y = (X[:, 0] > 0).astype(int)
    PrivateLogisticRegression(classes=[0, 1]).fit(X, y)
    model = PrivateLogisticRegression(classes=[0, 1])
    found = Walk(X)
    sys.setprofile(found)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(None)
    return found


def trusted():
    """Return the files that each table of doc/trust.rst lists, by its title."""
    page = (PACKAGE.parent / "doc" / "trust.rst").read_text(encoding="utf-8")
    _, *tables = re.split(r"\.\. list-table:: ", page)
    found = {}
    for table in tables:
        cells = re.findall(r"   \* - (.*?)\n     - ", table, re.DOTALL)
        names = [name for cell in cells for name in re.findall(r"``([\w/]+\.py)``", cell)]
        found[table.partition("\n")[0]] = [*map(Path, names)]
    return found


def main(arguments=None):
    """Print sizes, and the limit of all statements."""
    made = parser(__doc__)
    made.add_argument("--trace", action="store_true", help="fit a model, and say what it enters")
    options = made.parse_args(arguments)
    files = trees()
    rooms = Counter()
    for place, tree in files.items():
        rooms[place.parts[0]] += statements(tree)
    for room, size in rooms.most_common():
        print(f"{size:7,}  {room}")
    print(f"{rooms.total():7,}  statements, at most {MOST_STATEMENTS:,}")
    believed = 0
    for title, places in trusted().items():
        believed += sum(statements(files[place]) for place in places)
        print(f"{believed:7,}  statements to trust, up to this table of doc/trust.rst: {title}")
    tuples = [f"{place}:{node.lineno}" for place, tree in files.items() for node in packed(tree)]
    twice = [f"{name}: {', '.join(found)}" for name, found in repeated_classes(files).items()]
    print(f"\n{len(tuples)} tuples assigned to tuples, swaps apart", *tuples, sep="\n  ")
    print(f"\n{len(twice)} names of classes with two meanings", *twice, sep="\n  ")
    for what, texts in zip(("circles of files", "arrows up"), tangled(), strict=True):
        print(f"\n{len(texts)} {what}", *texts, sep="\n  ")
    for what, found in sizes(files).items():
        print(f"\nmost {what}")
        for size, where in sorted(found, reverse=True)[:LARGEST]:
            print(f"{size:7}  {where}")
    if options.trace:
        found = walk()
        print("\nA default fit enters")
        for name in ("functions", "files", "calls"):
            print(f"{len(getattr(found, name)):7}  {name}")


if __name__ == "__main__":
    main()
