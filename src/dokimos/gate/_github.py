"""Verdicts on GitHub: job summary, outputs of the step, and one comment per gate that is kept up to date."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

from dokimos._http.offline import is_offline
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.gate._gate_environment import truthy
from dokimos.gate._verdict_markdown import VerdictFile, describe_case, has_place, overall, render_markdown

TIMEOUT: Final = 30.0
_MOST_PAGES: Final = 50
_MOST_ANNOTATIONS: Final = 10
"""GitHub shows so many of a step."""
_NEXT: Final = re.compile(r'<([^>]+)>;\s*rel="next"')


class CommentSkipped(Exception):
    """There is no pull request to comment on, or no right to; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """Where comments go."""

    api_url: str
    repository: str
    number: int
    token: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Find the pull request that this job runs for.

        Raises:
            CommentSkipped: when there is none, it comes from a fork, or there is no token.
        """
        repository, token = environment.get("GITHUB_REPOSITORY", ""), environment.get("GITHUB_TOKEN", "")
        pull = _event(environment).get("pull_request")
        if not isinstance(pull, dict) or not isinstance(pull.get("number"), int):
            raise CommentSkipped("this job does not run for a pull request")
        # The token of such a job can only read. Asking first gives a reason instead of an error 403.
        if _repository_of(pull, "head") != _repository_of(pull, "base"):
            raise CommentSkipped("the pull request comes from a fork, whose jobs may not comment")
        if not token or not repository:
            raise CommentSkipped("GITHUB_TOKEN or GITHUB_REPOSITORY is not set")
        if is_offline(environment):
            raise CommentSkipped("DOKIMOS_OFFLINE is set")
        api_url = environment.get("GITHUB_API_URL") or "https://api.github.com"
        return cls(api_url=api_url.rstrip("/"), repository=repository, number=pull["number"], token=token)

    @property
    def comments_url(self) -> str:
        return f"{self.api_url}/repos/{self.repository}/issues/{self.number}/comments"


def _event(environment: Mapping[str, str]) -> dict[str, Any]:
    path = environment.get("GITHUB_EVENT_PATH")
    try:
        event = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError) as cause:
        raise CommentSkipped(f"the event of this job cannot be read: {cause}") from cause
    return event if isinstance(event, dict) else {}


def _repository_of(pull: Mapping[str, Any], side: str) -> Any:
    """The full name of the repository of one side; None where it was deleted."""
    return ((pull.get(side) or {}).get("repo") or {}).get("full_name")


def comment(verdicts: Sequence[VerdictFile], pull: PullRequest) -> list[str]:
    """Write or update one comment for each gate, and return their addresses.

    Raises:
        CommentSkipped: when GitHub refuses or cannot be reached.
    """
    if not pull.api_url.startswith(("https://", "http://")):
        raise CommentSkipped(f"GITHUB_API_URL is not a web address: {pull.api_url}")
    comments = list(_comments(pull))
    return [_upsert(verdict, comments, pull) for verdict in verdicts]


def _upsert(verdict: VerdictFile, comments: Sequence[Mapping[str, Any]], pull: PullRequest) -> str:
    body = json.dumps(
        {"body": escape_control_characters(render_markdown(verdict.tree, verdict.name))}
    ).encode()
    # The whole first line: the marker of one gate may begin like that of another, and people quote comments.
    own = next((c for c in comments if _first_line(c) == verdict.marker), None)
    if own is None:
        made, _ = _request("POST", pull.comments_url, pull, body)
    else:
        # Only a number goes into the address, whatever the reply holds.
        url = f"{pull.api_url}/repos/{pull.repository}/issues/comments/{int(own['id'])}"
        made, _ = _request("PATCH", url, pull, body)
    return str(made.get("html_url", "")) if isinstance(made, dict) else ""


def _first_line(comment: Mapping[str, Any]) -> str:
    return str(comment.get("body") or "").partition("\n")[0].strip()


def _comments(pull: PullRequest) -> Iterator[Mapping[str, Any]]:
    url: str | None = f"{pull.comments_url}?per_page=100"
    # Bounded, so that a reply that links to itself ends.
    for _ in range(_MOST_PAGES):
        if url is None:
            return
        page, link = _request("GET", url, pull)
        yield from (one for one in page if isinstance(one, dict))
        following = _NEXT.search(link)
        # A token goes to the API that it is for, wherever a reply points.
        url = following[1] if following and following[1].startswith(f"{pull.api_url}/") else None


def _request(method: str, url: str, pull: PullRequest, body: bytes | None = None) -> tuple[Any, str]:
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {pull.token}",
        "Content-Type": "application/json",
        "User-Agent": "dokimos",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    # urllib is enough: a few requests at the end of a job, and a failure only skips the comment.
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
            return json.loads(reply.read() or b"null"), reply.headers.get("Link", "")
    except urllib.error.HTTPError as error:
        with error:
            why = error.read(500).decode("utf-8", "replace")
        raise CommentSkipped(f"GitHub answered {error.code} to {method} {url}: {why}") from None
    except (OSError, ValueError) as error:
        raise CommentSkipped(f"GitHub could not be reached: {error}") from error


def write_summary(text: str, environment: Mapping[str, str]) -> Path | None:
    """Append Markdown to the summary of the job, where there is one."""
    return _append(environment.get("GITHUB_STEP_SUMMARY"), escape_control_characters(text))


def write_outputs(verdicts: Sequence[VerdictFile], environment: Mapping[str, str]) -> Path | None:
    """Set the outputs `status` and `passed` of the step, where it has some."""
    passed = "true" if all(verdict.passed for verdict in verdicts) else "false"
    return _append(environment.get("GITHUB_OUTPUT"), f"status={overall(verdicts)}\npassed={passed}\n")


def write_server_run_ids(ids: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    """Set the output `server_run_ids` of the step, separated by commas; nothing where there are none."""
    usable = [id for id in ids if id.isprintable()]  # a line break would set outputs of its own
    if not usable:
        return None
    return _append(environment.get("GITHUB_OUTPUT"), f"server_run_ids={','.join(usable)}\n")


def annotate(verdicts: Sequence[VerdictFile], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands that let GitHub show what got worse at its line of the data, in the changed files.

    Nothing outside GitHub Actions. A verdict that passes says nothing.
    """
    if not truthy(environment.get("GITHUB_ACTIONS")):
        return
    worse = (
        (verdict, case)
        for verdict in verdicts
        if not verdict.passed
        for case in verdict.tree.get("cases") or []
        if has_place(case) and _is_in_repository(case["file"])
    )
    for verdict, case in islice(worse, _MOST_ANNOTATIONS):
        level = "warning" if verdict.status == "INCONCLUSIVE" else "error"
        properties = {
            "file": case["file"],  # GitHub, too, knows files by their path in the repository
            "line": str(case["line"]),
            "title": f"Eval gate: {verdict.name}",
        }
        shown = ",".join(f"{name}={_in_property(value)}" for name, value in properties.items())
        yield f"::{level} {shown}::{_in_text(escape_control_characters(describe_case(case)))}"


def _is_in_repository(file: str) -> bool:
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts


def _in_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _in_property(text: str) -> str:
    return _in_text(escape_control_characters(text)).replace(":", "%3A").replace(",", "%2C")


def _append(path: str | None, text: str) -> Path | None:
    if not path:
        return None
    # Appended: other steps of the job write to the same file.
    with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return Path(path)
