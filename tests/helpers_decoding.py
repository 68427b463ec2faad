"""What tests of likelihood decoding share: small problems, and the model written out in full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from sfumato.channels.base import Channel
from sfumato.channels.geometric import Geometric
from sfumato.estimation.decoding.curvature import Point
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.mixture import Mixture, SymbolMixture

Floats = NDArray[np.float64]

FIELDS = {
    "cells": ((6,), Strengths(0.7, ((0.0, 0.0),))),
    "first": ((6,), Strengths(0.0, ((2.0, 0.0),))),
    "second": ((6,), Strengths(0.0, ((0.01, 30.0),))),
    "ridged": ((6,), Strengths(0.3, ((0.5, 4.0),))),
    "apart": ((6,), Strengths(0.0, ((0.5, 4.0),), 0.2)),
    "plane": ((4, 3), Strengths(0.0, ((1.0, 2.0), (0.5, 0.0)))),
    "mixed": ((4, 3), Strengths(1e-3, ((1.0, 2.0), (0.0, 0.0)))),
}


def line(size: int, epsilon: float, choice: Any = None, cap: float | None = None) -> Channel:
    """The channel of an axis of integers."""
    axis = sf.integers(
        "x", 0, size - 1, protect=sf.Distance(epsilon, cap=cap), channel=choice or Geometric()
    )
    return sf.Study("parts", [axis]).channels[0]


def hump(size: int) -> Floats:
    """A law with one hump and a step."""
    law = np.exp(-(((np.arange(size) - 0.4 * size) / (0.2 * size)) ** 2)) + 0.1
    law[size // 2 :] *= 0.5
    return law / law.sum()


def humps(shape: Sequence[int]) -> Floats:
    """A law with one hump along every axis."""
    law: Floats = np.ones(())
    for size in shape:
        law = np.multiply.outer(law, hump(size))
    return law


def outputs(channels: Sequence[Channel], law: Floats) -> Floats:
    """The distribution of outputs, from the channels' matrices."""
    for channel in channels:
        law = np.tensordot(law, channel.likelihood(), axes=([0], [0]))
    return law


def reports(channels: Sequence[Channel], law: Floats, people: int, seed: int) -> SymbolMixture:
    """A mixture of simulated outputs of people drawn from a distribution over cells."""
    mixed = outputs(channels, law)
    drawn = np.random.default_rng(seed).multinomial(people, (mixed / mixed.sum()).ravel())
    return SymbolMixture.of(channels, drawn.reshape(mixed.shape).astype(np.float64))


def noiseless(channels: Sequence[Channel], law: Floats, people: float) -> SymbolMixture:
    """A mixture of expected counts of outputs, in fractions of people."""
    return SymbolMixture.of(channels, people * outputs(channels, law))


def thermometer_tally(size: int, people: int, epsilon: float = 1.0) -> sf.Tally:
    """A tally of bits."""
    axis = sf.integers("x", 0, size - 1, protect=sf.Distance(epsilon), channel=sf.Thermometer())
    counts = np.random.default_rng(size).multinomial(people, hump(size))
    return sf.Study("bits", [axis]).simulate_counts(counts, seed=3)


def problem(name: str, people: int = 2_000) -> tuple[SymbolMixture, Field]:
    """Reports on a small grid and a prior for it."""
    shape, strengths = FIELDS[name]
    channels = [line(size, 0.8) for size in shape]
    return reports(channels, humps(shape), people, seed=15), Field(shape, strengths)


def law_of(theta: Floats) -> Floats:
    """P ∝ e^θ."""
    law: Floats = np.exp(theta - theta.max())
    return law / law.sum()


def point(mixture: Mixture, field: Field, law: Floats) -> Point:
    """Where a curvature is taken."""
    return Point(mixture, field, law, mixture.forward(law))


def explicit_precision(shape: Sequence[int], strengths: Strengths) -> Floats:
    """P, with every difference as a row of a matrix, and terms of cells by its eigenvalues."""
    cells = math.prod(shape)
    found: Floats = strengths.cells * np.eye(cells)
    grid = np.eye(cells).reshape(*shape, cells)
    for axis, along in enumerate(strengths.along):
        for order, strength in enumerate(along, start=1):
            rows = np.diff(grid, order, axis=axis).reshape(-1, cells)
            found += strength * rows.T @ rows
    if strengths.apart:
        values, vectors = np.linalg.eigh(found)
        values = np.maximum(values, 0.0)
        found = vectors * (values / (1 + strengths.apart * values)) @ vectors.T
    return found


def explicit_information(mixture: Mixture, law: Floats) -> Floats:
    """F = J·Q·diag(w)·Qᵀ·J, with J = diag(p) − ppᵀ as a matrix."""
    flat = law.ravel()
    jacobian = np.diag(flat) - np.outer(flat, flat)
    passed = jacobian @ mixture.matrix
    found: Floats = passed * mixture.weight(mixture.forward(law)).ravel() @ passed.T
    return found


def objective(mixture: Mixture, strengths: Strengths, theta: Floats) -> float:
    """Log-likelihood less ½θᵀΛθ, written out with full matrices."""
    flat = theta.ravel()
    likelihood = float(mixture.counts.ravel() @ np.log(law_of(flat) @ mixture.matrix))
    return likelihood - float(flat @ explicit_precision(theta.shape, strengths) @ flat) / 2


def whitened(shape: Sequence[int], strengths: Strengths) -> Floats:
    """B with θ = B·u for a standard normal u; without the constants where λ₀ is 0."""
    values, vectors = np.linalg.eigh(explicit_precision(shape, strengths))
    start = 0 if strengths.cells else 1
    found: Floats = vectors[:, start:] / np.sqrt(values[start:])
    return found
