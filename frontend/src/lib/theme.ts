/** Light or dark: as the system says, until the viewer chooses. */

const KEY = "dokimos-theme";

export function applyTheme(): void {
  const kept = read();
  if (kept !== null) document.documentElement.dataset["theme"] = kept;
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  return chosen === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : chosen === "dark";
}

export function toggleTheme(): void {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset["theme"] = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}

function read(): "dark" | "light" | null {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "dark" || kept === "light" ? kept : null;
  } catch {
    return null;
  }
}
