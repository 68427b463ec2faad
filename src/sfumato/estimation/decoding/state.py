"""What has to be kept of a decoded population so that it need not be decoded again.

A fit is determined by its strengths and by the distribution over cells at its mode: everything else
follows from these and the reports, without a search. These two functions are all that saved
estimates know of decoders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats
from sfumato.estimation.decoding.em import Decoded
from sfumato.estimation.decoding.evidence import Posterior
from sfumato.estimation.decoding.field import Curvature, Field, Fit, Strengths
from sfumato.estimation.decoding.mixture import Mixture
from sfumato.estimation.decoding.posterior import Decoder, PlainDecoder


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A decoded population as plain numbers.

    Args:
        laws: The distribution over cells of the best fit, then those of rough fits.
        strengths: The strengths of each fit; none for plain maximum likelihood.
    """

    laws: tuple[Floats, ...]
    strengths: tuple[Strengths, ...]


def state_of(decoder: Decoder | PlainDecoder) -> State:
    """The numbers to keep of a decoded population."""
    if isinstance(decoder, PlainDecoder):
        return State((decoder.decoded.law,), ())
    fits = (decoder.posterior.best, *decoder.posterior.rough)
    return State(tuple(fit.law for fit in fits), tuple(fit.field.strengths for fit in fits))


def decoder_of(mixture: Mixture, state: State) -> Decoder | PlainDecoder:
    """The decoded population of which `state_of` kept the numbers.

    Args:
        mixture: The counts of outputs, and the channels: those that were decoded.
        state: What was kept.
    """
    if not state.strengths:
        (law,) = state.laws
        return PlainDecoder(mixture, Decoded(law, math.nan, 0, True, math.nan))
    best, *rough = _fits(mixture, state.laws, state.strengths)
    return Decoder(Posterior(mixture, best, tuple(rough)))


def _fits(mixture: Mixture, laws: Sequence[Floats], strengths: Sequence[Strengths]) -> list[Fit]:
    """The fits with given strengths whose modes are given."""
    found = []
    for law, strength in zip(laws, strengths, strict=True):
        field, mixed = Field(mixture.shape, strength), mixture.forward(law)
        curvature = Curvature(mixture, field, law, mixed)
        mode = field.from_theta(np.log(np.maximum(law, 1e-300)))
        found.append(Fit(field, law, mixed, mode, math.nan, curvature, 0))
    return found
