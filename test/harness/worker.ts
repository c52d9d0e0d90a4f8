import { fileURLToPath } from "node:url";

/** A process of its own that runs the built packages: `fork(worker)`. See worker-process.mjs for what it can do. */
export const worker = fileURLToPath(new URL("./worker-process.mjs", import.meta.url));
