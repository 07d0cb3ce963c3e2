"""Every benchmark has a name, a description and options."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # also where tests run on an installed package
runner = importlib.import_module("benchmarks.__main__")


def test_all_are_listed(capsys):
    assert runner.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in runner.NAMES:
        assert f"  {name:<20} {runner.description(name)}" in lines
    assert {"accuracy", "compare", "speed", "startup"} <= set(runner.NAMES)
    assert "no benchmark 'sped'" in runner.main(["sped"])


@pytest.mark.parametrize("name", runner.NAMES)
def test_each_tells_its_options(name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    with pytest.raises(SystemExit, match="0"):
        runner.main([name, "--help"])
    assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out


def test_documents_name_benchmarks_that_exist():
    texts = [path.read_text() for path in (ROOT / "README.md", *(ROOT / "doc").glob("*.rst"))]
    named = {name for text in texts for name in re.findall(r"python -m benchmarks (\w+)", text)}
    assert named <= set(runner.NAMES)
    assert "accuracy" in named
