/** Clients with addresses of their own. */
import { type OutgoingHttpHeaders, request } from "node:http";
import { createServer } from "node:net";
import { TestRunner } from "vitest";

/** Where somebody listens. */
export type Place = { host: string; port: number } | { path: string };

export interface Asking {
  /** The client's own address, one of 127.0.0.0/8. */
  from?: string;
  headers?: OutgoingHttpHeaders;
  path?: string;
}

export interface Answer {
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string;
}

/** Sends one request over a connection of its own. */
export function ask(place: Place, { from, headers = {}, path = "/" }: Asking = {}): Promise<Answer> {
  const socket =
    "path" in place ? { socketPath: place.path } : { ...place, ...(from && { localAddress: from }) };
  return new Promise((resolve, reject) => {
    const asked = request({ ...socket, path, headers, agent: false }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (body += chunk));
      response.on("error", reject);
      response.on("end", () =>
        resolve({ status: response.statusCode!, headers: response.headers as Answer["headers"], body }),
      );
    });
    asked.on("error", reject);
    asked.end();
  });
}

/** Sends requests one after the other. */
export async function askAll(place: Place, askings: readonly Asking[]): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const asking of askings) answers.push(await ask(place, asking));
  return answers;
}

export const statusOf = ({ status }: Answer): number => status;

/** One request from each of three clients. */
export const threeClients: Asking[] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map((from) => ({ from }));
export const THREE = ["ip:127.0.0.1", "ip:127.0.0.2", "ip:127.0.0.3"];

/** Whether an address is this machine's. Linux has all of 127.0.0.0/8, others have 127.0.0.1 alone. */
export function answersTo(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(0, address, () => server.close(() => resolve(true)));
  });
}

/** Ends the test as one that cannot be run on this machine, for this reason. */
export const skip = (reason: string): never => TestRunner.getCurrentTest()!.context.skip(reason);

/** What clients write into X-Forwarded-For to be somebody else each time. */
const FORGERIES: ((i: number) => string | string[])[] = [
  (i) => `198.51.100.${i}`,
  (i) => `198.51.100.${i}, 203.0.113.${i}`,
  (i) => `198.51.100.${i}, 127.0.9.${i}`, // As if by way of a proxy that is believed.
  (i) => [`198.51.100.${i}`, `203.0.113.${i}, 127.0.9.2`, "127.0.9.1"], // In several lines.
  (i) => `2001:db8:0:${i}::1`,
  (i) => `198.51.100.${i}:${1024 + i}`,
  (i) => `"[2001:db8:0:${i}::1]:443"`,
  (i) => `nobody-${i}, unknown, ,`,
];

/** 40 requests of one client, each with another forged X-Forwarded-For. */
export const forgers: Asking[] = Array.from({ length: 40 }, (_, i) => ({
  from: "127.0.0.2",
  headers: { "X-Forwarded-For": FORGERIES[i % FORGERIES.length]!(i) },
}));

/** How these 40 are answered where the limit is 5 and forging wins nothing. */
export const FIVE_OF_40 = Array.from({ length: 40 }, (_, i) => (i < 5 ? 200 : 429));
