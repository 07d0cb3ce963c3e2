"""What a user reads who lacks an extra; ``.ci/package`` builds and installs the packages."""

import subprocess
import sys
from pathlib import Path

import numba
import pytest

import skdpdyn
from skdpdyn.__main__ import main
from skdpdyn.kernels import passes


@pytest.mark.system
@pytest.mark.parametrize("loader", ["load_adult", "load_flights"])
def test_without_pandas_the_error_has_the_line_to_paste(loader):
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        f"from skdpdyn.datasets import {loader}\n"
        f"print({loader}(as_frame=False).data.shape[0] > 1000)\n"
        f"try:\n    {loader}()\nexcept ImportError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    missing = 'pandas is needed: pip install "skdpdyn[plot]"'
    assert run.stdout.splitlines() == ["True", missing]


@pytest.mark.system
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="there is nothing to compile")
def test_all_kernels_of_estimators_are_compiled():
    """Each kind of rows and outputs, in both precisions of dense and CSR rows."""
    assert main(["compile"]) == 0
    kinds = 2 * 2 * 2 + 1 + 2  # and batches, and cells
    assert passes.compiled_chunk.cache_info().currsize >= kinds


def test_an_installation_says_what_it_is(capsys):
    main([])
    said = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert said["skdpdyn"].strip() == skdpdyn.__version__
    assert said["pandas"].strip()[0].isdigit()
    assert Path(said["compiled kernels"].strip()).is_dir() or numba.config.DISABLE_JIT
