"""sfumato: private counting. Near values melt together, far ones stay apart, the picture is sharp.

Start with `Study`; everything else follows from it.
"""

from __future__ import annotations

from sfumato.extras import public_names

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
