// Questions to the editor's own language support: TypeScript's, which is part of VS Code.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { testWithFakeServer, waitForAnswer } from "./fakeWorkbench.mjs";

const FILES = {
  "tsconfig.json": "{}\n",
  "cart.ts": "export class Cart {\n  total(): number {\n    return 1;\n  }\n}\n",
  "print.ts": 'import { Cart } from "./cart";\n\nexport function print(cart: Cart) {\n  return cart.total();\n}\n',
};

testWithFakeServer("errors of files that are not open", { files: { ...FILES, "notes.txt": "" } }, async (s, t) => {
  await s.showChat();
  const write = (name, text) => fs.writeFileSync(path.join(s.workspace, name), text);

  // A wait for a report that does not come would exceed the test's time limit.
  await t.test("they are reported at once, also if there are none, for the text on the disk", async () => {
    await s.sendPrompt("reported print.ts");
    await waitForAnswer(s, "reported:  unreported: 0;");
    write("print.ts", FILES["print.ts"].replace("total", "totals"));
    write("new.ts", "export const count: number = true;\n");
    await s.sendPrompt("reported print.ts new.ts");
    const type = "new.ts:1 Type 'boolean' is not assignable to type 'number'.";
    const property = "print.ts:4 Property 'totals' does not exist on type 'Cart'. Did you mean 'total'?";
    await waitForAnswer(s, `reported: ${type}, ${property} unreported: 0;`);
  });

  await t.test("the errors that a file that is not open brings to an open one are reported", async () => {
    write("print.ts", FILES["print.ts"]);
    await s.openFile("print.ts");
    write("cart.ts", FILES["cart.ts"].replace("total", "sum"));
    write("new.ts", "export const count = 1;\n");
    await s.sendPrompt("reported cart.ts new.ts print.ts");
    await waitForAnswer(s, "reported: print.ts:4 Property 'total' does not exist on type 'Cart'. unreported: 0;");
  });

  await t.test("nobody waits for files without language support or that do not exist", async () => {
    await s.sendPrompt("reported notes.txt missing.ts");
    await waitForAnswer(s, "reported: print.ts:4 Property 'total' does not exist on type 'Cart'. unreported: 0;");
    assert.equal(await s.page.locator(".tab").count(), 1);
  });
});

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

  await t.test("the calls of a function, and the functions that it calls, are found across files", async () => {
    assert.equal(await ask("incomingCalls cart.ts 1 2"), "print.ts:3:14");
    assert.equal(await ask("outgoingCalls print.ts 2 16"), "cart.ts:1:2");
  });

  await t.test("a rename returns the edits of all files and makes none", async () => {
    assert.equal(await ask("rename cart.ts 1 2"), "1 in cart.ts, 1 in print.ts, all true");
    assert.equal(s.readFile("cart.ts"), FILES["cart.ts"]);
  });

  await t.test("a rename that also renames a file is refused", async () => {
    assert.match(await ask("rename print.ts 0 24"), /would also create, rename, or delete files/);
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
