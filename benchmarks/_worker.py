"""Fit models of one package to one table, in its environment, and print their scores.

The arguments are the module of the package, the table's file, and a file of what is asked: lines of
JSON, ``{"model", "epsilon", "relation", "splits"}``. Each fit is a line of JSON too.
"""

import importlib
import json
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks._common import read_table, scores, splits

FEW = 2_000  # rows of a fit that compiles
SLOW = 60.0
SPLITS_OF_SLOW = 3  # seconds of CPU


def status(field):
    """Return a line of Linux's numbers about this process in MB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024


def peak_cleared():
    """Forget the peak of memory so far, and return what is used; None: the system cannot tell."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        return status("VmRSS")
    except OSError:
        return None


def cpu_seconds():
    """Return the seconds of this process and of its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def fit(module, table, asked, split, rows):
    """Fit a model on a split; return its scores, seconds of CPU and MB beyond the table."""
    train = table.taken(rows[0])
    test = table.taken(rows[1])
    ask = {**asked, "delta": 1 / len(train.y) ** 2, "seed": split}
    before = peak_cleared()
    start = cpu_seconds()
    wall = time.perf_counter()
    predict = module.fitted(asked["model"], train, ask)
    seconds = cpu_seconds() - start
    wall = time.perf_counter() - wall
    memory = None if before is None else status("VmHWM") - before
    found = scores(test, predict(test.X))
    return {"seconds": seconds, "wall": wall, "megabytes": memory, **found}


def main(name, path, asked):
    """Print a line for each fit, and one for each error."""
    module = importlib.import_module(f"benchmarks.rivals.{name}")
    table = read_table(Path(path))
    package = getattr(sys.modules.get(module.PACKAGE), "__version__", None)
    facts = {"rows": len(table.y), "version": package or version(module.PACKAGE)}
    print(json.dumps(facts), flush=True)
    slow = set()
    pairs = {}
    for line in Path(asked).read_text().splitlines():
        one = json.loads(line)
        if one["model"] in slow:
            continue
        n_splits = one.pop("splits")
        times = []
        try:
            if not module.NEEDS:
                few = table.taken(splits(len(table.y), 1)[0][0][:FEW])
                module.fitted(one["model"], few, {**one, "delta": 1e-6, "seed": 0})  # compiles
            pairs[n_splits] = pairs.get(n_splits) or splits(len(table.y), n_splits)
            for split, rows in enumerate(pairs[n_splits]):
                if split == SPLITS_OF_SLOW and max(times) > SLOW:
                    break
                found = fit(module, table, one, split, rows)
                times.append(found["seconds"])
                print(json.dumps({**one, "split": split, **found}), flush=True)
            if max(times) > SLOW:
                slow.add(one["model"])
        except Exception as error:  # a model that does not run is a line of the table
            slow.add(one["model"])
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            print(json.dumps({**one, "error": text}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
