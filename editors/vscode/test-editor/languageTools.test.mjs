// The tools that use language servers, with the real agent and the TypeScript of VS Code. Only the model is simulated.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeModel } from "./fakeModel.mjs";
import { createStepRunner, TIMEOUT_MS, withWorkbench } from "./workbench.mjs";

const FILES = {
  "tsconfig.json": "{}\n",
  "cart.ts": "export class Cart {\n  total(): number {\n    return 1;\n  }\n}\n",
  "print.ts":
    'import { Cart } from "./cart";\n\nexport function print(cart: Cart) {\n  return cart.total();\n}\n\n' +
    "export const old: string = 1;\n",
  "use.ts": 'import { print } from "./print";\n\nexport const shown = [  print(new Cart())];\n',
};

test("language tools of the real agent", { timeout: 6 * TIMEOUT_MS }, async (t) => {
  const model = new FakeModel();
  await model.start();
  t.after(() => model.stop());
  // A busy machine may need longer than usual to find the errors after an edit.
  const config = `${model.config}mode = "full"\ndiagnostics_after_edit = 30\n`;
  await withWorkbench("language tools", { config, files: FILES }, async (s) => {
    const step = createStepRunner(t, s);
    let turns = 0;
    /** Lets the model make a call, and returns what it reads then. */
    async function call(name, input) {
      model.plan(name, input);
      await s.sendPrompt(`call ${name}`);
      turns += 1;
      await s.waitForTurnEnd(turns, "completed");
      return model.result;
    }
    const edit = (path, old_text, new_text) => call("edit_file", { path, edits: [{ old_text, new_text }] });
    await s.showChat();

    await step("it finds symbols, definitions, and references", async () => {
      let symbols = await call("find_symbol", { path: "cart.ts" });
      // A busy machine may need longer to start TypeScript than a question waits.
      for (let tries = 0; tries < 5 && symbols.startsWith("Error: "); tries += 1) {
        symbols = await call("find_symbol", { path: "cart.ts" });
      }
      assert.match(symbols, /cart\.ts:2:.*method total in Cart/s);
      const definition = await call("go_to_definition", { symbol: "total", path: "print.ts" });
      assert.match(definition, /cart\.ts:2: total\(\): number.*documentation\].*Cart\.total\(\): number/s);
      const references = await call("find_references", { symbol: "Cart.total", path: "cart.ts" });
      assert.match(references, /cart\.ts:2: .*\nprint\.ts:4: return cart\.total\(\);.*\n\[2 references in 2 files\]/);
    });

    await step("a rename changes the getter of the named class, or nothing", async () => {
      const content =
        "class Cart {\n  total() {\n    return 1;\n  }\n}\nclass Order {\n  get total() {\n    return 1;\n  }\n}\n" +
        "export const sum = new Cart().total() + new Order().total;\n";
      await call("write_file", { path: "shop.ts", content });
      const rename = (symbol) => call("rename_symbol", { symbol, path: "shop.ts", new_name: "amount" });
      assert.match(await rename("Shop.total"), /shop\.ts has no `Shop\.total`, but `Cart\.total` \(line 2\)/);
      assert.equal(s.readFile("shop.ts"), content);
      assert.match(await rename("Order.total"), /shop\.ts:7: renamed `Order\.total` to `amount` in 2 places of 1 file/);
      assert.equal(s.readFile("shop.ts"), content.replace("get total", "get amount").replace(").total;", ").amount;"));
    });

    await step("the request after an edit of a file in no tab has the new error, and not the old one", async () => {
      const result = await edit("print.ts", "cart.total()", "cart.totals()");
      assert.ok(
        result.includes(
          "The editor reports 1 new error:\nprint.ts:4:15: error: Property 'totals' does not exist on type 'Cart'.",
        ),
        result,
      );
      assert.ok(!result.includes("print.ts:7"), result);
      // The user sees it too.
      await s.at("new-errors").filter({ hasText: "1 new error" }).waitFor();
      await s.view.getByRole("region", { name: "New errors" }).filter({ hasText: "print.ts:4:15" }).waitFor();
      assert.doesNotMatch(await edit("print.ts", "cart.totals()", "cart.total()"), /The editor reports/);
      assert.equal(s.readFile("print.ts"), FILES["print.ts"]);
    });

    await step("an edit that breaks a file in a tab has that file's error", async () => {
      await s.openFile("print.ts");
      assert.match(await edit("cart.ts", "total()", "sum()"), /1 new error:\nprint\.ts:4:15: error: Property 'total'/);
      assert.doesNotMatch(await edit("cart.ts", "sum()", "total()"), /The editor reports/);
    });

    await step("a quick fix of a file in no tab is listed and applied, and the file is formatted", async () => {
      assert.match(await call("fix_code", { path: "use.ts", line: 1 }), /The editor offers no fix for this line\./);
      const offered = await call("fix_code", { path: "use.ts", line: 3 });
      const title = offered.match(/^(Add import .*|Update import .*)$/m)?.[1];
      assert.ok(title !== undefined, offered);
      const fixed = await call("fix_code", { path: "use.ts", line: 3, fix: title });
      assert.ok(fixed.startsWith(`applied \`${title}\`:\nuse.ts (+1 −0 lines)\n--- a/use.ts`), fixed);
      assert.match(s.readFile("use.ts"), /^import \{ Cart \} from "\.\/cart";$/m);
      const formatted = await call("fix_code", { path: "use.ts", fix: "format" });
      assert.match(formatted, /applied `format`:\nuse\.ts \(\+1 −1 lines\)/);
      assert.match(s.readFile("use.ts"), /^export const shown = \[print\(new Cart\(\)\)\];$/m);
      assert.match(await call("fix_code", { path: "use.ts", fix: "format" }), /`format` changes nothing/);
      assert.doesNotMatch(await call("diagnostics", { path: "use.ts" }), /Cannot find name/);
    });

    await step("a quick fix of a file in a tab is applied there", async () => {
      await edit("print.ts", "cart.total()", "cart.totl()");
      const fix = "Change spelling to 'total'";
      assert.match(await call("fix_code", { path: "print.ts", line: 4 }), /offers:\nChange spelling to 'total'/);
      assert.match(await call("fix_code", { path: "print.ts", line: 4, fix }), /applied `Change spelling to 'total'`/);
      assert.equal(s.readFile("print.ts"), FILES["print.ts"]);
    });

    await step("a rename changes all files and brings no errors", async () => {
      const input = { symbol: "Cart.total", path: "cart.ts", new_name: "amount" };
      const result = await call("rename_symbol", input);
      assert.match(result, /renamed `Cart\.total` to `amount` in 2 places of 2 files/);
      assert.doesNotMatch(result, /The editor reports/);
      for (const name of ["cart.ts", "print.ts"]) {
        assert.equal(s.readFile(name), FILES[name].replace("total", "amount"));
      }
    });
  });
});
