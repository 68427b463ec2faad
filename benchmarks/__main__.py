"""Run the measurements named on the command line, or all."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pyarrow as pa

from benchmarks import (
    accumulating,
    allocation,
    answers,
    attributes,
    channels,
    choice,
    collector,
    context,
    decoding,
    devices,
    encoding,
    engines,
    error,
    files,
    growth,
    large,
    leaves,
    many,
    metrics,
    optional,
    peers,
    places,
    plain,
    poisoning,
    ranges,
    room,
    scale,
    searched,
    shapes,
    sizing,
    stored,
    streams,
    structure,
    sweeps,
    tables,
    window,
    wire,
)
from benchmarks.recording import Measurement, write

MEASUREMENTS: dict[str, Callable[[], Measurement]] = {
    "encoding": encoding.measure,
    "devices": devices.measure,
    "wire": wire.measure,
    "collector": collector.measure,
    "stored": stored.measure,
    "accumulating": accumulating.measure,
    "files": files.measure,
    "engines": engines.measure,
    "streams": streams.measure,
    "ranges": ranges.measure,
    "many": many.measure,
    "tables": tables.measure,
    "error": error.measure,
    "window": window.measure,
    "choice": choice.measure,
    "metrics": metrics.measure,
    "poisoning": poisoning.measure,
    "decoding": decoding.measure,
    "plain": plain.measure,
    "shapes": shapes.measure,
    "room": room.measure,
    "channels": channels.measure,
    "people": channels.measure_people,
    "answers": answers.measure,
    "attributes": attributes.measure,
    "growth": growth.measure,
    "large": large.measure,
    "leaves": leaves.measure,
    "allocation": allocation.measure,
    "optional": optional.measure,
    "searched": searched.measure,
    "scale": scale.measure,
    "sweeps": sweeps.measure,
    "sizing": sizing.measure,
    "peers": peers.measure,  # last, as they fetch the others and so can fail
    "places": places.measure,
    "context": context.measure,
    "structure": structure.measure,
}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASUREMENTS)}")
    names = parser.parse_args().names or list(MEASUREMENTS)
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"there is no measurement {unknown[0]!r}; choose {', '.join(MEASUREMENTS)}")
    pa.set_cpu_count(1)
    for name in names:
        found = MEASUREMENTS[name]()
        print(f"\n{name}: {found.title}\n")
        print(found.table())
        print(f"\nwritten to {write(name, found)}")


if __name__ == "__main__":
    main()
