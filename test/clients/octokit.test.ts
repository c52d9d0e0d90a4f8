/** Octokit's throttling plugin reads no Retry-After on a primary limit: it goes by X-RateLimit-Remaining and -Reset. */
import { fixedWindow, type HeaderOptions } from "@tidegate/core";
import { Octokit } from "@octokit/core";
import { throttling } from "@octokit/plugin-throttling";
import { describe, expect, it } from "vitest";
import { clientOf, type FrameworkName, frameworks, startApi } from "./servers.ts";

const ThrottledOctokit = Octokit.plugin(throttling);

interface Case {
  readonly framework: FrameworkName;
  readonly status: 429 | 403;
  readonly headers: HeaderOptions;
}

/** GitHub answers either status, and the plugin takes either. Its fields do beside the standard's, and alone. */
const cases = frameworks.flatMap((framework): Case[] => [
  { framework, status: 429, headers: { x: true } },
  { framework, status: 403, headers: { standard: false, x: true } },
]);

/** An Octokit of this API that retries whenever the plugin asks, and what the plugin asked about. */
function octokitOf(baseUrl: string) {
  const asked: string[] = [];
  const retry = (kind: string) => () => {
    asked.push(kind);
    return true;
  };
  const throttle = { onRateLimit: retry("primary"), onSecondaryRateLimit: retry("secondary") };
  return { octokit: new ThrottledOctokit({ baseUrl, throttle }), asked };
}

describe.concurrent("@octokit/plugin-throttling", () => {
  it.for(cases)(
    "waits until X-RateLimit-Reset after a $status of $framework, and succeeds",
    { timeout: 60_000 },
    async ({ framework, status, headers }, { onTestFinished }) => {
      const policies = { calls: fixedWindow({ limit: 2, window: "3s" }) };
      const onLimited = () => ({ status });
      const api = await startApi(framework, { policies, by: clientOf, headers, onLimited });
      onTestFinished(() => api.close());
      const { octokit, asked } = octokitOf(api.url.replace(/\/$/, ""));

      for (let i = 0; i < 3; i++) {
        const response = await octokit.request("GET /", { headers: { "x-client": "octokit" } });
        expect(response.status).toBe(200);
      }

      expect(api.visits.map((visit) => visit.status)).toEqual([200, 200, status, 200]);
      expect(asked).toEqual(["primary"]);
      const [, , refusal, retry] = api.visits;
      expect(refusal!.fields["x-ratelimit-remaining"]).toBe("0");
      expect(retry!.arrivedMs).toBeGreaterThanOrEqual(Number(refusal!.fields["x-ratelimit-reset"]) * 1000);
    },
  );
});
