"""Measurements of speed and error: ``python -m benchmarks [NAME...]``.

Each prints a table and writes results/bench/NAME.json. Everything runs on one core, side by side in
one run, so that ratios mean something on any machine.
"""

from __future__ import annotations

import os

# Before NumPy is loaded: its libraries read these once.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[_name] = "1"
