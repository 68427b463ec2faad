"""The ledger on a device: k·E per study, the sum over studies, a limit, and plain words."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
from helpers_kill import Random

import sfumato as sf
from sfumato.device.client import Client
from sfumato.device.ledger import Account, Spent


class Other(Random):
    name, fingerprint, most = "other", "12" * 32, Fraction(3)


class Unbounded(Random):
    name, fingerprint, most = "unbounded", "34" * 32, None


def test_rounds_multiply_and_studies_add(tmp_path: Path) -> None:
    with Client(Random(), folder=tmp_path) as one, Client(Other(), folder=tmp_path) as other:
        for k in range(3):
            one.report({}, round=str(k))
        other.report({})
        found = one.spent()
        assert {held.name: held.total for held in found.studies} == {
            "kills": Fraction(3, 2),
            "other": 3,
        }
        assert found.total == Fraction(9, 2)
        assert found == other.spent()
        assert "90 times likelier" in str(found)
        assert json.loads(json.dumps(found.to_dict()))["total"] == 4.5


def test_a_study_without_a_bound_counts_once_it_has_reported(tmp_path: Path) -> None:
    with Client(Unbounded(), folder=tmp_path) as client:
        assert client.spent().total == 0
        client.report({})
        assert client.spent().total is None
        assert "an unbounded E" in str(client.spent())
        assert "told apart for certain" in str(client.spent())


def test_the_limit_is_that_of_all_studies_together(tmp_path: Path) -> None:
    with (
        Client(Random(), folder=tmp_path, limit="7/2") as one,
        Client(Other(), folder=tmp_path, limit="7/2") as other,
    ):
        other.report({})
        one.report({}, round="1")
        with pytest.raises(sf.LedgerError, match=r"costs E = 0\.5, .* spent E = 3\.5 .* E = 3\.5"):
            one.report({}, round="2")
        assert one.spent().left == 0
        assert one.spent().total == Fraction(7, 2)


def test_no_limit_covers_an_unbounded_study_or_what_comes_after_one(tmp_path: Path) -> None:
    limited = Client(Unbounded(), folder=tmp_path, limit=1e6)
    with limited, pytest.raises(sf.LedgerError, match="is unbounded"):
        limited.report({})
    with Client(Unbounded(), folder=tmp_path) as client:
        client.report({})
    after = Client(Random(), folder=tmp_path, limit=1e6)
    with after, pytest.raises(sf.LedgerError, match="spent an unbounded E"):
        after.report({})


@pytest.mark.parametrize("limit", [0, -1, math.inf, "much", True])
def test_a_limit_is_a_positive_number(limit: float, tmp_path: Path) -> None:
    with pytest.raises(sf.StudyError, match="limit"):
        Client(Random(), folder=tmp_path, limit=limit)


def test_names_cannot_take_over_a_terminal() -> None:
    assert "\x1b" not in str(Spent((Account("a\x1b[31m", "00", 1, Fraction(1)),)))
