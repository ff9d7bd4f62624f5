"""The documentation site: it builds without a warning, its links lead somewhere, and a browser shows it.

Slow: `make docs` runs it, with the packages of clcnn[docs]; pages open in a headless Chromium where there
is one. CLCNN_SITE names the folder to build in, a temporary one otherwise.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from conftest import ROOT
from test_docs import PUBLIC_MODULES

from helpers import none_missing

pytestmark = pytest.mark.slow
PAGES = {
    "index.html": "clcnn",
    "tutorial.html": "Tutorial",
    "notebooks/01_quickstart.html": "Quickstart",
    "performance.html": "Performance",
    "api/clcnn.nn.html": "clcnn.nn",
    "architecture.html": "Architecture",
    "plots/plot_roofline.html": "roofline",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built with warnings as errors, from what is old in CLCNN_SITE."""
    for name in ("sphinx", "furo", "myst_nb", "sphinx_gallery"):
        pytest.importorskip(name, reason="needs clcnn[docs]")
    given = os.environ.get("CLCNN_SITE")
    folder = Path(given).resolve() if given else tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    places = ["-d", str(folder.parent / "doctrees"), str(ROOT / "docs"), str(folder)]
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "CLCNN_DEVICE": "cpu"}
    done = subprocess.run([*command, *places], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Links(HTMLParser):
    """The targets of a page's links and images, and its anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found[key] or "" for key in ("id", "name") if key in found}
        target = found.get("href" if tag == "a" else "src")
        if target and tag in ("a", "img"):
            self.targets.append(target)


def test_links_within_the_site_lead_somewhere(site: Path) -> None:
    pages = {page.resolve(): Links(page) for page in site.rglob("*.html")}
    broken = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or target.startswith("data:"):
                continue
            goal = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            known = pages.get(goal)
            if not goal.exists() or (known and parts.fragment and parts.fragment not in known.anchors):
                broken.append(f"{page.relative_to(site.resolve())}: {target}")
    assert len(pages) > 100 and broken == []


def test_public_modules_have_a_page(site: Path) -> None:
    text = (ROOT / "docs/api.md").read_text("utf-8")
    listed = set(re.findall(r"^   (clcnn\S*)$", text, re.MULTILINE))
    # offered as names of clcnn itself
    modules = ("errors", "ort_values", "plan_group", "report", "session", "session_options", "state")
    inner = {f"clcnn.{name}" for name in modules}
    none_missing(sorted(set(PUBLIC_MODULES) - listed - inner), "docs/api.md", "make docs")
    assert sorted(listed - set(PUBLIC_MODULES)) == []
    assert all((site / "api" / f"{name}.html").is_file() for name in listed)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """A headless Chromium that reads files of this machine only."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs clcnn[docs]")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"):
        options.add_argument(argument)
    service = webdriver.ChromeService(executable_path=driver)
    with webdriver.Chrome(options=options, service=service) as chrome:
        yield chrome


@pytest.mark.parametrize("page", PAGES)
def test_a_browser_shows_pages(site, browser, page):
    browser.get((site / page).as_uri())
    assert PAGES[page] in browser.title
    script = "return [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
    assert browser.execute_script(script) == []
    if page.startswith(("notebooks", "plots")):
        assert browser.execute_script("return document.querySelectorAll('article img').length") > 0


def test_the_search_finds_compile(site, browser):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get((site / "search.html").as_uri() + "?q=compile")
    found = WebDriverWait(browser, 30).until(
        lambda b: [a.get_attribute("href") for a in b.find_elements(By.CSS_SELECTOR, "ul.search li a")]
    )
    assert any("compile" in link for link in found)
