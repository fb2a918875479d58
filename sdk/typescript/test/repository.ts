// What the tests take from the repository that this folder is a part of. It is found by the variable
// PLIMSOLL_ROOT, or above the working directory: scripts/sdk-typescript runs the tests in a copy.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

export const root = process.env["PLIMSOLL_ROOT"] ?? join(process.cwd(), "..", "..");

/** Reads a file of the repository. */
export function readText(...path: string[]): string {
  return readFileSync(join(root, ...path), "utf8");
}

/** A file of sdk/vectors. One without a case would prove nothing. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- says what its caller knows
export function vectors<Case>(name: string): { readonly cases: readonly Case[] } {
  const file = JSON.parse(readText("sdk", "vectors", `${name}.json`)) as { readonly cases: readonly Case[] };
  assert.ok(file.cases.length > 0, `${name}.json has no cases`);
  return file;
}
