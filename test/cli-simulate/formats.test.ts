/** Each format as servers write it: what a line tells of a request, and when that came. */
import { describe, expect, it } from "vitest";
import { parseBelieved, clientBehind } from "../../packages/cli/src/simulate/logs/client.ts";
import { parseColumns } from "../../packages/cli/src/simulate/logs/columns.ts";
import { readLog, sampleText } from "./logs.ts";

/** 2026-11-29 13:55:36 UTC, ms. */
const T = 1_795_960_536_000;

describe("Common Log Format", () => {
  it("tells the time with its zone, address, user, method, path and status", async () => {
    const { requests, report } = await readLog(sampleText("common.log"));
    expect(requests).toEqual([
      { at: T, method: "GET", url: "/", address: "203.0.113.7", status: 200, headers: {} },
      { at: T, method: "POST", url: "/login", address: "203.0.113.7", user: "ann", status: 302, headers: {} },
      { at: T + 1000, method: "GET", url: "/a?b=c", address: "2001:db8:1:2::9", status: 304, headers: {} },
      {
        at: T + 2000,
        method: "HEAD",
        url: "/health",
        address: "203.0.113.9",
        user: "ann lee",
        status: 204,
        headers: {},
      },
    ]);
    expect(report).toMatchObject({ format: "common", lines: 4, broken: 0, outOfOrder: 0, problem: null });
  });
});

describe("Combined Log Format", () => {
  it("tells referer and user agent besides, escapes taken away, and a path where a client wrote a whole URL", async () => {
    const { requests, report } = await readLog(sampleText("combined.log"));
    const agent = "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0";
    expect(requests).toEqual([
      {
        at: T,
        method: "GET",
        url: "/items/1",
        address: "198.51.100.4",
        status: 200,
        headers: { referer: "https://shop.example/", "user-agent": agent },
      },
      {
        at: T,
        method: "GET",
        url: '/café?q="x"',
        address: "198.51.100.4",
        status: 200,
        headers: { "user-agent": 'evil \u001b[31m "agent"' },
      },
      { at: T + 3000, method: "GET", url: "/items/2", address: "192.0.2.80", status: 502, headers: {} },
    ]);
    expect(report).toMatchObject({ format: "combined", lines: 4, broken: 1 });
  });

  it("counts what is no request, such as TLS on a plain port, as broken, and shows it without what a terminal would act on", async () => {
    const { report } = await readLog(sampleText("combined.log"));
    expect(report.firstBroken).toEqual([
      {
        line: 4,
        text: String.raw`192.0.2.81 - - [29/Nov/2026:13:55:40 +0000] "\x16\x03\x01\x02\x00\x01" 400 157 "-" "-"`,
        why: "unreadable",
      },
    ]);
    const raw = await readLog(`${sampleText("common.log")}\u001b]0;owned\u0007 \u202etxt\u200b\n`);
    expect(raw.report.firstBroken[0]!.text).toBe(String.raw`\x1b]0;owned\x07 \u202etxt\u200b`);
  });

  it.each([
    ["nobody", undefined, ["10.0.0.5", "10.0.0.5", "10.0.0.5"]],
    ["one proxy", "1", ["203.0.113.7", "203.0.113.8", "10.0.0.5"]],
    ["the proxy's network", "10.0.0.0/8", ["203.0.113.7", "203.0.113.8", "10.0.0.5"]],
    ["more proxies than have written", "2", ["10.0.0.5", "8.8.8.8", "10.0.0.5"]],
  ])(
    "takes a third quoted text for X-Forwarded-For, and believes %s about it",
    async (_, whom, addresses) => {
      const clientOf = whom === undefined ? {} : { clientOf: clientBehind(parseBelieved(whom)) };
      const { requests } = await readLog(sampleText("nginx-main.log"), clientOf);
      expect(requests.map(({ address }) => address)).toEqual(addresses);
    },
  );

  it.each([
    [
      "a user's name in brackets",
      '192.0.2.1 - a [b] [29/Nov/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1',
      { user: "a [b]" },
    ],
    [
      "no protocol, as of HTTP/0.9",
      '192.0.2.1 - - [29/Nov/2026:13:55:36 +0000] "GET /old" 200 1',
      { url: "/old" },
    ],
    [
      "spaces in the path",
      '192.0.2.1 - - [29/Nov/2026:13:55:36 +0000] "GET /a b HTTP/1.1" 400 1',
      { url: "/a b" },
    ],
    [
      "a method of one's own",
      '192.0.2.1 - - [29/Nov/2026:13:55:36 +0000] "M-SEARCH * HTTP/1.1" 200 1',
      { method: "M-SEARCH", url: "*" },
    ],
    [
      "more behind it",
      '192.0.2.1 - - [29/Nov/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "x" "-" rt=0.2 ua="y"',
      { url: "/" },
    ],
    [
      "a user agent without an end",
      '192.0.2.1 - - [29/Nov/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "x',
      { headers: {} },
    ],
    [
      "a backslash before the last quote",
      String.raw`192.0.2.1 - - [29/Nov/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "x\\"`,
      { headers: { "user-agent": "x\\" } },
    ],
  ])("reads a line with %s", async (_, line, told) => {
    const { requests } = await readLog(line);
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject(told);
  });

  it.each([
    ["no time", '192.0.2.1 - - "GET / HTTP/1.1" 200 1'],
    ["a day that is none", '192.0.2.1 - - [31/Feb/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1'],
    ["a month that is none", '192.0.2.1 - - [29/Noz/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1'],
    ["an hour that is none", '192.0.2.1 - - [29/Nov/2026:24:55:36 +0000] "GET / HTTP/1.1" 200 1'],
    ["a time before 1970", '192.0.2.1 - - [29/Nov/1926:13:55:36 +0000] "GET / HTTP/1.1" 200 1'],
    ["a time that is too far", '192.0.2.1 - - [29/Nov/9926:13:55:36 +0000] "GET / HTTP/1.1" 200 1'],
    ["no request", '192.0.2.1 - - [29/Nov/2026:13:55:36 +0000] "-" 408 0'],
    ["no status", '192.0.2.1 - - [29/Nov/2026:13:55:36 +0000] "GET / HTTP/1.1" - 0'],
    ["a request without an end", '192.0.2.1 - - [29/Nov/2026:13:55:36 +0000] "GET / HTTP/1.1 200 1'],
  ])("counts a line with %s as broken", async (_, line) => {
    const { requests, report } = await readLog(`${line}\n${sampleText("common.log")}`);
    expect(requests).toHaveLength(4);
    expect(report).toMatchObject({ lines: 5, broken: 1 });
    expect(report.firstBroken[0]).toMatchObject({ line: 1, text: line });
  });
});

describe("JSON of nginx", () => {
  it("finds usual names, and takes the duration from the time, which is that of the end", async () => {
    const { requests, report } = await readLog(sampleText("nginx-json.log"));
    expect(requests).toEqual([
      {
        at: T + 1000 - 1500,
        durationMs: 1500,
        method: "POST",
        url: "/login",
        address: "203.0.113.8",
        user: "ann",
        status: 302,
        headers: { "user-agent": "café \u001b[31m" },
      },
      {
        at: T,
        durationMs: 250,
        method: "GET",
        url: "/items/1?x=1",
        address: "203.0.113.7",
        status: 200,
        headers: { "user-agent": "curl/8.5.0" },
      },
      { at: T + 2000, method: "GET", url: "/", address: "203.0.113.9", status: 499, headers: {} },
    ]);
    expect(report).toMatchObject({ format: "nginx-json", lines: 3, broken: 0, outOfOrder: 1 });
  });

  it("takes times for those of the beginning where it is told so", async () => {
    const { requests } = await readLog(sampleText("nginx-json.log"), { timesAreEnds: false });
    expect(requests.map(({ at }) => at - T)).toEqual([250, 1000, 2000]);
  });

  it("finds any name, also inside objects, by --columns", async () => {
    const columns = parseColumns("at=t,address=net.ip,user=who,header.X-Api-Key=key,durationMs=took");
    const line =
      '{"t":1795960536,"net":{"ip":"192.0.2.1"},"who":7,"key":"k1","took":5,"url":"/x","status":200}';
    const { requests } = await readLog(line, { columns });
    expect(requests).toEqual([
      {
        at: T - 5,
        durationMs: 5,
        url: "/x",
        address: "192.0.2.1",
        user: "7",
        status: 200,
        headers: { "x-api-key": "k1" },
      },
    ]);
  });

  it("is not led astray by names that objects have of their own", async () => {
    const line = '{"__proto__":{"msec":1},"constructor":1,"toString":2,"msec":1795960536,"status":200}';
    const { requests } = await readLog(line);
    expect(requests).toEqual([{ at: T, status: 200, headers: {} }]);
  });
});

describe("JSON of Caddy", () => {
  it("takes the duration from ts, its own word for the client, and leaves the log of errors out", async () => {
    const { requests, report } = await readLog(sampleText("caddy-json.log"));
    expect(requests).toEqual([
      {
        at: T + 500,
        durationMs: 250,
        method: "GET",
        url: "/items/1?x=1",
        address: "203.0.113.7",
        user: "ann",
        status: 200,
        headers: { "user-agent": "curl/8.5.0", "x-forwarded-for": "203.0.113.7" },
      },
      {
        at: T + 1000,
        durationMs: 100,
        method: "DELETE",
        url: "/items/2",
        address: "203.0.113.8",
        status: 502,
        headers: { accept: "text/html, */*" },
      },
    ]);
    expect(report).toMatchObject({ format: "caddy-json", lines: 3, broken: 1 });
  });

  it("goes by X-Forwarded-For where somebody says whom to believe", async () => {
    const { requests } = await readLog(sampleText("caddy-json.log"), { clientOf: clientBehind(1) });
    expect(requests.map(({ address }) => address)).toEqual(["203.0.113.7", "203.0.113.8"]);
    const nobody = await readLog(sampleText("caddy-json.log"), { clientOf: clientBehind(0) });
    expect(nobody.requests.map(({ address }) => address)).toEqual(["10.0.0.5", "203.0.113.8"]);
  });
});

describe("times", () => {
  it.each([
    ["2026-11-29T13:55:36Z", 0],
    ["2026-11-29T14:55:36+01:00", 0],
    ["2026-11-29T08:25:36-0530", 0],
    ["2026-11-29 13:55:36.5", 500],
    ["2026/11/29 13:55:36,125 UTC", 125],
    ["2026-11-29T13:55", -36_000],
    ["2026-11-30", 36_264_000],
    ["29/Nov/2026:14:55:36 +0100", 0],
    ["[29/Nov/2026:13:55:36 +0000]", 0],
    ["1795960536", 0],
    ["1795960536.000123", 0.123],
    ["1795960536123", 123],
    ["1795960536123456", 123.456],
    ["1795960536123456789", 123.456_787],
  ])("%s is read", async (text, ms) => {
    const { requests } = await readLog(`at;ip\n${text};192.0.2.1\n`);
    expect(requests.map(({ at }) => at - T)).toEqual([expect.closeTo(ms, 3)]);
  });

  it.each([
    "2026-02-29T00:00:00Z",
    "2026-13-01",
    "2026-11-29T25:00:00Z",
    "2026-11-29T13:55:36+25:00",
    "yesterday",
    "-1795960536",
    "1e9",
    "0",
    "99999999999999999999999",
    "2026-11-29T13:55:36Z".padEnd(100, "0"),
  ])("%s is none", async (text) => {
    const { report } = await readLog(`at;ip\n1795960536;192.0.2.1\n${text};192.0.2.1\n`);
    expect(report).toMatchObject({ lines: 2, broken: 1 });
  });
});

describe("CSV", () => {
  it("finds usual names of columns, and takes times for those of the beginning", async () => {
    const { requests, report } = await readLog(sampleText("requests.csv"));
    expect(requests).toEqual([
      {
        at: T + 250,
        durationMs: 12.5,
        method: "GET",
        url: "/items/1",
        address: "203.0.113.7",
        user: "ann",
        status: 200,
        headers: { "user-agent": 'Mozilla/5.0 (X11, Linux) "x"' },
      },
      {
        at: T + 1000,
        method: "POST",
        url: "/login",
        address: "203.0.113.8",
        status: 302,
        headers: { "user-agent": "curl/8.5.0" },
      },
      {
        at: T + 2000,
        durationMs: 3,
        method: "GET",
        url: "/a,b",
        address: "2001:db8::9",
        status: 404,
        headers: {},
      },
    ]);
    expect(report).toMatchObject({ format: "csv", lines: 3, broken: 0 });
  });

  it.each([";", "\t"])("is read with %j between its columns", async (delimiter) => {
    const { requests } = await readLog(`at${delimiter}ip\n1795960536${delimiter}192.0.2.1\n`);
    expect(requests).toEqual([{ at: T, address: "192.0.2.1", headers: {} }]);
  });

  it("keeps a quote without an end to its own line", async () => {
    const { requests, report } = await readLog(
      'at,ip,x\n1795960536,192.0.2.1,"a\n1795960537,192.0.2.2,"b"\n\n1795960538,192.0.2.3,c\n',
    );
    expect(requests.map(({ address }) => address)).toEqual(["192.0.2.2", "192.0.2.3"]);
    expect(report).toMatchObject({ lines: 3, broken: 1, firstBroken: [{ line: 2 }] });
  });

  it("says which columns there are when one that is named is missing", async () => {
    const columns = parseColumns("at=when,address=ip");
    await expect(readLog("time,ip\n1,2\n", { columns, format: "csv" })).rejects.toThrow(
      "No column of the first line is known to hold a time: name it, as in --columns at=timestamp,address=ip. The line: time,ip",
    );
    const wrong = parseColumns("at=time,address=adress");
    await expect(readLog("time,ip\n1,2\n", { columns: wrong, format: "csv" })).rejects.toThrow(
      "--columns address=adress: there is no such column. There are: time, ip.",
    );
  });
});
