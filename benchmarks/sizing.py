"""What studies of up to 10^10 people take: measured costs per report, errors, exact simulation."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.devices import studies
from benchmarks.pages import digits, markdown, refilled
from benchmarks.recording import FOLDER, Measurement, peak_memory, progress
from sfumato.arrays import DENSE_CELLS
from sfumato.cli.benching import STEPS, made_up, measured, warm_up
from sfumato.collect.packing import layout_of
from sfumato.collect.tally import sends_bits
from sfumato.questions.language import weights

PAGE = Path("docs/sizing.md")

MEASURED = 1_000_000
PEOPLE = tuple(10**power for power in range(4, 11))
SIMULATED = (10**9, 10**10)
FEWER = 10**7  # where people are simulated one by one
MOST_RUNS = 40
MOST_SECONDS = 4.0  # for all runs of one entry
#: Asked instead of a random range: on a million cells that can be told apart by one ε, no number
#: of people in reach answers ranges.
QUESTIONS = {"1,000,000 cells, uniform 1, Hadamard": "x=31415"}


def measure() -> Measurement:
    """Unit costs at a million people, the error expected of each number, and simulated tallies."""
    rows = []
    for name, study, _ in studies():
        progress(name)
        rows.append(
            {"study": name, **_unit_costs(study), **_error(name, study), **_simulated(study)}
        )
    return Measurement(
        f"ten studies: costs at {MEASURED:,} people, errors and simulation up to 10^10",
        rows,
        [
            "processor seconds on one core, best of three runs; answer: the unbiased histogram of "
            "the first axis; decode: the one that tally.estimate() gives",
            "error: the expected standard error of a typical question as a share of people; "
            "simulated: root mean square error of one question over some simulated tallies, over "
            "the expected one",
        ],
    )


def _unit_costs(study: sf.Study) -> dict[str, Any]:
    """What every step takes for a million people, and how many bytes there are."""
    warm_up(study)
    steps = {step.step: step for step in measured(study, MEASURED)}
    tally = study.tally(study.encode(made_up(study, MEASURED)))
    return {
        "channels": ", ".join(block.choice.id for block in study.blocks),
        "bits": sends_bits(study),
        "report bytes": layout_of(study.layouts).size,
        "tally bytes": len(tally.to_bytes()),
        **{f"{name} s": steps[name].seconds for name in STEPS},
        "decoded by": steps["decode"].method,
    }


def _error(name: str, study: sf.Study) -> dict[str, Any]:
    """The expected error of one question; as a share it falls with the root of the people."""
    asked = QUESTIONS.get(name)
    plan = study.expected_error(MEASURED, asked)
    row = plan.rows[0] if asked is None else plan[asked]
    return {"question": row.question, "error": row.share}


# Simulation


def hump(shape: Sequence[int], number: int) -> NDArray[np.int64]:
    """A histogram of this many people: a hill on every axis, to the left of the middle.

    Args:
        shape: Cells of every axis.
        number: How many people.
    """
    law = np.ones(())
    for size in shape:
        law = np.multiply.outer(law, np.exp(-(((np.arange(size) / size - 0.4) / 0.2) ** 2) / 2))
    counts = np.floor(law / law.sum() * number).astype(np.int64)
    counts.flat[counts.argmax()] += number - counts.sum()
    return counts


def simulated_count(study: sf.Study, counts: NDArray[np.int64], question: str, seed: int) -> float:
    """The unbiased answer to a question from a simulated tally of these people.

    Args:
        study: The study.
        counts: People in every cell.
        question: What is asked, about one axis if reports are bits.
        seed: Any integer.
    """
    tally = study.simulate_counts(
        counts, seed=seed, keep="sums" if sends_bits(study) else "reports"
    )
    return tally.estimate("unbiased").count(question).value


def question_of(study: sf.Study) -> str:
    """The second quarter of the first axis."""
    size = study.shape[0]
    return f"{study.axes[0].name}={size // 4}..{size // 2}"


def _simulated(study: sf.Study) -> dict[str, Any]:
    """Time, memory and error of simulated tallies, and of one decoding."""
    by_person = max(channel.size for channel in study.channels) > DENSE_CELLS
    numbers = (FEWER,) if by_person else SIMULATED
    return {"simulated": [_entry(study, number, compared=not by_person) for number in numbers]}


def _entry(study: sf.Study, number: int, *, compared: bool) -> dict[str, Any]:
    """One number of people.

    Args:
        study: The study.
        number: How many people.
        compared: Whether to repeat it and to compare errors with those expected.
    """
    progress(f"  {number:,} people simulated")
    asked, counts = question_of(study), hump(study.shape, number)
    peak, _ = peak_memory(lambda: simulated_count(study, counts, asked, 0))
    start = time.process_time()
    off = [simulated_count(study, counts, asked, 1)]
    took = time.process_time() - start
    found: dict[str, Any] = {"people": number, "s": took, "MiB": peak / 2**20, "runs": 0}
    if not compared:
        return found
    runs = int(np.clip(MOST_SECONDS / took, 1, MOST_RUNS))
    off += [simulated_count(study, counts, asked, seed) for seed in range(2, runs + 1)]
    truth = _truth(study, counts, asked)
    expected = study.expected_error(number, asked, prior=counts)[asked].stderr
    ratio = float(np.sqrt(np.mean(np.square(np.array(off) - truth))) / expected)
    found |= {"runs": runs, "error / expected": ratio}
    if not sends_bits(study):
        tally = study.simulate_counts(counts, seed=1)
        start = time.process_time()
        answer = tally.estimate().count(asked)
        found |= {"decoded s": time.process_time() - start, "method": answer.method}
        found["decoded error / stated"] = (answer.value - truth) / answer.stderr
    return found


def _truth(study: sf.Study, counts: NDArray[np.int64], question: str) -> float:
    """The true answer to a question about the first axis."""
    asked = weights(study.axes, question).weights[0]
    return float(counts.reshape(len(asked), -1).sum(axis=1) @ asked)


# The page


def amount(value: float, units: Sequence[tuple[float, str]]) -> str:
    """A figure in the largest unit that it reaches, in three digits.

    Args:
        value: The figure.
        units: The sizes and names of units, the largest first.
    """
    size, unit = next((pair for pair in units if value >= pair[0]), units[-1])
    return f"{digits(value / size)} {unit}"


BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
TIMES = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"))


def page_tables(figures: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Recorded figures as the tables of the page, by their names there."""
    numbers = [f"10^{round(math.log10(number))}" for number in PEOPLE]
    units, sizes, encoded, tallied, errors, simulated = ([] for _ in range(6))
    for row in figures:
        name = row["study"]
        units.append(
            [
                name,
                row["channels"],
                f"{row['report bytes']:,} B",
                amount(row["tally bytes"], BYTES),
                *(digits(1e9 * row[f"{step} s"] / MEASURED) for step in STEPS[:4]),
                *("" if row[f"{s} s"] is None else amount(row[f"{s} s"], TIMES) for s in STEPS[4:]),
            ]
        )
        answer = row["answer s"]
        each = (row["unpack s"] + row["tally s"]) / MEASURED
        if row["bits"]:  # they are summed when something is asked
            each, answer = each + answer / MEASURED, 0.0
        sizes.append([name, *(amount(n * row["report bytes"], BYTES) for n in PEOPLE)])
        encoded.append([name, *(amount(n * row["encode s"] / MEASURED, TIMES) for n in PEOPLE)])
        tallied.append([name, *(amount(n * each + answer, TIMES) for n in PEOPLE)])
        shares = [f"{100 * row['error'] * math.sqrt(MEASURED / n):.2g} %" for n in PEOPLE]
        errors.append([name, row["question"], *shares])
        for held in row["simulated"]:
            ratio, decoded = held.get("error / expected"), held.get("method") == "likelihood"
            simulated.append(
                [
                    name,
                    f"10^{round(math.log10(held['people']))}",
                    amount(held["s"], TIMES),
                    f"{digits(held['MiB'])} MiB",
                    str(held["runs"] or ""),
                    "" if ratio is None else f"{ratio:.2f}",
                    amount(held["decoded s"], TIMES) if decoded else "",
                    f"{held['decoded error / stated']:+.1f}" if decoded else "",
                ]
            )
    steps = [f"{step}, ns" for step in STEPS[:4]]
    return {
        "unit costs": markdown(
            ["study", "channels", "report", "tally", *steps, "answer", "decode"], units
        ),
        "bytes": markdown(["study", *numbers], sizes),
        "seconds to encode": markdown(["study", *numbers], encoded),
        "seconds to tally": markdown(["study", *numbers], tallied),
        "errors": markdown(["study", "question", *numbers], errors),
        "simulated": markdown(
            [
                "study",
                "people",
                "time",
                "memory",
                "runs",
                "error / expected",
                "decoding",
                "decoded error / stated",
            ],
            simulated,
        ),
    }


if __name__ == "__main__":
    held = json.loads((FOLDER / "sizing.json").read_text(encoding="utf-8"))["figures"]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(refilled(text, page_tables(held)), encoding="utf-8")
