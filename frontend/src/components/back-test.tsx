/** On what an alert would have fired, and how often chance alone would have done that. */
import type { UseQueryResult } from "@tanstack/react-query";
import type { MouseEvent } from "react";
import type { BackTest, TraceAlert } from "../api/online";
import { sayLowerBounds, sayTimes, valueOf } from "../lib/alerts";
import { useAnnounced } from "../lib/announce";
import { count, plural } from "../lib/format";
import { Failure, Loading, Time } from "./bits";
import { BusyButton } from "./busy-button";

interface TryingProps {
  readonly query: UseQueryResult<BackTest>;
  /** Whether the result is of what is asked for by now. */
  readonly isCurrent: boolean;
  readonly label: string;
  readonly watched: Props["watched"];
  readonly onAsk: (event: MouseEvent<HTMLButtonElement>) => void;
}

/** The button stays, so that the focus does; the result is said, and stands below. */
export function BackTesting({ query, isCurrent, label, watched, onAsk }: TryingProps) {
  const isBusy = isCurrent && query.isFetching;
  const result = isCurrent ? query : null;
  useAnnounced(isBusy ? null : result?.isError ? "The back-test failed." : result?.data !== undefined ? sayResult(result.data) : null, query.dataUpdatedAt + query.errorUpdatedAt);
  return (
    <>
      <BusyButton isBusy={isBusy} busy="Trying …" onClick={onAsk}>{label}</BusyButton>
      {isBusy && query.data === undefined ? <Loading />
        : !isBusy && result?.isError ? <Failure error={result.error} />
        : result?.data !== undefined && <BackTestResult test={result.data} watched={watched} />}
    </>
  );
}

/** How often it would have fired, and how often by chance. */
function sayResult(test: BackTest): string {
  const { byChance, falseAlarmsPerYear } = test;
  const about = byChance === null || byChance.isExact || byChance.expected === 0 ? "" : "about ";
  const part = falseAlarmsPerYear === null ? [] : [`Its part of the false alarms of the project: at most ${sayTimes(falseAlarmsPerYear)} in a year.`];
  if (test.observationCount === 0) return ["It would have seen no trace, so nothing is known of how often it fires.", ...part].join(" ");
  return [
    `It would have fired ${plural(test.firingCount, "time")} on ${plural(test.observationCount, "trace")}.`,
    ...(byChance === null ? [] : [`If nothing changed, it would fire ${about}${sayTimes(byChance.expected)} on so many, on average; single months have more or fewer.`]),
    ...(test.status === "LEARNING" ? ["It would still be learning its baseline, so it had no chance to fire."] : []),
    sayLowerBounds(test.lowerBoundCount),
    ...(test.isComplete ? [] : ["There are more traces than it looked at."]),
    ...part,
  ].filter(Boolean).join(" ");
}

interface Props {
  readonly test: BackTest;
  readonly watched: Pick<TraceAlert, "kind" | "metric" | "over">;
}

function BackTestResult({ test, watched }: Props) {
  const isOfChange = watched.kind === "CHANGE";
  return (
    <>
      <p className="sentence">{sayResult(test)}</p>
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
