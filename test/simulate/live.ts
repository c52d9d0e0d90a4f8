/** The same log through the live middleware: Express over HTTP, and the scripts in a real Redis on the log's clock. */
import { Agent, request as httpRequest, type Server } from "node:http";
import type { Config, Decision } from "@tidegate/express";
import type { PastDecision, PastRequest } from "@tidegate/core/simulate";
import express, { type Request, type Response, Router } from "express";
import { onTestFinished } from "vitest";
import { limiting, listening, PATIENT, type useRedis, watchingSettlements } from "../harness/http.ts";
import { expireKeys } from "../harness/pair.ts";

/** How Express reads the patterns of `routes`. */
export function expressPattern(pattern: string): (path: string) => boolean {
  const router = Router();
  router.route(pattern);
  const [layer] = router.stack as unknown as [{ match(path: string): unknown }];
  return (path) => Boolean(layer.match(path));
}

/** A decision as the two ways of making it are compared. */
export function told(decision: PastDecision): unknown {
  return decision.kind === "skip" ? "skip" : { kind: decision.kind, verdicts: verdictsOf(decision.decision) };
}

/** Until when what is in flight may be held depends on how often a process has renewed it. */
const verdictsOf = ({ verdicts }: Decision) =>
  verdicts.map(({ policy, allowed, remaining, nextMs, fullMs, reason }) =>
    policy === "inFlight"
      ? { policy, allowed, remaining, nextMs, reason }
      : { policy, allowed, remaining, nextMs, fullMs, reason },
  );

/** Where a request has got to: it was refused, or it waits in its handler for its end. */
interface Arrival {
  readonly decision: Decision | undefined;
  readonly held: Response | undefined;
}

interface Held {
  readonly endUs: number;
  readonly past: PastRequest;
  readonly response: Response;
  readonly through: Promise<void>;
}

/** Replays a log, each request and each response's end at its own moment, and says what was decided. */
export async function replayed(
  redis: ReturnType<typeof useRedis>,
  config: Config<Request, Response>,
  log: readonly PastRequest[],
): Promise<PastDecision[]> {
  const watched = watchingSettlements(redis.store);
  const limit = limiting({ ...PATIENT, ...config, store: watched.store });
  const arrivals = new Map<string, (arrival: Arrival) => void>();
  const app = express();
  app.set("trust proxy", 1);
  app.use((req, res, next) => {
    const name = req.get("x-test-user");
    if (name !== undefined) (req as { user?: string }).user = name;
    res.once("finish", () => arrived(req, undefined));
    next();
  });
  app.use(limit);
  app.use((req, res) => arrived(req, res));
  const arrived = (req: Request, held: Response | undefined) => {
    arrivals.get(req.get("x-test-id")!)?.({ decision: req.rateLimit, held });
    arrivals.delete(req.get("x-test-id")!);
  };
  const server = listening(app);
  const agent = new Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());

  const held: Held[] = [];
  const decisions: PastDecision[] = [];
  for (const [id, past] of log.entries()) {
    const nowUs = Math.round(past.at * 1000);
    await endUntil(nowUs);
    redis.clock.set(nowUs / 1000);
    await expireKeys(redis as never, "rl", redis.clock);
    const arrival = new Promise<Arrival>((resolve) => arrivals.set(String(id), resolve));
    const through = send(server, agent, past, String(id));
    const { decision, held: response } = await arrival;
    decisions.push(decision ? { kind: response ? "pass" : "refuse", decision } : { kind: "skip" });
    if (response)
      held.push({ endUs: nowUs + Math.round((past.durationMs ?? 0) * 1000), past, response, through });
    else await through;
  }
  await endUntil(Infinity);
  return decisions;

  /** Lets the responses end that had ended by then, the first one first. */
  async function endUntil(nowUs: number): Promise<void> {
    for (;;) {
      const due = held.filter(({ endUs }) => endUs <= nowUs).toSorted((a, b) => a.endUs - b.endUs)[0];
      if (!due) return;
      held.splice(held.indexOf(due), 1);
      redis.clock.set(due.endUs / 1000);
      await expireKeys(redis as never, "rl", redis.clock);
      due.response.status(due.past.status ?? 200).end();
      await due.through;
      await new Promise(setImmediate);
      await watched.through();
    }
  }
}

function send(server: Server, agent: Agent, past: PastRequest, id: string): Promise<void> {
  const { port } = server.address() as { port: number };
  return new Promise((resolve, reject) => {
    const sent = httpRequest(
      {
        port,
        agent,
        host: "127.0.0.1",
        method: past.method ?? "GET",
        path: past.url ?? "/",
        headers: {
          ...past.headers,
          "x-test-id": id,
          ...(past.address !== undefined && { "x-forwarded-for": past.address }),
          ...(past.user !== undefined && { "x-test-user": past.user }),
        },
      },
      (response) => {
        response.resume();
        response.once("end", resolve);
      },
    );
    sent.once("error", reject);
    sent.end();
  });
}
