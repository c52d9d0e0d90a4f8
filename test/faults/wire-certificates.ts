/** A Redis server that speaks TLS beside plain TCP, with certificates that nobody has signed. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";

interface Certificate {
  readonly file: string;
  readonly key: string;
  readonly text: string;
}

const words = (text: string): string[] => text.split(" ");

/** Signed by itself, for a name. */
function certificateFor(folder: string, name: string): Certificate {
  const [file, key] = [join(folder, `${name}.crt`), join(folder, `${name}.key`)];
  const made = spawnSync("openssl", [
    ...words("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"),
    ...words(`-subj /CN=${name} -addext subjectAltName=DNS:${name}`),
    "-keyout",
    key,
    "-out",
    file,
  ]);
  if (made.status !== 0) throw new Error(`openssl makes no certificate: ${made.stderr.toString()}`);
  return { file, key, text: readFileSync(file, "utf8") };
}

export interface SecureServer extends RedisServer {
  readonly securePort: number;
  readonly certificate: Certificate;
}

export async function startSecureRedis(name: string): Promise<SecureServer> {
  const folder = mkdtempSync(join(tmpdir(), "tidegate-tls-"));
  const certificate = certificateFor(folder, name);
  const securePort = await freePort();
  const { file, key } = certificate;
  const server = await startRedis({
    args: [
      ...words(`--tls-port ${securePort} --tls-auth-clients no`),
      "--tls-cert-file",
      file,
      "--tls-key-file",
      key,
      "--tls-ca-cert-file",
      file,
    ],
  });
  const stop = async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { ...server, stop, securePort, certificate };
}

/** Why there can be no such server on this machine; `undefined` when there can. */
export async function withoutTls(): Promise<string | undefined> {
  if (spawnSync("openssl", ["version"]).error) return "there is no openssl";
  try {
    await (await startSecureRedis("localhost")).stop();
    return undefined;
  } catch (error) {
    if (/tls-port/.test(String(error))) return "redis-server was built without TLS";
    throw error;
  }
}
