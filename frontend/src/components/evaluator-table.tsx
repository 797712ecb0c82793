/** The evaluators of a run: means, rates and how their scores are spread. */
import { memo, useState } from "react";
import type { Evaluator, Run } from "../api/queries";
import { ScoreHistogram } from "../charts/charts";
import { count, rate, score, shown } from "../lib/format";
import { usePrinting } from "../lib/printing";
import { type Column, type Outline, histogram } from "../lib/outline";

const FIRST = 50;

export const EvaluatorTable = memo(function EvaluatorTable({ run, outline }: { run: Run; outline: Outline }) {
  const [isWhole, setIsWhole] = useState(false);
  const isPrinting = usePrinting();
  if (outline.columns.length === 0) return null;
  const columns = isWhole || isPrinting ? outline.columns : outline.columns.slice(0, FIRST);
  const described = new Map(run.evaluators.map((one) => [one.name, one]));
  return (
    <section>
      <div className="sec"><h2>Evaluators</h2></div>
      <div className="panel">
        <table>
          <thead>
            <tr>
              <th>Evaluator</th>
              <th className="num">Mean</th>
              <th className="num">Pass rate</th>
              <th className="num hide-s">Passed</th>
              <th className="num hide-s">Scored</th>
              <th className="hide-s">Scores</th>
            </tr>
          </thead>
          <tbody>
            {columns.map((column) => (
              <EvaluatorRow key={column.name} column={column} evaluator={described.get(column.name)} />
            ))}
          </tbody>
        </table>
        {columns.length < outline.columns.length && (
          <p className="foot-row">
            <span>The first {FIRST} of {count(outline.columns.length)} evaluators</span>
            <button type="button" className="btn bare" onClick={() => setIsWhole(true)}>Show all {count(outline.columns.length)}</button>
          </p>
        )}
        {outline.excluded.length > 0 && (
          <p className="foot-row">Not shown, since the run has too many scores: {shown(outline.excluded.join(", "))}</p>
        )}
      </div>
    </section>
  );
});

function EvaluatorRow({ column, evaluator }: { column: Column; evaluator: Evaluator | undefined }) {
  const scores = column.scores.filter((one) => one !== null);
  const mean = scores.length === 0 ? null : scores.reduce((sum, one) => sum + one, 0) / scores.length;
  const passed = countLetter(column.outcomes, "p");
  const judged = passed + countLetter(column.outcomes, "f");
  const spread = histogram(column.scores, [evaluator?.rangeLow ?? null, evaluator?.rangeHigh ?? null]);
  const lowerIsBetter = evaluator?.direction === "LOWER_IS_BETTER";
  const threshold = judged === 0 ? null : (evaluator?.threshold ?? null);
  return (
    <tr>
      <th scope="row">
        {shown(column.name)}
        <span className="sub">{describe(threshold, lowerIsBetter, judged)}</span>
      </th>
      <td className="num">{score(mean)}</td>
      <td className="num">{rate(judged === 0 ? null : passed / judged)}</td>
      <td className="num none hide-s">{judged === 0 ? "–" : `${count(passed)}/${count(judged)}`}</td>
      <td className="num none hide-s">{count(scores.length)}</td>
      <td className="hide-s">
        {spread !== null && <ScoreHistogram data={spread} threshold={threshold} lowerIsBetter={lowerIsBetter} />}
        {spread !== null && (spread.low !== 0 || spread.high !== 1) && (
          <span className="label">{score(spread.low)} to {score(spread.high)}</span>
        )}
      </td>
    </tr>
  );
}

function describe(threshold: number | null, lowerIsBetter: boolean, judged: number): string {
  if (judged === 0) return "informs only";
  if (threshold === null) return lowerIsBetter ? "lower is better" : "";
  return `${lowerIsBetter ? "at most" : "at least"} ${score(threshold)}`;
}

function countLetter(letters: string, wanted: string): number {
  let n = 0;
  for (const letter of letters) if (letter === wanted) n += 1;
  return n;
}
