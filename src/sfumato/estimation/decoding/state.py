"""What has to be kept of a decoded population so that it need not be decoded again.

A fit is determined by its strengths and by the distribution over cells at its mode: everything else
follows from these and the reports, without a search. These two functions are all that saved
estimates know of decoders.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats
from sfumato.estimation.decoding.evidence import Beside, Posterior
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.fitting import fit_at
from sfumato.estimation.decoding.labels import LabelDecoder
from sfumato.estimation.decoding.mixture import Mixture
from sfumato.estimation.decoding.posterior import Decoder, PlainDecoder


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A decoded population as plain numbers.

    Args:
        laws: The distribution over cells of the best fit, then those of rivals; last that beside
            it, if it has a share in the answers.
        strengths: The strengths of each fit; none for plain maximum likelihood.
        beside: The share of the last distribution in the answers; 0 if there is none.
        nearby: Shares of people by the fits that are nearly as good, the best first; or none.
    """

    laws: tuple[Floats, ...]
    strengths: tuple[Strengths, ...]
    beside: float = 0.0
    nearby: tuple[Floats, ...] = ()


def state_of(decoder: Decoder | PlainDecoder | LabelDecoder) -> State:
    """The numbers to keep of a decoded population."""
    if isinstance(decoder, LabelDecoder):
        return State((decoder.counts() / decoder.counts().sum(),), ())
    if isinstance(decoder, PlainDecoder):
        return State((decoder.decoded.law,), ())
    posterior = decoder.posterior
    fits = (posterior.best, *posterior.rivals)
    laws, strengths = zip(*((fit.law, fit.field.strengths) for fit in fits), strict=True)
    nearby = () if posterior.nearby is None else tuple(posterior.nearby)
    if posterior.beside is None:
        return State(laws, strengths, nearby=nearby)
    return State((*laws, posterior.beside.law), strengths, posterior.beside.share, nearby)


def decoder_of(mixture: Mixture, state: State, *, is_ordered: bool) -> Decoder | PlainDecoder:
    """The decoded population of which `state_of` kept the numbers.

    Args:
        mixture: The counts of outputs, and the channels: those that were decoded.
        state: What was kept.
        is_ordered: Whether any axis is ordered.
    """
    if not state.strengths:
        (law,) = state.laws
        return PlainDecoder.of(mixture, law)
    best, *rivals = (
        fit_at(mixture, Field(mixture.shape, strengths), law)
        for law, strengths in zip(state.laws, state.strengths, strict=False)
    )
    beside = Beside(state.laws[-1], state.beside) if state.beside else None
    nearby = np.array(state.nearby) if state.nearby else None
    return Decoder(Posterior(mixture, best, is_ordered, tuple(rivals), beside, nearby))
