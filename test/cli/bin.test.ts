/** The bin as a process of its own, as it is built. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { ownRedis } from "../harness/http.ts";
import { startSecureRedis } from "../faults/wire-certificates.ts";
import { fileWith } from "./terminal.ts";

const BIN = fileURLToPath(new URL("../../packages/cli/dist/esm/main.js", import.meta.url));
const LIMITS =
  "by: user\nblocking: true\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n";

const tidegate = (words: readonly string[], env: Record<string, string> = {}) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, ...words], {
    encoding: "utf8",
    env: { PATH: process.env["PATH"]!, ...env },
    timeout: 60_000,
    input: "",
  });
  return { code: status, out: stdout, err: stderr };
};

describe("exit codes", () => {
  it("are 0, 1 and 2", async () => {
    const server = await ownRedis();
    const right = fileWith(LIMITS);
    const wrong = fileWith("policies: 3\n");
    const codes = [
      ["check", right],
      ["explain", "user:42", "--policy", right, "--redis", server.url],
      ["doctor", "--redis", server.url],
      ["check", wrong],
      ["check", "/no/such/file"],
      ["explain", "user:42", "--policy", wrong, "--redis", server.url],
      ["reset", "user:42", "--policy", right, "--redis", server.url],
      ["nonsense"],
      ["--help"],
    ].map((words) => tidegate(words).code);
    expect(codes).toEqual([0, 0, 0, 1, 2, 2, 2, 2, 0]);
  }, 120_000);
});

describe("a process", () => {
  it("ends by itself once it has answered: no connection holds it", async () => {
    const server = await ownRedis();
    const { code, out, err } = tidegate(["doctor", "--json"], { REDIS_URL: server.url });
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(JSON.parse(out)).toMatchObject({ ok: true });
    const clients = String(await server.client.client("LIST"))
      .trim()
      .split("\n");
    expect(clients).toHaveLength(1);
  });

  it("is quiet when nobody reads on", () => {
    const line = `"${process.execPath}" "${BIN}" explain --help | head -n 1`;
    const { stdout, stderr, status } = spawnSync("sh", ["-c", line], { encoding: "utf8" });
    expect({ stdout, stderr, status }).toEqual({
      stdout: "Usage: tidegate explain [options] <identity...>\n",
      stderr: "",
      status: 0,
    });
  });

  it("ends with 130 on Ctrl-C while it asks, and has changed nothing", async () => {
    const server = await ownRedis();
    const file = fileWith(LIMITS);
    // A terminal of its own: only there it asks.
    const ask = `
import os, pty, sys, time
pid, fd = pty.fork()
if pid == 0: os.execv(sys.argv[1], sys.argv[1:])
said = b""
while b"[y/N]" not in said: said += os.read(fd, 1000)
os.write(fd, b"\\x03")
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
`;
    const words = [
      process.execPath,
      BIN,
      "block",
      "user:42",
      "--for",
      "1h",
      "--policy",
      file,
      "--redis",
      server.url,
    ];
    const asked = spawn("python3", ["-c", ask, ...words], { stdio: ["ignore", "pipe", "inherit"] });
    let told = "";
    asked.stdout.setEncoding("utf8").on("data", (text: string) => (told += text));
    await once(asked, "close");
    expect(told).toBe("130\n");
    expect(await server.client.dbsize()).toBe(0);
  }, 60_000);

  it("ends with 130 on SIGINT while it waits for a server that says nothing", async () => {
    const silent = createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const file = fileWith(LIMITS);
    const words = [BIN, "explain", "user:42", "--policy", file, "--redis", `redis://127.0.0.1:${port}`];
    const waiting = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "pipe"] });
    const ended = once(waiting, "exit");
    // Whatever keeps it from asking ends it.
    const [socket] = (await Promise.race([once(silent, "connection"), ended])) as [Socket];
    waiting.kill("SIGINT");
    expect(await ended).toEqual([130, null]);
    socket.destroy();
    silent.close();
  }, 60_000);

  it("speaks TLS, and believes the authority that NODE_EXTRA_CA_CERTS names", async () => {
    const server = await startSecureRedis("localhost");
    try {
      const url = `rediss://localhost:${server.securePort}`;
      const file = fileWith(LIMITS);
      const words = ["explain", "user:42", "--policy", file, "--redis", url];
      expect(tidegate(words, { NODE_EXTRA_CA_CERTS: server.certificate.file })).toMatchObject({
        code: 0,
        err: "",
      });
      const { code, out, err } = tidegate(words);
      expect({ code, out }).toEqual({ code: 2, out: "" });
      expect(err).toMatch(/^No answer from rediss:\/\/localhost:\d+: self-signed certificate/);
    } finally {
      await server.stop();
    }
  });
});
