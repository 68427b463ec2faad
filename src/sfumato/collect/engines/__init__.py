"""Engines: tallies of files, and encoded files, by threads of this process, on Dask or on Spark.

Parts of files become partial tallies wherever they are read, and merge.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
