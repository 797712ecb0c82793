/** Who called whom in a trace, as a picture and as a table. */
import { useMemo } from "react";
import { type AgentGraph as Graph, BOX, type Box, type GraphEdge, START, layOut } from "../lib/agent-graph";
import { count, cut, duration, plural, shown } from "../lib/format";

interface Props {
  readonly graph: Graph;
  /** Shows the spans of a node in the waterfall. */
  readonly onShow: (kind: string, name: string) => void;
}

const MOST_ROWS = 500;

export function AgentGraph({ graph, onShow }: Props) {
  const layout = useMemo(() => layOut(graph), [graph]);
  const names = new Map(graph.nodes.map((node) => [node.id, node]));
  const edges = useMemo(
    () => (graph.edges.length <= MOST_ROWS ? graph.edges : [...graph.edges].sort((a, b) => b.calls - a.calls).slice(0, MOST_ROWS)),
    [graph],
  );
  const failed = graph.edges.reduce((sum, edge) => sum + edge.failed, 0);
  const label = `${plural(graph.nodes.length, "node")} and the calls between them, ${count(failed)} failed; the table has the same`;
  return (
    <>
      <div className="panel graph-box" tabIndex={0} role="group" aria-label="Graph of calls">
        <svg className="graph" role="img" aria-label={label} width={layout.width} height={layout.height} viewBox={`0 0 ${layout.width} ${layout.height}`}>
          <defs>
            <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path className="tip" d="M0 0 8 4 0 8z" /></marker>
          </defs>
          {layout.arrows.map(({ edge, from, to }) => <Arrow key={`${edge.from}\n${edge.to}`} edge={edge} from={from} to={to} />)}
          {layout.boxes.map((box) => <NodeBox key={box.node.id} box={box} />)}
        </svg>
      </div>
      {layout.left > 0 && <p className="label">The {count(layout.boxes.length)} with most calls are drawn; the table has {count(layout.left)} more.</p>}
      <div className="panel gap wide-table" tabIndex={0} role="group" aria-label="Table of calls">
        <table>
          <thead>
            <tr><th>Caller</th><th>Called</th><th className="hide-s">Kind</th><th className="num">Calls</th><th className="num">Errors</th><th className="num">Time</th></tr>
          </thead>
          <tbody>
            {edges.map((edge) => {
              const to = names.get(edge.to);
              if (to === undefined) return null;
              return (
                <tr key={`${edge.from}\n${edge.to}`}>
                  <td><bdi>{edge.from === START ? START : shown(cut(names.get(edge.from)?.name ?? edge.from, 60))}</bdi></td>
                  <th scope="row">
                    <button type="button" className="plain link" onClick={() => onShow(to.kind, to.name)}><bdi>{shown(cut(to.name, 60))}</bdi></button>
                  </th>
                  <td className="hide-s muted">{to.kind}</td>
                  <td className="num">{count(edge.calls)}</td>
                  <td className={edge.failed > 0 ? "num fail" : "num none"}>{edge.failed > 0 ? `✗ ${count(edge.failed)}` : "–"}</td>
                  <td className="num">{duration(edge.time)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {edges.length < graph.edges.length && <p className="label">The {count(edges.length)} pairs with most calls of {count(graph.edges.length)}.</p>}
      <p className="label spaced">Times of calls that ran at once are added. Steps such as workflows are looked through.</p>
    </>
  );
}

function NodeBox({ box: { node, x, y } }: { box: Box }) {
  const facts = node.kind === "start" ? "the trace" : `${node.kind} · ${count(node.calls)}× · ${duration(node.time)}`;
  return (
    <g className={`node ${node.kind}${node.failed > 0 ? " failed" : ""}`} transform={`translate(${x} ${y})`}>
      <title>{shown(node.name)}</title>
      <rect width={BOX.width} height={BOX.height} rx="8" />
      <text className="name" x="12" y="20">{shown(cut(node.name, 21))}</text>
      <text className="facts-line" x="12" y="37">{facts}{node.failed > 0 && <tspan className="bad"> · ✗ {count(node.failed)}</tspan>}</text>
    </g>
  );
}

function Arrow({ edge, from, to }: { edge: GraphEdge; from: Box; to: Box }) {
  const words = `${count(edge.calls)}× ${duration(edge.time)}`;
  const { path, x, y } = route(from, to);
  return (
    <g className={edge.failed > 0 ? "edge failed" : "edge"}>
      <path d={path} markerEnd="url(#arrow)" />
      <text x={x} y={y} textAnchor="middle">{words}{edge.failed > 0 && ` ✗ ${count(edge.failed)}`}</text>
    </g>
  );
}

/** The way of an arrow, and where its words stand: near what is called, where no other arrow's do. */
function route(from: Box, to: Box): { path: string; x: number; y: number } {
  const [startY, endY] = [from.y + BOX.height / 2, to.y + BOX.height / 2];
  if (from === to) {
    const right = from.x + BOX.width;
    return { path: `M${right - 40} ${from.y} C${right - 40} ${from.y - 18} ${right - 8} ${from.y - 18} ${right - 8} ${from.y - 1}`, x: right - 24, y: from.y - 4 };
  }
  if (to.x > from.x) {
    const [startX, endX] = [from.x + BOX.width, to.x - 1];
    return { path: `M${startX} ${startY} C${startX + 56} ${startY} ${endX - 72} ${endY} ${endX} ${endY}`, x: endX - 52, y: endY - 5 };
  }
  // To the same column or back: below the boxes.
  const [startX, endX] = [from.x + BOX.width / 2, to.x + BOX.width / 2];
  const bend = Math.max(from.y, to.y) + BOX.height + 14;
  return { path: `M${startX} ${from.y + BOX.height} C${startX} ${bend} ${endX} ${bend} ${endX} ${to.y + BOX.height + 1}`, x: (startX + endX) / 2, y: bend + 2 };
}
