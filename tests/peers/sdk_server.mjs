// An MCP server of the official SDK, which speaks revision 2026-07-28, and older ones unless told otherwise.
//
//   node tests/peers/sdk_server.mjs PACKAGES stdio|http serve|reject
//
// PACKAGES is the folder where tests/run.sh installs the packages of tests/peers/npm. `reject` makes it refuse clients of
// older revisions. Over HTTP it prints its URL on the first line, and the headers of each request to standard error.

import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [packages, transport, older] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(join(packages, "node_modules/@modelcontextprotocol/server/dist", path)));
const { McpServer, acceptedContent, createMcpHandler, fromJsonSchema, inputRequired } = await load("index.mjs");
const { serveStdio } = await load("stdio.mjs");

const object = (properties = {}) => fromJsonSchema({ type: "object", properties });
const text = (said) => ({ content: [{ type: "text", text: said }] });
const form = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
const question = { messages: [{ role: "user", content: { type: "text", text: "Which color?" } }], maxTokens: 50 };

// Over HTTP each request has an instance of its own, so what changes is kept here.
let hasGrown = false;
let announce = () => {};

function makeServer() {
    const server = new McpServer({ name: "sdk", version: "2" }, { capabilities: { tools: { listChanged: true } } });
    const add = (name, properties, run) =>
        server.registerTool(name, { description: name, inputSchema: object(properties) }, run);
    add("echo", { text: { type: "string", "x-mcp-header": "Text" } }, ({ text: said }) => text(`echo ${said}`));
    add("greet", {}, (_, { mcpReq }) => {
        const answer = acceptedContent(mcpReq.inputResponses, "who");
        if (answer) return text(`hello ${answer.name}, ${mcpReq.requestState()}`);
        const asked = inputRequired.elicit({ message: "Who are you?", requestedSchema: form });
        return inputRequired({ inputRequests: { who: asked }, requestState: "as agreed" });
    });
    add("ask_model", {}, (_, { mcpReq }) => {
        const answer = mcpReq.inputResponses?.color;
        if (answer) return text(`the model says ${answer.content.text}`);
        return inputRequired({ inputRequests: { color: inputRequired.createMessage(question) } });
    });
    add("folders", {}, (_, { mcpReq }) => {
        const answer = mcpReq.inputResponses?.folders;
        if (answer) return text(answer.roots.map((root) => root.uri).join());
        return inputRequired({ inputRequests: { folders: inputRequired.listRoots() } });
    });
    add("insist", {}, () => inputRequired({ inputRequests: { folders: inputRequired.listRoots() } }));
    const added = () => add("added", {}, () => text("new"));
    add("grow", {}, () => {
        hasGrown = true;
        // Over stdio, it announces that by itself.
        if (transport === "stdio") added();
        announce();
        return text("grown");
    });
    if (hasGrown) added();
    return server;
}

if (transport === "stdio") {
    serveStdio(makeServer, { legacy: older });
} else {
    const handler = createMcpHandler(makeServer, { legacy: older === "serve" ? "stateless" : "reject" });
    announce = () => handler.notify.toolsChanged();
    const server = createServer(async (request, response) => {
        const chunks = [];
        for await (const chunk of request) chunks.push(chunk);
        const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined;
        console.error(JSON.stringify(request.headers));
        const gone = new AbortController();
        response.on("close", () => gone.abort());
        const answer = await handler.fetch(
            new Request(`http://127.0.0.1${request.url}`, {
                method: request.method,
                headers: request.headers,
                body,
                signal: gone.signal,
            }),
        );
        response.writeHead(answer.status, Object.fromEntries(answer.headers));
        for await (const chunk of answer.body ?? []) response.write(chunk);
        response.end();
    });
    server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
}
