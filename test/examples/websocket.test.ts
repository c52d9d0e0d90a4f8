/** P33: messages of WebSockets, by real clients against the example's real server. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { get } from "node:http";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { createLimiter, fixedWindow, user } from "@tidegate/core";
import { WebSocket } from "undici";
import { describe, expect, it, onTestFinished } from "vitest";
import { serve } from "../../examples/websocket/server.js";
import { ownRedis, PATIENT, type StoreKind, storeKinds, useRedis } from "../harness/http.ts";
import { freePort } from "../harness/redis.ts";

const redis = useRedis();
const root = fileURLToPath(new URL("../..", import.meta.url));

const ANNA = "?session=7f3a";
const BEN = "?session=c41d";

const three = { messages: fixedWindow({ limit: 3, window: "1h" }) };

/** The example's server with a limit of three, until the test is over. */
async function serving(config: Parameters<typeof serve>[0]): Promise<number> {
  const server = await serve({ ...PATIENT, policies: three, ...config });
  onTestFinished(() => server.close());
  return server.port;
}

const servingOn = (kind: StoreKind): Promise<number> => serving({ store: redis.storeOf(kind) });

/** A client whose connection is open. */
async function connect(port: number, query = "") {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/${query}`);
  const heard: string[] = [];
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.addEventListener("close", ({ code, reason }) => resolve({ code, reason }));
  });
  let answered = (_text: string) => {};
  socket.addEventListener("message", ({ data }) => {
    heard.push(data);
    answered(data);
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", ({ error }) => reject(error));
  });
  return {
    /** All echoes so far. */
    heard,
    /** How the socket was closed. */
    closed,
    send: (text: string) => socket.send(text),
    /** Sends a text, and gives the answer: the echo, or how the socket was closed. */
    say(text: string) {
      const echo = new Promise<string>((resolve) => (answered = resolve));
      socket.send(text);
      return Promise.race([echo, closed]);
    },
  };
}
/** A connection that became a WebSocket, and whose frames a test writes itself. */
async function upgraded(port: number, query: string): Promise<Socket> {
  const headers = {
    Connection: "Upgrade",
    Upgrade: "websocket",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version": "13",
  };
  const asked = get({ host: "127.0.0.1", port, path: `/${query}`, headers });
  const [, socket] = (await once(asked, "upgrade")) as [unknown, Socket];
  onTestFinished(() => void socket.destroy());
  return socket;
}

const TEXT = 0x1;
const CLOSE = 0x8;

/** Whole and masked, as a client's frames are; a mask of zeros changes nothing. source: RFC 6455 §5.2 */
const frame = (opcode: number, text = "") =>
  Buffer.from([0x80 | opcode, 0x80 | text.length, 0, 0, 0, 0, ...Buffer.from(text)]);

/** Until the peer has said this. */
async function until(socket: Socket, text: string): Promise<void> {
  for (let said = ""; !said.includes(text);) said += String((await once(socket, "data"))[0]);
}

type Client = Awaited<ReturnType<typeof connect>>;

async function sayAll(client: Client, ...texts: string[]) {
  const answers = [];
  for (const text of texts) answers.push(await client.say(text));
  return answers;
}

describe.each(storeKinds)("P33 a WebSocket on %s, with a limit of three messages", (kind) => {
  it("P33 T2 answers three and closes at the fourth with 1008, naming the wait", async () => {
    const anna = await connect(await servingOn(kind), ANNA);
    expect(await sayAll(anna, "a", "b", "c", "d")).toEqual([
      "a",
      "b",
      "c",
      { code: 1008, reason: "again in 3600 s" },
    ]);
  });

  it("P33 T2 leaves other users untouched", async () => {
    const port = await servingOn(kind);
    const [anna, ben] = [await connect(port, ANNA), await connect(port, BEN)];
    await sayAll(anna, "a", "b", "c", "d");
    expect(await sayAll(ben, "e", "f", "g")).toEqual(["e", "f", "g"]);
  });

  it("P33 T2 counts a user's sockets together, and one that is opened again", async () => {
    const port = await servingOn(kind);
    const [first, second] = [await connect(port, ANNA), await connect(port, ANNA)];
    await sayAll(first, "a", "b");
    expect(await sayAll(second, "c", "d")).toEqual(["c", { code: 1008, reason: "again in 3600 s" }]);
    redis.clock.advance(1_000_000);
    const third = await connect(port, ANNA);
    expect(await third.say("e")).toEqual({ code: 1008, reason: "again in 2600 s" });
  });

  it("P33 T2 answers again once the named wait is over", async () => {
    const port = await servingOn(kind);
    await sayAll(await connect(port, ANNA), "a", "b", "c", "d");
    redis.clock.advance(3_600_000);
    await redis.expire();
    expect(await (await connect(port, ANNA)).say("e")).toBe("e");
  });

  it("P33 T2 counts sessions that nobody knows by address: inventing one gives no new limit", async () => {
    const port = await servingOn(kind);
    await sayAll(await connect(port), "a");
    await sayAll(await connect(port, "?session=anna"), "b");
    await sayAll(await connect(port, "?session=0000"), "c");
    expect(await (await connect(port, "?session=0001")).say("d")).toEqual({
      code: 1008,
      reason: "again in 3600 s",
    });
  });

  it("P33 T2 answers three of ten messages that come at once, and closes", async () => {
    const anna = await connect(await servingOn(kind), ANNA);
    for (let i = 0; i < 10; i++) anna.send(String(i));
    expect(await anna.closed).toEqual({ code: 1008, reason: "again in 3600 s" });
    expect(anna.heard).toEqual(["0", "1", "2"]);
  });

  it("P33 T2 counts nothing that comes after the close, from a client that does not heed it", async () => {
    const port = await servingOn(kind);
    const rude = await upgraded(port, ANNA);
    for (let i = 0; i < 4; i++) rude.write(frame(TEXT, "a"));
    await until(rude, "again in 3600 s");
    redis.clock.advance(3_600_000);
    await redis.expire();
    rude.write(Buffer.concat([frame(TEXT, "b"), frame(CLOSE)]));
    await once(rude, "close");
    expect(await sayAll(await connect(port, ANNA), "c", "d", "e")).toEqual(["c", "d", "e"]);
  });

  it("P33 T1 decides for a job, which has no request, on the same count", async () => {
    const store = redis.storeOf(kind);
    const port = await serving({ store });
    const jobs = createLimiter({ ...PATIENT, store, prefix: "tidegate-websocket", policies: three });
    await sayAll(await connect(port, ANNA), "a", "b");
    expect(await jobs.decide({ identity: user("anna") })).toMatchObject({ allowed: true });
    expect(await jobs.decide({ identity: user("anna") })).toMatchObject({
      allowed: false,
      retryAfterMs: 3_600_000,
    });
    expect(await jobs.decide({ identity: user("ben") })).toMatchObject({ allowed: true });
  });
});

/** In real time: the wait is what is left of the hour. */
const refusedSoon = { code: 1008, reason: expect.stringMatching(/^again in 3[56]\d\d s$/) };

describe("P33 several servers", () => {
  it("P33 T2 share the count on one Redis, as instances", async () => {
    const [here, there] = [await serving({ redis: redis.url }), await serving({ redis: redis.url })];
    const [one, other] = [await connect(here, ANNA), await connect(there, ANNA)];
    expect([await one.say("a"), await other.say("b"), await one.say("c")]).toEqual(["a", "b", "c"]);
    expect(await other.say("d")).toEqual(refusedSoon);
    expect(await one.say("e")).toEqual(refusedSoon);
    expect(await (await connect(there, BEN)).say("f")).toBe("f");
  });

  it("P33 T2 share the count on one Redis, as processes", async () => {
    const [here, there] = await Promise.all([serverProcess(redis.url), serverProcess(redis.url)]);
    const [one, other] = [await connect(here, ANNA), await connect(there, ANNA)];
    expect([await one.say("a"), await other.say("b"), await one.say("c")]).toEqual(["a", "b", "c"]);
    expect(await other.say("d")).toEqual(refusedSoon);
    expect(await (await connect(here, BEN)).say("e")).toBe("e");
  });

  it("P33 T2 each count for themselves in memory", async () => {
    const [here, there] = [await serving({}), await serving({})];
    const [one, other] = [await connect(here, ANNA), await connect(there, ANNA)];
    expect(await sayAll(one, "a", "b", "c", "d")).toEqual(["a", "b", "c", refusedSoon]);
    expect(await sayAll(other, "e", "f", "g")).toEqual(["e", "f", "g"]);
  });
});

describe("P33 without its Redis, a server", () => {
  it.each([
    ["open", "b"],
    ["closed", { code: 1013, reason: "try again later" }],
  ] as const)("P33 T2 by the rule %s answers %j", async (onFailure, answer) => {
    const server = await ownRedis();
    const anna = await connect(await serving({ redis: server.url, onFailure, onEvent: () => {} }), ANNA);
    expect(await anna.say("a")).toBe("a");
    await server.kill();
    expect(await anna.say("b")).toEqual(answer);
  });
});

describe("P33 the server stands", () => {
  it("when a client sends more than a message may hold: that socket alone is closed, with 1009", async () => {
    const port = await servingOn("memory");
    const [anna, ben] = [await connect(port, ANNA), await connect(port, BEN)];
    anna.send("x".repeat(64 * 1024 + 1));
    expect((await anna.closed).code).toBe(1009);
    expect(await ben.say("a")).toBe("a");
  });

  it("as a program, until SIGTERM, and ends with 0", async () => {
    const port = await freePort();
    const child = spawn(process.execPath, ["examples/websocket/server.js"], {
      cwd: root,
      env: { ...process.env, REDIS_URL: "", PORT: String(port) },
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const ended = once(child, "exit");
    await once(child.stdout, "data");
    const anna = await connect(port, ANNA);
    expect(await anna.say("a")).toBe("a");
    child.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
  });
});

/** Runs the built packages. Ends when its standard input does, so also with this process. */
const PROGRAM = `
  import { fixedWindow } from "@tidegate/core";
  import { serve } from "./server.js";
  const policies = { messages: fixedWindow({ limit: 3, window: "1h" }) };
  const server = await serve({ redis: process.env.REDIS_URL, timeoutMs: 10_000, policies });
  process.stdin.on("end", () => server.close()).resume();
  console.log(server.port);
`;

/** The example's server in a process of its own; gives its port. */
async function serverProcess(url: string): Promise<number> {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", PROGRAM], {
    cwd: fileURLToPath(new URL("../../examples/websocket", import.meta.url)),
    env: { ...process.env, REDIS_URL: url },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  onTestFinished(async () => {
    child.stdin.end();
    const late = setTimeout(() => child.kill("SIGKILL"), 20_000);
    const [code] = await ended;
    clearTimeout(late);
    expect(code, "the process ends by itself").toBe(0);
  });
  const said = await Promise.race([once(child.stdout, "data"), ended]);
  return Number(said[0]);
}
