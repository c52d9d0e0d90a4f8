/** The name, or with the first number behind it that makes it another than these. It is one of them from then on. */
export function freeName(name: string, names: Set<string>): string {
  let free = name;
  for (let i = 2; names.has(free.toLowerCase()); i++) free = `${name}-${i}`;
  names.add(free.toLowerCase());
  return free;
}
