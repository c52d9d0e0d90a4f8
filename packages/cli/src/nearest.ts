import { distance } from "fastest-levenshtein";
import { plain } from "./plain.ts";

/** ` (did you mean …?)`, or nothing where nothing is near. */
export function nearestText(given: string, known: readonly string[]): string {
  const [nearest] = known
    .map((name) => ({ name, away: distance(given.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.away - b.away);
  const most = Math.max(1, Math.floor(given.length / 2));
  return nearest && nearest.away <= most ? ` (did you mean ${plain(nearest.name)}?)` : "";
}
