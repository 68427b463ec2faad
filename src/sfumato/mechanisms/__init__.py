"""Mechanisms perturb whole records: by a channel an axis, or by one channel for all together."""

from __future__ import annotations

from sfumato.mechanisms.joint import Joint
from sfumato.mechanisms.product import Product

__all__ = ["Joint", "Product"]
