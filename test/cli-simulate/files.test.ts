/** How files are read: packed, cut off, hostile, several together. */
import { gzipSync } from "node:zlib";
import { createSimulation } from "@tidegate/core/simulate";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readLog, readLogs, sampleText } from "./logs.ts";

/** 2026-11-29 13:55:36 UTC, ms. */
const T = 1_795_960_536_000;

/** A line of CSV at so many seconds. */
const csv = (...seconds: number[]): string =>
  `at,ip\n${seconds.map((second) => `${T / 1000 + second},192.0.2.${second}\n`).join("")}`;

const offsets = (requests: readonly { at: number }[]): number[] => requests.map(({ at }) => (at - T) / 1000);

describe("what is packed", () => {
  it("is unpacked where its first bytes say gzip, also of several members", async () => {
    const packed = Buffer.concat([gzipSync(csv(1, 2)), gzipSync(`${T / 1000 + 3},192.0.2.3\n`)]);
    const { requests, report } = await readLog(packed);
    expect(offsets(requests)).toEqual([1, 2, 3]);
    expect(report.problem).toBeNull();
  });

  it("is unpacked when its bytes come one at a time", async () => {
    const bytes = [...gzipSync(csv(1, 2))].map((byte) => Buffer.of(byte));
    expect(offsets((await readLog(bytes)).requests)).toEqual([1, 2]);
  });

  it("keeps what could be read of a file that is cut off, and says so", async () => {
    const text = `at,ip\n${Array.from({ length: 40_000 }, (_, i) => `${T / 1000 + i},192.0.2.${(i * 7919) % 251}`).join("\n")}`;
    const packed = gzipSync(text);
    const { requests, report } = await readLog(packed.subarray(0, packed.length - 2000));
    expect(report.problem).toBe("the gzip file is cut off");
    expect(requests.length).toBeGreaterThan(10_000);
    expect(requests.length).toBeLessThan(40_000);
    expect(offsets(requests.slice(0, 3))).toEqual([0, 1, 2]);
  });

  it("keeps what came before bytes that are no gzip, and says so", async () => {
    const broken = gzipSync(csv(4, 5));
    broken.fill("x", 12);
    const { requests, report } = await readLog([gzipSync(csv(1, 2, 3)), broken]);
    expect(report.problem).toBe("the gzip file is broken from here on");
    expect(offsets(requests)).toEqual([1, 2, 3]);
  });

  it.each([
    ["zstd", "28b52ffd00"],
    ["bzip2", "425a6839"],
    ["xz", "fd377a585a0000"],
  ])("is told of, and not guessed at, where it is %s", async (packing, hex) => {
    const { requests, report } = await readLog(Buffer.from(hex, "hex"));
    expect(report.problem).toBe(
      `it is packed with ${packing}: unpack it, as in ${packing} -dc FILE | tidegate simulate -`,
    );
    expect(requests).toEqual([]);
  });

  it("stops at what grows as no log does, in the memory of a few pieces", async () => {
    const bomb = gzipSync(Buffer.alloc(300 << 20, "a"));
    const before = process.memoryUsage.rss();
    const { requests, report } = await readLog([gzipSync(csv(1)), bomb]);
    expect(report.problem).toBe(
      "it grows to more than 250 times its size, as no log does: --max-ratio allows more",
    );
    expect(offsets(requests)).toEqual([1]);
    expect(process.memoryUsage.rss() - before).toBeLessThan(150 << 20);
  });

  it("stops behind as many bytes as are allowed", async () => {
    const limits = { ratio: 250, bytes: 1000 };
    const pieces = [
      Buffer.from(csv(1, 2)),
      Buffer.alloc(1000, "\n"),
      Buffer.from(`${T / 1000 + 3},192.0.2.3\n`),
    ];
    const { requests, report } = await readLog(pieces, { limits });
    expect(offsets(requests)).toEqual([1, 2]);
    expect(report.problem).toBe("it has more than 1000 bytes: --max-bytes allows more");
  });
});

describe("lines", () => {
  it("are the same wherever a piece ends, with any line ends, and behind a byte order mark", async () => {
    const text = `\uFEFF${sampleText("combined.log").replaceAll("\n", "\r\n")}`;
    const whole = await readLog(sampleText("combined.log"));
    for (let size = 1; size < 90; size += 7) {
      const bytes = Buffer.from(text);
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
        bytes.subarray(i * size, (i + 1) * size),
      );
      expect(await readLog(pieces)).toEqual(whole);
    }
  });

  it("of more than 1 MB are broken, and shown by their beginning, and the next one is read", async () => {
    const pieces = [Buffer.from(csv(1)), ...Array.from({ length: 40 }, () => Buffer.alloc(1 << 16, "x"))];
    const { requests, report } = await readLog([...pieces, Buffer.from(`\n${T / 1000 + 2},192.0.2.2`)]);
    expect(offsets(requests)).toEqual([1, 2]);
    expect(report).toMatchObject({ lines: 3, broken: 1 });
    expect(report.firstBroken).toEqual([{ line: 3, text: `${"x".repeat(119)}…`, why: "longer than 1 MB" }]);
  });

  it("of exactly 1 MB are read", async () => {
    const line = `${T / 1000 + 1},192.0.2.1,`;
    const { requests, report } = await readLog(
      `at,ip,x\n${line.padEnd(1 << 20, "x")}\n${line.padEnd((1 << 20) + 1, "x")}\n`,
    );
    expect(requests).toHaveLength(1);
    expect(report).toMatchObject({ lines: 2, broken: 1 });
  });

  it("that are garbage are counted, five are kept to be shown, and none stops the rest", async () => {
    let seed = 1;
    const garbage = Buffer.from(
      Array.from({ length: 50_000 }, () => (seed = (seed * 48_271) % 2_147_483_647) & 255),
    );
    const { requests, report } = await readLog([
      Buffer.from(sampleText("common.log")),
      garbage,
      Buffer.from("\n"),
    ]);
    expect(requests).toHaveLength(4);
    expect(report.broken).toBe(report.lines - 4);
    expect(report.broken).toBeGreaterThan(100);
    expect(report.firstBroken).toHaveLength(5);
    for (const { text } of report.firstBroken) expect(text).not.toMatch(/[\p{C}]/u);
  });

  it("that are empty are none, however many there are", async () => {
    const blank = Array.from({ length: 100 }, () => Buffer.alloc(1 << 16, "\n"));
    const { requests, report } = await readLog([...blank, Buffer.from(sampleText("common.log")), ...blank]);
    expect(requests).toHaveLength(4);
    expect(report).toMatchObject({ lines: 4, broken: 0 });
  });

  it.each([
    ["nothing", ""],
    ["empty lines", "\n\n\n"],
    ["names of columns alone", "at,ip\n"],
  ])("of %s are no requests, and no error", async (_, text) => {
    const { requests, report } = await readLog(text);
    expect(requests).toEqual([]);
    expect(report).toMatchObject({ lines: 0, broken: 0, problem: null });
  });

  it("none of which can be read are an error that shows the first, harmlessly", async () => {
    await expect(readLog("hello \u001b[31mworld\nagain\n")).rejects.toMatchObject({
      code: "TIDEGATE_CLI_FORMAT",
      exitCode: 2,
      message: String.raw`file 0: no line of the first 2 is one of an access log that is known: say which with --format, or name columns with --columns. The first: hello \x1b[31mworld`,
    });
  });
});

describe("whatever is done to a log", () => {
  it.each([
    ["combined", "combined.log"],
    ["nginx-json", "nginx-json.log"],
    ["caddy-json", "caddy-json.log"],
    ["csv", "requests.csv"],
  ] as const)("each line of %s is a request that can be simulated, or broken", async (format, name) => {
    const text = sampleText(name);
    const edits = fc.array(
      fc.tuple(fc.nat(text.length), fc.nat(8), fc.string({ maxLength: 6, unit: "binary" })),
      {
        minLength: 1,
        maxLength: 4,
      },
    );
    const simulation = createSimulation({ limit: 1, window: "1m" }, { curve: false });
    await fc.assert(
      fc.asyncProperty(edits, async (all) => {
        // The names of columns stay: without a time's there is nothing to read.
        const head = format === "csv" ? text.indexOf("\n") + 1 : 0;
        const broken = all.reduce((now, [at, length, more]) => {
          const place = Math.max(head, at);
          return now.slice(0, place) + more + now.slice(place + length);
        }, text);
        const { requests, report } = await readLog(broken, { format });
        expect(requests.length + report.broken).toBe(report.lines);
        for (const request of requests) simulation.add(request);
      }),
      { numRuns: 300 },
    );
  });
});

describe("order of time", () => {
  it("is restored within a file, and what was out of it is counted", async () => {
    const { requests, report } = await readLog(csv(5, 3, 4, 6, 1, 6, 7));
    expect(offsets(requests)).toEqual([1, 3, 4, 5, 6, 6, 7]);
    expect(report.outOfOrder).toBe(3);
  });

  it("is restored as far as ten thousand requests", async () => {
    const late = (count: number) => csv(0, ...Array.from({ length: count }, (_, i) => i + 2), 1);
    expect(offsets((await readLog(late(9_999))).requests).slice(0, 3)).toEqual([0, 1, 2]);
    const { requests } = await readLog(late(30_000));
    expect(offsets(requests).slice(0, 3)).toEqual([0, 2, 3]);
    expect(requests).toHaveLength(30_002);
  });

  it("keeps the lines of one moment as they stand", async () => {
    const text = `at,ip\n9,a\n5,b\n9,c\n5,d\n5,e\n9,f\n`;
    const { requests } = await readLog(text);
    expect(requests.map(({ address }) => address).join("")).toBe("bdeacf");
  });

  it("goes through all files together, of whatever format", async () => {
    const { requests, reports } = await readLogs([csv(3, 6), sampleText("common.log"), csv(1, 2)]);
    expect(offsets(requests)).toEqual([0, 0, 1, 1, 2, 2, 3, 6]);
    expect(reports.map(({ format }) => format)).toEqual(["csv", "common", "csv"]);
    // Of one moment, the file that was named first.
    expect(requests[2]!.address).toBe("2001:db8:1:2::9");
  });

  it("is the same for a big log in any split", async () => {
    const times = Array.from({ length: 60_000 }, (_, i) => Math.floor(i / 7) + ((i * 7919) % 50));
    const files = [0, 1, 2].map((nth) => csv(...times.filter((_, i) => i % 3 === nth)));
    const { requests, reports } = await readLogs(files);
    expect(offsets(requests)).toEqual(times.toSorted((a, b) => a - b));
    expect(reports.reduce((sum, { lines }) => sum + lines, 0)).toBe(60_000);
  });
});
