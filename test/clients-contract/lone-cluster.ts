import { eventually } from "../harness/eventually.ts";
import { type RedisServer, type StartOptions, startRedis } from "../harness/redis.ts";
import { latePort } from "./late-port.ts";

/** A Cluster of one server, which tells its address as every server of a larger one does. */
export async function startLoneCluster(options: StartOptions = {}): Promise<RedisServer> {
  const settings = "--cluster-enabled yes --cluster-announce-ip 127.0.0.1 --cluster-port";
  const args = [...settings.split(" "), String(await latePort())];
  const server = await startRedis({ ...options, args });
  await server.client.call("cluster", "addslotsrange", 0, 16383);
  const isWell = async () => /state:ok/.test(String(await server.client.call("cluster", "info")));
  await eventually("the Cluster is well", isWell, 10_000);
  return server;
}
