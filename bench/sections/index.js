import { cluster } from "./cluster.js";
import { faults } from "./faults.js";
import { flood } from "./flood.js";
import { http } from "./http.js";
import { latency } from "./latency.js";
import { memory } from "./memory.js";
import { inProcess } from "./process.js";
import { server } from "./server.js";
import { throughput } from "./throughput.js";

/** @type {Record<string, import("./section.js").Section>} */
export const sections = {
  server,
  latency,
  throughput,
  flood,
  memory,
  process: inProcess,
  http,
  cluster,
  faults,
};
