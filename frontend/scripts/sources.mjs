import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const FILES = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];
const FOLDERS = ["src", "scripts"];

/** A hash over everything that the built files are made of; `tests/server/test_web_pages.py` makes the same. */
export function hashSources() {
  const paths = FOLDERS.flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).replaceAll("\\", "/")),
  );
  const hash = createHash("sha256");
  for (const path of [...FILES, ...paths].sort()) {
    const text = readFileSync(path, "utf8").replaceAll("\r\n", "\n");
    hash.update(`${path}\0${Buffer.byteLength(text)}\0${text}`);
  }
  return hash.digest("hex");
}
