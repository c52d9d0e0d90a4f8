/** The packed packages under Jest, where an application has no client for Redis. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { installed } from "../../scripts/published.js";
import { useRoom } from "./site.ts";

const app = useRoom(
  () => installed("jest", { express: "5.3.0", jest: "30.5.2" }, ["@tidegate/core", "@tidegate/express"]),
  ["burst.jest.cjs", "burst.jest.mjs"],
);

interface JestReport {
  numPassedTests: number;
  numFailedTests: number;
  testResults: { message: string; assertionResults: { title: string; status: string }[] }[];
}

/** @param flags of Node: its ESM under Jest is an experiment there, too */
async function jest(file: string, flags: string[] = []): Promise<JestReport> {
  const config = { rootDir: app.room, testMatch: [`**/${file}`], testEnvironment: "node", transform: {} };
  const program = join(app.folder, "node_modules/jest/bin/jest.js");
  const options = [
    "--json",
    "--silent",
    "--watchman=false",
    "--runInBand",
    "--config",
    JSON.stringify(config),
  ];
  const { output } = await app.node([...flags, program, ...options]);
  const json = output.split("\n").find((line) => line.startsWith("{"));
  expect(json, output).toBeDefined();
  return JSON.parse(json!) as JestReport;
}

describe("P34 T3 a user's tests pass under Jest 30", { timeout: 120_000 }, () => {
  it.each([
    ["CommonJS", "burst.jest.cjs", []],
    ["ESM", "burst.jest.mjs", ["--experimental-vm-modules"]],
  ])("in %s: our own matchers, one core, and a cure named where no client is installed", async (...row) => {
    const [, file, flags] = row;
    const { testResults } = await jest(file, flags);
    const results = testResults.flatMap(({ assertionResults }) => assertionResults);
    expect(
      results.map(({ title, status }) => `${title}: ${status}`),
      testResults[0]?.message,
    ).toEqual(["limits a burst: passed", "has one core: passed", "says what is missing for a URL: passed"]);
  });
});
