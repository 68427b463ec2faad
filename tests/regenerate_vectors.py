"""Test vectors for clients in any language: programs, records, words and the reports they make.

``python tests/regenerate_vectors.py`` writes ``vectors/*.json``; a test fails when they are not
what this writes, and when a registered channel has none. Bytes of reports are those of the wire
format; "Device programs" in the documentation says how a client makes them.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "device")]

from helpers_contract import TRIALS  # noqa: E402 (found by the paths above)
from helpers_programs import program_of  # noqa: E402

import sfumato as sf  # noqa: E402
from sfumato.channels.choice import REGISTRY, Trial  # noqa: E402
from sfumato.channels.searched.settling import SearchedChoice  # noqa: E402
from sfumato.device.interpreter import WORD_BITS, Machine  # noqa: E402
from sfumato.device.program import Program  # noqa: E402
from sfumato.device.wire import Batch, ReportLayout  # noqa: E402

FOLDER = ROOT / "vectors"
_MOST_CASES = 24
_EACH = 2  # programs per registered channel

Record = dict[str, Any]


def studies() -> Iterator[tuple[str, sf.Study, list[Record], list[Record]]]:
    """Studies of every kind of value, with records that they take, and others that they refuse."""
    d, u = sf.Distance, sf.Uniform
    yield (
        "study-integers",
        sf.Study("ages", [sf.integers("age", -3, 40, protect=d("0.5"))]),
        [{"age": v} for v in (-3, 0, 17, 40, 12.0)],
        [{"age": v} for v in (-4, 41, 0.5, None, "", math.nan, math.inf, True)] + [{}],
    )
    yield (
        "study-clipped",
        sf.Study(
            "ages",
            [sf.integers("age", 0, 99, protect=d("0.2", cap=2), outside="clip")],
            channel=sf.Geometric(),
        ),
        [{"age": v} for v in (-5, 50, 1000, math.inf, -math.inf)],
        [{"age": v} for v in (0.5, None)],
    )
    yield (
        "study-reals",
        sf.Study("rates", [sf.reals("rate", "-0.3", "0.7", bins=10, protect=u(2))]),
        [{"rate": v} for v in (-0.3, -0.2, 0, 0.1, 0.7, 0.6999999999999998, 0.3)],
        [{"rate": v} for v in (0.7000000000000002, -1, math.nan, None)],
    )
    yield (
        "study-unequal",
        sf.Study("incomes", [sf.reals("income", edges=[0, 1, 10, 100], protect=d(1, per=20))]),
        [{"income": v} for v in (0, 0.999, 1, 9.99, 10, 100)],
        [{"income": v} for v in (-1, 100.5)],
    )
    yield (
        "study-rounded",
        sf.Study("dose", [sf.reals("dose", 0, 10, bins=3, protect=d(1), rounding="stochastic")]),
        [
            {"dose": v}
            for v in (
                *(0, 0.1, 1 / 3, 3.333333333333333, 5, 9.999999, 10),
                *(10 / 3 / 2**21, 5 * (10 / 3) / 2**21),  # halfway between shares: to the even one
            )
        ],
        [{"dose": v} for v in (-1, 10.5)],
    )
    yield (
        "study-dates",
        sf.Study(
            "days",
            [
                sf.dates(
                    "day", "2023-12-25", "2024-03-03", step="1 week", protect=d(1, per="7 days")
                )
            ],
        ),
        [{"day": v} for v in ("2023-12-25", "2024-02-29", "2024-03-03", "2024-01-01T23:59:59.9")],
        [
            {"day": v}
            for v in ("2023-12-24", "2024-02-30", "2024-03-04", "2024-01-01T10:00Z", 19782)
        ],
    )
    yield (
        "study-times",
        sf.Study(
            "leave",
            [sf.times("at", "06:00", "10:00", step="15 minutes", protect=u(1), outside="clip")],
        ),
        [{"at": v} for v in ("06:00", "06:14:59.999", "06:15", "23:59", "00:00")],
        [{"at": v} for v in ("24:00", "6:00", "06:60", "06:00Z")],
    )
    moments = sf.times("at", "2024-02-28T00:00", "2024-03-02T00:00", step="1 hour", protect=u(1))
    yield (
        "study-moments",
        sf.Study("visits", [moments]),
        [{"at": v} for v in ("2024-02-28T00:00", "2024-02-29 24:00", "2024-03-01T23:59:59")],
        [{"at": v} for v in ("2024-03-02T00:00", "2024-02-29", "2024-02-29T25:00")],
    )
    yield (
        "study-categories",
        sf.Study("ways", [sf.categories("way", ["é", "a b", "A", "car"], protect=u(1))]),
        [{"way": v} for v in ("é", "a b", "A", "car")],
        [{"way": v} for v in ("a", " A", "", None, 1)],
    )
    yield (
        "study-several-blocks",
        sf.Study(
            "commute",
            [
                sf.integers("age", 0, 99, protect=d("0.2")),
                sf.categories("mode", ["car", "bus", "bike"], protect=u(1), optional=True),
                sf.integers("steps", 0, 9, protect=d("0.5"), channel=sf.Thermometer()),
                sf.integers("pets", 0, 5, protect=u(2), channel=sf.OUE()),
                sf.integers("hour", 0, 23, protect=d("0.5", no_answer=6), optional=True),
            ],
        ),
        [
            {"age": 31, "mode": "bike", "steps": 4, "pets": 0, "hour": 8},
            {"age": 0, "mode": None, "steps": 9, "pets": 5, "hour": None},
            {"age": 99, "steps": 0, "pets": 2, "hour": 23, "other": "ignored"},
        ],
        [{"age": 31, "mode": "bike", "steps": 4, "pets": None, "hour": 8}],
    )
    yield (
        "study-whole-records",
        sf.Study("trips", [sf.integers("hour", 0, 23), sf.integers("zone", 0, 30)], protect=u(1)),
        [{"hour": h, "zone": z} for h, z in ((0, 0), (23, 30), (8, 17))],
        [{"hour": 24, "zone": 0}],
    )
    yield (
        "study-pairs",
        sf.Study(
            "survey",
            [*(sf.integers(name, 0, 63) for name in "abcde"), sf.categories("f", ["x", "y"])],
            protect=u(1),
            channel=sf.Pairs(sf.Comb(), shares=list(range(1, 16))),
        ),
        [{**dict.fromkeys("abcde", v), "f": "y"} for v in (0, 31, 63)],
        [{**dict.fromkeys("abcde", 64), "f": "y"}],
    )
    yield (
        "study-large-hashing",
        sf.Study("codes", [sf.integers("code", 0, 99_999, protect=u(2), channel=sf.OLH())]),
        [{"code": v} for v in (0, 1, 31_415, 99_999)],
        [{"code": 100_000}],
    )
    yield (
        "study-large-distance",
        sf.Study("places", [sf.integers("metre", 0, 4_095, protect=d("0.01"))]),
        [{"metre": v} for v in (0, 1, 2_000, 4_095)],
        [{"metre": 4_096}],
    )


def written(value: Any) -> Any:
    """A value as JSON holds it."""
    odd = isinstance(value, float) and not math.isfinite(value)
    return (
        {"$number": {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")}
        if odd
        else value
    )


def read(value: Any) -> Any:
    """A value as JSON held it."""
    return float(value["$number"]) if isinstance(value, Mapping) else value


class Drawing(Machine):
    """A machine that draws its own words, and notes them."""

    def __init__(self, tables: Sequence[tuple[Any, int]], source: random.Random) -> None:
        super().__init__(tables, self._next)
        self.source = source
        self.drawn: list[int] = []

    def _next(self) -> int:
        self.drawn.append(self.source.getrandbits(64))
        return self.drawn[-1]


class Edging(Drawing):
    """A machine whose words are the first or the last of an outcome: random words never show that
    a reader is wrong by one."""

    _ends: Iterator[int]

    def draw(self, name: str, held: Any, bits: int) -> int:
        """As a machine does, with words where one outcome ends and the next begins."""
        every = held if isinstance(held, Sequence) else [held or 0]
        if name != "flips":
            inner = [end for end in every if 0 < end < 1 << bits]
            every = [self.source.choice(inner or [0])]
        self._ends = iter([end << (WORD_BITS - bits) for end in every])
        return super().draw(name, held, bits)

    def _next(self) -> int:
        number = next(self._ends) - self.source.randrange(2)
        self.drawn.append(min(max(number, 0), (1 << WORD_BITS) - 1))
        return self.drawn[-1]


def case(program: Program, record: Record, machine: Drawing) -> dict[str, Any]:
    """A record, the words that were drawn, and the report."""
    codes = program.codes(record)
    results = [program.result(machine, block, codes) for block in program.blocks]
    return {
        "record": {name: written(value) for name, value in record.items()},
        "words": [str(word) for word in machine.drawn],
        "report": program.layout.pack(results).hex(),
    }


def vector(name: str, program: Program, records: list[Record], refused: list[Record]) -> Any:
    """A program with cases: every record, several times over."""
    times = max(1, _MOST_CASES // len(records))
    source = random.Random(name)
    cases = [
        case(program, record, kind(program.tables, source))
        for kind in (Drawing, Edging, Edging)
        for _ in range(times)
        for record in records
    ]
    held = [{key: written(value) for key, value in record.items()} for record in refused]
    return {"program": json.loads(program.to_text()), "cases": cases, "refused": held}


def settled(key: str, trial: Trial) -> Trial:
    """A trial whose table is in its file already: on another machine a search finds another one."""
    choice = trial.choice
    if not isinstance(choice, SearchedChoice) or choice.table is not None:
        return trial
    file = FOLDER / f"{key}.json"
    held = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    table = held.get("table") or choice.settled(trial.metric).table
    return replace(trial, choice=choice._with_table(trial.metric, table))


def vectors() -> dict[str, Any]:
    """All files by name."""
    found: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for name, trial in TRIALS.items():
        kind = name.rsplit("-", 1)[0]
        if trial.resolution or counts.get(kind, 0) == _EACH or kind not in REGISTRY:
            continue  # older laws have the last digits of the processor
        counts[kind] = counts.get(kind, 0) + 1
        key = f"channel-{name}"
        own = settled(key, trial)
        channel = own.bind()
        records = [{"x": cell} for cell in range(channel.size)]
        found[key] = vector(key, program_of(channel), records, [{"x": channel.size}])
        if isinstance(own.choice, SearchedChoice) and own is not trial:
            found[key]["table"] = own.choice.table
    for name, study, records, refused in studies():
        found[name] = vector(name, study.device_program(), records, refused)
        found[name]["study"] = study.to_toml()
    return found | {"batches": batches()}


def batches() -> dict[str, Any]:
    """Batches, and others that a decoder refuses, each for one reason."""
    fingerprint = bytes(range(32)).hex()
    layouts = [
        (("symbols", 256),),
        (("symbols", 100), ("bits", 9)),
        (("bits", 3), ("symbols", 7), ("bits", 6), ("symbols", 1000)),
        (("symbols", 2**40), ("symbols", 3**30)),
        (("bits", 16),),
    ]
    source = random.Random("batches")
    cases = []
    for layout in layouts:
        shape = ReportLayout(layout)
        rows = [
            tuple(source.randrange(n if kind == "symbols" else 1 << n) for kind, n in layout)
            for _ in range(3)
        ]
        ids = tuple(source.randbytes(16) for _ in rows)
        batch = Batch(fingerprint, 20_000, ids, tuple(map(shape.pack, rows)))
        cases.append(
            {
                "layout": layout,
                "fingerprint": fingerprint,
                "batch": batch.to_bytes().hex(),
                "expires": 20_000,
                "reports": [
                    [number.hex(), [str(result) for result in row]]
                    for number, row in zip(ids, rows, strict=True)
                ],
            }
        )
    good = bytes.fromhex(cases[1]["batch"])
    size = ReportLayout(layouts[1]).size
    first = 45 + 16  # where the first report begins
    wrong = {
        "magic": b"SFMX" + good[4:],
        "version": good[:4] + b"\x02" + good[5:],
        "study": good[:5] + bytes(32) + good[37:],
        "count": good[:37] + bytes(4) + good[41:45],
        "length": good[:-1],
        "symbol": good[:first] + b"\x64" + good[first + 1 :],
        "padding": good[: first + size - 1] + b"\x80" + good[first + size :],
        "id": good[: 45 + 16 + size] + good[45:61] + good[45 + 32 + size :],
    }
    refused = [
        {
            "layout": layouts[1],
            "fingerprint": fingerprint,
            "batch": data.hex(),
            "code": code,
        }
        for code, data in wrong.items()
    ]
    more = {"layout": layouts[1], "fingerprint": fingerprint, "batch": (good + b"\0").hex()}
    refused.append(more | {"code": "length"})
    refused.append(more | {"batch": good[:20].hex(), "code": "length"})
    # Two faults: ids come before reports, and the first report at fault before others.
    both = wrong["id"][:first] + b"\x64" + wrong["id"][first + 1 :]
    refused.append(more | {"batch": both.hex(), "code": "id"})
    second = first + size + 16
    both = wrong["padding"][:second] + b"\x64" + wrong["padding"][second + 1 :]
    refused.append(more | {"batch": both.hex(), "code": "padding"})
    return {"cases": cases, "refused": refused}


def text_of(held: Any) -> str:
    """The text of a file."""
    return json.dumps(held, ensure_ascii=False, sort_keys=True, indent=1) + "\n"


def main() -> None:
    """Write all files, and remove those that are no longer made."""
    FOLDER.mkdir(exist_ok=True)
    made = vectors()
    for old in FOLDER.glob("*.json"):
        if old.stem not in made:
            old.unlink()
    for name, held in made.items():
        (FOLDER / f"{name}.json").write_text(text_of(held), encoding="utf-8")


if __name__ == "__main__":
    main()
