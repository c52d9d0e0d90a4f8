/** One run as one Markdown document. */
import { show, table } from "./lib/numbers.js";

/** @typedef {{ facts: import("./lib/machine.js").Facts, seconds: number, sections: Record<string, unknown> }} Report */

/**
 * @param {Report} report
 * @param {Record<string, import("./sections/section.js").Section>} sections
 */
export function document({ facts, seconds, sections: results }, sections) {
  const parts = ["# What a decision costs", preface(facts, seconds)];
  /** @type {import("./sections/section.js").Figure[]} */
  const figures = [];
  for (const [name, result] of Object.entries(results)) {
    const section = sections[name];
    if (!section) continue;
    parts.push(`## ${section.title}`, section.show(result));
    figures.push(...section.figures(result));
  }
  parts.push("## Figures to beat", verdicts(figures));
  return `${parts.join("\n\n")}\n`;
}

/**
 * @param {import("./lib/machine.js").Facts} facts
 * @param {number} seconds
 */
function preface({ date, quick, cpu, cores, system, node, redis, pinned, load, packages }, seconds) {
  return [
    `${date.slice(0, 16).replace("T", " ")} UTC, ${quick ? "quick" : "full"}, ${seconds} s.`,
    `${cpu}, ${cores} cores, ${system}, Node ${node}, Redis ${redis} on loopback without persistence; ${pinned}; load average ${load} at the start.`,
    `${packages}.`,
    "Rows of one run compare; numbers of two runs do not.",
  ].join("\n");
}

/** @param {import("./sections/section.js").Figure[]} figures */
function verdicts(figures) {
  return table(
    ["figure", "measured", "must", "goal", "verdict"],
    figures.map((figure) => {
      const { what, measured, must, goal, bound = "most" } = figure;
      const sign = bound === "most" ? "≤" : "≥";
      return [
        what,
        show(measured, digits(measured)),
        `${sign} ${must}`,
        goal === undefined ? "" : `${sign} ${goal}`,
        verdict(figure),
      ];
    }),
  );
}

/** @param {number} measured */
function digits(measured) {
  if (measured >= 100) return 0;
  return measured > 0 && measured < 0.1 ? 5 : 2;
}

/** @param {import("./sections/section.js").Figure} figure */
function verdict({ measured, must, goal, bound = "most" }) {
  const keeps = (/** @type {number} */ limit) => (bound === "most" ? measured <= limit : measured >= limit);
  if (!Number.isFinite(measured)) return "not measured";
  if (!keeps(must)) return "MISSED";
  return goal !== undefined && keeps(goal) ? "goal reached" : "met";
}
