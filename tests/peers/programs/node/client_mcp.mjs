// The official TypeScript client of the Model Context Protocol: `v1` or `v2`. It does what client_mcp.py does.
import { createInterface } from "node:readline";

const version = process.argv[2];
const { Client } = await import(
  version === "v1" ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client"
);
const { StdioClientTransport } = await import(
  version === "v1" ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio"
);

const say = (told) => process.stdout.write(`${JSON.stringify(told)}\n`);
const client = new Client({ name: "peer", version: "1" });
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  if (asked.command) {
    await client.connect(new StdioClientTransport(asked));
    say((await client.listTools()).tools);
    continue;
  }
  const wanted = { name: asked.tool, arguments: asked.arguments };
  const options = { timeout: 1000 * (asked.within ?? 60) };
  try {
    const result = await (version === "v1"
      ? client.callTool(wanted, undefined, options)
      : client.callTool(wanted, options));
    const structured = result.structuredContent ?? null;
    say({ error: result.isError === true, structured, text: result.content[0].text });
  } catch (error) {
    const late = error.code === -32001 || /timed? ?out/i.test(error.message);
    say(late ? { gave_up: true } : { refused: `${error.code}: ${error.message}` });
  }
}
await client.close();
