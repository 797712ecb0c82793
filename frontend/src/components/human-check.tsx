/** What people's verdicts say of a run: the pass rate corrected by them, and how far each judge agrees with them. */
import { useQuery } from "@tanstack/react-query";
import { type CorrectedRates, correctedRatesQuery } from "../api/judging";
import type { Run } from "../api/queries";
import { alignmentQuery } from "../api/reviews";
import { count, plural, rate, score, shown } from "../lib/format";

type Rate = CorrectedRates["evaluators"][number];

export function HumanCheck({ run }: { run: Run }) {
  const alignment = useQuery(alignmentQuery(run.id));
  const rates = useQuery(correctedRatesQuery(run.id));
  if (alignment.data === undefined || alignment.data.annotatedItems === 0) return null;
  const corrected = new Map(rates.data?.evaluators.map((one) => [one.evaluatorName, one]));
  return (
    <section>
      <div className="sec">
        <h2>Judge vs. human</h2>
        <span className="label">{plural(alignment.data.annotatedItems, "item")} with a person's verdict</span>
      </div>
      {rates.data !== undefined && <Corrected one={rates.data.item} />}
      {alignment.data.evaluators.map((one) => one.warning !== null && (
        <p key={one.evaluatorName} className="callout warn"><b>{shown(one.evaluatorName)}:</b> {shown(one.warning.message)}</p>
      ))}
      <div className="panel gap">
        <table>
          <thead>
            <tr>
              <th>Evaluator</th>
              <th className="num">Agrees</th>
              <th className="num">n</th>
              <th className="num hide-s">Kappa</th>
              <th className="num hide-s">Good items passed</th>
              <th className="num hide-s">Bad items failed</th>
              <th className="num">Pass rate, corrected</th>
            </tr>
          </thead>
          <tbody>
            {alignment.data.evaluators.map((one) => (
              <tr key={one.evaluatorName}>
                <th scope="row">{shown(one.evaluatorName)}</th>
                <td className="num">{rate(one.alignmentRate)}</td>
                <td className="num none">{count(one.agreedCount)}/{count(one.comparableCount)}</td>
                <td className="num hide-s">
                  {score(one.kappa)}
                  {one.kappaInterval !== null && <span className="sub">{score(one.kappaInterval.low)} to {score(one.kappaInterval.high)}</span>}
                </td>
                <td className="num hide-s">{rate(one.sensitivity?.value)}</td>
                <td className="num hide-s">{rate(one.specificity?.value)}</td>
                <td className="num"><CorrectedRate one={corrected.get(one.evaluatorName)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Corrected({ one }: { one: Rate }) {
  const found = one.ofItems ?? one.ofFurtherItems;
  if (found === null) return one.reason === null ? null : <p className="sentence muted">{shown(one.reason)}</p>;
  return (
    <p className="sentence">
      By people's verdicts <b>{rate(found.value)}</b> of the items are right, 95 % between {rate(found.low)} and {rate(found.high)}; the
      evaluators alone say {rate(one.judgedPassRate)}.
      {found.labelsNeeded !== null && found.labelsNeeded > 0 && ` ${plural(found.labelsNeeded, "more label")} would narrow that to plus or minus 5 points.`}
    </p>
  );
}

function CorrectedRate({ one }: { one: Rate | undefined }) {
  const found = one?.ofItems ?? one?.ofFurtherItems ?? null;
  if (found === null) return <span className="muted" title={one?.reason ?? undefined}>–</span>;
  return <>{rate(found.value)}<span className="sub">{rate(found.low)} to {rate(found.high)}</span></>;
}
