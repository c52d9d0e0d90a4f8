/**
 * A chapter of the report.
 *
 * @template [T=any]
 * @typedef {object} Section
 * @property {string} title
 * @property {(run: Run) => Promise<T>} measure
 * @property {(result: T) => string} show
 * @property {(result: T) => Figure[]} figures what it answers of the figures to beat
 *
 * @typedef {object} Run
 * @property {import("../lib/redis.js").Server} redis
 * @property {import("../subjects/subject.js").Subject[]} subjects those of them that were asked for
 * @property {string[]} only what was asked for, by name; nothing: all
 * @property {string | undefined} profile where CPU profiles of limiters go
 * @property {boolean} quick
 * @property {number} depth commands per pipeline
 * @property {(message: string) => void} progress
 *
 * @typedef {object} Figure
 * @property {string} what
 * @property {number} measured NaN when its rows were not asked for
 * @property {number} must
 * @property {number} [goal]
 * @property {"most" | "least"} [bound] which of its bounds `must` and `goal` are; "most" by default
 */
export {};
