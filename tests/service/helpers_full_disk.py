"""A collector on a disk that is really full: a small tmpfs in a mount namespace of its own.

`unshare --map-root-user --mount python helpers_full_disk.py FOLDER` prints what was answered.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers_service import TODAY, Clock, TestClient, ages, batch

from sfumato.device.wire import MEDIA_TYPE
from sfumato.service import tokens
from sfumato.service.app import Service
from sfumato.service.collector import Collector, Settings, open_store

SIZE, RESERVE = 8 << 20, 2 << 20
MOST_BATCHES = 400


def main(folder: Path) -> dict[str, Any]:
    """Fill the disk with uploads, then wholly, then make room."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    collector = Collector(
        open_store(folder), Settings(tally_seconds=3_600, rate=0, reserve=RESERVE), Clock()
    )
    study, _ = collector.publish(ages().to_toml(), minimum=1)
    token = tokens.create(collector.store, "Ann", "analyst", TODAY)
    base = f"/v1/studies/{study.fingerprint}"
    found: dict[str, Any] = {}
    with TestClient(Service(collector).app()) as http:

        def upload(count: int) -> Any:
            data = batch([k % 100 for k in range(count)], study=ages())
            headers = {"Content-Type": MEDIA_TYPE}
            return http.post(f"{base}/reports", content=data, headers=headers)

        def ask(many: int) -> list[int]:
            headers = {"Authorization": f"Bearer {token}"}
            asked = [f"age={k % 100}" for k in range(many)]
            return [
                http.post(f"{base}/ask?wait=60", json={"count": one}, headers=headers).status_code
                for one in asked
            ]

        accepted = 0
        for _ in range(MOST_BATCHES):
            answer = upload(5_000)
            if answer.status_code != 202:
                break
            accepted += answer.json()["accepted"]
        found["uploads"] = [
            answer.status_code,
            answer.json()["code"],
            "Retry-After" in answer.headers,
        ]
        found["accepted"] = accepted
        found["answers of a disk that is full but for the reserve"] = ask(5)
        with (folder / "filler").open("wb", buffering=0) as filler:
            while True:  # until the system says that there is no room
                try:
                    filler.write(bytes(4_096))
                except OSError:
                    break
        found["free"] = collector.store.free_bytes()
        found["uploads to a disk that is full"] = [upload(5_000).status_code for _ in range(3)]
        found["answers of a disk that is full"] = ask(5)
        found["health"] = http.get("/health").status_code
        (folder / "filler").unlink()
        found["after that"] = [ask(1)[0], http.get("/ready").status_code]
        found["counted"] = collector.counts(study)["reports"]
        remount = ["mount", "-o", f"remount,size={8 * SIZE}", str(folder)]
        subprocess.run(remount, check=True)
        collector.tally()
        found["counted with room"] = collector.counts(study)["reports"]
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
