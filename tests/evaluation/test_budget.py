"""A budget: larger tolerances first, then fewer rows, estimates last. Time is what the tests say it is."""

from __future__ import annotations

import numpy as np
import pytest

import predgap
from predgap import Cost, Explainer, Normal
from predgap.errors import CostError
from predgap.evaluation.budget import LOOSE, checked_budget, planned
from strategies import Split, ensemble_of


class Computer:
    """Examines rows in a time that depends on how: `seconds` has that of one row by tolerance or effort."""

    def __init__(self, seconds, once=0.0, refused=(), n_jobs=1, first=0.0):
        self.now, self.calls, self.seconds, self.once, self.refused = 0.0, [], seconds, once, refused
        self.n_jobs, self.first = n_jobs, first

    def examine(self, explainer, rows, effort):
        how = explainer.rtol if effort == "full" else effort
        self.calls.append((how, len(rows)))
        if how in self.refused:
            raise CostError("too much")
        self.now += self.once + self.seconds[how] * len(rows)
        return how

    def prepare(self):
        self.now += self.first

    def price(self, explainer, effort):
        how = explainer.rtol if effort == "full" else effort
        return Cost("exact", 1e3 * self.seconds.get(how, np.inf), 1.0)

    def plan(self, n_rows, budget, seed=0):
        explainer = Explainer(ensemble_of([Split(0, 0.5, 0.0, 1.0)], 1), Normal(1.0), n_jobs=self.n_jobs)
        return planned(
            explainer, n_rows, budget, seed, self.examine, self.price, self.prepare, lambda: self.now
        )


def test_without_a_budget_nothing_is_tried():
    computer = Computer({1e-6: 1e9})
    plan = computer.plan(10, None)
    assert (plan.rows.tolist(), plan.notes, computer.calls) == (list(range(10)), (), [])


def test_what_fits_is_done_as_asked():
    plan = Computer({1e-6: 0.01}).plan(100, 60)
    assert (plan.rows.tolist(), plan.notes, plan.effort) == (list(range(100)), (), "full")
    assert plan.explainer.rtol == 1e-6


def test_the_tolerance_comes_first():
    plan = Computer({1e-6: 1.0, LOOSE: 0.1}).plan(100, 60)
    assert (plan.explainer.rtol, len(plan.rows)) == (LOOSE, 100)
    assert plan.notes == ("To keep within 60 s, gaps have a proven relative error of up to 0.001.",)


def test_then_rows_are_drawn_with_the_seed():
    computer = Computer({1e-6: 1.0, LOOSE: 0.3})
    plan = computer.plan(1000, 60)
    assert len(plan.rows) == 100  # 130 or so would fit, rounded down
    assert plan.effort == "full"
    assert "100 of 1,000 rows were drawn at random (seed 0)" in plan.notes[1]
    assert (np.diff(plan.rows) > 0).all()
    again, other = (Computer({1e-6: 1.0, LOOSE: 0.3}).plan(1000, 60, seed).rows for seed in (0, 1))
    assert again.tolist() == plan.rows.tolist() != other.tolist()
    assert computer.now < 20  # trials take a part of the budget only


def test_what_is_done_once_does_not_count_as_time_of_a_row():
    plan = Computer({1e-6: 0.01}, once=1.0).plan(1000, 60)
    assert len(plan.rows) == 1000


@pytest.mark.parametrize("budget", [1, 10, 60])
@pytest.mark.parametrize("share", [1e-3, 0.01, 0.05, 0.3])  # of the budget that a row takes
@pytest.mark.parametrize(("once", "first"), [(0.0, 0.0), (0.02, 0.0), (0.0, 0.2)])
def test_all_of_it_keeps_within_the_budget_and_makes_use_of_it(budget, share, once, first):
    seconds = {1e-6: share * budget, LOOSE: 0.9 * share * budget, "search": share * budget}
    seconds["estimate"] = share * budget
    computer = Computer(seconds, once=once * budget, first=first * budget)
    plan = computer.plan(10_000, budget)
    if plan.found is None:
        computer.examine(plan.explainer, plan.rows, plan.effort)
    assert computer.now <= budget
    assert computer.now >= (0.5 if share <= 0.01 else 0.3) * budget


def test_what_a_trial_has_examined_is_not_examined_again():
    computer = Computer({1e-6: 1.0})
    plan = computer.plan(1, 60)
    assert (plan.found, computer.calls) == (1e-6, [(1e-6, 1)])
    assert Computer({1e-6: 0.01}).plan(100, 60).found is None


def test_a_trial_keeps_all_threads_busy():
    computer = Computer({1e-6: 0.1}, n_jobs=3)
    computer.plan(1000, 60)
    assert [n for _, n in computer.calls[:2]] == [3, 6]


def test_a_row_that_takes_longer_than_all_is_not_tried():
    computer = Computer({1e-6: 2.0, LOOSE: 0.1})
    assert len(computer.plan(100, 60).rows) == 100
    assert {how for how, _ in computer.calls} == {LOOSE}


def test_one_row_at_least():
    plan = Computer({"search": 0.19, "estimate": 0.8}).plan(100, 1)
    assert (len(plan.rows), plan.explainer.rtol, plan.effort) == (1, LOOSE, "search")
    plan = Computer({"search": 0.3, "estimate": 0.8}).plan(100, 1)
    assert (len(plan.rows), plan.effort) == (1, "estimate")


def test_a_row_that_is_beyond_the_budget_is_estimated():
    plan = Computer({1e-6: 5.0, LOOSE: 4.0, "search": 3.0, "estimate": 0.5}).plan(100, 1)
    assert (len(plan.rows), plan.effort) == (1, "estimate")


def test_the_best_is_searched_if_comparing_all_leaves_few_rows():
    plan = Computer({1e-6: 1.0, LOOSE: 0.9, "search": 0.1}).plan(400, 60)
    assert (plan.effort, plan.explainer.rtol, len(plan.rows)) == ("search", LOOSE, 400)
    assert plan.notes[1].startswith(
        "To keep within 60 s, the best ranking of a row is the best that was found"
    )
    slow = Computer({1e-6: 1.0, LOOSE: 0.65, "search": 0.6}).plan(400, 60)  # no gain
    assert (slow.effort, len(slow.rows)) == ("full", 50)
    few = Computer({1e-6: 1.0, LOOSE: 0.65, "search": 0.1}).plan(50, 60)  # all rows fit
    assert (few.effort, len(few.rows)) == ("full", 50)


@pytest.mark.parametrize("refused", [(1e-6, LOOSE, "search"), ()])
def test_what_cannot_be_proven_is_estimated(refused):
    seconds = {"estimate": 0.1, **dict.fromkeys(refused, 0.1)}  # without one: the cost is refused
    plan = Computer(seconds, refused=refused).plan(100, 60)
    assert (plan.effort, len(plan.rows)) == ("estimate", 100)
    (note,) = plan.notes
    assert note.startswith("To keep within 60 s, gaps are estimated")


def test_an_estimate_that_is_refused_is_an_error():
    with pytest.raises(CostError, match="too much"):
        Computer({"estimate": 1.0}, refused=("estimate",)).plan(10, 60)


@pytest.mark.parametrize("budget", [0, -1, "60", True, float("nan"), float("inf"), [60]])
def test_a_budget_is_a_number_of_seconds(budget):
    with pytest.raises(predgap.PredgapError, match="expected a number of seconds above 0"):
        checked_budget(budget)
