"""An object store to test against: a server on this machine that speaks S3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
from moto.server import ThreadedMotoServer

from sfumato.collect import stores


class Store:
    """A bucket that files are put into."""

    def __init__(self, client: Any, environment: dict[str, str]) -> None:
        self.client, self.environment = client, environment
        client.create_bucket(Bucket="bucket")

    def put(self, path: Path, key: str) -> str:
        self.client.upload_file(str(path), "bucket", key)
        return f"s3://bucket/{key}"

    def keys(self, start: str) -> list[str]:
        held = self.client.list_objects_v2(Bucket="bucket", Prefix=start).get("Contents", [])
        return [entry["Key"].removeprefix(start) for entry in held]


@contextmanager
def serving() -> Iterator[Store]:
    """A store with an empty bucket, which the environment names."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    stores._store.cache_clear()
    with mock.patch.dict(os.environ, environment):
        yield Store(boto3.client("s3"), environment)
    stores._store.cache_clear()
    server.stop()
