import { createServer } from "node:net";

/**
 * A port for a server that comes late, or goes and comes back. It is none of those that a system gives to whoever connects
 * somewhere, so that nobody takes it meanwhile.
 */
export async function latePort(): Promise<number> {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 22_000);
    if (await isFree(port)) return port;
  }
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
