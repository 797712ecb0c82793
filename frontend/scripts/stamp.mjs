// Writes BUILD beside the built files: which sources they were made of, and with which Node and npm.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { hashSources } from "./sources.mjs";

const npm = execFileSync("npm", ["--version"], { encoding: "utf8" }).trim();
const stamp = { sources: hashSources(), node: process.version.slice(1), npm };
writeFileSync("../src/dokimos/server/static/BUILD", `${JSON.stringify(stamp, null, 2)}\n`);
