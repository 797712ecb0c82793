/** The next items of a queue that is ranked anew for each page, so that none is skipped because others were decided. */

interface Row {
  readonly itemId: string;
  /** Whether chance chose it, which has nothing to do with its rank. */
  readonly sampled: boolean;
}

interface Page<R extends Row> {
  readonly content: R[];
}

/**
 * Reads from the beginning of the queue until there are items that were not shown yet.
 *
 * What was decided has left the queue, and all behind it has moved up: the page with the next number would begin too late.
 * Of a page whose items were decided, as usual, this is one request.
 */
export async function readUnseen<R extends Row, P extends Page<R>>(read: (page: number) => Promise<P>, shown: Iterable<string>): Promise<P & { last: boolean }> {
  const seen = new Set(shown);
  const found: R[] = [];
  for (let number = 0; ; number += 1) {
    const page = await read(number);
    const fresh = page.content.filter((one) => !seen.has(one.itemId));
    for (const one of fresh) seen.add(one.itemId);
    found.push(...fresh);
    // Not where the page says that it is the last: it counts what chance chose, too, and ends too early.
    const isOver = page.content.every((one) => one.sampled);
    if (isOver || fresh.some((one) => !one.sampled)) return { ...page, content: found, last: isOver };
  }
}
