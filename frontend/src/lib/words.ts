/** Which words of two texts differ: for showing what was expected beside what came. */

export interface Piece {
  readonly text: string;
  readonly differs: boolean;
}

const MOST_WORDS = 2_000;

/** The two texts in pieces; null where they are too long to be compared in a page. */
export function compareWords(left: string, right: string): readonly [Piece[], Piece[]] | null {
  const a = split(left);
  const b = split(right);
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) return null;
  const same = longestCommon(a, b);
  return [pieces(a, same.left), pieces(b, same.right)];
}

function split(text: string): string[] {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

function longestCommon(a: string[], b: string[]): { left: boolean[]; right: boolean[] } {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        a[i] === b[j]
          ? (lengths[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(lengths[(i + 1) * width + j] ?? 0, lengths[i * width + j + 1] ?? 0);
    }
  }
  const left = new Array<boolean>(a.length).fill(false);
  const right = new Array<boolean>(b.length).fill(false);
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      left[i] = right[j] = true;
      i += 1;
      j += 1;
    } else if ((lengths[(i + 1) * width + j] ?? 0) >= (lengths[i * width + j + 1] ?? 0)) {
      i += 1;
    } else {
      j += 1;
    }
  }
  return { left, right };
}

function pieces(words: string[], same: boolean[]): Piece[] {
  const found: { text: string; differs: boolean }[] = [];
  words.forEach((text, index) => {
    const differs = !same[index];
    const last = found.at(-1);
    if (last !== undefined && last.differs === differs) last.text += text;
    else found.push({ text, differs });
  });
  return found;
}
