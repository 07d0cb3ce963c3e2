"""Every model of tables that can be had, side by side, by one protocol that nobody tunes.

``python -m benchmarks arena`` fits each model to each table, at epsilon .1, .3, 1, 3 and 10, under
the relation (or both) that its promise is for, on five splits. ``doc/arena.rst`` is the protocol.
Rivals have an environment each, made by pip in ``--environments``; one that cannot be installed, or
does not run, is a line that says why. A rival above 60 s of CPU a fit runs at epsilon 1, on three
splits; after ``--seconds`` on a table a model keeps the splits that it has. Tables without a file
in ``--data`` are skipped aloud. A folder of CSV files with a ``NAME.schema.json`` each is read in
place of ours; see `skdpdyn.Schema`. The target is the last column that the schema does not name.

Means over splits with standard errors go to ``--csv``, in place of the same model's lines there;
``--pages`` makes README's and the docs' tables and the figure of it, and fits nothing.

Minutes on two cores: 140; 5 with ``--quick``: three tables, epsilon 1, two splits, two rivals.
"""

import ast
import csv
import itertools
import json
import os
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np

from benchmarks._arena_pages import write_pages
from benchmarks._common import ROOT, TABLES, loaded, mean_and_error, parser, schema_of

EPSILONS = 1.0, 0.1, 0.3, 3.0, 10.0  # 1 first: slow rivals end there
RELATIONS = "replace_one", "add_remove"
N_SPLITS = 5
MODULES = "ours", "sklearn", "interpret", "diffprivlib", "opacus", "dpmm", "dp_xgboost"
QUICK = {"tables": ("adult", "flights", "magic"), "modules": MODULES[:4], "splits": 2}
SLOW = "additive without privacy"  # minutes a fit, left out of a quick run
SCORES = "accuracy", "auc", "log_loss", "ece", "ratio", "r2"
KEY = "table", "model", "epsilon", "relation"
HEAD = (*KEY, "splits", "rows", "package", "version", "commit")
HEAD += tuple(name + end for name in SCORES for end in ("", "_error"))
HEAD += "seconds", "wall", "megabytes", "note"
SOURCE = "published: Peinemann et al. (2024), S-BDT, arXiv 2309.12041"
PUBLISHED = (  # table, epsilon, score, value
    ("adult", 0.07, "accuracy", 1 - 0.187),
    ("adult", 0.54, "accuracy", 1 - 0.171),
    ("abalone", 0.15, "r2", 0.39),
    ("abalone", 0.54, "r2", 0.47),
)


def commit():
    """Return the commit of this clone, with a + where files differ from it."""
    if "GIT_COMMIT" in os.environ:  # of a copy without a history
        return os.environ["GIT_COMMIT"]
    run = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def constants_of(module):
    """Return what a module of rivals needs and has, without importing its package."""
    tree = ast.parse((ROOT / "benchmarks" / "rivals" / f"{module}.py").read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        name = getattr(node.targets[0], "id", "") if isinstance(node, ast.Assign) else ""
        if name in ("NEEDS", "MODELS", "PACKAGE"):
            found[name] = ast.literal_eval(node.value)
    return found


def environment(folder, module, needs):
    """Return the Python of an environment that has what a module needs, made where it is not."""
    if not needs:
        return sys.executable
    root = folder.resolve() / module
    python = root / "bin" / "python"
    done = root / "needs.txt"
    if not done.exists() or done.read_text() != "\n".join(needs):
        print(f"making {root} with {' '.join(needs)}", flush=True)
        venv.create(root, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needs]
        run = subprocess.run(pip, capture_output=True, text=True, check=False)
        if run.returncode:
            why = [line for line in run.stderr.splitlines() if line.startswith("ERROR")]
            raise RuntimeError((why or run.stderr.splitlines() or ["pip failed"])[-1])
        done.write_text("\n".join(needs))
    return str(python)


def asked_of(model, relation, asked):
    """Return what is asked of a model: its budgets, relations and splits."""
    if relation == "none":
        return [{"model": model, "epsilon": None, "relation": "none", "splits": asked["splits"]}]
    relations = RELATIONS if relation == "both" else (relation,)
    return [
        {"model": model, "epsilon": epsilon, "relation": one, "splits": asked["splits"]}
        for epsilon in asked["epsilons"]
        for one in relations
    ]


def fits(python, module, path, questions, folder, seconds):
    """Return what a worker prints: facts first, then a record for each fit or error."""
    given = folder / f"{path.name}-{module}-{questions[0]['model']}.jsonl"
    given.write_text("\n".join(map(json.dumps, questions)))
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environ = {**os.environ, **threads, "NUMBA_NUM_THREADS": "1", "PYTHONPATH": paths}
    run = [python, "-m", "benchmarks._worker", module, str(path), str(given)]
    options = {"capture_output": True, "check": False, "env": environ, "cwd": ROOT}
    try:
        done = subprocess.run(run, timeout=seconds, **options)
        why = done.stderr.decode().splitlines()[-1:] or ["ended by a signal"]
        why = why[0] if done.returncode else ""
        out = done.stdout
    except subprocess.TimeoutExpired as error:
        why = f"stopped after {seconds:g} s"
        out = error.stdout or b""
    records = [json.loads(line) for line in out.decode().splitlines() if line.endswith("}")]
    if why:  # of the first question that lacks answers
        answered = [(one["epsilon"], one["relation"]) for one in records[1:]]
        n_answers = [answered.count((one["epsilon"], one["relation"])) for one in questions]
        left = [one for one, n in zip(questions, n_answers, strict=True) if n < one["splits"]]
        records = (records or [{}]) + [{**one, "error": why} for one in left[:1]]
    return records


def summaries(table, package, records, of_commit):
    """Return a line for each budget: means and standard errors over splits."""
    facts, *records = records
    lines = {}
    for record in records:
        key = record["model"], record["epsilon"], record["relation"]
        lines.setdefault(key, []).append(record)
    for (model, epsilon, relation), some in lines.items():
        line = {"table": table, "model": model, "epsilon": "" if epsilon is None else epsilon}
        line |= {"relation": relation, "package": package, "commit": of_commit, **facts}
        good = [one for one in some if "error" not in one]
        line["splits"] = len(good)
        line["note"] = next((one["error"] for one in some if "error" in one), "")
        for name in SCORES:
            if good and name in good[0]:
                mean, error = mean_and_error([one[name] for one in good])
                line |= {name: f"{mean:.5f}", f"{name}_error": f"{error:.5f}"}
        for name in ("seconds", "wall", "megabytes"):
            values = [one[name] for one in good if one[name] is not None]
            line[name] = f"{np.median(values):.3f}" if values else ""
        yield line


def read_lines(path):
    """Return the lines of a file of results, by table, model, epsilon and relation."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {tuple(line[name] for name in KEY): line for line in csv.DictReader(file)}


def write_lines(path, lines):
    """Write lines, in an order that does not depend on when they were measured."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, HEAD, lineterminator="\n", restval="")
        writer.writeheader()
        order = {name: place for place, name in enumerate(TABLES)}
        keys = sorted(
            lines,
            key=lambda key: (order.get(key[0], 99), key[0], key[1], key[3], float(key[2] or "inf")),
        )
        writer.writerows(lines[key] for key in keys)


def tables(options, folder):
    """Yield names and files of the tables: those of the folder, or ours with their schemas."""
    own = [path for path in sorted(options.data.glob("*.csv*")) if schema_of(path)]
    for path in own:
        name = path.name.partition(".csv")[0]
        if name in (options.only or [name]):
            yield name, path
    names = options.only or (QUICK["tables"] if options.quick else TABLES)
    for name, table in loaded(() if own else names, lambda name: TABLES[name](options.data)):
        table.write(folder)
        yield name, folder / f"{name}.csv"


def main(arguments=None):
    """Fit all that is asked for, and keep the lines."""
    made = parser(__doc__)
    made.add_argument("--only", nargs="+", metavar="NAME", help="tables; default: all")
    made.add_argument("--rivals", nargs="+", choices=MODULES, metavar="NAME", help=str(MODULES))
    made.add_argument("--models", nargs="+", metavar="NAME", help="some of their models alone")
    made.add_argument("--epsilon", nargs="+", type=float, help="default: .1 .3 1 3 10")
    made.add_argument("--environments", type=Path, default=ROOT / ".arena")
    made.add_argument("--jobs", type=int, default=2, help="processes at a time")
    made.add_argument("--seconds", type=float, default=600.0, help="most of a model on a table")
    made.add_argument("--csv", type=Path, help="file of results; default: printed alone")
    made.add_argument("--pages", action="store_true", help="write what is made of --csv")
    options = made.parse_args(arguments)
    if options.pages:
        write_pages(options.csv or ROOT / "doc" / "arena.csv")
        return
    modules = options.rivals or (QUICK["modules"] if options.quick else MODULES)
    asked = {"epsilons": options.epsilon or (EPSILONS[:1] if options.quick else EPSILONS)}
    asked["splits"] = QUICK["splits"] if options.quick else N_SPLITS
    lines = read_lines(options.csv) if options.csv else {}
    of_commit = commit()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        work = []
        files = list(tables(options, folder))
        for table, epsilon, score, value in PUBLISHED:
            line = dict(zip(KEY, (table, "S-BDT, published", str(epsilon), ""), strict=True))
            if table in dict(files):
                lines[tuple(line.values())] = line | {score: f"{value:.3f}", "note": SOURCE}
        for module in modules:
            facts = constants_of(module)
            try:
                python = environment(options.environments, module, facts["NEEDS"])
            except (RuntimeError, OSError) as error:
                print(f"NOT INSTALLED {module}: {error}", flush=True)
                continue
            models = [one for one in facts["MODELS"].items() if one[0] in (options.models or one)]
            models = [one for one in models if not options.quick or one[0] != SLOW]
            for (name, path), (model, relation) in itertools.product(files, models):
                questions = asked_of(model, relation, asked)
                job = python, module, path, questions, folder, options.seconds
                work.append((name, facts["PACKAGE"], job))
        with ThreadPoolExecutor(options.jobs) as pool:
            started = {pool.submit(fits, *job): (name, package) for name, package, job in work}
            for future in as_completed(started):
                for line in summaries(*started[future], future.result(), of_commit):
                    show(line)
                    lines[tuple(str(line[part]) for part in KEY)] = line
                    if options.csv:
                        write_lines(options.csv, lines)


def show(line):
    """Print a line."""
    what = "{table:>12}{model:>28}{epsilon!s:>6}{relation:>13}".format_map(line)
    cells = (f"{name} {line[name]} +-{line[f'{name}_error']}" for name in SCORES if line.get(name))
    print(f"{what}  {'  '.join(cells)}  {line['seconds']} s  {line['note']}", flush=True)
