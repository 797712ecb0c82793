"""Templates of Nunjucks, which promptfoo uses, rendered as Nunjucks 3.2 does or refused with the reason.

`lexer`, `expressions` and `parser` read a template; `rendering` evaluates it on `values` as JavaScript has
them, with the `operators`, the `members` and the `filters` that templates use. What is not there is refused:
a suite with a wrong prompt is worse than one without it.

Jinja2 cannot do this. The languages look alike, but not even `not a == b`, `{% set %}` in a loop or `2.0` is
the same in both, and a template that is rendered differently is a wrong result that nobody sees.

Source: the documentation of Nunjucks on its tags, filters and expressions, and ECMA-262 on what operators
make of values; the expected texts of the tests are those of Nunjucks 3.2.4.
"""
