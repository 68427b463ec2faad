"""Error bounds in the local model: the theorems of the papers as functions, corrected where needed.

A function named after a theorem has its printed expression, and is refused where that does not
hold. Those of the central model are in `sfumato.central.accuracy`.
"""

from __future__ import annotations

from sfumato.extras import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
