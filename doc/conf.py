"""Sphinx configuration. The site needs no network: neither to be built nor to be read."""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from site_tools import resolve_short, write_inventory

import skdpdyn
from skdpdyn.exceptions import PrivacyLeakWarning

project = "skdpdyn"
author = "the skdpdyn developers"
release = version = skdpdyn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "myst_parser",
    "numpydoc",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "py:obj"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"  # beside a class its methods are short names
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Names of scikit-learn link to its site. The inventory is made from the package that is installed.
inventory = Path(__file__).parent / "generated" / "scikit-learn.inv"
write_inventory(inventory)
intersphinx_mapping = {"sklearn": ("https://scikit-learn.org/stable/", str(inventory))}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "subsection_order": ["../examples/tasks", "../examples/ideas", "../examples/papers"],
    "within_subsection_order": "site_tools.easiest_first",
    "reference_url": {"skdpdyn": None},
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
}
# An example with a seed, so that its page does not change, is warned that it is not private; the
# page need not repeat it
warnings.filterwarnings("ignore", category=PrivacyLeakWarning)

html_theme = "pydata_sphinx_theme"
html_title = f"skdpdyn {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "api": []}
copyright = "the skdpdyn developers, BSD-3-Clause"
nitpicky = True  # a name that does not exist is an error


def setup(app):
    """Look for names that Sphinx does not find."""
    app.connect("missing-reference", resolve_short)
