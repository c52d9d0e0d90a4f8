import type { Story } from "./story.ts";

/** Every story of every algorithm: a file beside the algorithm is all it takes. */
const files = import.meta.glob<{ stories: Record<string, Story> }>(
  "../../packages/core/src/algorithms/*.story.ts",
  { eager: true },
);

export const stories: [string, Story][] = Object.entries(files).flatMap(([file, { stories }]) => {
  const algorithm = file.split("/").at(-1)!.replace(".story.ts", "");
  return Object.entries(stories).map(([name, story]): [string, Story] => [`${algorithm}: ${name}`, story]);
});
