/** TLS that cannot be trusted, or is not spoken at all: the rule answers, and nobody is decided for by a stranger. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type SecureServer, startSecureRedis, withoutTls } from "./wire-certificates.ts";
import { charged, expectDiscreet, limiterOn, listening, outcomes, type Subject } from "./wire.ts";

const reason = await withoutTls();
const title = reason ? `TLS (left out: ${reason})` : "TLS";

/** That the rule answers everybody for as long as we look, as for a connection that is not there, and says so once. */
async function expectRefused(subject: Subject, why: string): Promise<void> {
  const { decide, decisions, events, told } = subject;
  await eventually("it is known", async () => (await decide()).degraded?.reason === "connection");
  const before = told("degraded").length;
  for (let i = 0; i < 5; i++) {
    expect(outcomes(await decisions(10))).toEqual({ connection: 10 });
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  expect(told("degraded")).toHaveLength(before + 50);
  expect(told("storeError")).toEqual([
    {
      type: "storeError",
      reason: "connection",
      message: expect.stringMatching(`^there is no connection to Redis \\((${why})\\)$`),
    },
  ]);
  expect(told("recovered")).toEqual([]);
  expectDiscreet(events);
}

// Without TLS in redis-server, or without openssl, there is no server to distrust: that is the machine's doing, and is told.
describe.skipIf(reason !== undefined)(title, () => {
  let server: SecureServer;
  let misnamed: SecureServer;
  beforeAll(async () => {
    [server, misnamed] = await Promise.all([
      startSecureRedis("localhost"),
      startSecureRedis("elsewhere.example"),
    ]);
  });
  afterAll(() => Promise.all([server.stop(), misnamed.stop()]));

  /** A client that trusts what a server shows, if it is of that name. */
  function trusting({ securePort, certificate }: SecureServer): Redis {
    const client = new Redis({
      host: "localhost",
      port: securePort,
      tls: { ca: certificate.text },
      lazyConnect: true,
    });
    client.on("error", () => {});
    onTestFinished(() => client.disconnect());
    return client;
  }

  it("with a certificate that nobody has signed is refused", async () => {
    const { said } = listening();
    const subject = limiterOn(`rediss://localhost:${server.securePort}`);
    await expectRefused(subject, "DEPTH_ZERO_SELF_SIGNED_CERT");
    expect(said.filter((words) => /certificate|ioredis/i.test(JSON.stringify(words)))).toEqual([]);
    expect(await charged(server.client, subject)).toBe(0);
  });

  it("with a certificate for another name is refused, though its signer is trusted", async () => {
    await expectRefused(limiterOn(trusting(misnamed)), "ERR_TLS_CERT_ALTNAME_INVALID");
  });

  it.each([
    ["a connection of our own to a client's server", false],
    ["a client that is shared", true],
  ])("with a certificate that is trusted works on %s", async (_, shareConnection) => {
    const subject = limiterOn(trusting(server), { shareConnection });
    expect(outcomes(await subject.decisions(5))).toEqual({ allowed: 5 });
    expect(await charged(server.client, subject)).toBe(5);
    expect(subject.events).toEqual([]);
  });

  it("is asked in plain text: the rule answers", async () => {
    await expectRefused(limiterOn(`redis://localhost:${server.securePort}`), "ECONNRESET|EPIPE");
  });

  it("is asked of a server that speaks plain text: the rule answers", async () => {
    await expectRefused(
      limiterOn(`rediss://localhost:${server.port}`),
      "ETIMEDOUT|ECONNRESET|ERR_SSL_[A-Z_]+",
    );
  });
});
