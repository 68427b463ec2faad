"""Axes: what they need to know of their values when they are made."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.domains.calendar import Dates


def test_an_optional_axis_of_dates_does_not_write_them_all_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be millions, and no date is "no answer"."""
    monkeypatch.setattr(Dates, "labels", lambda self: pytest.fail("all dates are written out"))
    day = sf.dates("day", "0001-01-01", "9999-12-31", protect=sf.Uniform(1), optional=True)
    assert day.size == day.domain.size + 1
