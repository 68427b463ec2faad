"""Reports of audits: what they say, in two forms, and that nothing in a name is markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.auditing.audit import Audit
from sfumato.errors import FormatError
from sfumato.randomness.bits import SeededBits

MARKUP = "<script>alert('&')</script>"


def people() -> sf.Study:
    return sf.Study(
        f"[[axes]] {MARKUP}",
        [
            sf.integers("age", 0, 99, protect=sf.Distance(0.2)),
            sf.categories(MARKUP, ["<b>", '"south"', "[[axes]]\x1b[31m"], protect=sf.Uniform(1)),
        ],
    )


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href", "onload"} & dict(attrs).keys()

    def handle_data(self, data: str) -> None:
        self.text += data + " "


@pytest.fixture(scope="module")
def found() -> Audit:
    return sf.audit(people(), sample=10_000, bits=SeededBits(1))


def test_page_says_who_checked_what_when_and_how(found: Audit, tmp_path: Path) -> None:
    found.save(tmp_path / "audit.html")
    page = Page((tmp_path / "audit.html").read_text(encoding="utf-8"))
    facts = (
        "The guarantee holds",
        found.fingerprint,
        found.date,
        f"sfumato {sf.__version__}",
        "geometric",
        "all pairs, exactly; 9,900 ordered pairs of cells",
        """9,999, from <b>; "south"; [[axes]]\\x1b[31m""",
        "A sample is no proof",
        "What was not checked",
    )
    for fact in facts:
        assert fact in page.text
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", found.date)


def test_nothing_in_a_name_is_markup_and_nothing_is_loaded(found: Audit, tmp_path: Path) -> None:
    found.save(tmp_path / "audit.html")
    text = (tmp_path / "audit.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in page.tags
    assert page.tags.count("section") == 2
    assert MARKUP in page.text
    assert "[[axes]]\\x1b[31m" in page.text
    assert "\x1b" not in text
    assert not re.search(r"https?:|@import|url\(", text)


def test_json_holds_the_same(found: Audit, tmp_path: Path) -> None:
    found.save(tmp_path / "audit.JSON")
    document = json.loads((tmp_path / "audit.JSON").read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(found.to_dict()))
    assert (document["holds"], document["version"]) == (True, sf.__version__)
    assert document["axes"][0]["sample"]["reports"] == 10_000


@pytest.mark.parametrize("name", ["audit.html", "audit.json"])
def test_what_is_infinite_or_not_checked_is_said(tmp_path: Path, name: str) -> None:
    """A channel too large for any check does not pass; pairs without a bound are no numbers."""
    alone = sf.categories("x", ["a", "b"], protect=sf.Blocks(1, [["a"], ["b"]]))
    sf.audit(sf.Study("s", [alone])).save(tmp_path / name)
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert "inf" in text
    assert "Infinity" not in text


def test_page_of_a_broken_study_says_what_is_wrong(tmp_path: Path) -> None:
    study = people()
    object.__setattr__(study.channels[1], "wrong", 0)
    found = sf.audit(study)
    found.save(tmp_path / "audit.html")
    page = Page((tmp_path / "audit.html").read_text(encoding="utf-8"))
    assert "The guarantee does NOT hold" in page.text
    assert found.axes[1].problems[0] in page.text


@pytest.mark.parametrize("name", ["audit.pdf", "audit", "audit.html.txt"])
def test_other_endings_are_refused(found: Audit, tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match=r"must end in \.html or \.json, got '.*audit"):
        found.save(tmp_path / name)
    with pytest.raises(FormatError, match="there is no folder"):
        found.save(tmp_path / "missing" / "audit.html")
    assert list(tmp_path.iterdir()) == []
