"""The ports that tests give to servers of their own."""

import pytest
from tests.servers import ports


@pytest.mark.parametrize("given", ["32768 60999", "1024 65535", "10001 65535"])
def test_a_port_is_found_whatever_the_system_gives_to_others(tmp_path, monkeypatch, given):
    range_file = tmp_path / "ip_local_port_range"
    range_file.write_text(given)
    monkeypatch.setattr(ports, "_RANGE", range_file)

    found = {ports.find_port() for _ in range(5)}

    assert len(found) > 1
    assert all(port >= 1024 for port in found)
