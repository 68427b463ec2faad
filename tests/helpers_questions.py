"""Every way to use a workload, against its matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.questions.workload import Workload


def agrees(workload: Workload, wanted: Any) -> None:
    """Every way to use a workload gives what the matrix gives; whole numbers, so exactly."""
    matrix = np.asarray(wanted, dtype=np.float64)
    rng = np.random.default_rng(7)
    questions, cells = matrix.shape
    assert workload.shape == matrix.shape
    assert math.prod(workload.shape_of_cells) == cells
    assert workload.dtype == np.float64
    assert np.array_equal(workload.dense(), matrix)
    assert np.array_equal(np.asarray(workload), matrix)
    assert np.array_equal(workload.sparse().toarray(), matrix)
    assert np.array_equal(workload.gram(), matrix.T @ matrix)
    rows, counts = workload.squares()
    assert np.array_equal(rows.T @ (counts[:, None] * rows), matrix.T @ matrix)
    X = rng.integers(-9, 10, (cells, 3))
    Y = rng.integers(-9, 10, (questions, 3))
    assert np.array_equal(workload @ X, matrix @ X)
    assert np.array_equal(workload @ X[:, 0], matrix @ X[:, 0])
    assert np.array_equal(workload.matvec(X[:, :1]), matrix @ X[:, :1])
    assert np.array_equal(workload.T @ Y, matrix.T @ Y)
    assert np.array_equal(workload.H @ Y[:, 0], matrix.T @ Y[:, 0])
    assert np.array_equal(workload.rmatvec(Y[:, 0]), matrix.T @ Y[:, 0])
    assert np.array_equal(Y[:, 0] @ workload, Y[:, 0] @ matrix)
    chosen = rng.integers(-questions, questions, 5)
    assert np.array_equal(workload.rows(chosen), matrix[chosen])
    assert np.array_equal(workload.rows(slice(None, None, -2)), matrix[::-2])
    assert np.array_equal(workload.rows(questions - 1), matrix[-1:])
    mask = np.arange(questions) % 3 == 0
    assert np.array_equal(workload.rows(mask), matrix[mask])
    assert workload.rows([]).shape == (0, cells)
    parts = list(workload.chunks(entries=3 * cells))
    assert np.array_equal(np.concatenate([rows for _, rows in parts]), matrix)
    assert len(workload.labels) == questions
    assert len(list(workload.labels)) == questions
