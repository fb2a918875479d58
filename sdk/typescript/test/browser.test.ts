// The built package in a real browser, in a page and in a worker of it: both play scenarios against real
// replicas. Without a Chromium on PATH it is skipped.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { access, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { Site } from "./site.js";
import { scenarios, startStage } from "./stage.js";

async function chromium(): Promise<string | undefined> {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
      const path = join(folder, name);
      if (await access(path).then(() => true, () => false)) return path; // prettier-ignore
    }
  }
  return undefined;
}

/**
 * A browser has six connections for one origin, and this test little time. And a page is not told that a
 * connection was refused: it may have been heard, and is given back, which nobody is there to hear.
 */
const played = scenarios.filter(
  ({ name, options }) =>
    (options.callers ?? 1) === 1 && (options.hold_ms ?? 0) <= 1000 && name !== "no address at all",
);

const flags = [
  ...["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"],
];

const path = await chromium();

test("in a browser", { skip: path === undefined && "no Chromium is on PATH" }, async (t) => {
  await using page = await startStage();
  await using worker = await startStage();
  const parts = [page, worker].map((stage, i) => ({
    stage,
    scenarios: played.filter((_, nth) => nth % 3 === i),
  }));
  const site = new Site(new Map(["page", "worker"].map((name, i) => [name, parts[i] ?? assert.fail()])));
  const profile = await mkdtemp(join(tmpdir(), "plimsoll-browser-"));
  const browser = spawn(path ?? "", [...flags, `--user-data-dir=${profile}`, await site.start()], {
    stdio: "ignore",
  });
  const gone = new Promise((resolve) => browser.on("exit", resolve));
  try {
    const ended = ["page", "worker"].map((name, i) =>
      t.test(name, { timeout: 60_000 }, async () => {
        const done = await site.done(name);
        const wrong = done.filter(([, faults]) => faults.length > 0);
        assert.deepEqual(wrong, []);
        assert.equal(done.length, parts[i]?.scenarios.length);
      }),
    );
    await Promise.all(ended);
  } finally {
    browser.kill();
    await gone;
    site.close();
    await rm(profile, { recursive: true, maxRetries: 5 });
  }
});
