/** What each number of these pages means, and what is promised of it. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Crumbs } from "../components/shell";
import "../styles/settings.css";

const PARTS: readonly (readonly [string, string, ReactNode])[] = [
  ["pass-rate", "Pass rate and its interval", (
    <>
      <p>The share of the judged items on which every evaluator was content. Both numbers stand beside it, such as 86.3 % (69/80).</p>
      <ul>
        <li>Items whose application failed have their own count. A line says what the rate is with them as not passed, which is what comparisons and the gate count.</li>
        <li>Items that nobody judged are in no rate. “–” means that there was nothing to judge, never 100 %.</li>
        <li>An interval of 95 % holds the rate that would show over very many such items. In simulations intervals contain the true value at least 93 times in 100; below 14 scores, the interval of a mean states a lower coverage.</li>
      </ul>
    </>
  )],
  ["scores", "Scores of evaluators", (
    <>
      <p>The mean over the items that have a score. What could not be scored has none, never 0, and is counted as an error of the evaluator.</p>
      <p>A judged score is as good as its judge: the agreement with people, on items that people have reviewed, says how good that is.</p>
    </>
  )],
  ["comparison", "Comparisons of runs", (
    <>
      <p>Runs are compared item by item, over the items that both have; easy items that were added do not hide a drop.</p>
      <ul>
        <li>“Regressed” and “improved” are said only where the change is significant; otherwise it is “no clear change”, which is not “no change”.</li>
        <li>The pass rate and all evaluators are tested together: two runs of an unchanged system differ significantly in at most 5 of 100 comparisons, however many evaluators there are.</li>
        <li>The smallest drop that would be seen 8 times in 10 stands below the sentence. With few items it is large.</li>
        <li>Slices are not corrected for their number: of many slices, some seem to differ by chance.</li>
      </ul>
    </>
  )],
  ["gate", "The gate", (
    <>
      <p>It fails a run where the pass rate or an evaluator got significantly worse, where the run has no items, and where the run itself failed.</p>
      <ul>
        <li>An unchanged system fails in at most 5 of 100 comparisons; in simulations of the library’s defaults in 0.8 to 2.0.</li>
        <li>A real regression is found as often as was predicted for so many items, or at most 5 points less often.</li>
        <li>Without a baseline there is nothing to regress from: the verdict says “no baseline”, and stops a build only where that is asked for.</li>
      </ul>
    </>
  )],
  ["corrected", "Pass rate corrected by people", (
    <>
      <p>How many of the items people would call correct, estimated from the verdicts of the evaluator and from the reviews of people.</p>
      <ul>
        <li>Only reviews of items that chance drew speak for the others; the queue marks these.</li>
        <li>Below five such reviews there is no estimate. From 20 on, the interval of 95 % holds in at least 93 of 100 simulations, for good judges and for those that guess.</li>
        <li>A judge that agrees with people makes the interval narrow. One that guesses leaves it as wide as the reviews alone would.</li>
      </ul>
    </>
  )],
  ["alerts", "Alerts on traces", (
    <>
      <p>An alert on a change gathers evidence with each observation and fires when that is enough. You may look at any time; looking often causes no false alarms.</p>
      <ul>
        <li>All change alerts of a project together raise at most as many false alarms in a year as its settings say: one, unless they say otherwise.</li>
        <li>With 500 verdicts a day, a drop of 5 points from 90 % is found in about two days.</li>
        <li>An alert on a threshold fires as chance has it, and says how often that is.</li>
      </ul>
    </>
  )],
  ["cost", "Cost", (
    <>
      <p>What models cost as far as their prices are known. “Unpriced” means that the price is not known, not that it is $0; beside a sum stands how many of the items have a price.</p>
      <p>Budgets of judging are reserved before a call is sent, so calls that are under way at the same time do not exceed them together where each has a limit of its reply.</p>
    </>
  )],
];

export function ValidityPage() {
  return (
    <>
      <Crumbs title="Validity" />
      <div className="head">
        <div>
          <h1>What the numbers mean</h1>
          <p className="facts"><span>and what is promised of them</span></p>
        </div>
      </div>
      <nav className="actions spaced-top" aria-label="On this page">
        {PARTS.map(([id, title]) => <Link key={id} className="chip" to="/validity" hash={id} activeOptions={{ includeHash: true }}>{title}</Link>)}
      </nav>
      <div className="prose">
        {PARTS.map(([id, title, content]) => (
          <section key={id} id={id} aria-label={title}><h2>{title}</h2>{content}</section>
        ))}
        <section aria-label="Evidence">
          <h2>Where this is shown</h2>
          <p>
            The documentation has the simulations: systems whose truth is known, and how often the tests, intervals and gates find it. To repeat them, run{" "}
            <code className="mono">python benchmarks/validity</code> in a checkout of the repository.
          </p>
        </section>
      </div>
    </>
  );
}
