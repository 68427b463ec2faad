"""Random sequences of all that can happen to a collector, against a model: a dict of ids."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from helpers_service import DAY, QUICK, Clock, batch, counted, fresh_ids, pairs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sfumato.auditing.audit import audit
from sfumato.device.wire import WireError
from sfumato.service import published
from sfumato.service.backups import back_up, restore
from sfumato.service.collector import Collector, open_store
from sfumato.service.refusals import RefusedError
from sfumato.service.stores.sqlite import FILE

_AUDIT = cache(audit)
_NUMBERS = itertools.count()


class Model:
    """What must be true of a collector.

    Attributes:
        counted: The number of each report that was accepted, by its id.
        kept: Until which day each id is kept.
        first_day: Batches that expire before are refused.
        published: Whether the study is there.
    """

    def __init__(self) -> None:
        self.counted: Counter[int] = Counter()
        self.kept: dict[bytes, int] = {}
        self.first_day = 0  # nothing has been deleted
        self.published = False

    def copy(self) -> Model:
        made = Model()
        made.counted, made.kept = Counter(self.counted), dict(self.kept)
        made.first_day, made.published = self.first_day, self.published
        return made

    def upload(self, cells: list[int], ids: list[bytes], expires: int) -> None:
        for cell, one in zip(cells, ids, strict=True):
            if one not in self.kept:
                self.counted[cell] += 1
            self.kept[one] = max(expires, self.kept.get(one, 0))


class States(RuleBasedStateMachine):
    """A collector in a folder, which is stopped, killed, backed up and restored."""

    def __init__(self) -> None:
        super().__init__()
        published.audit, self.before = _AUDIT, published.audit  # type: ignore[assignment]
        self.top = Path(tempfile.mkdtemp(prefix="sfumato-states-"))
        self.clock, self.model = Clock(), Model()
        self.sent: list[tuple[list[int], list[bytes], int]] = []
        self.backups: list[tuple[Path, Model]] = []
        self.folder = self.new_folder()
        self.start()

    def teardown(self) -> None:
        try:
            self.tally_and_compare()
        finally:
            self.made.stop()
        published.audit = self.before
        shutil.rmtree(self.top)

    def new_folder(self) -> Path:
        return self.top / f"{next(_NUMBERS)}"

    def start(self) -> None:
        self.made = Collector(open_store(self.folder), QUICK, self.clock)

    @property
    def today(self) -> int:
        return int(self.clock.now // DAY)

    def attempt(self, cells: list[int], ids: list[bytes], expires: int) -> None:
        """Upload, and compare the answer with the model's."""
        data = batch(cells, ids, expires=expires)
        if not self.model.published:
            with pytest.raises(RefusedError, match="no study"):
                self.made.upload(pairs().fingerprint, data)
        elif expires < max(self.today, self.model.first_day):
            with pytest.raises(RefusedError, match="expired"):
                self.made.upload(pairs().fingerprint, data)
        else:
            outcome = self.made.upload(pairs().fingerprint, data)
            assert outcome.accepted + outcome.repeated == len(cells)
            new = sum(one not in self.model.kept for one in ids)
            assert outcome.accepted >= new  # it may have forgotten what it stored long ago
            self.model.upload(cells, ids, expires)
            self.sent.append((cells, ids, expires))

    @initialize()
    def publish_first(self) -> None:
        self.publish()

    def publish(self) -> None:
        assert self.made.publish(pairs().to_toml(), minimum=1)[1] != self.model.published
        self.model.published = True

    @rule(cells=st.lists(st.integers(0, 4095), min_size=1, max_size=4), days=st.integers(-1, 4))
    def upload(self, cells: list[int], days: int) -> None:
        self.attempt(cells, list(fresh_ids(len(cells))), self.today + days)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), days=st.sampled_from([0, 0, 0, 1, 3]))
    def retry(self, data: st.DataObject, days: int) -> None:
        cells, ids, expires = data.draw(st.sampled_from(self.sent))
        self.attempt(cells, ids, expires + days)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), cell=st.integers(0, 4095))
    def send_some_again_with_others(self, data: st.DataObject, cell: int) -> None:
        cells, ids, expires = data.draw(st.sampled_from(self.sent))
        self.attempt([*cells[:1], cell], [*ids[:1], *fresh_ids(1)], expires)

    @rule(cut=st.integers(0, 60))
    def damaged(self, cut: int) -> None:
        with pytest.raises((WireError, RefusedError)):
            self.made.upload(pairs().fingerprint, batch([1])[:cut])

    @rule()
    def tally(self) -> None:
        self.made.tally()

    @rule(hours=st.sampled_from([1, 12, 24, 60]))
    def time_passes(self, hours: int) -> None:
        self.clock.now += hours * 3_600

    @rule(hours=st.sampled_from([1, 30]))
    def the_clock_goes_back(self, hours: int) -> None:
        self.clock.now -= hours * 3_600

    @rule()
    def purge(self) -> None:
        self.made.purge()
        day = int((self.clock.now - 3_600) // DAY)
        self.model.first_day = max(self.model.first_day, day)
        for one in [one for one, kept in self.model.kept.items() if kept < self.model.first_day]:
            del self.model.kept[one]

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), days=st.integers(0, 3))
    def retry_late(self, data: st.DataObject, days: int) -> None:
        """What often goes wrong: a retry that is not known to be one, around its last day."""
        cells, ids, expires = data.draw(st.sampled_from(self.sent))
        if data.draw(st.booleans()):
            self.made.tally()
        self.restart()
        self.attempt(cells, ids, expires + days)
        self.clock.now += DAY * data.draw(st.integers(0, 5))
        self.purge()
        self.clock.now -= DAY * data.draw(st.integers(0, 3))
        self.attempt(cells, ids, expires + days)

    @rule()
    def restart(self) -> None:
        self.made.stop()
        self.start()

    @rule()
    def crash(self) -> None:
        """Go on with the files as they are on the disk at this moment."""
        folder = self.new_folder()
        folder.mkdir()
        for name in (FILE, f"{FILE}-wal"):
            if (self.folder / name).exists():
                shutil.copyfile(self.folder / name, folder / name)
        self.made.stop()
        self.folder = folder
        self.start()

    @precondition(lambda self: self.model.published)
    @rule()
    def delete(self) -> None:
        self.made.delete(self.made.find(pairs().fingerprint))
        self.model.counted.clear()
        self.model.kept.clear()
        self.model.published = False
        self.attempt([1], list(fresh_ids(1)), self.today)
        self.publish()

    @rule()
    def back_up(self) -> None:
        file = self.top / f"{next(_NUMBERS)}.sqlite"
        back_up(self.made.store, file)
        self.backups.append((file, self.model.copy()))

    @precondition(lambda self: self.backups)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        file, model = data.draw(st.sampled_from(self.backups))
        self.made.stop()
        self.folder, self.model = self.new_folder(), model.copy()
        store = open_store(self.folder)
        restore(store, file)
        store.close()
        self.start()

    @invariant()
    def all_that_was_acknowledged_is_there(self) -> None:
        with self.made.store.look() as run:
            ((waiting,),) = run("SELECT coalesce(sum(reports), 0) FROM segments")
        if not waiting:
            self.compare()

    def compare(self) -> None:
        """Compare the tally with the model's."""
        if self.model.published:
            found = counted(self.made, self.made.find(pairs().fingerprint))
            assert found == dict(self.model.counted)

    @rule()
    def tally_and_compare(self) -> None:
        self.made.tally()
        self.compare()
        with self.made.store.look() as run:
            kept = {bytes(one): day for one, day in run("SELECT id, expires FROM ids")}
        assert kept == self.model.kept


@pytest.mark.slow
class TestStates(States.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


@pytest.mark.soak
class TestMoreStates(States.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
