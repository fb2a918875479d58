// Runs in a browser, as a page's script and as a worker of it: each plays its part of the scenarios, and
// tells what the stage finds wrong.
import { type Note, play, type Scenario } from "./player.js";

/** What a page, or a worker, has to do. */
export interface Work {
  readonly note: Note;
  readonly scenarios: readonly Scenario[];
}

/** What came of it: the name of each scenario, and its faults. */
export type Done = readonly (readonly [name: string, faults: readonly string[]])[];

const as = new URL(import.meta.url).searchParams.get("as") ?? "";

async function main(): Promise<Done> {
  const { note, scenarios } = (await (await fetch(`/work/${as}`)).json()) as Work;
  const origin = new URL("/", import.meta.url).origin;
  const absolute = {
    ...note,
    addresses: note.addresses.map((path) => origin + path),
    control: origin + note.control,
  };
  const done: [string, string[]][] = [];
  for (const scenario of scenarios) {
    done.push([scenario.name, await play(absolute, scenario)]);
  }
  return done;
}

if (as === "page") new Worker("/test/inbrowser.js?as=worker", { type: "module" });
const done = await main().catch((error: unknown): Done => [["all of it", [String(error)]]]);
await fetch(`/done/${as}`, { method: "POST", body: JSON.stringify(done) });
