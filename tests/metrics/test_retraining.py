"""Remove and retrain: features become their means, and the user's function trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from predgap import Ranking, RankingError, TableError, metrics


def test_removed_features_are_means_of_the_training_table() -> None:
    train, test = np.array([[0.0, 1.0], [2.0, 5.0]]), np.array([[7.0, 8.0]])
    seen: list[Any] = []

    def fit(X: np.ndarray, y: Any) -> str:
        seen.append(X.copy())
        return "model"

    def score(model: str, X: np.ndarray, y: Any) -> float:
        seen.append(X.copy())
        return float(X.sum())

    rankings = Ranking([[0, 1], [1, 0]]), Ranking([[1, 0]])
    found = metrics.remove_and_retrain(
        train, [0, 1], test, [1], *rankings, fit=fit, score=score, places=[0, 1]
    )
    np.testing.assert_array_equal(seen[0], train)
    np.testing.assert_array_equal(seen[2], [[1.0, 1.0], [2.0, 3.0]])
    np.testing.assert_array_equal(seen[3], [[7.0, 3.0]])
    np.testing.assert_array_equal(found, [15.0, 10.0])


def test_wrong_shapes_are_refused() -> None:
    X, ranking = np.zeros((2, 2)), Ranking([[0, 1], [1, 0]])

    def never(*arguments: Any) -> Any:
        raise AssertionError

    with pytest.raises(RankingError, match="the ranking of X_test has 2 rows"):
        metrics.remove_and_retrain(
            X, [0, 1], X[:1], [0], ranking, ranking, fit=never, score=never, places=[1]
        )
    with pytest.raises(RankingError, match="places has 3, expected numbers from 0 to 2"):
        metrics.remove_and_retrain(X, [0, 1], X, [0, 1], ranking, ranking, fit=never, score=never, places=[3])
    with pytest.raises(TableError, match="X_train is"):
        metrics.remove_and_retrain(
            X * np.nan, [0, 1], X, [0, 1], ranking, ranking, fit=never, score=never, places=[1]
        )
    with pytest.raises(TableError, match="y_test has 1 number, its table 2 rows"):
        metrics.remove_and_retrain(X, [0, 1], X, [0], ranking, ranking, fit=never, score=never, places=[1])
