"""Spaces: the points that they have, the arguments there, and what is wrong with them."""

from __future__ import annotations

import textwrap

import pytest

from nki.base.errors import NkiError
from nki.base.sweep_errors import NoPointError, SpaceError
from nki.sweeps import expressions, space


def texts(table):
    read = space.of(table)
    return [read.texts(point) for point in read.points()]


def test_names_lists_ranges_and_rows_of_several_names():
    table = {
        "vary": {
            "a, b": [[1, 2], [3, 4]],
            "c": {"from": 8, "to": 32, "times": 2},
            "d": {"from": 1, "to": 5, "step": 2},
        },
        "arguments": {"x": "{a}x{b * c}:float32", "n": "{d}", "text": "'plain'", "flag": True, "scale": 0.5},
    }
    found = texts(table)
    assert len(found) == 2 * 3 * 3
    assert found[0] == ("x=1x16:float32", "n=1", "text='plain'", "flag=True", "scale=0.5")
    assert found[-1] == ("x=3x128:float32", "n=5", "text='plain'", "flag=True", "scale=0.5")


def test_a_list_in_the_arguments_varies_under_the_name_of_the_parameter():
    table = {
        "vary": {"m": [2, 3]},
        "arguments": {"x": ["{m}x4:float32", "{m}x8:float32"], "n": [1, 2]},
        "where": "n < m - 1",
    }
    assert texts(table) == [("x=3x4:float32", "n=1"), ("x=3x8:float32", "n=1")]


def test_targets_releases_cores_and_seeds_vary_too():
    table = {
        "arguments": {"x": "4x4:float32"}, "targets": ["trn1", "gen3"], "releases": ["0.6", "0.7"], "cores": [1, 2],
        "seeds": 2, "where": "cores == 1 or target == 'trn2'",
    }  # fmt: skip
    points = space.of(table).points()
    assert [p.target for p in points] == ["trn1"] * 4 + ["trn2"] * 8
    assert {(p.release, p.cores, p.seed) for p in points} == {
        (r, c, s) for r in ("0.6", "0.7") for c in (1, 2) for s in (0, 1)
    }


def test_a_file_says_the_same_as_a_dictionary(tmp_path):
    file = tmp_path / "space.toml"
    file.write_text(
        textwrap.dedent(
            """
            where = ["n % 2 == 0"]
            seeds = [3]
            tolerance = { relative = 1e-3, absolute = 1e-6 }
            [vary]
            n = { from = 1, to = 6 }
            [arguments]
            x = "4x{n}:float32:ones"
            """
        )
    )
    read = space.of(file)
    assert [read.texts(point) for point in read.points()] == [(f"x=4x{n}:float32:ones",) for n in (2, 4, 6)]
    assert read.tolerance == space.Tolerance(None, 1e-3, 1e-6) and read.seeds == (3,)


def test_fillings_replace_random_numbers_only():
    read = space.of({"arguments": {"x": "2x2:float32", "y": "2x2:float32:ones", "n": 3}})
    [point] = read.points()
    filled = space.Point(point.values, None, None, None, 0, "wide")
    assert read.texts(filled) == ("x=2x2:float32:wide", "y=2x2:float32:ones", "n=3")


def test_names_of_tensors():
    read = space.of(
        {"vary": {"m": [2], "n": [3], "tile": [1]}, "arguments": {"x": "{m}x{n}:float32", "k": "{tile}", "j": [4]}}
    )
    assert read.names_of_tensors == {"m", "n"}


X = {"x": "4x4:float32"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"argument": X}, "argument: this is no key of a space"),
        ({"vary": [1], "arguments": X}, "vary: [1] is no table"),
        ({"vary": {"n": []}, "arguments": X}, "n: the list is empty"),
        ({"vary": {"n": [1]}, "arguments": X}, "[vary] n: no argument and no condition uses it"),
        ({"vary": {"n-1": [1]}, "arguments": X}, "'n-1' is no name"),
        ({"vary": {"n": {"from": 1, "too": 2}}, "arguments": X}, "too = 2 is no part of a range"),
        ({"vary": {"n": {"from": 1}}, "arguments": X}, "a range has from, to"),
        ({"vary": {"n": {"from": 1, "to": 9, "step": 0}}, "arguments": X}, "this range does not grow"),
        ({"vary": {"n": {"from": 0, "to": 9, "times": 2}}, "arguments": X}, "this range does not grow"),
        ({"vary": {"n": {"from": 0, "to": 10**9}}, "arguments": X}, "more than 100,000 values"),
        ({"vary": {"a, b": [[1]]}, "arguments": X}, "[1] has no value for each name"),
        ({"vary": {"seed": [1]}, "arguments": {"x": "4x{seed}:float32"}}, "seed: this name varies twice"),
        ({"arguments": X, "where": "n == 1"}, "'n == 1' names 'n', which does not vary"),
        ({"arguments": {"x": "4x{n}:float32"}}, "[arguments] x: 'n' names 'n', which does not vary"),
        ({"arguments": X, "where": 3}, "where: 3 is no text"),
        ({"arguments": X, "targets": ["trn9"]}, "targets: target 'trn9' does not exist"),
        ({"arguments": X, "releases": ["9.9"]}, "there is no release '9.9'"),
        ({"arguments": X, "cores": [0]}, "[0] is no list of whole numbers from 1 on"),
        ({"arguments": X, "seeds": -1}, "seeds: -1 is no list of whole numbers"),
        ({"arguments": X, "tolerance": "small"}, "'small' is no tolerance"),
        ({"arguments": X, "tolerance": {"rtol": 1}}, "there is no 'rtol'"),
        ({"arguments": X, "tune": {"choose": ["n"]}}, "'n' does not vary"),
        ({"arguments": X, "tune": {"chose": ["n"]}}, "[tune] chose: this is no key"),
        ({"vary": {"n": [0]}, "arguments": X, "where": "1 / n > 2"}, "'1 / n > 2' has no value for n = 0"),
        ({"vary": {"n": ["a"]}, "arguments": X, "where": "n * 3 == 1"}, "'a' and 3 are not both numbers"),
    ],
)
def test_mistakes(table, message):
    with pytest.raises(SpaceError) as caught:
        space.of(table).points()
    assert message in caught.value.message


def test_files_that_are_no_spaces(tmp_path):
    for name, content, message in (("none.toml", None, "there is no file"), ("x.toml", "a = [", "is no TOML")):
        if content is not None:
            (tmp_path / name).write_text(content)
        with pytest.raises(SpaceError) as caught:
            space.of(tmp_path / name)
        assert message in caught.value.message


def test_a_space_without_a_legal_point_says_what_excludes_how_many():
    with pytest.raises(NoPointError) as caught:
        space.of({"vary": {"n": [1, 2, 3]}, "arguments": X, "where": ["n > 1", "n < 2"]}).points()
    assert "of 3 combinations, 'n > 1' excludes 1; 'n < 2' excludes 2" in caught.value.message


def test_a_space_may_be_too_large_for_a_sweep():
    ranges = {"from": 0, "to": 1000}
    read = space.of({"vary": {"m": ranges, "n": ranges}, "arguments": X, "where": "m + n > 0"})
    with pytest.raises(SpaceError, match="1,002,001 combinations"):
        read.points()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 // 4 - 5 % 3 ** 2", 1 + 2 * 3 // 4 - 5 % 3**2),
        ("n // 2 if n > 4 else -n", 4),
        ("1 < n <= 8 and not n == 7", True),
        ("n in (1, 8) or n", True),
        ("n not in [1, 2]", True),
        ("max(n, 3) - min(n, 3) + abs(-2)", 7),
        ("dtype == 'float32'", True),
        ("n << 2 | 1", 33),
    ],
)
def test_expressions_are_worth_what_python_says(text, value):
    names = {"n": 8, "dtype": "float32"}
    assert expressions.read(text).value(names) == value == eval(text, {}, dict(names))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "open('x')", "n.real", "n[0]", "[x for x in n]", "lambda: 1", "f'{n}'", "(n := 3)", "n; n",
        "max(n, key=n)", "max.__call__(1)", "{1: 2}", "print", "print()", "...", "None", "b'x'", "await n", "n @ n",
        "(" * 500 + "n" + ")" * 500,
    ],
)  # fmt: skip
def test_expressions_are_nothing_else(text):
    """No attribute, no subscript, no call but of three functions; a plain name is the space's to refuse."""
    if text == "print":
        assert expressions.read(text).names == ("print",)
        return
    with pytest.raises(expressions.ExpressionError):
        expressions.read(text)


@pytest.mark.parametrize("text", ["9 ** 9 ** 9", "2 ** 1000", "1 << 100000", "'a' * 9999999999", "(1, 2) * 999"])
def test_expressions_stay_small(text):
    with pytest.raises(expressions.ExpressionError):
        expressions.read(text).value({})


def test_errors_of_spaces_are_errors_of_this_package():
    assert issubclass(SpaceError, NkiError)
