// The table of codes is that of the Go package api: what that says a code means, this client does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { codeOfStatus, isCode, meanings } from "../src/codes.js";
import { readText } from "./repository.js";

const kinds: Record<string, string> = { NotNow: "not_now", NotAllowed: "not_allowed", Never: "never" };

test("the table of codes", () => {
  const source = readText("api", "codes.go");
  const names = new Map(
    Array.from(source.matchAll(/^\t(\w+) +Code = "(\w+)"/gm), ([, name, code]) => [name, code]),
  );
  const rows = [...source.matchAll(/^\t\{(\w+), (\d+), (\w+), Scope(\w+), /gm)];
  assert.ok(rows.length > 30);
  const want = rows.map(([, name, , kind = "", scope = ""]) => {
    const code = names.get(name) ?? "";
    return [code, { kind: code === "internal" ? "internal" : kinds[kind], scope: scope.toLowerCase() }];
  });
  assert.deepEqual(meanings, Object.fromEntries(want));
});

test("codes that this client does not know go by their status", () => {
  assert.equal(isCode("toString"), false);
  assert.equal(codeOfStatus(429), "forbidden", "429 never means capacity");
  assert.equal(codeOfStatus(418), "invalid_request");
  assert.equal(codeOfStatus(302), "internal");
});
