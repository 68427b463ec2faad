from __future__ import annotations

import importlib
import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import plotly.graph_objects as go
import pytest
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

import sfumato as sf
from sfumato.plots import interactive, regions, still, style

LABELS = ["north", "south <b>", "$east$", "</script><script>alert(1)</script>"]


@pytest.fixture(scope="module")
def estimate() -> sf.Estimate:
    rng = np.random.default_rng(5)
    people = 3_000
    study = sf.Study(
        "town",
        [
            sf.integers("age", 0, 19, protect=sf.Distance(1)),
            sf.reals("income ($)", 0, 80_000, bins=8, protect=sf.Distance(1, per=10_000)),
            sf.dates("visit", "2024-01-01", "2024-03-10", protect=sf.Distance(1)),
            sf.times("pickup", "00:00", "24:00", step="1 hour", protect=sf.Distance(1, per="1 h")),
            sf.categories("region", LABELS, protect=sf.Uniform(2), optional=True),
        ],
    )
    days = np.datetime64("2024-01-01") + rng.binomial(69, 0.4, people).astype("timedelta64[D]")
    return study.simulate(
        {
            "age": rng.binomial(19, 0.4, people),
            "income ($)": rng.uniform(0, 80_000, people),
            "visit": days,
            "pickup": [f"{hour:02d}:30" for hour in rng.binomial(23, 0.4, people)],
            "region": [LABELS[place] for place in rng.integers(0, 4, people)],
        },
        seed=3,
    ).estimate("unbiased")


def steps(drawn: Figure, label: str) -> StepPatch:
    (found,) = [
        patch
        for patch in drawn.axes[0].patches
        if isinstance(patch, StepPatch) and patch.get_label() == label
    ]
    return found


def whiskers(drawn: Figure) -> np.ndarray[Any, Any]:
    """Both ends of every whisker: shape (count, 2 ends, x and y)."""
    (found,) = [c for c in drawn.axes[0].containers if isinstance(c, ErrorbarContainer)]
    (lines,) = found.lines[2]
    assert isinstance(lines, LineCollection)
    return np.array(lines.get_segments())


def ticks(axis: Any) -> list[str]:
    axis.figure.draw_without_rendering()
    return [text.get_text() for text in axis.get_ticklabels() if text.get_text()]


def all_words(drawn: Figure) -> str:
    return " ".join(text.get_text() for text in drawn.findobj(matplotlib.text.Text))


# Still pictures


def test_a_histogram_has_the_values_the_intervals_and_the_truth(estimate: sf.Estimate) -> None:
    answers = estimate.histogram("age", level=0.9)
    truth = np.arange(20.0)
    drawn = still.figure(answers, truth=truth)
    for label, values in (("estimate", answers.values), ("truth", truth)):
        shape = steps(drawn, label).get_data()
        np.testing.assert_array_equal(shape.values, values)
        np.testing.assert_array_equal(shape.edges, answers.edges)
    ends = whiskers(drawn)
    np.testing.assert_allclose(ends[:, 0, 1], answers.low)
    np.testing.assert_allclose(ends[:, 1, 1], answers.high)
    np.testing.assert_allclose(ends[:, 0, 0], np.arange(20))
    assert drawn.axes[0].get_xlabel() == "age"
    assert drawn.axes[0].get_ylabel() == "people"
    assert "from 3,000 reports" in all_words(drawn)
    assert "90% interval" in all_words(drawn)


def test_many_cells_have_a_band_instead_of_whiskers(estimate: sf.Estimate) -> None:
    answers = estimate.histogram("visit")
    assert len(answers) > style.MOST_WHISKERS
    shape = steps(still.figure(answers), "95% interval").get_data()
    np.testing.assert_array_equal(shape.values, answers.high)
    np.testing.assert_array_equal(shape.baseline, answers.low)


def test_dates_are_drawn_as_dates(estimate: sf.Estimate) -> None:
    answers = estimate.histogram("visit")
    drawn = still.figure(answers)
    np.testing.assert_array_equal(
        steps(drawn, "estimate").get_data().edges, date2num(answers.edges)
    )
    assert {"Feb", "Mar"} <= set(ticks(drawn.axes[0].xaxis))


def test_a_day_on_the_clock_ends_at_24(estimate: sf.Estimate) -> None:
    drawn = still.figure(estimate.histogram("pickup"))
    assert ticks(drawn.axes[0].xaxis) == [f"{hour:02d}:00" for hour in range(0, 25, 3)]
    described = interactive.describe(estimate.histogram("pickup"))
    assert described["layout"]["xaxis"]["ticktext"][-1] == "24:00"


@pytest.mark.slow
def test_categories_are_bars_with_their_labels(estimate: sf.Estimate) -> None:
    answers = estimate.histogram("region", fraction=True)
    truth = np.full(5, 0.2)
    drawn = still.figure(answers, truth=truth)
    axes = drawn.axes[0]
    (bars,) = [held for held in axes.containers if isinstance(held, BarContainer)]
    np.testing.assert_allclose([bar.get_width() for bar in bars], answers.values)
    np.testing.assert_allclose(whiskers(drawn)[:, :, 0], np.c_[answers.low, answers.high])
    assert [line.get_xdata().tolist() for line in axes.lines if line.get_label() == "truth"] == [
        truth.tolist()
    ]
    assert ticks(axes.yaxis)[1:3] == ["south <b>", r"\$east\$"]
    assert ticks(axes.yaxis)[-1] == "no answer"
    assert axes.get_xlabel() == "share of people"
    assert all(text.endswith("%") for text in ticks(axes.xaxis))
    assert axes.yaxis_inverted()


@pytest.mark.slow
def test_labels_never_overlap_however_many(estimate: sf.Estimate) -> None:
    few = estimate.histogram("region")
    count = 300
    many = replace(
        few,
        values=np.ones(count),
        stderr=np.ones(count),
        centres=None,
        room=0.0,
        all_labels=([f"a place with rather a long name, number {i}" for i in range(count)],),
    )
    drawn = still.figure(many)
    drawn.draw_without_rendering()
    boxes = [t.get_window_extent() for t in drawn.axes[0].get_yticklabels() if t.get_text()]
    assert 60 <= len(boxes) <= 80
    tops = sorted(boxes, key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 for low, high in pairwise(tops))


def test_a_cdf_is_a_step_line_with_a_band(estimate: sf.Estimate) -> None:
    answers = estimate.cdf("income ($)")
    drawn = still.figure(answers, truth=np.linspace(0.1, 1, 8))
    np.testing.assert_array_equal(steps(drawn, "estimate").get_data().values, answers.values)
    band = steps(drawn, "95% interval").get_data()
    np.testing.assert_array_equal(band.values, answers.high)
    np.testing.assert_array_equal(band.baseline, answers.low)
    np.testing.assert_array_equal(steps(drawn, "truth").get_data().values, np.linspace(0.1, 1, 8))
    assert drawn.axes[0].get_ylabel() == "share of people at or below"
    assert "20,000" in ticks(drawn.axes[0].xaxis)
    assert r"income (\$)" in drawn.axes[0].get_xlabel()


def test_years_have_no_thousands_separator() -> None:
    study = sf.Study("y", [sf.integers("year", 1950, 2020, protect=sf.Distance(1))])
    answers = study.simulate({"year": [1960, 2001]}, seed=1).estimate("unbiased").histogram("year")
    assert "1960" in ticks(still.figure(answers).axes[0].xaxis)
    assert interactive.describe(answers)["layout"]["xaxis"]["tickformat"] == "~r"


def test_a_heat_map_shows_estimate_truth_and_standard_error(estimate: sf.Estimate) -> None:
    answers = estimate.heatmap("age", "income ($)", bins=(10, 4))
    assert answers.values.min() < 0
    truth = np.full((10, 4), 75.0)
    drawn = still.figure(answers, truth=truth)
    panels = [axes for axes in drawn.axes if axes.get_xlabel() == "age"]
    meshes = [axes.collections[0] for axes in panels]
    for mesh, values in zip(meshes, (answers.values, truth, answers.stderr), strict=True):
        assert isinstance(mesh, QuadMesh)
        np.testing.assert_array_equal(mesh.get_array(), values.T)
        x, y = mesh.get_coordinates()[0, :, 0], mesh.get_coordinates()[:, 0, 1]
        np.testing.assert_array_equal(x, answers.edges[0])
        np.testing.assert_array_equal(y, answers.edges[1])
    assert [axes.get_title() for axes in panels] == ["estimate", "truth", "standard error"]
    assert panels[0].get_ylabel() == r"income (\$)"
    limits = {mesh.get_clim() for mesh in meshes[:2]}
    assert limits == {(answers.values.min(), max(answers.values.max(), 75.0))}
    assert meshes[2].get_clim() == (0, answers.stderr.max())


def test_zero_is_white_and_negative_estimates_are_red() -> None:
    low, high = -2.0, 8.0
    colours = style.colours(low, high)
    assert (0.2, "#ffffff") in colours
    assert colours[-1] == (1.0, style.COLD[-1][1])
    # −2 of 8 is as strong as a quarter of the scale, on the other side
    assert colours[0] == (0.0, style.WARM[0][1])
    places = [place for place, _ in colours]
    assert places == sorted(set(places))


def test_one_sided_colours_begin_or_end_at_white() -> None:
    assert style.colours(0.0, 3.0)[0] == (0.0, "#ffffff")
    assert style.colours(-3.0, 0.0)[-1] == (1.0, "#ffffff")


def test_linear_answers_are_points_with_whiskers() -> None:
    study = sf.Study("x", [sf.integers("x", 0, 4, protect=sf.Distance(1))])
    estimate = study.simulate({"x": [0, 1, 2, 3, 4] * 50}, seed=2).estimate("unbiased")
    answers = estimate.linear(np.tril(np.ones((5, 5))))
    drawn = still.figure(answers, truth=[50, 100, 150, 200, 250])
    lines = {line.get_label(): line for line in drawn.axes[0].lines}
    np.testing.assert_array_equal(lines["estimate"].get_ydata(), answers.values)
    np.testing.assert_array_equal(lines["truth"].get_ydata(), [50, 100, 150, 200, 250])
    np.testing.assert_allclose(whiskers(drawn)[:, :, 1], np.c_[answers.low, answers.high])
    assert drawn.axes[0].get_xlabel() == "question"


@pytest.mark.slow
@pytest.mark.parametrize(
    "ask",
    [
        lambda est: est.histogram("age"),
        lambda est: est.histogram("region"),
        lambda est: est.cdf("age"),
        lambda est: est.heatmap("age", "region"),
    ],
)
def test_without_reports_a_picture_says_so(
    estimate: sf.Estimate, ask: Callable[[sf.Estimate], sf.Answers], tmp_path: Path
) -> None:
    answers = ask(estimate.study.empty_tally().estimate("unbiased"))
    still.save(answers, tmp_path / "empty.png")
    assert "no reports" in all_words(still.figure(answers))
    json.dumps(interactive.describe(answers), allow_nan=False)


def test_a_picture_says_under_which_condition(estimate: sf.Estimate) -> None:
    drawn = still.figure(estimate.histogram("age", where="region=north"))
    assert "where region=north" in all_words(drawn)


def test_a_title_may_be_given_and_plot_draws_the_same(estimate: sf.Estimate) -> None:
    answers = estimate.histogram("age")
    assert answers.plot(title="Our ages").get_suptitle() == "Our ages"
    assert answers.plot().get_suptitle() == "People by age"


def test_no_state_of_pyplot_is_touched(estimate: sf.Estimate, tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    loaded = "matplotlib.pyplot" in sys.modules
    still.save(estimate.histogram("age"), tmp_path / "a.png")
    assert ("matplotlib.pyplot" in sys.modules) == loaded
    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_a_notebook_shows_the_figure(estimate: sf.Estimate) -> None:
    drawn = still.figure(estimate.histogram("age"))
    assert drawn._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


# Interactive pictures


def kinds(estimate: sf.Estimate) -> dict[str, sf.Answers]:
    return {
        "whole": estimate.histogram("age"),
        "dates": estimate.histogram("visit"),
        "clock": estimate.histogram("pickup"),
        "labels": estimate.histogram("region"),
        "cdf": estimate.cdf("visit"),
        "heat": estimate.heatmap("visit", "region", bins=(5, None)),
        "linear": replace(estimate.histogram("age"), kind="linear", all_edges=(None,)),
    }


KINDS = ["whole", "dates", "clock", "labels", "cdf", "heat", "linear"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_described_is_what_plotly_knows(estimate: sf.Estimate, kind: str) -> None:
    answers = kinds(estimate)[kind]
    described = interactive.describe(answers, truth=answers.values)
    go.Figure(described)  # refuses unknown properties and wrong values
    (shown,) = [t for t in described["data"] if t.get("name", "estimate") == "estimate"]
    if kind == "heat":
        np.testing.assert_array_equal(np.array(shown["z"], dtype=float).T, answers.values)
    else:
        values = shown["x"] if kind == "labels" else shown["y"]
        np.testing.assert_array_equal(values[: len(answers)], answers.values)
    if kind in ("whole", "clock", "labels", "linear"):
        bars = shown["error_x" if kind == "labels" else "error_y"]
        np.testing.assert_allclose(answers.values + bars["array"], answers.high)
        np.testing.assert_allclose(answers.values - bars["arrayminus"], answers.low)
    if kind in ("dates", "cdf"):
        band = [t["y"][:-1] for t in described["data"] if t["name"] in ("low", "95% interval")]
        np.testing.assert_array_equal(band, [answers.low, answers.high])


def test_every_view_of_a_heat_map_has_a_button(estimate: sf.Estimate) -> None:
    answers = estimate.heatmap("age", "income ($)", bins=4)
    described = interactive.describe(answers, truth=np.ones((4, 4)))
    buttons = {
        button["label"]: np.array(button["args"][0]["z"][0]).T
        for button in described["layout"]["updatemenus"][0]["buttons"]
    }
    np.testing.assert_array_equal(buttons["estimate"], answers.values)
    np.testing.assert_array_equal(buttons["truth"], np.ones((4, 4)))
    np.testing.assert_array_equal(buttons["standard error"], answers.stderr)


def test_dates_lie_in_the_middle_of_their_cells(estimate: sf.Estimate) -> None:
    bars = interactive.describe(estimate.histogram("visit"))["data"][0]
    assert bars["x"][0] == "2024-01-01T12:00:00.000"
    assert set(bars["width"]) == {86_400_000}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_needs_nothing_from_elsewhere(
    estimate: sf.Estimate, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "picture.html"
    still.save(kinds(estimate)[kind], path, title="A <title> & more")
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"<script[^>]+src|<link|<img|<iframe|@import", without_library(text))
    assert not re.search(r"https?://", without_library(text))
    assert "A &lt;title&gt; &amp; more" in text
    assert "from 3,000 reports" in text
    assert style.library() in text


def test_labels_cannot_leave_their_place_in_a_page(estimate: sf.Estimate) -> None:
    text = without_library(interactive.page(estimate.histogram("region")))
    assert text.count("</script>") == 2  # the library's and the picture's own
    assert "alert(1)" in text
    assert "<script>alert" not in text
    described = {"data": [{"name": "</script>"}], "layout": {}}
    assert style.piece("p", described).count("</script>") == 1


def test_a_page_that_would_be_too_slow_is_refused() -> None:
    size = 600
    answers = sf.Answers(
        values=np.zeros((size, size)),
        stderr=np.ones((size, size)),
        n=1,
        kind="heatmap",
        axes=("a", "b"),
        all_labels=([""] * size, [""] * size),
        all_edges=(None, None),
    )
    with pytest.raises(sf.TooLargeError, match=r"360,000 cells.*bins"):
        interactive.describe(answers)


def without_library(page: str) -> str:
    return page.replace(style.library(), "")


# Error regions


@pytest.mark.parametrize("back", [1.0, math.inf])
def test_pictures_show_the_region_with_names_made_safe(back: float) -> None:
    region = sf.ErrorRegion(there=1.0, back=back, names=("ill <b>", "$well$"))
    drawn = region.plot(title="a $title$")
    drawn.draw_without_rendering()
    (axes,) = drawn.axes
    assert axes.get_xlabel() == r"false alarms: says ill <b> when it is \$well\$"
    assert axes.get_xlim() == axes.get_ylim() == (0, 1)
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    best = lines["best possible tests"]
    assert np.allclose(best, region.boundary)
    (shade,) = axes.patches
    assert np.allclose(shade.get_xy(), [[0, 0], *region.boundary, [0, 0]])
    assert ("with the smaller E in both directions" in lines) == (back != 1.0)
    described = regions.describe(region)
    json.dumps(described, allow_nan=False)
    (named,) = [t for t in described["data"] if t["name"] == "best possible tests"]
    assert np.allclose(np.array([named["x"], named["y"]]).T, region.boundary)
    assert described["layout"]["xaxis"]["title"]["text"].startswith(
        "false alarms: says ill &lt;b&gt;"
    )


def test_pictures_are_written_whole_or_refused(tmp_path: Path) -> None:
    region = sf.ErrorRegion(there=1.0, back=2.0, names=("ill", "well"))
    region.save_plot(tmp_path / "region.png")
    assert (tmp_path / "region.png").read_bytes().startswith(b"\x89PNG")
    region.save_plot(tmp_path / "region.html", title="a <title>")
    text = (tmp_path / "region.html").read_text(encoding="utf-8")
    assert "a &lt;title&gt;" in text
    assert "is wrong at least" in text
    with pytest.raises(sf.StudyError, match="must end in"):
        region.save_plot(tmp_path / "region.gif")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["region.html", "region.png"]


# Files and refusals


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")]
)
def test_still_pictures_are_written_by_suffix(
    estimate: sf.Estimate, tmp_path: Path, name: str, start: bytes
) -> None:
    still.save(estimate.histogram("age"), tmp_path / name)
    held = (tmp_path / name).read_bytes()
    assert held.startswith(start)
    assert len(held) > 3_000
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_failed_picture_leaves_the_old_file_alone(
    estimate: sf.Estimate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def fail(self: Figure, file: Path, **_options: Any) -> None:
        Path(file).write_bytes(b"half")
        raise OSError("full")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="full"):
        still.save(estimate.histogram("age"), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["picture.bmp", "picture"])
def test_another_suffix_is_refused_with_those_there_are(
    estimate: sf.Estimate, tmp_path: Path, name: str
) -> None:
    with pytest.raises(sf.StudyError, match=r"\.png, \.svg, \.pdf or \.html.*picture"):
        still.save(estimate.histogram("age"), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_truth_of_another_shape_is_refused(estimate: sf.Estimate) -> None:
    with pytest.raises(sf.QuestionError, match=r"shape \(20,\), got shape \(3,\)"):
        still.figure(estimate.histogram("age"), truth=[1, 2, 3])


def test_a_kind_without_a_picture_is_refused(estimate: sf.Estimate) -> None:
    odd = replace(estimate.heatmap("age", "region"), kind="cube")
    with pytest.raises(sf.QuestionError, match="'cube'"):
        still.figure(odd)
    with pytest.raises(sf.QuestionError, match="'cube'"):
        interactive.describe(odd)


@pytest.mark.parametrize(("suffix", "library"), [("png", "matplotlib"), ("html", "plotly")])
def test_a_missing_library_is_named_with_the_extra(
    estimate: sf.Estimate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    library: str,
) -> None:
    original = importlib.import_module

    def gone(name: str, package: str | None = None) -> Any:
        if name.startswith(library):
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)
        return original(name, package)

    monkeypatch.setattr(importlib, "import_module", gone)
    with pytest.raises(sf.MissingExtraError, match=rf"{library}.*'sfumato\[analyst\]'"):
        still.save(estimate.histogram("age"), tmp_path / f"a.{suffix}")
    assert issubclass(sf.MissingExtraError, sf.SfumatoError)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (-1500.0, "−1,500"), (0.25, "0.25"), (2e6, "2,000,000")]
)
def test_numbers_on_a_scale_are_plain(value: float, text: str) -> None:
    assert style.number(value) == text
