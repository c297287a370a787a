"""The verdict in every branch, and what an evaluation looks like: tables, files, a picture."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from predgap import Evaluation, PredgapError, Ranking
from predgap.evaluation.verdict import findings, limits

NASTY = "<img src=x onerror=alert(1)>\x1b[31m"
D = 4


def made(scores, *, random=0.2, best=1.0, proven=True, **fields):
    """An evaluation of n rows with given PGI² (by name, a number or one for each row), and random and best.

    The order of a ranking is 0, 1, 2, 3 in all rows if its name is in `fixed`, else it differs between rows.
    In `missed` rows the first feature of all rankings is not the one that moves the prediction most.
    """
    n = fields.pop("n", 40)
    fixed, missed = fields.pop("fixed", ()), fields.pop("missed", 0)
    description = {"noise": "Relative(<4 columns>, 0.3)", "rtol": 1e-6, "of_rows": n}
    description |= fields.pop("description", {})
    array = np.array([np.broadcast_to(np.asarray(score, float), n) for score in scores.values()])
    orders = {name: np.tile([0, 1, 2, 3], (n, 1)) for name in scores}
    for name in set(scores) - {*fixed}:
        orders[name][::2, 1:] = [3, 2, 1]
    single = np.tile([1.0, 0.5, 0.2, 0.1], (n, 1))
    single[:missed, 1] = 2.0
    best = np.broadcast_to(np.asarray(best, float), n)
    return Evaluation(
        names=tuple(scores),
        rankings={name: Ranking(order) for name, order in orders.items()},
        scores={"pgi2": array, "pgu2": array / 2},
        curves=np.repeat(array[:, :, None], D, axis=2),
        random=np.broadcast_to(np.asarray(random, float), n),
        random_curve=np.zeros((n, D)),
        best=best,
        best_ranking=Ranking(np.tile([0, 1, 2, 3], (n, 1))),
        best_curve=np.repeat(best[:, None], D, axis=1),
        best_is_proven=np.broadcast_to(np.asarray(proven), n),
        single=single,
        table=np.zeros((n, D), dtype=object),
        values=np.zeros((n, D)),
        feature_names=("a", "b", "c", "d"),
        index=None,
        rows=np.arange(n),
        predictions=np.zeros(n),
        sweep=None,
        description=description,
        notes=fields.pop("notes", ()),
        obtained={"pgi2": "exact", "random": "exact", "best": "exact; proven"} | fields.pop("obtained", {}),
        words=fields.pop("words", {name: name for name in scores}),
        shap=fields.pop("shap", ("shap",) if "shap" in scores else ()),
        **fields,
    )


def noisy(mean, n=40, seed=0, spread=0.05):
    return mean + np.random.default_rng(seed).normal(0, spread, n)


def said(evaluation):
    return " ".join(findings(evaluation))


# ---- how good ----


def test_shap_between_random_and_best():
    found = findings(made({"shap": 0.64}, missed=30))
    assert found[0] == (
        "SHAP reaches 55 % of the way from random to the best possible; in 3 of 4 rows its first feature is "
        "not the one that moves the prediction most."
    )


def test_the_interval_is_told():
    assert "SHAP reaches 55 % (" in said(made({"shap": noisy(0.64)}))


def test_the_first_feature_is_right_in_every_row():
    assert "; in every row its first feature is the one that moves the prediction most." in said(
        made({"shap": 0.64})
    )


@pytest.mark.parametrize(
    ("missed", "n", "words"),
    [
        (3, 10, "3 of 10 rows"),
        (20, 40, "1 of 2 rows"),
        (13, 40, "32 % of the rows"),
        (40, 40, "all rows"),
        (1, 1000, "1 of 1000 rows"),
    ],
)
def test_how_many_rows(missed, n, words):
    assert f"in {words} its first feature is not" in said(made({"shap": 0.64}, missed=missed, n=n))


def test_worse_than_random():
    assert said(made({"shap": 0.12})).startswith(
        "SHAP does worse than a random order: -10 %, where random is 0 and the best possible 100;"
    )


def test_best_that_was_only_found():
    found = said(made({"shap": 0.64}, proven=False))
    assert "from random to the best ranking that was found" in found
    assert "A better ranking than the best that was found may exist; the shares would then be lower." in found
    some = said(made({"shap": 0.64}, proven=np.arange(40) < 30))
    assert "may exist in 1 of 4 rows;" in some


def test_almost_the_best_is_not_the_best():
    assert "reaches 99 % of the way" in said(made({"shap": 0.9999}))
    assert "reaches 100 % of the way" in said(made({"shap": 1.0}))


# ---- compared with others ----


def test_one_ranking_only():
    assert findings(made({"shap": 0.64}))[1:] == ["It was compared with no other ranking."]


def test_the_best_possible_ranking_is_no_rival():
    found = findings(made({"shap": noisy(0.64), "optimal": 1.0}))
    assert found[1:] == ["It was compared with no other ranking."]


def test_a_fixed_order_is_better_than_shap():
    scores = {"shap": noisy(0.64), "gain": noisy(0.8, seed=1)}
    assert findings(made(scores, fixed=["gain"]))[1:] == [
        "One fixed order for all rows, by gain, does better than SHAP here: 75 %."
    ]
    both = made({**scores, "greedy": noisy(0.95, seed=2, spread=0.01)}, fixed=["gain"])
    assert findings(both)[2] == "greedy does best: 94 %."
    mine = made({"shap": noisy(0.64), "mine": noisy(0.8, seed=1)}, fixed=["mine"], words={"shap": "shap"})
    assert findings(mine)[1].startswith("One fixed order for all rows, called mine, does better than SHAP")


def test_a_ranking_by_row_is_better_than_shap():
    found = findings(made({"shap": noisy(0.64), "greedy": noisy(0.9, seed=1)}))
    assert found[1:] == ["greedy does better here: 88 %."]


def test_shap_is_best():
    found = findings(made({"shap": noisy(0.9), "gain": noisy(0.5, seed=1)}))
    assert found[1:] == ["The other ranking does not do better."]
    found = findings(made({"shap": noisy(0.9), "gain": noisy(0.5, seed=1), "random": noisy(0.2, seed=2)}))
    assert found[1:] == ["None of the other rankings does better."]


def test_shap_is_best_beside_one_that_is_as_good():
    found = findings(made({"shap": noisy(0.9), "gain": noisy(0.5, seed=1), "greedy": noisy(0.9, seed=2)}))
    assert found[1:] == [
        "None of the other rankings does better; it cannot be told apart from greedy in 40 rows."
    ]


def test_nothing_differs():
    found = findings(made({"shap": noisy(0.9), "gain": noisy(0.9, seed=1), "greedy": noisy(0.9, seed=2)}))
    assert found[1:] == [
        "The differences between the rankings are no larger than chance makes them in 40 rows."
    ]


def test_without_shap_it_is_about_the_highest_score():
    found = made(
        {"gain": noisy(0.5), "mine": noisy(0.8, seed=1), "optimal": 1.0}, words={"optimal": "optimal"}
    )
    assert findings(found)[0].startswith("mine reaches 75 %")
    assert findings(found)[1] == "The other ranking does not do better."
    assert "SHAP" not in found.verdict()
    assert findings(made({"optimal": 1.0}))[0].startswith("optimal reaches 100 %")


# ---- how certain ----


def test_one_row():
    found = findings(made({"shap": 0.64, "gain": 0.7}, n=1, missed=1))
    assert found == [
        "In this row, SHAP reaches 55 % of the way from random to the best possible; its first feature is "
        "not the one that moves the prediction most.",
        "One row does not tell whether it is better than another ranking.",
        "This is from 1 row only: other rows may tell something else.",
    ]
    assert "its first feature is the one" in said(made({"shap": 0.64}, n=1))


def test_few_rows():
    assert "This is from 12 rows only: other rows may tell something else." in said(
        made({"shap": 0.64}, n=12)
    )


def test_rows_that_were_drawn():
    few = said(made({"shap": 0.64}, n=12, description={"of_rows": 5000}))
    assert "This is from 12 rows only, drawn at random from 5,000: other rows" in few
    assert "This is from 40 rows, drawn at random from 5,000." in said(
        made({"shap": 0.64}, description={"of_rows": 5000})
    )


def test_estimates_and_bounds_are_told():
    estimated = made({"shap": 0.64}, obtained={"pgi2": "estimated"})
    assert "The scores are estimates, whose errors are not proven." in said(estimated)
    coarse = made({"shap": 0.64}, obtained={"pgi2": "bounded (0.001)"}, description={"rtol": 1e-3})
    assert "The scores have a proven error of up to 0.1 %." in said(coarse)
    fine = made({"shap": 0.64}, obtained={"pgi2": "bounded (1e-06)"})
    assert "proven error" not in said(fine)


def test_all_gaps_are_zero():
    (found,) = findings(made({"shap": 0.0, "gain": 0.0}, random=0.0, best=0.0))
    assert found.startswith("No prediction changed in these 40 rows: all gaps are 0")
    assert "in this row" in said(made({"shap": 0.0}, random=0.0, best=0.0, n=1))


def test_a_random_score_that_is_estimated_is_told():
    found = made({"shap": 0.64, "gain": 0.6}, obtained={"random": "estimated"})
    assert "The score of random orders is an estimate, and so are the shares of the way." in said(found)
    assert found.summary[0]["obtained"] == "exact; normalized: estimated"


def test_rows_in_which_nothing_moves_are_left_out():
    best = np.r_[np.zeros(30), np.ones(10)]
    found = made({"shap": 0.64 * best, "gain": 0.5 * best}, random=0.2 * best, best=best, missed=40)
    assert "in all rows its first feature is not" in said(found)
    assert "In 3 of 4 rows nothing moves the prediction; they are left out of shares of rows." in said(found)
    assert found.summary[0]["share_won"] == 1.0
    assert found.summary[1]["share_won"] == 0.0


def test_a_ranking_that_wins_few_rows_by_much_is_not_called_better():
    """The mean speaks for b, Wilcoxon's test for a."""
    b = np.r_[np.full(39, 0.4), 30.0]
    found = made({"shap": 0.5 + noisy(0, spread=1e-3), "b": b}, best=np.maximum(b, 1.0))
    assert found.difference("b", "shap").mean > 0
    assert found.difference("b", "shap").p < 1e-3
    assert not found.difference("b", "shap").differs
    assert "better" not in said(found)


def test_others_may_differ_among_themselves():
    shap = noisy(0.6, spread=0.3)
    found = findings(
        made({"shap": shap, "b": noisy(0.65, seed=1, spread=0.01), "c": noisy(0.6, seed=2, spread=0.01)})
    )
    assert found[1] == "No other ranking differs from it by more than chance does in 40 rows."


def test_about_as_good_as_random():
    found = said(made({"shap": noisy(0.19, spread=0.2)}))
    assert found.startswith("SHAP is about as good as a random order: ")


def test_best_that_is_below_random():
    found = findings(made({"shap": 0.5}, random=0.9, best=0.5, obtained={"random": "estimated"}))
    assert found[0].startswith("No ranking that was found does better than random orders")


def test_all_orders_are_equal():
    found = findings(made({"shap": 0.5, "gain": 0.5}, random=0.5, best=0.5, n=12))
    assert found[0].startswith("All orders of the features have the same score")
    assert found[1].startswith("This is from 12 rows only")


def test_what_the_score_does_not_say():
    with_shap, without = limits(made({"shap": 0.64})), limits(made({"gain": 0.64}))
    assert "Relative(<4 columns>, 0.3)" in with_shap
    assert (
        "It does not say that SHAP values are wrong as shares of a prediction, that the model is" in with_shap
    )
    assert "It does not say that the model is right" in without
    assert made({"shap": 0.64}).verdict().endswith(with_shap)
    assert "built to raise" not in with_shap
    assert limits(made({"shap": 0.5, "greedy": 0.9})).endswith(
        " greedy is built to raise this score; that alone does not make a better explanation."
    )


# ---- names are data ----


def test_names_do_nothing():
    found = made({NASTY: noisy(0.5), "shap": noisy(0.4, seed=1)}, words={"shap": "shap"}, notes=("<b>",))
    assert "\x1b" not in found.verdict() + repr(found) + found._repr_html_()
    page = found._repr_html_()
    assert "<img" not in page
    assert "<b>" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page


# ---- tables, files, pictures ----


def test_the_table():
    lines = repr(made({"shap": 0.64, "gain": 0.9999}, missed=10, notes=("A note.",))).splitlines()
    assert lines[0] == "Evaluation of 2 rankings in 40 rows"
    assert lines[2].split() == ["shap", "0.64", "0.64", "to", "0.64", "55", "%", "0.32", "0", "%", "75", "%"]
    assert lines[3].split()[5:7] == ["99", "%"]
    assert [line.split()[0] for line in lines[4:6]] == ["(random)", "(best)"]
    assert lines[6:] == ["pgi2: exact; random: exact; best: exact; proven", "A note."]
    assert "(best found)" in repr(made({"shap": 0.64}, proven=False))
    assert "in 40 rows of 5,000" in repr(made({"shap": 0.64}, description={"of_rows": 5000}))
    nothing = repr(made({"shap": 0.0}, random=0.0, best=0.0, n=1))
    assert "–" in nothing
    assert "nan" not in nothing


def test_saved_tables(tmp_path):
    found = made({"shap": noisy(0.64), 'a "b", c': noisy(0.5, seed=1)})
    found.save(tmp_path / "it.csv")
    found.save(str(tmp_path / "it.parquet"))
    for frame in (pd.read_csv(tmp_path / "it.csv"), pd.read_parquet(tmp_path / "it.parquet")):
        assert list(frame.columns) == list(found.summary[0])
        assert frame["ranking"].tolist() == ["shap", 'a "b", c']
        assert frame["mean"].tolist() == pytest.approx([row["mean"] for row in found.summary], rel=1e-15)


def test_a_name_that_looks_like_a_formula_is_text_in_a_spreadsheet(tmp_path):
    found = made({"=1+1": noisy(0.64), "-5": noisy(0.5, seed=1)})
    found.save(tmp_path / "it.csv")
    lines = (tmp_path / "it.csv").read_text().splitlines()
    assert [row[0] for row in csv.reader(lines)] == ["ranking", "'=1+1", "-5"]


def test_everything_is_saved_as_json(tmp_path):
    found = made({"shap": noisy(0.64), "gain": noisy(0.5, seed=1)}, random=np.r_[np.full(39, 0.2), 1.0])
    found.save(tmp_path / "it.json")
    read = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert read["verdict"] == found.verdict()
    assert np.array(read["scores"]["pgi2"]).tolist() == found.scores["pgi2"].tolist()
    assert read["normalized"][0][39] is None  # where it is not a number
    assert read["orders"]["shap"] == found.rankings["shap"].order.tolist()
    assert read["summary"][0]["mean"] == found.summary[0]["mean"]
    assert read["pairs"][0]["p"] == found.differences[0].p


def test_the_table_of_pairs():
    found = made(
        {"shap": noisy(0.64), "gain": noisy(0.5, seed=1), "mine": noisy(0.4, seed=2)}, fixed=["mine"]
    )
    frame = found.to_frame("pairs")
    assert frame[["a", "b"]].to_numpy().tolist() == [["shap", "gain"], ["shap", "mine"], ["gain", "mine"]]
    assert frame["difference"].tolist() == [by.mean for by in found.differences]
    assert frame["same_first"].tolist() == [1.0, 1.0, 1.0]
    assert frame["correlation"].tolist() == pytest.approx(
        [1.0, found.correlation[0, 2], found.correlation[1, 2]]
    )
    assert len(made({"shap": 0.6}).to_frame("pairs")) == 0
    with pytest.raises(PredgapError, match="what"):
        found.to_frame("else")


def test_other_files_are_refused(tmp_path):
    for name in ("it.pickle", "it", "it.xlsx"):
        with pytest.raises(PredgapError, match=r"ends in \.csv or \.parquet \(the table\) or \.json"):
            made({"shap": 0.64}).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_the_picture():
    found = made({"shap": noisy(0.64), "gain": noisy(0.5, seed=1)}, obtained={"pgi2": "estimated"})
    ax = found.plot(ax=Figure().subplots())
    shown = " ".join(text.get_text() for text in (*ax.texts, *ax.get_yticklabels()))
    assert "shap" in shown
    assert "gain" in shown
