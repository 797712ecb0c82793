/** What the query of an address says, for pages whose settings are texts. */

/**
 * The texts with these names that an address holds; the router reads digits alone as a number, `true` as a truth.
 *
 * The router lays them over what the address has: each name is there, or a value that is not a text would stay.
 */
export function readTexts<N extends string>(search: Record<string, unknown>, names: readonly N[]): { readonly [name in N]?: string } {
  return Object.fromEntries(names.map((name) => {
    const value = search[name];
    const isText = (typeof value === "string" && value !== "") || typeof value === "number" || typeof value === "boolean";
    return [name, isText ? String(value) : undefined];
  })) as { readonly [name in N]?: string };
}

/** Whether settings of an address narrow anything: names without a value are there too. */
export const saysAnything = (settings: object): boolean => Object.values(settings).some((value) => value !== undefined);
