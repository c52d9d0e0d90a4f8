/** Names that are longer are nobody's misspelling of an option. */
const LONGEST = 40;

/** ` (did you mean window?)`, or nothing where no name is near. */
export function nearestText(given: string, known: readonly string[]): string {
  if (given.length > LONGEST) return "";
  const most = given.length < 5 ? 1 : 2;
  const away = known.map((name) => distance(given.toLowerCase(), name.toLowerCase()));
  const least = Math.min(...away);
  return least <= most ? ` (did you mean ${known[away.indexOf(least)]}?)` : "";
}

/** How many letters have to be put in, taken away or changed. */
function distance(one: string, other: string): number {
  let before = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const changed = before[j - 1]! + (one[i - 1] === other[j - 1] ? 0 : 1);
      row.push(Math.min(changed, before[j]! + 1, row[j - 1]! + 1));
    }
    before = row;
  }
  return before.at(-1)!;
}
