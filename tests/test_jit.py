"""How kernels are compiled."""

import gc
import os
import shutil
import subprocess
import sys

import numba
import pytest
from numba import types
from numba.core.codegen import CodeLibrary

from skdpdyn.kernels import jit
from skdpdyn.kernels.jit import entry
from skdpdyn.support.startup import no_collections


def _half(x):
    return x / 2


needs_compiler = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@pytest.mark.parametrize("enabled", [True, False])
def test_collections_come_back_when_the_last_one_is_done(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        first = no_collections()
        second = no_collections()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert not gc.isenabled()
        second.__exit__(None, None, None)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def _compile_half(number=types.float64):
    """Return the half of 3, of which there are files for each type, and whether they were used."""
    half = entry(number(number))(_half)
    assert half.nopython_signatures == [number(number)]
    return half(3), bool(half.stats.cache_hits)


@pytest.fixture
def files_of_half(tmp_path, monkeypatch):
    """Files of two signatures, in the order in which they were written."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert _compile_half() == (1.5, False)
    assert _compile_half(types.int64) == (1, False)
    assert _compile_half() == (1.5, True)
    assert _compile_half(types.int64) == (1, True)
    return sorted(tmp_path.rglob("*.nbc"))


@needs_compiler
def test_a_file_with_the_code_of_another_signature_is_not_used(files_of_half):
    """As two processes leave it that both look for a free name before either takes it."""
    first, second = files_of_half
    shutil.copy(second, first)
    assert _compile_half() == (1.5, False)
    assert _compile_half() == (1.5, True)
    assert _compile_half(types.int64) == (1, True)


@needs_compiler
def test_code_of_an_older_source_is_not_used(files_of_half, monkeypatch):
    """Although the function's own module is the same: it may call what has changed elsewhere."""
    older = files_of_half[0].read_bytes()
    monkeypatch.setattr(jit, "_kernel_sources", lambda: "changed")
    assert _compile_half() == (1.5, False)
    assert _compile_half() == (1.5, True)
    files_of_half[0].write_bytes(older)  # by a process that started before the change
    assert _compile_half() == (1.5, False)


@needs_compiler
def test_copies_of_the_package_share_code_and_a_users_own_function_does_not(tmp_path, monkeypatch):
    """Although it has the name, the line and the code of a kernel."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit, "shared_folder", jit.shared_folder.__wrapped__)
    hits = []
    for copy in ("one", "another"):
        kernel = tmp_path / copy / "kernel.py"
        kernel.parent.mkdir()
        kernel.write_text("def half(x):\n    return x / 2\n")
        monkeypatch.setattr(jit, "kernel_files", lambda kernel=kernel: [kernel])
        for file in (kernel, kernel.with_name("loss.py")):
            file.write_text(kernel.read_text())
            functions = {"__name__": __name__}
            exec(compile(kernel.read_text(), file, "exec"), functions)
            hits.append(
                bool(entry(types.float64(types.float64))(functions["half"]).stats.cache_hits)
            )
    assert hits == [False, False, True, False]


def _no_object(library):
    raise RuntimeError(f"no compiled object yet for {library}")


@needs_compiler
def test_an_interrupt_while_llvm_compiles_is_not_lost(tmp_path, monkeypatch):
    """It ends a callback, which cannot pass it on: numba then misses the machine code."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(CodeLibrary, "_get_compiled_object", _no_object)
        with pytest.raises(KeyboardInterrupt):
            _compile_half()
    assert _compile_half() == (1.5, False)


@needs_compiler
@pytest.mark.parametrize("module", ["core.losses", "kernels.jit", "kernels.release"])
def test_every_kernel_counts_as_source(module, tmp_path, monkeypatch):
    package = tmp_path / "skdpdyn"
    shutil.copytree(jit.files("skdpdyn"), package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(jit, "files", lambda name: package)
    digest = jit._kernel_sources.__wrapped__
    before = digest()
    path = package / f"{module.replace('.', '/')}.py"
    path.write_text(path.read_text() + "\n")
    assert digest() != before


@needs_compiler
@pytest.mark.system
def test_kernels_keep_their_memory_where_nothing_is_optimised(tmp_path):
    """Their memory is on the stack of who calls them; inlining hid one that was gone."""
    code = """
import numpy as np
from skdpdyn.core.losses import logistic
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import opened
from skdpdyn.data.local import LocalRows
X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
rows = LocalRows(X, np.zeros(40))
objective = Objective(logistic, n_samples=40, n_features=3, data_norm=1.0, clip=9.0)
point = np.ones(3)
residual = 1 / (1 + np.exp(-rows.factors()[0] * (X @ point)))
expected = (rows.factors()[0] * residual) @ X
np.testing.assert_allclose(opened(rows.gradient(objective, point)), expected)
"""
    settings = os.environ | {"NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
