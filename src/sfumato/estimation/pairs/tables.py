"""The distribution of people over two axes, given those along each: how the axes interact.

The table is p(x)·r(y)·exp(Σ g_jk·u_j(x)·v_k(y)) with factors along rows and columns that keep both
margins, which all pairs share: so pairs agree wherever they overlap, and no share is negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.arrays import Floats
from sfumato.estimation.pairs.bases import Basis
from sfumato.estimation.pairs.fitting import best_fit
from sfumato.estimation.pairs.margins import Margin

STRENGTHS = 10.0 ** np.arange(-3.0, 1.5, 1.0)
FALLS = (1.0, 2.0)
_MOST_STEPS = 200
_STILL = 1e-10
_STEEPEST = 40.0  # of the logarithm of an interaction


@dataclass(frozen=True, eq=False)
class Table:
    """The shares of people in the cells of two axes.

    Attributes:
        law: The shares, whose sums are those of the margins.
        first: Functions of the first axis.
        second: Functions of the second axis.
        root: R with R·Rᵀ the covariance of the coefficients of their products.
    """

    law: Floats
    first: Basis
    second: Basis
    root: Floats

    @cached_property
    def _solver(self) -> Floats:
        """The inverse of the equations of `split`, where sums of constants do not matter."""
        rows, columns = self.law.sum(axis=1), self.law.sum(axis=0)
        both = np.block([[np.diag(rows), self.law], [self.law.T, np.diag(columns)]])
        scale = 1 / np.sqrt(np.concatenate([rows, columns]))
        found = np.linalg.pinv(scale[:, None] * both * scale, rcond=1e-10, hermitian=True)
        result: Floats = scale[:, None] * found * scale
        return result

    def split(self, along: Floats, across: Floats) -> tuple[Floats, Floats]:
        """The sum of a function of x and one of y that is nearest to functions f of both.

        Args:
            along: Σ_y law·f for every x, shape (functions, cells of x).
            across: Σ_x law·f for every y.
        """
        both = np.concatenate([along, across], axis=1) @ self._solver
        cut = self.law.shape[0]
        return both[:, :cut], both[:, cut:]

    def slopes(self, functions: Floats, parts: tuple[Floats, Floats]) -> Floats:
        """What sums of functions gain from one standard error of each error of the interaction.

        Args:
            functions: Shape (functions, cells of x, cells of y).
            parts: What `split` found of them: it is left to the margins.
        """
        left = functions - parts[0][:, :, None] - parts[1][:, None, :]
        read = self.first.values.T @ (left * self.law) @ self.second.values
        return read.reshape(len(functions), -1) @ self.root

    def product_slopes(self, rows: Floats, columns: Floats, parts: tuple[Floats, Floats]) -> Floats:
        """The same for products of a function of x and one of y, pair by pair.

        Args:
            rows: Functions of x, shape (functions, cells).
            columns: Functions of y.
            parts: What `split` found of the products.
        """
        u, v, law = self.first.values, self.second.values, self.law
        read: Floats = np.einsum("fx,xj,fxk->fjk", rows, u, law[None] @ (columns[:, :, None] * v))
        read -= np.einsum("fx,xj,xk->fjk", parts[0], u, law @ v)
        read -= np.einsum("fy,yk,yj->fjk", parts[1], v, law.T @ u)
        result: Floats = read.reshape(len(rows), -1) @ self.root
        return result


def table_of(
    margins: tuple[Margin, Margin],
    bases: tuple[Basis, Basis],
    told: tuple[Floats, Floats],
    score: Floats,
    information: Floats,
) -> Table:
    """The likeliest table with given margins.

    Args:
        margins: Of both axes.
        bases: Functions of each axis; the interaction is a sum of their products.
        told: Waves of each axis, whose products have scores.
        score: Of the products, in units of people.
        information: Of the scores.
    """
    u, v = bases[0].values, bases[1].values
    p, r = margins[0].law, margins[1].law
    shape = (u.shape[1], v.shape[1])
    flat = Table(np.outer(p, r), *bases, np.eye(1))
    # Functions without a part along either margin start near to what they do to the table.
    centred = (u - p @ u, v - r @ v)

    def law(at: Floats) -> Floats:
        height = centred[0] @ at.reshape(shape) @ centred[1].T
        return raked(np.outer(p, r) * np.exp(np.clip(height, -_STEEPEST, _STEEPEST)), p, r)

    along = (told[0][:, :, None] * u[:, None, :]).reshape(len(p), -1)
    across = (told[1][:, :, None] * v[:, None, :]).reshape(len(r), -1)
    sizes = (told[0].shape[1], shape[0], told[1].shape[1], shape[1])

    def likelihood(at: Floats) -> tuple[float, Floats, Floats]:
        table = Table(law(at), *bases, flat.root)
        people = table.law
        shares = (told[0].T @ people @ told[1]).ravel()
        left = score - information @ shares
        # The change of the table with each coefficient, along the products of waves.
        slope: Floats = (along.T @ people @ across).reshape(sizes).transpose(0, 2, 1, 3)
        slope = slope.reshape(len(shares), -1)
        rows = np.einsum("xj,xk->jkx", u, people @ v).reshape(-1, len(p))
        columns = np.einsum("yk,yj->jky", v, people.T @ u).reshape(-1, len(r))
        parts = table.split(rows, columns)
        slope -= np.einsum(
            "xw,fx,xz->wzf", told[0], parts[0], people @ told[1], optimize=True
        ).reshape(slope.shape)
        slope -= np.einsum(
            "yz,fy,yw->wzf", told[1], parts[1], people.T @ told[0], optimize=True
        ).reshape(slope.shape)
        value = float(shares @ (score + left)) / 2
        return value, slope.T @ left, slope.T @ information @ slope

    rank = np.outer(bases[0].rank, bases[1].rank).ravel()
    falls = FALLS if rank.max(initial=1.0) > 1 else FALLS[:1]
    fits = [best_fit(likelihood, [s / rank ** (2 * f) for s in STRENGTHS]) for f in falls]
    fit = max(fits, key=lambda one: one.evidence)
    return Table(law(fit.mode), *bases, fit.root)


def raked(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """A positive table with factors along rows and columns that give it these sums.

    Args:
        table: The table.
        rows: The sum of every row.
        columns: The sum of every column.
    """
    for _ in range(_MOST_STEPS):
        table = table * (rows / table.sum(axis=1))[:, None]
        sums = table.sum(axis=0)
        table = table * (columns / sums)[None, :]
        if np.abs(sums - columns).sum() < _STILL:
            break
    return table
