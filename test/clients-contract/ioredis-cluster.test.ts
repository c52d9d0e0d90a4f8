import { clusterClientContract } from "./cluster-contract.ts";
import { ioredisKin, waysOf } from "./libraries.ts";

clusterClientContract(waysOf(ioredisKin));
