"""sfumato: private counting. Near values melt together, far ones stay apart, the picture is sharp.

Start with `Study`; everything else follows from it.
"""

from __future__ import annotations

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
