"""Files written by an earlier version load and mean the same.

Fingerprints, files and answers here were made once and never change: devices and collectors in the
field hold them. `tests/kept/make.py` made the files, with the version whose files they are. If one
of these tests fails, the change that broke it is wrong, or needs a new format or a new revision.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.channels.older import FloatExponential

KEPT = Path(__file__).parent / "kept"
PEOPLE = 400
SEED = 7

Table = dict[str, list[Any]]
Kept = tuple[Callable[[], sf.Study], str]


def whole(name: str, axes: list[sf.Axis], epsilon: Any, channel: Any = None) -> sf.Study:
    """A study of whole records under one ε: the only place that names the argument."""
    return sf.Study(name, axes, protect=sf.Uniform(epsilon), channel=channel)


def one(axis: sf.Axis, **options: Any) -> sf.Study:
    """A study of one axis, with the name of the axis."""
    return sf.Study(axis.name, [axis], **options)


def plain(channel: Any, size: int = 12, epsilon: Any = 1) -> sf.Study:
    """An axis under one ε, with a channel named."""
    return one(sf.integers("x", 0, size - 1, protect=sf.Uniform(epsilon), channel=channel))


def line(channel: Any, size: int = 12) -> sf.Study:
    """An axis under a distance, with a channel named."""
    return one(sf.integers("x", 0, size - 1, protect=sf.Distance("1/2"), channel=channel))


def aside(channel: Any = None) -> sf.Study:
    """An axis under a distance that may be left unanswered."""
    protect = sf.Distance(0.5, no_answer=4)
    return one(sf.integers("x", 0, 9, protect=protect, optional=True, channel=channel))


def label(protect: Any, channel: Any = None, optional: bool = False) -> sf.Study:
    """A few labels under a metric."""
    return one(
        sf.categories("town", TOWNS, protect=protect, channel=channel, optional=optional),
    )


TOWNS = ["Ash", "Birch", "Cedar", "Elm", "Fir"]
PLACES = {"Ash": (0, 0), "Birch": (1, 0), "Cedar": (0, 2), "Elm": ("1/2", "5/2"), "Fir": (3, 3)}
ROADS = [("Ash", "Birch"), ("Birch", "Cedar", 2), ("Cedar", "Elm", "1/3"), ("Elm", "Fir")]
CLOCK = {"start": "06:00", "end": "10:00", "step": "15 min"}
GRID = sf.Grid(south=55.9, west=-3.3, north=56.0, east=-3.1, rows=3, columns=4)


def commute() -> sf.Study:
    """Numbers and labels, one of them optional."""
    return sf.Study(
        "commute",
        [
            sf.integers("age", 18, 80, unit="years", protect=sf.Distance(0.5)),
            sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(1), optional=True),
        ],
    )


def survey() -> sf.Study:
    """Four axes of four kinds, of which two may be left unanswered."""
    return sf.Study(
        "survey",
        [
            sf.integers(
                "rooms",
                1,
                9,
                protect=sf.Distance(1, no_answer=3),
                optional=True,
                outside="clip",
                channel=FloatExponential(),
            ),
            sf.reals("income", 0, 100, bins=8, unit="kEUR", protect=sf.Distance(1, per=25)),
            sf.dates("moved", "2024-01-01", "2024-01-14", protect=sf.Distance(1, per="7 days")),
            sf.categories("heating", ["gas", "oil"], protect=sf.Uniform("3/2"), optional=True),
        ],
    )


def trips(channel: Any = None, epsilon: Any = 1) -> sf.Study:
    """Whole records of two ordered axes."""
    return whole("trips", [sf.integers("hour", 0, 5), sf.integers("zone", 0, 7)], epsilon, channel)


def visits(channel: Any = None) -> sf.Study:
    """Whole records of axes with and without order, one of them optional."""
    axes = [
        sf.times("arrival", "08:00", "12:00", step="1 hour"),
        sf.categories("ward", ["a", "b", "c"], optional=True),
        sf.reals("stay", edges=[0, 1, 3, 10], outside="clip", unit="hours"),
    ]
    return whole("visits", axes, 2, channel)


# Every study that follows from its words alone, and its fingerprint.
STUDIES: dict[str, Kept] = {
    # Axes
    "ages": (
        lambda: one(sf.integers("age", 0, 99, protect=sf.Distance(0.2))),
        "acd79c60b5fc0b6a92257a59fc4ac1fb6da7e2b4cc37aabf64495090cf176b1d",
    ),
    "below zero": (
        lambda: one(sf.integers("t", -20, 20, unit="°C", protect=sf.Distance("1/3", per=5))),
        "5de5c7325550f50a4a9f324b19d95b2b498c63251232aa927821cdac3338c205",
    ),
    "clipped": (
        lambda: one(sf.integers("x", 1, 9, outside="clip", protect=sf.Distance(1))),
        "5c4908e45d3cd1255dd0ec78064121b04ed72f02209200cc3e64a90ee040567e",
    ),
    "clipped by the study": (
        lambda: one(sf.integers("x", 1, 9, protect=sf.Distance(1)), outside="clip"),
        "5c4908e45d3cd1255dd0ec78064121b04ed72f02209200cc3e64a90ee040567e",
    ),
    "equal bins": (
        lambda: one(sf.reals("pay", 0, 200_000, bins=16, protect=sf.Distance(1, per=10_000))),
        "a5a343710031f77371fcd694017f960694258d610212177775dac43de2b4c86b",
    ),
    "edges": (
        lambda: one(
            sf.reals("u", edges=[0, 1, 3, 7, 20, 50], protect=sf.Distance(0.4, per=2)),
            channel=sf.Thermometer(),
        ),
        "a180ed870299c1295742afb9f5890be3e118938164d762eb4a6766f5d89b4463",
    ),
    "stochastic rounding": (
        lambda: one(sf.reals("x", 0, 5, bins=5, rounding="stochastic", protect=sf.Distance(1.5))),
        "ab0a3e53168a4d611a9b41e783378d9889633caaf2f51d4abba6af125111868c",
    ),
    "rounding, capped": (
        lambda: one(
            sf.reals("x", -2, 2, bins=8, rounding="stochastic", protect=sf.Distance(1, cap=2))
        ),
        "df4b1c1f6df34892d3469421ead393b60275f66acc4e5e827bfb0f178ae2b2c4",
    ),
    "weeks": (
        lambda: one(
            sf.dates(
                "visit",
                "2024-01-01",
                "2024-03-31",
                step="1 week",
                protect=sf.Distance(1, per="1 week"),
            )
        ),
        "bbb4ddaac19280491c3433e26aa0232bbf89cd5376ad644d5df0970e3e700e7d",
    ),
    "days": (
        lambda: one(
            sf.dates(
                "day",
                "2024-02-25",
                "2024-03-05",
                outside="clip",
                optional=True,
                protect=sf.Distance(1, per="7 days", no_answer="10 days"),
                channel=FloatExponential(),
            )
        ),
        "7373c70c2237d52b484c98d0e229eeac50b79ca46ceaa0120372d20f4ed231ee",
    ),
    "time of day": (
        lambda: one(sf.times("leave", **CLOCK, protect=sf.Distance(1, per="1 hour"))),
        "a97c95eda6e686ffee94caa6e0abf45568a78420a350ea33b058dde618b5d1a6",
    ),
    "moments": (
        lambda: one(
            sf.times(
                "seen",
                "2024-03-01 00:00",
                "2024-03-04 00:00",
                step="6 hours",
                protect=sf.Distance(1, per="1 day"),
            )
        ),
        "3196444ea3b0a6027e54821a1fe1d6f19bce80e08dbf0b9d15d39a3aa6ad1fe7",
    ),
    "optional labels": (
        lambda: label(sf.Uniform("1/3"), optional=True),
        "1651e09b2237a107603745e4ddb83a5cfc11610f4a4d9f526429dd6114360581",
    ),
    # Metrics
    "capped": (
        lambda: one(
            sf.integers("x", 0, 30, protect=sf.Distance(0.5, cap=3)), channel=sf.Geometric()
        ),
        "81a9ca0b91626b8e80a25d873103aaddfb34a0bec2a1951839c98931f534e6c8",
    ),
    "capped, unequal": (
        lambda: one(
            sf.reals("x", edges=[0, 1, 3, 8], protect=sf.Distance(1, cap=2)),
            channel=FloatExponential(),
        ),
        "b5c2f42c259026f9592558dda44ec7770b77d705388a0173adf4e114d660b297",
    ),
    "no answer": (
        lambda: aside(FloatExponential()),
        "b84965a02143f75f5cd6a780029d4ff3913a366511be20a7e015fad7f74c8572",
    ),
    "blocks": (
        lambda: label(sf.Blocks(1, [TOWNS[:2], TOWNS[2:]]), sf.Hadamard()),
        "aa487f4a7a3bf06f21250089eba962d7bead22a8b8e9db6977d9f44de02c4059",
    ),
    "high and low": (
        lambda: label(sf.HighLow(1, ["Ash"]), sf.Hadamard()),
        "fa750e12238212524bfd57c5ce5372c318ab95862660ca63e5a866f6fdd6d622",
    ),
    "sensitive set": (
        lambda: label(sf.SensitiveSet("1/2", ["Ash", "Fir"]), FloatExponential()),
        "4ee22ead6590b50e5df11b067706805b70507625b2d5bb7bf27f25eacdbab190",
    ),
    "policy graph": (
        lambda: label(sf.PolicyGraph(0.5, ROADS), FloatExponential()),
        "1633d58cfb794acf85e19c70c5587e71146c27a53fcb33e998a941c801f75536",
    ),
    "points": (
        lambda: label(sf.Points(1, per=2, at=PLACES), FloatExponential()),
        "ddfd54ee5a3a138852f84215bb64c182edbed5a04ee6ba85a900026a020cbcb0",
    ),
    "points, by blocks": (
        lambda: label(sf.Points(1, at=PLACES, norm=1), FloatExponential()),
        "db29a278a14799c5ca7802bf5fdb9b0033703de8b8f52d6d1160ddba323a21e1",
    ),
    "matrix": (
        lambda: one(
            sf.categories(
                "a", ["x", "y", "z"], protect=sf.Matrix([[0, 1, 5], [1, 0, "1/3"], [5, "1/3", 0]])
            ),
            channel=FloatExponential(),
        ),
        "088dcf01884e9a8c9d6fcb8cb14709ca70e967a007c93646f8829e43b1591780",
    ),
    "matrix, named, one-sided": (
        lambda: one(
            sf.categories(
                "a",
                ["x", "y", "z"],
                protect=sf.Matrix(
                    [[0, 1, 2], [2, 0, 1], [1, 1, 0]],
                    labels=["z", "y", "x"],
                ),
            ),
            channel=FloatExponential(),
        ),
        "5ee7f2facaa8b08a15e830e2c6d7dfe5c357a4d2a5dc3cb017c3f6687e549845",
    ),
    "sum": (
        lambda: one(
            sf.integers("x", 0, 9, protect=sf.Distance(0.1) + sf.Uniform(1)),
            channel=FloatExponential(),
        ),
        "0e8a05295a3ce3ca80f780526a13492b8611b9aaebdcc8a3b443c91432d22df3",
    ),
    "sum, in full": (
        lambda: label(sf.Sum([sf.Uniform(1), sf.SensitiveSet(1, ["Elm"])]), FloatExponential()),
        "57eebfaaca6710e9728de816f65bafeef5314187cac50fc693e7f7989f4c9972",
    ),
    "within": (
        lambda: one(sf.integers("x", 0, 20, protect=sf.Within(1, 5)), channel=FloatExponential()),
        "318534440488badfa4134462d9df4e2a9cb4eb2dfa7248f540835adefac89b20",
    ),
    "within, smoothly": (
        lambda: label(sf.Within(1, "3/2", beyond="smooth", at=PLACES, norm=2), FloatExponential()),
        "7cfa568f34b48f0f7a63b606748105d1d7409d6e1926b399937f274e20bcde97",
    ),
    "straight lines": (
        lambda: sf.Study(
            "map", [sf.integers("x", 0, 9), sf.integers("y", 0, 9)], protect=sf.Lp(1, p=2)
        ),
        "2fb24c5ce03a8527123e3777e116f6c780e359aa584a23f4bb786ed7d2b98a84",
    ),
    "city blocks": (
        lambda: sf.Study(
            "map", [sf.integers("x", 0, 9), sf.integers("y", 0, 9)], protect=sf.Lp(1, 1, per=2)
        ),
        "64fca6597354449a1344c8ee4083ee22c4fd19efd4224694b3003595f6689e56",
    ),
    "chessboard": (
        lambda: sf.Study(
            "cube",
            [sf.integers(name, 0, 4) for name in "xyz"],
            protect=sf.Lp(1, p=float("inf")),
        ),
        "763584e5760443803adad112abb45534051e7b046f53a83134643c106e8e88fa",
    ),
    # Channels
    "geometric": (
        lambda: line(sf.Geometric()),
        "c28aabf3d6919bf0dfbc6fc2efc4114c5dc6967537e2d8a3fc2b97052b701707",
    ),
    "thermometer": (
        lambda: line(sf.Thermometer()),
        "591e11c4c462c2b7a57b07d5f624be27d53c0e48ced5f468d07c5b1d77222f21",
    ),
    "thermometer, published": (
        lambda: line(sf.Thermometer(variant="published")),
        "f0f68b2a5d606bfbafe678911c0ddb160013fd88e3bef5f818a11dac074ba57f",
    ),
    "exponential": (
        lambda: line(FloatExponential()),
        "dfcce066bd5e78d134e27b2dd34d8b6202c40681be242c642cb8f9df8fdaf284",
    ),
    "exponential, exact": (
        lambda: line(sf.Exponential()),
        "5149d29564309fa062607f711f59d6ae447627f16cd0daf05597c37522a914ff",
    ),
    "points, exact": (
        lambda: label(sf.Points(1, per=2, at=PLACES), sf.Exponential()),
        "2d9e92eb421bd2aa700e1040af47d867b274c08b487124b24ea8a25dc1f6ede6",
    ),
    "k-ary response": (
        lambda: plain(sf.KaryResponse()),
        "169b23dba82cc0ccf4e1f34a789eced7b2a519ee94255cd855064b21a83cbafa",
    ),
    "square wave": (
        lambda: plain(sf.SquareWave()),
        "0d742cc22681eee853083fb3808a05455c81585b2407d9e58d93e8c67590a106",
    ),
    "square wave, width": (
        lambda: plain(sf.SquareWave(width=3)),
        "c1f1f86565dc5aa5c0b26e6f2c0d0df52213b9f259ae21638e324438770a6eea",
    ),
    "comb": (
        lambda: plain(sf.Comb()),
        "b73aaba123feed3b53b79efd67d842353bbe4e65786404747a5de8abcd20ccb1",
    ),
    "oue": (
        lambda: plain(sf.OUE()),
        "b699d1d5b15f50a0ad8e802b6e1f668da3d3db2460241d70ed5575dd934cdc0e",
    ),
    "olh": (
        lambda: plain(sf.OLH()),
        "8de44ade27bd4d9cb8da8fd9cb12a6976a8acb97dc433c5ff23b95a81b7973a4",
    ),
    "olh, g": (
        lambda: plain(sf.OLH(g=5)),
        "eff7a256246009df870bbdcf1cc9b8c7f830b4ca8be94a167c67f82026bef06c",
    ),
    "hrr": (
        lambda: plain(sf.HRR()),
        "79139b33f7d60ad02918c3c779a9e90bd67932a0107772a0bfc19a2cefaa291d",
    ),
    "hierarchical": (
        lambda: plain(sf.Hierarchical(), 20),
        "285345df58f13dd0258e4c620f3f1dde960d67d270f7a068f2eb3796d019994c",
    ),
    "hierarchical, options": (
        lambda: plain(sf.Hierarchical(2, "hrr", ["1/2", "1/4", "1/4"], consistency=False), 8),
        "ac52822a989381ac86eadd37da80228412f9c70c32b589d8e08746dac8fef419",
    ),
    "haar": (
        lambda: plain(sf.HaarHRR(), 16),
        "2abd85769f9e0e77505d09aa24cc9be38ec575f15eabbae37b7e2f8aa99162ed",
    ),
    "haar, optimised levels": (
        lambda: plain(sf.HaarHRR(levels="optimised"), 16),
        "2f19aae1c0c8153e451a4a5cdd65fbad440be196597d0041738958ad481cef4e",
    ),
    "binary": (
        lambda: one(
            sf.categories("used", ["yes", "no"], protect=sf.Uniform(1), channel=sf.Binary())
        ),
        "63f18c9c942bb6373d2ac1899cae0e4f2270368ef8cde2978dd5b5e8ccf98511",
    ),
    "hadamard": (
        lambda: label(sf.Blocks(2, [TOWNS[:3], TOWNS[3:]]), sf.Hadamard()),
        "c6421135c8fbaabf2a1cfd448299fe6499a8f6022f4ee6657c58aa121093b4b2",
    ),
    "extended": (
        lambda: label(sf.HighLow(1, TOWNS[:3]), sf.Extended(sf.Hadamard())),
        "3334ebdd559e6e1f3a1c795558040e5e6e573359b5b62b1063f60248bbed9d75",
    ),
    "per block": (
        lambda: label(sf.Blocks(2, [TOWNS[:3], TOWNS[3:]]), sf.PerBlock(sf.KaryResponse())),
        "d75fc8f3450a40294877d46724a520fca89840d83e448c51620bd6cf740aa46f",
    ),
    "stricter": (
        lambda: one(
            sf.integers("x", 0, 20, protect=sf.Within(1, 5)),
            channel=sf.Stricter("line", sf.Geometric(), 2),
        ),
        "8b314fea8d5cf68b01f684820d8a8d35e51e323390024b9fa1460fe9df6ab2dc",
    ),
    "product": (
        lambda: one(
            GRID.axis("home", protect=GRID.points(1, per="1 km")), channel=sf.Product((3, 4))
        ),
        "959e9da197115b250ed724581512182833e45899844da4366928ff5258f862f1",
    ),
    # Channels that the planner chooses
    "blocks, as chosen": (
        lambda: label(sf.Blocks(1, [TOWNS[:2], TOWNS[2:]])),
        "c6a763cb29740df55e51f19468714da5141b8d6355e7e07657a34971e8842234",
    ),
    "high and low, as chosen": (
        lambda: label(sf.HighLow(1, ["Ash"])),
        "9199122270f8a0ce2a7f4e8a652a090e1d6ef89d02557f4408a102b4a4213523",
    ),
    "no answer, extended": (
        lambda: aside(sf.Extended(sf.Geometric())),
        "5e4282677dfc868b0fe8a29845495cbd9cf8ead9495c68841365793c0057eb9d",
    ),
    "few people": (
        lambda: one(sf.integers("x", 0, 7, protect=sf.Distance(0.1)), people=1_000),
        "cf6b31955e812166ff3ece4b4a4faec0f2abaf7b61e3141cc0f321136d729370",
    ),
    "many people": (
        lambda: one(sf.integers("x", 0, 7, protect=sf.Distance(0.1)), people=1_000_000),
        "edad71086e2ecc75d9748c5b524067c4e90f6acac5416712d86716408ac6ed21",
    ),
    "nobody knows how many": (
        lambda: one(sf.integers("x", 0, 7, protect=sf.Distance(0.1))),
        "edad71086e2ecc75d9748c5b524067c4e90f6acac5416712d86716408ac6ed21",
    ),
    "plain, ordered": (
        lambda: one(sf.integers("x", 0, 99, protect=sf.Uniform(1)), people=5_000),
        "8fae710aa73ca6014f39803465dbd4810867b3f52d00e6041e12ec8439cbc163",
    ),
    "plain, few cells": (
        lambda: one(sf.integers("x", 0, 3, protect=sf.Uniform(3))),
        "044fd366e257bf7ed71ce187c656600dc8abcd635d3f64d8672eb57234d101c4",
    ),
    "plain, without order": (
        lambda: one(
            sf.categories("code", [f"c{k}" for k in range(40)], protect=sf.Uniform(1)),
        ),
        "f957978e5f0436feea735aeb6e2dcc86546c66c44fbc00b2821f19431e034085",
    ),
    "two labels": (
        lambda: one(sf.categories("ill", ["yes", "no"], protect=sf.HighLow(1, ["yes"]))),
        "b2415d3bcf7a72650bd742f5b8515fbc10b00c31c9c983a89b157ce7360b6ded",
    ),
    # Several axes
    "commute": (commute, "47ad92e33a7d672e35d896a366330bc5b2ca6e74872282259469853df72c1c88"),
    "survey": (survey, "7250503f3bd3934e9d20e0b38b569b85aa105ccc211dc72a1fe0d20cf6cd745f"),
    "survey of many": (
        lambda: sf.Study("survey", survey().axes[1:3], people=100_000),
        "750ea32df9e25426949c1e9713ee1cb99906f6f106285f21ab5abd161b85984f",
    ),
    "one channel for all": (
        lambda: sf.Study(
            "both",
            [sf.integers(name, 0, 9, protect=sf.Distance(1)) for name in ("a", "b")],
            channel=sf.Thermometer(),
        ),
        "aa0a4606c06239af3e17855b18464d442d5aaaab9c1c4fd979cdaf5931c621de",
    ),
    # Whole records
    "trips": (trips, "460570c2597d0e49c54f7c5260d7327011ca0fa903b7f2719164ba044338f04c"),
    "trips, hierarchical": (
        lambda: trips(sf.Hierarchical(2)),
        "8ef2b29fac4ef37020510671d9c1943a90d7d0c426d0108ad3e370cfc38f6534",
    ),
    "trips, best": (
        lambda: trips(sf.Hierarchical(4, "best", "optimised")),
        "175c14bc8275314b1a57212b36d1d796f6a4cd450f1d6b0a414a9d5b0fea6fb2",
    ),
    "trips, comb": (
        lambda: trips(sf.Comb()),
        "460570c2597d0e49c54f7c5260d7327011ca0fa903b7f2719164ba044338f04c",
    ),
    "trips, haar": (
        lambda: trips(sf.HaarHRR()),
        "013cbfb77e5400ab555a553c744a2637572a747146cdcb0318c611518009c111",
    ),
    "trips, k-ary response": (
        lambda: trips(sf.KaryResponse(), "5/2"),
        "0a83bf1a9ef747cbefe26f2be11d5b69daafea494af17d393abb45cc5caf9724",
    ),
    "visits": (visits, "6a325a4d476d3b5a720bc65a0e53e2e154ebc92b873a68013fb0a8762be4c864"),
    "visits, hrr": (
        lambda: visits(sf.HRR()),
        "6c881d27dcfdff2f032a7ed3dcc4c9f170217eeb1cfc94ae4f7fd999f177b65c",
    ),
    "visits, olh": (
        lambda: visits(sf.OLH(g=3)),
        "344a1b4a165dd7268b8c119e71ba560a840256450750ae2ec5bd70a2c2830c1b",
    ),
    "labels alone": (
        lambda: whole("labels", [sf.categories("a", ["x", "y"]), sf.categories("b", TOWNS)], "1/2"),
        "de6bc1ce59ba552779b40371c143c6b358a6d8ce3b51704c72ae923d8821c7ce",
    ),
    "one axis under one ε": (
        lambda: whole("alone", [sf.integers("x", 0, 12)], 1),
        "03c8c5769bcecef0426379bbc121914bff087c6f80d8f312f4d2c6decb78f6cb",
    ),
    "one axis, named": (
        lambda: whole("alone", [sf.integers("x", 0, 12)], 1, sf.OUE()),
        "2b0c58f6e0604acc2a24718a910111db0b36a6ec4c0d6a8c5001f08f15710c79",
    ),
    # Places on a map
    "grid": (
        lambda: one(GRID.axis("home", protect=sf.Uniform(1))),
        "06df9c155e13c0d8d73d64af37cdd0a753f2bd28cf9b5f4231618bc9275333c6",
    ),
    "grid, blocks": (
        lambda: one(
            GRID.axis("home", protect=GRID.blocks(1, 1, 2), optional=False),
            channel=sf.Hadamard(),
        ),
        "cc91688858c743a2de5e2e382c236fa986fd249fcb6e4dfd98cd0865d0c10496",
    ),
    "grid, regions": (
        lambda: one(
            GRID.axis(
                "home",
                protect=GRID.regions(1, {"west": ["r1c1", "r2c1", "r3c1"]}, rest="together"),
            ),
            channel=sf.Hadamard(),
        ),
        "595884e8f89aabc46ec2731432dccf9e3c13067c2cd82da02ab509506bfd8646",
    ),
}

# What a search finds, or the sines of a processor, may have other last digits on another machine:
# the files of these carry it, and only the files are pinned.
FOUND: dict[str, Kept] = {
    "optimised": (
        lambda: plain(sf.Optimised(), 8),
        "9e042eae841759c5304a8444d8500f26fadc838f9dd11eb8038b0bea1dff8594",
    ),
    "optimised, own questions": (
        lambda: plain(sf.Optimised([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]], outputs=8), 5),
        "f95666446a585c9f59916536195b13ab24fa7cacf5acbfffc3f378641eb05b82",
    ),
    "extremal": (
        lambda: label(sf.Points(1, at=PLACES), sf.Extremal()),
        "efee56786b682d81705074e3a02c47fcce3d0af906454ccf52397bdfc944e2f8",
    ),
    "extremal, exact": (
        lambda: label(sf.Points(1, at=PLACES), sf.Extremal()),
        "3b65094fc4c80105ee76c1d9ebd92e1433a5d1c8ee9e247d9b3eb5899d0188c7",
    ),
    "matrix response": (
        lambda: label(sf.PolicyGraph(1, ROADS), sf.MatrixResponse()),
        "912551fd5a4cbdb304095092a5fa475423623ab6db514dcc811bc285403937ee",
    ),
    "matrix response, prefix": (
        lambda: line(sf.MatrixResponse("prefix"), 6),
        "b9d64e7b392e18e53861c0995cd2707c5eb8989c9d9b88adf8ff26da0b002bbf",
    ),
    "grid, points": (
        lambda: one(GRID.axis("home", protect=GRID.points(1, per="1 km"))),
        "772ab221ea92b89cfdbc8ac9502062e2b142827eebfbfa8a3d94253055b1802c",
    ),
}

#: Kinds that must be among the studies: all that a file can name at the time of writing.
CHANNELS = {
    "geometric", "thermometer", "kary-response", "exponential", "oue", "olh", "hrr", "square-wave",
    "optimised", "extremal", "matrix-response", "comb", "hierarchical", "haar-hrr",
    "binary", "hadamard", "extended", "per-block", "stricter", "product",
}  # fmt: skip
METRICS = {
    "distance", "uniform", "blocks", "high_low", "sensitive_set", "within", "policy_graph",
    "points", "matrix", "sum",
}  # fmt: skip
DOMAINS = {"integers", "reals", "dates", "times", "categories"}


def spread(values: list[Any], step: int = 7) -> list[Any]:
    """A number of people, more of them with the first values."""
    size = len(values)
    return [values[min(k % size, k // step % size)] for k in range(PEOPLE)]


def towns() -> Table:
    return {"town": spread(TOWNS)}


def numbers(size: int, name: str = "x") -> Table:
    return {name: spread(list(range(size)))}


def trips_people() -> Table:
    return {"hour": spread(list(range(6))), "zone": spread(list(range(8)), 5)}


# People of the studies that are encoded here or have files, made up by arithmetic alone.
TABLES: dict[str, Callable[[], Table]] = {
    "ages": lambda: numbers(100, "age"),
    "edges": lambda: {"u": spread([0.5, 2, 3, 6.5, 19, 20, 49])},
    "stochastic rounding": lambda: {"x": spread([0, 0.25, 1.5, 2.75, 3, 4.125, 5])},
    "rounding, capped": lambda: {"x": spread([-2, -1.25, 0.5, 1.75, 2])},
    "days": lambda: {"day": spread(["2024-02-25", "2024-02-29", None, "2024-03-05", "2025-01-01"])},
    "time of day": lambda: {"leave": spread(["06:00", "06:20", "07:45", "09:59"])},
    "moments": lambda: {"seen": spread(["2024-03-01T00:00", "2024-03-02T07:30"])},
    "capped": lambda: numbers(31),
    "no answer": lambda: {"x": spread([*range(10), None])},
    "no answer, extended": lambda: {"x": spread([*range(10), None])},
    "extended": towns,
    "blocks": towns,
    "high and low": towns,
    "points": towns,
    "points, exact": towns,
    "thermometer": lambda: numbers(12),
    "exponential": lambda: numbers(12),
    "exponential, exact": lambda: numbers(12),
    "k-ary response": lambda: numbers(12),
    "square wave": lambda: numbers(12),
    "comb": lambda: numbers(12),
    "oue": lambda: numbers(12),
    "olh": lambda: numbers(12),
    "hrr": lambda: numbers(12),
    "hierarchical": lambda: numbers(20),
    "haar": lambda: numbers(16),
    "binary": lambda: {"used": spread(["yes", "no", "no"])},
    "many people": lambda: numbers(8),
    "commute": lambda: {
        "age": spread(list(range(18, 81))),
        "mode": spread(["car", "bus", None, "bike"], 3),
    },
    "survey": lambda: {
        "rooms": spread([*range(1, 12), None]),
        "income": spread([k * 12.5 for k in range(8)], 3),
        "moved": spread([f"2024-01-{day:02}" for day in range(1, 15)]),
        "heating": spread(["gas", None, "oil"]),
    },
    "trips": trips_people,
    "trips, hierarchical": trips_people,
    "trips, haar": trips_people,
    "visits": lambda: {
        "arrival": spread(["08:00", "09:30", "11:59"]),
        "ward": spread(["a", "b", None, "c"]),
        "stay": spread([0, 0.5, 1, 2.5, 9, 12]),
    },
    "optimised": lambda: numbers(8),
    "optimised, own questions": lambda: numbers(5),
    "extremal": towns,
    "extremal, exact": towns,
    "matrix response": towns,
    "matrix response, prefix": lambda: numbers(6),
    "trips, best": trips_people,
    "grid, points": lambda: {"home": spread(["r1c1", "r1c2", "r2c3", "r3c4"])},
}

# Studies with files, and what their tallies are asked.
ASKED: dict[str, list[str]] = {
    "ages": ["age=18..30", "age=65.."],
    "stochastic rounding": ["x=1..3"],
    "days": ["day=2024-02-29..2024-03-02", "day=no answer"],
    "thermometer": ["x=3..7", "x=0"],
    "oue": ["x=3..7"],
    "hierarchical": ["x=3..7", "x=19"],
    "blocks": ["town=Ash", "town=Cedar|Elm"],
    "commute": ["age=18..30", "age=40..60, mode=bike", "mode=no answer"],
    "survey": ["rooms=2..4, heating=gas", "income=25..75, moved=2024-01-08.."],
    "trips": ["hour=0..2, zone=3..6", "zone=1"],
    "trips, hierarchical": ["hour=0..2, zone=3..6", "hour=5"],
    "visits": ["arrival=08:00..10:00, ward=a", "stay=1..3"],
    "optimised": ["x=2..5"],
    "optimised, own questions": ["x=0..1"],
    "extremal": ["town=Birch", "town=Cedar|Fir"],
    "points, exact": ["town=Birch", "town=Cedar|Fir"],
    "extremal, exact": ["town=Birch", "town=Cedar|Fir"],
    "matrix response": ["town=Birch", "town=Cedar|Fir"],
    "matrix response, prefix": ["x=2..4"],
    "trips, best": ["hour=0..2, zone=3..6"],
    "grid, points": ["home=r1c1|r1c2"],
}
#: Of these, likelihood answers are kept as well.
DECODED = ("ages", "thermometer", "commute", "trips", "extremal")
#: These were written by the commands `encode` and `tally`, all others by Python calls.
BY_COMMAND = ("commute", "survey", "thermometer", "trips")

# Digests of what `encode` makes of the people above with SeededBits(7): the same bits are drawn in
# the same order and used alike.
ENCODED: dict[str, str] = {
    "ages": "feb9dee9b3767efc1eaf62a51c34da50466b4b992d782185b98422162ba946a7",
    "edges": "1dfc8faad16becd39567631eb964f562ec649cce4e530cfaea25a01ca17115b3",
    "stochastic rounding": "271f97aa8ff750c134dceaf0a262737228aabeb1acc85ae10f5ae926f3992701",
    "rounding, capped": "a9b09e7e75c6848577a10b35b6c092fff916b4c830b8df69e5480016b171c881",
    "days": "1acf4fed8f0900d28c1bcf99384e5d3cafc702f995cc1558b634dd43ae4f4af4",
    "time of day": "9a650f4749be108810dc7bc4678914cbf23200a7efa1f07a4beede06a0dd4f91",
    "moments": "1e61d882ce2f5b774318589d9cbbd19f15bc94bf9b5ac242896e868dec0434ab",
    "capped": "6880f4904a7766f98dab597a4760d81efb9d3fc0d83da7436b96c2dd7e97bdd9",
    "no answer": "e70be71a63635a617a09339c035075b018d054b065a44a9bf3ba7178608b9b64",
    "no answer, extended": "6c3ad805afe315537225502e4a02b9c11d83b8886bf918bce960db6494ca7f24",
    "extended": "ba2c1bdaca90dc70740829ebc4fd363cfe2e6f42bd0600a3d50615a933ae989d",
    "blocks": "00546179d37209caab0e81c4a7bb05835cdf06d67832cf2c172087ad5146bef3",
    "high and low": "09ce8aeaa45b271c81bb30fbac8a4de741b45c126a4a7aa44174e8f055ea0907",
    "points": "95b758a5ed6a15f614becfb7c7ab4d35ded4119c3a48a08e801b6aeade6e2c75",
    "thermometer": "eb52c408aa188e6ea9401c1502789bb89f751017e00ec9dcc7fc69d1f0db8409",
    "exponential": "7f93f005d9f08c4e21cf4d6cb3061143922742b36cfbbe27a6d3686a10e59445",
    "k-ary response": "4d36c7b264602433f59bdd65daaca573642a2ae60050847b51543e54d763923e",
    "square wave": "b19150f105d0bee5245ebb891320bb291ab7ab22852a5be78737c2bd8c703628",
    "comb": "769dfb664520e3141e12a2f4ade717c2513fdc02948468cc69badf929a7710bd",
    "oue": "05490eb6e55340e1b401711fb2f8d945e4946a68a86b8147cfbaef685c34c3ce",
    "olh": "a2303d31978f6b77094e5d3dfafb754b33eca1f058aad8cc6a8bb2002b16ec31",
    "hrr": "4178f67687610592a9a351d81ff75a6bde99e98c7eacd0e94768c170c26f3a7e",
    "hierarchical": "c608153e521ca8e7e5069b37343997ccaaaa50dee3d17a5d79c1dfdf7f6c8ab1",
    "haar": "88b3fd18db421ae2d7b80bf235f884508c6e6989e3c0ea90f1d36fff52232e4c",
    "binary": "bc9853506239c37c5d856ce32ec52079c1f54f86256911876a7ae29a31896c85",
    "many people": "4984d270cc11aaa4fd072f7c334559061a08538d42f69e50d0d1ae05e0f144d2",
    "commute": "da36dd3837dfb233ae9aae8ae8ed5d6dd8cbade8c9ce0c0710d1a0ccbf39d1f4",
    "survey": "eeb0539adfc87364134309150ddcc3748b104a92fcad85f2b40c44aae9ba0442",
    "trips": "6103334733ca67eca8aaafaa1348576d56827add6467e4ee325c35dabfebe427",
    "trips, hierarchical": "b0d9fd0d051b1fb44f473e43113bfd5ba53dc081516d04d7f6a303e5b0e26d2e",
    "trips, haar": "b1b9cb2747d3e1b6bde89592626fe35a364bc810c90d27dcf4adc6889ee9442b",
    "visits": "a0fc3a0114cfa6076b738bb166a12b2863604778d0b4cfbfa41c52fd0c3a08bf",
    "optimised": "cf8fa8f41c6a07df9a69a9dd4592c6e26bd9af722421197b3ba9681a66f588a3",
    "optimised, own questions": "660d82747a79d69102e21ef00a00dd0ded891ee632b0a569395006196c8f9b07",
    "exponential, exact": "7f93f005d9f08c4e21cf4d6cb3061143922742b36cfbbe27a6d3686a10e59445",
    "points, exact": "95b758a5ed6a15f614becfb7c7ab4d35ded4119c3a48a08e801b6aeade6e2c75",
    "extremal, exact": "5daa8d4119992fdf24c9f1f4b0f8dd1dd1d8c808fd700cbece589923e401c9eb",
    "extremal": "5daa8d4119992fdf24c9f1f4b0f8dd1dd1d8c808fd700cbece589923e401c9eb",
    "matrix response": "0ea419678270e5bdd584d383f17ceab9791d8e2a27eba5b65700a6603cc34ccd",
    "matrix response, prefix": "cd515f0f48d1141258eb596373182d6e560b768db2016ce73f7730d370ad1ade",
    "trips, best": "a4464530be8a1824ccaa9b77f91093d7e2f184114327a22b1662cdba78efc3d0",
    "grid, points": "983e60500641a4a6a7ffc466f61814cb82582e97b08926b64bd105a0824f02a0",
}

LEDGER = KEPT / "commute.ledger"  # of format 1
TIED = KEPT / "tied.ledger"  # of format 2
RELEASES = ("first", "means", "mwem")


def built(name: str) -> sf.Study:
    """A study made anew, or loaded from its file where it cannot be made."""
    return STUDIES[name][0]() if name in STUDIES else sf.Study.load(path(name, "study.toml"))


def pinned(name: str) -> str:
    """The fingerprint of a study."""
    return (STUDIES.get(name) or FOUND[name])[1]


def path(name: str, kind: str) -> Path:
    """The file of a study."""
    return KEPT / f"{name.replace(',', '').replace(' ', '-')}.{kind}"


@cache
def expected() -> dict[str, Any]:
    """What the version that wrote the files answered."""
    found: dict[str, Any] = json.loads((KEPT / "expected.json").read_text(encoding="utf-8"))
    return found


def digest(reports: sf.Reports) -> str:
    """A digest of reports, whatever holds them in memory."""
    table = reports.to_arrow()
    columns = [(field.name, str(field.type)) for field in table.schema]
    return hashlib.sha256(repr((columns, table.to_pydict())).encode()).hexdigest()


def answers(tally: sf.Tally, name: str) -> dict[str, Any]:
    """A tally as it is kept for comparison."""
    unbiased = tally.estimate(method="unbiased")
    found: dict[str, Any] = {"reports": tally.n, "unbiased": {}}
    for question in ASKED[name]:
        answer = unbiased.count(question)
        found["unbiased"][question] = [answer.value, answer.stderr]
    if name in DECODED:
        likely = tally.estimate(method="likelihood")
        found["likelihood"] = {question: likely.count(question).value for question in ASKED[name]}
    return found


def check_answers(tally: sf.Tally, name: str) -> None:
    """Whether a tally says what it said."""
    kept, now = expected()["tallies"][name], answers(tally, name)
    assert now["reports"] == kept["reports"] == PEOPLE
    assert list(now["unbiased"]) == list(kept["unbiased"])
    for question, figures in kept["unbiased"].items():
        assert now["unbiased"][question] == pytest.approx(figures, rel=1e-9), question
    # The decoder stops once a step gains next to nothing: its answers are as sure as that.
    # A better decoder may move likelihood answers, by far less than their errors of several people.
    assert now.get("likelihood", {}) == pytest.approx(
        kept.get("likelihood", {}), rel=1e-4, abs=0.01
    )


def ledger_words(ledger: sf.central.Ledger) -> dict[str, Any]:
    """A ledger as it is kept for comparison."""
    return {
        "total": str(ledger.total),
        "used": {name: str(share) for name, share in ledger.used().items()},
        "left": {name: str(share) for name, share in ledger.left().items()},
        "remaining": str(ledger.remaining),
        "states": [entry.state for entry in ledger.entries],
        "people": [entry.people for entry in ledger.entries],
        "spent": [str(entry.spend) for entry in ledger.entries],
    }


# Studies


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_made_of_the_same_words_has_the_same_fingerprint(name: str) -> None:
    study = STUDIES[name][0]()
    assert study.fingerprint == STUDIES[name][1]
    again = sf.Study.from_toml(study.to_toml())
    assert again.fingerprint == study.fingerprint
    assert again.to_toml() == study.to_toml()


def test_all_kinds_of_axes_metrics_and_channels_are_kept() -> None:
    channels, metrics, domains = set(), set(), set()
    for name in [*STUDIES, *FOUND]:
        data = tomllib.loads(built(name).to_toml())
        for part in [data, *data["axes"]]:
            held = part.get("channel") or part.get("mechanism")
            channels |= {held["kind"]} if held else set()
            metrics |= {part["protect"]["kind"]} if "protect" in part else set()
        domains |= {axis["domain"]["kind"] for axis in data["axes"]}
    assert (channels, metrics, domains) == (CHANNELS, METRICS, DOMAINS)


def test_no_two_kept_studies_are_alike_but_those_that_say_the_same() -> None:
    seen: dict[str, str] = {}
    same = set()
    for name in [*STUDIES, *FOUND]:
        if pinned(name) in seen:
            same.add((seen[pinned(name)], name))
        seen.setdefault(pinned(name), name)
    assert same == {
        ("clipped", "clipped by the study"),  # said by the axis, or for all axes
        ("many people", "nobody knows how many"),  # the planner chooses alike
        ("trips", "trips, comb"),  # named, or chosen by the planner
    }


# Files


@pytest.mark.parametrize("name", ASKED)
def test_a_study_file_loads_and_is_written_the_same(name: str, tmp_path: Path) -> None:
    file = path(name, "study.toml")
    study = sf.Study.load(file)
    assert study.fingerprint == pinned(name)
    assert study.to_toml() == file.read_text(encoding="utf-8")
    study.save(tmp_path / "again.toml")
    assert (tmp_path / "again.toml").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("name", ASKED)
def test_reports_load_and_tally_to_the_same_answers(name: str) -> None:
    study = sf.Study.load(path(name, "study.toml"))
    reports = sf.Reports.load(path(name, "reports.parquet"))
    assert reports.fingerprint == study.fingerprint
    assert len(reports) == PEOPLE
    assert digest(reports) == expected()["reports"][name]
    tally = study.tally(reports)
    assert tally == sf.Tally.load(path(name, "tally.parquet"), study)
    assert study.tally(reports.to_arrow()) == tally
    check_answers(tally, name)


@pytest.mark.parametrize("name", ASKED)
def test_a_tally_loads_and_gives_the_same_answers(name: str) -> None:
    study = sf.Study.load(path(name, "study.toml"))
    check_answers(sf.Tally.load(path(name, "tally.parquet"), study), name)


def test_reports_and_tallies_of_another_study_are_still_refused() -> None:
    study = sf.Study.load(path("ages", "study.toml"))
    with pytest.raises(sf.MismatchError):
        study.tally(sf.Reports.load(path("commute", "reports.parquet")))
    with pytest.raises(sf.MismatchError):
        sf.Tally.load(path("commute", "tally.parquet"), study)


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_loads_and_is_written_the_same(name: str, tmp_path: Path) -> None:
    file = KEPT / f"{name}.release.json"
    release = sf.central.Release.load(file)
    assert release.fingerprint == pinned("commute")
    assert release.n == PEOPLE
    kept = expected()["releases"][name]
    assert release.spent == kept["spent"]
    for question, figures in kept["answers"].items():
        answer = release[question]
        found = [answer.value, answer.low, answer.high]
        assert found == pytest.approx(figures, rel=1e-9), question
    release.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == file.read_bytes()


def test_a_ledger_loads_and_says_the_same() -> None:
    ledger = sf.central.Ledger.load(LEDGER)
    assert ledger.fingerprint == pinned("commute")
    assert ledger_words(ledger) == expected()["ledger"]


def test_a_ledger_goes_on_where_it_was(tmp_path: Path) -> None:
    copy = tmp_path / LEDGER.name
    shutil.copy(LEDGER, copy)
    ledger = sf.central.Ledger.load(copy)
    before, left = len(ledger.entries), ledger.left()
    data = sf.central.Data(sf.Study.load(path("commute", "study.toml")), TABLES["commute"]())
    asked = sf.central.Laplace(["age=18..30"])
    made = sf.central.release(data, asked, spend="1/16", ledger=ledger, bits=sf.SeededBits(SEED))
    assert [made[0].value, made[0].stderr] == pytest.approx(expected()["next release"], rel=1e-9)
    again = sf.central.Ledger.load(copy)
    assert len(again.entries) == before + 1
    assert again.left() == {**left, "age": left["age"] - Fraction(1, 16)}
    with pytest.raises(sf.LedgerError):
        sf.central.release(data, asked, spend=1, ledger=again)


def test_a_ledger_of_format_2_loads_and_goes_on(tmp_path: Path) -> None:
    copy = tmp_path / TIED.name
    shutil.copy(TIED, copy)
    ledger = sf.central.Ledger.load(copy)
    assert ledger_words(ledger) == {
        "total": "3/2",
        "used": {"age": "7/20", "mode": "1/4"},
        "left": {"age": "23/20", "mode": "5/4"},
        "remaining": "23/20",
        "states": ["released", "reserved"],
        "people": [400, 400],
        "spent": ["1/4 of E", "age: E = 0.05 · distance"],
    }
    assert (ledger.fingerprint, ledger.table) == (pinned("commute"), "commute 2026")
    ledger.reserve("1/4", mechanism="one more", people=400, table="commute 2026")
    assert copy.read_bytes().splitlines()[1:5] == TIED.read_bytes().splitlines()[1:]
    assert sf.central.Ledger.load(copy).remaining == Fraction(9, 10)


def test_a_ledger_that_lost_an_entry_is_still_refused(tmp_path: Path) -> None:
    document = json.loads(LEDGER.read_text(encoding="utf-8"))
    document["events"].pop()
    short = tmp_path / "short.ledger"
    short.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(sf.FormatError):
        sf.central.Ledger.load(short)


# Sampling


@pytest.mark.parametrize("name", ENCODED)
def test_the_same_seed_makes_the_same_reports(name: str) -> None:
    reports = built(name).encode(TABLES[name](), bits=sf.SeededBits(SEED))
    assert digest(reports) == ENCODED[name]


def test_all_people_here_are_encoded() -> None:
    assert set(ENCODED) == set(TABLES) >= set(ASKED)


def test_the_folder_holds_what_is_tested_and_stays_small() -> None:
    kinds = ("study.toml", "reports.parquet", "tally.parquet")
    named = {path(name, kind) for name in ASKED for kind in kinds}
    named |= {KEPT / f"{name}.release.json" for name in RELEASES}
    named |= {LEDGER, TIED, KEPT / "expected.json", KEPT / "make.py"}
    there = {file for file in KEPT.iterdir() if file.is_file()}
    assert there == named
    assert sum(file.stat().st_size for file in there) < 400_000
