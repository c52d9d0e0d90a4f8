/** Programs of ours in processes of their own, which answer one question after the other. */
import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * @template Question, Answer
 * @typedef {object} Child
 * @property {(question: Question) => Promise<Answer>} ask one at a time
 * @property {() => Promise<void>} stop
 */

/**
 * @template Question, Answer
 * @param {string} command
 * @param {string[]} args
 * @returns {Child<Question, Answer>}
 */
export function startChild(command, args) {
  const child = spawn(command, args, {
    // Stdout is the report's.
    stdio: ["ignore", 2, 2, "ipc"],
    env: { ...process.env, NODE_ENV: "production" },
  });
  const gone = new Promise((resolve) => child.once("exit", resolve));
  const lost = gone.then((code) => Promise.reject(new Error(`${args.join(" ")} ended by itself: ${code}`)));
  lost.catch(() => {});
  return {
    async ask(question) {
      const answered = once(child, "message");
      child.send(/** @type {import("node:child_process").Serializable} */ (question));
      const [answer] = await Promise.race([answered, lost]);
      return answer;
    },
    async stop() {
      if (child.connected) child.disconnect();
      await gone;
    },
  };
}

/**
 * The other side. It ends when the one who asks does, however that ends.
 *
 * @template Question, Answer
 * @param {(question: Question) => Answer | Promise<Answer>} respond
 */
export function answerQuestions(respond) {
  process.on("message", async (question) => {
    process.send?.(await respond(/** @type {Question} */ (question)));
  });
  process.once("disconnect", () => process.exit());
}
