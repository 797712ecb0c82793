"""The statements of a template, as Nunjucks reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from dokimos.importers._promptfoo.nunjucks.expressions import ExpressionParser
from dokimos.importers._promptfoo.nunjucks.syntax import (
    Arguments,
    Capture,
    Data,
    Expression,
    Filter,
    For,
    If,
    Macro,
    Name,
    Output,
    Set,
    Statement,
    Switch,
)
from dokimos.importers._promptfoo.nunjucks.values import SPACE, TemplateRefused

_START: Final = re.compile(rf"\A[{SPACE}]+")
_END: Final = re.compile(rf"[{SPACE}]+\Z")
Body = tuple[Statement, ...]


@lru_cache(maxsize=64)  # a prompt is rendered for each test
def parse(text: str) -> Body:
    """Return the statements of a template.

    Raises:
        TemplateRefused: It is not a template, or has a tag that is not rendered.
    """
    return _Parser(text).template()


class _Parser(ExpressionParser):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._drops_space = False
        self._depth = 0
        self._tag = ""
        self._end = 0
        self._tags: Final[dict[str, Callable[[], Statement]]] = {
            "if": self._if, "for": self._for, "set": self._set, "macro": self._macro, "filter": self._filter,
            "switch": self._switch, "raw": self._raw, "verbatim": self._raw,
        }  # fmt: skip

    def template(self) -> Body:
        """Take everything."""
        body, end = self._body(())
        assert not end
        return body

    def _body(self, ends: tuple[str, ...]) -> tuple[Body, str]:
        """Take statements up to one of the tags, whose name is taken and returned."""
        body: list[Statement] = []
        while True:
            token = self.take()
            if token.kind == "end":
                if ends:
                    raise self.fail(token)
                return tuple(body), ""
            if token.kind == "data":
                body.append(Data(self._without_space(token.value)))
            elif token.kind == "comment":
                self._drops_space = token.value.endswith("-#}")
            elif token.value.startswith("{{"):
                value = self.expression()
                self._close("}}")
                body.append(Output(value, self.text[token.start : self._end]))
            else:
                self._drops_space = False
                tag = self.name()
                if tag in ends:
                    return tuple(body), tag
                body.append(self._statement(tag))

    def _without_space(self, data: str) -> str:
        if self._drops_space:
            data, self._drops_space = _START.sub("", data), False
        following = self.peek()
        if following.kind in ("open", "comment") and following.value[2:3] == "-":
            data = _END.sub("", data)
        return data

    def _close(self, end: str) -> None:
        """Take the end of a tag."""
        token = self.take()
        if token.kind != "close" or not token.value.endswith(end):
            raise self.fail(token)
        self._drops_space = token.value.startswith("-")
        self._end = token.end

    def _statement(self, tag: str) -> Statement:
        read = self._tags.get(tag)
        if read is None:
            raise TemplateRefused(f"the tag {tag!r:.40} is not rendered")
        self._tag = tag
        self._depth += 1
        statement = read()
        self._depth -= 1
        return statement

    def _if(self) -> Statement:
        condition = self.expression()
        self._close("%}")
        body, end = self._body(("elif", "elseif", "else", "endif"))
        otherwise: Body = ()
        if end in ("elif", "elseif"):
            return If(condition, body, (self._if(),))
        self._close("%}")
        if end == "else":
            otherwise, _ = self._body(("endif",))
            self._close("%}")
        return If(condition, body, otherwise)

    def _for(self) -> Statement:
        names = [self.name()]
        while self.skip("operator", ","):
            names.append(self.name())
        self.expect("name", "in")
        values = self.expression()
        self._close("%}")
        body, end = self._body(("endfor", "else"))
        self._close("%}")
        otherwise: Body = ()
        if end == "else":
            otherwise, _ = self._body(("endfor",))
            self._close("%}")
        if "loop" in names or len(set(names)) < len(names):
            raise TemplateRefused("a loop has a variable called loop, or the same one twice")
        return For(tuple(names), values, body, otherwise)

    def _set(self) -> Statement:
        names = [self.name()]
        while self.skip("operator", ","):
            names.append(self.name())
        if "loop" in names:
            raise TemplateRefused("it sets the variable loop")
        if self.skip("operator", "="):
            value = self.expression()
            self._close("%}")
            return Set(tuple(names), value)
        self._close("%}")
        body, _ = self._body(("endset",))
        self._close("%}")
        return Set(tuple(names), Capture(body))

    def _macro(self) -> Statement:
        if self._depth > 1:
            raise TemplateRefused("a macro stands within another block")
        name = self.name()
        self.expect("operator", "(")
        signature = self.arguments()
        self._close("%}")
        body, _ = self._body(("endmacro",))
        self._close("%}")
        parameters = [one.name for one in signature.positional if isinstance(one, Name)]
        if len(parameters) < len(signature.positional):
            raise TemplateRefused("a macro has a parameter that is not a name")
        return Macro(name, tuple(parameters), signature.named, body)

    def _filter(self) -> Statement:
        start = self.peek().start
        name = self.name()
        arguments = self.arguments() if self.skip("operator", "(") else Arguments()
        self._close("%}")
        source = self.text[start : self._end]
        body, _ = self._body(("endfilter",))
        self._close("%}")
        return Output(Filter(name, Capture(body), arguments), source)

    def _switch(self) -> Statement:
        value = self.expression()
        self._close("%}")
        _, end = self._body(("case", "default", "endswitch"))
        cases: list[tuple[Expression, Body]] = []
        if end != "case":
            raise TemplateRefused("a switch does not begin with a case")
        while end == "case":
            condition = self.expression()
            self._close("%}")
            body, end = self._body(("case", "default", "endswitch"))
            cases.append((condition, body))
        self._close("%}")
        otherwise: Body = ()
        if end == "default":
            otherwise, _ = self._body(("endswitch",))
            self._close("%}")
        return Switch(value, tuple(cases), otherwise)

    def _raw(self) -> Statement:
        self._close("%}")
        start, level = self.lexer.position, 1
        for found in re.finditer(rf"\{{%\s*(end)?{self._tag}\s*%\}}", self.text[start:]):
            level += -1 if found[1] else 1
            if level == 0 and "\n" not in found[0]:  # over which Nunjucks stumbles
                self.lexer.position = start + found.end()
                return Data(self.text[start : start + found.start()])
        raise TemplateRefused(f"a block {self._tag} is not closed")
