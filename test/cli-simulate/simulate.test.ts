/** `tidegate simulate` as it is typed: what it prints, and how it ends. */
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { simulate } from "@tidegate/core/simulate";
import { policiesFrom } from "@tidegate/policy-file";
import { describe, expect, it } from "vitest";
import { documentIn, fileWith, tidegate } from "../cli/terminal.ts";
import { readLog, readLogs, sample, sampleText } from "./logs.ts";

/** 2026-11-29 13:55:36 UTC, seconds. */
const T = 1_795_960_536;

const LIMITS = "limit: 3\nwindow: 1m\n";

/** `count` requests of an address, one a second. */
const line = (second: number, address = "192.0.2.1", url = "/", agent = "curl/8.5.0"): string => {
  const [time] = [new Date((T + second) * 1000).toISOString()];
  const clock = `${time.slice(8, 10)}/Nov/${time.slice(0, 4)}:${time.slice(11, 19)} +0000`;
  return `${address} - - [${clock}] "GET ${url} HTTP/1.1" 200 12 "-" "${agent}"\n`;
};
const lines = (count: number, ...more: [address?: string, url?: string]): string =>
  Array.from({ length: count }, (_, i) => line(i, ...more)).join("");

describe("the report", () => {
  it.each(["common.log", "combined.log", "nginx-json.log", "caddy-json.log", "requests.csv"])(
    "of %s is what simulate() says of the same requests",
    async (name) => {
      const policy = fileWith("policies:\n  one: { algorithm: fixedWindow, limit: 1, window: 1m }\n");
      const { requests } = await readLog(sampleText(name));
      const said = await tidegate(["simulate", sample(name), "--policy", policy, "--json"]);
      const { format, lines: all, broken, leftOut, files, ...report } = documentIn(said);
      expect(report).toEqual(JSON.parse(JSON.stringify(await simulate(policiesFrom(policy), requests))));
      expect(report.requests).toBe(all - broken);
      expect(report.requests).toBeGreaterThan(1);
      expect([files.length, files[0].format, leftOut]).toEqual([1, format, 0]);
      expect(said).toMatchObject({ code: 0, err: "" });
    },
  );

  it("of several files together, packed and from standard input, is that of all requests in order", async () => {
    const policy = fileWith(LIMITS);
    const parts = [lines(4), sampleText("requests.csv"), lines(5, "203.0.113.7")] as const;
    const packed = fileWith("", "access.log.1");
    writeFileSync(packed, gzipSync(parts[0]));
    const { requests } = await readLogs(parts);
    const said = await tidegate(
      ["simulate", packed, sample("requests.csv"), "-", "--policy", policy, "--json"],
      { input: parts[2] },
    );
    const report = documentIn(said);
    expect(report).toMatchObject(
      JSON.parse(JSON.stringify({ ...(await simulate(policiesFrom(policy), requests)), warnings: [] })),
    );
    expect(report).toMatchObject({ format: "mixed", lines: 12, requests: 12 });
    expect(report.files.map(({ file }: { file: string }) => file)).toEqual([
      packed,
      sample("requests.csv"),
      "standard input",
    ]);
  });

  it("tells in text who was refused, when, how often, and what other limits would do", async () => {
    const log = fileWith(lines(10) + lines(2, "192.0.2.2"), "access.log");
    const { out, err, code } = await tidegate(["simulate", log, "--policy", fileWith(LIMITS)], {
      columns: 120,
    });
    expect([code, err]).toEqual([0, ""]);
    expect(out).toContain(`12 requests in`);
    expect(out).toContain("2026-11-29 13:55:36 to 2026-11-29 13:55:45 UTC (9 s)");
    expect(out).toMatch(/^admitted +5 +41\.7 %$/m);
    expect(out).toMatch(/^refused +7 +58\.3 %$/m);
    expect(out).toMatch(/^clients refused +1 +50 %$/m);
    expect(out).toContain("default  slidingWindow, 3 in 1 min");
    expect(out).toContain("peak: 10 units of ip:192.0.2.1 at 2026-11-29 13:55:45");
    expect(out).toMatch(/^ip:192\.0\.2\.1 +10 +7 +10 +2026-11-29 13:55:39 +2026-11-29 13:55:45$/m);
    expect(out).toMatch(/^ +3 +█+ +50 % +58\.3 %  this limit$/m);
    expect(out).toContain("a limit of 10 refuses at most 0.1 % of clients, and 0 % of requests");
  });

  it("says of a log without API keys, in text, in JSON and on the page, that addresses were counted", async () => {
    const policy = fileWith(
      "by: { or: [{ apiKey: { header: X-Api-Key } }, ip] }\npolicies:\n  perKey: { algorithm: fixedWindow, limit: 3, window: 1m }\n",
    );
    const page = fileWith("", "report.html");
    const words = ["simulate", fileWith(lines(10), "access.log"), "--policy", policy];
    const told = [
      "Policy perKey: none of 10 requests had the header x-api-key, which this log may not hold; all were counted by address.",
      "Log the header x-api-key, or a digest of it, in JSON or CSV, and name its column by --columns header.x-api-key=….",
    ];
    const { out } = await tidegate([...words, "--html", page]);
    expect(out).toContain(told.map((note) => `note  ${note}\n`).join(""));
    expect(readFileSync(page, "utf8")).toContain(told.map((note) => `<p>${note}</p>`).join(""));
    const report = documentIn(await tidegate([...words, "--json"]));
    expect(report.warnings).toEqual(told);
    expect(report.policies[0].neverFound).toEqual(["header x-api-key"]);

    const csv = fileWith(`at,ip,key\n${T},192.0.2.1,a\n${T + 1},192.0.2.1,b\n`, "log.csv");
    const named = ["simulate", csv, "--policy", policy, "--json", "--columns", "header.x-api-key=key"];
    expect(documentIn(await tidegate(named))).toMatchObject({ identities: 2, warnings: [] });
  });

  it("says above each curve of several policies what the policy refuses beside the others", async () => {
    const policy = fileWith(
      "policies:\n  strict: { algorithm: fixedWindow, limit: 3, window: 1m }\n  wide: { algorithm: fixedWindow, limit: 5, window: 1m }\n  trial: { algorithm: fixedWindow, limit: 2, window: 1m, mode: shadow }\n  slots: { algorithm: concurrency, limit: 5 }\n",
    );
    const page = fileWith("", "report.html");
    const log = fileWith(lines(10), "access.log");
    const { out } = await tidegate(["simulate", log, "--policy", policy, "--html", page]);
    expect(out.match(/^this policy alone; .*$/gm)).toEqual([
      "this policy alone; beside the others it refuses 70 % of requests",
      "this policy alone; beside the others it refuses 0 % of requests",
      "this policy alone; beside the others it would refuse 80 % of requests",
    ]);
    expect(out).toMatch(/refuses 0 % of requests\n +limit +clients refused[^]*?^ +5 .* 50 %  this limit$/m);
    expect(readFileSync(page, "utf8").match(/This policy alone; [^<]*/g)).toEqual([
      "This policy alone; beside the others it refuses 70 % of requests.",
      "This policy alone; beside the others it refuses 0 % of requests.",
      "This policy alone; beside the others it would refuse 80 % of requests.",
    ]);
    const alone = await tidegate(["simulate", log, "--policy", fileWith(LIMITS)]);
    expect(alone.out).not.toContain("this policy alone");
  });

  it("leaves out what came before --since, and from --until on", async () => {
    const log = fileWith(lines(10), "access.log");
    const words = ["simulate", log, "--policy", fileWith(LIMITS), "--json"];
    const report = documentIn(
      await tidegate([...words, "--since", "2026-11-29T13:55:38Z", "--until", String(T + 6)]),
    );
    expect(report).toMatchObject({
      lines: 10,
      requests: 4,
      leftOut: 6,
      from: (T + 2) * 1000,
      to: (T + 5) * 1000,
    });
  });

  it("goes by the names of columns and by what times are, as it is told", async () => {
    const csv = fileWith(
      `when,took,who,ip\n${T + 10},2,ann,192.0.2.1\n${T + 11},4,bob,192.0.2.1\n`,
      "log.csv",
    );
    const policy = fileWith("by: user\nlimit: 1\nwindow: 1h\n");
    const words = [
      "simulate",
      csv,
      "--policy",
      policy,
      "--json",
      "--columns",
      "at=when,duration=took,user=who",
    ];
    expect(documentIn(await tidegate(words))).toMatchObject({
      from: (T + 10) * 1000,
      identities: 2,
      refused: 0,
    });
    const report = documentIn(await tidegate([...words, "--times", "end"]));
    expect(report).toMatchObject({ from: (T + 7) * 1000, to: (T + 8) * 1000 });
    expect(report.policies[0].top.map(({ identity }: { identity: string }) => identity)).toEqual([
      "user:bob",
      "user:ann",
    ]);
  });

  it.each([
    ["nothing said", "", [], 1],
    ["trustProxy in the policy file", "trustProxy: 1\n", [], 3],
    ["--trust-proxy", "", ["--trust-proxy", "10.0.0.0/8"], 3],
    ["--trust-proxy instead of the file's", "trustProxy: 1\n", ["--trust-proxy", "0"], 1],
  ])("counts clients behind proxies with %s", async (_, more, flags, clients) => {
    const policy = fileWith(more + LIMITS);
    const said = await tidegate([
      "simulate",
      sample("nginx-main.log"),
      "--policy",
      policy,
      "--json",
      ...flags,
    ]);
    const { identities, warnings } = documentIn(said);
    expect(identities).toBe(clients);
    const asked = warnings.filter((warning: string) => warning.includes("--trust-proxy"));
    expect(asked).toHaveLength(more === "" && flags.length === 0 ? 1 : 0);
  });

  it.each([
    ["express", "/items/:id", ["/items/1", "/ITEMS/1/"], ["/items", "/items/1/2"]],
    ["koa", "/items/:id", ["/items/1", "/ITEMS/1/"], ["/items", "/items/1/2"]],
    ["fastify", "/items/:id", ["/items/1"], ["/ITEMS/1", "/items/1/", "/items/1/2"]],
    ["fastify", "/items/*", ["/items/", "/items/1/2"], ["/item"]],
    ["fastify", "/a/:id?", ["/a", "/a/1"], ["/a/1/2"]],
    ["express", "/files/*path", ["/files/a/b"], ["/files"]],
  ])("reads routes as %s does: %s", async (router, pattern, matching, others) => {
    const policy = fileWith(`${LIMITS}routes:\n  "${pattern}": false\n`);
    const log = fileWith(
      [...matching, ...others].map((url) => line(0, "192.0.2.1", `${url}?x=1`)).join(""),
      "a.log",
    );
    const said = await tidegate(["simulate", log, "--policy", policy, "--router", router, "--json"]);
    expect(documentIn(said)).toMatchObject({
      notLimited: matching.length,
      requests: matching.length + others.length,
    });
  });

  it("has no curve with --no-curve, and names as many clients as --top says", async () => {
    const log = fileWith(lines(2) + lines(2, "192.0.2.2") + lines(2, "192.0.2.3"), "access.log");
    const words = ["simulate", log, "--policy", fileWith(LIMITS), "--json", "--no-curve", "--top", "2"];
    const { policies } = documentIn(await tidegate(words));
    expect(policies[0]).toMatchObject({ curve: null, suggestions: null });
    expect(policies[0].top).toHaveLength(2);
  });
});

describe("--fail-above", () => {
  it.each([
    ["50%", 0, ""],
    ["0.5", 0, ""],
    [
      "49.9%",
      1,
      "33.3 % of the requests and 50 % of the clients would be refused: more than 49.9 % of one of them.\n",
    ],
    [
      "0",
      1,
      "33.3 % of the requests and 50 % of the clients would be refused: more than 0 % of one of them.\n",
    ],
  ])(
    "%s ends with %i where a third of the requests and half of the clients are refused",
    async (share, code, told) => {
      const log = fileWith(lines(5) + line(0, "192.0.2.2"), "access.log");
      const said = await tidegate([
        "simulate",
        log,
        "--policy",
        fileWith(LIMITS),
        "--fail-above",
        share,
        "--json",
      ]);
      expect(documentIn(said)).toMatchObject({
        requests: 6,
        refused: 2,
        identities: 2,
        identitiesRefused: 1,
      });
      expect(said).toMatchObject({ code, err: told });
    },
  );

  it("is no success when there was nothing to be refused", async () => {
    const log = fileWith("", "empty.log");
    const said = await tidegate(["simulate", log, "--policy", fileWith(LIMITS), "--fail-above", "1%"]);
    expect(said).toMatchObject({
      code: 2,
      err: "--fail-above: no request was limited, so nothing is shown.\n",
    });
  });
});

describe("what cannot work ends with 2, and says what to do", () => {
  const limits = () => ["--policy", fileWith(LIMITS)];
  it.each<[string, () => string[], string]>([
    [
      "a log that is missing",
      () => ["/nowhere/a.log", ...limits()],
      "/nowhere/a.log: there is no such file.",
    ],
    ["a folder", () => ["/", ...limits()], "/ is a folder: give the files in it."],
    [
      "standard input twice",
      () => ["-", "-", ...limits()],
      "Standard input can be read once: give one - only.",
    ],
    [
      "a share that is none",
      () => [sample("common.log"), ...limits(), "--fail-above", "lots"],
      "--fail-above: give a share such as 0.1% or 0.001, got lots.",
    ],
    [
      "a share above all",
      () => [sample("common.log"), ...limits(), "--fail-above", "101%"],
      "--fail-above: give a share such as 0.1% or 0.001, got 101%.",
    ],
    [
      "a time that is none",
      () => [sample("common.log"), ...limits(), "--since", "yesterday"],
      "--since: give a time such as 2026-11-29T13:00:00Z, 2026-11-29 or seconds since 1970, got yesterday.",
    ],
    [
      "a column's field that is none",
      () => [sample("common.log"), ...limits(), "--columns", "ip=x"],
      "--columns: write field=column, where field is at, address,",
    ],
    [
      "a number that is none",
      () => [sample("common.log"), ...limits(), "--top", "-1"],
      "--top: give a whole number from 0 to 1000, got -1.",
    ],
    [
      "a format that is none",
      () => [sample("common.log"), ...limits(), "--format", "elf"],
      "Allowed choices are common, combined, nginx-json, caddy-json, csv.",
    ],
    ["no policy file", () => [sample("common.log")], "required option '-p, --policy <file>' not specified"],
    [
      "a route that is no pattern",
      () => [sample("common.log"), "--policy", fileWith(`${LIMITS}routes:\n  "/a/:": false\n`)],
      "The route /a/: is no pattern:",
    ],
    [
      "a page in place of a log",
      () => [sample("common.log"), ...limits(), "--html", sample("common.log")],
      "it is read as well, give another file.",
    ],
    [
      "a page that cannot be written",
      () => [sample("common.log"), ...limits(), "--html", "/nowhere/r.html"],
      "--html /nowhere/r.html: ENOENT",
    ],
  ])("%s", async (_, words, told) => {
    const said = await tidegate(["simulate", ...words()], { input: "" });
    expect(said.err).toContain(told);
    expect(said.code).toBe(2);
  });
});

describe("what stands in a log", () => {
  const EVIL = "\u001b[31m\u009b2J</script><script>alert(1)</script>\u202e<img src=x onerror=alert(1)>";

  it("never reaches a terminal or a page as anything but text", async () => {
    const log = fileWith(
      JSON.stringify({
        msec: T,
        remote_addr: "192.0.2.1",
        remote_user: EVIL,
        request: "GET / HTTP/1.1",
        status: 200,
        http_user_agent: EVIL,
      }) + `\n${EVIL}\n`,
      "evil.log",
    );
    const policy = fileWith("by: user\nlimit: 1\nwindow: 1m\n");
    const page = fileWith("", "report.html");
    const said = await tidegate(["simulate", log, log, "--policy", policy, "--html", page]);
    expect(said.code).toBe(0);
    expect(said.out).toContain(String.raw`\x1b[31m\x9b2J</script>`);
    const html = readFileSync(page, "utf8");
    expect(html).not.toMatch(/[^\P{C}\n]/u);
    expect(html.match(/<script/g)).toHaveLength(1);
    expect(html.match(/<\/script/g)).toHaveLength(1);
    expect(html).not.toContain("<img");
  });

  it("is as harmless where it is the name of the file", async () => {
    const log = fileWith(lines(1), "a\u009b2J\u202e<b>.log");
    const page = fileWith("", "report.html");
    const { out, code } = await tidegate(["simulate", log, "--policy", fileWith(LIMITS), "--html", page]);
    expect(code).toBe(0);
    expect(out).toContain(String.raw`\x9b2J\u202e<b>.log`);
    expect(readFileSync(page, "utf8")).not.toMatch(/[^\P{C}\n]|<b>\.log/u);
  });

  it("counts broken lines, and shows the first with their numbers", async () => {
    const log = fileWith(`${lines(2)}garbage \u001b[31m\n${lines(1)}`, "access.log");
    const { out, code } = await tidegate(["simulate", log, "--policy", fileWith(LIMITS)]);
    expect(code).toBe(0);
    expect(out).toContain(
      String.raw`1 of 4 lines hold no request that can be read:` +
        "\n" +
        String.raw`  line 3, unreadable: garbage \x1b[31m`,
    );
  });

  it("is told of where a file was not read to its end, and what came before counts", async () => {
    const log = fileWith("", "access.log.gz");
    const packed = gzipSync(lines(3));
    writeFileSync(log, Buffer.concat([packed, packed.subarray(0, 20)]));
    const { out, code } = await tidegate(["simulate", log, "--policy", fileWith(LIMITS)]);
    expect(code).toBe(0);
    expect(out).toContain(
      `note  ${log} was not read to its end: the gzip file is cut off. What came before counts.`,
    );
    expect(out).toContain("3 requests in");
  });
});
