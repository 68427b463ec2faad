"""Places on a map: a grid of cells, ways to protect them, and answers laid out again."""

from __future__ import annotations

from sfumato.geography.grid import Grid

__all__ = ["Grid"]
