/** How far the reviewers are with what waits: how many each has done lately and is at, and how many are left. */
import { useQuery } from "@tanstack/react-query";
import { type QueueFilter, progressQuery } from "../api/reviews";
import { sessionQuery } from "../api/session";
import { count, plural, shown } from "../lib/format";
import { Failure, Loading, State, Time } from "./bits";

const WINDOWS = [1, 7, 30] as const;
export type ProgressDays = (typeof WINDOWS)[number];

interface Props {
  readonly filter: QueueFilter;
  readonly days: ProgressDays;
  readonly onDays: (days: ProgressDays | undefined) => void;
}

export function ReviewProgress({ filter, days, onDays }: Props) {
  const me = useQuery(sessionQuery).data?.id;
  const progress = useQuery(progressQuery(filter, days));
  const rows = progress.data?.reviewers ?? [];
  const most = Math.max(1, ...rows.map((one) => one.reviewed));
  const total = rows.reduce((sum, one) => sum + one.reviewed, 0);
  return (
    <section aria-label="Reviewers">
      <div className="sec">
        <h2>Reviewers</h2>
        {progress.data !== undefined && <span className="label">{plural(total, "item")} reviewed, {count(progress.data.left)} left</span>}
        <button type="button" className="btn bare right" onClick={() => onDays(undefined)}>Close</button>
      </div>
      <div className="bar" role="group" aria-label="Time">
        {WINDOWS.map((one) => (
          <button key={one} type="button" className="chip" aria-pressed={one === days} onClick={() => onDays(one)}>{one === 1 ? "Last 24 hours" : `Last ${one} days`}</button>
        ))}
      </div>
      {progress.isPending ? <Loading />
        : progress.isLoadingError ? <Failure error={progress.error} retry={() => void progress.refetch()} />
        : (
          <div className="panel gap">
            {rows.length === 0 ? <State title="Nobody has reviewed anything in this time"><p>A longer time may have some.</p></State> : (
              <table>
                <thead><tr><th>Reviewer</th><th className="num">Reviewed</th><th className="hide-s"><span className="label">Share</span></th><th className="num">Claimed</th><th className="num hide-s">Assigned</th><th className="hide-s">Last review</th></tr></thead>
                <tbody>
                  {rows.map((one) => (
                    <tr key={one.reviewer}>
                      <th scope="row"><span className="address">{shown(one.name ?? one.reviewer)}</span>{one.reviewer === me && <span className="sub">you</span>}</th>
                      <td className="num">{count(one.reviewed)}</td>
                      <td className="hide-s">
                        <svg className="ratebar" viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true">
                          <rect className="f-none" y="3" width="200" height="4" />
                          <rect className="f-info" y="3" width={(one.reviewed / most) * 200} height="4" />
                        </svg>
                      </td>
                      <td className="num">{one.claimed > 0 ? count(one.claimed) : "–"}</td>
                      <td className="num hide-s">{one.assigned > 0 ? count(one.assigned) : "–"}</td>
                      <td className="hide-s">{one.lastAt === null ? "–" : <Time value={one.lastAt} />}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
          </div>
        )}
    </section>
  );
}
