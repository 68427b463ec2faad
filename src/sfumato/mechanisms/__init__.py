"""Mechanisms perturb whole records: so far the product of independent channels."""

from __future__ import annotations

from sfumato.mechanisms.product import Product

__all__ = ["Product"]
