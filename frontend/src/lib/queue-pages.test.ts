import { expect, test } from "vitest";
import { readUnseen } from "./queue-pages";

const SIZE = 10;

/** A server with a ranked queue, of which each page also has one item that chance chose, and counts that one, too. */
function makeQueue(count: number) {
  const waiting = Array.from({ length: count }, (_, rank) => ({ itemId: `${rank}`, sampled: false }));
  let asked = 0;
  return {
    read: (page: number) => {
      asked += 1;
      const content = waiting.slice(page * SIZE, (page + 1) * SIZE);
      return Promise.resolve({ content: [...content, { itemId: `drawn ${page} ${waiting.length}`, sampled: true }], last: (page + 1) * (SIZE + 1) >= waiting.length });
    },
    decide: (id: string) => waiting.splice(waiting.findIndex((one) => one.itemId === id), 1),
    countAsked: () => asked,
  };
}

async function readAll(queue: ReturnType<typeof makeQueue>, decides: (rank: number) => boolean) {
  const shown: string[] = [];
  for (let last = false; !last; ) {
    const page = await readUnseen(queue.read, shown);
    for (const { itemId, sampled } of page.content) {
      shown.push(itemId);
      if (!sampled && decides(Number(itemId))) queue.decide(itemId);
    }
    last = page.last;
  }
  return shown.filter((id) => !id.startsWith("drawn"));
}

const ALL = Array.from({ length: 35 }, (_, rank) => `${rank}`);

test("no item is skipped, whatever was decided of those before", async () => {
  expect(await readAll(makeQueue(35), () => true)).toEqual(ALL);
  expect(await readAll(makeQueue(35), () => false)).toEqual(ALL);
  expect(await readAll(makeQueue(35), (rank) => rank % 3 > 0)).toEqual(ALL);
});

test("where everything was decided, one request has the next page", async () => {
  const queue = makeQueue(35);
  await readAll(queue, () => true);
  expect(queue.countAsked()).toBe(5); // four pages, and the end
});
