"""Commands that run a collector: serve, token, backup, export."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from sfumato.cli import showing
from sfumato.cli.commands import CommandError
from sfumato.cli.options import AsJson, Force, load_study, real_number, target, whole_number
from sfumato.cli.settings import read_proxies, sources, use_settings
from sfumato.errors import near
from sfumato.service import exports, tokens
from sfumato.service.backups import back_up, restore
from sfumato.service.collector import Collector, Settings, open_store
from sfumato.service.published import MINIMUM
from sfumato.service.refusals import need_server
from sfumato.service.stores.base import Store
from sfumato.service.tallying import DAY

_TOKEN_ACTIONS = ("create", "list", "revoke")
_BACKUP_ACTIONS = ("create", "restore")
_EXPORTS = ("tally", "reports", "questions")

Place = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="FOLDER|URL",
        envvar="SFUMATO_STORE",
        help="The collector's folder, or its database: postgresql://...",
    ),
]


def serve(
    context: typer.Context,
    folder: Annotated[
        str | None, typer.Argument(metavar="[FOLDER]", help="Where reports are kept.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="SFUMATO_CONFIG",
            callback=use_settings,
            is_eager=True,
            help="Settings, .toml: a key for each option, such as most_reports = 5000. Options and "
            "the environment come before it.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|URL",
            envvar="SFUMATO_STORE",
            help="The same folder, or a database: postgresql://...",
        ),
    ] = None,
    publish: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="STUDY",
            envvar="SFUMATO_PUBLISH",
            help="Publish this study file, .toml; repeatable.",
        ),
    ] = None,
    minimum: Annotated[
        int,
        typer.Option(
            parser=whole_number,
            metavar="N",
            envvar="SFUMATO_MINIMUM",
            help="With --publish, how many reports there must be before any answer.",
        ),
    ] = MINIMUM,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", envvar="SFUMATO_HOST", help="Where to listen.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            parser=whole_number, metavar="N", envvar="SFUMATO_PORT", help="0 takes a free one."
        ),
    ] = 8000,
    proxy: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS,...",
            envvar="SFUMATO_PROXY",
            help="Who may say for whom it asks (X-Forwarded-For): addresses or networks.",
        ),
    ] = "127.0.0.1",
    upload_token: Annotated[
        bool,
        typer.Option(
            "--upload-token", envvar="SFUMATO_UPLOAD_TOKEN", help="Uploads need a token, too."
        ),
    ] = False,
    most_reports: Annotated[
        int,
        typer.Option(
            parser=whole_number,
            metavar="N",
            envvar="SFUMATO_MOST_REPORTS",
            help="The most reports of one batch.",
        ),
    ] = Settings().most_reports,
    rate: Annotated[
        float,
        typer.Option(
            parser=real_number,
            metavar="N",
            envvar="SFUMATO_RATE",
            help="The most requests per second from one address; 0 sets no limit.",
        ),
    ] = Settings().rate,
    access_log: Annotated[
        bool,
        typer.Option(
            "--access-log",
            envvar="SFUMATO_ACCESS_LOG",
            help="Log every request with the address it came from.",
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check all settings, publish, and stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a collector: take reports over HTTP, tally them and answer questions.

    Reports are kept in a SQLite file in a folder, which is made, or in a PostgreSQL database. Put a
    proxy with TLS before it. Ctrl-C stores what has come, and stops.
    """
    need_server()
    server = import_module("sfumato.service.server")
    place = folder or store
    if place is None:
        raise CommandError("name a folder to keep reports in, or a database with --store")
    given = sources(context)
    if folder is not None and given["store"] == "option":
        raise CommandError("name a folder, or a database with --store, not both")
    if not 0 <= port < 1 << 16:
        raise CommandError(f"--port must be a number from 0 to 65535, got {port}")
    proxies = read_proxies(proxy)
    settings = Settings(most_reports=most_reports, rate=rate, upload_token=upload_token)
    texts = [load_study(path).to_toml() for path in publish or []]
    listening = server.listen(host, port)
    with closing(listening):
        opened = open_store(place)
        collector = Collector(opened, settings)
        try:
            found = [collector.publish(text, minimum=minimum) for text in texts]
            used = {
                **{key: context.params[key] for key in given},
                "store": opened.name,
                "publish": [str(path) for path in publish or []],
            }
            if folder is not None:
                given["store"] = "option"

            def ready(url: str) -> None:
                """Say what is served, and where."""
                if as_json:
                    served = [study.to_dict() for study, _ in found]
                    told = {"url": url, "serves": not check, "studies": served, "settings": used}
                    showing.show_json(told)
                    return
                if check:
                    _show_settings(used, given)
                for study, new in found:
                    done = "Published" if new else "Serving"
                    showing.say(f"{done} study {study.study.name!r}: {study.fingerprint}")
                    showing.say(f"Digest for clients to pin: {study.digest}")
                said = "All is in order: it could listen" if check else "Listening"
                showing.say(f"{said} on {url}{'' if check else ' (Ctrl-C stops)'}.")

            if check:
                ready(server.address(listening))
            else:
                server.serve(
                    collector, listening, access_log=access_log, proxies=proxies, ready=ready
                )
        finally:
            collector.stop()


def _show_settings(used: Mapping[str, Any], given: Mapping[str, str]) -> None:
    """Print every setting and where it comes from."""
    made = showing.table("setting", "value", "from")
    for key, value in used.items():
        shown = ", ".join(value) if isinstance(value, list) else str(value)
        made.add_row(key, showing.literal(shown), given[key])
    showing.stdout().print(made)


def token(
    action: Annotated[
        str, typer.Argument(metavar="create|list|revoke", help="What to do with tokens.")
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="What the token is called.")
    ] = None,
    role: Annotated[
        str,
        typer.Option(
            metavar="ROLE",
            help="For create: admin (everything), analyst (questions and figures), uploader.",
        ),
    ] = "analyst",
    store: Place = "collector",
    as_json: AsJson = False,
) -> None:
    """Create a token for a collector, list its tokens, or revoke one.

    A token is shown once, when it is created: only its hash is kept. The log of questions shows its
    name.
    """
    _action(action, _TOKEN_ACTIONS, "token")
    if (name is None) != (action == "list"):
        raise CommandError(f"token {action} takes {'no' if action == 'list' else 'one'} name")
    today = int(time.time() // DAY)
    with _opened(store) as opened:
        if action == "list":
            found = tokens.every(opened)
            if as_json:
                showing.show_json({"tokens": [one.to_dict() for one in found]})
                return
            made = showing.table("name", "role", "created", "revoked")
            for one in found:
                made.add_row(
                    showing.literal(one.name), one.role, _date(one.day), _date(one.revoked)
                )
            showing.stdout().print(made)
            return
        assert name is not None  # noqa: S101 - it was checked above
        if action == "revoke":
            tokens.revoke(opened, name, today)
            if as_json:
                showing.show_json({"name": name, "revoked": today})
            else:
                showing.say(f"Revoked the token {name!r}.")
            return
        text = tokens.create(opened, name, cast("tokens.Role", role), today)
    if as_json:
        showing.show_json({"name": name, "role": role, "token": text})
        return
    showing.say(f"The token of {name!r} ({role}), shown this once:")
    typer.echo(text)


def backup(
    action: Annotated[str, typer.Argument(metavar="create|restore", help="Which way.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup, .sqlite.")],
    store: Place = "collector",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Back up a collector while it runs, or restore a backup into an empty one.

    A backup holds all that the collector has, also reports that wait, ids and the hashes of tokens:
    keep it as safe. Reports that came after it are not in it.
    """
    _action(action, _BACKUP_ACTIONS, "backup")
    with showing.progress("copying") as seen:
        if action == "create":
            target(file, "backup", ".sqlite", force=force)
            with _opened(store) as opened:
                rows = back_up(opened, file, replace=force, seen=lambda many: seen(many, 0))
        else:
            if not file.is_file():
                raise CommandError(f"there is no backup {str(file)!r}; name one that there is")
            with closing(open_store(store)) as opened:
                rows = restore(opened, file, seen=lambda many: seen(many, 0))
    if as_json:
        showing.show_json({"file": str(file), "rows": rows})
    elif action == "create":
        showing.say(f"Wrote {rows:,} rows into {file}.")
    else:
        showing.say(f"Restored {rows:,} rows from {file}.")


def export(
    what: Annotated[
        str, typer.Argument(metavar="tally|reports|questions", help="What to take out.")
    ],
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="[STUDY]", help="Study file, .toml, or the beginning of its fingerprint."
        ),
    ] = None,
    *,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to: .parquet, or .jsonl for questions.")
    ],
    store: Place = "collector",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Take the tally, the reports or the log of questions out of a collector.

    A tally is what 'sfumato ask' reads. Whoever has it can ask anything, so this is entered in the
    log of questions.
    """
    _action(what, _EXPORTS, "export")
    questions = what == "questions"
    target(out, what, ".jsonl" if questions else ".parquet", force=force)
    if (study is None) != questions:
        raise CommandError(f"export {what} takes {'no' if questions else 'one'} study")
    with _opened(store) as opened:
        if study is None:
            many = exports.export_questions(opened, out)
        else:
            wanted = load_study(Path(study)).fingerprint if study.endswith(".toml") else study
            found = exports.find(opened, wanted)
            many = exports.export(opened, found, cast("exports.What", what), out, time.time)
    if as_json:
        showing.show_json({"file": str(out), "entries" if questions else "reports": many})
        return
    noun = "questions" if questions else "reports"
    showing.say(f"Wrote {'the log of ' if questions else ''}{many:,} {noun} into {out}.")


def _action(action: str, known: tuple[str, ...], command: str) -> None:
    """Refuse what a command cannot do."""
    if action not in known:
        raise CommandError(f"{command} cannot {action!r}: {near(action, known)}")


@contextmanager
def _opened(place: str) -> Iterator[Store]:
    """The store of a collector, which must be there."""
    with closing(open_store(place, make=False)) as found:
        yield found


def _date(day: int | None) -> str:
    """A day as a date."""
    return "" if day is None else time.strftime("%Y-%m-%d", time.gmtime(day * DAY))
