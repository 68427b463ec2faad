"""A full disk: uploads are refused with 507, questions are answered, and room mends everything."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import helpers_full_disk
import pytest
from helpers_service import batch, collector, counted, pairs

from sfumato.service.collector import open_store
from sfumato.service.receiving import Outcome
from sfumato.service.refusals import RefusedError

#: Runs a command where it may mount a small disk that nobody else sees.
APART = ["unshare", "--map-root-user", "--mount"]


@pytest.mark.slow
def test_a_disk_that_is_really_full_refuses_uploads_and_answers_questions(tmp_path: Path) -> None:
    mounted = ["mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*APART, *mounted], capture_output=True).returncode
    ):
        pytest.skip("this system lets nobody mount a disk of their own")
    ran = subprocess.run(
        [*APART, sys.executable, helpers_full_disk.__file__, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    found = json.loads(ran.stdout)
    assert found["uploads"] == [507, "full", True]
    assert found["accepted"] > found["counted"] > 0  # tallying them all needs more than the reserve
    assert found["answers of a disk that is full but for the reserve"] == [200] * 5
    assert found["free"] == 0
    assert found["uploads to a disk that is full"] == [507] * 3
    assert found["answers of a disk that is full"] == [200] * 5
    assert found["health"] == 200
    assert found["after that"] == [200, 200]
    assert found["counted with room"] == found["accepted"]


@pytest.mark.slow
def test_a_database_whose_disk_is_full_is_told_from_a_broken_one(database: str) -> None:
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS sfumato CASCADE")
        with collector(open_store(database)) as made:
            study, _ = made.publish(pairs().to_toml())
            made.upload(study.fingerprint, batch([1]))
            # What PostgreSQL itself raises when a table cannot grow (SQLSTATE 53100).
            connection.execute(
                "CREATE FUNCTION sfumato.no_room() RETURNS trigger LANGUAGE plpgsql AS "
                "$$BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END$$"
            )
            connection.execute(
                "CREATE TRIGGER no_room BEFORE INSERT ON sfumato.segments "
                "EXECUTE FUNCTION sfumato.no_room()"
            )
            with pytest.raises(RefusedError, match="disk of the database") as refused:
                made.upload(study.fingerprint, batch([2]))
            assert (refused.value.status, refused.value.retry_after) == (507, 60)
            assert made.tally() == 1
            connection.execute("DROP TRIGGER no_room ON sfumato.segments")
            assert made.upload(study.fingerprint, batch([2])) == Outcome(1, 0, [])
            assert made.tally() == 1
            assert counted(made, study) == {1: 1, 2: 1}
