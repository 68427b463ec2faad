"""Many reports as bytes: the same as one report after the other, both ways."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import sfumato as sf
from sfumato.arrays import BitColumns, Layout, Outputs
from sfumato.collect import packing
from sfumato.device.wire import Batch, WireError
from sfumato.study.reports import Reports

COUNTS = [1, 2, 7, 100, 256, 257, 2**16, 2**31, 2**63]
LAYOUTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("symbols"), st.sampled_from([1, 2, 7, 100, 256, 257, 2**16, 2**31, 2**63])
        ),
        st.tuples(st.just("bits"), st.sampled_from([1, 7, 8, 9, 65])),
    ),
    min_size=1,
    max_size=4,
)


def drawn(layouts: list[Layout], count: int, seed: int) -> tuple[Reports, list[tuple[int, ...]]]:
    """Random reports, and their results one by one."""
    source = random.Random(seed)
    most = [held.count if held.kind == "symbols" else 1 << held.count for held in layouts]
    rows = [
        tuple(source.choice((0, n - 1, source.randrange(n))) for n in most) for _ in range(count)
    ]
    outputs: list[Outputs] = []
    for place, held in enumerate(layouts):
        column = [row[place] for row in rows]
        if held.kind == "symbols":
            outputs.append(np.array(column, dtype=np.min_scalar_type(held.count - 1)))
        else:
            bits = [[number >> k & 1 for k in range(held.count)] for number in column]
            matrix = np.array(bits, dtype=np.bool_).reshape(count, held.count)
            outputs.append(BitColumns.from_matrix(matrix))
    names = tuple(f"b{place}" for place in range(len(layouts)))
    return Reports("0" * 64, names, tuple(layouts), tuple(outputs)), rows


@given(blocks=LAYOUTS, count=st.sampled_from([0, 1, 5, 70]), seed=st.integers(0, 2**16))
def test_packing_many_is_packing_each(blocks: list[tuple[str, int]], count: int, seed: int) -> None:
    layouts = [Layout(kind, n) for kind, n in blocks]  # type: ignore[arg-type]
    reports, rows = drawn(layouts, count, seed)
    layout = packing.layout_of(layouts)
    packed = packing.pack(reports)
    assert [row.tobytes() for row in packed] == [layout.pack(row) for row in rows]
    again = packing.unpack(packed, "0" * 64, reports.names, reports.layouts)
    assert np.array_equal(packing.pack(again), packed)
    for one, other in zip(again.outputs, reports.outputs, strict=True):
        if isinstance(one, BitColumns) and isinstance(other, BitColumns):
            assert np.array_equal(one.to_matrix(), other.to_matrix())
        else:
            assert np.array_equal(one, other)  # type: ignore[arg-type]


def test_many_chunks_are_joined_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_AT_ONCE", 64)
    reports, rows = drawn([Layout("symbols", 100), Layout("bits", 9)], 200, 1)
    packed = packing.pack(reports)
    layout = packing.layout_of(reports.layouts)
    assert [row.tobytes() for row in packed] == [layout.pack(row) for row in rows]
    again = packing.unpack(packed, "0" * 64, reports.names, reports.layouts)
    assert np.array_equal(packing.pack(again), packed)


@given(data=st.data(), seed=st.integers(0, 2**16))
def test_any_bytes_are_refused_together_as_each_alone(data: st.DataObject, seed: int) -> None:
    blocks = data.draw(LAYOUTS)
    layouts = [Layout(kind, n) for kind, n in blocks]  # type: ignore[arg-type]
    layout = packing.layout_of(layouts)
    source = random.Random(seed)
    rows = np.frombuffer(source.randbytes(3 * layout.size), np.uint8).reshape(3, layout.size)
    try:
        for row in rows:
            layout.unpack(row.tobytes())
        alone = None
    except WireError as error:
        alone = error.code
    try:
        packing.unpack(rows, "0" * 64, ["x"] * len(layouts), layouts)
        together = None
    except WireError as error:
        together = error.code
    assert alone == together  # the first report at fault decides


STUDY = sf.Study(
    "mixed",
    [
        sf.integers("age", 0, 99, protect=sf.Distance(1)),
        sf.integers("steps", 0, 9, protect=sf.Distance(1), channel=sf.Thermometer()),
    ],
)


def test_reports_come_back_from_their_bytes() -> None:
    reports = STUDY.encode({"age": [31, 42, 0, 99], "steps": [0, 9, 4, 4]})
    data = reports.to_bytes()
    assert len(data) == 45 + 4 * 3  # one byte of symbols and two of bits
    again = sf.Reports.from_bytes(data, STUDY)
    assert again.to_arrow().equals(reports.to_arrow())
    assert again.to_bytes() == data


@pytest.mark.parametrize("count", [0, 1, 40])
def test_a_file_is_read_by_its_page_alone(count: int) -> None:
    """A reader written from "A file of packed reports", with nothing of the package in it."""
    axes = [
        sf.integers("a", 0, 99, protect=sf.Distance(1)),
        sf.integers("b", 0, 9, protect=sf.Distance(1), channel=sf.Thermometer()),
        sf.categories("c", ["x", "y", "z"], protect=sf.Uniform(1)),
        sf.integers("d", 0, 5, protect=sf.Distance(1), channel=sf.Thermometer()),
    ]
    study = sf.Study("mixed", axes)
    values = {"a": range(count), "b": [4] * count, "c": ["y"] * count, "d": [2] * count}
    reports = study.encode({name: list(column) for name, column in values.items()})
    counts = [layout.count for layout in study.layouts]
    assert [layout.kind for layout in study.layouts] == ["symbols", "bits", "symbols", "bits"]
    data = reports.to_bytes()
    assert data[:5] == b"\x53\x46\x4d\x52\x01"
    assert data[5:37] == bytes.fromhex(study.fingerprint)
    n = sum(byte << (8 * place) for place, byte in enumerate(data[37:45]))
    front = ((counts[0] * counts[2] - 1).bit_length() + 7) // 8
    w = front + (counts[1] + counts[3] + 7) // 8
    assert (n, len(data)) == (count, 45 + n * w)
    for k in range(n):
        report = data[45 + k * w : 45 + (k + 1) * w]
        number = sum(byte << (8 * place) for place, byte in enumerate(report[:front]))
        row = [byte >> bit & 1 for byte in report[front:] for bit in range(8)]
        outputs = [number // counts[2], row[: counts[1]], number % counts[2], row[counts[1] :]]
        assert not any(outputs[3][counts[3] :])  # type: ignore[index]
        for place, column in enumerate(reports.outputs):
            if isinstance(column, BitColumns):
                bits = column.to_matrix()[k].astype(int).tolist()
                assert outputs[place][: counts[place]] == bits  # type: ignore[index]
            else:
                assert outputs[place] == column[k]


def test_a_batch_of_a_client_is_read_without_its_ids() -> None:
    program = STUDY.device_program()
    made = tuple(program.encode({"age": age, "steps": 3}) for age in (1, 50, 99))
    ids = tuple(bytes([k]) * 16 for k in range(3))
    data = Batch(STUDY.fingerprint, 20_000, ids, made).to_bytes()
    reports, found, expires = packing.batch_from_bytes(data, STUDY)
    assert [row.tobytes() for row in packing.pack(reports)] == list(made)
    assert [row.tobytes() for row in found] == list(ids)
    assert expires == 20_000
    assert sf.Reports.from_bytes(data, STUDY).to_bytes() == reports.to_bytes()
    doubled = Batch(STUDY.fingerprint, 20_000, ids, made).to_bytes()[:45] + data[45:64] * 3
    with pytest.raises(WireError) as refused:
        packing.batch_from_bytes(doubled, STUDY)
    assert refused.value.code == "id"


def test_damaged_bytes_are_refused() -> None:
    data = STUDY.encode({"age": [31], "steps": [0]}).to_bytes()
    for wrong, code in (
        (b"", "magic"),
        (b"SFMX" + data[4:], "magic"),
        (data[:4] + b"\x02" + data[5:], "version"),
        (data[:-1], "length"),
        (data + b"\0", "length"),
        (data[:37] + b"\xff" * 8 + data[45:], "length"),
        (data[:45] + b"\x64" + data[46:], "symbol"),
        (data[:-1] + b"\x02", "padding"),
    ):
        with pytest.raises(WireError) as refused:
            sf.Reports.from_bytes(wrong, STUDY)
        assert refused.value.code == code
    with pytest.raises(sf.MismatchError):
        sf.Reports.from_bytes(data[:5] + bytes(32) + data[37:], STUDY)
