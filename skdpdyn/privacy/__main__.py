"""``python -m skdpdyn.privacy check report.json``: recompute a stored report from its record."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from skdpdyn.privacy.report import check_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a stored report and say in one line what came out.

    Parameters
    ----------
    arguments : sequence of str or None, default=None
        The command line; None: that of the process.

    Returns
    -------
    int
        0 if every number agrees with the record, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m skdpdyn.privacy")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser(
        "check", help="recompute a stored report from the record of what ran"
    )
    check.add_argument("report", type=Path, help="what privacy_report().to_json(path) wrote")
    path = parser.parse_args(arguments).report
    try:
        report = check_report(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    spent, leaks = report["spent"], report["assumed"]["not private in this run"]
    line = (
        f"{path}: every number agrees: epsilon={spent['epsilon']} at delta={spent['delta']} "
        f"by {report['theorem']['bound']}"
    )
    print(line + "".join(f"; NOT PRIVATE: {leak}" for leak in leaks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
