"""What a CI system says of the build that runs: the only module that knows the names of their variables.

Each reader takes the variables that its system documents. A variable that is missing, empty or malformed is
None: nothing here fails a run. Only the variables that are named here are read, and no credentials.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

Variables = Mapping[str, str]

_MAX_VALUE_LENGTH: Final = 255
_LONGEST_URL: Final = 2000
_LARGEST_EVENT: Final = 5_000_000
"""Bytes of the file that describes an event, which is a few kilobytes for a pull request."""
_SHA: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)
_REQUEST: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_TRIGGER: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PULL_REF: Final = re.compile(r"refs/pull/(\d+)/(?:merge|head)")

PUSH: Final = "push"
PULL_REQUEST: Final = "pull_request"
SCHEDULE: Final = "schedule"
MANUAL: Final = "manual"
API: Final = "api"
PIPELINE: Final = "pipeline"
"""Another pipeline or workflow started this one."""
MERGE_QUEUE: Final = "merge_queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class CiBuild:
    """What a CI system says of a build."""

    commit: str | None = None
    """What the system checks out."""
    branch: str | None = None
    """The branch of that commit; None for a tag."""
    head: str | None = None
    """Of a pull request: the last commit of its own branch."""
    head_branch: str | None = None
    """Of a pull request: its own branch."""
    is_merge: bool = False
    """Whether `commit` is a merge of the head into the target branch, made for this build only."""
    merges_itself: bool = False
    """Whether the build merges the target branch into the head, by a commit that no variable names."""
    target_branch: str | None = None
    """Of a pull request: the branch that it is to be merged into."""
    pull_request: str | None = None
    """Its number, or what it is called."""
    trigger: str | None = None
    """What started it, in one of the words above, or in that of the system."""
    url: str | None = None

    def identify(self, checked_out: str | None) -> tuple[str | None, str | None]:
        """Return the commit and the branch that a build is about; the first is never a merge made for it.

        Args:
            checked_out: The commit of the working copy, None where it is unknown. One that the system does
                not name, such as that of another repository, is what the build is about.
        """
        if self.merges_itself or (self.is_merge and checked_out in (None, self.commit)):
            return self.head or checked_out or self.commit, self.head_branch
        if checked_out is not None and checked_out == self.head:
            return self.head, self.head_branch
        if checked_out in (None, self.commit):
            return self.commit, self.branch
        return checked_out, None


def read_ci_build(variables: Variables) -> CiBuild | None:
    """Return what the CI system says that these variables come from, None where there is none.

    Example:
        >>> read_ci_build({"CIRCLECI": "true", "CIRCLE_BRANCH": "main"}).branch
        'main'
    """
    for sign, read in _READERS.items():
        if _text(variables, sign):
            try:
                return read(variables)
            except Exception:  # whatever stands in a variable, a run goes on without it
                return CiBuild()
    return None


def clean_url(url: str | None) -> str | None:
    """Return a web address without user, password, query and fragment; None where it is not one."""
    if not url or len(url) > _LONGEST_URL or not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _github(variables: Variables) -> CiBuild:
    event_name = _text(variables, "GITHUB_EVENT_NAME")
    event = _github_event(variables) if event_name in _GITHUB_PULL_EVENTS else {}
    request = _mapping(event.get("pull_request"))
    head = _mapping(request.get("head"))
    ref = _text(variables, "GITHUB_REF") or ""
    from_ref = _PULL_REF.fullmatch(ref)
    number = request.get("number") or event.get("number") or (from_ref and from_ref[1])
    server, repository = _text(variables, "GITHUB_SERVER_URL"), _text(variables, "GITHUB_REPOSITORY")
    run = _text(variables, "GITHUB_RUN_ID")
    return CiBuild(
        commit=_sha(_text(variables, "GITHUB_SHA")),
        branch=_branch(ref),
        head=_sha(head.get("sha")),
        head_branch=_text(variables, "GITHUB_HEAD_REF") or _clean(head.get("ref")),
        is_merge=from_ref is not None,  # pull_request_target builds the target branch instead
        target_branch=_text(variables, "GITHUB_BASE_REF"),
        pull_request=_request(number),
        trigger=_trigger(event_name, _GITHUB_TRIGGERS),
        url=clean_url(f"{server}/{repository}/actions/runs/{run}" if server and repository and run else None),
    )


def _github_event(variables: Variables) -> Mapping[str, Any]:
    path = Path(variables.get("GITHUB_EVENT_PATH") or "")
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_EVENT:
            return {}
        return _mapping(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return {}


def _gitlab(variables: Variables) -> CiBuild:
    commit = _sha(_text(variables, "CI_COMMIT_SHA"))
    external = "CI_EXTERNAL_PULL_REQUEST"
    # Set only where the pipeline runs on the merged result: then CI_COMMIT_SHA is the merge.
    source = _sha(_text(variables, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"))
    head_branch = _text(variables, "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", f"{external}_SOURCE_BRANCH_NAME")
    return CiBuild(
        commit=commit,
        branch=_text(variables, "CI_COMMIT_BRANCH") or head_branch,
        head=source or _sha(_text(variables, f"{external}_SOURCE_BRANCH_SHA")) or (head_branch and commit),
        head_branch=head_branch,
        is_merge=source is not None and source != commit,
        target_branch=_text(
            variables, "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", f"{external}_TARGET_BRANCH_NAME"
        ),
        pull_request=_request(_text(variables, "CI_MERGE_REQUEST_IID", f"{external}_IID")),
        trigger=_trigger(_text(variables, "CI_PIPELINE_SOURCE"), _GITLAB_TRIGGERS),
        url=clean_url(variables.get("CI_JOB_URL")) or clean_url(variables.get("CI_PIPELINE_URL")),
    )


def _jenkins(variables: Variables) -> CiBuild:
    request = _request(_text(variables, "CHANGE_ID"))
    # Of a change request, BRANCH_NAME is a name such as PR-7, and GIT_BRANCH too.
    own = _text(variables, "BRANCH_NAME", "GIT_LOCAL_BRANCH") or _without_remote(
        _text(variables, "GIT_BRANCH")
    )
    branch = _text(variables, "CHANGE_BRANCH") if request else own
    return CiBuild(
        commit=_sha(_text(variables, "GIT_COMMIT")),
        branch=None if _text(variables, "TAG_NAME") else branch,
        target_branch=_text(variables, "CHANGE_TARGET"),
        pull_request=request,
        trigger=PULL_REQUEST if request else None,
        url=clean_url(variables.get("BUILD_URL")),
    )


def _azure(variables: Variables) -> CiBuild:
    ref = _text(variables, "BUILD_SOURCEBRANCH") or ""
    request = "SYSTEM_PULLREQUEST_"
    # The id is the number at Azure Repos; of a request at GitHub, the number has a variable of its own.
    number = _request(_text(variables, f"{request}PULLREQUESTNUMBER", f"{request}PULLREQUESTID"))
    from_ref = _PULL_REF.fullmatch(ref)
    home = _text(variables, "SYSTEM_TEAMFOUNDATIONCOLLECTIONURI", "SYSTEM_COLLECTIONURI")
    project, build = _text(variables, "SYSTEM_TEAMPROJECT"), _text(variables, "BUILD_BUILDID")
    url = None
    if home and project and build and (base := clean_url(home)):
        # Its page is named by the query, which `clean_url` cuts.
        url = f"{base.rstrip('/')}/{quote(project)}/_build/results?buildId={quote(build, safe='')}"
    return CiBuild(
        commit=_sha(_text(variables, "BUILD_SOURCEVERSION")),
        branch=_branch(ref),
        head=_sha(_text(variables, f"{request}SOURCECOMMITID")),
        head_branch=_branch(_text(variables, f"{request}SOURCEBRANCH") or ""),
        is_merge=from_ref is not None,
        target_branch=_branch(_text(variables, f"{request}TARGETBRANCH") or ""),
        pull_request=number or (from_ref and from_ref[1]),
        trigger=_trigger(_text(variables, "BUILD_REASON"), _AZURE_TRIGGERS),
        url=url,
    )


def _bitbucket(variables: Variables) -> CiBuild:
    request = _request(_text(variables, "BITBUCKET_PR_ID"))
    commit, branch = _sha(_text(variables, "BITBUCKET_COMMIT")), _text(variables, "BITBUCKET_BRANCH")
    repository, build = (
        _text(variables, "BITBUCKET_REPO_FULL_NAME"),
        _text(variables, "BITBUCKET_BUILD_NUMBER"),
    )
    return CiBuild(
        commit=commit,
        branch=branch,
        head=commit if request else None,
        head_branch=branch if request else None,
        merges_itself=request is not None,
        target_branch=_text(variables, "BITBUCKET_PR_DESTINATION_BRANCH"),
        pull_request=request,
        trigger=PULL_REQUEST if request else None,  # no variable says what started another pipeline
        url=clean_url(
            f"https://bitbucket.org/{repository}/pipelines/results/{build}" if repository else None
        ),
    )


def _buildkite(variables: Variables) -> CiBuild:
    number = _text(variables, "BUILDKITE_PULL_REQUEST")
    request = None if number == "false" else _request(number)
    commit, branch = _sha(_text(variables, "BUILDKITE_COMMIT")), _text(variables, "BUILDKITE_BRANCH")
    trigger = _trigger(_text(variables, "BUILDKITE_SOURCE"), _BUILDKITE_TRIGGERS)
    return CiBuild(
        commit=commit,
        branch=None if _text(variables, "BUILDKITE_TAG") else branch,
        head=commit if request else None,
        head_branch=branch if request else None,
        merges_itself=_text(variables, "BUILDKITE_PULL_REQUEST_USING_MERGE_REFSPEC") == "true",
        target_branch=_text(variables, "BUILDKITE_PULL_REQUEST_BASE_BRANCH"),
        pull_request=request,
        trigger=PULL_REQUEST if request and trigger == PUSH else trigger,
        url=clean_url(variables.get("BUILDKITE_BUILD_URL")),
    )


def _circleci(variables: Variables) -> CiBuild:
    forked = _text(variables, "CIRCLE_PR_NUMBER")  # only there for pull requests from forks
    address = clean_url(variables.get("CIRCLE_PULL_REQUEST")) or ""
    return CiBuild(
        commit=_sha(_text(variables, "CIRCLE_SHA1")),
        branch=_text(variables, "CIRCLE_BRANCH"),
        pull_request=_request(forked or address.rpartition("/")[2]),
        trigger=PULL_REQUEST if forked else None,  # else a push, a schedule or a person: no variable says
        url=clean_url(variables.get("CIRCLE_BUILD_URL")),
    )


_READERS: Final[Mapping[str, Callable[[Variables], CiBuild]]] = {
    "GITHUB_ACTIONS": _github,
    "GITLAB_CI": _gitlab,
    "TF_BUILD": _azure,
    "BITBUCKET_BUILD_NUMBER": _bitbucket,
    "BUILDKITE": _buildkite,
    "CIRCLECI": _circleci,
    "JENKINS_URL": _jenkins,  # the last: an agent of Jenkins may itself run in a job of another system
}
"""The variable that each system always sets, and what reads the others."""

_GITHUB_PULL_EVENTS: Final = (
    "pull_request",
    "pull_request_target",
    "pull_request_review",
    "pull_request_review_comment",
)
_GITHUB_TRIGGERS: Final = {
    **dict.fromkeys(_GITHUB_PULL_EVENTS, PULL_REQUEST),
    "merge_group": MERGE_QUEUE,
    "workflow_dispatch": MANUAL,
    "repository_dispatch": API,
    "workflow_run": PIPELINE,
}
_GITLAB_TRIGGERS: Final = {
    "merge_request_event": PULL_REQUEST,
    "external_pull_request_event": PULL_REQUEST,
    "web": MANUAL,
    "webide": MANUAL,
    "chat": MANUAL,
    "trigger": API,
    "parent_pipeline": PIPELINE,
}
_AZURE_TRIGGERS: Final = {
    "pullrequest": PULL_REQUEST,
    "individualci": PUSH,
    "batchedci": PUSH,
    "buildcompletion": PIPELINE,
    "resourcetrigger": PIPELINE,
}
_BUILDKITE_TRIGGERS: Final = {"webhook": PUSH, "ui": MANUAL, "trigger_job": PIPELINE}


def _text(variables: Variables, *names: str) -> str | None:
    """Return the first of some variables that says something usable."""
    return next((text for name in names if (text := _clean(variables.get(name)))), None)


def _clean(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    text = value.strip()
    return text if text and len(text) <= _MAX_VALUE_LENGTH and text.isprintable() else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sha(value: object) -> str | None:
    return value.lower() if isinstance(value, str) and _SHA.fullmatch(value) else None


def _branch(ref: str) -> str | None:
    """Return the branch that a ref names; None for a tag and for the ref of a pull request."""
    if ref.startswith("refs/") and not ref.startswith("refs/heads/"):
        return None
    name = ref.removeprefix("refs/heads/")
    return name or None


def _without_remote(branch: str | None) -> str | None:
    return None if branch is None else branch.removeprefix("origin/")


def _request(value: object) -> str | None:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return text if _REQUEST.fullmatch(text) else None


def _trigger(text: str | None, names: Mapping[str, str]) -> str | None:
    """Return what started a build in our words, else in those of the system."""
    lower = (text or "").lower()
    return names.get(lower, lower if _TRIGGER.fullmatch(lower) else None)
