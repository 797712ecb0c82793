"""What came before the clock of the server was set back is matched now, not when it is that time again."""

import pytest
from tests.server.alert_traces import store, trace_rows
from tests.server.eval_rules import add_rule, contains, project_of, wait_until_matched

from dokimos.server._db.clock import HOUR, now
from dokimos.server._online_settings import OnlineSettings


@pytest.mark.parametrize("column", ["match_due_at", "quiet_due_at"])
def test_what_came_before_the_clock_was_set_back_is_matched(serve, column):
    api = serve(online=OnlineSettings(poll_seconds=0.05, quiet_seconds=0.1))
    project = project_of(api)
    add_rule(api, project, contains(scope="trace"))

    store(api, trace_rows(project, [now() + HOUR], **{column: now() + HOUR}))

    wait_until_matched(api)
