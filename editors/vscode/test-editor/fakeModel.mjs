// A model with an address, for tests that check what the agent sends: it makes the calls it is told to, and keeps their
// results.

import http from "node:http";

export class FakeModel {
  #server = http.createServer((request, response) => this.#answer(request, response));
  #calls = [];
  /** What the agent sent about the last call. */
  result = "";

  async start() {
    await new Promise((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
  }

  stop() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** A server configuration that uses this model. Text appended to it belongs to the agent. */
  get config() {
    const address = `http://127.0.0.1:${this.#server.address().port}/v1`;
    return `[provider.fake]
kind = "openai"
base_url = "${address}"
api_key = "none"
model = "fake"

[agent.default]
provider = "fake"
`;
  }

  /** Answers the next prompt with this call. */
  plan(name, input) {
    this.#calls.push({ name, arguments: JSON.stringify(input) });
  }

  async #answer(request, response) {
    let body = "";
    for await (const chunk of request) body += chunk;
    if (request.url.endsWith("/models")) {
      response.writeHead(200, { "content-type": "application/json" }).end('{"data":[{"id":"fake"}]}');
      return;
    }
    if (!request.url.endsWith("/chat/completions")) {
      response.writeHead(404).end();
      return;
    }
    const last = JSON.parse(body).messages.findLast(({ role }) => role === "user" || role === "tool");
    const isResult = last.role === "tool";
    if (isResult) this.result = typeof last.content === "string" ? last.content : JSON.stringify(last.content);
    const call = isResult ? undefined : this.#calls.shift();
    const delta =
      call === undefined
        ? { content: "That is done." }
        : { tool_calls: [{ index: 0, id: `call_${Date.now()}`, type: "function", function: call }] };
    const send = (choice) => response.write(`data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`);
    response.writeHead(200, { "content-type": "text/event-stream" });
    send({ delta });
    send({ delta: {}, finish_reason: call === undefined ? "stop" : "tool_calls" });
    response.end("data: [DONE]\n\n");
  }
}
