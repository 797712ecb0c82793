// Runs one assertion or transform: a request comes as JSON on the standard input, and what the program returned
// goes to the standard output behind a mark that the program does not know.

import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";

const request = JSON.parse(readFileSync(0, "utf8"));

function compile(body) {
  return new Function(...Object.keys(request.arguments), "require", body);
}

function compiles(body) {
  try {
    compile(body);
    return true;
  } catch {
    return false;
  }
}

// Several lines return their result themselves. Of one line, the last expression is the result, also behind
// declarations: `const n = 3; output.length > n`; one that is no expression is taken for a whole program.
function bodyOf(code) {
  if (code.trimEnd().includes("\n")) return code;
  const program = code.trim().replace(/;+\s*$/, "");
  if (/^(const|let|var)\s/.test(program)) {
    for (let end = program.lastIndexOf(";"); end > 0; end = program.lastIndexOf(";", end - 1)) {
      const declarations = program.slice(0, end + 1);
      const result = `return ${program.slice(end + 1)}`;
      // Each by itself: a semicolon in a text would make one text of both.
      if (compiles(declarations) && compiles(result)) return `${declarations} ${result}`;
    }
    return program;
  }
  const expression = `return ${program}`;
  return !compiles(expression) && compiles(program) ? program : expression;
}

async function load(reference) {
  const [, file, name] = /^(.*?\.[cm]?[jt]s)(?::(\w+))?$/.exec(reference) ?? [null, reference, null];
  const exported = await import(pathToFileURL(resolve(file)).href);
  const found = name ? (exported[name] ?? exported.default?.[name]) : (exported.default ?? exported["module.exports"]);
  if (typeof found !== "function") throw new Error(`${file} exports no function${name ? ` ${name}` : ""}`);
  return found;
}

async function run() {
  const { program, isTransform } = request;
  const reference = program.trim();
  const isFile = reference.startsWith("file://");
  const given = Object.values(request.arguments);
  const call = isFile ? await load(reference.slice("file://".length)) : compile(bodyOf(program));
  let value = await call(...given, createRequire(resolve("assertion.js")));
  if (isTransform) {
    // An expression may be a function: `(json, text) => json.answer`.
    if (typeof value === "function") value = await value(...given);
    if (value === undefined || value === null) throw new Error(`it returned ${value}`);
    return JSON.stringify({ value });
  }
  const isResult = typeof value === "boolean" || Number.isFinite(value) || (typeof value === "object" && value !== null);
  if (!isResult) throw new Error(`it returned ${value === null ? "null" : typeof value === "number" ? value : typeof value}, not a boolean, a number or an object`);
  return JSON.stringify({ value }); // here, since an object may contain itself
}

let answer;
try {
  answer = await run();
} catch (error) {
  answer = JSON.stringify({ error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) });
}
// Through the same stream as what the program printed, and to its end: a pipe takes only so much at once.
process.stdout.write(`\n${request.mark}${answer}`, () => process.exit(0));
