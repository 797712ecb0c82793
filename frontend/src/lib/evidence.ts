/** The logarithmic scale of evidence: 1 is none, and a detector may forget down to almost nothing. */
export const LOWEST = 0.1;
const MOST_TICKS = 6;

/** Where evidence stands between the lowest that is drawn and the most, 0 to 1. */
export function placeOfEvidence(value: number, most: number): number {
  const place = Math.log10(Math.max(value, LOWEST) / LOWEST) / Math.log10(most / LOWEST);
  return Math.min(1, Math.max(0, place));
}

/** Powers of ten from the lowest up to the most, few enough to be read. */
export function ticksOfEvidence(most: number): number[] {
  const powers = Math.floor(Math.log10(most)) + 1;
  const step = Math.max(1, Math.ceil(powers / MOST_TICKS));
  return Array.from({ length: Math.floor(powers / step) + 1 }, (_, index) => 10 ** (index * step - 1));
}
