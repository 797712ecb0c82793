"""What a project tells its reviewers: who may change it, and that nobody overwrites another's text unseen."""

import json

import pytest
from sqlalchemy import select
from tests.server.test_project_settings import ADMIN, read_project, start

from dokimos.server._db.audit_tables import AUDIT_LOG
from dokimos.server._services.projects.project_settings import read_settings

PATH = "/api/v1/projects/chat/review-instructions"
SETTINGS = "/api/v1/projects/chat/settings"
TEXT = "# Tone\n\nAn answer is **correct** if it is polite."


def read_details(api):
    database = api.app.state.database
    query = select(AUDIT_LOG.c.action, AUDIT_LOG.c.details).where(AUDIT_LOG.c.target_name == "chat")
    rows = api.portal.call(database.read, lambda connection: connection.execute(query).all())
    return {row.action: json.loads(row.details) for row in rows if row.details}


def test_a_project_has_no_instructions_at_first(api):
    start(api)
    answer = api.get(PATH).json()
    assert answer["text"] == ""
    assert answer["projectName"] == "chat"
    assert answer["maxCharacters"] == 20_000


def test_a_text_comes_back_as_it_was_written(api):
    start(api)
    text = "  two\r\nlines with \u202e, 😀 and <b>markup</b>\n\n"
    answer = api.put(PATH, json={"text": text})
    assert answer.status_code == 200
    assert answer.json()["text"] == text
    assert answer.json() == api.get(PATH).json()


def test_a_blank_text_removes_them_and_other_settings_stay(api):
    start(api)
    nothing = api.get(PATH).json()
    api.patch(SETTINGS, json={"blindReview": True})
    assert api.put(PATH, json={"text": TEXT}).json()["text"] == TEXT
    assert read_settings(read_project(api)).blind_review
    assert api.patch(SETTINGS, json={"reviewOverlap": 0.5}).json()["settings"]["blindReview"] is True
    assert api.get(PATH).json()["text"] == TEXT
    assert api.put(PATH, json={"text": " \n\t"}).json() == nothing
    assert "review_instructions" not in json.loads(read_project(api).settings)


def test_who_comes_second_is_told_and_overwrites_nothing(api):
    start(api)
    opened = api.get(PATH).json()["version"]
    first = api.put(PATH, json={"text": "first"}, headers={"If-Match": f'"{opened}"'})
    assert first.status_code == 200

    second = api.put(PATH, json={"text": "second"}, headers={"If-Match": f'"{opened}"'})

    assert second.status_code == 412
    assert second.json()["message"].startswith("The text for reviewers was changed after it was read")
    assert api.get(PATH).json()["text"] == "first"
    later = {"If-Match": f'"{first.json()["version"]}"'}
    assert api.put(PATH, json={"text": "second"}, headers=later).json()["text"] == "second"
    assert api.put(PATH, json={"text": "third"}).json()["text"] == "third"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"text": "x" * 20_001}, "text: must be at most 20000 characters"),
        ({"text": "a\0b"}, "text: must not contain NUL or half a character"),
        ({"text": None}, "text: "),
        ({"text": ["a"]}, "text: "),
        ({}, "text: "),
        ({"text": "a", "version": "b"}, "version: "),
        ([], "body: "),
    ],
)
def test_a_text_that_cannot_be_kept_is_refused_and_changes_nothing(api, body, message):
    start(api)
    before = api.put(PATH, json={"text": TEXT}).json()
    answer = api.put(PATH, json=body)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(message)
    assert api.get(PATH).json() == before


def test_the_longest_text_is_kept_whole_and_logged_in_part(api):
    start(api)
    text = "ü" * 20_000
    assert api.put(PATH, json={"text": text}).json()["text"] == text
    logged = read_details(api)["project.review-instruction.set"]["review_instructions"]
    assert logged == f'"{"ü" * 299}… (20,002 characters)'


def test_other_long_settings_are_logged_in_part_too(api):
    start(api)
    api.patch(SETTINGS, json={"baselineBranches": [f"branch-{number}" for number in range(50)]})
    logged = read_details(api)["project.settings.update"]["baseline_branches"]
    assert len(logged) < 350
    assert logged.startswith('["branch-0", "branch-1"')
    assert logged.endswith(" characters)")


def test_a_project_that_does_not_exist_has_none(api):
    assert api.get(PATH).status_code == 404
    assert api.put(PATH, json={"text": TEXT}).status_code == 404


def test_editors_change_them_and_viewers_only_read_them(serve):
    api = serve(api_key="admin-key")
    keys = {}
    for role in ("VIEWER", "EDITOR"):
        answer = api.post("/api/v1/api-keys", json={"name": role, "role": role}, headers=ADMIN).json()
        keys[role] = {"Authorization": f"Bearer {answer['key']}"}
    start(api, headers=ADMIN)
    assert api.put(PATH, json={"text": TEXT}, headers=keys["VIEWER"]).status_code == 403
    assert api.put(PATH, json={"text": TEXT}, headers=keys["EDITOR"]).status_code == 200
    assert api.get(PATH, headers=keys["VIEWER"]).json()["text"] == TEXT


def test_shared_projects_that_are_read_only_keep_theirs(serve):
    api = serve(api_key="admin-key", read_only_shared_rows=True)
    body = {"name": "a", "role": "ADMIN", "tenantId": "a"}
    key = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]
    start(api, headers=ADMIN)
    tenant = {"Authorization": f"Bearer {key}"}
    assert api.put(PATH, json={"text": TEXT}, headers=tenant).status_code == 403
    assert api.get(PATH, headers=tenant).json()["text"] == ""
