"""The gate of a server, asked about one of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dokimos._http.api_client import ApiClient, ApiReply, encode_segment
from dokimos._http.credentials import redact_url
from dokimos._http.server_api import open_server_api
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import ServerReplyError

_STATUSES: Final = ("PASS", "FAIL", "NO_BASELINE")
_NOT_POWERED: Final = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerGateRequest:
    """Which runs of a server are compared, and how."""

    candidate_run_id: str
    experiment_id: str | None = None
    """That of the candidate unless given."""
    baseline_run_id: str | None = None
    """The one that the server chooses unless given."""
    baseline_branch: str | None = None
    """Only a run of this branch is chosen."""
    options: Mapping[str, Any] | None = None
    """Fields of the request that say how to decide, such as `alpha`."""
    name: str | None = None
    """What the gate is called in reports; project, experiment and branch unless given."""


def check_on_server(request: ServerGateRequest, server_url: str | None = None) -> dict[str, Any]:
    """Ask the gate of a server about a run, and return the verdict in the form of verdict files.

    Raises:
        ServerError: where the server cannot be reached or refuses: never a verdict that passes.
        ConfigurationError: where no server is named.
    """

    async def ask() -> dict[str, Any]:
        async with open_server_api(server_url) as api:
            return await _check(api, request)

    return run_sync(ask())


async def _check(api: ApiClient, request: ServerGateRequest) -> dict[str, Any]:
    run = await api.request("GET", f"/runs/{encode_segment(request.candidate_run_id)}", query={"size": 1})
    about = run.json()
    if not isinstance(about, dict) or "experimentId" not in about:
        raise _not_understood(run, "a run")
    experiment = request.experiment_id or str(about["experimentId"])
    body = {
        "candidateRunId": request.candidate_run_id,
        "baselineRunId": request.baseline_run_id,
        "baselineBranch": request.baseline_branch,
        **(request.options or {}),
    }
    reply = await api.request(
        "POST",
        f"/experiments/{encode_segment(experiment)}/gate",
        json={key: value for key, value in body.items() if value is not None},
        repeatable=True,
    )
    verdict = reply.json()
    if (
        not isinstance(verdict, dict)
        or verdict.get("status") not in _STATUSES
        or not isinstance(verdict.get("passed"), bool)
    ):
        raise _not_understood(reply, "a verdict")
    name = request.name or f"{about.get('projectName', 'server')}/{about.get('experimentName', experiment)}"
    if request.name is None and request.baseline_branch is not None:
        name += f" vs {request.baseline_branch}"  # a comment on the pull request for each gate
    return _verdict_tree(verdict, name, _link(api, experiment, verdict))


def _verdict_tree(verdict: Mapping[str, Any], name: str, link: str) -> dict[str, Any]:
    """Return the answer of a gate as our verdict files have it, so that the same reports show it."""
    tree = {**verdict, "name": name, "link": link}
    if verdict.get("inconclusive") and verdict["status"] != "NO_BASELINE":
        tree["status"] = _NOT_POWERED
    tree["regressedEvaluators"] = [
        # The API's pValue is the adjusted one.
        {**entry, "pValue": entry.get("rawPValue"), "adjustedPValue": entry.get("pValue")}
        for entry in verdict.get("regressedEvaluators") or ()
    ]
    # Without it, reports leave out what a verdict of this machine rests on; the reasons say it.
    tree.pop("alpha", None)
    return tree


def _link(api: ApiClient, experiment: str, verdict: Mapping[str, Any]) -> str:
    """Return where the comparison is read, or where nothing was compared the run."""
    root = redact_url(api.base_url)
    candidate, baseline = verdict.get("candidateRunId"), verdict.get("baselineRunId")
    if baseline is None:
        return f"{root}/runs/{candidate}"
    return f"{root}/experiments/{experiment}/runs/{candidate}/diff?baselineRunId={baseline}"


def _not_understood(reply: ApiReply, what: str) -> ServerReplyError:
    return ServerReplyError(f"{reply.url}: the answer is not {what}; is this a dokimos server?")
