"""Other libraries' frequency oracles, timed inside an environment of their own.

`benchmarks.peers` starts this file with the interpreter of that environment, so it imports nothing
of ours. It answers every JSON line with one of its own: the first, ``{"library": NAME}``,
with what is installed; every other with the processor time from values to an estimated histogram.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

Work = Callable[[list[int]], Any]
FEW_HASHES = 1024  # hash functions that FastLH shares among all people


def pure_ldp(method: str, size: int, epsilon: float) -> Work:
    """A client and a server of pure-ldp, made in advance; it takes one person at a time.

    Args:
        method: The frequency oracle.
        size: How many cells.
        epsilon: ε between any two cells.
    """
    import pure_ldp.frequency_oracles as fo

    own: dict[str, Any] = {"index_mapper": lambda cell: cell}
    if method == "UE":
        own["use_oue"] = True
        client, server = fo.UEClient(epsilon, size, **own), fo.UEServer(epsilon, size, **own)
    elif method == "HadamardMech":
        own["t"] = 1  # one coefficient a person
        client = fo.HadamardMechClient(epsilon, size, **own)
        server = fo.HadamardMechServer(epsilon, size, **own)
    elif method == "HadamardResponse":
        server = fo.HadamardResponseServer(epsilon, size, **own)
        client = fo.HadamardResponseClient(epsilon, size, server.get_hash_funcs(), **own)
    elif method == "LH":
        own["use_olh"] = True
        client, server = fo.LHClient(epsilon, size, **own), fo.LHServer(epsilon, size, **own)
    else:
        own |= {"use_olh": True, "k": FEW_HASHES}
        client = fo.FastLHClient(epsilon, size, **own)
        server = fo.FastLHServer(epsilon, size, **own)

    def work(cells: list[int]) -> Any:
        for cell in cells:
            server.aggregate(client.privatise(cell))
        return server.estimate_all(range(size), suppress_warnings=True)

    return work


def multi_freq_ldpy(method: str, size: int, epsilon: float) -> Work:
    """The client of multi-freq-ldpy for each person, and its aggregator, as shares of people.

    Args:
        method: The frequency oracle.
        size: How many cells.
        epsilon: ε between any two cells.
    """
    from multi_freq_ldpy.pure_frequency_oracles import LH, UE

    def unary(cells: list[int]) -> Any:
        reports = [UE.UE_Client(cell, size, epsilon, True) for cell in cells]
        return len(cells) * UE.UE_Aggregator_MI(reports, epsilon, True)

    def hashing(cells: list[int]) -> Any:
        reports = [LH.LH_Client(cell, size, epsilon, True) for cell in cells]
        return len(cells) * LH.LH_Aggregator_MI(reports, size, epsilon, True)

    return unary if method == "UE" else hashing


LIBRARIES = {"pure-ldp": pure_ldp, "multi-freq-ldpy": multi_freq_ldpy}


def main() -> None:
    """Answer until the other side closes."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    warnings.simplefilter("ignore")
    library = json.loads(sys.stdin.readline())["library"]
    names = (library, "numpy", "xxhash")
    print(json.dumps({name: version(name) for name in names}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        work = LIBRARIES[library](asked["method"], asked["size"], asked["epsilon"])
        start = time.process_time()
        counts = work(asked["cells"])
        found = {"seconds": time.process_time() - start, "counts": [float(n) for n in counts]}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
