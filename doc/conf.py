"""Sphinx configuration."""

import warnings

import skdpdyn
from skdpdyn.exceptions import PrivacyLeakWarning

project = "skdpdyn"
author = "the skdpdyn developers"
release = version = skdpdyn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "py:obj"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
}
# An example with a seed, so that its page does not change, is warned that it is not private; the
# page need not repeat it
warnings.filterwarnings("ignore", category=PrivacyLeakWarning)

html_theme = "pydata_sphinx_theme"
html_title = "skdpdyn"
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {
    "index": [],
    "choosing": [],
    "ledger": [],
    "inference": [],
    "evaluation": [],
    "privacy": [],
    "architecture": [],
    "api": [],
}
