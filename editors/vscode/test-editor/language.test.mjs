// Questions to the editor's own language support: TypeScript's, which is part of VS Code.

import assert from "node:assert/strict";
import { testWithFakeServer, waitForAnswer } from "./fakeWorkbench.mjs";

const FILES = {
  "tsconfig.json": "{}\n",
  "cart.ts": "export class Cart {\n  total(): number {\n    return 1;\n  }\n}\n",
  "print.ts": 'import { Cart } from "./cart";\n\nexport function print(cart: Cart) {\n  return cart.total();\n}\n',
};

testWithFakeServer("language queries", { files: FILES }, async (s, t) => {
  await s.showChat();

  /** Asks like the server, and returns the answer as the fake server words it. */
  async function ask(question) {
    const answers = s.at("assistant").filter({ hasText: "language: " });
    const count = await answers.count();
    await s.sendPrompt(`language ${question}`);
    await answers.nth(count).waitFor();
    return (await answers.nth(count).textContent()).match(/language: (.*);/)[1];
  }

  await t.test("the symbols of a file that is not open are listed with what contains them", async () => {
    assert.equal(await ask("documentSymbols cart.ts"), "5 .Cart cart.ts:0:0, 6 Cart.total cart.ts:1:2");
  });

  await t.test("a definition and all references are found across files", async () => {
    assert.equal(await ask("definition print.ts 3 14"), "cart.ts:1:2");
    assert.equal(await ask("references cart.ts 1 2"), "cart.ts:1:2, print.ts:3:14");
  });

  await t.test("a rename returns the edits of all files and makes none", async () => {
    assert.equal(await ask("rename cart.ts 1 2"), "1 in cart.ts, 1 in print.ts, all true");
    assert.equal(s.readFile("cart.ts"), FILES["cart.ts"]);
  });

  await t.test("the errors that an edit brings are reported once TypeScript has read it", async () => {
    await s.openFile("print.ts");
    await s.sendPrompt("errors print.ts");
    await waitForAnswer(s, "errors: print.ts Type 'number' is not assignable to type 'string'.;");
  });

  await t.test("a symbol of the workspace is found by its name", async () => {
    assert.match(await ask("workspaceSymbols Cart"), /5 \.Cart cart\.ts:0:0/);
  });
});
