"""The poisoning check of a tally, as the worker makes it."""

from __future__ import annotations

import json

from sfumato.auditing.poisoning import check
from sfumato.service.worker import Holding, Written

#: The check, as the log of questions shows it.
ASKED = {"check": True}


def checked(held: Holding) -> Written:
    """Whether any population explains the reports of a tally, as JSON.

    Args:
        held: The tally.
    """
    return Written(json.dumps(check(held.tally).to_dict(), allow_nan=False).encode())
