/** TLS, as the application has set it up. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type SecureServer, startSecureRedis, withoutTls } from "../faults/wire-certificates.ts";
import { eventually } from "../harness/eventually.ts";
import { caller } from "./client-contract.ts";
import { libraries } from "./libraries.ts";

const reason = await withoutTls();

// Without TLS in redis-server, or without openssl, there is nobody to speak it with: that is the machine's doing, and is told.
describe.skipIf(reason !== undefined)(reason ? `TLS (left out: ${reason})` : "TLS", () => {
  let server: SecureServer;
  let stranger: SecureServer;
  beforeAll(async () => {
    [server, stranger] = await Promise.all([startSecureRedis("localhost"), startSecureRedis("localhost")]);
  });
  afterAll(() => Promise.all([server.stop(), stranger.stop()]));

  function opened(library: (typeof libraries)[number], ca: string) {
    const app = library.client({ port: server.securePort, ca });
    const client = app.ours(false);
    onTestFinished(() => client.close());
    return client;
  }

  it.each(libraries)("is spoken by a connection of our own: $name", async (library) => {
    const client = opened(library, server.certificate.text);
    await eventually("it is ready", () => client.state === "ready");
    expect((await caller(client).ask("ping")).reply).toBe("PONG");
  });

  it.each(libraries)(
    "is not spoken with a server that the application does not trust: $name",
    async (library) => {
      const client = opened(library, stranger.certificate.text);
      await eventually("it is down", () => client.state === "down");
      expect(client.trouble).toMatchObject({ code: expect.stringMatching(/CERT|VERIFY/) });
    },
  );
});
