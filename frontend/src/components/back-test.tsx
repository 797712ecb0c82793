/** On what an alert would have fired, and how often chance alone would have done that. */
import type { BackTest, TraceAlert } from "../api/online";
import { valueOf } from "../lib/alerts";
import { count, plural, score } from "../lib/format";
import { Time } from "./bits";

interface Props {
  readonly test: BackTest;
  readonly watched: Pick<TraceAlert, "metric" | "over">;
}

export function BackTestResult({ test, watched }: Props) {
  const { byChance, falseAlarmsPerYear } = test;
  const isOfChange = test.firings.some((one) => one.since !== null);
  return (
    <>
      <p className="sentence">
        {test.observationCount === 0 ? "It would have seen no trace, so nothing is known of how often it fires." : (
          <>
            It would have fired {plural(test.firingCount, "time")} on {plural(test.observationCount, "trace")}.
            {byChance !== null && ` By chance alone, ${byChance.isExact ? "" : "about "}${score(byChance.expected)} times${test.firingCount > byChance.expected ? "; what is beyond that has a cause." : ", so that is no more than chance does."}`}
            {test.status === "LEARNING" && " It would still be learning its baseline, so it had no chance to fire."}
            {!test.isComplete && " There are more traces than it looked at."}
          </>
        )}
        {falseAlarmsPerYear !== null && ` Its part of the false alarms of the project: ${score(falseAlarmsPerYear)} in a year at most.`}
      </p>
      {test.firings.length > 0 && (
        <div className="panel gap">
          <table>
            <thead><tr><th>Fired</th>{isOfChange && <th>Since</th>}<th className="num">{isOfChange ? "Before" : "Limit"}</th><th className="num">{isOfChange ? "After" : "Mean"}</th><th className="num hide-s">Traces</th></tr></thead>
            <tbody>
              {test.firings.map((one) => (
                <tr key={one.firedAt + one.observations}>
                  <td><Time value={one.firedAt} /></td>
                  {isOfChange && <td>{one.since === null ? "–" : <Time value={one.since} />}</td>}
                  <td className="num">{valueOf(watched, one.before?.value ?? one.limit)}</td>
                  <td className="num">{valueOf(watched, one.after?.value ?? one.value)}</td>
                  <td className="num hide-s">{count(one.observations)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {test.firingCount > test.firings.length && <p className="foot-row">The first {count(test.firings.length)} of {count(test.firingCount)}.</p>}
        </div>
      )}
    </>
  );
}
