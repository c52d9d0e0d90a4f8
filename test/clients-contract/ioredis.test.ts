import { scriptClientContract } from "./client-contract.ts";
import { ioredisKin, waysOf } from "./libraries.ts";

for (const way of waysOf(ioredisKin)) scriptClientContract(way);
