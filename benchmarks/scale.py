"""How the cost of every channel grows with people, beside the physical floor and other samplers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.encoding import discrete_laplace
from benchmarks.floors import floor_of
from benchmarks.pages import digits, markdown, refilled
from benchmarks.recording import FOLDER, Measurement, peak_memory, progress, seconds
from sfumato.cli.benching import PER_REPORT, STEPS, made_up, measured, warm_up
from sfumato.collect.packing import layout_of

PAGE = Path("docs/speed.md")
PICTURE = Path("docs/images/scale.png")

PEOPLE = (10_000, 100_000, 1_000_000, 10_000_000)
SHOWN = 1_000_000  # people in the table of the page
MANY = 100_000_000
CHUNK = 1_000_000
FEWER = 20_000  # for samplers that would take a minute otherwise
#: Channels of bits: their reports are kept as they are, and summed when something is asked.
BITS = ("thermometer", "oue", "matrix-response")
CHUNKED = f"geometric, in chunks of {CHUNK:,}"

_U, _D = sf.Uniform(1), sf.Distance("0.1")
_GRID = 16


def _line(size: int, protect: Any, choice: Any) -> sf.Study:
    """A study with one axis of whole numbers."""
    return sf.Study("scale", [sf.integers("x", 0, size - 1, protect=protect, channel=choice)])


def _blocks() -> sf.Study:
    """Four blocks of 64 categories."""
    labels = [f"c{k}" for k in range(256)]
    protect = sf.Blocks(1, [labels[start : start + 64] for start in range(0, 256, 64)])
    axis = sf.categories("x", labels, protect=protect, channel=sf.PerBlock(sf.KaryResponse()))
    return sf.Study("scale", [axis])


def _city() -> sf.Study:
    """A grid under city-block distance."""
    x, y = np.divmod(np.arange(_GRID**2), _GRID)
    blocks = np.abs(x[:, None] - x) + np.abs(y[:, None] - y)
    return _line(_GRID**2, sf.Matrix(blocks.tolist()), sf.Product((_GRID, _GRID)))


def _plane() -> sf.Study:
    """A grid under the distance in the plane, both axes together."""
    axes = [sf.integers(name, 0, _GRID - 1) for name in "xy"]
    protect = sf.Lp("0.5", p=2)
    return sf.Study("scale", [sf.together(axes, protect=protect, channel=sf.Planar())])


def _optional() -> sf.Study:
    """255 cells and "no answer"."""
    protect = sf.Distance("0.1", no_answer=5)
    axis = sf.integers("x", 0, 254, protect=protect, optional=True, channel=sf.Extended())
    return sf.Study("scale", [axis])


def _several() -> sf.Study:
    """Four axes, of which each person reports on two."""
    axes = [sf.integers(name, 0, _GRID - 1) for name in "abcd"]
    return sf.Study("scale", axes, protect=_U, channel=sf.Pairs())


#: One study for every registered channel: 256 cells, or what the channel allows.
STUDIES: dict[str, Callable[[], sf.Study]] = {
    "geometric": lambda: _line(256, _D, sf.Geometric()),
    "thermometer": lambda: _line(256, _D, sf.Thermometer()),
    "kary-response": lambda: _line(256, _U, sf.KaryResponse()),
    "exponential": lambda: _line(256, _D, sf.Exponential()),
    "oue": lambda: _line(256, _U, sf.OUE()),
    "olh": lambda: _line(256, _U, sf.OLH()),
    "hrr": lambda: _line(256, _U, sf.HRR()),
    "square-wave": lambda: _line(256, _U, sf.SquareWave()),
    "optimised": lambda: _line(16, _U, sf.Optimised()),
    "extremal": lambda: _line(16, sf.Distance("0.5"), sf.Extremal()),
    "matrix-response": lambda: _line(16, sf.Distance("0.5"), sf.MatrixResponse("prefix")),
    "comb": lambda: _line(256, _U, sf.Comb()),
    "hierarchical": lambda: _line(256, _U, sf.Hierarchical()),
    "haar-hrr": lambda: _line(256, _U, sf.HaarHRR()),
    "binary": lambda: _line(2, _U, sf.Binary()),
    "hadamard": lambda: _line(256, _U, sf.Hadamard()),
    "per-block": _blocks,
    "product": _city,
    "stricter": lambda: _line(256, _D, sf.Stricter("line", sf.Geometric())),
    "extended": _optional,
    "planar": _plane,
    "rakes": lambda: _line(256, _D, sf.Rakes(64, 2, "3/4")),
    "pairs": _several,
}

_COLUMNS = (
    "channel",
    "cells",
    "report bytes",
    "people",
    *(f"{step} s" for step in STEPS),
    *(f"{step} MiB" for step in PER_REPORT),
    "decoded by",
    "random bytes per person",
    "os.urandom s",
    "one pass s",
    "encode + tally / floor",
    "encoded people/s",
)


def measure() -> Measurement:
    """Every channel and number of people; the geometric channel in chunks; other samplers."""
    rows = [row for name in STUDIES for row in _rows(name)]
    rows.append(_in_chunks())
    rows += _samplers()
    notes = [
        f"Processor seconds on one core, best of three runs up to {SHOWN:,} people, else one run "
        "(answer and decode: one run); MiB: the most that a step held at once, its result "
        "included.",
        "encode: study.encode with secure bits; answer: the unbiased histogram of the axis; "
        "decode: the histogram that tally.estimate() gives, by the method named.",
        "floor: the bytes that encode draws, from os.urandom, and one np.bitwise_count pass over "
        "the packed bits or one np.bincount over the symbols. sfumato draws from AES-256 in "
        "counter mode, keyed by os.urandom, which is faster, so a ratio may be below one. Tallies "
        "keep reports of bits as they are and sum them when something is asked: there, answer is "
        "added to encode and tally.",
        "OpenDP's sampler is exact and secure, qif's is neither.",
        *(f"{step}: {_slopes_text(rows, step)}" for step in STEPS),
    ]
    return Measurement(
        f"{PEOPLE[0]:,} to {PEOPLE[-1]:,} people, every registered channel, one core", rows, notes
    )


def _rows(name: str) -> Iterator[dict[str, Any]]:
    """All steps of one channel, for every number of people; the floor for one of them."""
    study = STUDIES[name]()
    warm_up(study)
    for number in PEOPLE:
        progress(f"{name}, {number:,} people")
        found: dict[str, Any] = {
            "channel": name,
            "cells": study.channels[0].size,
            "report bytes": layout_of(study.layouts).size,
            "people": number,
        }
        runs = 3 if number <= SHOWN else 1
        for step in measured(study, number, runs=runs, traced=PER_REPORT):
            found[f"{step.step} s"] = step.seconds
            found[f"{step.step} MiB"] = None if step.peak is None else step.peak / 2**20
        found["decoded by"] = step.method
        found["encoded people/s"] = number / found["encode s"]
        if number == SHOWN:
            values = made_up(study, number)
            floor = floor_of(study, values, study.encode(values))
            both = found["encode s"] + found["tally s"]
            if name in BITS:
                both += found["answer s"]
            found["random bytes per person"] = floor.random_bytes
            found["os.urandom s"] = floor.urandom
            found["one pass s"] = floor.one_pass
            found["encode + tally / floor"] = both / floor.together
        yield _whole(found)


def _in_chunks() -> dict[str, Any]:
    """A hundred million people, a chunk at a time: memory does not depend on their number."""
    progress(f"{CHUNKED}, {MANY:,} people")
    study = STUDIES["geometric"]()
    values = made_up(study, CHUNK)
    encode, tally = 0.0, 0.0

    def work() -> sf.Tally:
        nonlocal encode, tally
        held = study.empty_tally()
        for _ in range(MANY // CHUNK):
            marks = [time.process_time()]
            reports = study.encode(values)
            marks.append(time.process_time())
            held += study.tally(reports)
            marks.append(time.process_time())
            encode, tally = encode + marks[1] - marks[0], tally + marks[2] - marks[1]
        return held

    peak, held = peak_memory(work)
    assert isinstance(held, sf.Tally)
    assert held.n == MANY
    return _whole(
        {
            "channel": CHUNKED,
            "cells": study.shape[0],
            "report bytes": layout_of(study.layouts).size,
            "people": MANY,
            "encode s": encode,
            "tally s": tally,
            "encode MiB": peak / 2**20,
            "tally MiB": peak / 2**20,
            "encoded people/s": MANY / encode,
        }
    )


def _samplers() -> list[dict[str, Any]]:
    """The noise of the geometric channel as other libraries draw it."""
    import qif

    cells = np.random.default_rng(1).integers(0, 256, FEWER)
    opendp, listed = discrete_laplace(0.1), cells.tolist()
    law = STUDIES["geometric"]().channels[0].likelihood()
    which, people = np.unique(cells, return_counts=True)

    def sampled() -> None:
        for cell, count in zip(which, people, strict=True):
            qif.probab.sample(law[cell], int(count))

    rows = []
    for name, work in (
        ("OpenDP: discrete Laplace", lambda: opendp(listed)),
        ("qif: probab.sample of the same law", sampled),
    ):
        progress(name)
        best, _ = seconds(work, repeat=3)
        found = {"channel": name, "cells": 256, "people": FEWER, "encode s": best}
        rows.append(_whole(found | {"encoded people/s": FEWER / best}))
    return rows


def _whole(found: Mapping[str, Any]) -> dict[str, Any]:
    """A row with every column; what was not measured is None."""
    return {column: found.get(column) for column in _COLUMNS}


# Growth


def slope(rows: Sequence[Mapping[str, Any]], channel: str, column: str) -> float | None:
    """The exponent b of figure ≈ c·people^b from 100,000 people on, by least squares of logarithms.

    Args:
        rows: Figures.
        channel: Which channel.
        column: Which figure.
    """
    kept = [
        (row["people"], row[column])
        for row in rows
        if row["channel"] == channel and row["people"] >= PEOPLE[1] and row[column]
    ]
    if len(kept) < 2:
        return None
    people, figures = np.log(np.array(kept)).T
    return float(np.polyfit(people, figures, 1)[0])


def _slopes_text(rows: Sequence[Mapping[str, Any]], step: str) -> str:
    """The smallest and the largest exponent among the channels."""
    slopes = {name: slope(rows, name, f"{step} s") for name in STUDIES}
    known = {name: value for name, value in slopes.items() if value is not None}
    least, most = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    return (
        f"seconds grow as people^{known[least]:.2f} ({least}) to people^{known[most]:.2f} ({most})"
    )


# The page


def page_tables(figures: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Recorded figures as the tables of the page, by their names there."""
    head = ["channel", "cells", "report", "encode", "pack", "unpack", "tally"]
    head += ["answer, s", "decode, s", "decoded by", "peak", "encode + tally / floor"]
    rows = [
        [
            row["channel"],
            f"{row['cells']:,}",
            f"{row['report bytes']:,} B",
            *(
                "kept" if (step == "tally" and row["channel"] in BITS) else _millions(row, step)
                for step in PER_REPORT
            ),
            *("" if row[f"{s} s"] is None else digits(row[f"{s} s"]) for s in STEPS[4:]),
            row["decoded by"],
            f"{digits(max(row['encode MiB'], row['tally MiB']))} MiB",
            digits(row["encode + tally / floor"]),
        ]
        for row in figures
        if row["people"] == SHOWN
    ]
    exponents = []
    for name in STUDIES:
        found = [slope(figures, name, f"{step} s") for step in STEPS]
        memory = slope(figures, name, "encode MiB"), slope(figures, name, "tally MiB")
        exponents.append([name, *("" if b is None else f"{b:.2f}" for b in (*found, *memory))])
    others = [
        [
            row["channel"],
            f"{row['people']:,}",
            f"{float(format(row['encoded people/s'], '.3g')):,.0f}",
        ]
        for row in figures
        if row["channel"] not in STUDIES or (row["channel"], row["people"]) == ("geometric", SHOWN)
    ]
    return {
        "scale": markdown(head, rows),
        "slopes": markdown(["channel", *STEPS, "encode, memory", "tally, memory"], exponents),
        "samplers": markdown(["sampler", "people", "people per second"], others),
    }


def _millions(row: Mapping[str, Any], step: str) -> str:
    """Millions of reports per second."""
    return digits(row["people"] / row[f"{step} s"] / 1e6)


def draw(figures: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The picture of the page: encode, tally and decode against people.

    Args:
        figures: Recorded rows.
        path: Where it is written.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    named = ("geometric", "thermometer", "oue", "olh", "hrr", "hadamard", "comb", "hierarchical")
    figure, axes = plt.subplots(1, 4, figsize=(12, 4), layout="constrained")
    panels = (
        ("encode s", "encode"),
        ("tally s", "tally"),
        ("decode s", "decode (default)"),
        ("tally MiB", "memory of tally, MiB"),
    )
    for axis, (column, title) in zip(axes, panels, strict=True):
        for name in STUDIES:
            kept = [row for row in figures if row["channel"] == name and row[column]]
            shown = name in named
            axis.loglog(
                [row["people"] for row in kept],
                [row[column] for row in kept],
                color=f"C{named.index(name)}" if shown else "0.8",
                linewidth=1.6 if shown else 0.8,
                zorder=2 if shown else 1,
                marker=".",
                label=name if shown else None,
            )
        axis.set_title(title if "MiB" in column else f"{title}, processor s", fontsize=10)
        axis.set_xlabel("people")
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    held = json.loads((FOLDER / "scale.json").read_text(encoding="utf-8"))["figures"]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(refilled(text, page_tables(held)), encoding="utf-8")
    draw(held, PICTURE)
