/** A server that speaks Redis's protocol and answers what a test tells it: for servers that are not to be had. */
import { createServer, type Socket } from "node:net";

/** The raw reply to a command, by its first word in upper case; `undefined`: an error. */
export type Answers = (command: string, args: readonly string[]) => string | undefined;

export const bulk = (text: string): string => `$${Buffer.byteLength(text)}\r\n${text}\r\n`;

export async function scriptedServer(answers: Answers): Promise<{ url: string; stop(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let text = "";
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      text += chunk;
      for (let command = take(); command; command = take()) {
        socket.write(answers(command[0]!.toUpperCase(), command.slice(1)) ?? "-ERR unknown command\r\n");
      }
    });

    /** The next whole command. */
    function take(): string[] | undefined {
      const head = /^\*(\d+)\r\n/.exec(text);
      if (!head) return undefined;
      let at = head[0].length;
      const words = [];
      for (let i = 0; i < Number(head[1]); i++) {
        const length = /^\$(\d+)\r\n/.exec(text.slice(at));
        if (!length) return undefined;
        at += length[0].length;
        words.push(text.slice(at, at + Number(length[1])));
        at += Number(length[1]) + 2;
        if (text.length < at) return undefined;
      }
      text = text.slice(at);
      return words;
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return {
    url: `redis://127.0.0.1:${port}`,
    stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
