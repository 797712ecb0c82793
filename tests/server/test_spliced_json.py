"""Answers that contain stored JSON text, which is not parsed for them."""

from dokimos.server._api.http.spliced_json import JsonText, splice_json


def test_stored_text_stands_in_an_object_as_it_is():
    page = JsonText(splice_json({"content": JsonText(b"[1.50, 1e999]"), "size": 20}))

    assert splice_json({"name": "a \ud800", "page": page}) == (
        rb'{"name":"a \ud800","page":{"content":[1.50, 1e999],"size":20}}'
    )


def test_an_object_may_be_empty_or_hold_nothing_but_stored_text():
    assert splice_json({}) == b"{}"
    assert splice_json({"a": JsonText(b"null")}) == b'{"a":null}'
