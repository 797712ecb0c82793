/** The item that is judged: what was asked, what came beside what was expected, and why it is in the queue. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type QueueItem, type Review, alignmentQuery } from "../api/reviews";
import { score, shown, textOf } from "../lib/format";
import { outcomeOfResult } from "../lib/items";
import { type Verdict, readable, sayVerdict } from "../lib/review";
import { compareWords } from "../lib/words";
import { Sign, Text, Time } from "./bits";
import { ItemParts } from "./item-parts";
import { Formattable } from "./markdown";

export function ItemToReview({ item, place, total }: { item: QueueItem; place: number; total: number }) {
  return (
    <>
      <div className="sec">
        <h2><Link className="link" to="/runs/$runId" params={{ runId: item.runId }}>{shown(item.experimentName)}</Link></h2>
        <Link className="link label" to="/runs/$runId" params={{ runId: item.runId }} search={{ item: `${item.ordinal}.${item.repetition}` }}>Open item</Link>
        <span className="label">{shown(item.projectName)} · <Time value={item.createdAt} /></span>
        {item.sampled && <span className="tag" title="Chance drew it from all items that wait, so it counts for estimates">random draw</span>}
        {place > 0 && <span className="label right">{place} of {total}</span>}
      </div>
      <h3>Input</h3>
      <Text>{textOf(item.input)}</Text>
      <Answers item={item} />
      <ItemParts item={item} />
      {item.error !== null && (
        <>
          <h3>Error</h3>
          <Text>{item.error}</Text>
        </>
      )}
      <Results results={item.evalResults} />
    </>
  );
}

const URGENCY = { fail: 0, error: 1, pass: 2, none: 3 };

/** What judged the item, those that are not content first; what only informs is folded where something judged. */
function Results({ results }: { results: QueueItem["evalResults"] }) {
  const sorted = [...results].sort((a, b) => URGENCY[outcomeOfResult(a)] - URGENCY[outcomeOfResult(b)]);
  const judging = sorted.filter((result) => outcomeOfResult(result) !== "none");
  const informing = sorted.slice(judging.length);
  if (results.length === 0) return null;
  return (
    <>
      <h3>Evaluator results</h3>
      {judging.length > 0 && <ResultList results={judging} />}
      {informing.length > 0 && (judging.length === 0 ? <ResultList results={informing} /> : (
        <details className="small">
          <summary>{informing.length === 1 ? "One that informs only" : `${informing.length} that inform only`}</summary>
          <ResultList results={informing} />
        </details>
      ))}
    </>
  );
}

function ResultList({ results }: { results: QueueItem["evalResults"] }) {
  return (
    <ul className="reasons">
      {results.map((result) => (
        <li key={result.id}>
          <Sign outcome={outcomeOfResult(result)} word={false} />
          <span><b>{shown(result.evaluatorName)}</b> {score(result.score)}{result.threshold !== null && ` of ${score(result.threshold)}`}</span>
          {result.reason !== null && <span className="muted" dir="auto">{shown(result.reason)}</span>}
        </li>
      ))}
    </ul>
  );
}

// Longer texts are cut where they are shown, which marks in them would not be.
const MOST_MARKED = 50_000;

/** Output and expected side by side, with the words that differ marked. */
function Answers({ item }: { item: QueueItem }) {
  const expected = readable(item.expectedOutput);
  const got = readable(item.actualOutput);
  const isEmpty = item.error !== null && Object.keys(item.actualOutput).length === 0;
  const isLong = expected.length + got.length > MOST_MARKED;
  const words = expected === "" || isEmpty || isLong ? null : compareWords(expected, got);
  return (
    <div className="pair">
      <div>
        <h3>Output</h3>
        {isEmpty ? <p className="muted">Nothing came: the application failed.</p> : <Formattable text={got}>{words === null ? <Text>{got}</Text> : <Marked pieces={words[1]} mark="got" />}</Formattable>}
      </div>
      <div>
        <h3>Expected</h3>
        {expected === "" ? <p className="muted">Nothing is expected of it.</p> : <Formattable text={expected}>{words === null ? <Text>{expected}</Text> : <Marked pieces={words[0]} mark="want" />}</Formattable>}
      </div>
    </div>
  );
}

function Marked({ pieces, mark }: { pieces: readonly { text: string; differs: boolean }[]; mark: string }) {
  return (
    <pre className="text" tabIndex={0} dir="auto">
      {pieces.map((piece, index) => (piece.differs ? <mark key={index} className={mark}>{shown(piece.text)}</mark> : shown(piece.text)))}
    </pre>
  );
}

/** What others have said about the item. */
export function OtherReviews({ reviews }: { reviews: readonly Review[] }) {
  if (reviews.length === 0) return null;
  return (
    <>
      <h3>Other reviews</h3>
      <ul className="reasons">
        {reviews.map((review) => (
          <li key={review.id}>
            <span className={review.verdict === "CORRECT" ? "pass" : review.verdict === "INCORRECT" ? "fail" : "none"}>{sayVerdict(review.verdict as Verdict)}</span>
            <span><b>{shown(review.reviewerName ?? review.reviewer)}</b> <Time value={review.updatedAt} /></span>
            {review.note !== null && <span className="muted" dir="auto">{shown(review.note)}</span>}
          </li>
        ))}
      </ul>
    </>
  );
}

/** How far evaluators agree with people, and people with one another, in the run of an item. */
export function Agreement({ run }: { run: string }) {
  const alignment = useQuery(alignmentQuery(run));
  if (alignment.data === undefined || alignment.data.annotatedItems === 0) return null;
  const { annotatedItems, evaluators, reviewers } = alignment.data;
  return (
    <details className="small">
      <summary>Agreement in this run, of {annotatedItems} reviewed</summary>
      <ul className="reasons">
        {evaluators.filter((one) => one.comparableCount > 0).map((one) => (
          <li key={one.evaluatorName}>
            <span><b>{shown(one.evaluatorName)}</b> agrees with people on {one.agreedCount}/{one.comparableCount}</span>
            {one.kappa !== null && <span className="muted">kappa {score(one.kappa)}</span>}
          </li>
        ))}
        {reviewers.reviewerCount > 1 && (
          <li>
            <span><b>{reviewers.reviewerCount} reviewers</b> share {reviewers.itemCount} items</span>
            {reviewers.alpha !== null && <span className="muted">alpha {score(reviewers.alpha)}</span>}
          </li>
        )}
      </ul>
    </details>
  );
}
