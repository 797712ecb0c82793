"""The expressions of a template, as Nunjucks reads them.

Nunjucks has a grammar of its own and then writes JavaScript without parentheses, so that JavaScript groups
the operators anew: `not a == b` compares `!a` with b, `a ~ b + c` joins three texts. Operators are therefore
collected in a row, in the order of the grammar, and grouped by the ranks that JavaScript gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from dokimos.importers._promptfoo.nunjucks.lexer import Lexer, Token
from dokimos.importers._promptfoo.nunjucks.syntax import (
    Arguments,
    Binary,
    Call,
    Choice,
    Constant,
    Expression,
    Filter,
    ListOf,
    MapOf,
    Member,
    Name,
    Test,
    Unary,
)
from dokimos.importers._promptfoo.nunjucks.values import TemplateRefused

_Row: TypeAlias = list[Expression | str]
"""Operands, with the operators of JavaScript between them."""

_RANKS: Final = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "===": 3, "!==": 3, "<": 4, ">": 4, "<=": 4, ">=": 4,
    "+": 5, "-": 5, "*": 6, "/": 6, "%": 6,
}  # fmt: skip
_COMPARISONS: Final = ("==", "===", "!=", "!==", "<", ">", "<=", ">=")
_CONSTANTS: Final = {"true": True, "false": False, "none": None, "null": None}
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


def group(row: _Row) -> Expression:
    """Return the expression that JavaScript makes of operands and operators."""
    operands: list[Expression] = []
    operators: list[str] = []

    def reduce(rank: int) -> None:
        while operators and _RANKS[operators[-1]] >= rank:
            right, left = operands.pop(), operands.pop()
            operands.append(Binary(operators.pop(), left, right))

    for part in row:
        if isinstance(part, str):
            reduce(_RANKS[part])
            operators.append(part)
        else:
            operands.append(part)
    reduce(0)
    return operands[0]


class ExpressionParser:
    """Reads expressions from the tokens of a template."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lexer = Lexer(text)
        self._peeked: list[Token] = []

    @property
    def lexer(self) -> Lexer:
        """The lexer, for what is not divided into tokens."""
        assert not self._peeked
        return self._lexer

    def take(self) -> Token:
        """Return the next token."""
        return self._peeked.pop() if self._peeked else self._lexer.next()

    def peek(self) -> Token:
        """Return the next token, which stays the next one."""
        if not self._peeked:
            self._peeked.append(self._lexer.next())
        return self._peeked[-1]

    def skip(self, kind: str, value: str) -> bool:
        """Take the next token if it is this one."""
        token = self.peek()
        if (token.kind, token.value) != (kind, value):
            return False
        self.take()
        return True

    def fail(self, token: Token) -> TemplateRefused:
        """Return the error about a token that cannot stand where it does."""
        what = (
            "it ends in the middle of a block or tag"
            if token.kind == "end"
            else f"{token.value!r:.40} stands at the wrong place"
        )
        return TemplateRefused(what)

    def expect(self, kind: str, value: str) -> None:
        """Take a token that has to follow."""
        if not self.skip(kind, value):
            raise self.fail(self.peek())

    def name(self) -> str:
        """Take a name."""
        token = self.take()
        if token.kind != "name" or token.value in _CONSTANTS:
            raise self.fail(token)
        return token.value

    def expression(self) -> Expression:
        """Take a whole expression."""
        body = group(self._or())
        if not self.skip("name", "if"):
            return body
        condition = group(self._or())
        otherwise = group(self._or()) if self.skip("name", "else") else Constant("")
        return Choice(condition, body, otherwise)

    def _or(self) -> _Row:
        return self._in_a_row(self._and, "name", {"or": "||"})

    def _and(self) -> _Row:
        return self._in_a_row(self._not, "name", {"and": "&&"})

    def _in_a_row(self, operand: Callable[[], _Row], kind: str, operators: dict[str, str]) -> _Row:
        row = operand()
        while (token := self.peek()).kind == kind and token.value in operators:
            self.take()
            row = [*row, operators[token.value], *operand()]
        return row

    def _not(self) -> _Row:
        return _negate(self._not()) if self.skip("name", "not") else self._in()

    def _in(self) -> _Row:
        row = self._is()
        while self.peek().kind == "name" and self.peek().value in ("in", "not"):
            negated = self.take().value == "not"
            if negated:
                self.expect("name", "in")
            test: Expression = Binary("in", group(row), group(self._is()))
            row = [Unary("!", test) if negated else test]
        return row

    def _is(self) -> _Row:
        row = self._compare()
        if not self.skip("name", "is"):
            return row
        negated = self.skip("name", "not")
        match self._compare():
            case [Name(name)]:
                test = Test(name, group(row), Arguments())
            case [Constant(None)]:
                test = Test("null", group(row), Arguments())
            case [Call(Name(name), arguments)] if len(arguments.positional) <= 1 and not arguments.named:
                test = Test(name, group(row), arguments)
            case _:
                raise TemplateRefused("'is' has to be followed by the name of a test")
        return [Unary("!", test) if negated else test]

    def _compare(self) -> _Row:
        return self._in_a_row(self._concat, "operator", {one: one for one in _COMPARISONS})

    def _concat(self) -> _Row:
        row = self._add()
        while self.skip("operator", "~"):
            row = [*row, "+", Constant(""), "+", *self._add()]
        return row

    def _add(self) -> _Row:
        return self._in_a_row(self._subtract, "operator", {"+": "+"})

    def _subtract(self) -> _Row:
        return self._in_a_row(self._multiply, "operator", {"-": "-"})

    def _multiply(self) -> _Row:
        return self._in_a_row(self._divide, "operator", {"*": "*"})

    def _divide(self) -> _Row:
        return self._in_a_row(self._floor, "operator", {"/": "/"})

    def _floor(self) -> _Row:
        row = self._modulo()
        while self.skip("operator", "//"):
            row = [Unary("floor", group([*row, "/", *self._modulo()]))]
        return row

    def _modulo(self) -> _Row:
        return self._in_a_row(self._power, "operator", {"%": "%"})

    def _power(self) -> _Row:
        value = self._unary()
        while self.skip("operator", "**"):
            value = Binary("**", value, self._unary())
        return [value]

    def _unary(self, *, filtered: bool = True) -> Expression:
        value: Expression
        token = self.peek()
        if token.kind == "operator" and token.value in "+-":
            self.take()
            value = self._unary(filtered=False)
            if isinstance(value, Unary) and value.operator == token.value:
                raise TemplateRefused(
                    f"it has {token.value}{token.value}, which is another operator in JavaScript"
                )
            value = Unary(token.value, value)
        else:
            value = self._primary()
        return self._filters(value) if filtered else value

    def _filters(self, value: Expression) -> Expression:
        while self.skip("operator", "|"):
            name = self.name()
            while self.skip("operator", "."):
                name = f"{name}.{self.name()}"
            arguments = Arguments()
            if self.skip("operator", "("):
                arguments = self.arguments()
                if self.peek().kind == "operator" and self.peek().value in (".", "[", "("):
                    raise self.fail(self.peek())
            value = Filter(name, value, arguments)
        return value

    def _primary(self) -> Expression:
        token = self.take()
        value: Expression
        if token.kind == "text":
            value = Constant(token.value)
        elif token.kind == "number":
            value = Constant(float(token.value))
        elif token.kind == "name":
            value = Constant(_CONSTANTS[token.value]) if token.value in _CONSTANTS else Name(token.value)
        elif token.kind == "operator" and token.value in _CLOSING:
            value = self._aggregate(token)
        else:
            raise self.fail(token)
        return self._postfix(value)

    def _postfix(self, value: Expression) -> Expression:
        while True:
            if self.skip("operator", "("):
                if _has_null(value):
                    raise TemplateRefused("it calls a member of null")
                value = Call(value, self.arguments())
            elif self.skip("operator", "["):
                value = Member(value, self.expression())
                self.expect("operator", "]")
            elif self.skip("operator", "."):
                token = self.take()
                if token.kind != "name" or token.value in _CONSTANTS:
                    raise self.fail(token)
                value = Member(value, Constant(token.value))
            else:
                return value

    def _aggregate(self, opening: Token) -> Expression:
        closing = _CLOSING[opening.value]
        if opening.value == "(":
            value = self.expression()
            self.expect("operator", closing)
            return value
        items: list[Expression] = []
        entries: list[tuple[str, Expression]] = []
        while not self.skip("operator", closing):
            if items or entries:
                self.expect("operator", ",")
            if opening.value == "[":
                items.append(self.expression())
            else:
                entries.append(self._entry())
        return ListOf(tuple(items)) if opening.value == "[" else MapOf(tuple(entries))

    def _entry(self) -> tuple[str, Expression]:
        token = self.take()
        if (
            token.kind not in ("name", "text")
            or token.value == "__proto__"
            or (token.kind == "name" and token.value in _CONSTANTS)
        ):
            raise self.fail(token)
        self.expect("operator", ":")
        return token.value, self.expression()

    def arguments(self) -> Arguments:
        """Take arguments, whose opening parenthesis was taken."""
        positional: list[Expression] = []
        named: list[tuple[str, Expression]] = []
        while not self.skip("operator", ")"):
            if positional or named:
                self.expect("operator", ",")
            value = self.expression()
            if self.skip("operator", "="):
                if not isinstance(value, Name):
                    raise TemplateRefused("an argument that is given by its name has none")
                named.append((value.name, self.expression()))
            else:
                positional.append(value)
        return Arguments(tuple(positional), tuple(named))


def _negate(row: _Row) -> _Row:
    first, *rest = row
    assert not isinstance(first, str)
    return [Unary("!", first), *rest]


def _has_null(value: Expression) -> bool:
    if isinstance(value, Member):
        return _has_null(value.target) or _has_null(value.key)
    return value == Constant(None)
