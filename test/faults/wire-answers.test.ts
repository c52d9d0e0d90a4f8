/** What a server may answer instead of a decision, and what becomes of it: one event each way, and nobody named. */
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { bulk, scriptedServer } from "../harness/scripted.ts";
import { expectDiscreet, limiterOn, listening, outcomes, SECRET, type Subject, theirClient } from "./wire.ts";

const KEY = `rl:{id:${SECRET}}:p:fw`;

type Item = number | string | null;

const array = (...items: readonly Item[]) => `*${items.length}\r\n${items.map(written).join("")}`;

function written(item: Item): string {
  if (item === null) return "$-1\r\n";
  return typeof item === "number" ? `:${item}\r\n` : bulk(item);
}

const nowUs = () => Date.now() * 1000;

/** What stands behind the keys of a script's run. */
const argvOf = (args: readonly string[]) => args.slice(2 + Number(args[1]));

/** decide.lua's reply to a batch of checks, each of one fixed window, with or without a nonce: to each the same. */
function replyTo(
  args: readonly string[],
  status: Item,
  now: Item = nowUs(),
  words: readonly Item[] = [1, 3_600_000_000],
) {
  const answers = timesOf(argvOf(args)).map(({ times, nonce }) => [
    status === 1 ? times : status,
    ...(nonce ? [0] : []),
    ...words,
  ]);
  return array(1, now, ...answers.flat());
}

/** How many equal requests each check of a run stands for, and whether it has a nonce. */
function timesOf(argv: readonly string[]): { times: number; nonce: boolean }[] {
  const checks = [];
  let at = 4 + 7 * Number(argv[2]);
  for (let i = 0; i < Number(argv[3]); i++) {
    const [times, flags] = [Number(argv[at + 2]), argv[at + 3]!];
    const nonce = flags.includes("i");
    checks.push({ times, nonce });
    at += nonce ? 5 : 4;
  }
  return checks;
}

/** One unit used, an hour to go. */
const granted = (args: readonly string[]) => replyTo(args, 1);

/** The reply of settle.lua and manage.lua to one item: done. */
const moved = () => array(1, nowUs(), 1);

interface Asked {
  readonly name: string;
  readonly args: readonly string[];
}

/** A server that is well until a test says otherwise. */
async function scripted() {
  const state = {
    script: granted as (args: readonly string[], name: string) => string,
    hello: "-NOPROTO unsupported protocol version\r\n",
    info: bulk("redis_version:7.2.4\r\nloading:0\r\n"),
  };
  const commands: Asked[] = [];
  const server = await scriptedServer((name, args) => {
    commands.push({ name, args });
    if (name === "HELLO") return state.hello;
    if (name === "INFO") return state.info;
    if (name === "EVALSHA" || name === "EVAL") return state.script(args, name);
    return "+OK\r\n";
  });
  const asked = (name: string) => commands.filter((command) => command.name === name);
  return { ...server, state, asked, port: Number(new URL(server.url).port) };
}

let server: Awaited<ReturnType<typeof scripted>>;
beforeEach(async () => {
  server = await scripted();
  return () => server.stop();
});

async function readyOn(redis: Parameters<typeof limiterOn>[0] = server.url, more = {}): Promise<Subject> {
  const subject = limiterOn(redis, more);
  await subject.ready();
  return subject;
}

/** Rejections that nobody handles, from now on. */
function unhandled(): unknown[] {
  const found: unknown[] = [];
  const keep = (reason: unknown) => void found.push(reason);
  process.on("unhandledRejection", keep);
  process.on("uncaughtException", keep);
  beforeEachEnds.push(() => {
    process.off("unhandledRejection", keep);
    process.off("uncaughtException", keep);
  });
  return found;
}
const beforeEachEnds: (() => void)[] = [];
beforeEach(() => () => beforeEachEnds.splice(0).forEach((end) => end()));

const CANNOT = "the server cannot decide now";
const NO_WRITES = "the server takes no writes now";
const DENIED = "the Redis user may not do what a decision needs, or is not logged in";
const REPLICA = "the server is a replica and takes no writes (READONLY)";
const UNKNOWN = "the server answered an error";
const SHAPE = "the script's reply has another shape than this version expects";

describe.each([
  ["LOADING", "-LOADING Redis is loading the dataset in memory", "unavailable", `${CANNOT} (LOADING)`],
  ["BUSY", "-BUSY Redis is busy running a script.", "unavailable", `${CANNOT} (BUSY)`],
  ["MASTERDOWN", "-MASTERDOWN Link with MASTER is down", "unavailable", `${CANNOT} (MASTERDOWN)`],
  ["CLUSTERDOWN", "-CLUSTERDOWN Hash slot not served", "unavailable", `${CANNOT} (CLUSTERDOWN)`],
  ["MOVED", "-MOVED 3999 127.0.0.1:6381", "unavailable", `${CANNOT} (MOVED)`],
  ["ASK", "-ASK 3999 127.0.0.1:6381", "unavailable", `${CANNOT} (ASK)`],
  ["MISCONF", "-MISCONF Errors writing to the AOF file", "unavailable", `${NO_WRITES} (MISCONF)`],
  [
    "NOREPLICAS",
    "-NOREPLICAS Not enough good replicas to write.",
    "unavailable",
    `${NO_WRITES} (NOREPLICAS)`,
  ],
  ["OOM", "-OOM command not allowed when used memory > 'maxmemory'.", "unavailable", `${NO_WRITES} (OOM)`],
  [
    "OOM, wrapped by the script that met it",
    "-ERR Error running script (call to f_0f1e): @user_script:12: @user_script: 12: -OOM command not allowed",
    "unavailable",
    `${NO_WRITES} (OOM)`,
  ],
  [
    "NOPERM for a command",
    "-NOPERM User limited has no permissions to run the 'evalsha' command",
    "denied",
    `${DENIED} (NOPERM, evalsha)`,
  ],
  ["NOPERM", `-NOPERM No permissions to access a key '${KEY}'`, "denied", `${DENIED} (NOPERM)`],
  [
    "NOPERM in a script, as Redis 7.0 says it",
    "-ERR The user executing the script can't run this command or subcommand script: 0f1e",
    "denied",
    `${DENIED} (ERR)`,
  ],
  [
    "NOPERM in a script, as later servers say it",
    `-ERR ACL failure in script: No permissions to access the '${KEY}' key`,
    "denied",
    `${DENIED} (ERR)`,
  ],
  ["NOAUTH", "-NOAUTH Authentication required.", "denied", `${DENIED} (NOAUTH)`],
  ["WRONGPASS", "-WRONGPASS invalid username-password pair", "denied", `${DENIED} (WRONGPASS)`],
  ["an error of the script itself", `-ERR user_script:7: odd ${KEY}`, "unknown", `${UNKNOWN} (ERR)`],
  ["an error that quotes a key like a code", `-ERR odd ${KEY}:READONLY`, "unknown", `${UNKNOWN} (ERR)`],
  ["an error that is a key", `-${KEY}`, "unknown", `${UNKNOWN} (no code)`],
  ["nothing", "$-1", "unknown", SHAPE],
  ["a text", `+${KEY}`, "unknown", SHAPE],
  ["a number", ":1", "unknown", SHAPE],
  ["a number that is none", ":abc", "unknown", SHAPE],
  ["an empty list", "*0", "unknown", SHAPE],
  ["a list that is too short", array(1, 2), "unknown", SHAPE],
  ["a list that is too long", array(1, 2, 1, 1, 5, 0), "unknown", SHAPE],
  ["a list of another version", array(2, 1e15, 1, 1, 5), "unknown", SHAPE],
  ["a list with a text as status", (args: readonly string[]) => replyTo(args, "odd"), "unknown", SHAPE],
  ["a list with a text as time", (args: readonly string[]) => replyTo(args, 1, "odd"), "unknown", SHAPE],
  ["a list with nothing as status", (args: readonly string[]) => replyTo(args, null), "unknown", SHAPE],
  [
    "a list with a text as state",
    (args: readonly string[]) => replyTo(args, 1, nowUs(), ["odd", 5]),
    "unknown",
    SHAPE,
  ],
  [
    "an unknown status",
    (args: readonly string[]) => replyTo(args, -99),
    "unknown",
    "the script answered the unknown status -99",
  ],
])("a server that answers %s", (_, answer, reason, message) => {
  it(`is told of once, as ${reason}; the rule answers each request; its recovery is told of once`, async () => {
    const { said } = listening();
    const { decide, decisions, told, events } = await readyOn();
    server.state.script = typeof answer === "string" ? () => `${answer.trimEnd()}\r\n` : answer;
    const degraded = [...(await decisions(20)), await decide()].map((decision) => decision.degraded);
    expect(degraded).toEqual(Array(21).fill({ rule: "open", reason }));
    expect(events).toHaveLength(22);
    expect(told("degraded")).toEqual(Array(21).fill({ type: "degraded", rule: "open", reason }));
    expect(told("storeError")).toEqual([{ type: "storeError", reason, message }]);

    server.state.script = granted;
    await eventually("its recovery is told of, though nobody asks", () => told("recovered").length > 0);
    expect((await decide()).degraded).toBeUndefined();
    expect(events).toHaveLength(23);
    expectDiscreet(events, said);
  });
});

describe("a server that answers with bytes of no protocol", () => {
  it.each(["?", "HTTP/1.1 400 Bad Request", "$1\r\nab"])(
    "%j: the rule answers, nothing breaks, and a new connection serves as before",
    async (bytes) => {
      const { said } = listening();
      const broken = unhandled();
      const { decide, decisions, told, events } = await readyOn(server.url, { timeoutMs: 1000 });
      server.state.script = () => `${bytes}\r\n`;
      const counts = outcomes([...(await decisions(20)), await decide()]);
      const { unknown = 0, connection = 0, timeout = 0, ...others } = counts;
      expect([unknown + connection + timeout, others]).toEqual([21, {}]);
      expect(told("storeError")).toHaveLength(1);

      server.state.script = granted;
      await eventually("its recovery is told of", () => told("recovered").length > 0);
      expect((await decide()).degraded).toBeUndefined();
      expect(told("storeError")).toHaveLength(1);
      expect(broken).toEqual([]);
      expectDiscreet(events, said);
    },
  );
});

describe("a server that has become a replica", () => {
  const plain = "-READONLY You can't write against a read only replica.\r\n";
  const wrapped = `-ERR Error running script (call to f_0f1e): @user_script:12: @user_script: 12: ${plain}`;

  it.each([
    ["plainly", plain],
    ["wrapped by the script that met it", wrapped],
  ])("says so %s: our connection is left for another, at most once a second", async (_, answer) => {
    const { decide, told, events } = await readyOn();
    expect(server.asked("HELLO")).toHaveLength(1);
    server.state.script = () => answer;
    const start = performance.now();
    expect((await decide()).degraded).toEqual({ rule: "open", reason: "readonly" });
    // Each connection says HELLO first, and once.
    while (server.asked("HELLO").length < 3) {
      expect((await decide()).degraded?.rule).toBe("open");
      await sleep(10);
    }
    expect(performance.now() - start).toBeGreaterThan(1000);
    expect(told("storeError")).toEqual([{ type: "storeError", reason: "readonly", message: REPLICA }]);

    server.state.script = granted;
    await eventually("its recovery is told of", () => told("recovered").length > 0);
    expect(told("storeError")).toHaveLength(1);
    expectDiscreet(events);
  });

  it("leaves a shared connection as it is", async () => {
    const theirs = theirClient(server.port);
    const { decisions, told } = await readyOn(theirs, { shareConnection: true });
    server.state.script = () => plain;
    expect(outcomes(await decisions(20))).toEqual({ readonly: 20 });
    await sleep(300);
    expect(server.asked("HELLO")).toHaveLength(1);
    server.state.script = granted;
    await eventually("its recovery is told of", () => told("recovered").length > 0);
  });
});

describe("a key of another type", () => {
  it.each([
    ["foreign", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"],
    ["foreign", (args: readonly string[]) => replyTo(args, -4)],
    ["broken", (args: readonly string[]) => replyTo(args, -5)],
  ])("%s: degrades its own decisions, and is no outage", async (reason, answer) => {
    const { decide, decisions, told } = await readyOn();
    server.state.script = typeof answer === "string" ? () => answer : answer;
    expect(outcomes(await decisions(20))).toEqual({ [reason]: 20 });
    server.state.script = granted;
    // No breaker is open: the very next one is asked of the server.
    expect((await decide()).degraded).toBeUndefined();
    expect(told("degraded")).toHaveLength(20);
    expect([...told("storeError"), ...told("recovered")]).toEqual([]);
  });
});

describe("a server that has lost the script", () => {
  const lost = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

  it.each([
    ["Redis", lost],
    ["Valkey", "-NOSCRIPT No matching script.\r\n"],
  ])(
    "gets the text once, as %s says it, for ten decisions at once, and all are decided",
    async (_, answer) => {
      const { decisions, events } = await readyOn();
      let known = false;
      server.state.script = (args, name) => {
        known ||= name === "EVAL";
        return known ? granted(args) : answer;
      };
      expect(outcomes(await decisions(10))).toEqual({ allowed: 10 });
      expect(server.asked("EVAL")).toHaveLength(1);
      expect(events).toEqual([]);
    },
  );

  it("is not asked for ever when it loses it each time", async () => {
    const { decide, told } = await readyOn();
    const before = server.asked("EVALSHA").length;
    server.state.script = () => lost;
    expect((await decide()).degraded).toEqual({ rule: "open", reason: "unknown" });
    expect(server.asked("EVALSHA").length - before).toBe(1);
    expect(server.asked("EVAL").length).toBeLessThanOrEqual(2);
    expect(told("storeError")).toHaveLength(1);
  });
});

describe("an outage that changes its face", () => {
  it("is one outage: told again only where somebody has to change a setting", async () => {
    const { decide, decisions, told } = await readyOn();
    const answers = async (answer: string, reason: string) => {
      server.state.script = () => `-${answer}\r\n`;
      await eventually(reason, async () => (await decide()).degraded?.reason === reason);
    };
    await answers("LOADING …", "unavailable");
    await decisions(20);
    await answers("ERR odd", "unknown");
    await answers("NOPERM …", "denied");
    await answers("OOM …", "unavailable");
    await answers("NOPERM …", "denied");
    expect(told("storeError").map((event) => "reason" in event && event.reason)).toEqual([
      "unavailable",
      "denied",
    ]);
    server.state.script = granted;
    await eventually("its recovery is told of", () => told("recovered").length > 0);
    expect(told("recovered")).toHaveLength(1);
  });
});

/** A decision made before the server answers what the test says. */
async function grantedBefore(decide: Subject["decide"]) {
  const { script } = server.state;
  server.state.script = granted;
  const decision = await decide();
  server.state.script = script;
  return decision;
}

/** Each of these runs another script than a decision does. */
const calls: ((subject: Subject) => Promise<unknown>)[] = [
  async ({ limiter, decide }) => limiter.settle(await grantedBefore(decide), "giveBack"),
  ({ limiter }) => limiter.reset(SECRET),
  ({ limiter }) => limiter.block(SECRET, "1m"),
  ({ limiter }) => limiter.unblock(SECRET),
];

/** What each call rejects with; `undefined` where it resolves, and a text where it does neither. */
async function failuresOn(subject: Subject): Promise<unknown[]> {
  const failures: unknown[] = [];
  for (const call of calls) {
    const failure = call(subject).then(
      () => undefined,
      (error: unknown) => error,
    );
    failures.push(await Promise.race([failure, sleep(500, "neither")]));
  }
  return failures;
}

describe("settle, reset, block and unblock", () => {
  it.each([
    ["nothing", "$-1\r\n", "UNKNOWN"],
    ["a text", "+OK\r\n", "UNKNOWN"],
    ["a number", ":1\r\n", "UNKNOWN"],
    ["an error with a key in it", `-WHAT ${KEY}\r\n`, "UNKNOWN"],
    ["NOPERM with a key in it", `-NOPERM No permissions to access a key '${KEY}'\r\n`, "DENIED"],
    ["MISCONF", "-MISCONF Errors writing to the AOF file\r\n", "UNAVAILABLE"],
    ["WRONGTYPE", "-WRONGTYPE Operation against a key\r\n", "FOREIGN"],
  ])("reject when the server answers %s, and name nobody", async (_, answer, code) => {
    const broken = unhandled();
    const subject = await readyOn(server.url, { blocking: true });
    server.state.script = () => answer;
    const failures = await failuresOn(subject);
    expect(failures).toEqual(calls.map(() => expect.objectContaining({ code: `TIDEGATE_STORE_${code}` })));
    expectDiscreet(failures);
    expect(broken).toEqual([]);
    server.state.script = moved;
    expect(await failuresOn(subject)).toEqual(calls.map(() => undefined));
  });
});

describe("the time in a reply of another shape", () => {
  const deadlineOf = ({ args }: Asked) => argvOf(args)[1]!;

  it.each([
    ["nothing", array(1)],
    ["a text", array(1, "odd")],
    ["the far future", array(2, 9e15, 1, 1, 5)],
  ])(
    "%s: is not believed; the next script is told a deadline that means something, or none",
    async (_, answer) => {
      const { decide } = limiterOn(server.url);
      server.state.script = () => answer;
      expect((await decide()).degraded).toEqual({ rule: "open", reason: "unknown" });
      server.state.script = granted;
      expect((await decide()).degraded).toBeUndefined();
      const deadline = deadlineOf(server.asked("EVALSHA").at(-1)!);
      expect(deadline).toMatch(/^\d*$/);
      expect(Number(deadline)).toBeLessThan(nowUs() + 60_000_000);
    },
  );
});

describe("a server that is not ready when we connect", () => {
  it("is still loading: the rule answers in time, and what it answered is not charged later", async () => {
    server.state.info = bulk("redis_version:7.2.4\r\nloading:1\r\nloading_eta_seconds:1\r\n");
    const { decisions, told, limiter, decide } = limiterOn(server.url, { timeoutMs: 50 });
    expect(outcomes(await decisions(20))).toEqual({ timeout: 20 });
    server.state.info = bulk("redis_version:7.2.4\r\nloading:0\r\n");
    await eventually("its recovery is told of", () => told("recovered").length > 0);
    expect((await decide()).degraded).toBeUndefined();
    expect(told("storeError")).toHaveLength(1);
    await limiter.close();
    // What would have been charged: every check that does not only look.
    const charging = server.asked("EVALSHA").filter(({ args }) => !argvOf(args).includes("p"));
    expect(charging.map(({ args }) => argvOf(args)[3])).toEqual(["1"]);
  });

  it.each([
    ["NOAUTH", "denied", "-NOAUTH HELLO must be called with the client already authenticated\r\n"],
    ["WRONGPASS", "denied", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"],
    ["an error", "connection", `-ERR odd ${KEY}\r\n`],
  ])("answers its greeting with %s: %s, told of once, until it is well", async (_, reason, answer) => {
    const { said } = listening();
    server.state.hello = answer;
    const { decide, told, events } = limiterOn(server.url);
    await eventually("it is known", async () => (await decide()).degraded?.reason === reason);
    await decide();
    const reasons = told("storeError").map((event) => "reason" in event && event.reason);
    expect(reasons.filter((each) => each === reason)).toHaveLength(1);
    server.state.hello = "-NOPROTO unsupported protocol version\r\n";
    await eventually("its recovery is told of", async () => !(await decide()).degraded);
    expect(told("recovered")).toHaveLength(1);
    expectDiscreet(events, said);
  });

  it("lets nobody see INFO: it decides all the same", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    server.state.info = "-NOPERM User x has no permissions to run the 'info' command\r\n";
    const { decide, events } = limiterOn(server.url);
    expect((await decide()).degraded).toBeUndefined();
    expect(events).toEqual([]);
    vi.restoreAllMocks();
  });
});
