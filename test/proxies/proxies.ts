/** nginx and haproxy as a test's own processes, each with its configuration in a folder of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomInt, randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { findProxy } from "../../scripts/proxies.js";
import { ask, type Place, skip } from "./client.ts";

export type ProxyName = "nginx" | "haproxy";

export interface ProxyOptions {
  /** The proxy's own address: where it listens, and from where it asks the next. */
  at: string;
  /** Whom it asks. */
  to: Place;
  /** What it does with requests, in its own words. `X-Forwarded-For` gets one entry more by default. */
  rules?: string;
  /** More for nginx, outside of its server. */
  http?: string;
}

/** Answered by the proxy itself: whoever answers it by the right id is up, and no other program. */
const READY = "/proxy-is-ready";

/** Starts a proxy, until the test is over. */
export async function proxy(name: ProxyName, options: ProxyOptions): Promise<Place> {
  const program = pathOf(name);
  const configOf = name === "nginx" ? nginxConfig : haproxyConfig;
  for (let tries = 5; ; tries--) {
    const place = { host: options.at, port: nextPort() };
    const id = randomUUID();
    try {
      const folder = folderWith(name, configOf(options, place.port, id));
      await run([program, ...argsOf[name](folder)], folder, place, id);
      return place;
    } catch (error) {
      if (tries <= 1) throw error; // Otherwise somebody has this port.
    }
  }
}

/**
 * Below all ports that systems give out by themselves: none of these becomes an application's, of another test perhaps,
 * while we ask there whether our proxy is up.
 */
const PORTS = { first: 10_000, last: 32_000 };
let port = randomInt(PORTS.first, PORTS.last);
const nextPort = (): number => (port = port < PORTS.last ? port + 1 : PORTS.first);

/** Proxies one behind the other, the outermost first. Their addresses are 127.0.9.1, 127.0.9.2 and so on. */
export async function chain(to: Place, ...names: ProxyName[]): Promise<Place> {
  for (let i = names.length; i > 0; i--) to = await proxy(names[i - 1]!, { at: `127.0.9.${i}`, to });
  return to;
}

function nginxConfig({ at, to, rules = APPENDS.nginx, http = "" }: ProxyOptions, port: number, id: string) {
  return `
    daemon off;
    master_process off; # One process, one id to end.
    pid nginx.pid;
    error_log error.log;
    events { worker_connections 512; }
    http {
      access_log off;
      client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
      uwsgi_temp_path uwsgi; scgi_temp_path scgi;
      ${http}
      server {
        listen ${at}:${port};
        location = ${READY} { return 200 "${id}"; }
        location / {
          proxy_pass http://${"path" in to ? `unix:${to.path}` : `${to.host}:${to.port}`};
          ${"path" in to ? "" : `proxy_bind ${at};`}
          ${rules}
        }
      }
    }`;
}

function haproxyConfig({ at, to, rules = APPENDS.haproxy }: ProxyOptions, port: number, id: string) {
  return `
global
  maxconn 512
defaults
  mode http
  timeout connect 20s
  timeout client 60s
  timeout server 60s
listen proxy
  bind ${at}:${port}
  http-request return status 200 content-type text/plain string ${id} if { path ${READY} }
  ${rules}
  server next ${"path" in to ? `unix@${to.path}` : `${to.host}:${to.port} source ${at}`}
`;
}

/** One more entry: the address of whoever asked. */
export const APPENDS = {
  nginx: "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
  haproxy: "option forwardfor",
};

/** Runs a proxy, until the test is over or it does not come up. Its folder goes with it. */
async function run(command: readonly string[], folder: string, place: Place, id: string): Promise<void> {
  const { child, said, gone } = launch(command);
  const guard = endWithUs(child);
  const stop = async () => {
    child.kill("SIGKILL");
    await gone;
    guard?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  if (await Promise.race([answers(place, id, child), gone])) return onTestFinished(stop);
  await stop();
  throw new Error(`${command.join(" ")} did not start: ${said()}`);
}

function folderWith(name: ProxyName, config: string): string {
  const folder = mkdtempSync(join(tmpdir(), `tidegate-${name}-`));
  writeFileSync(join(folder, "config"), config);
  return folder;
}

const argsOf = {
  nginx: (folder: string) => ["-p", folder, "-c", "config"],
  haproxy: (folder: string) => ["-db", "-f", join(folder, "config")],
};

function launch([program, ...args]: readonly string[]) {
  const child = spawn(program!, args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk) => (said = `${said}${chunk}`.slice(-2000)));
  const gone = new Promise<false>((resolve) => {
    child.once("exit", () => resolve(false));
    child.once("error", () => resolve(false));
  });
  return { child, said: () => said, gone };
}

/** A shell that waits for our end, also by SIGKILL, and then ends the proxy. */
function endWithUs({ pid }: ChildProcess): ChildProcess | undefined {
  if (pid === undefined) return undefined;
  const guard = spawn("sh", ["-c", `read -r _; kill -9 ${pid}`], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true, // Ctrl-C is for us; the guard goes after.
  });
  guard.on("error", () => {});
  guard.stdin.on("error", () => {});
  guard.unref();
  (guard.stdin as unknown as { unref(): void }).unref();
  return guard;
}

/** Waits until the proxy answers, or is gone. */
async function answers(place: Place, id: string, child: ChildProcess): Promise<boolean> {
  while (child.exitCode === null && child.signalCode === null) {
    const answer = await ask(place, { path: READY }).catch(() => undefined);
    if (answer?.body === id) return true;
    await sleep(10);
  }
  return false;
}

/** Without a proxy its tests are skipped, and the reason stands in the report. On Debian `npm test` installs it. */
function pathOf(name: ProxyName): string {
  const path = findProxy(name);
  if (path) return path;
  const reason = `${name} is not installed`;
  if (existsSync("/etc/debian_version")) throw new Error(`${reason}: npm test does that`);
  return skip(reason);
}
