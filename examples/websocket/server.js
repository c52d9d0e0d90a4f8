/**
 * An echo over WebSockets that limits messages: one beyond the limit closes its socket.
 *
 *     REDIS_URL  a Redis to count in; without it, this process's memory
 *     PORT       a port, 8080 by default
 */
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createLimiter, ipOf, tokenBucket, user } from "@tidegate/core";
import { WebSocketServer } from "ws";

/** @import { Config, Decision, Identity, Limiter } from "@tidegate/core" */
/** @import { IncomingMessage } from "node:http" */
/** @import { WebSocket } from "ws" */

const LARGEST_BYTES = 64 * 1024;

/** Close codes. source: RFC 6455 §7.4.1, and IANA's registry of WebSocket close codes */
const POLICY_VIOLATION = 1008;
const TRY_AGAIN_LATER = 1013;

/** Stands for your own sessions. In the query they are easy to try; a cookie would stay out of logs. */
const SESSIONS = new Map([
  ["7f3a", "anna"],
  ["c41d", "ben"],
]);

/**
 * Serves on a port of this machine, a free one by default. What else it is given goes to the limiter.
 *
 * @param {Config & { port?: number }} [options]
 */
export async function serve({ port = 0, ...config } = {}) {
  const limiter = createLimiter({
    prefix: "tidegate-websocket",
    policies: { messages: tokenBucket({ capacity: 20, refillPerSecond: 5 }) },
    ...config,
  });
  const server = new WebSocketServer({ port, host: "127.0.0.1", maxPayload: LARGEST_BYTES });
  server.on("connection", (socket, request) => converse(socket, senderOf(request), limiter));
  await once(server, "listening");
  const address = server.address();
  return {
    port: typeof address === "object" && address ? address.port : port,
    async close() {
      for (const socket of server.clients) socket.terminate();
      server.close();
      await limiter.close();
    },
  };
}

/**
 * Who is counted. A session that nobody knows counts by address, so that inventing some wins nothing.
 *
 * @param {IncomingMessage} request the one that became the socket
 */
function senderOf({ url = "", socket }) {
  const session = new URLSearchParams(url.split("?")[1]).get("session");
  const name = SESSIONS.get(session ?? "");
  return name ? user(name) : ipOf(socket.remoteAddress);
}

/**
 * @param {WebSocket} socket
 * @param {Identity} identity
 * @param {Limiter} limiter
 */
function converse(socket, identity, limiter) {
  socket.on("error", () => {}); // ws closes the socket by itself. Unheard, the error would end the process.
  socket.on("message", async (message, isBinary) => {
    // Until the client closes its side, it may go on sending: that is neither counted nor answered.
    if (socket.readyState !== socket.OPEN) return;
    const decision = await limiter.decide({ identity });
    if (decision.allowed) socket.send(message, { binary: isBinary });
    else refuse(socket, decision);
  });
}

/**
 * @param {WebSocket} socket
 * @param {Decision} decision
 */
function refuse(socket, { retryAfterMs }) {
  // Nobody knows how long when the store could not be asked and `onFailure` is "closed".
  if (retryAfterMs === null) socket.close(TRY_AGAIN_LATER, "try again later");
  else socket.close(POLICY_VIOLATION, `again in ${Math.ceil(retryAfterMs / 1000)} s`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { REDIS_URL, PORT = "8080" } = process.env;
  const server = await serve({ redis: REDIS_URL || undefined, port: Number(PORT) });
  console.log(
    `ws://127.0.0.1:${server.port}/?session=7f3a is anna's; without a session your address counts.`,
  );
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void server.close());
}
