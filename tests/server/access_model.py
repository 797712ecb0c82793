"""Who may see and change which row: the rules, said a second time in plain Python.

The model knows all rows from the log of changes, and the roles of all callers. It asks no part of the server.
"""

import re
from typing import NamedTuple

from tests.server.change_log import TABLES

NONE, VIEWER, EDITOR, ADMIN = range(4)
ROLES = {"NONE": NONE, "VIEWER": VIEWER, "EDITOR": EDITOR, "ADMIN": ADMIN}
ATOM = re.compile(r"mark\d+|name-[a-z]+|tenant-[a-z]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What tells where an answer comes from: the texts that calls write, each its own; names; and ids."""


class Place(NamedTuple):
    """Where a row belongs."""

    tenant: str | None = None
    project: str | None = None
    dataset: str | None = None
    kind: str = "row"
    """`key` for rows about keys, `member` for members of projects, `view` for saved views, `log`."""
    owner: str | None = None
    """Whose view it is, where it is not shared."""


def _of_run(model, row):
    return model.place("runs", model.rows["runs"][row["run_id"]])


def _of_project(model, row):
    return model.place("projects", model.rows["projects"][row["project_id"]])


def _of_item(model, row):
    return _of_run(model, model.rows["items"][row["item_id"]])


def _of_run_of_job(model, row):
    return model.place("judge_jobs", model.rows["judge_jobs"][row["job_id"]])


def _of_tenant(row, place):
    """Below a shared row, a tenant's own."""
    return place._replace(tenant=row["tenant_id"] or place.tenant)


def _of_version(model, row):
    return model.place("dataset_versions", model.rows["dataset_versions"][row["version_id"]])


def _of_view(model, row):
    project = model.rows["projects"].get(row["project_id"])
    tenant = row["tenant_id"] or (project and project["tenant_id"])
    owner = None if row["is_shared"] else row["owner"]
    return Place(tenant, row["project_id"], kind="view", owner=owner)


PLACES = {
    "projects": lambda model, row: Place(row["tenant_id"], row["id"]),
    "experiments": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "runs": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "items": _of_run,
    "run_tags": _of_run,
    "run_evaluators": _of_run,
    "ingested_batches": _of_run,
    "evaluations": _of_item,
    "run_comments": lambda model, row: _of_tenant(row, _of_run(model, row)),
    "annotations": lambda model, row: _of_tenant(row, _of_item(model, row)),
    "reviews": lambda model, row: _of_tenant(row, _of_item(model, row)),
    "review_changes": lambda model, row: _of_tenant(row, _of_item(model, row)),
    "trace_reviews": lambda model, row: _of_tenant(row, _of_item(model, row)),
    "review_claims": lambda model, row: _of_tenant(row, _of_item(model, row)),
    "run_review_counts": lambda model, row: _of_tenant(row, _of_run(model, row)),
    "label_schemas": lambda model, row: _of_tenant(row, _of_project(model, row)),
    "comparisons": lambda model, row: _of_run(model, {"run_id": row["candidate_run_id"]}),
    "comparison_cases": lambda model, row: model.place(
        "comparisons", model.rows["comparisons"][row["comparison_id"]]
    ),
    "datasets": lambda model, row: Place(row["tenant_id"], dataset=row["id"]),
    "dataset_versions": lambda model, row: Place(row["tenant_id"], dataset=row["dataset_id"]),
    "dataset_items": _of_version,
    "project_datasets": lambda model, row: Place(project=row["project_id"]),
    "project_members": lambda model, row: Place(project=row["project_id"], kind="member"),
    "api_keys": lambda model, row: Place(row["tenant_id"], kind="key"),
    "saved_views": _of_view,
    "alert_webhooks": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "alert_deliveries": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "judge_jobs": lambda model, row: _of_tenant(row, _of_run(model, row)),
    "judge_errors": _of_run_of_job,
    "judge_scores": _of_run_of_job,
    "encryption_keys": lambda model, row: Place(kind="key"),
    "trace_eval_rules": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "trace_eval_batches": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "trace_eval_back_fills": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "trace_eval_reviews": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "trace_eval_calls": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "trace_alerts": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "trace_alert_firings": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "judge_calls": lambda model, row: Place(row["tenant_id"], row["project_id"]),
    "judge_budgets": lambda model, row: Place(project=row["project_id"]),
    "llm_connections": lambda model, row: Place(row["tenant_id"]),
    "audit_log": lambda model, row: Place(row["tenant_id"], kind="log"),
    "sessions": lambda model, row: Place(kind="key"),
}
"""Where the rows of each table belong. A new table is given its place here, and its rule in `may_change`."""
COMPUTED = ("comparisons", "comparison_cases")
"""What the server derives from rows that a caller compares; whose texts they are shows at their sources."""
LOGGED = {"id", "principal_id", "principal_name"}
"""What an audit log may tell whoever reads it, of any row; all else that it names must be visible itself, or
have been sent by its own tenant."""
BOOKKEEPING = {"verdict", "verdict_run_id", "automatic"}
"""Columns that the server itself fills in."""
OF_TENANTS = (
    "annotations", "run_comments", "reviews", "review_changes", "review_claims", "trace_reviews",
)  # fmt: skip
"""Tables whose rows may be a tenant's own below a run that is shared."""
REFERENCES = {
    "baseline_run_id", "verdict_run_id", "latest_run_id", "candidate_run_id", "source_item_id",
    "source_run_id", "run_id", "item_id", "experiment_id", "project_id", "dataset_id", "dataset_item_id",
    "dataset_version_id", "version_id", "comparison_id", "api_key_id", "content_hash", "inputs_hash",
    "webhook_id", "payload", "lease", "job_id", "connection_id", "rule_id",
    "alert_id", "firing_id", "after",
}  # fmt: skip
"""Columns that name other rows: seeing one of them entitles to nothing."""


class Caller:
    """A key, or none."""

    def __init__(self, name, token, role, tenant=None, *, key_id=None, is_restricted=False):
        self.name = name
        self.id = key_id or "system"
        self.headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self.token = token
        self.role = ROLES[role]
        self.tenant = tenant
        self.key_id = key_id
        self.is_restricted = is_restricted
        self.marker = ""
        """What all texts contain that it sends in its present call."""
        self.projects = {}
        """Its roles in projects, by their ids."""

    @property
    def sees_all(self):
        return not self.is_restricted and self.role >= VIEWER

    def role_in(self, project):
        return max(self.role, self.projects.get(project, NONE))

    def __repr__(self):
        return f"{self.name} {self.projects}"


class Model:
    """All rows that there have been, and what the callers may do with them."""

    def __init__(self, callers, *, read_only_shared_rows=False):
        self.callers = callers
        self.read_only_shared_rows = read_only_shared_rows
        self.rows = {name: {} for name in TABLES}
        self.atoms = {}
        """By each sign of an answer, the places of the rows that hold it or held it."""
        self.known_once = set()
        """The data sets that each project has ever known of."""
        self._seen = {}
        self._keys = {name: [column.name for column in table.primary_key] for name, table in TABLES.items()}

    def apply(self, change):
        """Learn of a row. One that is deleted stays known: others of the same call still refer to it."""
        if change.kind == "D":
            return
        self.rows[change.table][self._key(change)] = change.row
        if change.table not in COMPUTED:
            self._add_atoms(change.table, change.row)

    def apply_roles(self, change):
        """Learn who may do what from now on, which is after the call that changed it."""
        table, row = change.table, change.row
        if table not in ("project_members", "project_datasets"):
            return
        self._seen.clear()
        if change.kind == "D":
            self.rows[table].pop(self._key(change), None)
        if table == "project_datasets":
            self.known_once.add((row["project_id"], row["dataset_id"]))
            return
        for caller in self.callers:
            if caller.key_id == row["member_id"]:
                if change.kind == "D":
                    caller.projects.pop(row["project_id"], None)
                else:
                    caller.projects[row["project_id"]] = ROLES[row["role"]]

    def _key(self, change):
        key = tuple(change.row[name] for name in self._keys[change.table])
        return key[0] if len(key) == 1 else key

    def _add_atoms(self, table, row):
        place = self.place(table, row)
        texts = [
            value
            for name, value in row.items()
            if isinstance(value, str) and name not in REFERENCES and (table != "audit_log" or name in LOGGED)
        ]
        if table == "project_members":  # who sees the members sees what their keys are called
            texts.append(self.rows["api_keys"].get(row["member_id"], {}).get("name") or "")
        places = {place}
        if place.owner is not None and place.tenant is not None:
            # Administrators of a tenant read in its audit log that somebody saved a view of its own.
            places.add(Place(place.tenant, kind="log"))
        for text in texts:
            for atom in ATOM.findall(text):
                self.atoms.setdefault(atom, set()).update(places)

    def place(self, table, row):
        """Where a row belongs."""
        assert table in PLACES, f"tests/server/access_model.py must say whose the rows of {table} are"
        return PLACES[table](self, row)

    def is_alive(self, table, row):
        """Whether neither a row nor what it is in has been deleted."""
        if row.get("deleted_at") is not None:
            return False
        for name, owner in (
            ("item_id", "items"), ("run_id", "runs"), ("experiment_id", "experiments"),
            ("project_id", "projects"), ("version_id", "dataset_versions"), ("dataset_id", "datasets"),
        ):  # fmt: skip
            if row.get(name) is not None and owner != table:
                above = self.rows[owner].get(row[name])
                return above is not None and self.is_alive(owner, above)
        return True

    def sees(self, caller, place):
        """Whether a caller may read the rows of a place."""
        known = self._seen.get((caller.name, place))
        if known is None:
            known = self._seen[caller.name, place] = self._sees(caller, place)
        return known

    def _sees(self, caller, place):
        if caller.is_restricted and place.tenant not in (None, caller.tenant):
            return False
        if place.kind in ("key", "log"):
            return caller.role >= ADMIN and place.tenant in (
                {caller.tenant} if caller.is_restricted else {place.tenant}
            )
        if place.kind == "member":
            return caller.role_in(place.project) >= ADMIN
        if place.owner not in (None, caller.id):
            return False
        if caller.role >= VIEWER or (place.owner is not None and place.project is None):
            return True
        if place.dataset is not None:
            return any(
                (project, place.dataset) in self.rows["project_datasets"] for project in caller.projects
            )
        return place.project in caller.projects

    def note_sent(self, caller, text):
        """Learn of what a caller sends: administrators of its tenant read that in the audit log."""
        for atom in ATOM.findall(text) if caller.tenant else ():
            self.atoms.setdefault(atom, set()).add(Place(caller.tenant, kind="log"))

    def sees_atom(self, caller, atom):
        """Whether a sign may be in an answer to a caller."""
        if atom.startswith("tenant-"):
            return not caller.is_restricted or atom == caller.tenant
        if atom == caller.key_id or atom not in self.atoms:
            return True
        return any(self.sees(caller, place) for place in self.atoms[atom])

    def may_write(self, caller, place):
        """Whether a caller may change the rows of a place in a project."""
        if not self.sees(caller, place) or caller.role_in(place.project) < EDITOR:
            return False
        return not (self.read_only_shared_rows and caller.is_restricted and place.tenant is None)

    def may_add_version(self, caller, place):
        """Whether a caller may add versions to a dataset."""
        if not self.sees(caller, place):
            return False
        if self.read_only_shared_rows and caller.is_restricted:
            dataset = self.rows["datasets"][place.dataset]
            if dataset["tenant_id"] is None:
                return False
        granted = self.rows["project_datasets"]
        return caller.role >= EDITOR or any(
            role >= EDITOR and granted.get((project, place.dataset), {}).get("is_granted")
            for project, role in caller.projects.items()
        )

    def may_change(self, caller, change, changes):
        """Whether a caller may have made a change, which is one of several of the same call."""
        table, row = change.table, change.row
        if table == "audit_log":
            return True  # written about whatever happens
        if table == "sessions" or (table == "api_keys" and change.columns == {"last_used_at"}):
            return True  # noted for whoever calls
        place = self.place(table, row)
        if table in COMPUTED or (change.kind == "U" and change.columns <= BOOKKEEPING):
            return self.sees(caller, place)
        if table == "api_keys":
            return self.sees(caller, place)
        if table == "alert_deliveries" and change.kind == "I" and row["run_id"] is not None:
            return True  # stored with the verdict on a run, for all who are to hear of that
        if table == "project_members":
            is_removed = any(
                (other.table == "projects" and other.row["id"] == place.project)
                or (other.table == "api_keys" and other.row["id"] == row["member_id"])
                for other in changes
            )
            return caller.role_in(place.project) >= ADMIN or (change.kind == "D" and is_removed)
        if table == "saved_views":
            before = change.before or change.after
            may_delete = change.kind == "D" and caller.role_in(place.project) >= ADMIN
            is_own = before["owner"] == caller.id and caller.token != "no"
            return self.sees(caller, place) and (is_own or may_delete)
        if table == "datasets" and (change.kind != "U" or "deleted_at" in change.columns):
            return caller.role >= EDITOR and self.may_add_version(caller, place)
        if place.dataset is not None:
            return self.may_add_version(caller, place)
        if table == "projects" and change.kind == "I":
            return caller.role >= EDITOR and self.sees(caller, place)
        if table == "run_comments" and change.kind != "I":
            is_author = (change.before or row)["created_by"] == caller.id
            if not is_author and (change.kind == "U" or caller.role_in(place.project) < ADMIN):
                return False
        if table == "run_review_counts":
            return True  # kept for all tenants whose queues a verdict changes
        if table in OF_TENANTS and place.tenant is None:
            return self.may_write(caller, place)
        if table in OF_TENANTS:  # a tenant's own, also where shared rows are closed to it
            return self.sees(caller, place) and caller.role_in(place.project) >= EDITOR
        if table == "project_datasets":
            place = self.place("projects", self.rows["projects"][place.project])
        return self.may_write(caller, place)
