"""The built site: links, formulas, nothing from another host, nothing clipped; and spelling."""

from __future__ import annotations

import gc
import os
import re
import string
import warnings
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import Page, sync_playwright
from spylls.hunspell import Dictionary

from supply.browser import FLAGS, found, missing
from supply.site import ROOT

WIDTHS = (360, 800, 1_400)
#: Formulas, long code and wide tables, the output of commands.
THREE = ("mathematics", "how-to", "reference/command-line")
PROSE = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]
WORDS = Path(__file__).with_name("words.txt")

slow = pytest.mark.slow
browser = pytest.mark.skipif(
    os.environ.get("SFUMATO_NO_BROWSER") == "1", reason="SFUMATO_NO_BROWSER=1"
)

# Elements whose content is cut off: it goes beyond the page, or beyond a box that hides it.
CLIPPED = """() => {
  const limit = document.documentElement.clientWidth;
  const overflow = (element) => getComputedStyle(element).overflowX;
  const boxed = (element) => {
    for (let e = element; e && e !== document.body; e = e.parentElement) {
      const inside = e.getBoundingClientRect().right <= limit + 1;
      if (["auto", "scroll"].includes(overflow(e)) && inside) return true;
    }
    return false;
  };
  const cut = [];
  const kinds = ":is(p, li, pre, code, td, th, img, h1, h2, h3, .katex)";
  for (const e of document.querySelectorAll(`.md-content ${kinds}`)) {
    const box = e.getBoundingClientRect();
    const hidden = e.scrollWidth > e.clientWidth + 1 && overflow(e) === "hidden";
    const right = Math.max(box.right, box.left + e.scrollWidth);
    if (box.width && (hidden || ((right > limit + 1 || box.left < -1) && !boxed(e)))) {
      cut.push(`${e.tagName}: ${e.textContent.slice(0, 60)}`);
    }
  }
  if (document.documentElement.scrollWidth > limit) cut.push("the page itself");
  return cut;
}"""


class References(HTMLParser):
    """What a page points to and what in it can be pointed to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.anchors |= {str(held[name]) for name in ("id", "name") if held.get(name)}
        if tag == "a" and held.get("href"):
            self.links.append(str(held["href"]))
        elif tag == "link" and held.get("rel") == "canonical":
            pass
        elif address := held.get("src") or held.get("href"):
            self.loaded.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    settings = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    settings.plugins.on_startup(command="build", dirty=False)
    build(settings)
    return folder


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A page of a browser that has no network."""
    program = found()
    if program is None or not program.exists():
        raise FileNotFoundError(missing())
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=FLAGS)
        context = opened.new_context(offline=True)
        yield context.new_page()
        opened.close()


def names(site: Path) -> list[str]:
    """Every page of the site."""
    return [str(file.relative_to(site).with_suffix("")) for file in sorted(site.rglob("*.html"))]


@slow
def test_links_and_anchors_lead_somewhere_and_nothing_is_loaded_from_another_host(
    site: Path,
) -> None:
    pages = {file: References(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}
    broken = []
    for file, held in pages.items():
        if file.name == "404.html":
            continue
        for link in held.links + held.loaded:
            if re.match(r"(https?|mailto|data):", link):
                if link in held.loaded:
                    broken.append(f"{file.name} loads {link}")
                continue
            place, _, anchor = unquote(link).partition("#")
            target = (file.parent / place).resolve() if place else file
            target = target / "index.html" if target.is_dir() else target
            there = pages[target].anchors if target in pages else set()
            if not target.exists() or (
                anchor and not anchor.startswith("__") and anchor not in there
            ):
                broken.append(f"{file.name}: {link}")
    assert broken == []
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", styles) == []


@slow
def test_every_page_names_the_version(site: Path) -> None:
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    files = list(site.rglob("*.html"))
    assert len(files) > 25
    assert [f for f in files if f"sfumato {version[1]}" not in f.read_text(encoding="utf-8")] == []


@slow
@browser
def test_formulas_are_typeset_and_nothing_is_asked_of_a_network(site: Path, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for name, least in (("mathematics", 20), ("privacy-guarantee", 4), ("notation", 8)):
        page.goto((site / f"{name}.html").as_uri())
        assert page.locator(".katex").count() >= least
        assert page.locator(".katex-error").count() == 0
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert any("katex.min.js" in url for url in asked)


@slow
@browser
def test_the_search_works_from_the_disk(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    page.fill(".md-search__input", "geo-indistinguishability")
    page.wait_for_selector(".md-search-result__item")
    assert page.locator(".md-search-result__item").count() >= 1


@slow
@browser
def test_what_is_copied_has_neither_prompts_nor_output(site: Path, page: Page) -> None:
    page.goto((site / "tutorial.html").as_uri())
    page.evaluate(
        "document.execCommand = () => { window.copied = document.activeElement.value; return 1; }"
    )
    assert copied(page) == [
        "import sfumato as sf",
        "study = sf.Study(",
        '    "commute",',
    ]
    page.locator(".tabbed-labels label", has_text="Command line").first.click()
    assert copied(page)[:1] == ["sfumato new same.toml --name commute \\"]


def copied(page: Page) -> list[str]:
    """The first lines that the first button to be seen copies."""
    page.locator("[data-clipboard-target]:visible").first.dispatch_event("click")
    return str(page.evaluate("window.copied")).split("\n")[:3]


def clipped(site: Path, page: Page, pages: list[str]) -> list[str]:
    """What is cut off on some pages at all widths; colours do not change the layout."""
    cut = []
    for name in pages:
        page.goto((site / f"{name}.html").as_uri())
        page.add_style_tag(content="* { transition: none !important }")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            cut += [f"{name} at {width}: {found}" for found in page.evaluate(CLIPPED)]
    return cut


@slow
@browser
def test_nothing_is_clipped_on_three_pages(site: Path, page: Page) -> None:
    assert clipped(site, page, list(THREE)) == []


@slow
@browser
def test_the_check_sees_what_is_clipped(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 900})
    page.goto((site / "tutorial.html").as_uri())
    page.add_style_tag(content="pre > code { overflow: hidden !important }")
    assert any(cut.startswith("CODE: ") for cut in page.evaluate(CLIPPED))
    page.goto((site / "tutorial.html").as_uri())
    page.add_style_tag(content=".md-content p { white-space: nowrap }")
    assert any(cut.startswith("P: ") for cut in page.evaluate(CLIPPED))


@pytest.mark.soak
@browser
def test_nothing_is_clipped_on_any_page(site: Path, page: Page) -> None:
    assert clipped(site, page, names(site)) == []


# Spelling


def words_of(text: str) -> set[str]:
    """The words of a page, without code, formulas, addresses and names with digits."""
    for left_out in (
        r"^```.*?^```",
        r"<!--.*?-->",
        r"<[^>\n]*>",
        r"\$\$.*?\$\$",
        r"(?<!\w)\$[^$\n]+\$",
        r"``.*?``",
        r"`[^`]*`",
        r"\]\([^)]*\)",
        r"https?://\S+",
        r"\S*\w\.\w\S*",
    ):
        text = re.sub(left_out, " ", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"(?<![\w^_])[A-Za-z][a-z]*(?:'[a-z]+)?(?![\w^_])", text)
    return {word for word in found if len(word) > 2}


@cache
def dictionary() -> Dictionary:
    """The American dictionary that spylls carries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # spylls leaves its files open
        read = Dictionary.from_files("en_US")
        gc.collect()
    return read


def misspelt(words: set[str]) -> list[str]:
    """Words that neither the dictionary nor the list of the project has."""
    known = set(WORDS.read_text(encoding="utf-8").split())
    rest = {word for word in words if word not in known and word.lower() not in known}
    return sorted(word for word in rest if not dictionary().lookup(word))


@slow
def test_words_are_spelt_as_dictionaries_have_them() -> None:
    pages = "\n\n".join(file.read_text(encoding="utf-8") for file in PROSE)
    assert misspelt(words_of(pages)) == []


@slow
def test_the_spelling_check_sees_a_mistake() -> None:
    assert misspelt(words_of("A gaurantee, and `a gaurantee` in code.")) == ["gaurantee"]


def test_the_list_of_words_is_sorted_and_has_no_word_twice() -> None:
    words = WORDS.read_text(encoding="utf-8").split()
    assert words == sorted(set(words), key=str.lower)
    assert set("".join(words)) <= set(string.ascii_letters + "'")
