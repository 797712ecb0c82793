"""All tables, from whichever module: for what concerns the database as a whole."""

from __future__ import annotations

from dokimos.server._db import alert_tables as alert_tables
from dokimos.server._db import audit_tables as audit_tables
from dokimos.server._db import connection_tables as connection_tables
from dokimos.server._db import judge_call_tables as judge_call_tables
from dokimos.server._db import judge_tables as judge_tables
from dokimos.server._db import key_tables as key_tables
from dokimos.server._db import people_tables as people_tables
from dokimos.server._db import review_tables as review_tables
from dokimos.server._db import tables as tables
from dokimos.server._db import trace_alert_tables as trace_alert_tables
from dokimos.server._db import trace_rule_tables as trace_rule_tables
from dokimos.server._db import user_tables as user_tables
from dokimos.server._db import view_tables as view_tables
from dokimos.server._db.metadata import METADATA as METADATA
