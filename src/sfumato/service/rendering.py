"""Answers as they leave the collector: as JSON, as a table in CSV or Arrow, or as GeoJSON."""

from __future__ import annotations

import io
import json
from typing import Literal

from sfumato.estimation.answers import Answers
from sfumato.geography.place_map import PlaceMap
from sfumato.service.asking import Asked
from sfumato.service.worker import Holding, Written

#: How an answer is written: JSON, a table with one row per number, or cells of a map.
Form = Literal["json", "csv", "arrow", "geojson"]
FORMS = ("json", "csv", "arrow", "geojson")
_ENDS = ("value", "low", "high")


def answered(held: Holding, asked: Asked, form: Form) -> Written:
    """Answer a question from a tally: the work of the worker.

    Args:
        held: The tally.
        asked: The question.
        form: How to write the answer.
    """
    found = asked.put(held.estimate(asked.method, asked.seconds))
    if form == "json":
        return Written(json.dumps(found.to_dict()).encode(), found.method)
    if form == "geojson":
        places = PlaceMap.of(held.study, found)
        return Written(json.dumps(places.to_geojson(found)).encode(), found.method)
    import pyarrow as pa
    from pyarrow import csv

    if isinstance(found, Answers):
        table = found.to_arrow()
    else:
        row = {name: value for name, value in found.to_dict().items() if name != "notes"}
        words = row.pop("written", ())  # of dates and times
        row |= {f"{name}_written": word for name, word in zip(_ENDS, words, strict=False)}
        table = pa.Table.from_pylist([row])
    if form == "csv":
        out = io.BytesIO()
        csv.write_csv(table, out)
        return Written(out.getvalue(), found.method)
    said = {
        "study": held.study.fingerprint,
        "tally": held.version,
        "reports": held.tally.n,
        "method": found.method,
        "level": found.level,
        "notes": list(found.notes),
        "question": asked.given,
    }
    table = table.replace_schema_metadata({"sfumato": json.dumps(said)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Written(sink.getvalue().to_pybytes(), found.method)
