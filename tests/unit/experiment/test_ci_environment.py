"""What is known of a build by the variables that each CI system documents."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.experiment import _ci_environment as ci
from dokimos.experiment._ci_environment import CiBuild, clean_url, read_ci_build
from dokimos.experiment._run_provenance import GitState, git_state, read_code_provenance, scrub_source

MERGE, HEAD, BASE, OTHER = "a" * 40, "b" * 40, "c" * 40, "d" * 40

GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "acme/shop",
    "GITHUB_RUN_ID": "77",
    "GITHUB_SHA": BASE,
}
GITLAB = {
    "GITLAB_CI": "true",
    "CI_COMMIT_SHA": BASE,
    "CI_JOB_URL": "https://gitlab.example/acme/shop/-/jobs/5",
}
AZURE = {
    "TF_BUILD": "True",
    "BUILD_SOURCEVERSION": BASE,
    "BUILD_BUILDID": "12",
    "SYSTEM_TEAMFOUNDATIONCOLLECTIONURI": "https://dev.azure.example/acme/",
    "SYSTEM_TEAMPROJECT": "My Shop",
}
BITBUCKET = {
    "BITBUCKET_BUILD_NUMBER": "9",
    "BITBUCKET_REPO_FULL_NAME": "acme/shop",
    "BITBUCKET_COMMIT": HEAD,
    "BITBUCKET_BRANCH": "feature/x",
}
BUILDKITE = {
    "BUILDKITE": "true",
    "BUILDKITE_COMMIT": HEAD,
    "BUILDKITE_BRANCH": "feature/x",
    "BUILDKITE_PULL_REQUEST": "false",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "",
    "BUILDKITE_BUILD_URL": "https://buildkite.example/acme/shop/builds/3",
}
CIRCLE = {
    "CIRCLECI": "true",
    "CIRCLE_SHA1": HEAD,
    "CIRCLE_BRANCH": "feature/x",
    "CIRCLE_BUILD_URL": "https://circleci.example/gh/acme/shop/4",
}
JENKINS = {
    "JENKINS_URL": "https://ci.example/",
    "GIT_COMMIT": BASE,
    "BUILD_URL": "https://user:secret@ci.example/job/shop/8/",
}


def read(*variables: dict[str, str]) -> CiBuild:
    build = read_ci_build({name: value for each in variables for name, value in each.items()})
    assert build is not None
    return build


def event(tmp_path: Path, content: object) -> dict[str, str]:
    path = tmp_path / "event.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return {"GITHUB_EVENT_PATH": str(path)}


PULL_EVENT = {"number": 7, "pull_request": {"number": 7, "head": {"sha": HEAD, "ref": "feature/x"}}}


def test_outside_of_ci_nothing_is_known() -> None:
    assert read_ci_build({"CI_COMMIT_SHA": BASE, "CI": "true"}) is None


def test_a_push_on_github() -> None:
    build = read(GITHUB, {"GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/main"})
    assert build == CiBuild(
        commit=BASE, branch="main", trigger="push", url="https://github.example/acme/shop/actions/runs/77"
    )
    assert build.identify(BASE) == (BASE, "main")


def test_a_tag_on_github_has_no_branch() -> None:
    build = read(GITHUB, {"GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/tags/v1", "GITHUB_REF_NAME": "v1"})
    assert build.branch is None


def test_a_pull_request_on_github_is_about_its_head_and_not_the_merge(tmp_path: Path) -> None:
    build = read(
        GITHUB,
        event(tmp_path, PULL_EVENT),
        {
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_SHA": MERGE,
            "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_HEAD_REF": "feature/x",
            "GITHUB_BASE_REF": "main",
        },
    )
    assert (build.pull_request, build.target_branch, build.trigger) == ("7", "main", "pull_request")
    assert build.identify(MERGE) == (HEAD, "feature/x")
    assert build.identify(HEAD) == (HEAD, "feature/x")
    assert build.identify(None) == (HEAD, "feature/x")
    assert build.identify(OTHER) == (OTHER, None)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"pull_request": 3}', '{"pull_request": {"head": []}}'])
def test_a_pull_request_on_github_whose_event_cannot_be_read(tmp_path: Path, content: str) -> None:
    variables = {
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_SHA": MERGE,
        "GITHUB_REF": "refs/pull/7/merge",
        "GITHUB_HEAD_REF": "feature/x",
    }
    build = read(GITHUB, event(tmp_path, content), variables)
    assert build.pull_request == "7"
    assert build.identify(MERGE) == (MERGE, "feature/x")


def test_pull_request_target_is_about_the_commit_that_it_checks_out(tmp_path: Path) -> None:
    build = read(
        GITHUB,
        event(tmp_path, PULL_EVENT),
        {
            "GITHUB_EVENT_NAME": "pull_request_target",
            "GITHUB_REF": "refs/heads/main",
            "GITHUB_HEAD_REF": "feature/x",
            "GITHUB_BASE_REF": "main",
        },
    )
    assert build.identify(BASE) == (BASE, "main")
    assert build.identify(HEAD) == (HEAD, "feature/x")
    assert build.pull_request == "7"


@pytest.mark.parametrize(
    ("name", "trigger"),
    [
        ("schedule", "schedule"),
        ("workflow_dispatch", "manual"),
        ("repository_dispatch", "api"),
        ("workflow_run", "pipeline"),
        ("merge_group", "merge_queue"),
        ("release", "release"),
        ("; rm -rf", None),
    ],
)
def test_triggers_on_github(name: str, trigger: str | None) -> None:
    assert read(GITHUB, {"GITHUB_EVENT_NAME": name}).trigger == trigger


def test_a_branch_on_gitlab() -> None:
    build = read(GITLAB, {"CI_COMMIT_BRANCH": "main", "CI_PIPELINE_SOURCE": "schedule"})
    assert (build.trigger, build.url) == ("schedule", "https://gitlab.example/acme/shop/-/jobs/5")
    assert build.identify(BASE) == (BASE, "main")


REQUEST_ON_GITLAB = {
    "CI_PIPELINE_SOURCE": "merge_request_event",
    "CI_MERGE_REQUEST_IID": "21",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "feature/x",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
}


def test_a_merge_request_on_gitlab() -> None:
    build = read(GITLAB, REQUEST_ON_GITLAB, {"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": ""})
    assert (build.pull_request, build.target_branch, build.trigger) == ("21", "main", "pull_request")
    assert build.identify(BASE) == (BASE, "feature/x")


def test_a_merged_result_on_gitlab_is_about_the_head() -> None:
    merged = {"CI_COMMIT_SHA": MERGE, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": HEAD}
    assert read(GITLAB, REQUEST_ON_GITLAB, merged).identify(MERGE) == (HEAD, "feature/x")


def test_an_external_pull_request_on_gitlab() -> None:
    build = read(
        GITLAB,
        {
            "CI_PIPELINE_SOURCE": "external_pull_request_event",
            "CI_EXTERNAL_PULL_REQUEST_IID": "5",
            "CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_NAME": "feature/x",
            "CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_SHA": HEAD,
        },
    )
    assert (build.pull_request, build.target_branch, build.trigger) == ("5", "main", "pull_request")
    assert build.identify(HEAD) == (HEAD, "feature/x")


@pytest.mark.parametrize(
    ("source", "trigger"),
    [
        ("push", "push"),
        ("web", "manual"),
        ("trigger", "api"),
        ("api", "api"),
        ("parent_pipeline", "pipeline"),
    ],
)
def test_triggers_on_gitlab(source: str, trigger: str) -> None:
    assert read(GITLAB, {"CI_PIPELINE_SOURCE": source}).trigger == trigger


def test_a_push_on_azure() -> None:
    build = read(AZURE, {"BUILD_REASON": "IndividualCI", "BUILD_SOURCEBRANCH": "refs/heads/feature/x"})
    assert (build.trigger, build.branch) == ("push", "feature/x")
    assert build.url == "https://dev.azure.example/acme/My%20Shop/_build/results?buildId=12"


def test_a_pull_request_on_azure_is_about_its_head() -> None:
    request = {
        "BUILD_REASON": "PullRequest",
        "BUILD_SOURCEVERSION": MERGE,
        "BUILD_SOURCEBRANCH": "refs/pull/3/merge",
        "SYSTEM_PULLREQUEST_PULLREQUESTID": "991",
        "SYSTEM_PULLREQUEST_SOURCEBRANCH": "refs/heads/feature/x",
        "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main",
        "SYSTEM_PULLREQUEST_SOURCECOMMITID": HEAD,
    }
    build = read(AZURE, request)
    assert (build.pull_request, build.target_branch, build.trigger) == ("991", "main", "pull_request")
    assert build.identify(MERGE) == (HEAD, "feature/x")
    at_github = read(AZURE, request, {"SYSTEM_PULLREQUEST_PULLREQUESTNUMBER": "3"})
    assert at_github.pull_request == "3"


def test_a_branch_and_a_pull_request_on_bitbucket() -> None:
    build = read(BITBUCKET)
    assert (build.branch, build.trigger, build.pull_request) == ("feature/x", None, None)
    assert build.url == "https://bitbucket.org/acme/shop/pipelines/results/9"
    request = read(BITBUCKET, {"BITBUCKET_PR_ID": "4", "BITBUCKET_PR_DESTINATION_BRANCH": "main"})
    assert (request.pull_request, request.target_branch, request.trigger) == ("4", "main", "pull_request")
    # The clone is merged with the destination, by a commit of its own.
    assert request.identify(MERGE) == (HEAD, "feature/x")
    assert build.identify(OTHER) == (OTHER, None)


def test_a_branch_and_a_pull_request_on_buildkite() -> None:
    build = read(BUILDKITE, {"BUILDKITE_SOURCE": "webhook"})
    assert (build.pull_request, build.target_branch, build.trigger) == (None, None, "push")
    assert build.url == "https://buildkite.example/acme/shop/builds/3"
    request = {
        "BUILDKITE_SOURCE": "webhook",
        "BUILDKITE_PULL_REQUEST": "12",
        "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main",
    }
    build = read(BUILDKITE, request)
    assert (build.pull_request, build.target_branch, build.trigger) == ("12", "main", "pull_request")
    assert build.identify(HEAD) == (HEAD, "feature/x")
    merged = read(BUILDKITE, request, {"BUILDKITE_PULL_REQUEST_USING_MERGE_REFSPEC": "true"})
    assert merged.identify(MERGE) == (HEAD, "feature/x")
    by_hand = read(BUILDKITE, {"BUILDKITE_SOURCE": "ui", "BUILDKITE_COMMIT": "HEAD"})
    assert (by_hand.trigger, by_hand.identify(BASE)) == ("manual", (BASE, None))


def test_a_branch_and_a_pull_request_on_circleci() -> None:
    build = read(CIRCLE, {"CIRCLE_PULL_REQUEST": "https://github.example/acme/shop/pull/15"})
    assert (build.pull_request, build.branch, build.trigger) == ("15", "feature/x", None)
    forked = read(CIRCLE, {"CIRCLE_PR_NUMBER": "16", "CIRCLE_BRANCH": "pull/16"})
    assert (forked.pull_request, forked.trigger) == ("16", "pull_request")
    assert read(CIRCLE).pull_request is None


def test_a_branch_and_a_change_request_on_jenkins() -> None:
    build = read(JENKINS, {"GIT_BRANCH": "origin/main"})
    assert (build.branch, build.trigger, build.url) == ("main", None, "https://ci.example/job/shop/8/")
    assert read(JENKINS, {"BRANCH_NAME": "feature/x", "GIT_BRANCH": "feature/x"}).branch == "feature/x"
    request = read(
        JENKINS,
        {"BRANCH_NAME": "PR-7", "CHANGE_ID": "7", "CHANGE_BRANCH": "feature/x", "CHANGE_TARGET": "main"},
    )
    assert (request.branch, request.target_branch) == ("feature/x", "main")
    assert (request.pull_request, request.trigger) == ("7", "pull_request")


def test_an_agent_of_jenkins_in_a_job_of_another_system_is_not_the_build() -> None:
    assert read(JENKINS, CIRCLE).url == "https://circleci.example/gh/acme/shop/4"


NAMES = sorted(set().union(GITHUB, GITLAB, AZURE, BITBUCKET, BUILDKITE, CIRCLE, JENKINS, REQUEST_ON_GITLAB))


@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=60)))
def test_malformed_variables_never_fail(variables: dict[str, str]) -> None:
    build = read_ci_build(variables)
    for text in () if build is None else (build.branch, build.trigger, build.pull_request, build.url):
        assert text is None or (text.isprintable() and 0 < len(text) <= 2000)
    if build is not None:
        build.identify(None)


@pytest.mark.parametrize(
    "value", ["", "  ", "a\nb", "\x1b[2J", "x" * 5000, "\udcff", "\u202emain"], ids=ascii
)
def test_a_value_that_is_not_a_name_counts_as_missing(value: str) -> None:
    assert read(CIRCLE, {"CIRCLE_BRANCH": value}).branch is None
    assert read(CIRCLE, {"CIRCLE_SHA1": value}).commit is None
    assert read(CIRCLE, {"CIRCLE_BUILD_URL": f"https://a/{value}\n"}).url is None


def test_whatever_a_reader_raises_a_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(variables: Any) -> CiBuild:
        raise RuntimeError("unforeseen")

    monkeypatch.setitem(ci._READERS, "CIRCLECI", fail)  # type: ignore[attr-defined]
    assert read(CIRCLE) == CiBuild()


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://user:secret@ci.example:8080/a/1?token=s#x", "https://ci.example:8080/a/1"),
        ("https://token@ci.example/", "https://ci.example/"),
        ("https://a:b@c@ci.example/", "https://ci.example/"),
        ("ftp://ci.example/", None),
        ("javascript:alert(1)", None),
        ("https://", None),
        ("https://user:secret@/x", None),
        ("http://[::1", None),
        ("not an address", None),
        (None, None),
    ],
)
def test_an_address_is_kept_without_credentials(url: str | None, clean: str | None) -> None:
    assert clean_url(url) == clean


def test_the_source_of_a_data_set_is_kept_without_credentials() -> None:
    assert scrub_source("https://u:p@host/data.jsonl?sig=1") == "https://host/data.jsonl"
    assert scrub_source("http://[::1") == "***"
    assert scrub_source("s3://key:secret@bucket/data.jsonl") == "s3://bucket/data.jsonl"
    assert scrub_source("dataset://capitals@latest") == "dataset://capitals@latest"
    assert scrub_source("data/capitals.jsonl") == "data/capitals.jsonl"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def git(*arguments: str) -> None:
        names = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *names, *arguments], check=True, capture_output=True)

    monkeypatch.chdir(tmp_path)
    git("init", "-b", "trunk")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    return git


def test_the_branch_of_the_working_copy_is_known(repository: Any) -> None:
    state = git_state()
    assert (state.branch, state.dirty) == ("trunk", False)
    assert read_code_provenance({}) == {"git_commit": state.commit, "git_dirty": False, "git_branch": "trunk"}
    repository("tag", "trunk")  # an ambiguous name
    assert git_state().branch == "trunk"
    repository("checkout", "--detach")
    assert git_state() == GitState(commit=state.commit, dirty=False)


def test_a_repository_without_a_commit_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init"], check=True, capture_output=True)
    assert git_state() == GitState()


def test_the_ci_system_names_the_branch_of_a_detached_working_copy(repository: Any) -> None:
    commit = git_state().commit
    assert commit is not None
    repository("checkout", "--detach")
    origin = read_code_provenance({**CIRCLE, "CIRCLE_SHA1": commit})
    assert (origin["git_commit"], origin["git_branch"]) == (commit, "feature/x")


def test_a_working_copy_that_the_ci_system_does_not_know_speaks_for_itself(repository: Any) -> None:
    origin = read_code_provenance(
        {**CIRCLE, "CIRCLE_PULL_REQUEST": "https://github.example/acme/shop/pull/15"}
    )
    assert origin["git_commit"] == git_state().commit
    assert (origin["git_branch"], origin["pull_request"]) == ("trunk", "15")
    assert origin["build_url"] == "https://circleci.example/gh/acme/shop/4"
