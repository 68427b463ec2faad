"""The JavaScript client in a real browser: vectors, the law of its reports, memory and sending."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route
from scipy import stats

import sfumato as sf
from sfumato.device.law import law
from sfumato.device.wire import Batch
from supply.browser import ORIGIN, browser

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOLDERS = {"js": ROOT / "js" / "src", "bundle": ROOT / "src" / "sfumato" / "js", "tests": HERE}
SURE = 1e-6
REPORTS = 200_000
COLLECTOR = "https://collector.example/**"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("SFUMATO_NO_BROWSER") == "1", reason="SFUMATO_NO_BROWSER=1"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[BrowserContext]:
    try:
        with browser(FOLDERS) as context:
            yield context
    except FileNotFoundError as error:
        pytest.fail(str(error))


@pytest.fixture
def page(chromium: BrowserContext) -> Iterator[Page]:
    opened = fresh(chromium)
    opened.evaluate("() => new Promise((r) => (indexedDB.deleteDatabase('sfumato').onsuccess = r))")
    yield opened
    for each in chromium.pages:
        each.close()


def fresh(chromium: BrowserContext) -> Page:
    """A page that has loaded nothing yet."""
    opened = chromium.new_page()
    opened.goto(f"{ORIGIN}/")
    return opened


def asked(page: Page, body: str, *given: Any) -> Any:
    """The result of statements in a page that see the tests' own module as `t`, and `given`."""
    return page.evaluate(
        f"async (given) => {{ const t = await import('/tests/browser.mjs'); {body} }}", list(given)
    )


def study(epsilon: float = 1.0) -> sf.Study:
    return sf.Study("visits", [sf.integers("cell", 0, 999_999, protect=sf.Uniform(epsilon))])


def held(program: sf.Program) -> dict[str, str]:
    return {"text": program.to_text(), "digest": program.digest}


# Vectors


@pytest.mark.parametrize("module", ["/js/index.js", "/bundle/sfumato.js"])
def test_a_browser_reproduces_every_vector(page: Page, module: str) -> None:
    files = sorted((ROOT / "vectors").glob("*.json"))
    vectors = {file.name: json.loads(file.read_text(encoding="utf-8")) for file in files}
    outcome = page.evaluate(
        """async ([module, text]) => {
          const { run } = await import("/tests/vectors.mjs");
          return run(await import(module), JSON.parse(text));
        }""",
        [module, json.dumps(vectors)],
    )
    assert outcome["failed"] == []
    assert outcome["passed"] > 1_000


# The law of reports


def three(factor: float = 1.0) -> dict[str, sf.Study]:
    """A study for each kind of channel, with ε times a factor."""
    ages = sf.integers("x", 0, 99, protect=sf.Distance(0.2 * factor), channel=sf.Geometric())
    comb = sf.integers("x", 0, 99, protect=sf.Uniform(1 * factor), channel=sf.Comb())
    hadamard = sf.integers("x", 0, 99, protect=sf.Uniform(1 * factor), channel=sf.Hadamard())
    return {
        "geometric": sf.Study("ages", [ages]),
        "comb": sf.Study("comb", [comb]),
        "hadamard": sf.Study("hadamard", [hadamard]),
    }


def chance(counts: Mapping[str, int], program: sf.Program, cell: int) -> float:
    """How probable counts at least as far from the program's law are, by a chi-square test.

    Results with fewer than five expected reports are joined, as the approximation needs.
    """
    expected = {result: float(p) * REPORTS for result, p in law(program, 0, cell).items()}
    found = {int.from_bytes(bytes.fromhex(key), "little"): n for key, n in counts.items()}
    assert sum(found.values()) == REPORTS
    assert found.keys() <= expected.keys()
    common = [result for result, mean in expected.items() if mean >= 5]
    pairs = [(found.get(result, 0), expected[result]) for result in common]
    rest = REPORTS - sum(mean for _, mean in pairs)
    if rest >= 5:
        pairs.append((REPORTS - sum(n for n, _ in pairs), rest))
    square = sum((n - mean) ** 2 / mean for n, mean in pairs)
    return float(stats.chi2.sf(square, len(pairs) - 1))


def counts_of(page: Page, program: sf.Program, seed: int | None) -> dict[str, int]:
    """200,000 reports of one record, made in the browser."""
    start = "" if seed is None else f"t.seedRandomness({seed}n);"
    body = f"{start} return t.counted(...given)"
    counts: dict[str, int] = asked(
        page, body, program.to_text(), program.digest, {"x": 37}, REPORTS
    )
    return counts


@pytest.mark.parametrize("kind", ["geometric", "comb", "hadamard"])
def test_reports_of_a_browser_follow_the_law(page: Page, kind: str, seed: int) -> None:
    program = three()[kind].device_program()
    counts = counts_of(page, program, seed)
    assert chance(counts, program, 37) > SURE
    # The twin: a tenth less or more of ε is noticed. The mean chi-square then is larger by the
    # people times the squared relative difference of the laws, at least 390 where 90 would do for
    # Hadamard (128 degrees of freedom), and at least 1,700 where 490 would for the two others.
    for factor in (0.9, 1.1):
        wrong = three(factor)[kind].device_program()
        assert chance(counts, wrong, 37) < SURE


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["geometric", "comb", "hadamard"])
def test_reports_from_the_browsers_own_randomness_follow_the_law(page: Page, kind: str) -> None:
    program = three()[kind].device_program()
    assert chance(counts_of(page, program, None), program, 37) > SURE


# Memory and ledger in IndexedDB


def test_memory_and_ledger_outlive_a_page(page: Page, chromium: BrowserContext) -> None:
    program = held(study().device_program())
    body = """
      const made = await t.client(given[0], { limit: 2 });
      const report = await t.reported(made, { cell: given[1] }, given[2]);
      return [report, await made.spent()];
    """
    first, _ = asked(page, body, program, 5, "May")
    page.close()
    again, spent = asked(fresh(chromium), body, program, 999_999, "May")
    assert again == first
    assert spent["total"] == "1"
    assert spent["text"].startswith("visits, 1 round: E = 1")
    _, spent = asked(fresh(chromium), body, program, 5, "June")
    assert spent["total"] == "2"
    refused = f"try {{ {body} }} catch (error) {{ return [error.code, error.message]; }}"
    code, words = asked(fresh(chromium), refused, program, 5, "July")
    assert code == "limit"
    assert "5" not in words


def test_two_pages_make_one_report_of_a_round(page: Page, chromium: BrowserContext) -> None:
    program = held(study().device_program())
    other = fresh(chromium)
    start = "window.made = await t.client(given[0]);"
    for each in (page, other):
        asked(each, start, program)
    # Both pages ask for all rounds at once; Web Locks let one of them make each report.
    begin = """
      window.all = Promise.all(
        Array.from({ length: 40 }, (_, i) => t.reported(window.made, { cell: i }, `round ${i}`)),
      );
    """
    for each in (page, other):
        asked(each, begin)
    first, second = (asked(each, "return window.all") for each in (page, other))
    assert first == second
    spent = asked(page, "return (await window.made.spent()).total")
    assert spent == "40"


@pytest.mark.parametrize("locked", [True, False])
def test_without_a_lock_two_clients_would_make_two_reports(page: Page, locked: bool) -> None:
    program = held(study().device_program())
    body = """
      const { BrowserStore } = await import("/js/index.js");
      class Unlocked extends BrowserStore { lock(_, work) { return work(); } }
      const store = given[1] ? BrowserStore : Unlocked;
      const clients = [await t.client(given[0], { store: new store() }),
                       await t.client(given[0], { store: new store() })];
      return Promise.all(clients.map((each) => t.reported(each, { cell: 7 }, "May")));
    """
    first, second = asked(page, body, program, locked)
    # 20 bits of a report: two fresh ones are equal once in some 10^5 times or less.
    assert (first == second) is locked


def test_entries_are_read_with_their_own_keys_while_another_page_writes(page: Page) -> None:
    body = """
      const { BrowserStore } = await import("/js/index.js");
      const store = new BrowserStore();
      for (const name of ["b", "c"]) await store.put(`round ${name}`, name);
      const base = await new Promise((r) => {
        const asked = indexedDB.open("sfumato");
        asked.onsuccess = () => r(asked.result);
      });
      const keys = IDBObjectStore.prototype.getAllKeys;
      IDBObjectStore.prototype.getAllKeys = function (...rest) {
        base.transaction("held", "readwrite").objectStore("held").put("a", "round a");
        return keys.apply(this, rest);
      };
      const found = await store.all("round ");
      IDBObjectStore.prototype.getAllKeys = keys;
      base.close();
      return [found, await store.all("round ")];
    """
    first, second = asked(page, body)
    assert all(key == f"round {value}" for key, value in first)
    assert second == [["round a", "a"], ["round b", "b"], ["round c", "c"]]


def test_a_round_of_any_name_is_charged_and_waits_to_be_sent(page: Page) -> None:
    body = """
      const made = await t.client(given[0]);
      const rounds = [" ", "\\uffff", "\\uffff\\uffff", "😀"];
      for (const round of rounds) await t.reported(made, { cell: 5 }, round);
      const waiting = await made.store.all(`round ${made.program.fingerprint} `);
      return [(await made.spent()).total, waiting.length];
    """
    assert asked(page, body, held(study().device_program())) == ["4", 4]


def test_a_page_that_dies_after_the_charge_is_charged_once(
    page: Page, chromium: BrowserContext
) -> None:
    program = held(study().device_program())
    dies = """
      const { BrowserStore } = await import("/js/index.js");
      class Dying extends BrowserStore {
        put(key, value) { return value.report ? new Promise(() => {}) : super.put(key, value); }
        lock(_, work) { return work(); }
      }
      const made = await t.client(given[0], { store: new Dying() });
      made.report({ cell: 5 }, { round: "May" });
      while (!(await made.spent()).studies.length) await new Promise((r) => setTimeout(r, 5));
    """
    asked(page, dies, program)
    page.close()
    body = """
      const made = await t.client(given[0]);
      const before = await made.spent();
      const report = await t.reported(made, { cell: 5 }, "May");
      return [before.total, report.length, (await made.spent()).total];
    """
    assert asked(fresh(chromium), body, program) == ["1", 6, "1"]


def test_permanent_reports_have_a_secret_that_cannot_be_read_out(
    page: Page, chromium: BrowserContext
) -> None:
    program = held(study().device_program())
    body = """
      const made = await t.client(given[0], { memory: "value" });
      const report = await t.reported(made, { cell: given[1] }, given[2]);
      const key = await made.store.get("secret");
      const out = await crypto.subtle.exportKey("raw", key).catch((error) => error.name);
      return [report, key.extractable, out];
    """
    first, extractable, out = asked(page, body, program, 5, "May")
    assert extractable is False
    assert out == "InvalidAccessError"
    page.close()
    assert asked(fresh(chromium), body, program, 5, "June")[0] == first
    assert asked(fresh(chromium), body, program, 6, "July")[0] != first


def test_blocked_storage_is_said_and_nothing_is_reported(page: Page) -> None:
    body = """
      indexedDB.open = () => { throw new DOMException("no", "SecurityError"); };
      const made = await t.client(given[0]);
      const asked = made.report({ cell: 5 }, { round: "May" });
      return asked.catch((error) => [error.code, error.message]);
    """
    code, words = asked(page, body, held(study().device_program()))
    assert code == "store"
    assert "full, blocked or private" in words


# Sending


class Collected:
    """A collector that fails as often as it is told to, then keeps what it gets."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    def __call__(self, route: Route) -> None:
        cors = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"}
        if route.request.method == "OPTIONS":
            route.fulfill(status=204, headers=cors)
            return
        self.bodies.append(route.request.post_data_buffer or b"")
        self.headers.append(route.request.all_headers())
        if len(self.bodies) <= self.failures:
            route.fulfill(status=503, headers=cors)
            return
        count = int.from_bytes(self.bodies[-1][37:41], "little")
        stored = {"accepted": count, "repeated": 0, "refused": []}
        route.fulfill(status=202, headers=cors, json=stored)


def test_a_browser_sends_the_same_bytes_until_they_arrive(page: Page) -> None:
    made = study()
    collector = Collected(failures=2)
    page.context.route(COLLECTOR, collector)
    body = """
      const made = await t.client(given[0], { wait: async () => {} });
      const reports = [];
      for (const round of ["May", "June"]) {
        reports.push(await t.reported(made, { cell: 123456 }, round));
      }
      const queued = await t.contents(made.store);
      const outcome = await made.send();
      return [reports, outcome, queued + (await t.contents(made.store)), await made.send()];
    """
    reports, outcome, stored, second = asked(page, body, held(made.device_program()))
    page.context.unroute(COLLECTOR, collector)
    assert outcome == {"sent": 2, "expired": 0, "refused": []}
    assert second == {"sent": 0, "expired": 0, "refused": []}
    assert len(collector.bodies) == 3
    assert len(set(collector.bodies)) == 1
    batch = Batch.from_bytes(collector.bodies[0], made.device_program().layout)
    assert batch.fingerprint == made.fingerprint
    assert sorted(report.hex() for report in batch.reports) == sorted(reports)
    assert "123456" not in stored
    for headers in collector.headers:
        assert headers["content-type"] == "application/vnd.sfumato.batch.v1"
        assert not headers.keys() & {"cookie", "referer"}


# Examples in pages


@pytest.mark.parametrize("name", ["docs/put-it-into-an-app.md", "js/README.md"])
def test_the_examples_of_a_page_run(page: Page, name: str) -> None:
    commute = sf.Study(
        "commute",
        [
            sf.integers("age", 0, 99, protect=sf.Distance("0.2")),
            sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(1), optional=True),
        ],
    )
    program = held(commute.device_program())
    blocks = re.findall(r"^```js\n(.*?)^```", (ROOT / name).read_text("utf-8"), re.M | re.S)
    assert blocks
    collector = Collected(failures=0)
    page.context.route(COLLECTOR, collector)
    lines: list[str] = []
    page.on("console", lambda message: lines.append(message.text))
    code = (
        f"const {{ text, digest }} = {json.dumps(program)};\n{''.join(blocks)}\nwindow.done = true"
    )
    page.add_script_tag(type="module", content=code.replace('"sfumato"', '"/js/index.js"'))
    page.wait_for_function("window.done")
    page.context.unroute(COLLECTOR, collector)
    assert len(collector.bodies) == 1
    assert lines[0].startswith("commute, 1 round: E = 20.8: together at most")


@pytest.mark.parametrize("name", ["QuotaExceededError", "ReadOnlyError"])
def test_full_or_read_only_storage_makes_no_report(page: Page, name: str) -> None:
    body = """
      const made = await t.client(given[0]);
      const put = IDBObjectStore.prototype.put;
      IDBObjectStore.prototype.put = () => { throw new DOMException("no", given[1]); };
      const asked = made.report({ cell: 123456 }, { round: "May" });
      const refusal = await asked.catch((error) => [error.code, error.message]);
      IDBObjectStore.prototype.put = put;
      const sent = (await made.send()).sent;
      return [...refusal, sent, (await made.spent()).text];
    """
    code, words, sent, spent = asked(page, body, held(study().device_program()), name)
    assert code == "store"
    assert "123456" not in words
    assert sent == 0
    assert spent == "Nothing was reported so far."
