/** `tidegate check` of files that are right, and of files that are not. */
import { describe, expect, it } from "vitest";
import { documentIn, fileWith, tidegate } from "./terminal.ts";

const RIGHT = `
blocking: true
policies:
  burst: { algorithm: tokenBucket, capacity: 10, refillPerSecond: 5 }
  perIp: { algorithm: slidingWindow, limit: 600, window: 1m, by: ip }
  slots: { algorithm: concurrency, limit: 4, onFailure: closed }
  trial: { algorithm: gcra, limit: 1200, window: 1h, mode: shadow, by: { or: [{ apiKey: { header: x-api-key } }, ip] } }
  bytes: { algorithm: fixedWindow, limit: 1000000, window: 1 day, unit: content-bytes, by: { and: [user, route] } }
routes:
  "POST /login": { limit: 5, window: 15m, onFailure: closed }
  "GET /export": { cost: 5 }
  "GET /health": false
`;

describe("a file that is right", () => {
  it("is told as a table of policies and routes", async () => {
    const file = fileWith(RIGHT);
    const { code, out, err } = await tidegate(["check", file]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toBe(
      [
        `${file} is right: 6 policies, 3 routes.`,
        "",
        "where        policy         algorithm      limit                    counts                    without Redis",
        "everywhere   burst          tokenBucket    10, refilled in 2 s      ip by default             open",
        "everywhere   perIp          slidingWindow  600 per 1 min            ip                        open",
        "everywhere   slots          concurrency    4 in flight              ip by default             closed",
        "everywhere   trial          gcra           1,200, refilled in 1 h   key, else ip    on trial  open",
        "everywhere   bytes          fixedWindow    1,000,000 bytes per 1 d  user, by route            open",
        "POST /login  default        slidingWindow  5 per 15 min             ip by default             closed",
        "GET /export  as everywhere",
        "GET /health  not limited",
        "",
      ].join("\n"),
    );
  });

  it("is one document as JSON", async () => {
    const file = fileWith(RIGHT);
    const { code, ...said } = await tidegate(["check", file, "--json"]);
    expect(code).toBe(0);
    const { policies, ...rest } = documentIn({ code, ...said });
    expect(rest).toEqual({ file, ok: true });
    expect(policies).toHaveLength(8);
    expect(policies[0]).toEqual({
      route: null,
      policy: "burst",
      algorithm: "tokenBucket",
      limit: 10,
      windowMs: 2000,
      unit: "requests",
      counts: null,
      mode: "enforce",
      scope: "shared",
      onFailure: "open",
    });
    expect(policies[3].counts).toEqual({ kinds: ["key", "ip"], perRoute: false });
    expect(policies[7]).toMatchObject({ route: "GET /health", policy: null, mode: "off" });
  });

  it("is a list where the terminal is narrow: no line is cut, none is broken", async () => {
    const { out } = await tidegate(["check", fileWith(RIGHT)], { columns: 40 });
    expect(out).toContain(
      [
        "where          everywhere",
        "policy         perIp",
        "algorithm      slidingWindow",
        "limit          600 per 1 min",
        "counts         ip",
        "without Redis  open",
      ].join("\n"),
    );
  });
});

describe("a file that is wrong", () => {
  it("ends with 1 and shows each place, with a caret", async () => {
    const file = fileWith(
      "policies:\n  burst: { algorithm: tokenBucket, capacity: ten, refillPerSecond: 5 }\n  day: { algorithm: fixedWindow, limit: 5, windw: 1h }\n",
    );
    const { code, out, err } = await tidegate(["check", file]);
    expect({ code, err }).toEqual({ code: 1, err: "" });
    const lines = out.trimEnd().split("\n");
    expect(lines[0]).toMatch(new RegExp(`^${file}:2:46: policies\\.burst\\.capacity: .*"ten"\\.$`));
    expect(lines[1]).toBe("    burst: { algorithm: tokenBucket, capacity: ten, refillPerSecond: 5 }");
    expect(lines[2]).toBe(`${" ".repeat(47)}^`);
    expect(out).toMatch(new RegExp(`^${file}:3:44: policies\\.day\\.windw: `, "m"));
  });

  it("is one document as JSON, with every problem", async () => {
    const file = fileWith(
      "policies:\n  burst: { algorithm: tokenBucket, capacity: ten, refillPerSecond: 5 }\n",
    );
    const said = await tidegate(["check", file, "--json"]);
    expect({ code: said.code, err: said.err }).toEqual({ code: 1, err: "" });
    expect(documentIn(said)).toEqual({
      file,
      ok: false,
      problems: [
        {
          code: "TIDEGATE_FILE_OPTION",
          line: 2,
          column: 46,
          option: "policies.burst.capacity",
          message: expect.stringContaining('got "ten"'),
        },
      ],
    });
  });

  it("may hold anything: nothing of it acts on the terminal", async () => {
    const file = fileWith(
      'policies:\n  burst: { algorithm: "\u001b[31m\u202e\u200b", x: "\u009b2J" }\n',
      "li\u001b[2J\nmits.yaml",
    );
    for (const command of [
      ["check", file],
      ["check", file, "--json"],
      ["explain", "user:42", "--policy", file],
    ]) {
      const said = await tidegate(command, { env: { REDIS_URL: "redis://localhost:1" } });
      expect(said.out + said.err).toContain("li\\");
      expect(said.code).toBe(command[0] === "check" ? 1 : 2);
    }
  });

  it("that ends in a broken line shows what is there", async () => {
    const { code, out } = await tidegate(["check", fileWith("policies: [")]);
    expect(code).toBe(1);
    expect(out).toMatch(/limits\.yaml:\d+:\d+: /);
  });
});

describe("a file that cannot be read", () => {
  it("ends with 2", async () => {
    const { code, out, err } = await tidegate(["check", "/no/such/limits.yaml"]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toBe("/no/such/limits.yaml: it cannot be read: there is no such file (ENOENT).\n");
  });

  it("is an error in the document", async () => {
    const said = await tidegate(["check", "/no/such/limits.yaml", "--json"]);
    expect(said.code).toBe(2);
    expect(documentIn(said)).toMatchObject({ error: { code: "TIDEGATE_FILE_UNREADABLE" } });
  });
});
