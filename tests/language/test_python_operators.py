"""The table of Python's operators against Python itself, and classes that refuse all of them."""

from __future__ import annotations

import ast
import operator
from typing import Any, NoReturn

import pytest

import nki.language as nl
from nki.base.python_operators import BINARY, FUNCTION_OF, OPERATORS, UNARY, PythonOperator, refuse_operators
from nki.ir.loop import VirtualRegister
from nki.language.nki_tensor import NkiTensor


class Refusing:
    def _refuse(self, sign: str) -> NoReturn:
        raise ArithmeticError(sign)


class RefusingOtherwise(Refusing):
    def _refuse(self, sign: str) -> NoReturn:
        raise ArithmeticError(f"otherwise {sign}")


refuse_operators(Refusing)


def named(row: PythonOperator) -> str:
    return row.method


@pytest.mark.parametrize("row", OPERATORS, ids=named)
def test_a_row_is_what_python_calls_so(row: PythonOperator) -> None:
    text = f"{row.sign}a" if row in UNARY else f"a {row.sign} b"
    node: Any = ast.parse(text, mode="eval").body
    assert type(node.ops[0] if isinstance(node, ast.Compare) else node.op) is row.node

    class Noting:
        pass

    setattr(Noting, f"__{row.method}__", lambda *_: "called")
    assert eval(text, {"a": Noting(), "b": 1}) == "called"
    assert not row.function or callable(getattr(nl, row.function))


@pytest.mark.parametrize("row", [row for row in OPERATORS if row.method not in ("eq", "ne")], ids=named)
def test_an_operator_is_refused_with_its_sign(row: PythonOperator) -> None:
    for kind, text in ((Refusing, row.sign), (RefusingOtherwise, f"otherwise {row.sign}")):
        operate = getattr(operator, f"__{row.method}__")
        calls = [(kind(),)] if row in UNARY else [(kind(), 1), (1, kind())] if row in BINARY else [(kind(), 1)]
        for operands in calls:
            with pytest.raises(ArithmeticError) as caught:
                operate(*operands)
            assert str(caught.value) == text
    for owner in (NkiTensor, VirtualRegister):
        assert f"__{row.method}__" in vars(owner)


def test_operators_without_a_function_are_left_out() -> None:
    assert FUNCTION_OF[ast.Add] == "add" and FUNCTION_OF[ast.USub] == "negative" and FUNCTION_OF[ast.Eq] == "equal"
    assert ast.MatMult not in FUNCTION_OF
