"""Requests made from the OpenAPI document, sent to the real server in a process of its own."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import schemathesis
from helpers_openapi import DOCUMENT, check, validator
from helpers_service import DAY, TODAY, ages, batch, bits
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from schemathesis import GenerationMode
from test_fuzz_service import damaged

from sfumato.device.wire import MEDIA_TYPE
from sfumato.service import openapi, tokens
from sfumato.service.collector import Collector, Settings, open_store

PEOPLE = 500
QUESTION = json.dumps(openapi.ref("Question"))
#: How many requests of 1,000 each route gets; those that take nothing need few, new ones get some.
SHARES = {
    "ask": 450,
    "upload": 150,
    "publish": 60,
    "job": 40,
    "cancel": 30,
    "questions": 20,
    **dict.fromkeys(("studies", "openapi", "health", "ready", "metrics", "client", "status"), 10),
}
_OTHERS = 20
_ROLES = ("admin", "analyst", "uploader", "revoked", None)

_LISTENING = re.compile(r"^Listening on (http://\S+:\d+).*\n", re.MULTILINE)
_DAY = int(time.time() // DAY) + 30
_BATCHES = [batch([1, 2, 3], study=ages(), expires=_DAY) for _ in range(5)]
_STUDIES = [study.to_toml().encode() for study in (ages(), bits())]
schemathesis.openapi.media_type(MEDIA_TYPE, st.sampled_from(_BATCHES) | damaged(_BATCHES[0]))
schemathesis.openapi.media_type(
    "application/toml",
    st.sampled_from(_STUDIES)
    | st.text(max_size=30).map(lambda text: _STUDIES[0] + text.encode("utf-8", "replace")),
)


@schemathesis.serializer(MEDIA_TYPE, "application/toml")
def _plain(context: Any, value: Any) -> bytes:
    """A body of bytes as it is."""
    return value if isinstance(value, bytes) else repr(value).encode()


class Served:
    """A server, with a study that has reports and a token for each role.

    Args:
        folder: Where its store is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = open_store(folder)
        with Collector(store, Settings(tally_seconds=3_600, reserve=0)) as made:
            study, _ = made.publish(ages().to_toml(), minimum=3)
            cells = [place % 100 for place in range(PEOPLE)]
            expires = made.today() + 30
            made.upload(study.fingerprint, batch(cells, study=ages(), expires=expires))
            self.fingerprint = study.fingerprint
            self.tokens = {
                role: tokens.create(store, f"the {role}", role, TODAY) for role in tokens.ROLES
            }
            self.tokens["revoked"] = tokens.create(store, "Bob", "admin", TODAY)
            tokens.revoke(store, "Bob", TODAY)
        self.answered: Counter[tuple[str, int]] = Counter()
        self.url, self.pid = "", 0

    @contextmanager
    def running(self, *more: str) -> Iterator[None]:
        """Serve with some options; what the server writes goes into a file."""
        command = "from sfumato.cli import main; main()"
        options = ["serve", str(self.folder), "--port", "0", "--rate", "0", *more]
        with open(self.folder / "log", "wb") as log:
            server = subprocess.Popen(
                [sys.executable, "-c", command, *options], stdout=log, stderr=subprocess.STDOUT
            )
        with server:
            while (found := _LISTENING.search(self._written)) is None:
                assert server.poll() is None, self._written
                time.sleep(0.02)
            self.url, self.pid = found[1], server.pid
            try:
                yield
            finally:
                server.terminate()

    @property
    def log(self) -> str:
        """What the server wrote, except for its address."""
        return _LISTENING.sub("", self._written)

    @property
    def _written(self) -> str:
        """All that the server wrote."""
        return (self.folder / "log").read_text()

    def family(self) -> list[int]:
        """The numbers of the server's process and of those that it started; the worker is last."""
        found = [self.pid]
        for entry in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
            with contextlib.suppress(OSError):  # it has ended
                words = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                found += [entry] if int(words[1]) == self.pid else []
        return found

    def resident(self) -> int:
        """How many bytes of memory all of them have."""
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.family()]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")

    def fuzz(self, requests: int, seed: int) -> None:
        """Send requests of every route, and hold each answer against the document.

        Args:
            requests: How many at least.
            seed: Of what is sent.
        """
        documents = (
            (DOCUMENT, 0.2),
            (_likely(self.fingerprint, axes=False), 0.35),
            (_likely(self.fingerprint), 0.5),
        )
        with httpx.Client(timeout=90) as http:
            for held, share in documents:
                for found in schemathesis.openapi.from_dict(held).get_all_operations():
                    operation = found.ok()
                    name = operation.definition.raw["operationId"]
                    takes = operation.body or operation.query or operation.path_parameters
                    modes = [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if takes else [])]
                    many = math.ceil(
                        requests * share * SHARES.get(name, _OTHERS) / 1_000 / len(modes)
                    )
                    for mode in modes:
                        strategy = operation.as_strategy(generation_mode=mode)
                        self._each(http, name, strategy, many, seed)

    def _each(self, http: httpx.Client, name: str, strategy: Any, many: int, seed: int) -> None:
        """Send requests of one route."""

        @seeded(seed)
        @settings(
            max_examples=many,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(strategy, st.integers(0, 9))
        def one(case: Any, place: int) -> None:
            role = _ROLES[place] if place < len(_ROLES) else "admin"
            if name == "delete" and role == "admin":  # which would delete the study
                role = "analyst"
            self._send(http, name, case, role)

        one()

    def _send(self, http: httpx.Client, name: str, case: Any, role: str | None) -> None:
        """Send one request, and hold its answer against the document."""
        given = case.as_transport_kwargs(base_url=self.url)
        given["headers"].pop("Authorization", None)
        if role is not None:
            given["headers"]["Authorization"] = f"Bearer {self.tokens[role]}"
        if "data" in given:
            given["content"] = given.pop("data")
        given.pop("cookies", None)
        try:
            request = http.build_request(**given)
            found = http.send(request)
        except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError, TypeError, ValueError):
            return  # which no client can send
        self.answered[name, found.status_code] += 1
        check(found)
        assert found.status_code not in (500, 503), (given, found.text)
        if name == "ask" and not validator(QUESTION).is_valid(given.get("json")):
            while found.status_code == 202:  # it is refused later, where its answer would be
                later = f"{self.url}{found.headers['Location']}"
                told = {"Authorization": request.headers["Authorization"]}
                found = http.get(later, params={"wait": 60}, headers=told)
                check(found)
            assert found.status_code >= 400, (given, found.text)


def _likely(fingerprint: str, *, axes: bool = True) -> dict[str, Any]:
    """The document, with the study and perhaps the axes that there are, and no others."""
    found: dict[str, Any] = copy.deepcopy(json.loads(json.dumps(DOCUMENT)))
    axis = {
        "name": "age",
        "domain": {"kind": "integers", "low": 0, "high": 99},
        "protect": {"kind": "distance", "epsilon": 0.2},
    }
    likely: dict[str, list[Any]] = {
        "As a study file has them, without a channel.": [axis],
        openapi._AXIS["description"]: ["age"],
        openapi._CONDITION["description"]: ["age=18..30", "age=..9|70..", "", "age=30"],
    }

    def change(held: Any) -> Any:
        if isinstance(held, list):
            return [change(one) for one in held]
        if not isinstance(held, dict):
            return held
        if axes and held.get("description") in likely:
            return {"enum": likely[held["description"]]}
        return {name: change(one) for name, one in held.items()}

    found = change(found)
    for path in found["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "fingerprint":
                    parameter["schema"] = {"enum": [fingerprint]}
                if parameter["name"] == "wait":
                    parameter["schema"]["maximum"] = 1
    return found
