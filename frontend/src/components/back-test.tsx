/** On what an alert would have fired, and how often chance alone would have done that. */
import type { BackTest, TraceAlert } from "../api/online";
import { sayTimes, valueOf } from "../lib/alerts";
import { count, plural } from "../lib/format";
import { Time } from "./bits";

interface Props {
  readonly test: BackTest;
  readonly watched: Pick<TraceAlert, "kind" | "metric" | "over">;
}

export function BackTestResult({ test, watched }: Props) {
  const { byChance, falseAlarmsPerYear } = test;
  const isOfChange = watched.kind === "CHANGE";
  return (
    <>
      <p className="sentence">
        {test.observationCount === 0 ? "It would have seen no trace, so nothing is known of how often it fires." : (
          <>
            It would have fired {plural(test.firingCount, "time")} on {plural(test.observationCount, "trace")}.
            {byChance !== null && ` If nothing changed, it would fire ${byChance.isExact || byChance.expected === 0 ? "" : "about "}${sayTimes(byChance.expected)} on so many, on average; single months have more or fewer.`}
            {test.status === "LEARNING" && " It would still be learning its baseline, so it had no chance to fire."}
            {!test.isComplete && " There are more traces than it looked at."}
          </>
        )}
        {falseAlarmsPerYear !== null && ` Its part of the false alarms of the project: at most ${sayTimes(falseAlarmsPerYear)} in a year.`}
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
