"""Error bounds in the local model: the theorems of the papers as functions, corrected where needed.

A function named after a theorem has its printed expression, and is refused where that does not
hold. Those of the central model are in `sfumato.central.accuracy`.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
