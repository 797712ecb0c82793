// Runs one assertion: a request comes as JSON on the standard input, and what the program returned goes to the
// standard output behind a mark that the program does not know.

import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { readFileSync, writeSync } from "node:fs";

const request = JSON.parse(readFileSync(0, "utf8"));

function compile(body) {
  return new Function("output", "context", "require", body);
}

function compiles(body) {
  try {
    compile(body);
    return true;
  } catch {
    return false;
  }
}

// Of one line, the last expression is the result, also behind declarations: `const n = 3; output.length > n`.
function bodyOf(code) {
  const program = code.trim().replace(/;+\s*$/, "");
  if (program.includes("\n")) return program;
  if (/^(const|let|var)\s/.test(program)) {
    for (let end = program.lastIndexOf(";"); end > 0; end = program.lastIndexOf(";", end - 1)) {
      const declarations = program.slice(0, end + 1);
      const result = `return ${program.slice(end + 1)}`;
      // Each by itself: a semicolon in a text would make one text of both.
      if (compiles(declarations) && compiles(result)) return `${declarations} ${result}`;
    }
    return program;
  }
  return `return ${program}`;
}

async function load(reference) {
  const [, file, name] = /^(.*?\.[cm]?[jt]s)(?::(\w+))?$/.exec(reference) ?? [null, reference, null];
  const exported = await import(pathToFileURL(resolve(file)).href);
  const found = name ? (exported[name] ?? exported.default?.[name]) : (exported.default ?? exported["module.exports"]);
  if (typeof found !== "function") throw new Error(`${file} exports no function${name ? ` ${name}` : ""}`);
  return found;
}

async function run() {
  const { program, output, context } = request;
  const isFile = program.startsWith("file://");
  const check = isFile ? await load(program.slice("file://".length)) : compile(bodyOf(program));
  const value = await check(output, context, createRequire(resolve("assertion.js")));
  const isResult = typeof value === "boolean" || Number.isFinite(value) || (typeof value === "object" && value !== null);
  if (!isResult) throw new Error(`it returned ${value === null ? "null" : typeof value === "number" ? value : typeof value}, not a boolean, a number or an object`);
  return { value };
}

let result;
try {
  result = await run();
} catch (error) {
  result = { error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
}
writeSync(1, `\n${request.mark}${JSON.stringify(result)}`);
process.exit(0);
