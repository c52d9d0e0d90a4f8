import { afterAll, beforeAll } from "vitest";
import { storeContract } from "../contract/store.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { libraries } from "./libraries.ts";
import { storeSubject } from "./subjects.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

// With ioredis 6, the servers' own tests run it.
for (const library of libraries.slice(1))
  storeContract(`a limiter through ${library.name}`, async () =>
    storeSubject([server], () => library.client(server)),
  );
