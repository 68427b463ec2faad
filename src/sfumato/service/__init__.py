"""The collector: a durable service that takes reports, tallies them and answers questions.

**The path of a report.** `receiving` checks the body of an upload against the study's layout and
turns it into rows of id and report. `writer` gathers all rows that wait, shuffles them, and commits
them as one segment per study and day of expiry; only then are the uploads answered with 202.
`tallying` takes whole segments out of the store, drops the rows whose ids were counted before, adds
the rest to the study's tally and deletes the segments, all in one transaction. Ids are kept apart
from reports, until the day on which their batch expires; then they are deleted. `answering` reads
the tally, and enters every question in the log before its answer leaves.

**What is stored.** Tables, the same in SQLite and PostgreSQL (`stores/tables.py`):

- `facts`: the version of the tables, the day before which ids have been deleted, and when the
  last backup was made;
- `studies`: each study's file, device program, explanation and audit, which never change, and the
  version of its tally;
- `segments`: reports that wait to be tallied, with their ids, shuffled;
- `ids`: the ids that have been counted, and until which day to keep them;
- `tallies`: the parts of each study's tally, whose sizes grow so that few are rewritten;
- `counters`: how many reports were accepted, repeated or refused, by reason;
- `quarantine`: damaged batches, a bounded number, for some days;
- `tokens`: the hashes of tokens, and what each allows;
- `questions`: the log of every answered question, each entry sealed with a digest of the last.

No address, no header and no time of an uploader is in any of them, except for the day on which a
batch expires and the day on which a damaged batch came.

**The path of a question.** `asking` reads it strictly. `answering` lets it wait for its turn, looks
for an answer that was given before, and sends it with the new parts of the tally to `worker`, a
process of its own, which `rendering` has write the answer. `jobs` are questions that take long.
`connecting` asks from Python; `openapi` describes all routes.

**Modules.** `refusals` (errors with a status and a stable code), `stores` (the tables and both
databases), `published` (a study as the collector serves it), `receiving`, `writer`, `tallying`,
`answering`, `tokens`, `limits` (requests per address), `rates`, `backups`, `collector` (all of
these together, without HTTP), `status` (what administrators see of it), `routes` (a table of them),
`app` (what all routes do), `studies`, `questions` and `operations` (what each does), `http` (what
these share), `pages` and `designing` (pages for people, and what one of them asks), `server`
(uvicorn). Only those from `app` on need the extra `server`, and only PostgreSQL needs psycopg.
"""
