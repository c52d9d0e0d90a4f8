/** An application in a process of its own: `node app.js <file in apps> <Redis URL>`. Tells its port. */
import { once } from "node:events";
import { answerQuestions } from "../lib/child.js";

const [app, redis] = /** @type {[string, string]} */ (process.argv.slice(2));

/** @type {{ serve: import("./limits.js").Serve }} */
const { serve } = await import(`./apps/${app}.js`);
const server = await serve(redis);
if (!server.listening) await once(server, "listening");
// Longer than a run: no visit may meet a connection that is just being closed.
server.keepAliveTimeout = 120_000;

answerQuestions(() => /** @type {import("node:net").AddressInfo} */ (server.address()).port);
