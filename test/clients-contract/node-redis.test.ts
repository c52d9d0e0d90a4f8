import { scriptClientContract } from "./client-contract.ts";
import { nodeRedisKin, waysOf } from "./libraries.ts";

for (const way of waysOf(nodeRedisKin)) scriptClientContract(way);
