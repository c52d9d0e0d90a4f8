/** HTTP clients that retry by themselves, as they come: nothing but the retrying itself is switched on. */
import { execFile, spawnSync } from "node:child_process";
import { devNull } from "node:os";
import { promisify } from "node:util";
import axios from "axios";
import axiosRetry from "axios-retry";
import got from "got";
import ky from "ky";
import { Agent, request, RetryAgent } from "undici";

export interface Client {
  readonly name: string;
  /** Why this client cannot be asked here. */
  readonly missing?: string | undefined;
  /** The status that the caller gets, after all retries. */
  readonly get: (url: string, headers: Record<string, string>) => Promise<number>;
}

const agent = new RetryAgent(new Agent());

const undici: Client = {
  name: "undici RetryAgent",
  async get(url, headers) {
    const { statusCode, body } = await request(url, { dispatcher: agent, headers });
    await body.dump();
    return statusCode;
  },
};

// Whatever proxy the machine has set, these tests speak with this machine alone.
const retryingAxios = axios.create({ proxy: false });
axiosRetry(retryingAxios);

const execute = promisify(execFile);

// Without --fail it would write the refusal's body to the file, and could not take it back before the retry.
const CURL = `--disable --noproxy * --silent --show-error --fail --retry 3 --output ${devNull} --write-out %{http_code}`;

const curl: Client = {
  name: "curl --retry",
  missing: whyNoCurl(),
  async get(url, headers) {
    const fields = Object.entries(headers).flatMap(([name, value]) => ["--header", `${name}: ${value}`]);
    const { stdout } = await execute("curl", [...CURL.split(" "), ...fields, url]);
    return Number(stdout);
  },
};

function whyNoCurl(): string | undefined {
  const { stdout, error } = spawnSync("curl", ["--version"], { encoding: "utf8" });
  if (error) return `curl cannot be run here: ${error.message}`;
  const [, major, minor] = /^curl (\d+)\.(\d+)/.exec(stdout) ?? [];
  const old = Number(major) < 7 || (Number(major) === 7 && Number(minor) < 66);
  return old ? `curl ${major}.${minor} does not read Retry-After: 7.66 is the first that does` : undefined;
}

export const clients: readonly Client[] = [
  undici,
  { name: "got", get: async (url, headers) => (await got(url, { headers })).statusCode },
  { name: "ky", get: async (url, headers) => (await ky(url, { headers })).status },
  {
    name: "axios with axios-retry",
    get: async (url, headers) => (await retryingAxios.get(url, { headers })).status,
  },
  curl,
];
