// Writes src/api/schema.d.ts from the description of the API: `npm run api-types -- openapi.json`,
// where openapi.json is what a server answers at /openapi.json.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [source] = process.argv.slice(2);
if (!source) throw new Error("Usage: npm run api-types -- openapi.json");
const description = JSON.parse(readFileSync(source, "utf8"));
const schemas = join(mkdtempSync(join(tmpdir(), "dokimos-")), "schemas.json");
// The bodies and answers alone: the types of all paths are six times as long, and used by nothing.
writeFileSync(schemas, JSON.stringify({ ...description, paths: {} }));
// It needs TypeScript 5; the interface is compiled by a newer one.
const packages = ["-p", "typescript@5.9", "-p", "openapi-typescript@7.13.0"];
execFileSync("npx", ["-y", ...packages, "openapi-typescript", schemas, "-o", "src/api/schema.d.ts"], {
  stdio: "inherit",
});
