/** Clients that obey Retry-After, each against a real server: what they wait is enough, and no more than is needed. */
import { type HeaderOptions, tokenBucket } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Client, clients } from "./clients.ts";
import { type Api, clientOf, type FrameworkName, frameworks, startApi, type Visit } from "./servers.ts";

/** Refusals are of 1 and of 2 seconds: a wait rounded down would be refused again. */
const CAPACITY = 2;
const PER_SECOND = 0.7;
const CALLS = 7;
/** Timers of Node count from a clock of whole milliseconds, so they may ring a part of one early. */
const EARLY_MS = 1;
const TIMEOUT_MS = 90_000;

interface Service {
  readonly framework: FrameworkName;
  readonly mode: string;
  readonly headers: HeaderOptions;
  /** What a refusal says beside its Retry-After of so many seconds. */
  readonly fieldsOf: (wait: number, decidedMs: number) => Readonly<Record<string, string>>;
}

const OF_LIMITS = /^(x-)?ratelimit/;

const legacy = (mode: string, headers: HeaderOptions, fieldsOf: Service["fieldsOf"]): Service => ({
  framework: "Express 5",
  mode,
  headers,
  fieldsOf,
});

const services: Service[] = [
  ...frameworks.map((framework) => ({
    framework,
    mode: "draft-11",
    headers: {},
    fieldsOf: (wait: number) => ({
      "ratelimit-policy": '"calls";q=2;w=3',
      ratelimit: `"calls";r=0;t=${wait}`,
    }),
  })),
  legacy("draft-7", { standard: "draft-7" }, (wait) => ({
    "ratelimit-policy": "2;w=3",
    ratelimit: `limit=2, remaining=0, reset=${wait}`,
  })),
  legacy("draft-6", { standard: "draft-6" }, (wait) => ({
    "ratelimit-policy": "2;w=3",
    "ratelimit-limit": "2",
    "ratelimit-remaining": "0",
    "ratelimit-reset": `${wait}`,
  })),
  legacy("X-RateLimit", { standard: false, x: true }, (wait, decidedMs) => ({
    "x-ratelimit-limit": "2",
    "x-ratelimit-remaining": "0",
    "x-ratelimit-reset": `${Math.ceil(decidedMs / 1000 + wait)}`,
  })),
];

interface Run {
  /** As the client's caller got them. */
  readonly statuses: readonly number[];
  /** As the server saw them, of this client alone. */
  readonly visits: readonly Visit[];
}

const apis: Api[] = [];
/** By service and client. All run at once, since each of them does little but wait. */
const runs = new Map<string, Promise<Run>>();
const keyOf = (service: Service, client: Client): string =>
  [service.framework, service.mode, client.name].join(" · ");

beforeAll(async () => {
  for (const service of services) {
    const calls = tokenBucket({ capacity: CAPACITY, refillPerSecond: PER_SECOND });
    const by = clientOf;
    const api = await startApi(service.framework, { policies: { calls }, by, headers: service.headers });
    apis.push(api);
    for (const client of clients) if (!client.missing) begin(keyOf(service, client), api, client);
  }
});

afterAll(() => Promise.all(apis.map((api) => api.close())));

function begin(key: string, api: Api, client: Client): void {
  const run = callsOf(client, api);
  run.catch(() => {}); // The test of this run tells.
  runs.set(key, run);
}

async function callsOf({ name, get }: Client, { url, visits }: Api): Promise<Run> {
  const statuses: number[] = [];
  for (let i = 0; i < CALLS; i++) statuses.push(await get(url, { "x-client": name }));
  return { statuses, visits: visits.filter(({ client }) => client === name) };
}

/** What a bucket of this policy answers to requests at these moments: the status, and the wait in whole seconds. */
function implied(momentsMs: readonly number[]): [status: number, retryAfter: string | undefined][] {
  let tokens = CAPACITY;
  let last = momentsMs[0]!;
  return momentsMs.map((now) => {
    tokens = Math.min(CAPACITY, tokens + ((now - last) / 1000) * PER_SECOND);
    last = now;
    if (tokens < 1) return [429, String(Math.ceil((1 - tokens) / PER_SECOND))];
    tokens -= 1;
    return [200, undefined];
  });
}

describe.each(services)("$framework, headers of $mode:", (service) => {
  describe.each(clients)("$name", (client) => {
    const runOf = (skip: (note?: string) => never): Promise<Run> =>
      client.missing ? skip(client.missing) : runs.get(keyOf(service, client))!;

    it("gets all its calls through", { timeout: TIMEOUT_MS }, async ({ skip }) => {
      const { statuses } = await runOf(skip);
      expect(statuses).toEqual(Array(CALLS).fill(200));
    });

    it("is refused exactly when the bucket is empty, and told how long that lasts", async ({ skip }) => {
      const { visits } = await runOf(skip);
      const answers = visits.map(({ status, fields }) => [status, fields["retry-after"]]);
      expect(answers).toEqual(implied(visits.map(({ decidedMs }) => decidedMs!)));
      expect(answers.filter(([status]) => status === 429)).toHaveLength(visits.length - CALLS);
      expect(visits.length).toBeGreaterThan(CALLS);
    });

    it("is never refused twice for one call", async ({ skip }) => {
      const { visits } = await runOf(skip);
      const afterRefusals = visits.filter((_, i) => visits[i - 1]?.status === 429);
      expect(afterRefusals.map(({ status }) => status)).not.toContain(429);
      expect(visits.at(-1)!.status).toBe(200);
    });

    it("waits as long as Retry-After says", async ({ skip }) => {
      const { visits } = await runOf(skip);
      visits.forEach(({ status, fields, arrivedMs }, i) => {
        if (status !== 429) return;
        const waitMs = Number(fields["retry-after"]) * 1000;
        expect(visits[i + 1]!.arrivedMs - arrivedMs).toBeGreaterThanOrEqual(waitMs - EARLY_MS);
      });
    });

    it("is told of each refusal in the fields of this mode", async ({ skip }) => {
      const { visits } = await runOf(skip);
      for (const { status, fields, decidedMs } of visits) {
        if (status !== 429) continue;
        const told = Object.entries(fields).filter(([name]) => OF_LIMITS.test(name));
        const expected = service.fieldsOf(Number(fields["retry-after"]), decidedMs!);
        expect(Object.fromEntries(told)).toEqual(expected);
      }
    });
  });
});
