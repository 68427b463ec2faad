"""An invented town: 40,000 homes are hidden on a map, and counted by neighbourhood.

Run ``python examples/town/town.py FOLDER``. It writes the study, a heat map (`town.png`) and its
cells for any map program (`town.geojson`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import sfumato as sf

BOX = (51.40, 6.90, 51.50, 7.06)  # south, west, north, east


def homes(people: int, seed: int) -> dict[str, np.ndarray]:
    """Homes in three quarters and in the country around them."""
    rng = np.random.default_rng(seed)
    middles = np.array([(51.455, 6.975), (51.44, 7.01), (51.475, 6.94)])
    spread = np.array([0.010, 0.006, 0.004])
    quarter = rng.choice(3, people, p=[0.5, 0.3, 0.2])
    places = middles[quarter] + rng.normal(size=(people, 2)) * spread[quarter, None] * (1, 1.6)
    country = rng.random(people) < 0.15
    places[country] = rng.uniform(BOX[:2], BOX[2:], (int(country.sum()), 2))
    low, high = np.array(BOX[:2]) + 1e-6, np.array(BOX[2:]) - 1e-6
    latitude, longitude = np.clip(places, low, high).T
    return {"home_lat": latitude, "home_lon": longitude}


def main(folder: Path) -> None:
    """Ask, count and draw."""
    folder.mkdir(parents=True, exist_ok=True)
    near = sf.Distance(epsilon=1, per="500 m", cap=8)
    study = sf.Study("town", [sf.places("home", BOX, cell="500 m", protect=near)])
    study.save(folder / "town.toml")
    print(study.explain())
    tally = study.tally(study.encode(homes(40_000, seed=1), bits=sf.SeededBits(2)))
    estimate = tally.estimate()
    town = sf.PlaceMap(study, "home")
    for words, found in (
        ("within 1 km of the market", town.circle(estimate, (51.455, 6.975), "1 km")),
        ("in the north-west quarter", town.box(estimate, (51.46, 6.92, 51.49, 6.96))),
    ):
        print(f"{words}: {found.values[0]:,.0f} ± {found.stderr[0]:,.0f} people")
    heat = town.heatmap(estimate)
    heat.plot(title="Homes in an invented town").savefig(folder / "town.png")
    (folder / "town.geojson").write_text(json.dumps(town.to_geojson(heat)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "town"))
