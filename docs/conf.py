"""Sphinx builds the site from these pages, the notebooks, the gallery and the docstrings: `make site`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import clcnn

HERE = Path(__file__).parent
# Sphinx reads below this folder only: pages of the root through pages that include them, copies of notebooks.
INCLUDED = {"../CHANGELOG.md": "changelog.md", "../SECURITY.md": "security.md", "../notebooks/": "notebooks/"}
shutil.copytree(HERE.parent / "notebooks", HERE / "notebooks", dirs_exist_ok=True)

project = "clcnn"
author = "the clcnn developers"
copyright = author
version = release = clcnn.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
root_doc = "index"
exclude_patterns = ["README.md", "gallery", "plots/*.ipynb"]
templates_path = ["_templates"]
nitpicky = False
default_role = "code"  # docstrings put names of code in single backticks

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_typehints = "none"  # the signature of a docstring's Parameters section is for readers
autodoc_member_order = "groupwise"
autosummary_ignore_module_all = False
napoleon_google_docstring = False
suppress_warnings = ["ref.python"]  # words such as "shape" in the types of parameters are no references

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "plots",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "clcnn"


def setup(app):
    app.connect("source-read", change_page)
    app.connect("autodoc-process-docstring", escape, priority=1000)


def change_page(app, page, source):
    """Leads links to pages of the root to those that include them, and lists the decisions for the site."""
    for outside, inside in INCLUDED.items():
        source[0] = source[0].replace(f"]({outside}", f"]({inside}")
    if page == "decisions/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"


def escape(app, what, name, thing, options, lines):
    """Shapes such as [N, *spatial] and |x| in docstrings are text, not markup of reStructuredText."""
    lines[:] = [re.sub(r"(?<![\w*`|])([*|])(?=\w)", r"\\\1", line) for line in lines]
