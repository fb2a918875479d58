// The package as others get it: what is in it, and that it works in projects that know nothing of this
// folder. The README's examples are those projects.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { startStage } from "./stage.js";

const run = promisify(execFile);
const here = process.cwd();
const work = await mkdtemp(join(tmpdir(), "plimsoll-package-"));
after(() => rm(work, { recursive: true }));

interface Packed {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

const { stdout } = await run("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", work]);
const [packed] = JSON.parse(stdout.slice(stdout.indexOf("["))) as [Packed];

/** The examples of the README that are in a language. */
const readme = await readFile("README.md", "utf8");
const examples = (language: string): string[] =>
  Array.from(readme.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms")), ([, text = ""]) => text);

/** Makes a project that has the package, and nothing else. */
async function project(name: string): Promise<string> {
  const folder = join(work, name);
  await mkdir(folder);
  await writeFile(join(folder, "package.json"), JSON.stringify({ name, type: "module", private: true }));
  const options = ["--offline", "--no-audit", "--no-fund", "--no-package-lock"];
  await run("npm", ["install", ...options, join(work, packed.filename)], { cwd: folder });
  return folder;
}

async function types(folder: string, compiler: object): Promise<void> {
  const strict = { strict: true, module: "nodenext", target: "ES2022", skipLibCheck: false, ...compiler };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: strict }));
  const tsc = join(here, "node_modules", "typescript", "bin", "tsc");
  const told = await run(process.execPath, [tsc, "-p", folder]).catch(
    (error: unknown) => error as { stdout: string },
  );
  assert.equal(told.stdout, "");
}

test("what is in it", () => {
  const paths = packed.files.map(({ path }) => path);
  const outside = paths.filter((path) => !/^dist\/\w+\.(js|d\.ts)$/.test(path));
  assert.deepEqual(outside.sort(), ["LICENSE", "README.md", "package.json"]);
  for (const entry of ["index", "substrate", "node"]) {
    assert.ok(paths.includes(`dist/${entry}.js`) && paths.includes(`dist/${entry}.d.ts`), entry);
  }
});

test("the README's first example runs, in a project of plain JavaScript", async () => {
  const folder = await project("plain");
  const [first = ""] = examples("js");
  await writeFile(join(folder, "example.js"), first);
  await using stage = await startStage();
  const [address = ""] = stage.note.addresses;
  const env = { ...process.env, PLIMSOLL_URL: address, PLIMSOLL_TOKEN: stage.note.tokens.caller };
  const begun = { method: "POST", body: JSON.stringify({ name: "a yes at once" }) };
  assert.equal((await fetch(`${stage.note.control}/begin`, begun)).status, 200);
  const example = await run(process.execPath, ["example.js"], { cwd: folder, env });
  assert.equal(example.stdout, "admitted: boot it with the ticket plm1.…\ndone, and released\n");
});

test("all of the README's examples compile, in a strict project of TypeScript", async () => {
  const folder = await project("typed");
  const all = [...examples("js"), ...examples("ts")];
  assert.equal(all.length, 3);
  await Promise.all(all.map((text, i) => writeFile(join(folder, `example${i}.ts`), text)));
  await mkdir(join(folder, "node_modules", "@types"));
  await cp(join(here, "node_modules", "@types", "node"), join(folder, "node_modules", "@types", "node"), {
    recursive: true,
  });
  await symlink(join(here, "node_modules", "undici-types"), join(folder, "node_modules", "undici-types"));
  await types(folder, { lib: ["ES2022", "DOM"], types: ["node"], noEmit: true, skipLibCheck: true });
});

test("its types need nothing but a browser's, and no skipLibCheck", async () => {
  const folder = await project("page");
  const text = `import { Client } from "plimsoll"; import { Gate } from "plimsoll/substrate"; import { releaseOnExit } from "plimsoll/node";
    const client = new Client(["https://a.example"], "t"); releaseOnExit(client);
    export const place: Promise<string> = client.admit({ class: "a" }).then(({ key }) => key);
    // @ts-expect-error -- no such mode
    export const wrong = client.admit({ class: "a", mode: "hope" });
    export type { Gate };`;
  await writeFile(join(folder, "page.ts"), text);
  // A lease ends with its block also where the language does not know such blocks.
  const older = `import type { Lease } from "plimsoll";
    const lease = { ticket: "plm1.x", [Symbol.asyncDispose]: async () => console.log("released") } as unknown as Lease;
    { await using held = lease; console.log(held.ticket); }`;
  await writeFile(join(folder, "older.ts"), older);
  await types(folder, { lib: ["ES2022", "DOM"], types: [] });
  const ended = await run(process.execPath, ["older.js"], { cwd: folder });
  assert.equal(ended.stdout, "plm1.x\nreleased\n");
});
