import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { countsOf, FOLDER, pictures, runs } from "../../scripts/plots.js";
import { read, sectionOf, tablesOf } from "./markdown.ts";

describe("docs/pictures", async () => {
  const drawn = await pictures();

  it("holds the drawings of scripts/plots.js, and no others", () => {
    const svgs = readdirSync(FOLDER).filter((name) => name.endsWith(".svg"));
    expect(svgs.toSorted()).toEqual(Object.keys(drawn).toSorted());
  });

  it.each(Object.keys(drawn))("%s is what a new run draws, byte for byte, and small", (name) => {
    const committed = read(`docs/pictures/${name}`);
    expect(drawn[name]).toBe(committed);
    expect(Buffer.byteLength(committed)).toBeLessThan(30_000);
    expect(committed).toContain("prefers-color-scheme:dark");
  });

  it("are all shown, and their numbers told rightly, in docs/algorithms.md", async () => {
    const page = sectionOf(read("docs/algorithms.md"), "The same traffic");
    for (const name of Object.keys(drawn)) expect(page).toContain(`](pictures/${name})`);

    const { steady, edge, pause } = await runs();
    const counted = steady!.map(({ policy, answers }, i) => ({
      policy,
      steady: most(answers),
      edge: most(edge![i]!.answers),
      pause: most(pause![i]!.answers),
    }));
    expect(tablesOf(page)[0]).toEqual(counted);
  });
});

const most = (answers: Parameters<typeof countsOf>[0]): string => {
  const { passed, inOneSecond } = countsOf(answers);
  return `${passed}, ${inOneSecond}`;
};
