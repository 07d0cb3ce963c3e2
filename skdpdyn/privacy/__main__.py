"""``python -m skdpdyn.privacy check PATH``: check a stored report, or a release folder."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skdpdyn.privacy.report import check_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a stored report, or a release folder, and say what came out.

    Parameters
    ----------
    arguments : sequence of str or None, default=None
        The command line; None: that of the process.

    Returns
    -------
    int
        0 if all agrees with the record, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m skdpdyn.privacy")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser(
        "check", help="recompute a stored report, or all of a release folder, from what ran"
    )
    check.add_argument("path", type=Path, help="report.json, or the folder of model.export(folder)")
    path = parser.parse_args(arguments).path
    try:
        report = _folder(path) if path.is_dir() else check_report(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, ImportError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    spent, leaks = report["spent"], report["assumed"]["not private in this run"]
    line = (
        f"{path}: every number agrees: epsilon={spent['epsilon']} at delta={spent['delta']} "
        f"by {report['theorem']['bound']}"
    )
    print(line + "".join(f"; NOT PRIVATE: {leak}" for leak in leaks))
    if path.is_dir():
        print(f"protected: {spent.get('protected', 'one record')}, {spent['neighbours']}")
        print("not protected against:", *report["not protected against"].values(), sep="\n- ")
        print("files are those that were written, and the model has this record and this report")
        if (path / "model.pkl").exists():
            print("model.pkl was not opened: a pickle runs code of whoever wrote it")
    return 0


def _folder(path: Path) -> dict[str, Any]:
    from skdpdyn.io import check_folder  # which needs scikit-learn

    return check_folder(path)


if __name__ == "__main__":
    sys.exit(main())
