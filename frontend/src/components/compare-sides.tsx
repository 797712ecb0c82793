/** One item of a comparison in every run, beside what was expected. */
import { useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";
import { type Item, type Run, itemsQuery } from "../api/queries";
import { count, cut, score, shown, textOf } from "../lib/format";
import { nameOf, reasonOf } from "../lib/items";
import { wordOfRun } from "../lib/runs";
import { type Cell, type PairedItem, type Pairing, meanScore, placeOfCell } from "../lib/pairing";
import { compareWords } from "../lib/words";
import { Sign, Text } from "./bits";

interface SidesProps {
  readonly pairing: Pairing;
  readonly runs: readonly Run[];
  readonly item: PairedItem;
  /** Whether somebody has just chosen the item, and so wants to see it. */
  readonly isSought: boolean;
  readonly onShown: () => void;
}

export function SideBySide({ pairing, runs, item, isSought, onShown }: SidesProps) {
  const section = useRef<HTMLElement>(null);
  const items = useItemOf(pairing, runs, item);
  const isRead = items.every((one, index) => one !== null || item.cells[index] == null);
  useEffect(() => {
    if (!isSought || !isRead) return;
    section.current?.scrollIntoView({ block: "nearest" });
    onShown();
  }, [isSought, isRead, onShown]);
  const known = items.find((one) => one !== null) ?? null;
  const expected = textOf(known?.expectedOutput);
  return (
    <section ref={section}>
      <div className="sec">
        <h2>Side by side</h2>
        <span className="mono muted">{known === null ? shown(item.key) : shown(nameOf(known))}</span>
      </div>
      {known !== null && <Text limit={4_000}>{textOf(known.input)}</Text>}
      <div className={`panel sides sides-${runs.length + 1}`}>
        <div><h3>Expected</h3>{expected === "" ? <p className="muted">nothing was expected</p> : <Text>{expected}</Text>}</div>
        {runs.map((run, index) => (
          <OneSide
            key={run.id}
            title={index === 0 ? "Baseline" : runs.length === 2 ? "Candidate" : (run.name ?? run.id)}
            run={run}
            place={placeIn(pairing, item, index)}
            item={items[index] ?? null}
            cell={item.cells[index] ?? null}
            before={index === 0 ? null : (items[0] ?? null)}
          />
        ))}
      </div>
      {pairing.evaluators.length > 0 && <Scores pairing={pairing} runs={runs} item={item} />}
    </section>
  );
}

function placeIn(pairing: Pairing, item: PairedItem, run: number): string | null {
  const [side, cell] = [pairing.sides[run], item.cells[run]];
  return side === undefined || cell == null ? null : placeOfCell(side, cell);
}

/** The item in each run, null where it is not there or not read yet. */
function useItemOf(pairing: Pairing, runs: readonly Run[], item: PairedItem): (Item | null)[] {
  const answers = useQueries({
    queries: runs.map((run, index) => {
      const position = item.cells[index]?.positions[0];
      const ordinal = position === undefined ? undefined : pairing.sides[index]?.outline.ordinals[position];
      return itemsQuery(run.id, ordinal === undefined ? [] : [ordinal], "ended");
    }),
  });
  return answers.map((answer, index) => {
    const place = placeIn(pairing, item, index);
    return answer.data?.find((one) => `${one.ordinal}.${one.repetition}` === place) ?? null;
  });
}

interface OneSideProps {
  readonly title: string;
  readonly run: Run;
  readonly place: string | null;
  readonly item: Item | null;
  readonly cell: Cell | null;
  readonly before: Item | null;
}

function OneSide({ title, run, place, item, cell, before }: OneSideProps) {
  if (cell === null || place === null) return <div><h3>{shown(cut(title, 40))}</h3><p className="muted">not in this run</p></div>;
  return (
    <div>
      <h3>
        {shown(cut(title, 40))} <Sign outcome={cell.outcome} />{" "}
        <Link className="link label" to="/runs/$runId" params={{ runId: run.id }} search={{ item: place }}>Open item</Link>
      </h3>
      {cell.positions.length > 1 && cell.passShare !== null && (
        <p className="label">{count(Math.round(cell.passShare * cell.positions.length))} of {count(cell.positions.length)} repeats passed; the first is shown</p>
      )}
      {item === null ? <span className="skeleton" /> : (
        <>
          <Answer item={item} before={before} />
          <p className="label">{shown(cut(reasonOf(item), 400))}</p>
        </>
      )}
    </div>
  );
}

/** What came, with the words marked that the baseline did not say. */
function Answer({ item, before }: { item: Item; before: Item | null }): ReactNode {
  const got = item.error ?? textOf(item.actualOutput["output"] ?? item.actualOutput);
  const old = before === null || before.error !== null ? null : textOf(before.actualOutput["output"] ?? before.actualOutput);
  const words = old === null || old === got || item.error !== null ? null : compareWords(old, got);
  if (words === null) return <Text>{got}</Text>;
  return (
    <pre className="text" tabIndex={0} dir="auto">
      {words[1].map((piece, index) =>
        piece.differs ? <mark key={index} className="got">{shown(piece.text)}</mark> : shown(piece.text),
      )}
    </pre>
  );
}

function Scores({ pairing, runs, item }: { pairing: Pairing; runs: readonly Run[]; item: PairedItem }) {
  return (
    <div className="panel gap" tabIndex={0}>
      <table role="table" className="cards-s">
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader">Evaluator</th>
            {runs.map((run, index) => <th role="columnheader" key={run.id} className="num">{index === 0 ? "Baseline" : runs.length === 2 ? "Candidate" : shown(cut(run.name ?? run.id, 24))}</th>)}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {pairing.evaluators.map((name) => (
            <tr role="row" key={name}>
              <th scope="row" role="rowheader">{shown(name)}</th>
              {runs.map((run, index) => <td role="cell" key={run.id} className="num" data-label={wordOfRun(index, runs.length)}>{score(meanScore(pairing.scores.get(name)?.[index], item.cells[index]))}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
