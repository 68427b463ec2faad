"""Decoded estimates that are saved answer as before, and belong to one tally."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import FormatError, MismatchError, QuestionError, TooLargeError
from sfumato.estimation import likelihood as module
from sfumato.estimation import saved


def tally_of(seed: int = 1, n: int = 2_000, **options: Any) -> sf.Tally:
    study = sf.Study(
        "kept",
        [
            sf.integers("age", 0, 29, protect=sf.Distance(0.5), **options),
            sf.categories("region", ["n", "e", "s"], protect=sf.Uniform(1), optional=True),
        ],
    )
    rng = np.random.default_rng(seed)
    ages = rng.normal(12, 4, n).clip(0, 29).astype(int)
    return study.simulate({"age": ages, "region": ["n", "e", "s", None] * (n // 4)}, seed=seed)


def answers(est: sf.Estimate) -> list[Any]:
    """Numbers of many kinds of answers, with their errors."""
    count = est.count("age=3..12")
    joint = est.fraction("age=3..12", where="region=n")
    map_ = est.heatmap("age", "region")
    middle = est.quantile("age", [0.25, 0.5])
    return [
        [count.value, count.stderr, count.low, count.high],
        [joint.value, joint.stderr, joint.low, joint.high],
        map_.values,
        map_.stderr,
        middle.values,
        middle.low,
        est.histogram("region", fraction=True).values,
    ]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the searches that are made."""
    made: list[str] = []
    for name in ("smoothed_decoder", "decode"):
        real = getattr(module, name)

        def called(*given: Any, real: Any = real, name: str = name, **options: Any) -> Any:
            made.append(name)
            return real(*given, **options)

        monkeypatch.setattr(module, name, called)
    return made


@pytest.mark.parametrize("smoothing", ["auto", "none"])
@pytest.mark.parametrize("channel", [sf.Geometric(), sf.Thermometer()])
def test_answers_after_loading_are_those_before(
    tmp_path: Path, smoothing: str, channel: Any, searches: list[str]
) -> None:
    tally = tally_of(n=400, channel=channel)
    est = tally.estimate("likelihood", smoothing=smoothing)
    before = answers(est)
    assert est.decodings == len(searches) == 3
    est.save(tmp_path / "e.parquet")
    again = tally.estimate(saved=tmp_path / "e.parquet", smoothing=smoothing, seconds=1e-9)
    assert again.decodings == 3
    for one, other in zip(before, answers(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    after = again.count("age=3..12")
    assert after.value == pytest.approx(before[0][0], rel=1e-9)
    assert len(searches) == 3  # nothing was decoded again, although it is beyond the time allowed
    assert again.count("age=3").method == "likelihood"


@pytest.mark.slow
def test_large_grids_and_whole_records_are_kept_too(tmp_path: Path) -> None:
    axes = [sf.integers("a", 0, 29), sf.integers("b", 0, 24)]
    study = sf.Study("record", axes, protect=sf.Uniform(2), channel=sf.HRR())
    rng = np.random.default_rng(3)
    tally = study.simulate({"a": rng.integers(5, 20, 500), "b": rng.integers(0, 9, 500)}, seed=2)
    est = tally.estimate("likelihood")
    before = est.count("a=5..9, b=0..3")
    est.save(tmp_path / "e.parquet")
    after = tally.estimate(saved=tmp_path / "e.parquet").count("a=5..9, b=0..3")
    assert (after.value, after.stderr) == pytest.approx((before.value, before.stderr), rel=1e-9)


@pytest.mark.slow
def test_a_share_of_maximum_likelihood_is_kept_too(tmp_path: Path) -> None:
    axes = [sf.integers(x, 0, 19, protect=sf.Distance(0.3)) for x in "ab"]
    heaps = np.where(np.arange(20) % 5 == 0, 6.0, 1.0)
    counts = np.multiply.outer(np.ones(20), 60 * heaps).astype(np.int64)
    tally = sf.Study("heaped", axes).simulate_counts(counts, seed=4)
    est = tally.estimate("likelihood")
    before = est.count(a=(3, 9), b=(5, 5))
    est.save(tmp_path / "e.parquet")
    head = json.loads(pq.read_schema(tmp_path / "e.parquet").metadata[b"sfumato"])
    assert head["decoded"][0]["beside"] in (0.5, 1.0)
    after = tally.estimate(saved=tmp_path / "e.parquet").count(a=(3, 9), b=(5, 5))
    assert (after.value, after.stderr) == pytest.approx((before.value, before.stderr), rel=1e-6)


def test_what_was_not_asked_before_is_decoded_and_added(
    tmp_path: Path, searches: list[str]
) -> None:
    path = tmp_path / "e.parquet"
    tally = tally_of()
    first = tally.estimate()
    first.count("age=3")
    first.save(path)
    second = tally.estimate(saved=path)
    second.count("region=n")
    second.save(path)
    assert second.decodings == len(searches) == 2
    third = tally.estimate(saved=path)
    assert third.count("age=3").value == pytest.approx(first.count("age=3").value, rel=1e-12)
    assert third.count("region=n").value == pytest.approx(second.count("region=n").value)
    assert len(searches) == 2


def test_nothing_decoded_is_kept_as_nothing(tmp_path: Path) -> None:
    tally = tally_of()
    tally.estimate().save(tmp_path / "e.parquet")
    assert tally.estimate(saved=tmp_path / "e.parquet").decodings == 0
    nobody = tally.study.empty_tally()
    nobody.estimate().save(tmp_path / "n.parquet")
    assert nobody.estimate(saved=tmp_path / "n.parquet").count("age=3").notes == ("no reports",)


def test_an_interrupted_decoding_is_not_kept(tmp_path: Path) -> None:
    tally = tally_of()

    def stop(share: float) -> None:
        raise KeyboardInterrupt

    est = tally.estimate(progress=stop)
    assert "interrupted" in est.count("age=3").notes[0]
    assert est.decodings == 0
    est.save(tmp_path / "e.parquet")
    again = tally.estimate(saved=tmp_path / "e.parquet").count("age=3")
    assert (again.method, again.notes) == ("likelihood", ())


@pytest.mark.parametrize("channel", [sf.Geometric(), sf.Thermometer()])
def test_another_tally_is_refused(tmp_path: Path, channel: Any) -> None:
    path = tmp_path / "e.parquet"
    tally, other = tally_of(1, 200, channel=channel), tally_of(2, 200, channel=channel)
    est = tally.estimate()
    est.count("age=3")
    est.save(path)
    for wrong in (other, tally + other, tally.study.empty_tally()):
        with pytest.raises(MismatchError, match="decoded from another tally of study 'kept'"):
            wrong.estimate(saved=path)
    # The same reports in another order, or read from a file, are the same tally.
    halves = [tally_of(seed, 200, channel=channel) for seed in (1, 2)]
    both = halves[0] + halves[1]
    est = both.estimate()
    est.count("age=3")
    est.save(path)
    assert (halves[1] + halves[0]).estimate(saved=path).decodings == 1
    both.save(tmp_path / "t.parquet")
    assert sf.Tally.load(tmp_path / "t.parquet", both.study).estimate(saved=path).decodings == 1


def test_another_study_kind_or_smoothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    tally = tally_of()
    est = tally.estimate(smoothing="none")
    est.count("age=3")
    est.save(path)
    with pytest.raises(MismatchError, match="smoothing='auto'"):
        tally.estimate(saved=path)
    other = sf.Study("other", [sf.integers("age", 0, 29, protect=sf.Distance(1))])
    with pytest.raises(MismatchError, match=r"belongs to study .* not to 'other'"):
        other.simulate({"age": [3]}, seed=1).estimate(saved=path)
    tally.save(tmp_path / "t.parquet")
    with pytest.raises(FormatError, match="holds a tally, but a decoded estimate must be given"):
        tally.estimate(saved=tmp_path / "t.parquet")
    with pytest.raises(FormatError, match="holds a decoded estimate, but a tally must be given"):
        sf.Tally.load(path, tally.study)
    with pytest.raises(QuestionError, match="decodes nothing"):
        tally.estimate("unbiased", saved=path)
    with pytest.raises(QuestionError, match="nothing to save"):
        tally.estimate("unbiased").save(path)


def test_weighted_estimates_are_kept_too(tmp_path: Path) -> None:
    study = tally_of().study
    reports = study.encode({"age": [3, 20, 9] * 100, "region": ["n"] * 300}, bits=sf.SeededBits(1))
    tally = study.tally(reports, weights=[1.0, 2.0, 0.5] * 100)
    est = tally.estimate("likelihood")
    before = est.count("age=3..12")
    est.save(tmp_path / "e.parquet")
    after = tally.estimate("auto", saved=tmp_path / "e.parquet").count("age=3..12")
    assert after.value == pytest.approx(before.value, rel=1e-9)
    with pytest.raises(MismatchError, match="another tally"):
        study.tally(reports).estimate(saved=tmp_path / "e.parquet")


# Damage


@pytest.fixture
def kept(tmp_path: Path) -> tuple[sf.Tally, Path]:
    tally = tally_of()
    est = tally.estimate()
    est.count("age=3")
    est.save(tmp_path / "e.parquet")
    return tally, tmp_path / "e.parquet"


def rewritten(path: Path, change: Any = None, shares: Any = None) -> None:
    """The same file with other metadata or other shares."""
    table = pq.read_table(path)
    head = json.loads(table.schema.metadata[b"sfumato"])
    if change is not None:
        change(head)
    column = table["share"] if shares is None else shares(table["share"].to_numpy())
    numbers = np.asarray(column)
    if numbers.dtype.kind == "f":  # so that what is wrong with them is found, not the digest
        head["digest"] = saved._digest(numbers, head.get("decoded"))
    made = pa.table({"share": pa.array(numbers)})
    pq.write_table(made.replace_schema_metadata({b"sfumato": json.dumps(head)}), path)


def twice(head: dict[str, Any]) -> None:
    head["decoded"] = head["decoded"] * 2


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head.pop("decoded"),
        lambda head: head.update(decoded=7),
        lambda head: head["decoded"][0].update(axes=[5]),
        lambda head: head["decoded"][0].update(axes=[]),
        lambda head: head["decoded"][0].update(axes=[0, 0]),
        lambda head: head["decoded"][0].update(axes="ab"),
        lambda head: head["decoded"][0]["strengths"][0].update(cells=-1, along=[[0, 0]]),
        lambda head: head["decoded"][0]["strengths"][0].update(cells="x", along=[[0, 0]]),
        lambda head: head["decoded"][0]["strengths"][0].update(cells=1, along=[]),
        lambda head: head["decoded"][0].update(strengths=[{}]),
        lambda head: head["decoded"][0]["strengths"][0].update(apart=-1.0),
        lambda head: head["decoded"][0]["strengths"][0].update(apart=1.0, along=[[0, 0]]),
        lambda head: head["decoded"][0]["strengths"][0].pop("apart"),
        lambda head: head["decoded"][0].pop("strengths"),
        lambda head: head["decoded"][0].pop("beside"),
        lambda head: head["decoded"][0].update(beside=-0.5),
        lambda head: head["decoded"][0].update(beside=1.5),
        lambda head: head["decoded"][0].update(beside="x"),
        lambda head: head["decoded"][0].update(beside=0.0),  # but there are such shares
        lambda head: head["decoded"][0].pop("nearby"),
        lambda head: head["decoded"][0].update(nearby=1),  # the best fit alone
        lambda head: head["decoded"][0].update(nearby=1_000),
        lambda head: head["decoded"][0].update(nearby="x"),
        lambda head: head["decoded"][0].update(strengths=head["decoded"][0]["strengths"] * 3),
        lambda head: head.update(decoded=[]),
        twice,
    ],
)
def test_damaged_metadata_are_refused(kept: tuple[sf.Tally, Path], change: Any) -> None:
    tally, path = kept
    rewritten(path, change)
    with pytest.raises(FormatError, match="damaged"):
        tally.estimate(saved=path)


@pytest.mark.parametrize(
    "shares",
    [
        lambda shares: shares[:-1],
        lambda shares: np.append(shares, 0.5),
        lambda shares: shares * 1.01,
        lambda shares: -shares,
        lambda shares: shares * np.nan,
        lambda shares: np.zeros(len(shares), dtype=np.int64),
        lambda shares: shares.astype(str),
    ],
)
def test_damaged_shares_are_refused(kept: tuple[sf.Tally, Path], shares: Any) -> None:
    tally, path = kept
    rewritten(path, shares=shares)
    with pytest.raises(FormatError):
        tally.estimate(saved=path)


def test_a_changed_strength_is_noticed(kept: tuple[sf.Tally, Path]) -> None:
    tally, path = kept
    table = pq.read_table(path)
    head = json.loads(table.schema.metadata[b"sfumato"])
    head["decoded"][0]["strengths"][0]["cells"] += 1
    pq.write_table(table.replace_schema_metadata({b"sfumato": json.dumps(head)}), path)
    with pytest.raises(FormatError, match="its numbers were changed"):
        tally.estimate(saved=path)


def test_a_single_changed_bit_is_noticed(kept: tuple[sf.Tally, Path]) -> None:
    tally, path = kept
    table = pq.read_table(path)
    shares = table["share"].to_numpy().copy()
    shares[3] = np.nextafter(shares[3], 1)
    changed = pa.table({"share": shares}).replace_schema_metadata(table.schema.metadata)
    pq.write_table(changed, path)
    with pytest.raises(FormatError, match="its numbers were changed"):
        tally.estimate(saved=path)


def test_files_that_are_none_are_refused(kept: tuple[sf.Tally, Path], tmp_path: Path) -> None:
    tally, path = kept
    rewritten(path, lambda head: head.update(version=2))
    with pytest.raises(FormatError, match="newer than this package"):
        tally.estimate(saved=path)
    with pytest.raises(FormatError, match="there is no file"):
        tally.estimate(saved=tmp_path / "none.parquet")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FormatError, match="damaged or not a Parquet file"):
        tally.estimate(saved=path)
    pq.write_table(pa.table({"share": [1.0]}), path)
    with pytest.raises(FormatError, match=r"no sfumato estimate.*est\.save"):
        tally.estimate(saved=path)


@pytest.mark.slow
def test_a_file_that_would_fill_the_memory_is_refused(kept: tuple[sf.Tally, Path]) -> None:
    tally, path = kept
    rewritten(path, shares=lambda _: np.zeros((1 << 24) + 1))
    with pytest.raises(TooLargeError, match="would fill"):
        tally.estimate(saved=path)


def test_a_saved_estimate_shows_no_reports(kept: tuple[sf.Tally, Path]) -> None:
    """It holds shares and strengths, the study's fingerprint and a digest, and nothing else."""
    _, path = kept
    head = json.loads(pq.read_schema(path).metadata[b"sfumato"])
    own = {"version", "kind", "study", "axes", "tally", "smoothing", "decoded", "digest"}
    assert set(head) == own
    assert pq.read_schema(path).names == ["share"]
