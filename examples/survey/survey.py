"""An invented survey: six questions under one ε, each person reporting on two of them.

Run ``python examples/survey/survey.py FOLDER``. It writes the study, a heat map of two questions
(`age-rent.png`), and prints answers about one, two and three questions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import sfumato as sf

QUESTIONS = ("age", "income", "rent", "rooms", "commute", "screen")
PEOPLE = 100_000


def answers(people: int, seed: int) -> dict[str, np.ndarray]:
    """Correlated answers from 0 to 63."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=people)
    return {
        name: np.clip(
            (0.7 * common + 0.7 * rng.normal(size=people)) * 9 + 24 + 3 * place, 0, 63
        ).astype(int)
        for place, name in enumerate(QUESTIONS)
    }


def main(folder: Path) -> None:
    """Ask, count and draw."""
    folder.mkdir(parents=True, exist_ok=True)
    axes = [sf.integers(name, 0, 63) for name in QUESTIONS]
    study = sf.Study("survey", axes, protect=sf.Uniform(epsilon=1), people=PEOPLE)
    study.save(folder / "survey.toml")
    print(study.explain())
    people = answers(PEOPLE, seed=1)
    estimate = study.simulate(people, seed=2).estimate()
    for asked in ("age=..31", "age=..31, rent=32..", "age=..31, rent=32.., rooms=32.."):
        found = estimate.count(asked)
        print(f"{asked}: {found}", *(f"  ({note})" for note in found.notes), sep="\n")
    heat = estimate.heatmap("age", "rent", bins=16)
    heat.plot(title="An invented survey").savefig(folder / "age-rent.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "survey"))
