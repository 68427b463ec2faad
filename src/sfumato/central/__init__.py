"""The central model: releases from a table that a trusted curator holds, under the same E.

A study says what is protected; a `Ledger` says how much of its E may be spent in all; a mechanism
such as `Laplace` answers questions, and `release` makes sure of the order: everything is checked
and the cost is entered before the data are touched.
"""

from __future__ import annotations

from sfumato.extras import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
