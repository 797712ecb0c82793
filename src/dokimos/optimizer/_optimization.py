"""The optimization of a suite from its file to its outputs."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.jsonable import jsonable
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import ConfigurationError, JournalError
from dokimos.experiment._model_calls import MODE_VARIABLE
from dokimos.experiment._run_folders import runs_root
from dokimos.experiment._run_lock import RunLock
from dokimos.optimizer._acceptance import fewest_cases
from dokimos.optimizer._axes import AxisLocations
from dokimos.optimizer._objective import Objective
from dokimos.optimizer._search import Search
from dokimos.optimizer._search_journal import SearchJournal
from dokimos.optimizer._search_report import Outputs, format_spending
from dokimos.optimizer._space import NumericSpace
from dokimos.optimizer._suite_bench import Spending, SuiteBench, find_unfinished_runs, split_cases
from dokimos.optimizer._text_writer import ModelWriter, build_writer_judge
from dokimos.suites._environment import build_lookup
from dokimos.suites._loader import compile_suite, read_document
from dokimos.suites._problems import raise_problems, suggest
from dokimos.suites._validation import validate_document

if TYPE_CHECKING:
    from dokimos.optimizer._trial import SearchState, Split
    from dokimos.suites._document import Document
    from dokimos.suites._optimizer_schema import OptimizerBlock
    from dokimos.suites._schema import SuiteFile
    from dokimos.suites._suite import Suite

OUTPUT_DIR: Final = Path("results") / "optimizer"
SEARCH_FILE: Final = "search.json"
PROGRESS_SCHEMA: Final = "dokimos.optimize.progress/v1"
_BLOCK: Final = ("evaluations", "optimizer")

Listener = Callable[[Mapping[str, Any]], None]
"""Is told each event: `schema`, `event` and what belongs to it."""


@dataclass(frozen=True, kw_only=True)
class Optimized:
    """What came of a search."""

    state: SearchState
    folder: Path
    warnings: tuple[str, ...] = ()
    cost_usd: float | None = None
    """What all trials cost, as far as it is known."""
    tokens: int | None = None

    @property
    def best_file(self) -> Path:
        """The suite with what was accepted."""
        return self.folder / "best.yaml"


def optimize_suite(
    path: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    output_dir: str | Path = OUTPUT_DIR,
    resume: str | Path | None = None,
    run_dir: str | Path | None = None,
    listener: Listener = lambda event: None,
) -> Optimized:
    """Look for better parameters and instructions of a suite, as its `evaluations.optimizer` says.

    Args:
        path: The suite.
        settings: What replaces parts of that block, such as `{"numeric_phase": {"max_trials": 20}}`.
        output_dir: The folder in which the search creates its own.
        resume: The name or folder of a search to continue with, or `latest`.
        run_dir: Where the runs of the trials are stored; `.dokimos/runs` unless given.
        listener: Is told how it goes.

    Raises:
        ConfigurationError: before anything has run, with all that is wrong with the suite.
        RunError: where the suite as it is cannot be measured, or the search cannot be gone on with.
    """
    folder = None if resume is None else _folder_of(resume, Path(output_dir))
    stored = {} if folder is None else _read_search_file(folder)
    plan = _Plan.of(Path(path), _merge(stored.get("settings") or {}, settings or {}))
    if folder is None:
        folder = _new_folder(Path(output_dir))
        _write_json(folder / SEARCH_FILE, plan.identity)
    else:
        plan.check_same_search(stored, folder)
    # Two processes that continue one search would write into the same journal.
    lock = RunLock(folder)
    journal = SearchJournal(folder)
    try:
        return _run_search(plan, folder, journal, runs_root(run_dir), listener, resumed=resume is not None)
    finally:
        journal.close()
        lock.release()


def _run_search(
    plan: _Plan, folder: Path, journal: SearchJournal, runs: Path, listener: Listener, *, resumed: bool
) -> Optimized:
    block, splits = plan.block, plan.splits
    spending = Spending(block=block, journal=journal)
    bench = SuiteBench(
        locations=plan.locations, splits=splits, objective=plan.objective, block=block, journal=journal,
        spending=spending, search=folder.name, run_dir=runs,
        unfinished=find_unfinished_runs(runs, folder.name) if resumed else {},
    )  # fmt: skip
    outputs = Outputs(folder=folder, plan=plan, spending=spending)
    emit = partial(_emit, listener)
    space = (
        NumericSpace(block.axes.numeric, seed=block.seed, folder=folder, journal=journal)
        if block.axes.numeric
        else None
    )
    writer = None
    if plan.judge is not None:
        writer = ModelWriter(
            judge=plan.judge, locations=plan.locations.texts, journal=journal, share=spending.share
        )
    emit(
        "run_started", search=folder.name, folder=str(folder), suite=plan.suite.name, resumed=resumed,
        train_cases=len(splits["train"]), holdout_cases=len(splits["holdout"]), seed=block.seed,
        alpha=block.alpha, axes=[*plan.locations.numbers, *plan.locations.texts],
        warnings=list(plan.warnings),
    )  # fmt: skip
    search = Search(block, plan.objective, bench, space=space, writer=writer, emit=emit, keep=outputs.write)
    try:
        state = run_sync(search.run(plan.locations.current))
    except Exception as error:
        emit("error", message=str(error))
        raise
    cost, tokens = spending.total
    emit(
        "run_completed", improved=state.has_improved, best_trial=state.best.id,
        baseline_loss=state.baseline.loss, loss=state.best.loss, trials=len(state.trials),
        cycles=state.cycles, reason=state.stopped,
        best=str(outputs.best_file), report=str(outputs.report_file), cost_usd=cost, tokens=tokens,
        spent=format_spending(cost, tokens),
    )  # fmt: skip
    return Optimized(state=state, folder=folder, warnings=plan.warnings, cost_usd=cost, tokens=tokens)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """A suite with everything that its optimization needs, looked up and checked."""

    path: Path
    settings: Mapping[str, Any]
    document: Document
    suite: Suite
    block: OptimizerBlock
    locations: AxisLocations
    objective: Objective
    splits: Mapping[Split, tuple[str, ...]]
    judge: Any = None
    warnings: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, path: Path, settings: Mapping[str, Any]) -> _Plan:
        document = read_document(path)
        _override(document, settings)
        file = validate_document(document)
        block = file.evaluations.optimizer if file.evaluations else None
        if block is None:
            raise ConfigurationError(
                f"{path}: there is no evaluations.optimizer, which names the loss and the axes to optimize."
            )
        if not (block.axes.numeric or block.axes.textual):
            details = "there is nothing to optimize: name a numeric or a textual axis."
            raise_problems([document.problem(("evaluations", "optimizer", "axes"), details)])
        suite = compile_suite(document)
        if not suite.cases_to_run:
            raise ConfigurationError(f"{path} has no test cases to run, so there is nothing to optimize by.")
        # Under replay no model is asked, so no key is needed.
        if os.environ.get(MODE_VARIABLE) != "replay":
            suite.check_keys()
        splits = split_cases((case.id for case in suite.cases_to_run), block.holdout, block.seed)
        return cls(
            path=path,
            settings=settings,
            document=document,
            suite=suite,
            block=block,
            locations=AxisLocations.of(document, block, build_lookup(path.resolve().parent)),
            objective=_objective(document, block, suite),
            splits=splits,
            judge=_judge(document, block, file),
            warnings=(*suite.warnings, *_warnings(block, splits)),
        )

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same where the search is gone on with."""
        tree = json.loads(json.dumps(jsonable(self.document.value)))
        # Compared key by key in check_same_search, which allows another budget.
        (tree.get("evaluations") or {}).pop("optimizer", None)
        texts = {path: location.text for path, location in self.locations.texts.items()}
        content = json.dumps([tree, texts], sort_keys=True, ensure_ascii=True)
        return {
            "suite": str(self.path),
            "settings": dict(self.settings),
            "content": hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest(),
            "optimizer": self.block.model_dump(mode="json"),
        }

    def check_same_search(self, stored: Mapping[str, Any], folder: Path) -> None:
        """Refuse to continue with another search than this one; only its budget may be another."""
        now = json.loads(json.dumps(self.identity))
        if stored.get("content") != now["content"]:
            raise JournalError(f"The suite has changed since {folder.name} was started; start a new search.")
        before = stored.get("optimizer") or {}
        changed = [
            key for key in now["optimizer"] if key != "budget" and now["optimizer"][key] != before.get(key)
        ]
        if changed:
            raise JournalError(
                f"evaluations.optimizer has changed since {folder.name} was started ({', '.join(changed)}); "
                "start a new search."
            )


def _objective(document: Document, block: OptimizerBlock, suite: Suite) -> Objective:
    try:
        return Objective.of(block.loss, suite.cases_to_run)
    except ConfigurationError as error:
        raise_problems([document.problem((*_BLOCK, "loss"), str(error))])
        raise


def _judge(document: Document, block: OptimizerBlock, file: SuiteFile) -> Any:
    if not block.axes.textual:
        return None
    try:
        return build_writer_judge(block, file, document.file.resolve().parent)
    except ConfigurationError as error:
        raise_problems([document.problem((*_BLOCK, "model"), str(error))])
        raise


def _warnings(block: OptimizerBlock, splits: Mapping[Split, tuple[str, ...]]) -> list[str]:
    if not block.holdout:
        return ["There are no held-out cases (holdout: 0): what is accepted may be better here by chance."]
    phases = bool(block.axes.numeric) + bool(block.axes.textual)
    needed, held = fewest_cases(block.alpha / phases), len(splits["holdout"])
    if held >= needed:
        return []
    cases = sum(map(len, splits.values()))
    return [
        f"{held} held-out of {cases} cases can never show that something is better: at alpha {block.alpha:g} "
        f"it takes {needed} that improve. Add cases, or give another holdout or alpha; with holdout: 0 the "
        "training cases decide."
    ]


def _override(document: Document, settings: Mapping[str, Any]) -> None:
    """Put settings of the command line in the place of the suite's."""
    evaluations = document.value.get("evaluations")
    block = evaluations.get("optimizer") if isinstance(evaluations, Mapping) else None
    if settings and isinstance(block, Mapping):
        document.value = {
            **document.value, "evaluations": {**evaluations, "optimizer": _merge(block, settings)}
        }  # fmt: skip


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    from dokimos.suites._document import deep_merge

    return deep_merge(above, below)


def _new_folder(root: Path) -> Path:
    now = datetime.datetime.now()
    folder = root / f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigurationError(f"Cannot write into {root}: {error.strerror}.") from None
    return folder


def _folder_of(resume: str | Path, root: Path) -> Path:
    as_path = Path(resume)
    if (as_path / SEARCH_FILE).is_file():
        return as_path
    folders = sorted(path.parent for path in root.glob(f"*/{SEARCH_FILE}"))
    # Names begin with the time, so the last in order is the newest.
    if str(resume) == "latest" and folders:
        return folders[-1]
    matches = [folder for folder in folders if folder.name.startswith(str(resume))]
    if len(matches) == 1:
        return matches[0]
    names = [folder.name for folder in folders]
    raise JournalError(
        f"There is {'more than one' if matches else 'no'} search {str(resume)!r} in {root}."
        f"{suggest(resume, names)} The latest: {', '.join(names[-3:]) or 'none'}."
    )


def _read_search_file(folder: Path) -> dict[str, Any]:
    try:
        tree = json.loads((folder / SEARCH_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise JournalError(f"{folder / SEARCH_FILE} cannot be read: {error}.") from None
    if not isinstance(tree, dict):
        raise JournalError(f"{folder / SEARCH_FILE} is damaged; start a new search.")
    return tree


def _write_json(path: Path, tree: Mapping[str, Any]) -> None:
    path.write_text(
        json.dumps(tree, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", errors="backslashreplace"
    )


def _emit(listener: Listener, event: str, **details: Any) -> None:
    listener({"schema": PROGRESS_SCHEMA, "event": event, **details})
