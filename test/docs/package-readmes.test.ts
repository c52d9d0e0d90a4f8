/** packages/*\/README.md, which is all that a registry shows: they stand alone, and what they show comes so. */
import type { Server } from "node:http";
import { format } from "node:util";
import type { FastifyInstance } from "fastify";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { useRedis } from "../harness/http.ts";
import { freePort } from "../harness/redis.ts";
import { blockOf, blocksOf, documents, read, sectionOf } from "./markdown.ts";
import { cook } from "./recipes.ts";

const pages = documents.filter((file) => /^packages\/[\w-]+\/README\.md$/.test(file));
const redis = useRedis();

describe.each(pages)("%s", (file) => {
  const [, folder] = /packages\/(.*)\/README/.exec(file)!;
  const manifest = JSON.parse(read(`packages/${folder}/package.json`)) as { name: string };

  it("links to nothing that is not beside it where it is read", () => {
    const targets = [...read(file).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
    expect(targets.filter((target) => !/^(https:|#)/.test(target))).toEqual([]);
  });

  it("says how the package is got", () => {
    const [line] = blocksOf(read(file)).filter(({ language }) => language === "sh");
    expect(line!.text).toMatch(/^(npm install|npx) /);
    expect(line!.text.split(/\s+/)).toContain(manifest.name);
  });
});

describe.each(["express", "fastify", "koa"])("packages/%s/README.md", (framework) => {
  const file = `packages/${framework}/README.md`;
  const page = read(file);

  it("installs the framework, and what a URL needs", () => {
    const words = blockOf(page, "sh").trim().split(" ");
    expect(words).toEqual(["npm", "install", `@tidegate/${framework}`, framework, "ioredis"]);
  });

  it("shows a program that lets ten pass, and refuses the eleventh as shown", async () => {
    const port = await freePort();
    vi.stubEnv("PORT", String(port));
    const { app, server } = await cook(file, 0, { store: redis.store });
    onTestFinished(() => ended(app, server));
    const ask = () => fetch(`http://127.0.0.1:${port}/`);
    for (let i = 0; i < 10; i++) expect(await (await ask()).text()).toBe("hello\n");

    const response = await ask();
    const [first, ...rest] = blockOf(sectionOf(page, "A refusal"), "http").trim().split("\n");
    expect(`HTTP/1.1 ${response.status} ${response.statusText}`).toBe(first);
    const fields = rest.filter((line) => /^[\w-]+: /.test(line)).map((line) => line.split(/: (.*)/));
    expect(fields.map(([name]) => [name, response.headers.get(name!)])).toEqual(
      fields.map(([name, value]) => [name, value]),
    );
    expect(await response.text()).toBe(rest.at(-1));
  });
});

async function ended(app: unknown, server: Server | undefined): Promise<void> {
  if (!server) return (app as FastifyInstance).close();
  server.closeAllConnections();
  server.close();
  return undefined;
}

it("packages/core/README.md shows what its program prints", async () => {
  const printed: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((...what) => void printed.push(format(...what)));
  onTestFinished(() => log.mockRestore());
  await cook("packages/core/README.md", 0, { store: redis.store });
  expect(printed.join("\n")).toBe(blockOf(read("packages/core/README.md"), "text").trim());
});
