import { faults } from "./faults.js";
import { http } from "./http.js";
import { latency } from "./latency.js";
import { memory } from "./memory.js";
import { server } from "./server.js";

/** @type {Record<string, import("./section.js").Section>} */
export const sections = { server, latency, memory, http, faults };
