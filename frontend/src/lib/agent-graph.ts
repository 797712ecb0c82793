/** Who called whom in a trace: its agents, tools, models and retrievals, and the calls between them. */
import { type SpanTree, isFailed } from "./spans";

const KINDS = ["agent", "tool", "model", "retrieval"] as const;
export type NodeKind = (typeof KINDS)[number] | "start";

export interface GraphNode {
  readonly id: string;
  readonly kind: NodeKind;
  readonly name: string;
  readonly calls: number;
  readonly failed: number;
  /** Milliseconds of all its calls. */
  readonly time: number;
  /** Over how many calls it is reached at least. */
  readonly depth: number;
}

export interface GraphEdge {
  readonly from: string;
  readonly to: string;
  readonly calls: number;
  readonly failed: number;
  readonly time: number;
}

export interface AgentGraph {
  /** In the order in which they were called first; what called the first of them comes before all. */
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export const START = "start";
/** What the conventions put before the name in the name of a span. */
const OPERATION = /^(invoke_agent|create_agent|execute_tool|chat|text_completion|generate_content|embeddings|retrieval|retrieve)\s+(?=\S)/;

function nodeOf({ role, name, model }: { readonly role: string; readonly name: string; readonly model: string | null }): { kind: NodeKind; name: string } | null {
  const kind = KINDS.find((one) => one === role);
  if (kind === undefined) return null;
  return { kind, name: (kind === "model" ? model : null) ?? name.replace(OPERATION, "") };
}

/** The graph of a trace. Steps that are none of these, such as workflows, are looked through. */
export function buildGraph(tree: SpanTree): AgentGraph {
  const nodes = new Map<string, Mutable<GraphNode>>();
  const edges = new Map<string, Mutable<GraphEdge>>();
  /** For each row the node that it is, or is within. */
  const within: string[] = [];
  for (const { span, parent, duration } of tree.rows) {
    const caller = parent === null ? START : within[parent] ?? START;
    const found = nodeOf(span);
    const id = found === null ? caller : `${found.kind} ${found.name}`;
    within.push(id);
    // A model within itself is one call that two libraries have recorded.
    if (found === null || (id === caller && found.kind === "model")) continue;
    const [failed, time] = [isFailed(span) ? 1 : 0, duration ?? 0];
    const node = nodes.get(id) ?? { id, ...found, calls: 0, failed: 0, time: 0, depth: 0 };
    const edge = edges.get(`${caller}\n${id}`) ?? { from: caller, to: id, calls: 0, failed: 0, time: 0 };
    for (const one of [node, edge]) {
      one.calls += 1;
      one.failed += failed;
      one.time += time;
    }
    nodes.set(id, node);
    edges.set(`${caller}\n${id}`, edge);
  }
  return { nodes: measureDepths([...nodes.values()], [...edges.values()]), edges: [...edges.values()] };
}

function measureDepths(nodes: readonly Mutable<GraphNode>[], edges: readonly GraphEdge[]): readonly GraphNode[] {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const called = new Map<string, string[]>();
  for (const { from, to } of edges) {
    const those = called.get(from);
    if (those === undefined) called.set(from, [to]);
    else those.push(to);
  }
  const reached = new Set([START]);
  let level: readonly string[] = [START];
  for (let depth = 0; level.length > 0; depth += 1) {
    const next: string[] = [];
    for (const id of level) {
      const node = known.get(id);
      if (node !== undefined) node.depth = depth;
      for (const to of called.get(id) ?? []) {
        if (reached.has(to)) continue;
        reached.add(to);
        next.push(to);
      }
    }
    level = next;
  }
  // Where one agent calls all others, it needs nobody before it.
  const tops = edges.filter((edge) => edge.from === START);
  if (tops.length === 1) return nodes.map((node) => ({ ...node, depth: node.depth - 1 }));
  return [{ id: START, kind: "start", name: START, calls: 1, failed: 0, time: 0, depth: 0 }, ...nodes];
}

export interface Box {
  readonly node: GraphNode;
  readonly x: number;
  readonly y: number;
}

export interface Layout {
  readonly boxes: readonly Box[];
  readonly arrows: readonly { readonly edge: GraphEdge; readonly from: Box; readonly to: Box }[];
  readonly width: number;
  readonly height: number;
  /** How many nodes there is no room for. */
  readonly left: number;
}

export const BOX = { width: 176, height: 46 } as const;
const ACROSS = 128;
const DOWN = 22;
const AROUND = 8;
const MOST_BOXES = 40;

/** Where the nodes stand: a column for each depth; of many, those with most calls. */
export function layOut({ nodes, edges }: AgentGraph): Layout {
  const chosen = new Set([...nodes].sort((a, b) => Number(b.kind === "start") - Number(a.kind === "start") || b.calls - a.calls).slice(0, MOST_BOXES));
  const columns = new Map<number, GraphNode[]>();
  for (const node of nodes) {
    if (chosen.has(node)) columns.set(node.depth, [...(columns.get(node.depth) ?? []), node]);
  }
  const depths = [...columns.keys()].sort((a, b) => a - b);
  const most = Math.max(1, ...[...columns.values()].map((column) => column.length));
  const height = most * (BOX.height + DOWN) - DOWN;
  const boxes = depths.flatMap((depth, place) => {
    const column = columns.get(depth) ?? [];
    const top = (height - (column.length * (BOX.height + DOWN) - DOWN)) / 2;
    return column.map((node, index) => ({ node, x: AROUND + place * (BOX.width + ACROSS), y: AROUND + top + index * (BOX.height + DOWN) }));
  });
  const known = new Map(boxes.map((box) => [box.node.id, box]));
  const arrows = edges.flatMap((edge) => {
    const [from, to] = [known.get(edge.from), known.get(edge.to)];
    return from === undefined || to === undefined ? [] : [{ edge, from, to }];
  });
  return {
    boxes, arrows,
    width: 2 * AROUND + depths.length * (BOX.width + ACROSS) - ACROSS,
    height: 2 * AROUND + height,
    left: nodes.length - boxes.length,
  };
}
