/**
 * Ends .ci/run: one line that counts what the tests and the checks reported.
 *
 *     node scripts/count.js <exit code of the tests> <exit code of the checks>
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./run.js";

const [testsCode, checksCode] = process.argv.slice(2).map(Number);
const tests = read("test-report.json");
const checks = read("check-report.json") ?? { failed: 0, skipped: 0 };

// A test file that could not even load has no tests to count, and is a failure all the same.
const unloaded = (tests?.testResults ?? []).filter(
  (/** @type {{ status: string, assertionResults: unknown[] }} */ file) =>
    file.status === "failed" && file.assertionResults.length === 0,
).length;

const failedTests = atLeastOneIf(testsCode !== 0, (tests?.numFailedTests ?? 0) + unloaded);
const failedChecks = atLeastOneIf(checksCode !== 0, checks.failed);
const passed = tests?.numPassedTests ?? 0;
const failed = failedTests + failedChecks;
const skipped = (tests?.numPendingTests ?? 0) + (tests?.numTodoTests ?? 0) + checks.skipped;

console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed === 0 ? 0 : 1;

/**
 * A run that failed without naming a test (no Redis, an unhandled rejection) still counts.
 *
 * @param {boolean} broken
 * @param {number} count
 */
function atLeastOneIf(broken, count) {
  return broken ? Math.max(1, count) : count;
}

/** @param {string} report */
function read(report) {
  try {
    return JSON.parse(readFileSync(join(root, ".cache", report), "utf8"));
  } catch {
    return undefined;
  }
}
