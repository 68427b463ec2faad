"""From reports to tallies: what a collector holds."""

from sfumato.collect import engines as engines
