"""Lines of the journal: their checksums, and what each of them must have to be read."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dokimos._core.error_detail import ErrorDetail
from dokimos._core.example import Example
from dokimos._core.json_parsing import parse_json
from dokimos._core.jsonable import compact_json
from dokimos._core.metrics import CallMetrics
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.results import EvalResult, RunStatus
from dokimos._core.wire import from_json
from dokimos.errors import DokimosError

CHECKSUM: Final = "c"
CHECK: Final = b',"c":"'
_DIGITS: Final = 8
_TAIL: Final = len(CHECK) + _DIGITS + len(b'"}\n')
_MAX_INTEGER: Final = 2**53
"""Larger whole numbers are not exact in JSON readers that have only doubles."""
_HASH: Final = re.compile("[0-9a-f]{16}")
HEAD: Final = re.compile(rb'\{"t":"(?:(item)|eval)","r":(\d{1,9}),"i":(\d{1,15}),(?(1)"h":"([0-9a-f]{16})",)')
"""How lines about items begin, as the journal writes them."""
ITEM: Final = b'{"t":"item","r":'
ERROR: Final = re.compile(rb'"e"\s*:')
_OUTPUTS: Final = b',"o":{'
METRICS: Final = b',"m":{'
RESULTS: Final = b',"v":'
END_OF_ITEM: Final = re.compile(
    rb',"m":(?:\{"latencyMs":(\d{1,12}\.\d{1,20})\}|(\{[^{}]*\})),"c":"[0-9a-f]{8}"\}\n'
)
"""How the line of an item ends. No text has such quotes in it, since they are escaped there."""

NO_RESULTS: Final = b"-"
"""What stands for the results of an item without such lines; it is not JSON."""
UNUSUAL: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError, DokimosError)
"""What reading a line raises that is not as the journal writes it."""


@dataclass(slots=True)
class ReporterRecords:
    """What the lines about reporters say."""

    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What reporters keep with the run, by reporter and key."""
    server_run_ids: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The runs on servers that each repeat was sent to."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a line: a value replaces an earlier one of its key, the ids of servers add up."""
        if record["t"] == "keep":
            self.kept.setdefault(record["n"], {})[record["k"]] = record["v"]
        else:
            known = self.server_run_ids.get(record["r"], ())
            self.server_run_ids[record["r"]] = tuple(dict.fromkeys([*known, *record["ids"]]))


def with_checksum(content: bytes) -> bytes:
    """Return the line of an object that lacks its closing brace, with the checksum of what stands in it."""
    return content + b',"c":"%08x"}\n' % zlib.crc32(content)


def read_head(line: bytes) -> tuple[int, int, int | None] | None:
    """Return repeat and index of the item that a line is about, and the hash of its example.

    A line of results has no hash.

    It is read from the first characters, a fifth of the work of parsing all of it, once the checksum has
    vouched for the rest. None for any other line: `read_record` says what it is.
    """
    head = HEAD.match(line)
    if head is None or line[-_TAIL:] != b',"c":"%08x"}\n' % zlib.crc32(line[:-_TAIL]):
        return None
    _, run_index, index, example_hash = head.groups()
    return int(run_index), int(index), None if example_hash is None else int(example_hash, 16)


def read_cost(line: bytes) -> float | CallMetrics | None:
    """Return what the line of an item says of its task's cost, None if nothing; a latency alone as a number.

    Raises:
        ValueError: for a line that may say that the task errored, or that the journal has not written so.
    """
    if not line.startswith(ITEM) or ERROR.search(line) is not None:
        raise ValueError("the line may have an error")
    place = line.rfind(METRICS)
    if place < 0:
        _expect(line[-_TAIL : -_TAIL + len(CHECK)] == CHECK and b'"m"' not in line)
        return None
    end = END_OF_ITEM.match(line, place)
    if end is None:
        raise ValueError("the line does not end with its cost")
    latency = end[1]
    return float(latency) if latency is not None else from_json(CallMetrics, parse_json(end[2]))


def read_outputs(line: bytes) -> dict[str, Any]:
    """Return the outputs in the line of an item of which `read_cost` has said what it cost.

    Most lines repeat a long example before them, which is not parsed.

    Raises:
        ValueError: for a line that the journal has not written so.
    """
    end = line.rfind(METRICS)
    start = line.find(_OUTPUTS) + len(_OUTPUTS) - 1
    try:
        # Only the outputs are balanced from there to the end: what looks like them in an example is not.
        outputs: Any = parse_json(line[start : -_TAIL if end < 0 else end])
    except ValueError:
        record: Any = parse_json(line)
        outputs = record["o"]
    _expect(type(outputs) is dict)
    known: dict[str, Any] = outputs
    return known


def cut_results(line: bytes) -> bytes:
    """Return the JSON of the results in a line; of one by another tool, what is not JSON."""
    return (
        line[line.find(RESULTS) + len(RESULTS) : -_TAIL]
        if line[-_TAIL : -_TAIL + len(CHECK)] == CHECK
        else b""
    )


def join_results(lines: Sequence[bytes]) -> bytes:
    """Return the JSON of the results in an item's lines, one below the other: none has a line feed in it."""
    if len(lines) == 1:
        return cut_results(lines[0])
    return b"\n".join(map(cut_results, lines)) if lines else NO_RESULTS


def read_record(line: bytes) -> dict[str, Any] | None:
    """Return what a line says, None where it is damaged in any way."""
    try:
        record = json.loads(line)
        check = _CHECKS[record["t"]]
        # Reading takes three times as long with the fields checked, and a checksum vouches for them.
        if not _is_whole(line, record):
            check(record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, DokimosError):
        return None
    return dict(record)


def _is_whole(line: bytes, record: Mapping[str, Any]) -> bool:
    """Say whether the checksum vouches for a line; older journals have none.

    Raises:
        ValueError: where the checksum is another one.
    """
    if line[-_TAIL : -_TAIL + len(CHECK)] == CHECK:
        content, digits = line[:-_TAIL], line[-_TAIL + len(CHECK) : -3].decode()
    elif CHECKSUM in record:  # written anew by another tool
        plain = {key: value for key, value in record.items() if key != CHECKSUM}
        content, digits = compact_json(plain)[:-1].encode("utf-8", "replace"), record[CHECKSUM]
    else:
        return False
    if zlib.crc32(content) != int(digits, 16):
        raise ValueError("the checksum is another one")
    return True


def _check_item(record: Mapping[str, Any]) -> None:
    _check_counts(record, "r", "i")
    _expect(isinstance(record["h"], str) and _HASH.fullmatch(record["h"]) is not None)
    example, outputs = record.get("x"), record.get("o")
    if example is not None:
        _expect(isinstance(example, dict))
        from_json(Example, example)
    _expect(isinstance(outputs, dict) or ("e" in record and outputs is None))
    _expect(isinstance(record.get("e", ""), str))
    if record.get("m") is not None:
        from_json(CallMetrics, record["m"])
    if record.get("d") is not None:
        from_json(ErrorDetail, record["d"])


def _check_eval(record: Mapping[str, Any]) -> None:
    _check_counts(record, "r", "i")
    _expect(isinstance(record["v"], list))
    for tree in record["v"]:
        from_json(EvalResult, tree)


def _check_pass(record: Mapping[str, Any]) -> None:
    _check_counts(record, "r", "seen")


def _check_void(record: Mapping[str, Any]) -> None:
    _check_texts(record["names"])


def _check_keep(record: Mapping[str, Any]) -> None:
    _check_texts([record["n"], record["k"]])
    _expect("v" in record)


def _check_server(record: Mapping[str, Any]) -> None:
    _check_counts(record, "r")
    _check_texts(record["ids"])


def _check_done(record: Mapping[str, Any]) -> None:
    RunStatus(record["status"])
    _check_texts(record.get("warnings", []))
    if record.get("provenance"):
        from_json(Provenance, record["provenance"])
    for tree in record.get("evaluators") or ():
        from_json(EvaluatorInfo, tree)


def _check_counts(record: Mapping[str, Any], *names: str) -> None:
    _expect(all(type(record[name]) is int and 0 <= record[name] <= _MAX_INTEGER for name in names))


def _check_texts(texts: object) -> None:
    _expect(isinstance(texts, list) and all(isinstance(text, str) for text in texts))


def _expect(is_so: bool) -> None:
    if not is_so:
        raise ValueError("a field is of another type")


_CHECKS: Final[dict[str, Callable[[Mapping[str, Any]], None]]] = {
    "item": _check_item,
    "eval": _check_eval,
    "pass": _check_pass,
    "void": _check_void,
    "keep": _check_keep,
    "server": _check_server,
    "done": _check_done,
}
"""What a record of each kind must have; raises where it has not."""
