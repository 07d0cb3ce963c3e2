"""List and run the benchmarks: ``python -m benchmarks``, ``python -m benchmarks NAME --help``."""

import ast
import sys
from importlib import import_module
from pathlib import Path

NAMES = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_")
)


def description(name):
    """Return the first line of a benchmark's docstring, without importing what it measures."""
    source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)).splitlines()[0]


def main(arguments):
    """Run the benchmark that the first argument names, or list all."""
    if not arguments or arguments[0] not in NAMES:
        print("python -m benchmarks NAME [--help] [ARGUMENTS], NAME one of:\n")
        print("\n".join(f"  {name:<20} {description(name)}" for name in NAMES))
        return (
            0
            if not arguments or arguments[0] in ("-h", "--help")
            else f"\nThere is no benchmark {arguments[0]!r}"
        )
    name, *rest = arguments
    sys.argv = [f"python -m benchmarks {name}", *rest]  # what --help shows
    return import_module(f"benchmarks.{name}").main(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
