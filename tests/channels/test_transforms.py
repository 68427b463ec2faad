"""Fast sums over hashes: additions and waves give the same, and waves take less time."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.channels import transforms


@pytest.mark.parametrize(("g", "digits"), [(5, 5), (7, 4), (13, 3), (37, 2), (61, 2)])
@pytest.mark.parametrize("sign", [1, -1])
def test_waves_are_the_sums(
    g: int, digits: int, sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers, so that one way is exact; the other is to a few bits of the largest sum."""
    table = np.random.default_rng(g).integers(-9, 9, (2, g, g**digits)).astype(float)
    assert g * g**digits >= transforms._FEWEST_ENTRIES
    fast = transforms.digit_products(table, g, sign=sign)
    monkeypatch.setattr(transforms, "_FEWEST_ENTRIES", table.size + 1)
    exact = transforms.digit_products(table, g, sign=sign)
    assert np.array_equal(exact, np.rint(exact))
    assert not np.array_equal(fast, exact), "the two are not the same code"
    assert np.abs(fast - exact).max() <= 64 * np.finfo(float).eps * np.abs(table).sum(axis=-1).max()


def test_waves_turn_the_other_way_with_the_other_sign() -> None:
    table = np.random.default_rng(1).random((5, 5**4))
    both = [transforms.digit_products(table, 5, sign=sign) for sign in (1, -1)]
    assert not np.allclose(*both)
