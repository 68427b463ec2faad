"""Studies: files, fingerprints, guarantees and their explanation."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.choice import REGISTRY
from sfumato.channels.older import FloatExponential
from sfumato.channels.response import KaryResponse

REGIONS = ["north", "south", "east"]


def _distance(**more: Any) -> sf.Axis:
    return sf.integers("age", 0, 19, **{"protect": sf.Distance(0.2), **more})


def _labels(protect: Any, **more: Any) -> sf.Axis:
    return sf.categories("region", REGIONS, protect=protect, **more)


AXES = {
    "integers": _distance(),
    "integers, per": _distance(protect=sf.Distance("1/3", per=7)),
    "integers, geometric": _distance(channel=sf.Geometric()),
    "integers, thermometer": _distance(channel=sf.Thermometer()),
    "integers, published": _distance(channel=sf.Thermometer(variant="published")),
    "integers, exponential": _distance(channel=sf.Exponential()),
    "integers, clipped": _distance(outside="clip"),
    "integers, optional": _distance(protect=sf.Distance(0.5, no_answer=10), optional=True),
    "integers, sum": _distance(protect=sf.Distance(0.3) + sf.Uniform(1)),
    "integers, matrix": sf.integers(
        "age", 0, 2, protect=sf.Matrix([[0, 1, 2], [1, 0, 1.5], [2, math.inf, 0]])
    ),
    "reals": sf.reals("income", 0, 200_000, bins=64, protect=sf.Distance(1.0, per=10_000)),
    "reals, edges": sf.reals("income", edges=[0, 0.1, 0.5, 2], protect=sf.Distance(2)),
    "reals, rounded": sf.reals(
        "income", 0, 1, bins=10, rounding="stochastic", protect=sf.Distance(1, per="1/3")
    ),
    "dates": sf.dates("visit", "2024-01-01", "2024-03-03", protect=sf.Distance(1, per="7 days")),
    "dates, weeks": sf.dates(
        "visit", "2024-01-01", "2024-03-03", step="1 week", protect=sf.Uniform(1)
    ),
    "times": sf.times("t", "06:30", "24:00", step="15 min", protect=sf.Distance(1, per="1 hour")),
    "moments": sf.times(
        "t",
        "2024-01-01T00:00",
        "2024-01-02T00:00",
        step="1 hour",
        protect=sf.Distance(1, per="3 hours"),
    ),
    "uniform": _labels(sf.Uniform(1.0)),
    "uniform, optional": _labels(sf.Uniform(1.0), optional=True),
    "response": _labels(sf.Uniform(0.7), channel=KaryResponse()),
    "unary": _labels(sf.Uniform(0.7), channel=sf.OUE()),
    "hashed": _labels(sf.Uniform(0.7), channel=sf.OLH()),
    "hashed to five, optional": _labels(sf.Uniform(0.7), channel=sf.OLH(g=5), optional=True),
    "optimised": _labels(sf.Uniform(0.7), channel=sf.Optimised("cells")),
    "extremal": _labels(sf.Matrix([[0, 1, 2], [1, 0, 1], [2, 1, 0]]), channel=sf.Extremal()),
    "bits": _labels(
        sf.PolicyGraph(1, [("north", "south"), ("south", "east")]), channel=sf.MatrixResponse()
    ),
    "wave": sf.integers("code", 0, 99, protect=sf.Uniform(0.7), channel=sf.SquareWave()),
    "wide wave": sf.integers("code", 0, 9, protect=sf.Uniform(0.7), channel=sf.SquareWave(4)),
    "hadamard": sf.integers("code", 0, 99, protect=sf.Uniform(0.7), channel=sf.HRR()),
    "hierarchy": sf.integers("code", 0, 99, protect=sf.Uniform(0.7), channel=sf.Hierarchical()),
    "hierarchy of pairs": sf.integers(
        "code",
        0,
        6,
        protect=sf.Uniform(0.7),
        channel=sf.Hierarchical(2, "best", levels=["1/3", "1/3", "1/3"], consistency=False),
    ),
    "haar": sf.integers("code", 0, 99, protect=sf.Uniform(1), channel=sf.HaarHRR("optimised")),
    "blocks": _labels(sf.Blocks(1, blocks=[["north", "south"], ["east"]])),
    "high and low": _labels(sf.HighLow(1, sensitive=["north"])),
    "sensitive": _labels(sf.SensitiveSet(1, sensitive=["north"])),
    "hadamard response": _labels(sf.HighLow(1, sensitive=["north"]), channel=sf.Hadamard()),
    "stricter": _labels(
        sf.Matrix([[0, 1, 2], [1, 0, 1], [2, 1, 0]]), channel=sf.Stricter("uniform", sf.OLH())
    ),
    "product": sf.integers("code", 0, 8, protect=sf.Distance(1), channel=sf.Product((3, 3))),
    "rakes": _distance(channel=sf.Rakes(2, 1, Fraction(1, 3))),
    "two labels": sf.categories("a", ["yes", "no"], protect=sf.HighLow(1, ["yes"])),
    "graph": _labels(sf.PolicyGraph(0.5, edges=[("north", "south"), ("south", "east", 2)])),
    "points": _labels(
        sf.Points(1, per=2, at={"north": (0, 1), "south": (0, -1), "east": (1, 0.5)}, norm=2)
    ),
    "matrix": _labels(sf.Matrix([[0, 1, 2], [1, 0, 1], [2, 1, 0]], labels=REGIONS)),
}


def _study(axis: sf.Axis | None = None, **more: Any) -> sf.Study:
    return sf.Study("a study", [axis or _distance(), _other()], **more)


def _other() -> sf.Axis:
    return sf.categories("yes or no", ["yes", "no"], protect=sf.Uniform(1))


DOMAIN = '{kind = "integers", low = 0, high = 9}'
AXIS = f"""
[[axes]]
name = "a"
domain = {DOMAIN}
protect = {{kind = "uniform", epsilon = 1}}"""


class TestFiles:
    @pytest.mark.parametrize("name", AXES)
    def test_every_axis_comes_back_from_its_file(self, name: str, tmp_path: Path) -> None:
        study = _study(AXES[name])
        study.save(tmp_path / "study.toml")
        again = sf.Study.load(tmp_path / "study.toml")
        assert again.fingerprint == study.fingerprint
        assert again == study
        assert hash(again) == hash(study)
        assert again.axes == study.axes
        assert again.to_toml() == study.to_toml()
        assert [c.words() for c in again.channels if c.size < 20 and c.layout.count < 8] == [
            c.words() for c in study.channels if c.size < 20 and c.layout.count < 8
        ]
        assert not list(tmp_path.glob(".*"))  # nothing half-written is left

    def test_every_registered_channel_is_among_them(self) -> None:
        used = {channel.id for axis in AXES.values() for channel in (axis.channel,) if channel}
        planned = {_study(axis).axes[0].channel.id for axis in AXES.values()}  # type: ignore[union-attr]
        assert used | planned | {"planar", "pairs"} == set(REGISTRY)  # which need several axes

    def test_names_with_any_letters_come_back(self) -> None:
        awkward = 'it\'s "a", study = №1\n\\ […]'
        axis = sf.categories("größe, ja?", ["a|b", "c = d", "…"], protect=sf.Uniform(1))
        study = sf.Study(awkward, [axis])
        assert sf.Study.from_toml(study.to_toml()) == study

    def test_written_by_hand_without_fingerprint_and_channel_it_loads(self) -> None:
        text = """
        format = 1
        name = "commute"

        [[axes]]
        name = "age"
        domain = {kind = "integers", low = 0, high = 99}
        protect = {kind = "distance", epsilon = 0.2}

        [[axes]]
        name = "mode"
        optional = true
        domain = {kind = "categories", labels = ["car", "bus"]}
        protect = {kind = "uniform", epsilon = "1/3"}
        """
        study = sf.Study.from_toml(text)
        made = sf.Study(
            "commute",
            [
                sf.integers("age", 0, 99, protect=sf.Distance(0.2)),
                sf.categories("mode", ["car", "bus"], protect=sf.Uniform("1/3"), optional=True),
            ],
        )
        assert study == made
        assert study.axes[0].channel is not None

    def test_people_expected_are_kept_but_not_part_of_the_fingerprint(self, tmp_path: Path) -> None:
        axis = sf.integers("a", 0, 7, protect=sf.Distance(0.1))
        study = sf.Study("s", [axis], people=np.int64(1_000))  # type: ignore[arg-type]
        assert 'name = "s"\npeople = 1000\nfingerprint = ' in study.to_toml()
        study.save(tmp_path / "s.toml")
        again = sf.Study.load(tmp_path / "s.toml")
        assert (again.people, again.to_toml()) == (1_000, study.to_toml())
        assert again.explain() == study.explain()
        # Another number later changes neither the fingerprint nor the channel that was written.
        more = sf.Study.from_toml(study.to_toml().replace("people = 1000", "people = 100_000"))
        assert (more.people, more.fingerprint) == (100_000, study.fingerprint)
        assert more.blocks[0].choice == sf.Geometric()
        assert more.reasons == ("",)
        assert sf.Study("s", [axis], people=100_000).blocks[0].choice == sf.Thermometer()

    @pytest.mark.parametrize("people", [0, -3, 1.5, 1000.0, True, "many", np.float64(7)])
    def test_impossible_numbers_of_people_are_refused(self, people: Any) -> None:
        with pytest.raises(sf.StudyError, match=r"people must be a whole number from 1 to"):
            sf.Study("s", [_distance()], people=people)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("format = 1", "format = 1\npeople = 0", "damaged: people must be a whole number"),
            ("format = 1", "format = 2", "newer than this package's 1"),
            ("format = 1", 'format = "1"', "does not say its format"),
            ("format = 1", "", "does not say its format"),
            ("format = 1", "format = 1\ncolour = 3", "unknown entries: 'colour'"),
            ("epsilon = 0.2", "epsilon = 0.3", "has been changed since it was saved"),
            ("high = 19", "high = 18", "has been changed since it was saved"),
            ('name = "age"', 'name = "ages"', "has been changed since it was saved"),
            ('"refuse"', '"clip"', "has been changed since it was saved"),
            ("epsilon = 0.2", "epsilon = -0.2", "must be positive"),
            ("epsilon = 0.2", 'epsilon = "much"', "epsilon"),
            ("high = 19", "high = 19\nbins = 4", "damaged"),
            ('kind = "distance"', 'kind = "distnace"', "distance"),
            ('kind = "integers"', 'kind = "whole"', "damaged"),
            ('outside = "refuse"', 'outside = "refuse"\nweight = 2', "unknown entries"),
            ('outside = "refuse"', 'outside = "ignore"', "must be 'refuse' or 'clip'"),
            ('name = "age"', "", "no entry 'name'"),
            ('name = "a study"', "", "name"),
            ("[[axes]]", "[[axes", "not valid TOML"),
        ],
    )
    def test_damaged_edited_and_newer_files_are_refused(
        self, old: str, new: str, message: str, tmp_path: Path
    ) -> None:
        text = _study().to_toml()
        assert old in text
        path = tmp_path / "study.toml"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(sf.FormatError, match=message) as caught:
            sf.Study.load(path)
        assert "study.toml" in str(caught.value)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("[axes.domain]", "[axes.domian]"),
            ('kind = "geometric"', 'kind = "geometrical"'),
            ('kind = "geometric"', 'kind = "geometric"\nwidth = 2'),
            ('kind = "geometric"', 'kind = "thermometer"\nvariant = "new"'),
            ('kind = "geometric"', 'kind = "kary-response"'),
        ],
    )
    def test_unknown_parts_of_an_axis_are_refused(self, old: str, new: str) -> None:
        text = _study(_distance(channel=sf.Geometric())).to_toml()
        assert old in text
        with pytest.raises(sf.SfumatoError):
            sf.Study.from_toml(text.replace(old, new, 1)).channels  # noqa: B018

    @pytest.mark.parametrize(
        "text",
        [
            'name = "x"\naxes = [3]',
            'name = "x"\naxes = []',
            'name = "x"',
            f"name = 7\n{AXIS}",
            'name = "x"\naxes = 3',
            f'name = "x"\n{AXIS.replace(DOMAIN, "3")}',
            f'name = "x"\n{AXIS}\nchannel = 5',
            f'name = "x"\n{AXIS}\noptional = "no"',
        ],
    )
    def test_entries_of_the_wrong_type_are_refused(self, text: str) -> None:
        with pytest.raises(sf.FormatError):
            sf.Study.from_toml(f"format = 1\n{text}")

    def test_missing_and_unreadable_files_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(sf.FormatError, match="there is no study file"):
            sf.Study.load(tmp_path / "none.toml")
        with pytest.raises(sf.FormatError, match="not a readable"):
            sf.Study.load(tmp_path)
        (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(sf.FormatError, match="not a readable"):
            sf.Study.load(tmp_path / "bytes.toml")
        with pytest.raises(sf.FormatError, match="there is no folder"):
            _study().save(tmp_path / "nowhere" / "study.toml")


class TestFingerprint:
    @pytest.mark.slow
    def test_every_part_of_the_meaning_changes_it(self) -> None:
        studies = {
            "plain": _study(),
            "name": sf.Study("another study", [_distance(), _other()]),
            "epsilon": _study(_distance(protect=sf.Distance(0.21))),
            "per": _study(_distance(protect=sf.Distance(0.2, per=2))),
            "metric": _study(_distance(protect=sf.Uniform(0.2))),
            "low": _study(sf.integers("age", -1, 19, protect=sf.Distance(0.2))),
            "high": _study(sf.integers("age", 0, 20, protect=sf.Distance(0.2))),
            "axis name": _study(sf.integers("years", 0, 19, protect=sf.Distance(0.2))),
            "channel": _study(_distance(channel=sf.Thermometer())),
            "variant": _study(_distance(channel=sf.Thermometer("published"))),
            "outside": _study(_distance(outside="clip")),
            "optional": _study(_distance(protect=sf.Distance(0.2, no_answer=5), optional=True)),
            "no answer": _study(_distance(protect=sf.Distance(0.2, no_answer=6), optional=True)),
            "axes": sf.Study("a study", [_distance()]),
            "order of axes": sf.Study("a study", [_other(), _distance()]),
            "labels": sf.Study(
                "a study",
                [_distance(), sf.categories("yes or no", ["no", "yes"], protect=sf.Uniform(1))],
            ),
            "bins": _study(sf.reals("age", 0, 20, bins=20, protect=sf.Distance(0.2))),
            "fewer bins": _study(sf.reals("age", 0, 20, bins=10, protect=sf.Distance(0.2))),
            "rounding": _study(
                sf.reals("age", 0, 20, bins=20, rounding="stochastic", protect=sf.Distance(0.2))
            ),
        }
        assert studies["plain"].axes[0].channel == sf.Geometric()  # what the planner chooses
        prints = {name: study.fingerprint for name, study in studies.items()}
        assert len(set(prints.values())) == len(prints), prints

    def test_equivalent_spellings_have_the_same(self) -> None:
        plain = _study(_distance(channel=sf.Geometric(), outside="refuse"))
        for same in (
            _study(_distance(protect=sf.Distance("1/5"), channel=sf.Geometric())),
            _study(_distance(protect=sf.Distance(0.2, per=1.0), channel=sf.Geometric())),
            sf.Study("a study", (_distance(channel=sf.Geometric()), _other()), outside="refuse"),
        ):
            assert same.fingerprint == plain.fingerprint
        shared = sf.Study("s", [_distance()], channel=sf.Thermometer(), outside="clip")
        own = sf.Study("s", [_distance(channel=sf.Thermometer(), outside="clip")])
        assert shared == own

    @pytest.mark.slow
    def test_it_is_the_same_in_every_process(self) -> None:
        code = (
            "import sfumato as sf\n"
            "print(sf.Study('a study', [sf.integers('age', 0, 19, protect=sf.Distance(0.2)), "
            "sf.categories('yes or no', ['yes', 'no'], protect=sf.Uniform(1))]).fingerprint)"
        )
        prints = set()
        for salt in ("0", "1"):
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONHASHSEED": salt},
                capture_output=True,
                text=True,
                check=True,
            )
            prints.add(done.stdout.strip())
        assert prints == {_study().fingerprint}

    def test_a_revised_channel_has_another(self, monkeypatch: pytest.MonkeyPatch) -> None:
        codes = [str(code) for code in range(9)]
        axis = sf.categories("code", codes, protect=sf.Uniform(1), channel=sf.OLH())
        whole = [sf.integers("hour", 0, 5), sf.integers("zone", 0, 4)]

        def made() -> list[sf.Study]:
            records = sf.Study("trips", whole, protect=sf.Uniform(1), channel=sf.HaarHRR())
            return [sf.Study("codes", [axis]), records]

        now = [(study.fingerprint, study.to_toml()) for study in made()]
        for choice in (sf.OLH, sf.HaarHRR):
            monkeypatch.setattr(choice, "revision", 1)
        for (fingerprint, text), other in zip(now, made(), strict=True):
            assert fingerprint != other.fingerprint
            assert "revision = 2" in text
            with pytest.raises(sf.FormatError, match=r"has revision 1 here, got revision=2: its"):
                sf.Study.from_toml(text)

    def test_a_study_from_before_a_revision_is_refused_by_name(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        codes = [str(code) for code in range(9)]
        axis = sf.categories("code", codes, protect=sf.Uniform(1), channel=sf.OLH())
        with monkeypatch.context() as before:
            before.setattr(sf.OLH, "revision", 1)
            text = sf.Study("codes", [axis]).to_toml()
        assert "revision" not in text
        with pytest.raises(sf.FormatError, match=r"made by an older sfumato.*remove the line"):
            sf.Study.from_toml(text)
        with pytest.raises(sf.FormatError, match="has been changed since it was saved"):
            sf.Study.from_toml(text.replace("epsilon = 1", "epsilon = 2"))
        anew = re.sub("fingerprint.*", "", text)
        assert sf.Study.from_toml(anew) == sf.Study("codes", [axis])

    def test_a_study_of_an_older_law_that_is_known_keeps_it(self) -> None:
        text = (KEPT / "days.study.toml").read_text(encoding="utf-8")
        assert "revision" not in text
        study = sf.Study.from_toml(text)
        assert study.to_toml() == text
        assert study.blocks[0].choice.revision == 1
        anew = sf.Study.from_toml(re.sub("fingerprint.*", "", text))  # as people write a file
        assert anew.blocks[0].choice == sf.Exponential()
        assert anew.fingerprint != study.fingerprint
        assert anew.channels[0].words() != study.channels[0].words()
        assert "revision = 2" in anew.to_toml()
        with pytest.raises(sf.FormatError, match="has been changed since it was saved"):
            sf.Study.from_toml(text.replace("epsilon = 1", "epsilon = 2"))
        with pytest.raises(sf.FormatError, match="has revision 2 here, got revision=3"):
            sf.Study.from_toml(anew.to_toml().replace("revision = 2", "revision = 3"))

    def test_channels_inside_others_keep_an_older_law(self) -> None:
        older = FloatExponential()
        labels = ["a", "b", "c", "d"]
        parts = sf.Blocks(1, [labels[:2], labels[2:]])
        axis = sf.categories("x", labels, protect=parts, channel=sf.PerBlock(older))
        again = sf.Study.from_toml(sf.Study("parts", [axis]).to_toml())
        assert again.blocks[0].choice == sf.PerBlock(older)

    def test_it_never_changes(self) -> None:
        """A study in the field must never change its fingerprint, nor what its seeds draw."""
        study = _study(_distance(channel=sf.Thermometer()))
        assert study.fingerprint == FIRST_FINGERPRINT
        assert study.to_toml().splitlines()[0] == "format = 1"


KEPT = Path(__file__).parent / "kept"
FIRST_FINGERPRINT = "997f22aabe2102a1afaa7ca87bbb5c1a5c493c70846f12499bd6a8756f9800fb"


class TestGuarantee:
    def test_guarantees_of_axes_add(self) -> None:
        study = _study()
        between = study.guarantee.between
        x, y = {"age": 3, "yes or no": "yes"}, {"age": 8, "yes or no": "no"}
        assert between(x, y) == pytest.approx(0.2 * 5 + 1)
        assert between(x, {**x, "age": 8}) == pytest.approx(1.0)
        assert between(x, x) == 0
        assert between({"age": 3}, {"age": 4}) == pytest.approx(0.2)
        with pytest.raises(sf.QuestionError, match="both records must mention"):
            between({"age": 3}, {})

    def test_blocks_are_infinitely_apart_and_no_answer_has_its_distance(self) -> None:
        blocks = sf.Study("b", [AXES["blocks"]]).guarantee
        assert blocks.between({"region": "north"}, {"region": "east"}) == math.inf
        assert blocks.between({"region": "north"}, {"region": "south"}) == 1
        optional = sf.Study("o", [AXES["integers, optional"]]).guarantee
        assert optional.between({"age": 3}, {"age": None}) == 5
        # Twenty apart is 10 directly, and also by way of "no answer".
        assert optional.between({"age": 0}, {"age": 19}) == pytest.approx(9.5)

    def test_rounded_reals_keep_their_own_distance_between_grid_points(self) -> None:
        guarantee = sf.Study("r", [AXES["reals, rounded"]]).guarantee
        for a, b in ((0.12, 0.17), (0.0, 1.0), (0.25, 0.25), (0.55, 0.14)):
            # Values are read to 2^-20 of a bin of 0.1: at most half of that off each, times ε/per.
            read = 3 * 0.1 * 2.0**-20
            found = guarantee.between({"income": a}, {"income": b})
            assert found == pytest.approx(3 * abs(a - b), abs=read)

    def test_binned_reals_are_protected_by_bin(self) -> None:
        axis = sf.reals("x", 0, 10, bins=10, protect=sf.Distance(0.5))
        guarantee = sf.Study("r", [axis]).guarantee
        assert guarantee.between({"x": 1.01}, {"x": 1.99}) == 0
        assert guarantee.between({"x": 1.99}, {"x": 2.01}) == 0.5

    @pytest.mark.parametrize(
        ("p", "factor"), [(1, 1.0), (2, math.sqrt(3)), (math.inf, 3.0), (4, 3**0.75)]
    )
    def test_as_lp_is_the_factor_between_the_norms(self, p: float, factor: float) -> None:
        axes = [sf.integers(n, 0, 9, protect=sf.Distance(0.5)) for n in "abc"]
        assert sf.Study("lp", axes).guarantee.as_lp(p) == pytest.approx(factor, rel=1e-12)

    def test_as_lp_is_refused_where_there_is_no_distance(self) -> None:
        with pytest.raises(sf.StudyError, match="not protected by distance"):
            _study().guarantee.as_lp(2)
        with pytest.raises(sf.StudyError, match="at least 1"):
            sf.Study("s", [_distance()]).guarantee.as_lp(0.5)

    def test_a_study_can_be_protected_in_a_norm(self) -> None:
        axes = [sf.integers(n, 0, 9) for n in "abcd"]
        study = sf.Study("lp", axes, protect=sf.Lp(1, p=2))
        # D^(1 − 1/2) = 2: each axis gets half, and the L2 guarantee is 1 again.
        assert study.guarantee.between({"a": 0}, {"a": 1}) == pytest.approx(0.5)
        assert study.guarantee.as_lp(2) * 0.5 == pytest.approx(1.0)
        x, y = dict.fromkeys("abcd", 0), dict.fromkeys("abcd", 3)
        assert study.guarantee.between(x, y) <= 1 * math.hypot(3, 3, 3, 3) + 1e-12
        assert sf.Study.from_toml(study.to_toml()) == study

    def test_an_irrational_share_is_rounded_down(self) -> None:
        axes = [sf.integers(n, 0, 9) for n in "ab"]
        study = sf.Study("lp", axes, protect=sf.Lp(1, p=2))
        assert study.axes[0].protect is not None
        share = study.axes[0].protect.epsilon  # type: ignore[attr-defined]
        assert share**2 * 2 <= 1
        assert float(share) == pytest.approx(math.sqrt(0.5), rel=1e-10)

    def test_one_guarantee_for_all_excludes_others(self) -> None:
        with pytest.raises(sf.StudyError, match="must not state its own"):
            sf.Study("lp", [_distance()], protect=sf.Lp(1, p=2))
        with pytest.raises(sf.StudyError, match="give each axis"):
            sf.Study("lp", [sf.integers("a", 0, 9)], protect=sf.Distance(1))


class TestWords:
    def test_the_guarantee_is_explained_by_odds(self) -> None:
        text = _study().explain()
        assert "differs by 1: a report is at most 1.2 times likelier" in text
        assert "differs by 5: a report is at most 2.7 times likelier" in text
        assert "their guarantees add" in text
        words = " ".join(text.split())
        assert "Answering again reveals as much again" in words
        assert "memory='value'" in words
        assert "because" in text  # the planner says why
        assert all(len(line) <= 100 for line in text.splitlines())

    @pytest.mark.parametrize("name", AXES)
    def test_every_axis_is_explained(self, name: str) -> None:
        text = " ".join(sf.Study("words", [AXES[name]]).explain().split())
        assert "likelier" in text or "may tell" in text
        assert AXES[name].name in text
        assert ("protected by bin" in text) == (name in ("reals", "reals, edges"))
        assert ("rounded at random" in text) == (name == "reals, rounded")
        assert ("Not answering is protected" in text) == ("optional" in name)

    def test_one_axis_adds_nothing(self) -> None:
        assert "guarantees add" not in sf.Study("one", [_distance()]).explain()

    def test_its_representation_names_it(self) -> None:
        study = _study()
        assert repr(study) == f"<study 'a study' of age, yes or no: {study.fingerprint[:12]}>"


class TestConstruction:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: sf.Study("", [_distance()]), "not blank"),
            (lambda: sf.Study("s", []), "at least one axis"),
            (lambda: sf.Study("s", [_distance(), _distance()]), "two axes are called 'age'"),
            (lambda: sf.Study("s", [sf.integers("a", 0, 9)]), "says nothing about protection"),
            (lambda: sf.Study("s", [_distance()], outside="drop"), "'refuse' or 'clip'"),
            (lambda: sf.Study("s", [_distance(channel=sf.Thermometer("x"))]), "variant"),
            (lambda: sf.integers("a", 0, 9, protect=0.5), "protect must be a metric"),
            (lambda: sf.integers("a", 0, 9, channel="geometric"), "channel must be a choice"),
            (lambda: sf.reals("x", 0, 1), "either low, high and bins"),
            (
                lambda: sf.reals(
                    "x",
                    0,
                    1,
                    bins=4,
                    rounding="stochastic",
                    optional=True,
                    protect=sf.Distance(1, no_answer=1),
                ),
                "do not go together",
            ),
            (
                lambda: sf.categories(
                    "r", ["no answer", "b"], optional=True, protect=sf.Uniform(1)
                ),
                "is reserved",
            ),
            (
                lambda: sf.Study("s", [_labels(sf.Uniform(1), channel=sf.Geometric())]).channels,
                "Geometric does not fit",
            ),
            (
                lambda: sf.Study("s", [_distance(protect=sf.Distance(0.2))], channel=3),  # type: ignore[arg-type]
                "channel",
            ),
        ],
    )
    def test_impossible_studies_are_refused_with_the_remedy(self, make: Any, message: str) -> None:
        with pytest.raises(sf.StudyError, match=message):
            make()

    def test_values_out_of_bounds_are_refused_or_clipped_and_never_shown(self) -> None:
        with pytest.raises(sf.DataError, match="row 2") as caught:
            _study().encode({"age": [3, 77, 5], "yes or no": ["yes", "no", "no"]})
        assert "77" not in str(caught.value)
        clipped = _study(_distance(outside="clip"))
        assert len(clipped.encode({"age": [3, 77, -5], "yes or no": ["yes", "no", "no"]})) == 3

    def test_a_missing_answer_needs_an_optional_axis(self) -> None:
        with pytest.raises(sf.DataError, match="row 1"):
            _study().encode({"age": [None, 3], "yes or no": ["yes", "no"]})
        study = _study(AXES["integers, optional"])
        assert len(study.encode({"age": [None, 3], "yes or no": ["yes", "no"]})) == 2

    def test_one_person_is_a_dict_of_scalars(self) -> None:
        assert len(_study().encode({"age": 3, "yes or no": "no"})) == 1
        assert len(_study().encode({"age": [], "yes or no": []})) == 0
