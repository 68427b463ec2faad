"""The curator's table: people in cells, and never a value in a message."""

from __future__ import annotations

import pytest
from helpers_central import two_axes

import sfumato as sf
from sfumato import central
from sfumato.central.mechanism import margins_of

# Data and space


def test_data_are_counted_by_cell_and_margin() -> None:
    study = two_axes()
    people = {"age": [0, 0, 5, 3], "mode": ["car", "bus", "bike", "car"]}
    data = central.Data(study, people)
    table = data.counts().reshape(6, 3)
    assert (data.n, len(data), table.sum()) == (4, 4, 4)
    assert (table[0, 0], table[0, 1], table[5, 2], table[3, 0]) == (1, 1, 1, 1)
    assert data.marginal([1]).tolist() == [2, 1, 1]
    assert data.marginal([1, 0]).reshape(3, 6).tolist() == table.T.tolist()
    assert central.Data.from_counts(study, table).counts().tolist() == data.counts().tolist()
    assert margins_of(data.counts(), study.shape, (1, 0)).tolist() == table.T.ravel().tolist()
    assert margins_of(data.counts(), study.shape, (0,)).tolist() == table.sum(axis=1).tolist()
    assert repr(data) == "<data of 4 people for study 'two'>"


def test_data_that_do_not_fit_are_refused_without_a_value() -> None:
    with pytest.raises(sf.DataError, match="row 2") as caught:
        central.Data(two_axes(), {"age": [1, 4321], "mode": ["car", "bus"]})
    assert "4321" not in str(caught.value)
    with pytest.raises(sf.StudyError, match="at least one person"):
        central.Data(two_axes(), {"age": [], "mode": []})
    with pytest.raises(sf.StudyError, match="shape 6 × 3"):
        central.Data.from_counts(two_axes(), [1, 2])


def test_an_axis_that_rounds_at_random_is_for_devices_only() -> None:
    axis = sf.reals("x", 0, 1, bins=4, protect=sf.Distance(1), rounding="stochastic")
    study = sf.Study("rounded", [axis])
    with pytest.raises(sf.StudyError, match="'x' rounds at random"):
        central.Data(study, {"x": [0.5]})
    with pytest.raises(sf.StudyError, match="'x' rounds at random"):
        central.Space(study)
