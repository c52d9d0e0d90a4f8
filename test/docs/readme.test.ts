import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect } from "node:net";
import { apiKey, ip, memoryStore, rateLimit, slidingWindow, tokenBucket } from "@tidegate/express";
import express from "express";
import { describe, expect, it } from "vitest";
import { fakeClock } from "../harness/clock.ts";
import { blockOf, read, sectionOf, tablesOf } from "./markdown.ts";

const readme = read("README.md");

describe("README.md", () => {
  it("shows the refusal as it comes over the wire", async () => {
    const app = express();
    app.use(
      rateLimit({
        store: memoryStore({ nowUs: fakeClock().now }),
        by: apiKey({ header: "x-api-key", verify: () => true }).or(ip()),
        policies: {
          burst: tokenBucket({ capacity: 10, refillPerSecond: 5 }),
          perIp: slidingWindow({ limit: 600, window: "1m", by: ip() }),
        },
      }),
    );
    app.use((_req, res) => void res.end("passed"));
    const server = app.listen(0);
    const { port } = server.address() as { port: number };
    for (let i = 0; i < 10; i++) expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(200);

    const shown = blockOf(sectionOf(readme, "A refusal"), "http").trim().split("\n");
    const answer = (await raw(port)).split("\r\n");
    expect(answer[0]).toBe(shown[0]);
    expect(answer.at(-1)).toBe(shown.at(-1));
    expect(answer.filter((line) => shown.includes(line))).toEqual(expect.arrayContaining(shown));
    server.close();
  });

  it("a window that is a number is milliseconds, and says w=1", async () => {
    const clock = fakeClock();
    const limit = rateLimit({ store: memoryStore({ nowUs: clock.now }), limit: 1, window: 60 });
    const app = express().use(limit, (_req, res) => void res.end("passed"));
    const server = app.listen(0);
    const ask = () => fetch(`http://127.0.0.1:${(server.address() as { port: number }).port}/`);
    expect((await ask()).headers.get("RateLimit-Policy")).toBe('"default";q=1;w=1');
    expect((await ask()).status).toBe(429);
    clock.advance(120);
    expect((await ask()).status).toBe(200);
    server.close();
  });

  it("lists every option of the configuration", () => {
    const source = read("packages/core/src/settings.ts");
    const [, known] = /^const KNOWN = \[([^\]]*)\]/m.exec(source)!;
    const options = known!.match(/\w+/g)!;
    const listed = tablesOf(sectionOf(readme, "Options"))[0]!.flatMap(({ option }) => option!.match(/\w+/g)!);
    expect(listed.toSorted()).toEqual(options.toSorted());
  });

  it("lists every option that all policies take", () => {
    const [, known] = /^export const COMMON = \[([^\]]*)\]/m.exec(
      read("packages/core/src/algorithms/policy.ts"),
    )!;
    const listed = tablesOf(sectionOf(readme, "Algorithms"))[1]!.map(({ option }) => option!);
    expect(listed.toSorted()).toEqual(known!.match(/\w+/g)!.toSorted());
  });

  it("lists every method of a limiter", () => {
    const source = read("packages/core/src/limiter.ts");
    const [, body] = /^export interface Limiter \{([^]*?)^\}/m.exec(source)!;
    const methods = [...body!.matchAll(/^ {2}(\w+)\(/gm)].map(([, name]) => name!);
    const listed = tablesOf(sectionOf(readme, "Without HTTP"))[0]!.flatMap(({ method }) =>
      [...method!.matchAll(/(\w+)\(/g)].map(([, name]) => name!),
    );
    expect(listed.toSorted()).toEqual(methods.toSorted());
  });

  it("lists every algorithm", () => {
    const folder = "packages/core/src/algorithms";
    const source = readdirSync(new URL(`../../${folder}`, import.meta.url))
      .filter((file) => file.endsWith(".ts"))
      .map((file) => read(`${folder}/${file}`))
      .join("\n");
    const makers = [...source.matchAll(/^export function (\w+)<R = any>\(options/gm)].map(
      ([, name]) => name!,
    );
    const listed = tablesOf(sectionOf(readme, "Algorithms"))[0]!.map(({ policy }) => policy!.split("(")[0]!);
    expect(listed.toSorted()).toEqual(makers.toSorted());
  });
});

/** The whole answer to one request, as bytes came. */
async function raw(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  let text = "";
  socket.on("data", (chunk) => (text += chunk));
  await once(socket, "close");
  return text;
}
