"""What has to be kept of a decoded population so that it need not be decoded again.

A fit is determined by its strengths and by the distribution over cells at its mode: everything else
follows from these and the reports, without a search. These two functions are all that saved
estimates know of decoders.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.arrays import Floats
from sfumato.estimation.decoding.doubt import Doubt
from sfumato.estimation.decoding.em import Decoded
from sfumato.estimation.decoding.evidence import Posterior
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.fitting import fit_at
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
    best = decoder.posterior.best
    return State((best.law,), (best.field.strengths,))


def decoder_of(mixture: Mixture, state: State) -> Decoder | PlainDecoder:
    """The decoded population of which `state_of` kept the numbers.

    Args:
        mixture: The counts of outputs, and the channels: those that were decoded.
        state: What was kept.
    """
    if not state.strengths:
        (law,) = state.laws
        return PlainDecoder(mixture, Decoded(law, math.nan, 0, True, math.nan))
    (law,), (strengths,) = state.laws, state.strengths
    best = fit_at(mixture, Field(mixture.shape, strengths), law)
    return Decoder(Posterior(mixture, best, None if strengths.is_rough else Doubt(mixture, best)))
