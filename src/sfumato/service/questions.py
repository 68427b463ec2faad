"""The routes about questions: asking, answers that take long, and the log."""

from __future__ import annotations

import asyncio
import json
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sfumato.checks import one_of
from sfumato.errors import QuestionError
from sfumato.files import read_json
from sfumato.service.answering import log
from sfumato.service.asking import read_question
from sfumato.service.checking import ASKED, checked
from sfumato.service.collector import Collector
from sfumato.service.http import find_study, number_of, read_body
from sfumato.service.jobs import Answered, Job
from sfumato.service.refusals import RefusedError
from sfumato.service.rendering import FORMS, answered
from sfumato.service.tokens import Token

_MOST_QUESTION = 1 << 16  # bytes of a question
_WAIT, _MOST_WAIT = 10.0, 60.0  # seconds until an answer is to be fetched later
#: How answers are written, by their media types.
MEDIA = {
    "application/json": "json",
    "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/geo+json": "geojson",
}
_TYPES = {form: kind for kind, form in MEDIA.items()} | {"csv": "text/csv; charset=utf-8"}


class Questions:
    """Routes about questions.

    Args:
        collector: The collector.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def ask(self, request: Request, who: Token | None) -> Response:
        """Answer a question, or say where its answer will be."""
        study = await find_study(self._collector, request)
        wait, form = number_of(request, "wait", _WAIT, _MOST_WAIT), _form(request)
        longer = RefusedError(413, "size", f"a question may have at most {_MOST_QUESTION:,} bytes")
        try:
            given = read_json(await read_body(self._collector, request, _MOST_QUESTION, longer))
        except ValueError:
            raise RefusedError(400, "json", "a question must be JSON") from None
        asked = read_question(given)
        assert who is not None  # noqa: S101 - the route takes tokens only
        put = partial(self._collector.answering.put, study, who, asked.given)
        job = await run_in_threadpool(put, (answered, (asked, form)), form)
        return await self.outcome(job, wait)

    async def check(self, request: Request, who: Token | None) -> Response:
        """Say whether any population explains the reports, or where that will be."""
        study = await find_study(self._collector, request)
        wait = number_of(request, "wait", _WAIT, _MOST_WAIT)
        assert who is not None  # noqa: S101 - the route takes tokens only
        put = partial(self._collector.answering.put, study, who, ASKED)
        return await self.outcome(await run_in_threadpool(put, (checked, ())), wait)

    async def outcome(self, job: Job, wait: float) -> Response:
        """What became of a question, or where its answer will be.

        Args:
            job: The question.
            wait: For how many seconds to wait for its answer.
        """
        future = asyncio.wrap_future(job.future)
        await asyncio.wait({future}, timeout=wait)
        if not future.done():
            self._collector.answering.jobs.add(job)
            return JSONResponse(
                {"job": job.id, "progress": job.progress},
                202,
                {"Location": f"/v1/jobs/{job.id}", "Retry-After": "1"},
            )
        found = future.result()
        if isinstance(found, RefusedError):
            raise found
        return _response(found, job.form)

    async def job(self, request: Request, who: Token | None) -> Response:
        """Give an answer that took long, or say how far it is."""
        assert who is not None  # noqa: S101 - the route takes tokens only
        job = self._collector.answering.jobs.find(request.path_params["job"], who)
        return await self.outcome(job, number_of(request, "wait", 0.0, _MOST_WAIT))

    async def cancel(self, request: Request, who: Token | None) -> Response:
        """End a question that takes long."""
        assert who is not None  # noqa: S101 - the route takes tokens only
        jobs = self._collector.answering.jobs
        jobs.cancel(jobs.find(request.path_params["job"], who))
        return Response(status_code=204)

    async def questions(self, request: Request, who: Token | None) -> Response:
        """Give the log of answered questions."""
        try:
            after = int(request.query_params.get("after", "0"))
        except ValueError:
            after = -1
        if not 0 <= after < 1 << 53:
            raise RefusedError(400, "after", "after must be the number of an entry")
        entries = await run_in_threadpool(lambda: list(log(self._collector.store, after)))
        lines = "".join(json.dumps(entry) + "\n" for entry in entries)
        return Response(lines, media_type="application/jsonl")


def _form(request: Request) -> str:
    """How an answer is to be written: as the address says, or else the header `Accept`."""
    named = request.query_params.get("format")
    if named is not None:
        try:
            return one_of(named, "format", FORMS, error=QuestionError)
        except QuestionError as error:
            raise RefusedError(400, "format", str(error)) from None
    accepted = request.headers.get("accept", "").split(",")
    kinds = (part.partition(";")[0].strip().lower() for part in accepted)
    return next((MEDIA[kind] for kind in kinds if kind in MEDIA), "json")


def _response(found: Answered, form: str) -> Response:
    """An answer as it leaves."""
    if form == "json":
        return Response(found.to_json(), media_type=_TYPES[form])
    headers = {
        "Sfumato-Tally": str(found.version),
        "Sfumato-Reports": str(found.reports),
        "Sfumato-Entry": str(found.entry),
        "Sfumato-Method": found.written.method,
    }
    return Response(found.written.data, media_type=_TYPES[form], headers=headers)
