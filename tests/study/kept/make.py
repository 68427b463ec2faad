"""Make the files in this folder: run only with the version whose files are to be kept.

Files that are there already stay as they are, since another version must be able to read them;
remove one first to make it anew. Then `python tests/kept/make.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

import sfumato as sf

HERE = Path(__file__).parent
SOME = 5  # answers of a release are written down; the file has all


def run(*arguments: object) -> None:
    """Run a command as a person does."""
    start = "import sys; from sfumato.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", start, *map(str, arguments)]
    subprocess.run(words, check=True, capture_output=True)


def make_study(kept: Any, name: str, folder: Path) -> None:
    """The files of one study, if they are not there."""
    files = [kept.path(name, kind) for kind in ("study.toml", "reports.parquet", "tally.parquet")]
    if all(file.exists() for file in files):
        return
    toml, reports, tally = files
    study = (kept.STUDIES.get(name) or kept.FOUND[name])[0]()
    study.save(toml)
    people = kept.TABLES[name]()
    if name in kept.BY_COMMAND:
        table = folder / "people.csv"
        pa.csv.write_csv(pa.table(people), table)
        run("encode", toml, table, "--out", reports, "--seed", kept.SEED + 1)
        run("tally", toml, reports, "--out", tally)
        return
    made = study.encode(people, bits=sf.SeededBits(kept.SEED + 1))
    made.save(reports)
    study.tally(made).save(tally)


def make_releases(kept: Any, folder: Path) -> None:
    """The ledger and its releases, if they are not there."""
    if kept.LEDGER.exists():
        return
    study = kept.path("commute", "study.toml")
    table = folder / "people.csv"
    pa.csv.write_csv(pa.table(kept.TABLES["commute"]()), table)
    run("ledger", "new", kept.LEDGER, study, "--total", "3/2")
    first = HERE / "first.release.json"
    asked = ("--ask", "age=18..30", "--ask", "age=65..", "--workload", "cells of mode")
    enter = ("--ledger", kept.LEDGER, "--seed", kept.SEED)
    run("release", study, table, *enter, "--spend", "1/4", *asked, "--out", first)
    ledger = sf.central.Ledger.load(kept.LEDGER)
    data = sf.central.Data(sf.Study.load(study), kept.TABLES["commute"]())
    means = sf.central.Means({"mean age": "age"})
    spend = {"age": sf.Distance("1/20")}
    bits = sf.SeededBits(kept.SEED)
    sf.central.release(data, means, spend=spend, ledger=ledger, bits=bits).save(
        HERE / "means.release.json"
    )
    every = sf.central.MWEM("2-way", rounds=3, variant="replayed", check="1/5")
    sf.central.release(data, every, spend="1/2", ledger=ledger, bits=bits).save(
        HERE / "mwem.release.json"
    )
    ledger.reserve("1/8", mechanism="a release that was never made", people=data.n)


def next_release(kept: Any, folder: Path) -> list[float]:
    """What one more release answers."""
    copy = folder / "copy.ledger"
    copy.write_bytes(kept.LEDGER.read_bytes())
    data = sf.central.Data(
        sf.Study.load(kept.path("commute", "study.toml")), kept.TABLES["commute"]()
    )
    answer = sf.central.release(
        data,
        sf.central.Laplace(["age=18..30"]),
        spend="1/16",
        ledger=sf.central.Ledger.load(copy),
        bits=sf.SeededBits(kept.SEED),
    )[0]
    return [answer.value, answer.stderr]


def main() -> None:
    """Make what is missing, and write down what it answers."""
    sys.path.insert(0, str(HERE.parent))
    import test_kept as kept

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for study in kept.ASKED:
            make_study(kept, study, folder)
        make_releases(kept, folder)
        following = next_release(kept, folder)
    tallies, reports = {}, {}
    for study in kept.ASKED:
        loaded = sf.Study.load(kept.path(study, "study.toml"))
        tally = sf.Tally.load(kept.path(study, "tally.parquet"), loaded)
        tallies[study] = kept.answers(tally, study)
        reports[study] = kept.digest(sf.Reports.load(kept.path(study, "reports.parquet")))
    ledger = sf.central.Ledger.load(kept.LEDGER)
    releases = {}
    for release in kept.RELEASES:
        held = sf.central.Release.load(HERE / f"{release}.release.json")
        answers = [held[place] for place in range(min(len(held), SOME))]
        releases[release] = {
            "spent": held.spent,
            "answers": {a.question: [a.value, a.low, a.high] for a in answers},
        }
    expected = {
        "version": sf.__version__,
        "reports": reports,
        "tallies": tallies,
        "releases": releases,
        "ledger": kept.ledger_words(ledger),
        "next release": following,
    }
    text = json.dumps(expected, indent=1, ensure_ascii=False) + "\n"
    (HERE / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
