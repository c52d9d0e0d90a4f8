import { clusterClientContract } from "./cluster-contract.ts";
import { nodeRedisKin, waysOf } from "./libraries.ts";

clusterClientContract(waysOf(nodeRedisKin));
