import pytest

from dokimos._http.credentials import Secret, redact, redact_credentials, redact_url
from dokimos._http.offline import is_local, is_offline
from dokimos._http.refusal import ErrorReply, find_status, format_status, parse_error_reply


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"error": {"message": "No such model", "param": "model", "code": 404}}', "No such model"),
        (b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}', "Overloaded"),
        (b'{"error": "model not found, try pulling it first"}', "model not found, try pulling it first"),
        (b'{"object": "error", "message": "bad request", "code": 400}', "bad request"),
        (b'{"detail": [{"loc": ["body"], "msg": "extra"}]}', '[{"loc": ["body"], "msg": "extra"}]'),
        (b'[{"error": {"code": 400, "message": "Unknown name: seed"}}]', "Unknown name: seed"),
        (b"<html>\n <b>Bad Gateway</b></html>", "an HTML page: Bad Gateway"),
        (b"<!DOCTYPE html>\n<title>R&amp;D</title><p class='x'>Sign in", "an HTML page: R&D Sign in"),
        (b"<error>not HTML</error>", "<error>not HTML</error>"),
        (b"", ""),
        (b"\xff\xfe", "��"),
    ],
)
def test_the_provider_s_own_words_are_found(content, message):
    assert parse_error_reply(content).message == message


def test_a_long_message_is_cut():
    assert len(parse_error_reply(b"x" * 10_000).message) < 400


@pytest.mark.parametrize(
    ("tree", "status"),
    [
        ({"choices": []}, None),
        ({"error": None, "output": []}, None),
        ({"error": {"code": 502, "message": "x"}}, 502),
        ({"error": {"code": "rate_limit_exceeded"}}, 429),
        ({"error": "nope"}, 400),
        ([1], None),
    ],
)
def test_an_error_inside_a_good_reply_has_a_status(tree, status):
    assert find_status(tree) == status


def test_statuses_are_named():
    assert (format_status(429), format_status(529), format_status(799)) == (
        "429 Too Many Requests",
        "529 Overloaded",
        "799",
    )


def test_secrets_are_cut_out_of_text():
    text = "key hunter2hunter2 and sk-abc123def456ghi and Bearer abcdefgh1234 but not task-force"

    assert (
        redact(text, [Secret("hunter2hunter2")])
        == "key [secret] and [secret] and [secret] but not task-force"
    )


@pytest.mark.parametrize("word", ["k", "none", "unused", "ollama", "sk-1", "not-needed", "no-key-required"])
def test_what_is_given_where_no_key_is_needed_is_not_cut_out_of_errors(word):
    text = f"{word} knows no total_tokens of {word}"

    assert redact(text, [Secret(word)]) == text


@pytest.mark.parametrize("key", ["hunter2!", "token-abc123", "correct-horse-battery"])
def test_keys_of_one_s_own_making_are_cut_out_of_errors(key):
    assert redact(f"no such key: {key}.", [Secret(key)]) == "no such key: [secret]."


@pytest.mark.parametrize("text", ["400: API_KEY_INVALID", "unsupported: api_versions_unsupported"])
def test_words_about_keys_are_none(text):
    assert redact(text) == text


def test_a_secret_shows_itself_to_nobody():
    secret = Secret("hunter2")

    assert "hunter2" not in f"{secret} {secret!r} {[secret]} {secret!s:>20}"
    assert secret.reveal() == "hunter2"
    assert secret == Secret(secret)


def test_a_shown_url_has_no_password_and_no_query():
    assert redact_url("https://me:pw@host:8080/v1?key=abc#x") == "https://host:8080/v1"


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1", True),
        ("http://127.0.0.3/v1", True),
        ("http://[::1]:80", True),
        ("https://api.openai.com/v1", False),
        ("http://10.0.0.1", False),
        ("http://localhost.example.com", False),
    ],
)
def test_what_stays_on_this_machine(url, local):
    assert is_local(url) is local


@pytest.mark.parametrize(
    ("status", "message", "retryable"),
    [
        (400, "", False),
        (404, "No such model", False),
        (408, "", True),
        (429, "Slow down", True),
        (500, "Out of order", True),
        (500, "Failed to parse grammar", False),
        (501, "", False),
        (503, "response_format", True),
    ],
)
def test_rate_limits_and_failures_are_retryable_and_wrong_requests_are_not(status, message, retryable):
    assert ErrorReply(message).is_retryable(status) is retryable


def test_an_exhausted_quota_is_not_retryable():
    assert not ErrorReply("", code="insufficient_quota").is_retryable(429)


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("0123456789abcdef", "[secret] for Acme Support Desk at https://acme.example.com"),
        ("Bearer 0123456789abcdef", "[secret] for Acme Support Desk at https://acme.example.com"),
        ("Acme Support Desk", "0123456789abcdef for Acme Support Desk at https://acme.example.com"),
        ("https://acme.example.com", "0123456789abcdef for Acme Support Desk at https://acme.example.com"),
        ("", "0123456789abcdef for Acme Support Desk at https://acme.example.com"),
    ],
)
def test_answers_lose_keys_and_nothing_else(secret, shown):
    answer = b"0123456789abcdef for Acme Support Desk at https://acme.example.com"

    assert redact_credentials(answer, [Secret(secret)]).decode() == shown


def test_a_url_that_is_none_shows_nothing_of_itself():
    assert redact_url("http://me:secret@[box/v1") == "http://..."


@pytest.mark.parametrize(
    ("value", "is_set"), [("1", True), ("on", True), ("2", True), ("0", False), ("false", False), ("", False)]
)
def test_judges_and_comments_agree_on_what_offline_is(value, is_set):
    assert is_offline({"DOKIMOS_OFFLINE": value}) is is_set
