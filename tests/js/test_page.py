"""The example page: it is what its script builds, opens from disk, and shows valid reports."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from test_browser import pytestmark as in_a_browser

import sfumato as sf
from sfumato.device.law import law
from sfumato.device.wire import Batch
from supply.browser import browser

FOLDER = Path(__file__).parents[2] / "examples" / "browser"
PAGE = FOLDER / "index.html"
PROGRAM = sf.Study.load(FOLDER / "study.toml").device_program()


def test_the_page_is_what_its_script_builds() -> None:
    found = importlib.util.spec_from_file_location("build", FOLDER / "build.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    built = module.page()
    assert PAGE.read_text(encoding="utf-8") == built, "run python examples/browser/build.py"


@pytest.fixture(scope="module")
def chromium() -> Iterator[BrowserContext]:
    try:
        with browser({}) as context:
            context.unroute_all()  # from disk, as a double click opens it
            yield context
    except FileNotFoundError as error:
        pytest.fail(str(error))


@pytest.fixture
def page(chromium: BrowserContext) -> Iterator[Page]:
    opened = from_disk(chromium)
    opened.click("#forget")
    expect(opened.locator("#result")).to_contain_text("forgotten")
    yield opened
    opened.close()


def from_disk(chromium: BrowserContext) -> Page:
    opened = chromium.new_page()
    opened.goto(PAGE.as_uri())
    expect(opened.locator("#make")).to_be_enabled()
    return opened


def shown(page: Page, age: int | str) -> Batch:
    """The batch that the page shows after an age was entered, read by Python's decoder."""
    page.fill("#age", str(age))
    page.click("#make")
    expect(page.locator("#sent")).to_be_visible()
    data = bytes.fromhex(page.locator("#batch").text_content() or "")
    return Batch.from_bytes(data, PROGRAM.layout, PROGRAM.fingerprint)


class TestInChromium:
    pytestmark = in_a_browser

    def test_it_shows_a_report_of_the_study_and_remembers_it(
        self, page: Page, chromium: BrowserContext
    ) -> None:
        batch = shown(page, 31)
        (report,) = batch.reports
        (cell,) = PROGRAM.layout.unpack(report)
        expect(page.locator("tr.report")).to_have_text(f"Report: {cell}{report.hex()}")
        expect(page.locator("#reading")).to_contain_text(f"It says {cell}.")
        expect(page.locator("#spent")).to_contain_text("ages, 1 round: E = 9.9")
        assert shown(page, 31) == batch
        assert shown(page, 77) == batch  # whatever is entered
        again = from_disk(chromium)
        assert shown(again, 5) == batch
        again.close()

    def test_a_new_round_is_another_report_until_the_limit(self, page: Page) -> None:
        first = shown(page, 31)
        for count in (2, 3):
            page.click("#next")
            expect(page.locator("tr.report")).to_have_count(count)
        batch = shown(page, 31)
        assert len(batch.reports) == 3
        assert set(first.ids) < set(batch.ids)
        page.click("#next")
        expect(page.locator("#trouble")).to_have_text(
            "The limit of this device is spent: this round is not reported."
        )
        assert shown(page, 31) == batch
        expect(page.locator("#meter")).to_have_attribute("aria-valuenow", "29.7")

    def test_a_value_out_of_bounds_makes_nothing(self, page: Page) -> None:
        for age in ("", "100", "-1", "12.5"):
            page.evaluate("document.getElementById('trouble').textContent = ''")
            page.fill("#age", age)
            page.click("#make")
            expect(page.locator("#trouble")).to_contain_text("whole years, from 0 to 99")
        expect(page.locator("#spent")).to_contain_text("Nothing was reported so far.")
        expect(page.locator("#sent")).to_be_hidden()

    def test_the_picture_is_the_law_of_the_program(self, page: Page) -> None:
        page.fill("#age", "31")
        chances = law(PROGRAM, 0, 31)
        near = float(sum(p for cell, p in chances.items() if abs(cell - 31) <= 10))
        expect(page.locator("#hill-text")).to_contain_text(f"with a chance of {100 * near:.0f} %.")
        path = page.locator("#own").get_attribute("d") or ""
        heights = [100 - float(step.split("H")[0].split(" ")[1]) for step in path[1:].split("L")]
        assert len(heights) == 100
        most = float(max(chances.values()))
        for cell, height in enumerate(heights):
            assert height == pytest.approx(96 * float(chances[cell]) / most, rel=1e-6)

    def test_blocked_storage_is_said_and_the_page_works(self, chromium: BrowserContext) -> None:
        page = chromium.new_page()
        page.add_init_script("IDBFactory.prototype.open = () => { throw new DOMException('no') }")
        page.goto(PAGE.as_uri())
        expect(page.locator("#store")).to_contain_text("blocks storage")
        batch = shown(page, 31)
        assert shown(page, 60) == batch
        page.close()

    def test_it_cannot_send_anything(self, page: Page) -> None:
        refused = page.evaluate("fetch('https://collector.example').catch((error) => error.name)")
        assert refused == "TypeError"
        events = page.evaluate(
            """() => new Promise((resolve) => {
              addEventListener("securitypolicyviolation", (e) => resolve(e.effectiveDirective));
              fetch("https://collector.example").catch(() => {});
            })"""
        )
        assert events == "connect-src"

    def test_nothing_is_cut_off(self, page: Page) -> None:
        shown(page, 31)
        for width in (360, 800, 1400):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width

    def test_it_works_by_keyboard_and_every_control_has_a_name(self, page: Page) -> None:
        page.focus("#age")
        page.keyboard.press("Enter")
        expect(page.locator("#sent")).to_be_visible()
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("input, button, svg, [role=meter]")]
              .filter((each) => !(each.labels?.length || each.textContent.trim()
                || each.getAttribute("aria-label") || each.getAttribute("aria-labelledby")))
              .map((each) => each.id)"""
        )
        assert nameless == []
