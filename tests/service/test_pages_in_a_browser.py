"""Design, publish, answer and explore in a real Chromium against a real collector.

With SFUMATO_PICTURES=FOLDER pictures of all pages are left there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.collect.packing import pack
from sfumato.device.program import Program
from sfumato.device.wire import Batch
from sfumato.service import tokens
from sfumato.service.app import Service
from sfumato.service.collector import Collector, Settings, open_store
from sfumato.service.published import Published, every, publish
from sfumato.service.server import address, listen
from supply.browser import FLAGS, found, missing

ROOT = Path(__file__).parents[2]
AXE = ROOT / "js" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = os.environ.get("SFUMATO_PICTURES")
WIDTHS = (1400, 360)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("dark", "light")
PEOPLE = 4_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("SFUMATO_NO_BROWSER") == "1", reason="SFUMATO_NO_BROWSER=1"),
]


class Running:
    """A collector that serves on a free port, and tokens for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = open_store(folder)
        self.collector = Collector(store, Settings(tally_seconds=0.2))
        self.tokens = {
            role: tokens.create(store, f"the {role}", role, self.collector.today())
            for role in ("admin", "analyst")
        }
        listening = listen("127.0.0.1", 0)
        self.url = address(listening)
        config = uvicorn.Config(Service(self.collector).app(), log_level="warning")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listening],))
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def fill(self, held: Published) -> None:
        """Reports of a few thousand people, as their devices would have sent them."""
        rng = np.random.default_rng(5)
        older = rng.random(PEOPLE) < 0.4
        ages = np.where(older, rng.normal(64, 9, PEOPLE), rng.normal(34, 9, PEOPLE))
        labels = np.array(["car", "bus", "bike", "on foot"])
        modes = labels[np.minimum(rng.geometric(0.45, PEOPLE) - 1, 3)]
        self.send(held, {"age": np.clip(ages, 0, 99).astype(int), "mode": modes})

    def send(self, held: Published, people: dict[str, Any]) -> None:
        """Reports of these people."""
        rows = pack(held.study.encode(people))
        ids = tuple(secrets.token_bytes(16) for _ in rows)
        expires = self.collector.today() + 30
        batch = Batch(held.fingerprint, expires, ids, tuple(bytes(row) for row in rows))
        assert self.collector.upload(held.fingerprint, batch.to_bytes()).accepted == PEOPLE


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("collector"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = found()
    if program is None or not program.exists():
        pytest.fail(missing())
    expect.set_options(timeout=20_000)
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield opened
        opened.close()


class Visit:
    """A fresh browser of one width, and what went wrong in it."""

    def __init__(self, chromium: Browser, running: Running, width: int) -> None:
        self.width = width
        self.context: BrowserContext = chromium.new_context(
            base_url=running.url,
            viewport={"width": width, "height": 900},
            locale="en-GB",
            permissions=["clipboard-read", "clipboard-write"],
        )
        self.context.set_default_timeout(20_000)
        self.url = running.url
        self.wrong: list[str] = []
        self.page: Page = self.context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", self._requested)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.text} ({message.location.get('url')})")

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.url, "blob:")):
            self.wrong.append(f"a request to {request.url}")

    def good(self, name: str) -> None:
        """Nothing went wrong; in light and dark nothing is cut off, and axe finds no fault."""
        assert self.wrong == []
        for scheme in SCHEMES:
            self.page.emulate_media(color_scheme=scheme)
            assert self.page.evaluate("document.documentElement.scrollWidth") == self.width
            if PICTURES:
                path = f"{PICTURES}/{name}-{self.width}-{scheme}.png"
                self.page.screenshot(path=path, full_page=True)
            assert faults(self.page) == []

    def enter(self, token: str) -> None:
        """Type a token in."""
        self.page.get_by_label("Token of").fill(token)
        self.page.get_by_role("button", name="Use it").click()


def faults(page: Page) -> list[str]:
    """What axe finds: rule, and the first element."""
    page.evaluate(f"() => {{ {AXE.read_text(encoding='utf-8')} }}")
    outcome = page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in outcome["violations"]]


@pytest.fixture(params=WIDTHS)
def visit(chromium: Browser, running: Running, request: pytest.FixtureRequest) -> Iterator[Visit]:
    made = Visit(chromium, running, request.param)
    yield made
    made.context.close()


def saved(page: Page, button: Locator) -> bytes:
    """What a button downloads."""
    with page.expect_download() as waiting:
        button.click()
    return waiting.value.path().read_bytes()


def copied(page: Page, button: Locator) -> str:
    """What a button copies."""
    page.evaluate("navigator.clipboard.writeText('')")
    button.click()
    page.wait_for_function("navigator.clipboard.readText()")
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_from_a_design_to_its_answers(visit: Visit, running: Running) -> None:
    study = designed(visit)
    held = published(visit, running, study)
    report = answered(visit, running, held)
    running.fill(held)
    explored(visit, running, held)
    assert report not in visit.page.content()
    deleted(visit, running, held)


def designed(visit: Visit) -> sf.Study:
    """Design a study, and download its file."""
    page = visit.page
    page.goto("/design")
    expect(page.locator("#found svg")).to_have_count(2)
    sentence = page.locator(".axis").first.locator(".big")
    expect(sentence).to_contain_text("differs by 5 years: a report is at most 2.7 times likelier")
    page.get_by_label("Name").fill("The way to work")
    slider = page.get_by_role("slider").first
    before = page.locator("#file").text_content()
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(sentence).not_to_contain_text("2.7 times")
    expect(page.locator("#file")).not_to_have_text(before or "")
    epsilon = page.get_by_label("Epsilon", exact=True).first
    epsilon.fill("0.3")
    expect(sentence).to_contain_text("at most 4.5 times likelier")  # e^(5 · 0.3)
    expect(page.locator("#found")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#file")).to_contain_text('name = "The way to work"')
    visit.good("design")
    text = saved(page, page.get_by_role("button", name="Download the file")).decode()
    study = sf.Study.from_toml(text)
    assert study.axes[0].protect == sf.Distance(0.3)
    assert "sf.Distance(epsilon=0.3)" in copied(
        page, page.get_by_role("button", name="Copy the Python")
    )
    return study


def published(visit: Visit, running: Running, study: sf.Study) -> Published:
    """Publish the study on the page for administrators."""
    page = visit.page
    page.get_by_role("button", name="Publish it").click()
    page.wait_for_url("**/operate#publish")
    expect(page.locator("#notice")).to_contain_text("Enter the token of an administrator")
    visit.enter(running.tokens["admin"])
    expect(page.locator("#text")).to_have_value(study.to_toml())
    page.get_by_label("Answers from").fill("50")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator("#published")).to_contain_text("People answer it at")
    expect(page.get_by_role("article", name=study.name)).to_be_visible()
    visit.good("operate")
    return running.collector.find(study.fingerprint)


def answered(visit: Visit, running: Running, held: Published) -> str:
    """Answer as one person; the report as it was shown."""
    page = visit.page
    bodies: list[bytes] = []
    page.on("request", lambda sent: sent.post_data_buffer and bodies.append(sent.post_data_buffer))
    page.goto(f"/answer/{held.fingerprint}")
    expect(page.get_by_role("heading", level=1)).to_have_text(held.study.name)
    expect(page.locator("#spent")).to_contain_text("Nothing was reported from this browser so far")
    page.get_by_role("button", name="Blur my answers").click()
    expect(page.locator("#notice")).to_contain_text("Please answer “age” with a value from 0 to 99")
    page.get_by_label("age", exact=True).fill("31")
    page.get_by_label("bike").check()
    page.get_by_role("button", name="Blur my answers").click()
    expect(page.locator("#report")).to_contain_text("Nothing has been sent yet")
    assert bodies == []
    shown = page.locator("#bytes").text_content() or ""
    visit.good("answer")
    page.get_by_label("age", exact=True).fill("77")
    page.get_by_role("button", name="Blur my answers").click()
    expect(page.locator("#report")).to_contain_text("byte for byte")
    expect(page.locator("#bytes")).to_have_text(shown)
    page.get_by_role("button", name="Send this report").click()
    expect(page.locator("#outcome")).to_contain_text("Thank you. The report has arrived")
    (body,) = bodies
    batch = Batch.from_bytes(body, held.layout, held.fingerprint)
    assert batch.reports == (bytes.fromhex(shown.replace(" ", "")),)
    assert running.collector.counts(held)["counters"] == {"accepted": 1}
    expect(page.locator("#spent")).to_contain_text("1 report. E = 30.7")  # 99 · 0.3 + 1
    page.get_by_label("Sprache").select_option("de")
    expect(page.locator("#outcome")).to_contain_text("Danke. Die Meldung ist angekommen")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    visit.good("answer-de")
    assert Program.read(held.program, digest=page.locator("#digest").text_content() or "")
    page.reload()
    expect(page.locator("#memory")).to_contain_text("has made its report before")
    return shown


def explored(visit: Visit, running: Running, held: Published) -> None:
    """Ask what an analyst would."""
    page = visit.page
    answers: list[tuple[Any, Any]] = []

    late: dict[str, Any] = {}  # questions by the names of their jobs

    def asked(response: Any) -> None:
        path = response.url.partition("?")[0]
        if not response.ok or not ("/jobs/" in path or path.endswith("/ask")):
            return
        found = response.json()
        job = path.rpartition("/")[2]
        question = late[job] if job in late else json.loads(response.request.post_data)
        if "answer" in found:
            answers.append((question, found))
        else:
            late[found["job"]] = question

    page.goto("/explore")
    page.get_by_role("button", name="Forget it").click()
    page.on("response", asked)
    visit.enter(running.tokens["analyst"])
    page.get_by_label("Published here").select_option(held.fingerprint)
    expect(page.get_by_role("img", name=re.compile("Histogram of age"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Heat map of age and mode"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Groups of mode compared"))).to_be_visible()
    expect(page.locator("#counters")).to_contain_text(f"{PEOPLE + 1:,} reports are counted")
    bars = page.locator("#histogram rect.bar")
    expect(bars).to_have_count(25)
    expect(page.locator("#checked")).to_contain_text("Nothing speaks against it")
    # A range is dragged over the bars; its last bar is then moved by keyboard.
    box = page.locator("#histogram .chart").bounding_box()
    assert box is not None
    page.locator("#histogram .chart").scroll_into_view_if_needed()
    bars.nth(5).hover(position={"x": 2, "y": 1}, force=True)
    page.mouse.down()
    bars.nth(9).hover(position={"x": 2, "y": 1}, force=True)
    page.mouse.up()
    page.get_by_label("Last bar").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#histogram rect.chosen")).to_have_count(6)
    expect(page.locator("#range .figure")).to_be_visible()
    page.wait_for_timeout(600)  # until no question waits
    asked_last, answer = next(
        one for one in reversed(answers) if one[0].get("count", "mode").find("mode") < 0
    )
    assert asked_last == {"count": "age=20..43"}
    shown = (page.locator("#range .figure").text_content() or "").split(" ")[0]
    assert float(shown.replace(",", "")) == pytest.approx(answer["answer"]["value"], abs=50)
    page.get_by_label("with", exact=True).fill("mode=car|bus")
    page.locator("#own").get_by_role("button").click()
    expect(page.locator("#count .figure")).to_contain_text("people")
    visit.good("explore")
    if visit.width == max(WIDTHS):
        taken_along(visit, running, held, answers)
    page.get_by_label("Only people with").fill("mood=1")
    page.locator("#spread").get_by_role("button").click()
    expect(page.locator("#histogram figcaption")).to_contain_text("the study has no axis 'mood'")
    page.get_by_role("button", name="Show the newest entries").click()
    expect(page.locator("#notice")).to_contain_text("a token of analyst does not allow this")
    page.get_by_role("button", name="Forget it").click()
    page.remove_listener("response", asked)
    visit.enter(running.tokens["admin"])
    expect(page.get_by_role("img", name=re.compile("Groups of mode"))).to_be_visible()
    page.get_by_role("button", name="Show the newest entries").click()
    expect(page.locator("#entries")).to_contain_text('{"count":"age=20..43"}')
    expect(page.locator("#entries")).to_contain_text("the analyst")
    # The browser notes in its console what the collector has refused and the page has said.
    refused = [re.findall(r"status of (\d+) .*/(\w+)\?", one) for one in visit.wrong]

    assert {tuple(one[0]) for one in refused} == {("400", "ask"), ("403", "questions")}
    visit.wrong.clear()


def test_a_map_of_places_has_a_brush(visit: Visit, running: Running) -> None:
    home = sf.places(
        "home", (51.4, 6.9, 51.5, 7.06), cell="1 km", protect=sf.Distance(2, per="1 km")
    )
    mode = sf.categories("mode", ["car", "bus"], protect=sf.Uniform(2))
    study = sf.Study(f"town {visit.width}", [mode, home])
    collector = running.collector
    held, _ = publish(collector.store, study.to_toml(), collector.today(), minimum=50)
    rng = np.random.default_rng(8)
    places = {"home_lat": (51.46, 0.01), "home_lon": (6.98, 0.013)}
    people: dict[str, Any] = {
        name: rng.normal(middle, spread, PEOPLE) for name, (middle, spread) in places.items()
    }
    running.send(held, {"mode": rng.choice(["car", "bus"], PEOPLE), **people})
    page = visit.page
    page.goto(f"/explore?study={held.fingerprint}")
    visit.enter(running.tokens["analyst"])
    drawn = page.get_by_role("img", name="Heat map of home_lat and home_lon: 11 by 11 cells.")
    expect(drawn).to_be_visible()
    rects = page.locator("#heatmap rect.cell, #heatmap rect.noise")
    expect(rects).to_have_count(121)
    # North is up: the first row is the southern one, at the bottom.
    south, north = rects.nth(0).bounding_box(), rects.nth(110).bounding_box()
    assert south is not None
    assert north is not None
    assert north["y"] < south["y"]
    assert south["height"] / south["width"] == pytest.approx(1011 / 1009, abs=0.05)
    expect(page.locator("#part .figure")).to_be_visible()
    # Rows 4 to 8 and columns 3 to 8 are dragged over; the last column is then moved by keyboard.
    page.locator("#heatmap .chart").scroll_into_view_if_needed()
    rects.nth(4 * 11 + 3).hover(force=True)
    page.mouse.down()
    rects.nth(8 * 11 + 7).hover(force=True)
    page.mouse.up()
    up, across = (axis.labels() for axis in study.axes[1:])
    ends = [f"{up[4].split('..')[0]}..{up[8].split('..')[1]}"]
    ends += [f"{across[3].split('..')[0]}..{across[8].split('..')[1]}"]
    asked = f'{{"count":"home_lat={ends[0]}, home_lon={ends[1]}"}}'
    with page.expect_response(lambda one: one.request.post_data == asked) as waiting:
        page.get_by_label("Last column").focus()
        page.keyboard.press("ArrowRight")
    found = waiting.value.json()["answer"]
    rows, columns = study.axes[1].domain.edges(), study.axes[2].domain.edges()
    assert rows is not None
    assert columns is not None
    inside = (people["home_lat"] >= rows[4]) & (people["home_lat"] < rows[9])
    inside &= (people["home_lon"] >= columns[3]) & (people["home_lon"] < columns[9])
    assert found["value"] == pytest.approx(inside.sum(), abs=5 * found["stderr"])
    assert found["notes"] == []  # no bin is cut
    expect(page.locator("#part .figure")).to_contain_text(" people, from ")
    cells = json.loads(saved(page, page.locator("#heatmap").get_by_role("button", name="GeoJSON")))
    assert len(cells["features"]) == 121
    assert cells["features"][0]["geometry"]["coordinates"][0][0] == [6.9, 51.4]
    assert cells["about"]["n"] == PEOPLE
    visit.good("explore-map")


def taken_along(
    visit: Visit, running: Running, held: Published, answers: list[tuple[Any, Any]]
) -> None:
    """The histogram as a table, as a picture, and as a question for elsewhere."""
    page, panel = visit.page, visit.page.locator("#histogram")

    def button(name: str) -> Locator:
        return panel.get_by_role("button", name=name)

    answer = next(found["answer"] for asked, found in answers if "histogram" in asked)
    lines = saved(page, button("CSV")).decode().splitlines()
    assert lines[0] == "age,value,stderr,low,high"
    values = [float(line.split(",")[1]) for line in lines[1:]]
    assert values == answer["values"]
    assert saved(page, button("PNG"))[:8] == b"\x89PNG\r\n\x1a\n"
    curl = shlex.split(copied(page, button("curl")))
    assert json.loads(curl[curl.index("-d") + 1]) == {"histogram": "age", "bins": 25}
    assert curl[-1] == f"{running.url}/v1/studies/{held.fingerprint}/ask"
    folder = running.folder / held.fingerprint
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text(held.file, encoding="utf-8")
    for kind in ("histogram", "cdf", "quantile", "heatmap", "groups"):
        panel = page.locator(f"#{kind}")
        value = next(found["answer"] for asked, found in answers if kind in asked)
        assert (
            in_python(copied(page, button("Python")), running).to_dict()["values"]
            == value["values"]
        )
        with contextlib.chdir(folder):
            outcomes = in_commands(copied(page, button("command")), running, held)
        if kind in ("histogram", "heatmap"):
            assert outcomes[-1]["values"] == value["values"]
        elif kind == "groups":
            means = [one["answers"][0]["value"] for one in outcomes]
            assert means == pytest.approx(value["values"])
        else:
            said = [one["value"] for one in outcomes[-1]["answers"]]
            assert said == pytest.approx(value["values"])


def in_python(text: str, running: Running) -> Any:
    """What Python that was copied finds."""
    token = f'"{running.tokens["analyst"]}"'
    held: dict[str, Any] = {}
    text = text.replace('os.environ["SFUMATO_TOKEN"]', token)
    exec(text.replace("print(", "found = ("), held)
    return held["found"]


def in_commands(text: str, running: Running, held: Published) -> list[Any]:
    """What commands that were copied say about the tally."""
    fetch, export, *asks = text.splitlines()
    assert f"{running.url}/v1/studies/{held.fingerprint}/study" in fetch
    said = []
    for line in (export.replace("--store collector", f"--store '{running.folder}'"), *asks):
        words = shlex.split(line)
        outcome = CliRunner().invoke(app, [*words[1:], "--json"], catch_exceptions=False)
        assert outcome.exit_code == 0, outcome.output
        said.append(json.loads(outcome.stdout))
    return said[1:]


def deleted(visit: Visit, running: Running, held: Published) -> None:
    """Delete the study; its name is asked for."""
    page = visit.page
    page.goto("/operate")
    row = page.get_by_role("article", name=held.study.name)
    expect(row).to_contain_text(f"{PEOPLE + 1:,} counted, 0 waiting")
    row.get_by_role("button", name="Delete").click()
    sure = page.get_by_role("button", name="Delete it for good")
    expect(sure).to_be_disabled()
    page.get_by_label("Type its name").fill(held.study.name)
    visit.good("delete")
    sure.click()
    expect(row).to_have_count(0)
    assert held.fingerprint not in [one.fingerprint for one in every(running.collector.store)]


def kinds() -> sf.Study:
    """A study of one axis of each kind."""
    towns = [f"town {i}" for i in range(12)]
    return sf.Study(
        "kinds",
        [
            sf.reals("distance", 0, 60.5, bins=8, protect=sf.Uniform(1), unit="km"),
            sf.dates("day", "2026-01-05", "2026-03-01", step="1 week", protect=sf.Uniform(1)),
            sf.times("hour", "00:00", "24:00", step="2 hours", protect=sf.Uniform(1)),
            sf.categories("town", towns, protect=sf.Uniform(1)),
            sf.categories("ill", ["yes", "no"], protect=sf.Uniform(1), optional=True),
        ],
    )


@pytest.fixture
def kept(chromium: Browser, running: Running) -> Iterator[tuple[Visit, Published]]:
    """A browser, and a study of one axis of each kind."""
    held, _ = running.collector.publish(kinds().to_toml(), minimum=2)
    made = Visit(chromium, running, 800)
    yield made, held
    made.context.close()
    running.collector.delete(held)


def test_people_may_be_asked_for_values_of_every_kind(
    kept: tuple[Visit, Published], running: Running
) -> None:
    visit, held = kept
    page = visit.page
    page.goto(f"/answer/{held.fingerprint}?lang=de")
    page.get_by_label("distance").fill("12.5")
    page.get_by_label("day").fill("2026-02-03")
    page.get_by_label("hour").fill("07:45")
    page.get_by_label("town").select_option("town 11")
    page.get_by_role("button", name="Meine Antworten verwischen").click()
    expect(page.locator("#notice")).to_contain_text("Bitte beantworten Sie „ill“")
    page.get_by_label("Das möchte ich nicht sagen").check()
    page.get_by_role("button", name="Meine Antworten verwischen").click()
    expect(page.locator("#parts tbody tr")).to_have_count(5)
    page.get_by_role("button", name="Diese Meldung senden").click()
    expect(page.locator("#outcome")).to_contain_text("Danke")
    assert running.collector.counts(held)["counters"] == {"accepted": 1}
    visit.good("kinds")


def test_a_program_that_is_not_the_pinned_one_is_not_run(
    kept: tuple[Visit, Published], running: Running
) -> None:
    visit, held = kept
    weaker = sf.Study("kinds", [sf.integers("age", 0, 99, protect=sf.Uniform(20))])
    weak = weaker.device_program().to_text()
    visit.page.route("**/program", lambda route: route.fulfill(body=weak))
    visit.page.goto(f"/answer/{held.fingerprint}")
    expect(visit.page.locator("#notice")).to_contain_text("not the pinned one")
    expect(visit.page.locator("#make")).to_be_disabled()


def test_storage_that_is_blocked_is_said_and_the_page_works(
    kept: tuple[Visit, Published], running: Running
) -> None:
    visit, held = kept
    page = visit.page
    page.add_init_script("IDBFactory.prototype.open = () => { throw new DOMException('no') }")
    page.goto(f"/answer/{held.fingerprint}")
    expect(page.locator("#notice")).to_contain_text("blocks storage")
    expect(page.locator("#make")).to_be_enabled()


def test_an_address_without_a_study_is_said(kept: tuple[Visit, Published]) -> None:
    visit, _ = kept
    visit.page.goto(f"/answer/{'0' * 64}?lang=de")
    expect(visit.page.get_by_role("main")).to_have_text(re.compile("^Diese Studie gibt es"))
    assert faults(visit.page) == []


def test_too_few_reports_are_said_where_an_answer_would_be(
    kept: tuple[Visit, Published], running: Running
) -> None:
    visit, held = kept
    page = visit.page
    page.goto(f"/explore?study={held.fingerprint}")
    visit.enter(running.tokens["analyst"])
    expect(page.locator("#histogram figcaption")).to_contain_text("once it has 2 reports")
    expect(page.locator("#counters")).to_contain_text("None has come yet")


def test_reports_that_nobody_can_have_sent_are_said(
    kept: tuple[Visit, Published], running: Running
) -> None:
    visit, held = kept
    test = {"axes": ["town"], "kind": "frequency", "p_value": 1e-12, "words": "report 3 came often"}
    check = {"alarm": True, "p_value": 1e-12, "significance": 0.01, "tests": [test]}
    found = {"answer": check | {"left_out": ["ill"], "unseen": "Some cannot be found."}}
    page = visit.page
    page.route("**/check?*", lambda route: route.fulfill(json=found))
    page.goto(f"/explore?study={held.fingerprint}")
    visit.enter(running.tokens["analyst"])
    shown = page.get_by_role("region", name="Do they look honest?")
    for words in ("No population explains", "town: report 3 came often", "Not checked: ill"):
        expect(shown).to_contain_text(words)


def test_the_first_page_links_to_the_others(kept: tuple[Visit, Published]) -> None:
    visit, _ = kept
    visit.page.goto("/")
    visit.good("index")
    for name, path in (("Design", "/design"), ("Explore", "/explore"), ("Operate", "/operate")):
        link = visit.page.get_by_role("main").get_by_role("link", name=name)
        assert link.get_attribute("href") == path
