"""Noise on the command line and in TOML files is the noise of the library."""

from __future__ import annotations

import pytest

import predgap
from commandline import records
from predgap import (
    Background,
    Clipped,
    Discrete,
    Explainer,
    Laplace,
    Marginal,
    NoiseError,
    Normal,
    PerFeature,
    Redraw,
    Relative,
    Rounded,
    Stay,
)
from predgap.cli.noise import noise_text


def gaps(run, *options):
    done = run("gap", "model.json", "features.csv", "--features", "age,s_1", *options)
    assert (done.exit_code, done.stderr) == (0, "")
    return [float(row["gap"]) for row in records(done.stdout)]


@pytest.mark.parametrize(
    ("text", "noise"),
    [
        ("relative:0.3", Relative),
        ("marginal", Marginal),
        ("background", Background),
        ("redraw:0.2", lambda X: Redraw(X, 0.2)),
        ("laplace:0.3", lambda X: Laplace(0.3)),
    ],
)
def test_texts_are_noises(run, folder, frame, text, noise):
    assert (
        gaps(run, "--noise", text)
        == Explainer(folder / "model.json", noise(frame)).gap(frame, ["age", "s_1"]).tolist()
    )


def test_special_codes_are_kept(run, folder, frame):
    code = frame["age"][0].as_py()
    expected = Explainer(folder / "model.json", Relative(frame, keep=[code, -9])).gap(frame, ["age", "s_1"])
    assert gaps(run, "--keep", f"-9,{code!r}") == expected.tolist()
    told = run("rank", "model.json", "features.csv", "--keep", "-9", "--noise", "normal:1")
    assert (told.exit_code, "for relative noise" in told.stderr) == (1, True)


FILE = """
default = "normal:0.3std"

[columns]
age = { noise = "normal:2", low = -1, high = 1.5, step = 0.5, stay = 0.25 }
s_1 = { values = [0.0, 1.0], probabilities = [0.75, 0.25] }
"""


def test_a_file_gives_columns_noise_of_their_own(run, folder, frame, tmp_path):
    (tmp_path / "noise.toml").write_text(FILE)
    own = {
        "age": Stay(Clipped(Rounded(Normal(2), 0.5), -1, 1.5), 0.25),
        "s_1": Discrete([0.0, 1.0], [0.75, 0.25]),
    }
    noise = PerFeature(own, default=Normal.relative(frame, 0.3))
    expected = Explainer(folder / "model.json", noise).gap(frame, ["age", "s_1"])
    assert gaps(run, "--noise", tmp_path / "noise.toml") == expected.tolist()


def test_a_file_has_groups_codes_and_kinds(run, folder, frame, tmp_path):
    text = 'keep = [-9]\n[kinds]\nage = "continuous"\n[groups]\nboth = ["age", "s_1"]\n'
    (tmp_path / "noise.toml").write_text(text)
    noise = Relative(frame, kinds={"age": "continuous"}, keep=[-9])
    explainer = Explainer(folder / "model.json", noise, groups={"both": ["age", "s_1"]})
    done = run("rank", "model.json", "features.csv", "--noise", tmp_path / "noise.toml")
    assert [row["feature"] for row in records(done.stdout)] == explainer.rank(frame).top(2).ravel().tolist()
    for option in (("--keep", "-9"), ("--group", "both=age,s_1")):
        told = run("rank", "model.json", "features.csv", "--noise", tmp_path / "noise.toml", *option)
        assert (told.exit_code, "twice" in told.stderr) == (1, True)


def test_a_file_joins_dummies(run, tmp_path):
    from sklearn.tree import DecisionTreeRegressor

    X = [[1, 0, 5.0], [0, 1, 6.0], [0, 0, 7.0], [1, 0, 8.0]]
    tree = DecisionTreeRegressor(random_state=0).fit(X, [0, 5, 3, 1])
    predgap.load(tree).named(("job_a", "job_b", "age")).save(tmp_path / "model")
    (tmp_path / "rows.csv").write_text("job_a,job_b,age\n1,0,5\n0,1,6\n0,0,7\n1,0,8\n")
    (tmp_path / "noise.toml").write_text('[one_hot]\njob = ["job_a", "job_b"]\n')
    done = run("rank", tmp_path / "model", tmp_path / "rows.csv", "--noise", tmp_path / "noise.toml")
    assert (done.exit_code, {row["feature"] for row in records(done.stdout)}) == (0, {"job", "age"})


WRONG = [
    ("defualt = 'relative:0.3'", "'defualt'; did you mean 'default'? known are 'default', 'keep', 'kinds'"),
    ("[columns]\nage = { nois = 'normal:1' }", "columns.age has the key 'nois'; did you mean 'noise'?"),
    ("[columns]\nage = 3", "columns.age is 3, expected a text such as 'normal:2.5', or a table"),
    ("[columns]\nage = 'gauss:1'", "expected relative:0.3, normal:0.3std"),
    ("[columns]\nage = 'background'", "write marginal for one of them"),
    ("[columns]\nage = { low = 0 }", "columns.age needs either noise"),
    ("[columns]\nage = { noise = 'normal:1', values = [1] }", "columns.age needs either noise"),
    ("[columns]\nage = { noise = 'normal:1', probabilities = [1] }", "probabilities without values"),
    ("[columns]\nage = { noise = 1 }", "columns.age.noise is 1"),
    ("[columns]\nage = { noise = 'normal:1', stay = 2 }", "columns.age: p is 2"),
    ("[columns]\nagee = 'normal:1'", "no feature 'agee'"),
    ("columns = 1", "columns is 1, expected a table [columns]"),
    ("keep = 9", "keep is 9, expected a list"),
    ("default = 1", "default is 1, expected a text"),
    ("[groups]\nplace = 'lat'", "groups.place is 'lat', expected a list of column names"),
    ("default = 'background'\n[columns]\nage = 'normal:1'", "moves all columns together"),
    ("= =", "is not TOML"),
    ("x = '\xff'", "is not TOML"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text for text, _ in WRONG])
def test_wrong_files_give_one_line(run, tmp_path, text, message):
    (tmp_path / "noise.toml").write_bytes(text.encode("latin-1"))
    done = run("rank", "model.json", "features.csv", "--noise", tmp_path / "noise.toml")
    assert (done.exit_code in (1, 2), done.stdout, done.stderr.count("\n")) == (True, "", 1)
    assert message in done.stderr


def test_a_file_that_is_not_there_or_huge_is_an_error(run, tmp_path):
    assert "No such file" in run("rank", "model.json", "features.csv", "--noise", "none.toml").stderr
    (tmp_path / "big.toml").write_bytes(b"#" * (2 << 20))
    assert (
        "more than 1,048,576 bytes"
        in run("rank", "model.json", "features.csv", "--noise", tmp_path / "big.toml").stderr
    )


@pytest.mark.parametrize(
    "text", ["marginal:1", "flip:2", "redraw:0", "relative:", "normal", "uniform:1std", "Relative:1"]
)
def test_wrong_texts_say_what_is_right(text):
    with pytest.raises(NoiseError, match=r"expected|write marginal|half-width"):
        noise_text(text)
