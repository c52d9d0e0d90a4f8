/** A process beside Redis that does nothing, and notices how late it is: as late are others there. */
import { answerQuestions } from "../lib/child.js";

const EVERY_MS = 10;

let due = performance.now() + EVERY_MS;
let worst = 0;

setInterval(() => {
  const now = performance.now();
  worst = Math.max(worst, now - due);
  due = now + EVERY_MS;
}, EVERY_MS);

/** Milliseconds, since the last question. */
answerQuestions(() => {
  const late = Math.max(worst, performance.now() - due);
  worst = 0;
  return late;
});
