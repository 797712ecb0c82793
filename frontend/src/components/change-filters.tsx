/** Filters of a comparison by what an evaluator sees changed: its verdict, or its score by how much. */
import { getRouteApi } from "@tanstack/react-router";
import { CHANGES, type Change, narrowsChanges } from "../lib/change-filter";
import { shown } from "../lib/format";
import type { Pairing } from "../lib/pairing";
import type { CompareSearch } from "../router";

const route = getRouteApi("/experiments/$experimentId/runs/$runId/diff");

const WORDS: Record<Change, string> = {
  verdict: "Verdict crossed the threshold",
  failed: "✗ Passed before, fails now",
  passed: "✓ Failed before, passes now",
  worse: "Score got worse",
  better: "Score got better",
};

export function ChangeFilters({ pairing }: { pairing: Pairing }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { evaluator, change, least } = search;
  const choose = (next: (rest: CompareSearch) => CompareSearch) =>
    void navigate({ search: ({ item: _, ...old }) => next(old), replace: true, resetScroll: false });
  const isKnown = evaluator === undefined || pairing.evaluators.includes(evaluator);
  return (
    <div className="bar" role="group" aria-label="Filters by change">
      <select
        className="field"
        aria-label="Evaluator"
        value={evaluator ?? ""}
        onChange={({ target: { value } }) => choose(({ evaluator: _, ...rest }) => (value === "" ? rest : { ...rest, evaluator: value }))}
      >
        <option value="">By any evaluator</option>
        {!isKnown && <option value={evaluator}>By {shown(evaluator)} (in no run)</option>}
        {pairing.evaluators.map((name) => <option key={name} value={name}>By {shown(name)}</option>)}
      </select>
      <select
        className="field"
        aria-label="Change"
        value={change ?? ""}
        onChange={({ target }) => {
          const wanted = CHANGES.find((one) => one === target.value);
          choose(({ change: _, ...rest }) => (wanted === undefined ? rest : { ...rest, change: wanted }));
        }}
      >
        <option value="">Any change</option>
        {CHANGES.map((one) => <option key={one} value={one}>{WORDS[one]}</option>)}
      </select>
      <span className="score-range">
        <label>
          score moved by at least{" "}
          <input
            className="field"
            type="number"
            min="0"
            step="any"
            value={least ?? ""}
            onChange={({ target: { value } }) =>
              choose(({ least: _, ...rest }) => (value.trim() === "" || !(Number(value) >= 0) ? rest : { ...rest, least: Number(value) }))}
          />
        </label>
      </span>
      {narrowsChanges(search) && (
        <button type="button" className="chip" onClick={() => choose(({ evaluator: _, change: __, least: ___, ...rest }) => rest)}>Clear</button>
      )}
    </div>
  );
}
