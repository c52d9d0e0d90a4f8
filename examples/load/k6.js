// @ts-nocheck: k6 runs this file, and brings its modules and __ENV.
/**
 * 20 requests a second for 30 s, evenly, however long the answers take. Not run here: the tests of this repository
 * read this file and hold its numbers, but k6 itself is not among them.
 *
 *     k6 run k6.js
 *     k6 run -e URL=http://127.0.0.1:8080/ k6.js
 */
import { check } from "k6";
import http from "k6/http";

// Without it, every refusal would be a request that failed.
http.setResponseCallback(http.expectedStatuses(200, 429));

export const options = {
  scenarios: {
    even: {
      executor: "constant-arrival-rate",
      rate: 20,
      timeUnit: "1s",
      duration: "30s",
      preAllocatedVUs: 20,
      maxVUs: 50,
    },
  },
  thresholds: {
    http_req_failed: ["rate<0.01"],
    checks: ["rate==1"],
    // 600 or 601 requests: 159 or 160 pass, give or take 1.
    "http_reqs{status:200}": ["count>=158", "count<=161"],
  },
};

export default function () {
  const { headers } = http.get(__ENV.URL || "http://127.0.0.1:8080/");
  check(headers, { "carries RateLimit": hasRateLimit });
}

/** k6 writes names in letters of its own: this one as `Ratelimit`. */
function hasRateLimit(headers) {
  return Object.keys(headers).some((name) => name.toLowerCase() === "ratelimit");
}
