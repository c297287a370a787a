"""A budget: larger tolerances first, then fewer rows, estimates last. Time is what the tests say it is."""

from __future__ import annotations

import numpy as np
import pytest

import predgap
from predgap import Cost, Explainer, Normal
from predgap._engine.context import Call, calling
from predgap.errors import CostError
from predgap.evaluation.budget import LOOSE, Job, checked_budget, examined_within
from strategies import Split, ensemble_of


class Computer:
    """Examines rows in a time that depends on how: `seconds` has that of one row by tolerance or effort.

    Looks at the deadline in between, as kernels do. Each row of `slow` takes so many times longer.
    """

    def __init__(self, seconds, once=0.0, refused=(), n_jobs=1, first=0.0, slow=None, price=None):
        self.now, self.calls, self.seconds, self.once, self.refused = 0.0, [], seconds, once, refused
        self.n_jobs, self.first, self.slow, self.prices = n_jobs, first, slow or {}, price or seconds
        self.shown = []

    def examine(self, explainer, rows, effort, context):
        how = explainer.rtol if effort == "full" else effort
        self.calls.append((how, len(rows)))
        if how in self.refused and (self.refused[how] is None or {*self.refused[how]} & {*rows.tolist()}):
            raise CostError("too much")
        takes = self.once + sum(self.seconds[how] * self.slow.get(row, 1.0) for row in rows.tolist())
        n_steps = 50 + int(20 * min(takes, 1e4))
        with calling(Call("examine"), len(rows), progress=context or False) as looking:
            for step in range(n_steps):
                self.now += takes / n_steps
                looking.look(len(rows) * step // n_steps)
        return how, rows.tolist()

    def prepare(self):
        self.now += self.first

    def price(self, explainer, effort):
        how = explainer.rtol if effort == "full" else effort
        return Cost("exact", 1e3 * self.prices.get(how, np.inf), 1.0)

    def spend(self, n_rows, budget, seed=0, has_more=False):
        explainer = Explainer(ensemble_of([Split(0, 0.5, 0.0, 1.0)], 1), Normal(1.0), n_jobs=self.n_jobs)
        job = Job(
            explainer,
            n_rows,
            seed,
            self.examine,
            self.price,
            self.prepare,
            has_more,
            lambda done, total: self.shown.append((done, total)),
            lambda: self.now,
        )
        return Spent(examined_within(budget, job))


class Spent:
    """The way that was taken, and the rows."""

    def __init__(self, outcome):
        self.effort, self.rtol, self.notes = outcome.way.effort, outcome.way.explainer.rtol, outcome.notes
        self.hows = {how for how, _ in outcome.parts}
        self.parts = [rows for _, rows in outcome.parts]
        self.rows = [row for rows in self.parts for row in rows]
        assert len(self.hows) == 1  # all rows in the same way
        assert len(set(self.rows)) == len(self.rows)
        assert all(part == sorted(part) for part in self.parts)


def test_without_a_budget_nothing_is_tried():
    computer = Computer({1e-6: 1e9})
    spent = computer.spend(10, None)
    assert (spent.rows, spent.notes, computer.calls) == (list(range(10)), (), [(1e-6, 10)])


def test_what_fits_is_done_as_asked():
    spent = Computer({1e-6: 0.01}).spend(100, 60)
    assert (sorted(spent.rows), spent.notes, spent.effort, spent.rtol) == (list(range(100)), (), "full", 1e-6)


def test_the_tolerance_comes_first():
    spent = Computer({1e-6: 1.0, LOOSE: 0.1}).spend(100, 60)
    assert (spent.rtol, len(spent.rows)) == (LOOSE, 100)
    assert spent.notes == ("To keep within 60 s, gaps have a proven relative error of up to 0.001.",)


def test_then_rows_are_drawn_with_the_seed():
    computer = Computer({1e-6: 1.0, LOOSE: 0.3})
    spent = computer.spend(1000, 60)
    assert len(spent.rows) == 150  # 160 or so would fit, rounded down
    assert spent.effort == "full"
    assert "150 of 1,000 rows were drawn at random (seed 0)" in spent.notes[1]
    again, other = (Computer({1e-6: 1.0, LOOSE: 0.3}).spend(1000, 60, seed).rows for seed in (0, 1))
    assert again == spent.rows != other


def test_what_is_done_once_does_not_count_as_time_of_a_row():
    assert len(Computer({1e-6: 0.01}, once=1.0).spend(1000, 60).rows) == 1000


@pytest.mark.parametrize("budget", [1, 5, 60])
@pytest.mark.parametrize("share", [1e-5, 1e-3, 0.01, 0.05, 0.3])  # of the budget that a row takes
@pytest.mark.parametrize(("once", "first"), [(0.0, 0.0), (0.02, 0.0), (0.0, 0.2)])
def test_all_of_it_keeps_within_the_budget_and_makes_use_of_it(budget, share, once, first):
    seconds = {1e-6: share * budget, LOOSE: 0.9 * share * budget, "search": share * budget}
    seconds["estimate"] = share * budget
    computer = Computer(seconds, once=once * budget, first=first * budget)
    computer.spend(1_000_000, budget)
    assert computer.now <= budget
    assert computer.now >= (0.7 if share <= 0.01 else 0.3) * budget


@pytest.mark.parametrize("n_rows", [1, 3, 1000])
@pytest.mark.parametrize("true", [1e-3, 0.1, 0.5, 3.0, 100.0])  # shares of the budget that a row takes
def test_prices_that_are_far_too_low_do_not_break_it(n_rows, true):
    seconds = {1e-6: true * 30, LOOSE: 0.9 * true * 30, "search": 0.5 * true * 30, "estimate": 0.02}
    computer = Computer(seconds, price=dict.fromkeys(seconds, 1e-9))
    spent = computer.spend(n_rows, 30)
    assert computer.now <= 30
    assert len(spent.rows) >= min(n_rows, 3)
    if true > 1.0:
        assert spent.effort == "estimate"


def test_rows_that_are_slow_are_given_up_and_the_others_kept():
    slow = dict.fromkeys(np.random.default_rng(0).permutation(100)[20:].tolist(), 1000.0)
    computer = Computer({1e-6: 0.1, LOOSE: 0.1, "search": 0.1, "estimate": 0.1}, slow=slow)
    spent = computer.spend(100, 10)
    assert len(spent.rows) == 15  # one of the five after them is too slow
    assert not {*spent.rows} & {*slow}
    assert computer.now <= 10.3


def test_what_is_examined_is_not_examined_again():
    computer = Computer({1e-6: 1.0})
    computer.spend(1, 60)
    assert computer.calls == [(1e-6, 1)]
    computer = Computer({1e-6: 0.01})
    computer.spend(100, 60)
    assert sum(n for _, n in computer.calls) == 100


def test_parts_do_not_grow_beyond_the_time_left():
    computer = Computer({1e-6: 0.01})
    spent = computer.spend(100_000, 60)
    assert max(map(len, spent.parts)) < 0.35 * len(spent.rows)
    done = np.cumsum([len(part) for part in spent.parts])
    assert (done[1:] <= 2 * done[:-1]).all()


def test_a_trial_keeps_all_threads_busy():
    computer = Computer({1e-6: 0.1}, n_jobs=3)
    computer.spend(1000, 60)
    assert [n for _, n in computer.calls[:3]] == [3, 3, 6]


def test_what_is_expected_to_take_far_too_long_is_not_tried():
    computer = Computer({1e-6: 200.0, LOOSE: 0.1})
    assert len(computer.spend(100, 60).rows) == 100
    assert {how for how, _ in computer.calls} == {LOOSE}


def test_one_row_at_least():
    spent = Computer({"search": 0.09, "estimate": 0.8}).spend(100, 1)
    assert (spent.rtol, spent.effort) == (LOOSE, "search")
    spent = Computer({"search": 5.0, "estimate": 1.8}).spend(100, 1)
    assert (len(spent.rows), spent.effort) == (1, "estimate")


def test_one_row_may_take_more_than_one_of_many():
    seconds = {1e-6: 8.0, LOOSE: 7.0, "search": 6.0, "estimate": 0.1}
    assert Computer(seconds).spend(1, 30).effort == "full"
    assert Computer(seconds).spend(50, 30).effort == "estimate"


def test_the_best_is_searched_if_comparing_all_leaves_few_rows():
    spent = Computer({1e-6: 1.0, LOOSE: 0.9, "search": 0.1}).spend(400, 60)
    assert (spent.effort, spent.rtol, len(spent.rows)) == ("search", LOOSE, 400)
    assert spent.notes[1].startswith(
        "To keep within 60 s, the best ranking of a row is the best that was found"
    )
    slow = Computer({1e-6: 1.0, LOOSE: 0.65, "search": 0.6}).spend(400, 60)  # no gain
    assert (slow.effort, len(slow.rows)) == ("full", 60)
    few = Computer({1e-6: 1.0, LOOSE: 0.65, "search": 0.1}).spend(50, 60)  # all rows fit
    assert (few.effort, len(few.rows)) == ("full", 50)


@pytest.mark.parametrize("refused", [(1e-6, LOOSE, "search"), ()])
def test_what_cannot_be_proven_is_estimated(refused):
    seconds = {"estimate": 0.1, **dict.fromkeys(refused, 0.1)}  # without one: the cost is refused
    spent = Computer(seconds, refused=dict.fromkeys(refused)).spend(100, 60)
    assert (spent.effort, len(spent.rows)) == ("estimate", 100)
    (note,) = spent.notes
    assert note.startswith("To keep within 60 s, gaps are estimated")


def test_a_row_that_is_too_costly_after_the_trials_makes_estimates_of_all():
    rows = np.random.default_rng(0).permutation(100)[60:61].tolist()
    spent = Computer({1e-6: 0.1, "estimate": 0.1}, refused={1e-6: rows}).spend(100, 60)
    assert (spent.effort, len(spent.rows)) == ("estimate", 100)


def test_what_cannot_be_estimated_is_left_out_if_it_takes_too_long():
    seconds = {1e-6: 900.0, LOOSE: 900.0, "search": 900.0, "estimate": 90.0, "bare": 0.1}
    assert Computer(seconds).spend(20, 30, has_more=True).effort == "bare"
    assert Computer({**seconds, "estimate": 0.1}).spend(20, 30, has_more=True).effort == "estimate"


def test_an_estimate_that_is_refused_is_an_error():
    with pytest.raises(CostError, match="too much"):
        Computer({"estimate": 1.0}, refused={"estimate": None}).spend(10, 60)


@pytest.mark.parametrize("budget", [None, 60, 3])
def test_progress_goes_on_to_the_rows_that_are_examined(budget):
    computer = Computer({1e-6: 0.01, LOOSE: 0.01})
    spent = computer.spend(1000, budget)
    done = [n for n, _ in computer.shown]
    assert done == sorted(done)
    assert computer.shown[-1] == (len(spent.rows), len(spent.rows))
    assert all(n <= total <= 1000 for n, total in computer.shown)


@pytest.mark.parametrize("budget", [0, -1, "60", True, float("nan"), float("inf"), [60]])
def test_a_budget_is_a_number_of_seconds(budget):
    with pytest.raises(predgap.PredgapError, match="expected a number of seconds above 0"):
        checked_budget(budget)
