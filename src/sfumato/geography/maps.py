"""Answers laid out on a map: as a heat map, and as GeoJSON for any map program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.domains.categories import NO_ANSWER
from sfumato.domains.reals import Reals
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Answers

_KEPT = ("axes", "unit", "question", "level", "method", "n", "notes")


def heatmap(
    answers: Answers, labels: Sequence[str], *, latitudes: Reals, longitudes: Reals
) -> Answers:
    """Answers for every cell with longitude across and latitude up."""
    _check(answers, labels)
    bounds = answers.bounds

    def lay(array: Floats) -> Floats:
        return array[: len(labels)].reshape(latitudes.size, longitudes.size).T.copy()

    return replace(
        answers,
        values=lay(answers.values),
        stderr=lay(answers.stderr),
        bounds=None if bounds is None else (lay(bounds[0]), lay(bounds[1])),
        kind="heatmap",
        axes=("longitude", "latitude"),
        all_labels=(longitudes.labels(), latitudes.labels()),
        all_edges=(longitudes.edges(), latitudes.edges()),
        joint=None,
    )


def to_geojson(
    answers: Answers, labels: Sequence[str], *, latitudes: Reals, longitudes: Reals
) -> dict[str, Any]:
    """One polygon a cell, with its answer and error; what holds for all stands in "about"."""
    _check(answers, labels)
    arrays = {
        "value": answers.values,
        "stderr": answers.stderr,
        "low": answers.low,
        "high": answers.high,
    }
    numbers = {
        name: [number if np.isfinite(number) else None for number in array.tolist()]
        for name, array in arrays.items()
    }
    up, across = latitudes.edges().tolist(), longitudes.edges().tolist()
    features = []
    for number, label in enumerate(labels):
        row, column = divmod(number, longitudes.size)
        (south, north), (west, east) = up[row : row + 2], across[column : column + 2]
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        held = {name: values[number] for name, values in numbers.items()}
        features.append(
            {
                "type": "Feature",
                "id": label,
                "geometry": {"type": "Polygon", "coordinates": [ring]},
                "properties": {"cell": label, **held},
            }
        )
    said = answers.to_dict()
    about = {name: said[name] for name in _KEPT}
    return {"type": "FeatureCollection", "features": features, "about": about}


def _check(answers: Answers, labels: Sequence[str]) -> None:
    """Refuse answers that are not one a cell, with or without "no answer" at the end."""
    held = answers.all_labels[0]
    named = held[:-1] if held and held[-1] == NO_ANSWER else held
    if answers.values.ndim != 1 or answers.kind != "histogram" or list(named) != list(labels):
        raise QuestionError(
            f"a map needs one answer for each of the grid's {len(labels)} cells, got {answers!r}: "
            "ask for the histogram of the grid's axis without bins, or for distribution(estimate)"
        )
