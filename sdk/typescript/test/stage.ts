// Starts stages, and ends them with their standard input.
import { spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import type { Note, Scenario } from "./player.js";
import { root, vectors } from "./repository.js";

export interface Stage extends AsyncDisposable {
  readonly note: Note;
}

/** Starts one: the program that PLIMSOLL_STAGE names, or what go run makes of sdk/stage. */
export async function startStage(): Promise<Stage> {
  const [command, args] = process.env["PLIMSOLL_STAGE"]
    ? [process.env["PLIMSOLL_STAGE"], []]
    : ["go", ["run", "./sdk/stage"]];
  const child = spawn(command, args, { cwd: root, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.on("exit", () => { resolve(); })); // prettier-ignore
  const [line] = await Promise.race([
    new Promise<string[]>((resolve) => createInterface(child.stdout).once("line", (text) => { resolve([text]); })), // prettier-ignore
    ended.then(() => []),
  ]);
  if (line === undefined) throw new Error("the stage ended before it was ready");
  return {
    note: JSON.parse(line) as Note,
    [Symbol.asyncDispose]: () => {
      child.stdin.end();
      return ended;
    },
  };
}

export const scenarios = vectors<Scenario>("scenarios").cases;
