/**
 * What somebody sees who starts from nothing: packs the packages, installs them with npm into a new application of
 * each framework, starts it and sends a burst. Prints the page docs/transcript.md; `--write` writes it.
 * With REDIS_URL, of an empty Redis, the applications count there, else each in its memory: the page is the same.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { npm, packed, plainEnv } from "./published.js";
import { root } from "./run.js";

export const PAGE = "docs/transcript.md";

const limitOf = (/** @type {string} */ prefix) => `{
  redis: process.env.REDIS_URL,
  prefix: "${prefix}",
  timeoutMs: 10_000, // this page is made on machines that are busy with other things
  policies: { burst: slidingLog({ limit: 3, window: "1h" }) },
}`;
const LISTENING = "console.log(`http://127.0.0.1:${PORT}`)";

/** @typedef {{ name: string, version: string, code: string }} App */

/** The first programs of three people. @type {Record<string, App>} */
const APPS = {
  Express: {
    name: "express",
    version: "5.3.0",
    code: `import { rateLimit, slidingLog } from "@tidegate/express";
import express from "express";

const app = express();
app.use(rateLimit(${limitOf("express")}));
app.get("/", (req, res) => res.send("hello\\n"));
const server = app.listen(0, "127.0.0.1", () => ${LISTENING.replace("PORT", "server.address().port")});
`,
  },
  Fastify: {
    name: "fastify",
    version: "5.12.8",
    code: `import { rateLimit, slidingLog } from "@tidegate/fastify";
import fastify from "fastify";

const app = fastify();
await app.register(rateLimit, ${limitOf("fastify")});
app.get("/", async () => "hello\\n");
console.log(await app.listen({ port: 0, host: "127.0.0.1" }));
`,
  },
  Koa: {
    name: "koa",
    version: "3.3.0",
    code: `import { rateLimit, slidingLog } from "@tidegate/koa";
import Koa from "koa";

const app = new Koa();
app.use(rateLimit(${limitOf("koa")}));
app.use((ctx) => (ctx.body = "hello\\n"));
const server = app.listen(0, "127.0.0.1", () => ${LISTENING.replace("PORT", "server.address().port")});
`,
  },
};

const HEAD = `# From nothing to a limit

What \`node scripts/transcript.js\` prints: the packages are packed and installed with npm alone into three new folders outside this repository, and each application is started and sent four requests under a limit of three an hour. A test makes it anew and compares, with the limits in Redis. Of the header fields, those that Node and the framework write themselves are left out.
`;

/**
 * The whole page, with what varies written as it is on a quick machine.
 *
 * @param {{ redisUrl?: string | undefined }} [options]
 */
export async function transcript({ redisUrl } = {}) {
  const tarballs = await packed();
  const needed = (/** @type {string} */ framework) =>
    tarballs.filter(({ name }) => ["@tidegate/core", `@tidegate/${framework}`].includes(name));
  const sections = Object.entries(APPS).map(([title, app]) =>
    section(title, app, needed(app.name), redisUrl),
  );
  return [HEAD, ...(await Promise.all(sections))].join("\n");
}

/**
 * @param {string} title
 * @param {App} app
 * @param {import("./published.js").Tarball[]} tarballs
 * @param {string | undefined} redisUrl
 */
async function section(title, { name, version, code }, tarballs, redisUrl) {
  const folder = mkdtempSync(join(tmpdir(), "tidegate-transcript-"));
  try {
    const files = tarballs.map(({ file }) => basename(file));
    for (const { file } of tarballs) copyFileSync(file, join(folder, basename(file)));
    const asked = [...files.map((file) => `./${file}`), `${name}@${version}`, "ioredis@6.0.0"];
    await npm(["init", "--yes", "--init-type=module"], folder);
    await npm(["install", ...asked], folder);
    writeFileSync(join(folder, "server.js"), code);
    const answers = await burstOn(folder, redisUrl);
    // A star for the version, as any shell understands it: the page stays when the version goes up.
    const shown = asked.map((name) => name.replace(/-[\d.]+\.tgz$/, "-*.tgz"));
    return sectionText(title, code, shown, answers);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {string} title
 * @param {string} code
 * @param {string[]} asked
 * @param {string[]} answers
 */
const sectionText = (title, code, asked, answers) => `## ${title}

\`\`\`sh
npm init --yes --init-type=module
npm install ${asked.join(" ")}
\`\`\`

\`server.js\`:

\`\`\`js
${code}\`\`\`

\`\`\`console
$ node server.js &
${answers.map((answer) => `$ curl -i http://127.0.0.1:$PORT/\n${answer}`).join("\n")}
\`\`\`
`;

/**
 * Starts an application, sends four requests, and ends it.
 *
 * @param {string} folder
 * @param {string | undefined} redisUrl
 */
async function burstOn(folder, redisUrl) {
  const env = { ...plainEnv(), REDIS_URL: redisUrl };
  const child = spawn(process.execPath, ["server.js"], {
    cwd: folder,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const url = await Promise.race([
      once(createInterface(child.stdout), "line").then(([line]) => String(line)),
      once(child, "exit").then(([code]) => Promise.reject(new Error(`server.js ended with ${code}`))),
    ]);
    const answers = [];
    for (let i = 0; i < 4; i++) answers.push(await visit(url));
    return answers;
  } finally {
    child.kill("SIGKILL");
  }
}

const PLATFORM = /^(date|connection|keep-alive|content-length|etag|x-powered-by|content-type: text)/i;

/**
 * One answer, as curl -i shows it.
 *
 * @param {string} url
 * @returns {Promise<string>}
 */
function visit(url) {
  return new Promise((resolve, reject) => {
    const request = get(url, async (response) => {
      let body = "";
      for await (const chunk of response.setEncoding("utf8")) body += chunk;
      const { rawHeaders } = response;
      const lines = rawHeaders.flatMap((name, i) => (i % 2 ? [] : `${name}: ${rawHeaders[i + 1]}`));
      const told = lines.filter((line) => !PLATFORM.test(line)).map(atTheHour);
      resolve(
        [`HTTP/1.1 ${response.statusCode} ${response.statusMessage}`, ...told, "", body.trim()].join("\n"),
      );
    });
    request.on("error", reject);
  });
}

/**
 * On a slow machine some seconds of the hour have gone.
 *
 * @param {string} line
 */
const atTheHour = (line) => line.replace(/\b35[5-9]\d\b/g, "3600");

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const page = await transcript({ redisUrl: process.env.REDIS_URL });
  if (process.argv.includes("--write")) writeFileSync(join(root, PAGE), page);
  console.log(page);
}
